"""`understudy sweep`: how its grid is read from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from understudy.cli import sweep
from understudy.data import known_schema
from understudy.evaluation.learners import Learner
from understudy.tuning import sweep as sweeping
from understudy.tuning.curves import Limits, Outcome, Reached
from understudy.tuning.variation import grid

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from understudy.tuning.variation import Setting

app = typer.Typer()
app.command()(sweep.sweep_command)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Setting]:
    """The settings that the command would run; nothing is run."""
    found: list[Setting] = []

    def curves(_: Any, settings: tuple[Setting, ...], *rest: Any) -> None:
        found.extend(settings)

    monkeypatch.setattr(sweep, "_curves", curves)
    return found


def run(folder: Path, *words: str) -> Result:
    common = ["iris", "--test", "iris:test", "--out", str(folder / "sweep"), "--seeds", "1"]
    return CliRunner().invoke(app, [*common, *words], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    "words",
    [
        ["--epsilon", "1,2", "--vary", "steps=3,4"],
        ["--epsilon", "1", "--epsilon", "2", "--vary", "steps=3", "--vary", "steps=4"],
    ],
)
def test_values_may_come_at_once_or_one_by_one(
    words: list[str], asked: list[Setting], tmp_path: Path
) -> None:
    """Budgets and values that are given in several options are all tried; the last one does not win silently."""
    result = run(tmp_path, *words)
    assert result.exit_code == 0, result.output
    found = [(one.epsilon, one.changes[0].name, one.changes[0].value) for one in asked]
    assert sorted(found) == [(e, "steps", s) for e in (1, 2) for s in (3, 4)]


def test_without_budgets_four_are_tried(asked: list[Setting], tmp_path: Path) -> None:
    """The default is what the help says."""
    assert run(tmp_path).exit_code == 0
    assert [one.epsilon for one in asked] == [1, 2, 4, 8]
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "1,2,4,8" in told


def test_the_cost_of_runs_that_were_made_is_their_composition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that were made and looked at cost what the ledger says; the price of --select is that of a new choice."""

    def ran(
        _: Any, settings: tuple[Setting, ...], folder: Path, **more: Any
    ) -> tuple[tuple[Outcome, ...], Limits]:
        folder.mkdir()
        reached = (Reached("accuracy", 0.9, 0.3),)
        return tuple(Outcome(one, one.epsilon, reached) for one in settings), Limits(reached)

    monkeypatch.setattr(sweeping, "run_sweep", ran)
    result = run(
        tmp_path, "--epsilon", "1", "--recipe", "dp-cgan", "--vary", "steps=4,5", "--vary", "batch=12"
    )
    assert result.exit_code == 0, result.output
    made = sweeping.sweep_of(
        "iris", "iris:test", known_schema("iris"), "dp-cgan", 1e-5, 120, Learner.LOGISTIC_REGRESSION
    )
    settings = grid([1], {"steps": [4, 5], "batch": [12]}, 1)
    told = " ".join(result.output.split())
    assert f"these 2 runs together cost {sweeping.runs_cost(made, settings)}" in told
    assert "a new choice with --select among runs of ε 1 would cost" in told
    assert "best of these runs" not in told + (tmp_path / "sweep" / "curves.html").read_text()


@pytest.mark.parametrize("words", [["--epsilon", "1;2"], ["--vary", "steps"], ["--vary", "steps=many"]])
def test_lists_that_are_none_are_refused(words: list[str], asked: list[Setting], tmp_path: Path) -> None:
    """What cannot be read is quoted, with an example of what can."""
    result = run(tmp_path, *words)
    assert result.exit_code == 2
    assert "such as" in result.output or "of the form" in result.output
    assert not asked
