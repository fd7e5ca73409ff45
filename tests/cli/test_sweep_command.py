"""`understudy sweep`: how its grid is read from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from understudy.cli import sweep

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


@pytest.mark.parametrize("words", [["--epsilon", "1;2"], ["--vary", "steps"], ["--vary", "steps=many"]])
def test_lists_that_are_none_are_refused(words: list[str], asked: list[Setting], tmp_path: Path) -> None:
    """What cannot be read is quoted, with an example of what can."""
    result = run(tmp_path, *words)
    assert result.exit_code == 2
    assert "such as" in result.output or "of the form" in result.output
    assert not asked
