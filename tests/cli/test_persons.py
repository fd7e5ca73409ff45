"""A table with several rows per patient through the commands: everywhere the same words for what is protected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tiny import tiny_frame
from understudy.cli import app
from understudy.release.release import Release
from understudy.reporting import report
from understudy.schema import CodeSchema, ImageSchema, load_schema, unit_words

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

SCHEMA = """
kind = "table"
label = "outcome"
person = "patient_id"
max_rows_per_person = 4
row_name = "visit"

[[columns]]
kind = "continuous"
name = "height"
lower = 0.0
upper = 2.0

[[columns]]
kind = "categorical"
name = "outcome"
categories = ["well", "ill"]
"""
WHOLE = "one patient with up to 4 visits"


def run(*words: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A private CSV of sixty patients with one to six visits, and its schema."""
    patients = np.repeat(np.arange(60), np.random.default_rng(0).integers(1, 7, 60))
    frame = tiny_frame(len(patients))[["height", "outcome"]].assign(patient_id=patients)
    frame.to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    return tmp_path


def test_every_text_says_who_is_protected(visits: Path) -> None:
    """Plan, ledger, card, page and README promise it to a patient, and count patients."""
    schema, release, ledger = visits / "visits.toml", visits / "release", visits / "book.db"
    planned = run("plan", "--schema", schema, "--rows", 60, "--epsilon", 3, "--delta", "1e-3").stdout
    assert f"protected         {WHOLE}" in planned
    assert "the noise does not grow with them; further ones are left out" in planned
    assert "60  (rates, δ and counts are of patients, not of visits)" in planned
    registered = run(
        "ledger", "register", "--ledger", ledger, "--dataset", "ward", "--epsilon", 9, "--delta", "1e-3"
    )
    assert registered.exit_code == 0, registered.output
    asked = ["--schema", schema, "--rows", 60, "--epsilon", 3, "--delta", "1e-3", "--steps", 2]
    fitted = run(
        "fit", visits / "visits.csv", *asked, "--out", release, "--ledger", ledger, "--dataset", "ward"
    )
    assert fitted.exit_code == 0, fitted.output
    assert "PRIVATE, for your eyes" not in fitted.output
    assert f"protected: {WHOLE}" in run("ledger", "show", "--ledger", ledger).stdout
    shown = json.loads(run("ledger", "show", "--ledger", ledger, "--dataset", "ward", "--json").stdout)
    assert shown["entries"][0]["unit"] == WHOLE.removeprefix("one ")
    for text in (run("inspect", release).stdout, report(Release.load(release))):
        words = " ".join(text.split())
        assert "any one patient " in words
        assert f"What is protected is {WHOLE}, all of them together" in words
        assert "number of patients" in words.lower()
    assert list(Release.load(release).sample(3).columns) == ["height", "outcome"]  # type: ignore[union-attr]


def test_undeclared_patients_are_told_on_the_screen_only(visits: Path) -> None:
    """Without a declared person, fit warns of repeated ids; nothing that it keeps says so."""
    schema = visits / "visits.toml"
    text = SCHEMA.replace('person = "patient_id"\nmax_rows_per_person = 4\nrow_name = "visit"\n', "")
    schema.write_text(text)
    asked = ["--schema", schema, "--epsilon", 3, "--delta", "1e-3", "--steps", 2, "--out", visits / "release"]
    found = run("fit", visits / "visits.csv", *asked)
    assert (
        "PRIVATE, for your eyes only: values of the column 'patient_id' occur several times" in found.output
    )
    kept = [path for path in visits.rglob("*") if path.is_file() and path.suffix != ".csv"]
    assert kept
    assert not [path for path in kept if b"several times" in path.read_bytes()]


def test_units_of_different_entries_are_not_added_up_in_silence(visits: Path) -> None:
    """A ledger whose entries protect different things says that its total is a promise to none of them."""
    from understudy.ledger.ledger import Ledger
    from understudy.privacy.budget import Budget
    from understudy.privacy.mechanisms import Charge, GaussianRelease

    ledger = visits / "book.db"
    with Ledger(ledger, create=True) as book:
        book.register("ward", Budget(9.0, 1e-3))
        for unit in ("row", "patient with up to 4 visits"):
            book.reserve("ward", [Charge("count", GaussianRelease(5.0))], unit=unit)
    assert "note: these entries protect different things" in run("ledger", "show", "--ledger", ledger).stdout


def test_words_for_persons(visits: Path) -> None:
    """Columns name persons where they can, and records have the names of their kind."""
    schema = load_schema(visits / "visits.toml")
    from dataclasses import replace

    for person, whole in (
        ("PatientID", "patient with up to 4 visits"),
        ("mrn", "person with up to 4 visits"),
        ("customer-no", "customer with up to 4 visits"),
        (("household", "member"), "person with up to 4 visits"),
    ):
        assert unit_words(replace(schema, person=person)).whole == whole
    assert (
        unit_words(replace(schema, row_name=None, max_rows_per_person=1)).whole == "patient with up to 1 row"
    )
    assert unit_words(ImageSchema(4, 4, person="family")).many == "families"
    assert unit_words(CodeSchema(("a",), person="id")).whole == "person with up to 8 records"


def test_published_evaluations_and_scores_count_persons() -> None:
    """A patient with many equal rows moves what an evaluation or a choice among runs publishes as one row would."""
    from understudy.door.door import Door
    from understudy.door.noise import SeededNoise
    from understudy.door.source import Rows
    from understudy.evaluation.layout import Layout
    from understudy.evaluation.queries import MeasureCounts, RightAnswers
    from understudy.records.encode import encode
    from understudy.schema import schema_from_toml

    schema = schema_from_toml(SCHEMA)
    frame = tiny_frame(20)[["height", "outcome"]].assign(patient_id=np.arange(20))
    crowd = pd.DataFrame({"height": 2.0, "outcome": "ill", "patient_id": [99] * 9})

    def guess(features: np.ndarray) -> np.ndarray:
        return np.tile([0.2, 0.8], (len(features), 1))

    layout = Layout.of(schema)  # type: ignore[arg-type]
    for query in (MeasureCounts(schema, 2, layout, guess), RightAnswers(guess)):
        found = []
        for rows in (frame, pd.concat([frame, crowd])):
            door = Door(Rows.of(encode(rows, schema), schema), (), SeededNoise(0), private=False)
            found.append(door.publish("x", query).value)
        moved = float((found[1] - found[0]).norm())
        assert 0.99 * query.sensitivity < moved <= query.sensitivity + 1e-9
