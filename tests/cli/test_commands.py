"""The command line as a user meets it: help, results, exit codes and error texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiny import tiny_frame
from understudy.cli import app
from understudy.release.release import Release

SOURCE = Path(__file__).parent.parent.parent / "src"


def understudy(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program as a user would."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "160", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "understudy", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
        timeout=300,
    )


SCHEMA = """
kind = "table"
label = "outcome"

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


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """A private CSV with its schema beside it."""
    tiny_frame(200)[["height", "outcome"]].to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "patients.toml").write_text(SCHEMA)
    return tmp_path


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "understudy sche", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "understudy sche"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "understudy sche", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_the_shell_completes_commands(shell: str, asked: dict[str, str]) -> None:
    """What `--install-completion` puts into a shell asks the program, which answers with its commands."""
    words = "import sys; sys.argv[0] = 'understudy'; from understudy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "_UNDERSTUDY_COMPLETE": f"complete_{shell}", **asked},
        check=False,
        timeout=300,
    )
    assert "schema" in done.stdout, done.stderr
    assert "sample" not in done.stdout


def test_every_command_teaches_with_an_example() -> None:
    """Each command's help says what it does and shows one call of it."""
    for command in app.registered_commands:
        assert command.callback is not None
        text = command.callback.__doc__ or ""
        assert f"understudy {command.name}" in text, command.name


def test_plan_answers_in_json() -> None:
    """The machine-readable plan holds the certified cost and the numbers to train with."""
    words = [
        "plan",
        "--recipe",
        "dp-cgan",
        "--rows",
        60000,
        "--epsilon",
        9.6,
        "--batch",
        600,
        "--sigma",
        1.15,
    ]
    result = understudy(*words, "--json")
    assert result.returncode == 0, result.stderr
    plain: dict[str, Any] = json.loads(result.stdout)
    assert plain["spent"]["epsilon"] <= 9.6
    assert plain["charges"][-1]["mechanism"]["steps"] > 32_000


def test_fit_sample_and_inspect_work_together(patients: Path) -> None:
    """The whole way of a curator and an analyst, with a private row count."""
    options = ["--schema", "patients.toml", "--epsilon", 3, "--delta", 1e-3, "--steps", 5]
    fitted = understudy("fit", "patients.csv", *options, "--out", "release", "--json", cwd=patients)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["private"] is True
    assert Release.load(patients / "release").card.private
    drawn = understudy("sample", "release", "--rows", 50, "--out", "synthetic.csv", cwd=patients)
    assert drawn.returncode == 0, drawn.stderr
    assert len((patients / "synthetic.csv").read_text().splitlines()) == 51
    shown = understudy("inspect", "release", cwd=patients)
    assert "add-or-remove-one" in shown.stdout


def test_a_seeded_release_is_stamped_in_every_later_output(patients: Path) -> None:
    """NOT PRIVATE is said by fit, inspect and sample."""
    options = ["--schema", "patients.toml", "--epsilon", 3, "--delta", 1e-3, "--steps", 5]
    outputs = [
        understudy("fit", "patients.csv", *options, "--insecure-seed", 1, "--out", "r", cwd=patients),
        understudy("inspect", "r", cwd=patients),
        understudy("sample", "r", "--rows", 3, "--out", "s.csv", cwd=patients),
    ]
    for result in outputs:
        assert result.returncode == 0, result.stderr
        assert "NOT PRIVATE" in result.stderr


