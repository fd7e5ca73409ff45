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


def test_every_fault_on_the_ledger_page_has_its_test() -> None:
    """Each test that the table of faults names exists, and every file of tests of faults is named there."""
    rows = re.findall(r"^\| .* \| (`tests/.*) \|$", (DOCS / "ledger.md").read_text("utf-8"), re.MULTILINE)
    named = [match.split("::") for row in rows for match in re.findall(r"`(tests/[^`]+)`", row)]
    assert len(rows) >= 20
    for file, test in named:
        assert f"def {test}(" in (DOCS.parent / file).read_text("utf-8"), f"{file} has no {test}"
    faults = {f"tests/faults/{path.name}" for path in (DOCS.parent / "tests/faults").glob("test_*.py")}
    assert faults <= {file for file, _ in named}
