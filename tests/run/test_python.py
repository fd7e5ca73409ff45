"""`fit` as Python users call it: a frame and a schema, on record, with scikit-learn's manners if they like."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import understudy
from tiny import TINY_TABLE, tiny_frame, tiny_plan
from understudy.errors import BudgetError, CallError, PlanError, ReleaseError, SchemaError
from understudy.ledger.ledger import Ledger
from understudy.privacy.budget import Budget
from understudy.release.release import Release
from understudy.run.record import OWN_DATASET
from understudy.schema import Datetime, Integer, TableSchema, save_schema

FEW = {"epsilon": 2.0, "delta": 1e-3, "steps": 3}


def test_a_frame_and_a_schema_are_enough(caplog: pytest.LogCaptureFixture) -> None:
    """The number of rows stays private, the cost is the one asked for, and a run on no record says so."""
    release = understudy.fit(tiny_frame(300), TINY_TABLE, **FEW)  # type: ignore[arg-type]
    plan = release.card.plan
    assert plan.rows is None
    assert plan.spent is not None
    assert plan.spent.epsilon <= 2
    assert "charged to no ledger" in caplog.text
    assert release.card.ledger_head is None


def test_everything_may_be_a_path(tmp_path: Path) -> None:
    """Schema, data, release, evaluation and report are found by plain strings."""
    frame = tiny_frame(200)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    save_schema(TINY_TABLE, str(tmp_path / "schema.toml"))
    out = str(tmp_path / "release")
    understudy.fit(str(tmp_path / "rows.csv"), str(tmp_path / "schema.toml"), out=out, **FEW)  # type: ignore[arg-type]
    assert len(Release.load(out).sample(5)) == len(understudy.sample(out, 5)) == 5
    found = understudy.evaluate(out, str(tmp_path / "rows.csv"), seeds=(0,), rows=50, workers=1)
    assert "Evaluation" in found._repr_html_()
    assert "<html" in understudy.report(out)
    assert understudy.plan(str(tmp_path / "schema.toml"), epsilon=1, rows=None).schema == TINY_TABLE


def test_a_release_folder_has_its_ledger_beside_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`out` puts a run on record before a row is read, as the command does, and the card names the record."""
    release = understudy.fit(tiny_frame(200), TINY_TABLE, out=tmp_path / "release", **FEW)  # type: ignore[arg-type]
    assert release.card.ledger_head is not None
    assert "charged to no ledger" not in caplog.text
    with Ledger(tmp_path / "release.ledger") as book:
        (entry,) = book.statement(OWN_DATASET).entries
    assert entry.release is not None
    with pytest.raises(ReleaseError, match="exists already"):
        understudy.fit(tiny_frame(200), TINY_TABLE, out=tmp_path / "release", **FEW)  # type: ignore[arg-type]


def test_the_given_ledger_is_charged_and_refuses(tmp_path: Path) -> None:
    """Runs in Python add up in one ledger, and the one that no longer fits draws nothing."""
    path = tmp_path / "spending.ledger"
    with Ledger(path, create=True) as book:
        book.register("patients", Budget(2.2, 1e-3))
    given = {**FEW, "ledger": str(path), "dataset": "patients"}
    understudy.fit(tiny_frame(200), TINY_TABLE, **given)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        understudy.fit(tiny_frame(200), TINY_TABLE, **given)  # type: ignore[arg-type]
    with Ledger(path) as book:
        assert len(book.statement("patients").entries) == 1
    with pytest.raises(PlanError, match="go together"):
        understudy.fit(tiny_frame(200), TINY_TABLE, ledger=path, **FEW)  # type: ignore[arg-type]


