"""Cards of synthetic sets: Croissant's required fields, hubs' front matter, and only what is public."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_images, tiny_plan
from understudy.cli import app
from understudy.errors import ReleaseError
from understudy.release.description import Publication, describe
from understudy.release.release import Release
from understudy.run.fit import fit
from understudy.schema import Categorical, CodeSchema, Datetime, Integer, TableSchema

ABOUT = Publication(
    title='Visits: "synthetic" #1',
    creator="St Elsewhere",
    license="CC-BY-4.0",
    url="https://example.org/visits",
)
OPTIONS = ["--title", ABOUT.title, "--creator", ABOUT.creator, "--license", ABOUT.license, "--url", ABOUT.url]
REQUIRED = {
    "@context",
    "@type",
    "conformsTo",
    "description",
    "license",
    "name",
    "url",
    "creator",
    "datePublished",
}
"""Of every Croissant data set, by the specification's table of required properties; `distribution` beside them."""


@pytest.fixture(scope="module")
def table() -> Release:
    return fit(tiny_frame(), tiny_plan())


@pytest.fixture(scope="module")
def table_folder(table: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table.save(tmp_path_factory.mktemp("table") / "release")


def croissant(folder: Path) -> dict[str, Any]:
    """The metadata beside the records, which hold all that Croissant requires."""
    found = json.loads((folder / "croissant.json").read_text("utf-8"))
    assert found.keys() >= REQUIRED | {"distribution"}
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    ids = [part["@id"] for part in found["distribution"] + found.get("recordSet", [])]
    for records in found.get("recordSet", []):
        for field in records["field"]:
            assert field["@type"] == "cr:Field"
            assert field["dataType"].startswith("sc:")
            source = field["source"]
            assert (source.get("fileObject") or source["fileSet"])["@id"] in ids
            ids.append(field["@id"])
    assert len(set(ids)) == len(ids)
    return dict(found)


def front_matter(folder: Path) -> dict[str, Any]:
    """The first lines of the card; each value is JSON, as YAML allows."""
    _, head, _ = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    lines = [line.partition(": ") for line in head.splitlines() if ": " in line and not line.startswith("- ")]
    return {name.strip(): value if value == "other" else json.loads(value) for name, _, value in lines}


def test_a_table_with_its_card(table_folder: Path, tmp_path: Path) -> None:
    """`sample --card` writes both files beside the rows, and they describe this very file."""
    out = tmp_path / "set" / "rows.csv"
    words = [
        "sample",
        str(table_folder),
        "--rows",
        "50",
        "--out",
        str(out),
        "--label",
        "ill",
        "--card",
        *OPTIONS,
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = croissant(out.parent)
    (file,) = found["distribution"]
    assert file["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert [field["source"]["extract"]["column"] for field in found["recordSet"][0]["field"]] == list(
        pd.read_csv(out)
    )
    assert [field["dataType"] for field in found["recordSet"][0]["field"]][:3] == [
        "sc:Float",
        "sc:Integer",
        "sc:Text",
    ]
    assert found["license"] == "https://spdx.org/licenses/CC-BY-4.0"
    head = front_matter(out.parent)
    assert head["pretty_name"] == ABOUT.title
    assert (head["license"], head["size_categories"], head["data_files"]) == (
        "cc-by-4.0",
        ["n<1K"],
        "rows.csv",
    )
    text = (out.parent / "README.md").read_text("utf-8")
    assert "50 **synthetic** records" in text
    assert "under conditions** (class ill)" in text
    assert "ε = 1.9" in text


def test_only_what_is_public_is_told(table: Release, tmp_path: Path) -> None:
    """The same release and the same records give the same card: nothing else is read, not even the clock."""
    day, texts = dt.date(2026, 1, 2), []
    for name in ("one", "two"):
        path = tmp_path / name / "rows.csv"
        path.parent.mkdir()
        path.write_text("height\n1.5\n")
        describe(table, path, records=1, about=ABOUT, today=day)
        texts.append([(path.parent / file).read_bytes() for file in ("README.md", "croissant.json")])
    assert texts[0] == texts[1]


def test_images_in_a_folder_and_in_an_array(tmp_path: Path) -> None:
    """A folder of images is a set of files with labels from their folders; arrays are one file without fields."""
    release = fit(tiny_images(), tiny_plan(TINY_IMAGES)).save(tmp_path / "release")
    for out in ("a/pictures", "b/pictures.npz"):
        result = CliRunner().invoke(
            app, ["sample", str(release), "--rows", "9", "--out", str(tmp_path / out), "--card", *OPTIONS]
        )
        assert result.exit_code == 0, result.output
    fields = croissant(tmp_path / "a")["recordSet"][0]["field"]
    assert [field["name"] for field in fields] == ["image", "label"]
    assert "recordSet" not in croissant(tmp_path / "b")
    assert front_matter(tmp_path / "a")["data_files"] == "pictures/**"


def test_every_kind_of_column_is_described(table: Release, tmp_path: Path) -> None:
    """Dates, long lists, missing values and odd names have a type and words; headings are those of the file."""
    schema = TableSchema(
        (
            Datetime("=seen", dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
            Categorical("ward no. 1/2", tuple(f"w{n}" for n in range(20))),
            Integer("age", 0, 120, missing=True),
        )
    )
    described = _with_schema(table, schema)
    (tmp_path / "rows.csv").write_text("x\n")
    describe(
        described, tmp_path / "rows.csv", records=1, about=replace(ABOUT, license="https://example.org/terms")
    )
    seen, ward, age = croissant(tmp_path)["recordSet"][0]["field"]
    assert (seen["dataType"], seen["source"]["extract"]["column"]) == ("sc:Date", "'=seen")
    assert ward["description"].endswith("and 8 more")
    assert age["description"] == "a whole number from 0 to 120; may be missing"
    assert front_matter(tmp_path)["license"] == "other"
    codes = _with_schema(table, CodeSchema(("E11", "I10")))
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "rows.csv").write_text("x\n")
    describe(codes, tmp_path / "codes" / "rows.csv", records=1, about=ABOUT)
    assert [field["name"] for field in croissant(tmp_path / "codes")["recordSet"][0]["field"]] == [
        "E11",
        "I10",
    ]


def _with_schema(release: Release, schema: Any) -> Release:
    return replace(
        release,
        card=replace(release.card, plan=replace(release.card.plan, schema=schema), label_weights=None),
    )


def test_what_cannot_be_described_is_refused_before_it_is_drawn(table_folder: Path, tmp_path: Path) -> None:
    """A card that is there already, a missing fact, several sets, and records that are NOT PRIVATE."""
    (tmp_path / "README.md").write_text("mine")
    out = ["--out", str(tmp_path / "rows.csv")]
    taken = CliRunner().invoke(app, ["sample", str(table_folder), *out, "--card", *OPTIONS])
    assert isinstance(taken.exception, ReleaseError)
    assert (tmp_path / "README.md").read_text() == "mine"
    for words in (["--card", *OPTIONS[:-2]], OPTIONS, ["--card", "--sets", "2", *OPTIONS]):
        assert CliRunner().invoke(app, ["sample", str(table_folder), *out, *words]).exit_code == 2
    assert not (tmp_path / "rows.csv").exists()
    seeded = fit(tiny_frame(), tiny_plan(TINY_TABLE), insecure_seed=1)
    with pytest.raises(ReleaseError, match="NOT PRIVATE"):
        describe(seeded, tmp_path / "new" / "rows.csv", records=1, about=ABOUT)


def test_sizes_are_those_of_hubs(table: Release, tmp_path: Path) -> None:
    """The bracket of a size holds it, at its lower end as well."""
    for records, bracket in ((999, "n<1K"), (1000, "1K<n<10K"), (123_456, "100K<n<1M"), (10**12, "1B<n<10B")):
        path = tmp_path / str(records) / "rows.parquet"
        path.parent.mkdir()
        path.write_bytes(np.zeros(1).tobytes())
        describe(table, path, records=records, about=ABOUT)
        assert front_matter(path.parent)["size_categories"] == [bracket]
