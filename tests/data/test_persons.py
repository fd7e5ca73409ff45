"""Whose records are whose, from every kind of source; and people whom nobody declared."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from understudy.data import read
from understudy.data.checking import check
from understudy.data.draft import draft_schema
from understudy.errors import CuratorWarning, DataError, SchemaError
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.run.fit import fit
from understudy.schema import (
    Binary,
    CodeSchema,
    Continuous,
    ImageSchema,
    TableSchema,
    schema_from_toml,
    schema_to_toml,
)
from understudy.synthesizers.marginals.recipe import UNDERSTUDY_TABLES

if TYPE_CHECKING:
    from pathlib import Path

DOSES = TableSchema((Continuous("dose", 0.0, 1.0), Binary("ill", ("no", "yes"))), person="patient_id")
FRAME = pd.DataFrame(
    {"patient_id": ["007", "7", "007", "x"], "dose": [0.0, 0.25, 0.5, 1.0], "ill": ["no", "yes", "no", "no"]}
)
WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


def groups(source: Any, schema: Any) -> list[int]:
    """For each record the number of its person, in the order in which persons appear."""
    persons = encode(read(source, schema), schema).persons
    assert persons is not None
    return [int(number) for number in pd.factorize(persons)[0]]


@pytest.mark.parametrize("ending", WRITERS)
def test_tables_tell_persons_apart(ending: str, tmp_path: Path) -> None:
    """Ids stay text, so that 007 is not 7, in every kind of file; a file without the column reads as before."""
    path = tmp_path / f"doses.{ending}"
    WRITERS[ending](FRAME, path)
    assert groups(path, DOSES) == groups(FRAME, DOSES) == [0, 1, 0, 2]
    WRITERS[ending](FRAME.drop(columns="patient_id"), path)
    assert encode(read(path, DOSES), DOSES).persons is None


def test_wide_codes_tell_persons_apart(tmp_path: Path) -> None:
    """The column beside those of the codes is no unknown code."""
    path = tmp_path / "codes.csv"
    path.write_text("patient_id,a,b\n1,0,1\n2,1,1\n1,1,0\n", encoding="utf-8")
    assert groups(path, CodeSchema(("a", "b"), person="patient_id")) == [0, 1, 0]


def test_archives_of_images_tell_persons_apart(tmp_path: Path) -> None:
    """An array of the schema's name, of numbers or texts; one of another length is refused."""
    schema = ImageSchema(4, 4, person=("clinic", "patient"))
    pixels, clinic = np.zeros((3, 4, 4), np.uint8), np.array(["a", "a", "b"])
    np.savez(tmp_path / "images.npz", images=pixels, clinic=clinic, patient=np.array([1, 1, 1]))
    assert groups(tmp_path / "images.npz", schema) == [0, 0, 1]
    np.savez(tmp_path / "images.npz", images=pixels, clinic=clinic, patient=np.array([1, 1]))
    with pytest.raises(DataError, match="must tell the person of each image"):
        read(tmp_path / "images.npz", schema)


def test_folders_of_images_tell_persons_apart(tmp_path: Path) -> None:
    """persons.csv names the person of each file; a file that it does not name is refused without its name."""
    schema = ImageSchema(4, 4, classes=("cat", "dog"), person="owner")
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / name)
    assert encode(read(tmp_path, schema), schema).persons is None
    listed = tmp_path / "persons.csv"
    listed.write_text("file,owner\ndog/1.png,ann\ncat/2.png,bob\ncat/1.png,ann\n", encoding="utf-8")
    assert groups(tmp_path, schema) == [0, 1, 0]
    listed.write_text("file,owner\ndog/1.png,ann\ncat/1.png,ann\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 2: the cell is empty"):
        read(tmp_path, schema)
    listed.write_text("path,owner\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'file'"):
        read(tmp_path, schema)


def test_what_a_schema_may_say_about_persons() -> None:
    """It comes back from TOML with its number of rows filled in, and contradictions are refused."""
    assert DOSES.max_rows_per_person == 8
    for schema in (DOSES, replace(DOSES, person=("a", "b"), max_rows_per_person=3, row_name="visit")):
        assert schema_from_toml(schema_to_toml(schema)) == schema
    for wrong, why in (
        ({"person": "dose"}, "never modelled"),
        ({"person": ()}, "must name one column"),
        ({"person": ("a", "a")}, "several different ones"),
        ({"person": None, "max_rows_per_person": 2}, "needs person"),
        ({"max_rows_per_person": 0}, "between 1 and 65535"),
        ({"row_name": "<b>visit"}, "must be a word"),
    ):
        with pytest.raises(SchemaError, match=why):
            replace(DOSES, **wrong)


def test_draft_asks_who_is_protected(tmp_path: Path) -> None:
    """A column whose name identifies people is offered as the person, and columns without one ask nothing."""
    path = tmp_path / "doses.csv"
    FRAME.to_csv(path, index=False)
    assert '# person = "patient_id"  # FILL IN: if it tells persons apart' in draft_schema(path)
    assert "add person" in draft_schema(path, from_public=True)
    FRAME.drop(columns="patient_id").to_csv(path, index=False)
    assert "person" not in draft_schema(path).replace("people", "")


def test_check_passes_on_synthetic_rows() -> None:
    """The person is neither ignored nor missed, and its absence is a note."""
    found = check(FRAME, DOSES)
    assert found.fits
    assert not found.ignored
    without = check(FRAME.drop(columns="patient_id"), DOSES)
    assert without.fits
    assert "no column 'patient_id'" in without.notes[0]


def test_fit_warns_of_people_whom_nobody_declared(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Repeated ids give a warning without a value, which is in no log and on no card; single ones give none."""
    schema = replace(DOSES, person=None, max_rows_per_person=None)
    recipe = replace(UNDERSTUDY_TABLES, components=2, steps=1)
    made = plan(schema, epsilon=5.0, delta=1e-3, rows=4, recipe=recipe)
    path = tmp_path / "doses.csv"
    FRAME.to_csv(path, index=False)
    for source in (FRAME, path):
        with pytest.warns(
            CuratorWarning, match="'patient_id' occur several times, and the schema names no person"
        ) as seen:
            release = fit(source, made)
        assert "007" not in str(seen[0].message)
        assert "several times" not in repr(release.card)
    assert "several times" not in caplog.text
    with warnings.catch_warnings():
        warnings.simplefilter("error", CuratorWarning)
        fit(FRAME[1:], made)
        fit(FRAME, replace(made, schema=DOSES))
