"""The pages about accounting and the ledger print what the package really says."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from understudy.cli import app

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def test_every_figure_of_the_accounting_page_is_computed() -> None:
    """The Python examples on the page print exactly what the page shows."""
    text = re.sub(r"^```.*$", "", (DOCS / "accounting.md").read_text("utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, "accounting.md", "accounting.md", 0)
    assert len(test.examples) >= 15
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.failed == 0, "".join(said)


def test_every_command_of_the_ledger_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands on the page, run in order in an empty folder, print what the page shows."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((DOCS / "ledger.md").read_text("utf-8"))
    assert len(blocks) >= 3
    for block in blocks:
        command, expected = block.split("\n", 1)
        result = CliRunner().invoke(app, shlex.split(command.removeprefix("$ understudy ")))
        assert result.exit_code == 0, result.output
        assert doctest.OutputChecker().check_output(expected, result.stdout, doctest.ELLIPSIS), result.stdout
