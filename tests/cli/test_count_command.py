"""`understudy count` and `fit --parts` as a batch system calls them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tiny import tiny_frame
from understudy.cli import app
from understudy.codec import to_json
from understudy.planning import plan
from understudy.release.release import Release
from understudy.run.record import beside
from understudy.schema import Binary, Categorical, TableSchema

SCHEMA = TableSchema((Binary("smoker", ("no", "yes")), Categorical("town", ("north", "south", "west"))))


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    tiny_frame(200).to_csv(tmp_path / "table.csv", index=False)
    made = plan(SCHEMA, epsilon=5.0, delta=1e-3, rows=200, steps=5)
    (tmp_path / "plan.json").write_text(to_json(made))
    return tmp_path


def called(*words: object) -> str:
    """What is said, of a command that must succeed."""
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_rounds_end_in_a_release(inputs: Path) -> None:
    """Two shards and two rounds, as the loop of a batch script runs them; nothing private is left."""
    out, parts, made = inputs / "release", inputs / "parts", inputs / "plan.json"
    rounds = 0
    while not out.exists():
        rounds += 1
        for number in (1, 2):
            said = called(
                *("count", inputs / "table.csv", "--plan", made, "--after", beside(out, "answers")),
                *("--shard", f"{number}/2", "--out", parts / str(number)),
            )
            assert "PRIVATE and without noise" in " ".join(said.split())
            assert stat.S_IMODE((parts / str(number)).stat().st_mode) == 0o600
        said = called("fit", "--parts", parts, "--plan", made, "--out", out)
        assert ("round 2 of at most 2" in said) == (rounds == 1)
    assert rounds == 2
    assert Release.load(out).card.private
    assert list(parts.iterdir()) == []
    assert not beside(out, "answers").exists()
    assert beside(out, "ledger").exists()


@pytest.mark.parametrize("extra", [("table.csv",), ("--epsilon", "1"), ("--processes", "2"), ("--resume",)])
def test_parts_take_no_other_options(inputs: Path, extra: tuple[str, ...]) -> None:
    """What would have no effect is an error."""
    words = ("fit", *extra, "--parts", inputs, "--plan", inputs / "plan.json", "--out", inputs / "release")
    with pytest.raises(Exception, match="nothing else"):
        called(*words)


def test_fit_needs_data_or_parts(inputs: Path) -> None:
    """One of them is said to be missing."""
    with pytest.raises(Exception, match="say what to train on"):
        called("fit", "--plan", inputs / "plan.json", "--out", inputs / "release")
