"""The walk-through of a hospital's admissions: every command runs, in order, and says what the page says."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from understudy.cli import app
from understudy.errors import BudgetError
from understudy.release.release import Release
from understudy.schema import TableSchema, load_schema

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "tutorials" / "hospital.md").read_text("utf-8")


def commands() -> list[list[str]]:
    """What the page types, without the program's name."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [shlex.split(line)[2:] for block in blocks for line in block.splitlines()]


def obeyed(words: list[str]) -> str:
    """Everything that a command says; it must not fail."""
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{words}\n{result.output}\n{result.exception}"
    return result.output


def test_the_tutorial_holds_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer who types the page, in order, gets from the hospital's file to a page that may be published."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "admissions.py"), run_name="__main__")
    header = tmp_path.joinpath("admissions.csv").read_text("utf-8").splitlines()
    assert "\n".join(header[:2]) in PAGE
    said = {}
    for words in commands():
        said[" ".join(words[:2] if words[0] in ("schema", "ledger") else [*words[:1], *words[-2:]])] = obeyed(
            words
        )
    _check_what_was_said(said)
    schema = load_schema("admissions.toml")
    assert isinstance(schema, TableSchema)
    assert (schema.person, schema.label, schema.row_name) == ("patient_id", "outcome", "admission")
    assert (tmp_path / "synthetic.csv").read_text("utf-8").startswith("age;sex;admitted;ward;")
    again = next(words for words in commands() if words[0] == "fit")
    refused = CliRunner().invoke(app, [*again[:-1], "second"])
    assert isinstance(refused.exception, BudgetError)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, object] = {}
    exec(code, made)
    assert isinstance(made["release"], Release)
    assert made["release"].card.ledger_head is not None


def _check_what_was_said(said: dict[str, str]) -> None:
    (excerpt,) = re.findall(r"```\n(what it buys.*?)```", PAGE, re.DOTALL)
    plan = said["plan --epsilon 3"]
    for line in excerpt.splitlines():
        assert line in plan, line
    assert "one patient with up to 8 admissions" in plan
    assert "bounds of cost" in plan
    assert "out of reach" in said["plan --epsilon 0.03"]
    assert "would help" in said["plan --epsilon 0.03"]
    assert 'name = "cost"\nlower = 0\nupper = ' in said["schema show"]
    assert "protected: one patient" in said["ledger show"]
