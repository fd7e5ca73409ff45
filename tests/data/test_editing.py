"""A draft on its way to a schema: every open fact is a question, and an answer changes its own line alone."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import understudy
from understudy.data.editing import FILE, TABLE, Draft
from understudy.data.typical import usual_categories
from understudy.errors import SchemaError
from understudy.schema import (
    DISCOVER,
    Binary,
    Categorical,
    Continuous,
    Datetime,
    Integer,
    Ordinal,
    TableSchema,
    open_columns,
    schema_from_toml,
)

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (
    "patient_id;age;country;dose;seen;ok\n"
    "7000001;31;DE;1,25;2001-02-03;ja\n"
    "7000002;87;FR;?;2019-11-30;nein\n"
    "7000003;54;DE;0,5;2007-07-07;ja\n"
)


@pytest.fixture
def draft(tmp_path: Path) -> Draft:
    """The draft of a file with ids, ages, countries, numbers, dates and truths."""
    (tmp_path / "people.csv").write_text(ROWS)
    return Draft.of(tmp_path / "people.csv")


def names(draft: Draft) -> list[str]:
    """What is open."""
    return [one.name for one in draft.questions]


def test_every_open_fact_is_a_question(draft: Draft) -> None:
    """Kinds and spellings from the rows wait to be confirmed, bounds and categories to be filled in; ids are out."""
    assert draft.columns == ("age", "country", "dose", "seen", "ok")
    assert names(draft) == [
        "label", "missing_text", "person", "file.decimal",
        "age.kind", "age.lower", "age.upper", "age.missing",
        "country.kind", "country.categories", "country.missing",
        "dose.kind", "dose.lower", "dose.upper", "dose.missing",
        "seen.kind", "seen.lower", "seen.upper", "seen.unit", "seen.missing",
        "ok.kind", "ok.values", "ok.missing",
    ]  # fmt: skip
    offers = {one.name: one.offer for one in draft.questions}
    assert (offers["age.lower"], offers["age.upper"], offers["dose.lower"]) == ("0", "120", None)
    assert offers["country.categories"] is not None
    assert offers["label"] is None
    assert {one.name for one in draft.questions if one.from_rows} >= {
        "age.kind",
        "file.decimal",
        "missing_text",
    }
    with pytest.raises(SchemaError, match="23 facts are left to fill in: label, missing_text"):
        draft.schema()


def test_answers_make_the_schema_that_they_say(draft: Draft, tmp_path: Path) -> None:
    """A draft with all answers is the schema of these facts, and survives a file."""
    draft.set(TABLE, label="ok", missing_text=["", "?"], person="patient_id").set(FILE, decimal=",")
    draft.set("age", kind="integer", lower=0, upper=120, missing=False)
    draft.set("country", kind="categorical", categories=("DE", "FR"), missing=False)
    draft.set("dose", kind="continuous", lower=0, upper=10, missing=True)
    draft.set("seen", kind="datetime", lower=dt.date(2000, 1, 1), upper=dt.date(2020, 12, 31), unit="day")
    draft.set("seen", missing=False).set("ok", kind="binary", values=["nein", "ja"], missing=False)
    draft.save(tmp_path / "schema.toml")
    schema = Draft.load(tmp_path / "schema.toml").schema()
    assert isinstance(schema, TableSchema)
    assert schema.columns == (
        Integer("age", 0, 120),
        Categorical("country", ("DE", "FR")),
        Continuous("dose", 0, 10, missing=True),
        Datetime("seen", dt.datetime(2000, 1, 1), dt.datetime(2020, 12, 31)),
        Binary("ok", ("nein", "ja")),
    )
    assert (schema.label, schema.missing_text, schema.person) == ("ok", ("", "?"), "patient_id")
    assert (schema.file.separator, schema.file.decimal) == (";", ",")
    assert '# Column "patient_id" is left out' in draft.text


def test_an_answer_changes_its_own_line_alone(draft: Draft) -> None:
    """Comments and other columns stay as they are written."""
    before = draft.text.splitlines()
    after = draft.set("age", lower=0).text.splitlines()
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert [other for _, other in changed] == ["lower = 0"]


def test_another_kind_asks_other_questions(draft: Draft) -> None:
    """Who declares ages as levels is asked for the levels, and no longer for bounds."""
    draft.set("age", kind="ordinal")
    assert [one for one in names(draft) if one.startswith("age.")] == ["age.levels", "age.missing"]
    draft.set("age", levels=["young", "old"], missing=False)
    assert "levels = " in draft.text
    with pytest.raises(SchemaError, match="cannot be 'number'; choose one of continuous"):
        draft.set("age", kind="number")
    assert Ordinal.kind == "ordinal"


def test_impossible_answers_are_refused_and_forgotten(draft: Draft) -> None:
    """A column that cannot be as it is described stays as it was, and the refusal names it."""
    draft.set("age", kind="integer", lower=0, missing=False)
    before = draft.text
    with pytest.raises(SchemaError, match="column 'age': lower must be less than upper"):
        draft.set("age", upper=-1)
    assert draft.text == before
    with pytest.raises(SchemaError, match="no column 'agee'; it has age, country"):
        draft.set("agee", lower=0)


def test_columns_can_be_left_out(draft: Draft) -> None:
    """What is left out is named in a comment and asked for no more; the label's line can go, too."""
    for column in ("country", "dose", "seen", "ok"):
        draft.leave_out(column)
    for question in [one for one in draft.questions if one.name in ("label", "person")]:
        draft.drop(question)
    draft.set(TABLE, missing_text=["?"]).set(FILE, decimal=",")
    draft.set("age", kind="integer", lower=0, upper=120, missing=False)
    assert draft.schema() == TableSchema(
        (Integer("age", 0, 120),),
        missing_text=("?",),
        file=draft.schema().file,  # type: ignore[union-attr]
    )
    assert '# Column "dose" is left out: the curator chose so.' in draft.text


