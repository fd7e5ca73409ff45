from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.codec import from_json, from_plain, to_json, to_plain
from understudy.errors import SchemaError
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    NumberScale,
    Ordinal,
    Schema,
    TableSchema,
    TimeUnit,
    UnknownCodes,
    load_schema,
    save_schema,
    schema_from_toml,
    schema_to_toml,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLE = TableSchema(
    columns=(
        Continuous("weight", 0.0, 300.0, missing=True, decimals=1),
        Integer("age", 0, 120),
        Categorical("town", ("Ulm", "Köln", "other"), unknown="other"),
        Binary("smoker", ("no", "yes"), missing=True),
        Ordinal("grade", ("low", "middle", "high")),
        Datetime("seen", dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1), unit=TimeUnit.HOUR),
    ),
    label="grade",
    label_weights=(0.5, 0.25, 0.25),
    missing_text=("", "?"),
)
SCHEMAS: tuple[Schema, ...] = (
    TABLE,
    ImageSchema(28, 28, 1, tuple("0123456789")),
    ImageSchema(64, 32, 3),
    CodeSchema(("250", "401", "V10"), max_count=9, unknown=UnknownCodes.DROP, label=Binary("dead")),
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.kind)
def test_toml_and_json_both_ways(schema: Schema, tmp_path: Path) -> None:
    """A schema survives being written and read as TOML text, TOML file and JSON."""
    assert schema_from_toml(schema_to_toml(schema)) == schema
    assert from_json(Schema, to_json(schema)) == schema
    save_schema(schema, tmp_path / "schema.toml")
    assert load_schema(tmp_path / "schema.toml") == schema


def test_a_person_can_write_it() -> None:
    """The layout in the documentation is read, with native TOML dates and whole numbers as bounds."""
    text = """
    kind = "table"
    label = "ill"

    [[columns]]
    kind = "continuous"
    name = "weight"
    lower = 0
    upper = 300

    [[columns]]
    kind = "datetime"
    name = "seen"
    lower = 1990-01-01
    upper = 2030-01-01T00:00:00

    [[columns]]
    kind = "binary"
    name = "ill"
    """
    assert schema_from_toml(text) == TableSchema(
        (
            Continuous("weight", 0.0, 300.0),
            Datetime("seen", dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1)),
            Binary("ill"),
        ),
        label="ill",
    )


def test_label_facts() -> None:
    """The label's classes come from its column, and features are the rest in order."""
    assert TABLE.label_classes == ("low", "middle", "high")
    assert [column.name for column in TABLE.features] == ["weight", "age", "town", "smoker", "seen"]
    assert TableSchema((Integer("a", 0, 1),)).label_classes is None
    assert SCHEMAS[1].label_classes == tuple("0123456789")
    assert SCHEMAS[3].label_classes == ("0", "1")


