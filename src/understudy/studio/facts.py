"""The public facts as a form: what a schema's TOML holds, field by field, complete or not.

The text of the schema is the one truth. The form is read from it and written back into it; what the form does not
know (rules, how files are written) stays as it is. Whether the facts suffice is for the schema itself to say.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w

from understudy.errors import SchemaError, StudioError
from understudy.schema import schema_from_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.studio.workspace import Journey

__all__ = [
    "FIELDS",
    "KINDS",
    "PLAIN_FIELDS",
    "Field",
    "Form",
    "Left",
    "changed",
    "changed_plain",
    "facts_of",
    "left_to_fill",
    "many_of",
    "marks_of",
    "orders_of",
    "shown",
]


class Form(enum.Enum):
    """How a fact is asked for."""

    NUMBER = "number"
    WHOLE = "whole number"
    MOMENT = "moment"
    LIST = "list"
    NUMBERS = "numbers"
    UNIT = "unit"


@dataclass(frozen=True)
class Field:
    """A fact about a column.

    Args:
        name: its key in the schema.
        label: what it is called on the page.
        form: how it is asked for.
        needed: whether the schema cannot do without.
        discoverable: whether "discover" finds it out inside the budget.
    """

    name: str
    label: str
    form: Form
    needed: bool = True
    discoverable: bool = False


_BOUNDS = ("lower", "Least possible"), ("upper", "Greatest possible")


def _bounds(form: Form) -> tuple[Field, ...]:
    return tuple(Field(name, label, form, discoverable=True) for name, label in _BOUNDS)


_SPECIAL = Field("special", "Values that pile up (such as 0, -1)", Form.NUMBERS, needed=False)
FIELDS: dict[str, tuple[Field, ...]] = {
    "continuous": (
        *_bounds(Form.NUMBER),
        Field("decimals", "Decimal places", Form.WHOLE, needed=False),
        Field("step", "All values are multiples of", Form.NUMBER, needed=False),
        _SPECIAL,
    ),
    "integer": (
        *_bounds(Form.WHOLE),
        Field("step", "All values are multiples of", Form.WHOLE, needed=False),
        _SPECIAL,
    ),
    "categorical": (
        Field("categories", "Every value that can occur, one per line", Form.LIST, discoverable=True),
    ),
    "ordinal": (Field("levels", "Every level, lowest first, one per line", Form.LIST),),
    "binary": (
        Field("values", "False and true as the file writes them, one per line", Form.LIST, needed=False),
    ),
    "datetime": (
        *_bounds(Form.MOMENT),
        Field("unit", "Precision", Form.UNIT, needed=False),
    ),
}
KINDS = {
    "continuous": "a number with decimals",
    "integer": "a whole number",
    "categorical": "one of several values",
    "ordinal": "one of several ordered levels",
    "binary": "yes or no",
    "datetime": "a date or moment",
}
PLAIN_FIELDS: dict[str, tuple[Field, ...]] = {
    "images": (
        Field("height", "Height in pixels", Form.WHOLE),
        Field("width", "Width in pixels", Form.WHOLE),
        Field("channels", "Channels: 1 for grey, 3 for colour", Form.WHOLE, needed=False),
        Field("classes", "Names of the classes, one per line", Form.LIST, needed=False),
    ),
    "codes": (
        Field("codes", "Every code that can occur, one per line", Form.LIST),
        Field("max_count", "How often a code counts at most in one record", Form.WHOLE, needed=False),
    ),
}
"""What is asked about images and codes, which have no columns."""
UNITS = ("day", "hour", "minute", "second")
DISCOVER = "discover"


@dataclass(frozen=True)
class Left:
    """What is still to be filled in.

    Args:
        facts: each as "column: what is missing".
        problem: what the schema itself says is wrong, or None.
    """

    facts: tuple[str, ...]
    problem: str | None

    @property
    def complete(self) -> bool:
        """Whether the schema can be used."""
        return not self.facts and self.problem is None


def facts_of(text: str) -> dict[str, Any]:
    """The facts in the text of a schema.

    Raises:
        StudioError: the text is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise StudioError(f"this is no TOML: {problem}.") from problem


def left_to_fill(facts: Mapping[str, Any], journey: Journey | None = None) -> Left:
    """What is missing for a complete schema, and what of a journey's guesses waits for the curator's word."""
    missing = [f"{name}: say that its kind is public" for name in (journey.unconfirmed if journey else ())]
    if journey is not None and journey.spelling_unconfirmed:
        missing.append("say that it is public how cells are written")
    for column in facts.get("columns", ()):
        kind = column.get("kind")
        if kind not in FIELDS:
            missing.append(f"{column.get('name')}: its kind")
            continue
        missing += [
            f"{column.get('name')}: {field.label.lower()}"
            for field in FIELDS[kind]
            if field.needed and column.get(field.name) in (None, [], "")
        ]
    missing += [
        field.label.lower()
        for field in PLAIN_FIELDS.get(facts.get("kind", ""), ())
        if field.needed and not facts.get(field.name)
    ]
    problem = None
    if not missing:
        try:
            schema_from_toml(tomli_w.dumps(dict(facts)))
        except SchemaError as cause:
            problem = str(cause)
    return Left(tuple(missing), problem)


