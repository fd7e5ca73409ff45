"""`understudy schema edit`: the facts that a draft leaves open, asked one by one or given by options."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.console import say
from understudy.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.data.editing import Draft, Question

__all__ = ["edit"]

_HELP = (
    "Enter takes what stands in brackets, or leaves the fact open; - leaves the column out; ? shows all that can be "
    "said; q ends. Every answer is saved at once."
)
_LISTS = (
    "categories",
    "levels",
    "values",
    "missing_text",
    "codes",
    "classes",
    "dates",
    "names",
    "true_words",
    "false_words",
)


def edit(
    file: Annotated[Path, typer.Argument(help="The draft, made by `understudy schema draft`.")],
    facts: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A fact: age.lower=0, town.categories=Ulm,Bonn, label=outcome; repeatable."
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Leave this column out of the schema; repeatable.")
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(help="First and last day of the study, for all dates: 2019-01-01..2024-12-31."),
    ] = None,
    usual: Annotated[
        bool,
        typer.Option("--usual", help="Take every fact that is offered as usual, such as ages from 0 to 120."),
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="All that was guessed from the rows is PUBLIC: take it.")
    ] = False,
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask/--no-ask", help="Ask for what is left; in a terminal by default.", show_default=False
        ),
    ] = None,
) -> None:
    """Fill in what a draft leaves open: kinds, bounds, categories, missing marks; a conversation, or all by options.

    Facts are PUBLIC knowledge (a code book, physics, the law), never looked up in the private rows.

    Examples:
        understudy schema edit patients.toml

        understudy schema edit patients.toml --confirm --usual --set dose.upper=500 --set label=outcome --no-ask
    """
    from understudy.data.editing import Draft

    draft = Draft.load(file)
    for column in leave_out or ():
        draft.leave_out(column)
    if confirm:
        _take(draft, lambda one: one.from_rows)
    for fact in facts or ():
        _set(draft, fact)
    if study is not None:
        _set_study(draft, study)
    if usual:
        _take(draft, lambda one: one.offer is not None and not one.from_rows)
    draft.save(file)
    if sys.stdin.isatty() if ask is None else ask:
        _converse(draft, file)
    left = draft.questions
    if left:
        say(f"{file}: {len(left)} facts to fill in: {', '.join(one.name for one in left)}", to_err=True)
    else:
        draft.schema()
        say(
            f"{file} is complete; look whether your data fits: understudy schema check DATA --schema {file}",
            to_err=True,
        )


def _take(draft: Draft, chosen: Callable[[Question], bool]) -> None:
    """Answer questions by what they offer; the kind of a column first, because other questions follow from it."""
    for question in draft.questions:
        if chosen(question) and question.offer is not None:
            _answer(draft, question, question.offer)


def _set(draft: Draft, fact: str) -> None:
    name, equals, text = fact.partition("=")
    place, _, key = name.strip().rpartition(".")
    if not equals or not key:
        raise SchemaError(
            f"--set {fact}: give a fact such as age.lower=0, town.categories=Ulm,Bonn or label=outcome"
        )
    from understudy.data.editing import FILE, TABLE

    if place == "file" and place not in draft.columns:
        place = FILE
    draft.set(place or TABLE, **{key: _value(key, text.strip())})


def _set_study(draft: Draft, study: str) -> None:
    """The bounds of every column of dates that has none yet."""
    first, dots, last = study.partition("..")
    if not dots:
        raise SchemaError(f"--study {study}: give the first and the last day, as in 2019-01-01..2024-12-31")
    bounds = {"lower": _value("lower", first), "upper": _value("upper", last)}
    for question in draft.questions:
        if question.key in bounds and "moment" in question.why:
            draft.set(question.place, **{question.key: bounds[question.key]})


def _converse(draft: Draft, file: Path) -> None:
    """Ask until nothing is left, or nobody answers."""
    say(_HELP)
    later: set[tuple[str, str]] = set()
    study: dict[str, str] = {}
    while True:
        left = [one for one in draft.questions if (one.place, one.key) not in later]
        if not left:
            return
        question = left[0]
        moment = "moment" in question.why
        offer = question.offer or (study.get(question.key) if moment else None)
        try:
            text = typer.prompt(
                _words(question, offer, len(draft.questions)), default="", show_default=False
            ).strip()
        except (typer.Abort, EOFError):
            say("")
            return
        if text == "q":
            return
        if text == "?":
            say(f"{question.why} Offered: {offer or 'nothing'}. {_HELP}")
        elif text == "-":
            draft.leave_out(question.place) if question.place in draft.columns else draft.drop(question)
        elif not text and offer is None:
            later.add((question.place, question.key))
        else:
            try:
                _answer(draft, question, text or offer or "")
            except SchemaError as problem:
                say(f"that cannot be: {problem}")
                continue
            if moment:
                study[question.key] = text or offer or ""
        draft.save(file)


def _words(question: Question, offer: str | None, left: int) -> str:
    shown = "" if offer is None else f" [{offer if len(offer) < 60 else offer[:57] + '...'}]"
    return f"({left} left) {question.name}: {question.why}{shown}"


def _answer(draft: Draft, question: Question, text: str) -> None:
    draft.set(question.place, **{question.key: _value(question.key, text)})


def _value(key: str, text: str) -> Any:
    """What a typed text means for a key: a list, a truth, a number, a day, or a text."""
    if text == "discover" and key in ("lower", "upper", "categories"):
        return text
    if text.startswith(("[", '"')):
        try:
            return json.loads(text)
        except ValueError as cause:
            raise SchemaError(f'{key}: {text} is not a list such as a, b, c or ["a", "b"]') from cause
    if key in _LISTS:
        return [part.strip() for part in text.split(",")]
    if key in ("missing", "header") and text.lower() in ("true", "yes", "y", "false", "no", "n"):
        return text.lower() in ("true", "yes", "y")
    if key in ("lower", "upper", "step", "decimals", "max_count"):
        return _number_or_day(text)
    return text


def _number_or_day(text: str) -> Any:
    for read in (int, float, dt.date.fromisoformat, dt.datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return text