AGE = Integer("age", 0, 120)
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Continuous("a", 1.0, 1.0), "'a': lower must be less than upper"),
    (lambda: Continuous("a", float("nan"), 1.0), "both finite"),
    (lambda: Continuous("a", 0.0, float("inf")), "both finite"),
    (lambda: Continuous("a", -1.7e308, 1.7e308), "overflows"),
    (lambda: Continuous("a", 0.0, 1.0, decimals=13), "decimals must lie between"),
    (lambda: Continuous("a", 0.0, 1.0, step=0.0), "step must be a number above 0"),
    (lambda: Continuous("a", 0.1, 0.9, step=0.5), "holds 1 multiples of the step 0.5"),
    (lambda: Continuous("a", 0.0, 1.0, step=1e-9), "2 to 2\\^24 can be told apart"),
    (lambda: Integer("a", 0, 9, special=(-1,)), "special value -1 lies outside 0 to 9; widen the bounds"),
    (lambda: Integer("a", 0, 9, special=(1, 1)), "more than once"),
    (lambda: Continuous("a", 0.0, 1e300, decimals=2, scale=NumberScale.LOG), "too many magnitudes"),
    (lambda: Continuous("", 0.0, 1.0), "needs a name"),
    (lambda: Continuous(" a", 0.0, 1.0), "needs a name without spaces"),
    (lambda: Integer("a", 2, 1), "lower must be less"),
    (lambda: Integer("a", 0, 10**400), "within ±2\\^53"),
    (lambda: Integer("a", -(2**53) - 1, 0), "within ±2\\^53"),
    (lambda: Datetime("a", dt.datetime(2000, 1, 1, 0, 0, 0, 1), dt.datetime(2001, 1, 1)), "whole seconds"),
    (lambda: Integer("a", 0, 2**24 + 1), "2\\^24 whole numbers.*float32"),
    (lambda: Categorical("a", ("x",)), "at least 2 values, got 1"),
    (lambda: Categorical("a", ("x", "y", "x")), "'x' more than once"),
    (lambda: Categorical("a", ("x", "y"), unknown="z"), "unknown = 'z' is not one of its categories"),
    (lambda: Binary("a", ("x", "x")), "more than once"),
    (lambda: Datetime("a", dt.datetime(2000, 1, 2), dt.datetime(2000, 1, 1)), "must be before"),
    (lambda: Datetime("a", dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 1, 5)), "0 steps of one day"),
    (lambda: Datetime("a", dt.datetime(1900, 1, 1), dt.datetime(2000, 1, 1), TimeUnit.SECOND), "2\\^24"),
    (
        lambda: Datetime("a", dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(2001, 1, 1, tzinfo=dt.UTC)),
        "without time zone",
    ),
    (lambda: TableSchema(()), "at least one column"),
    (lambda: TableSchema((AGE, AGE)), "'age' is declared 2 times"),
    (lambda: TableSchema((AGE,), label="sex"), "label 'sex' is not one of the columns"),
    (lambda: TableSchema((AGE, Integer("b", 0, 1)), label="age"), "must be categorical.*but it is integer"),
    (lambda: TableSchema((AGE, Binary("b", missing=True)), label="b"), "binary with missing values"),
    (lambda: TableSchema((Binary("b"),), label="b"), "no column beside its label"),
    (
        lambda: TableSchema((Categorical("c", ("NA", "EU")),)),
        "'NA' is a category and also means an empty cell",
    ),
    (lambda: TableSchema((AGE,), label_weights=(1.0,)), "no label"),
    (lambda: TableSchema((AGE, Binary("b")), label="b", label_weights=(1.0,)), "1 numbers for 2 classes"),
    (lambda: TableSchema((AGE, Binary("b")), label="b", label_weights=(0.5, 0.6)), "sum to 1"),
    (lambda: TableSchema((AGE, Binary("b")), label="b", label_weights=(1.5, -0.5)), "not negative"),
    (lambda: ImageSchema(0, 8), "between 1 and 4096, got 0 × 8"),
    (lambda: ImageSchema(8, 99999), "between 1 and 4096"),
    (lambda: ImageSchema(8, 8, 2), "channels must be 1"),
    (lambda: ImageSchema(8, 8, 1, ("a", "a")), "more than once"),
    (lambda: CodeSchema(()), "at least one code"),
    (lambda: CodeSchema(("1", "1")), "more than once"),
    (lambda: CodeSchema(("1",), max_count=0), "max_count must lie between"),
    (lambda: CodeSchema(("1",), label=Binary("1")), "has the name of a code"),
    (lambda: CodeSchema(("1",), label=Binary("b", missing=True)), "must not allow missing"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_contradictions_are_refused(make: Callable[[], Any], message: str) -> None:
    """Every contradiction in a schema is a SchemaError that names the column and the value."""
    with pytest.raises(SchemaError, match=message):
        make()


_WORDS = (
    'kind = "table" "images" "codes" [[columns]] name "a" lower upper 0 1e999 nan -inf [ ] { } . , '
    "true 2000-01-01 label classes codes height"
)
_SCRAPS = st.sampled_from((*_WORDS.split(" "), "9" * 400, "\n"))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.lists(_SCRAPS, max_size=25).map(" ".join))
def test_any_text_is_a_schema_or_a_schema_error(text: str) -> None:
    """No text, however odd, makes reading a schema fail in another way."""
    with contextlib.suppress(SchemaError):
        schema_from_toml(text)


_ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "name"]), inner),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_of_a_schema_is_a_schema_or_a_schema_error(data: st.DataObject) -> None:
    """A valid schema with any one value replaced by something odd is read or refused, never a crash."""
    plain: Any = to_plain(data.draw(st.sampled_from(SCHEMAS)))
    target = plain
    while True:
        key: Any = data.draw(
            st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target)))
        )
        inner = target[key]
        if not (isinstance(inner, dict | list) and inner) or data.draw(st.booleans()):
            break
        target = inner
    target[key] = data.draw(_ODD)
    with contextlib.suppress(SchemaError):
        from_plain(Schema, plain)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """Errors of a schema file begin with its path and name the key; so does a file that is not there."""
    path = tmp_path / "broken.toml"
    with pytest.raises(SchemaError, match=r"broken\.toml cannot be read"):
        load_schema(path)
    path.write_text('kind = "table"\n[[columns]]\nkind = "continuous"\nname = "a"\nlower = 0\n')
    with pytest.raises(SchemaError, match=r"broken\.toml: columns\['a'\]\.upper: this key is missing"):
        load_schema(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="not UTF-8"):
        load_schema(path)