def many_of(facts: Mapping[str, Any]) -> str:
    """What δ and the number of records count."""
    return "persons" if facts.get("person") else "records"


def shown(value: object) -> str:
    """A fact as the text of its field."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(str(one) for one in value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    return str(value)


def changed(facts: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The facts after the form of a table was filled in.

    Args:
        facts: as they were.
        form: the fields by name; those of column number i begin with "i-".

    Raises:
        StudioError: a field cannot be read; it names column and field.
    """
    columns = []
    for place, before in enumerate(facts.get("columns", ())):
        if form.get(f"{place}-use") is None:
            continue
        columns.append(_column(before, {key.removeprefix(f"{place}-"): text for key, text in form.items()}))
    after = {**facts, "columns": columns}
    label = form.get("label", "").strip()
    _put(after, "label", label if label in {column.get("name") for column in columns} else None)
    marks = form.get("missing_text", marks_of(facts)).split()
    if marks != marks_of(facts).split():
        _put(after, "missing_text", ["", *marks] if marks else None)
    _put(after, "rules", _rules(facts, form.get("order", orders_of(facts))) or None)
    _put_person(after, form)
    return after


def changed_plain(facts: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The facts about images or codes after their form was filled in.

    Raises:
        StudioError: a field cannot be read; it is named.
    """
    after = dict(facts)
    for field in PLAIN_FIELDS[facts["kind"]]:
        text = form.get(field.name, "").strip()
        _put(after, field.name, _value(field.label.lower(), text, field) if text else None)
    return after


_ORDER = re.compile(r"(?P<low>.+?)\s*(?P<sign><=?|≤)\s*(?P<high>.+)")


def marks_of(facts: Mapping[str, Any]) -> str:
    """How files write an empty cell, beside nothing at all."""
    return " ".join(filter(None, facts.get("missing_text", ())))


def orders_of(facts: Mapping[str, Any]) -> str:
    """The rules that one column is never greater than another, one per line."""
    return "\n".join(
        f"{one.get('low')} {'<' if one.get('strict') else '<='} {one.get('high')}"
        for one in facts.get("rules", ())
        if one.get("kind") == "inequality"
    )


def _rules(facts: Mapping[str, Any], orders: str) -> list[dict[str, Any]]:
    """The rules with other inequalities; rules of other kinds stay as they are."""
    kept = [one for one in facts.get("rules", ()) if one.get("kind") != "inequality"]
    for line in filter(None, map(str.strip, orders.splitlines())):
        found = _ORDER.fullmatch(line)
        if found is None:
            raise StudioError(f"an order is written as admitted <= discharged, got {line[:60]!r}.")
        strict = {"strict": True} if found["sign"] == "<" else {}
        kept.append(
            {"kind": "inequality", "low": found["low"].strip(), "high": found["high"].strip(), **strict}
        )
    return kept


def _put_person(after: dict[str, Any], form: Mapping[str, str]) -> None:
    persons = [part.strip() for part in form.get("person", "").split(",") if part.strip()]
    _put(after, "person", (persons[0] if len(persons) == 1 else persons) if persons else None)
    most = form.get("max_rows_per_person", "").strip()
    _put(after, "max_rows_per_person", _number("rows per person", most, Form.WHOLE) if most else None)


def _column(before: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    kind = form.get("kind", before.get("kind"))
    name = before.get("name")
    if kind not in FIELDS:
        raise StudioError(f"{name}: choose a kind.")
    own = {field.name for fields in FIELDS.values() for field in fields}
    column = {key: value for key, value in before.items() if key not in own and key != "kind"}
    column = {"kind": kind, **column, "missing": form.get("missing") is not None}
    for field in FIELDS[kind]:
        text = form.get(field.name, "").strip()
        if text:
            column[field.name] = _value(f"{name}: {field.label.lower()}", text, field)
    return column


def _value(what: str, text: str, field: Field) -> object:
    if field.discoverable and text == DISCOVER:
        return DISCOVER
    match field.form:
        case Form.NUMBER | Form.WHOLE:
            return _number(what, text, field.form)
        case Form.NUMBERS:
            return [
                _number(what, part, Form.NUMBER)
                for part in text.replace("\n", ",").split(",")
                if part.strip()
            ]
        case Form.LIST:
            return [line.strip() for line in text.splitlines() if line.strip()]
        case Form.UNIT:
            if text not in UNITS:
                raise StudioError(f"{what} must be one of {', '.join(UNITS)}, got {text!r}.")
            return text
        case Form.MOMENT:
            try:
                return dt.datetime.fromisoformat(text)
            except ValueError as problem:
                raise StudioError(
                    f"{what} must be a date such as 2020-01-31, got {text[:40]!r}."
                ) from problem


def _number(what: str, text: str, form: Form) -> int | float:
    try:
        number = float(text)
    except ValueError as problem:
        raise StudioError(f"{what} must be a number, got {text[:40]!r}.") from problem
    if form is Form.WHOLE:
        if number != int(number):
            raise StudioError(f"{what} must be a whole number, got {text[:40]!r}.")
        return int(number)
    return int(number) if number == int(number) and abs(number) < 2**53 and "." not in text else number


def _put(facts: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        facts.pop(key, None)
    else:
        facts[key] = value