def test_a_run_that_fails_leaves_no_record(tmp_path: Path) -> None:
    """Rows that cannot be read give the reservation back, and the ledger that was made for them goes."""
    with pytest.raises(understudy.UnderstudyError):
        understudy.fit("/nowhere.csv", TINY_TABLE, out=tmp_path / "release", **FEW)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_useless_budgets_are_refused_by_public_facts(tmp_path: Path) -> None:
    """The refusal depends on the declared rows alone: other data, or none, gives the same words."""
    words = []
    for rows in (tiny_frame(40), tiny_frame(400, seed=1), "/nowhere.csv"):
        with pytest.raises(PlanError, match="anyway=True") as raised:
            understudy.fit(rows, TINY_TABLE, rows=40, epsilon=0.05, delta=1e-3, out=tmp_path / "release")
        words.append(str(raised.value))
    assert len(set(words)) == 1
    assert list(tmp_path.iterdir()) == []
    release = understudy.fit(
        tiny_frame(40), TINY_TABLE, rows=40, epsilon=0.05, delta=1e-3, steps=3, anyway=True
    )
    assert len(release.sample(3)) == 3


def test_a_synthesizer_has_the_manners_of_scikit_learn(caplog: pytest.LogCaptureFixture) -> None:
    """Parameters are kept as given, cloned, changed and refused as scikit-learn's own do; `fit` returns itself."""
    from sklearn.base import clone

    made = understudy.Synthesizer(TINY_TABLE, **FEW)  # type: ignore[arg-type]
    assert made.get_params()["schema"] is TINY_TABLE
    again = clone(made).set_params(steps=4)  # type: ignore[type-var]
    assert (again.steps, made.steps) == (4, 3)
    with pytest.raises(CallError, match="call fit first"):
        again.sample(10)
    with pytest.raises(CallError, match="no parameter 'stepz'; it has schema, epsilon"):
        again.set_params(stepz=1)
    rows = again.fit(tiny_frame(200)).sample(n_rows=1e2, seed=1)
    assert isinstance(rows, pd.DataFrame)
    assert len(rows) == 100
    assert again.release_.card.plan.steps == 4
    assert repr(made).startswith("Synthesizer(schema=<TableSchema: 5 columns")
    del caplog


def test_the_synthesizer_does_not_import_scikit_learn() -> None:
    """Its manners cost nothing where scikit-learn is not wanted."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import understudy; understudy.Synthesizer; "
    code += "sys.exit('sklearn' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_days_are_bounds() -> None:
    """A `datetime.date` means the first second of that day; what is no moment is refused by the column's name."""
    days = Datetime("day", dt.date(2024, 1, 1), dt.date(2024, 12, 31))  # type: ignore[arg-type]
    assert days == Datetime("day", dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31))
    assert TableSchema((days, Integer("n", 0, 3))).columns[0] == days
    with pytest.raises(SchemaError, match="column 'day': lower must be a date or a moment"):
        Datetime("day", 2024, dt.date(2024, 12, 31))  # type: ignore[arg-type]


def test_what_readers_took_from_a_header_is_told(tmp_path: Path) -> None:
    """The curator sees on which grounds a file was read."""
    tiny_frame(200).to_csv(tmp_path / "rows.csv", index=False, sep=";")
    notes: list[str] = []
    understudy.fit(tmp_path / "rows.csv", tiny_plan(rows=None), on_note=notes.append)
    assert any("is separated by" in note for note in notes), notes


def test_several_rows_per_person_need_one_more_argument() -> None:
    """`person=` makes ε that of a person with all their rows, and the column is neither modelled nor made."""
    frame = tiny_frame(200).assign(patient_id=[number // 2 for number in range(200)])
    release = understudy.fit(frame, TINY_TABLE, person="patient_id", max_rows_per_person=3, **FEW)  # type: ignore[arg-type]
    assert release.schema.person == "patient_id"
    assert release.schema.max_rows_per_person == 3
    rows = release.sample(5)
    assert isinstance(rows, pd.DataFrame)
    assert "patient_id" not in rows
    prospect = release.card.plan.prospect
    assert prospect is not None
    assert "patients per class" in str(prospect)
