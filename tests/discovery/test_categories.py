"""Categories that nobody listed: the frequent ones are found, ids are not, and the rest is one category."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.discovery.asking import can_find, discovery_charges
from understudy.discovery.discover import discovered, undescribed_rows
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.errors import SchemaError
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import GaussianThreshold
from understudy.records.encode import encode
from understudy.schema import (
    DISCOVER,
    Categorical,
    CellType,
    CodeSchema,
    Continuous,
    FileFormat,
    Integer,
    Schema,
    TableSchema,
    completes,
    schema_from_toml,
    schema_to_toml,
    with_stand_ins,
)

BUDGET = Budget(2.0, 1e-5)
SCHEMA = TableSchema((Categorical("ward", DISCOVER, missing=True), Integer("other", 0, 1)))


def found_in(cells: object, schema: TableSchema = SCHEMA, seed: int = 0) -> tuple[str, ...]:
    """The categories that a door with the noise of a plan publishes."""
    frame = pd.DataFrame({"ward": cells, "other": 0})
    door = Door(
        undescribed_rows(frame, schema), discovery_charges(schema, BUDGET), SeededNoise(seed), insecure=True
    )
    complete = discovered(door, schema).schema
    assert completes(complete, schema)
    encode(frame, complete)  # whatever was found, every row fits
    return complete.columns[0].categories  # type: ignore[union-attr]


def test_frequent_texts_are_found_and_rare_ones_are_unknown() -> None:
    """In alphabetical order, with the category of all others last."""
    cells = ["surgery"] * 500 + ["medicine"] * 400 + ["rare"] * 5 + [None] * 30 + ["NA"] * 900
    assert found_in(cells) == ("medicine", "surgery", "unknown")


def test_identifiers_are_not_found() -> None:
    """Of a thousand different texts none is published, and the column still can be used."""
    assert found_in([f"id {i}" for i in range(1000)]) == ("unknown",)


def test_numbers_and_truths_are_the_texts_that_encoding_reads() -> None:
    """1, 1.0 and "1.0" are one text, and True is another, as when a row is encoded."""
    assert found_in(pd.Series([1] * 30 + [1.0] * 30 + ["1.0"] * 30, dtype=object)) == ("1", "unknown")
    assert found_in([True] * 300 + [False] * 300) == ("False", "True", "unknown")


def test_the_category_for_the_rest_may_be_named_and_may_occur() -> None:
    """A text of the data that is called like it joins it."""
    schema = TableSchema((Categorical("ward", DISCOVER, unknown="other"), Integer("other", 0, 1)))
    assert found_in(["a"] * 300 + ["other"] * 300, schema) == ("a", "other")


def test_texts_that_files_of_the_schema_cannot_hold_are_unknown() -> None:
    """What was found must be a schema again."""
    schema = TableSchema(SCHEMA.columns, file=FileFormat(encoding="latin-1"))
    assert found_in(["größe"] * 300 + ["尺寸"] * 300, schema) == ("größe", "unknown")


def test_at_most_a_thousand_categories() -> None:
    """The most frequent ones by their noisy counts."""
    cells = np.repeat([f"c{i:04d}" for i in range(1200)], 200)
    assert len(found_in(cells)) == 1001


def test_the_delta_of_all_columns_is_a_tenth_and_the_plan_says_what_is_found() -> None:
    """Every column gets its part, and twice that many people are found nearly always."""
    schema = TableSchema(tuple(Categorical(name, DISCOVER) for name in "abc"))
    charges = discovery_charges(schema, BUDGET)
    deltas = [one.mechanism.delta for one in charges if isinstance(one.mechanism, GaussianThreshold)]
    assert sum(deltas) == pytest.approx(0.1 * BUDGET.delta)
    assert "a category needs about" in str(can_find(charges[0], schema))
    needed = charges[0].mechanism.people_needed()  # type: ignore[union-attr]
    often = [found_in(["a"] * round(needed) + ["b"] * 3, seed=seed) for seed in range(20)]
    assert sum("a" in one for one in often) >= 15
    assert not any("b" in one for one in often)


WRITTEN = """
kind = "table"
label = "ward"

[[columns]]
kind = "categorical"
name = "ward"
categories = "discover"

[[columns]]
kind = "continuous"
name = "income"
lower = 0.0
upper = "discover"

[[columns]]
kind = "datetime"
name = "seen"
lower = "discover"
upper = "discover"
"""


def test_a_schema_with_discover_is_written_and_read() -> None:
    """TOML says "discover", Python takes the text as well, and both come back."""
    schema = schema_from_toml(WRITTEN)
    assert schema_from_toml(schema_to_toml(schema)) == schema
    assert schema_to_toml(schema).count('"discover"') == 4
    assert Continuous("x", "discover", 1.0) == Continuous("x", DISCOVER, 1.0)  # type: ignore[arg-type]
    assert Categorical("x", "discover").categories is DISCOVER  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{kind = "integer", name = "x", lower = "find", upper = 3}', "expected int or 'discover'"),
        ('{kind = "categorical", name = "x", categories = "all"}', "expected a list or 'discover'"),
        (
            '{kind = "datetime", name = "x", lower = "discover", upper = 2020-01-01, unit = "second"}',
            "cannot be told apart",
        ),
        (
            '{kind = "categorical", name = "x", categories = "discover", stored_as = "int8"}',
            "leave stored_as",
        ),
        ('{kind = "continuous", name = "x", lower = 3, upper = "discover", special = [1]}', "lies outside"),
        ('{kind = "ordinal", name = "x", levels = "discover"}', "expected a list"),
    ],
)
def test_what_cannot_be_discovered_is_refused(text: str, message: str) -> None:
    """In words that name the column or the key."""
    with pytest.raises(SchemaError, match=message):
        schema_from_toml(f'kind = "table"\ncolumns = [{text}]')


def test_weights_and_codes_need_their_names() -> None:
    """Nobody can know the share of a class that nobody knows; labels of codes are listed."""
    columns = (Categorical("ward", DISCOVER), Integer("other", 0, 1))
    with pytest.raises(SchemaError, match="label_weights"):
        TableSchema(columns, label="ward", label_weights=(0.5, 0.5))
    with pytest.raises(SchemaError, match="in tables only"):
        CodeSchema(("a", "b"), label=Categorical("ward", DISCOVER))


def test_rows_are_not_encoded_by_a_schema_that_is_not_complete() -> None:
    """The error names the column and says what to do."""
    with pytest.raises(SchemaError, match="'ward': categories are to be discovered"):
        encode(pd.DataFrame({"ward": ["a"], "other": [0]}), SCHEMA)


def test_only_the_open_facts_may_be_filled_in() -> None:
    """A complete schema that differs elsewhere, or is not complete, does not complete the declared one."""
    complete = with_stand_ins(SCHEMA)
    assert isinstance(complete, TableSchema)
    assert completes(complete, SCHEMA)
    others: list[Schema] = [
        SCHEMA,
        TableSchema((*complete.columns[:1], Integer("other", 0, 2))),
        TableSchema((Categorical("ward", ("a", "b"), missing=True), complete.columns[1])),
        TableSchema((Categorical("ward", ("1", "2"), stored_as=CellType.INT8), complete.columns[1])),
        TableSchema(complete.columns[:1]),
        CodeSchema(("a", "b")),
    ]
    assert not any(completes(other, SCHEMA) for other in others)