def test_frames_have_drafts(draft: Draft) -> None:
    """`TableSchema.draft(frame)` is a draft that shows in a notebook what is left."""
    frame = pd.DataFrame({"age": [31, 87], "patient_id": [7000001, 7000002], "town": ["Ulm", "Bonn"]})
    made = TableSchema.draft(frame)
    assert isinstance(made, understudy.Draft)
    assert made.columns == ("age", "town")
    assert "facts to fill in" in repr(made)
    page = made._repr_html_()
    assert "age.lower" in page
    for private in ("87", "Ulm", "7000001"):
        assert private not in made.text + page
    del draft


def test_codes_and_images_are_filled_in_alike() -> None:
    """Drafts that are no tables hold their questions in the first lines."""
    frame = pd.DataFrame(
        {"subject_id": [1, 2], "time": ["2020-01-01"] * 2, "code": ["A", "B"], "numeric_value": [1, 2]}
    )
    codes = Draft.of(frame)
    assert names(codes) == ["codes", "unknown", "max_count"]
    codes.set(TABLE, codes=["A", "B"], unknown="drop", max_count=1)
    assert codes.schema() == understudy.CodeSchema(
        ("A", "B"),
        unknown=codes.schema().unknown,
        long=codes.schema().long,  # type: ignore[union-attr]
    )


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("country", "DE"),
        ("Country", "FR"),
        ("birth_country", "ZW"),
        ("icd_chapter", "I00-I99"),
        ("sex", "female"),
    ],
)
def test_standards_are_offered(name: str, one: str) -> None:
    """Names that everybody uses suggest the values of a public standard, each once."""
    found = usual_categories(name)
    assert found is not None
    assert one in found.values
    assert len(set(found.values)) == len(found.values)


def test_other_names_suggest_nothing() -> None:
    """A ward, a town or a landing suggests no list; the list of countries is the standard's 249."""
    countries = usual_categories("country")
    assert countries is not None
    assert len(countries.values) == 249
    assert [usual_categories(name) for name in ("ward", "town", "landing")] == [None] * 3


def test_what_nobody_knows_is_answered_by_discover(tmp_path: Path) -> None:
    """In Python by the word or the value, and by an option of the command line."""
    from typer.testing import CliRunner

    from understudy.cli import app

    pd.DataFrame({"dose": [0.5, 1.5], "town": ["Ulm", "Bonn"]}).to_csv(tmp_path / "a.csv", index=False)
    draft = Draft.of(tmp_path / "a.csv", kinds_are_public=True)
    draft.set("dose", lower=DISCOVER, upper="discover")
    draft.save(tmp_path / "a.toml")
    words = [
        "schema",
        "edit",
        str(tmp_path / "a.toml"),
        "--set",
        "town.categories=discover",
        "--usual",
        "--no-ask",
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    text = (tmp_path / "a.toml").read_text("utf-8")
    assert text.count('= "discover"') == 3
    assert 'or "discover"' in Draft.of(tmp_path / "a.csv").text
    schema = schema_from_toml("\n".join(line for line in text.splitlines() if "FILL IN" not in line))
    assert [column.name for column in open_columns(schema)] == ["dose", "town"]
