"""The utility benchmark: finished cells are kept, limits are written down, and the table says what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import ledger, scale, utility, utility_tables
from benchmarks.rivals import MISSING, RIVALS, made_by
from benchmarks.utility_data import image_set
from benchmarks.utility_systems import PAPERS, REAL, Cell, drawn_ablation, drawn_as, trained_ablation

from understudy.errors import DataError
from understudy.release.release import Release
from understudy.run.progress import progress_bar
from understudy.schema import Binary, Categorical, Continuous, Integer, TableSchema
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES
from understudy.synthesizers.registry import RECIPES


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real data, our recipe and one of the papers' recipes, measured on the digits of scikit-learn."""
    path = tmp_path_factory.mktemp("bench") / "cells.json"
    run(path, "--seeds", "1")
    return path


def run(path: Path, *more: str) -> None:
    small = ["--rows", "300", "--steps", "3", "--critic-steps", "4"]
    cells = ["--data", "digits", "--recipes", "understudy,dp-cgan", "--only", "ε 10"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["utility", "--json", str(path), *small, *cells, *more])
        utility.main()


def test_a_finished_cell_is_not_measured_again(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run with the same file measures nothing and prints the same table."""
    before = finished.read_text(encoding="utf-8")
    monkeypatch.setattr(utility.Bench, "measure", lambda *_: pytest.fail("measured again"))
    run(finished, "--seeds", "1")
    assert finished.read_text(encoding="utf-8") == before


def test_lines_say_what_was_spent_and_for_how_many_steps(finished: Path) -> None:
    """The budget is spent, and the steps of recipes with and without a critic are those asked for."""
    lines = {line["cell"]["system"]: line for line in json.loads(finished.read_text(encoding="utf-8"))}
    assert set(lines) == {"understudy", "dp-cgan"}
    assert all(9.9 < line["epsilon"] <= 10 for line in lines.values())
    assert (lines["dp-cgan"]["steps"], lines["understudy"]["steps"]) == (4, 3)
    assert "4 steps" in utility.table(list(lines.values()))


def test_other_images_are_measured_with_and_without_their_labels(tmp_path: Path) -> None:
    """A folder with two parts is a set like any other; without labels there is a score and no accuracy."""
    source = np.random.default_rng(0)
    for part, rows in (("train", 80), ("test", 40)):
        labels = np.arange(rows) % 2
        pixels = source.integers(0, 99, (rows, 8, 8)) + 150 * labels[:, None, None]
        np.savez(tmp_path / f"{part}.npz", images=pixels.astype(np.uint8), labels=labels)
    path = tmp_path / "cells.json"
    run(path, "--seeds", "1", "--data", str(tmp_path), "--recipes", "understudy,understudy unlabelled")
    lines = {line["cell"]["system"]: line for line in json.loads(path.read_text(encoding="utf-8"))}
    assert set(lines) == {"understudy", "understudy unlabelled"}
    assert "cnn" in lines["understudy"]
    assert "cnn" not in lines["understudy unlabelled"]
    assert all("inception" in line for line in lines.values())
    with pytest.raises(DataError, match="neither train/ nor train"):
        image_set(str(tmp_path / "nowhere"))


def test_the_table_shows_mean_spread_ceiling_and_floor() -> None:
    """Two runs become a mean with its standard deviation; the floor is a line of its own."""
    cells = [Cell("mnist", 1.0, "understudy", run) for run in (0, 1)]
    lines = [{"cell": vars(cell), "cnn": value} for cell, value in zip(cells, (0.95, 0.97), strict=True)]
    real = {"cell": vars(Cell("mnist", None, REAL, 0)), "cnn": 0.99, "floor": {"cnn": 0.11}}
    text = utility.table([real, *lines])
    assert "| mnist | 1 | understudy | 2 | 96 ± 1.4 |" in text
    assert "| mnist |  | floor | 1 | 11 |" in text


def test_every_system_is_a_recipe_and_every_ablation_changes_one() -> None:
    """Names of the benchmark exist, and no two lines of the ablation are the same system."""
    assert set(PAPERS) <= set(RECIPES)
    recipes = [UNDERSTUDY_IMAGES, *trained_ablation().values(), *drawn_ablation().values()]
    assert len(set(map(repr, recipes))) == len(recipes)


@pytest.mark.parametrize("system", list(drawn_ablation()))
def test_a_change_of_the_sampling_needs_no_second_training(finished: Path, system: str) -> None:
    """The kept release of the whole recipe can be drawn from with each idea of the sampling taken out."""
    whole = Release.load(finished.parent / "releases" / "digits-ε-10-understudy-run-0")
    changed = drawn_as(whole, system)
    assert changed.card.plan.charges == whole.card.plan.charges
    first, second = whole.sample(50, seed=1), changed.sample(50, seed=1)
    assert not np.array_equal(first.pixels, second.pixels)  # type: ignore[union-attr]


def test_charging_steps_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ledger's benchmark prints a line per case, groups writes, and fails exactly if a share is too large."""
    failed = ledger.main(["--steps", "40", "--json", str(tmp_path / "lines.json")])
    lines = json.loads((tmp_path / "lines.json").read_text(encoding="utf-8"))
    assert [line["case"] for line in lines] == list(ledger.CASES)
    assert capsys.readouterr().out.count("images") == 2
    for line in lines:
        assert 1 <= line["writes"] < line["steps"] == 40
        assert 0 < line["share_cpu"] < 1
    assert failed == any(line["share_cpu"] >= ledger.LARGEST_SHARE for line in lines)


ECHO = """#!/bin/sh
cp "$5/rows.csv" "$5/made.csv"
echo 1.5 > "$5/seconds.json"
cp "$5/domain.json" "$(dirname "$0")/told.json"
echo "$2 $3 $4" > "$(dirname "$0")/asked"
"""


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A rival's Python that gives back the rows it was told."""
    program = tmp_path / "python"
    program.write_text(ECHO)
    program.chmod(0o755)
    return program


def test_rivals_are_told_the_schema_and_understood(echo: Path) -> None:
    """Rows survive the way to a rival and back, missing values included, and it hears bounds, categories and budget."""
    schema = TableSchema(
        (
            Integer("age", 0, 99),
            Continuous("weight", 0.0, 200.0),
            Categorical("town", ("Ulm", "Bonn"), missing=True),
            Integer("children", 0, 9, missing=True),
            Binary("ill"),
        ),
        label="ill",
    )
    rows = pd.DataFrame(
        {
            "age": [1, 99],
            "weight": [70.25, 3.5],
            "town": ["Bonn", None],
            "children": [None, 2],
            "ill": ["0", "1"],
        },
        dtype=object,
    )
    made, seconds = made_by(echo, "dpmm aim", rows, schema, 0.5, 1e-5)
    assert seconds == 1.5
    assert (echo.parent / "asked").read_text().split() == ["aim", "0.5", "1e-05"]
    told = json.loads((echo.parent / "told.json").read_text())
    assert told["age"] == {"lower": 0.0, "upper": 99.0}
    assert told["town"] == {"categories": ["Ulm", "Bonn", MISSING]}
    assert made.age.tolist() == [1, 99]
    assert made.weight.tolist() == [70.25, 3.5]
    assert made.town.where(made.town.notna(), None).tolist() == ["Bonn", None]
    assert made.ill.tolist() == ["0", "1"]
    assert made.children.isna().tolist() == [True, False]
    assert made.children[1] == 2


def test_rivals_are_measured_like_everything_else(echo: Path) -> None:
    """A rival that returns the training rows scores what real rows score; without a Python of theirs none is asked."""
    asked = utility_tables.cells_of(1, ablation=False, rivals=True)
    cells = [cell for cell in asked if cell.system in (*RIVALS, REAL) and cell.data == "breast-cancer"]
    assert len(cells) == 1 + len(RIVALS)
    with progress_bar() as bar:
        lines = {cell.system: utility_tables.measure(cell, bar, rivals=echo) for cell in cells}
    for name in RIVALS:
        assert lines[name]["seconds"] == 1.5
        for measure in (f"{utility_tables.LEARNERS[0].value}, AuROC", "one-way error", "two-way error"):
            assert lines[name][measure] == pytest.approx(lines[REAL][measure], abs=1e-6)
    alone = utility_tables.cells_of(1, ablation=True, rivals=False)
    assert not {cell.system for cell in alone} & set(RIVALS)


def test_the_benchmark_of_scale_measures_a_fit(tmp_path: Path) -> None:
    """A made-up table is written, fitted from its working copy, and its parts have their times."""
    path = tmp_path / "table.parquet"
    scale.write_table(path, 3000, scale.made_up_schema(6))
    found = scale.measured_fit(path, 6)
    assert 0 < found["read"] + found["counted"] <= found["cpu"]
    assert found["peak_mib"] > 50