def test_recipes_are_listed_and_shown() -> None:
    """The table names every recipe; one recipe prints as TOML."""
    assert "small-images" in understudy("recipes").stdout
    assert 'kind = "separate"' in understudy("recipes", "show", "dp-cgan").stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["plan", "--rows", "100", "--epsilon", "-1"], 1, "epsilon must be a positive"),
        (["plan", "--rows", "100", "--epsilon", "1", "--delta", "0.5"], 1, "--accept-large-delta"),
        (
            ["plan", "--rows", "100", "--epsilon", "1", "--recipe", "dp-cgan"],
            1,
            "larger than the data set of 100 rows",
        ),
        (["plan", "--rows", "many", "--epsilon", "1"], 2, "--rows"),
        (
            ["plan", "--rows", "1000", "--epsilon", "1", "--recipe", "dpcgan"],
            1,
            "there is no recipe 'dpcgan'",
        ),
        (["fit", "patients.csv", "--epsilon", "1", "--out", "r"], 1, "understudy schema draft patients.csv"),
        (["fit", "patients.csv", "--schema", "patients.toml", "--out", "r"], 1, "--epsilon"),
        (["fit", "gone.csv", "--schema", "patients.toml", "--epsilon", "1", "--out", "r"], 1, "gone.csv"),
        (
            [
                "fit",
                "digits",
                "--recipe",
                "understudy",
                "--epsilon",
                "5",
                "--out",
                "r",
                "--steps",
                "9",
                "--time-budget",
                "1",
            ],
            1,
            "leave --steps and --sigma out",
        ),
        (
            ["plan", "--rows", "500", "--epsilon", "1", "--schema", "patients.toml", "--batch", "9999"],
            1,
            "no effect",
        ),
        (["sample", "nowhere", "--out", "x.csv"], 1, "card.json"),
        (["inspect", "nowhere"], 1, "card.json"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_get_one_clear_message(patients: Path, words: list[str], code: int, text: str) -> None:
    """Exit code by convention, the reason on standard error, no traceback, nothing left behind."""
    before = sorted(path.name for path in patients.iterdir())
    result = understudy(*words, cwd=patients)
    assert result.returncode == code, result.stderr
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in patients.iterdir()) == before


def test_an_existing_output_is_refused_before_training(patients: Path) -> None:
    """No budget is spent on a run whose result could not be written."""
    (patients / "r").mkdir()
    result = understudy("fit", "patients.csv", "--epsilon", 1, "--out", "r", cwd=patients)
    assert result.returncode == 1
    assert "exists already" in result.stderr


def test_a_missing_file_is_noticed_before_the_plan_is_printed(patients: Path) -> None:
    """Nobody reads a plan for data that is not there; a pattern and a database file are noticed as well."""
    for name, words in (("nowhere.csv", ()), ("no*.csv", ()), ("no.sqlite", ("--query", "select 1"))):
        result = understudy(
            "fit",
            name,
            *words,
            "--schema",
            "patients.toml",
            "--epsilon",
            "3",
            "--out",
            "release",
            cwd=patients,
        )
        assert result.returncode == 1
        assert "ε certified" not in result.stderr
        assert "does not exist" in result.stderr or "no file matches" in result.stderr
    assert not (patients / "release.ledger").exists()


def test_fit_says_what_is_bought_and_refuses_what_buys_nothing(patients: Path) -> None:
    """The noise stands beside the rows; a useless budget is spent with --anyway only, and the file's header is told."""
    patients.joinpath("rows.csv").write_text((patients / "patients.csv").read_text().replace(",", ";"))
    words = [
        "fit",
        "rows.csv",
        "--schema",
        "patients.toml",
        "--rows",
        "200",
        "--delta",
        "1e-3",
        "--steps",
        "3",
    ]
    poor = understudy(*words, "--epsilon", "0.01", "--out", "release", cwd=patients)
    assert poor.returncode == 1
    assert "will not be learned" in poor.stderr
    assert "--anyway" in poor.stderr
    assert sorted(path.name for path in patients.iterdir()) == ["patients.csv", "patients.toml", "rows.csv"]
    assert understudy(*words, "--epsilon", "0.01", "--out", "poor", "--anyway", cwd=patients).returncode == 0
    rich = understudy(*words, "--epsilon", "5", "--out", "release", cwd=patients)
    assert rich.returncode == 0
    assert "200 rows in 2 classes, about 100 each" in rich.stderr
    assert "rows.csv is separated by semicolons" in rich.stderr
