"""The utility benchmark: finished cells are kept, limits are written down, and the table says what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import ledger, utility
from benchmarks.utility_systems import PAPERS, REAL, Cell, drawn_ablation, drawn_as, trained_ablation

from understudy.recipes import RECIPES
from understudy.release import Release


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
    recipes = [RECIPES["understudy"], *trained_ablation().values(), *drawn_ablation().values()]
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
