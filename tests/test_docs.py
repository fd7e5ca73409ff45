"""The documents tell the truth: commands run, files exist, and every command is documented."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from typer.core import TyperCommand
from typer.testing import CliRunner

from tiny import tiny_frame
from understudy.cli import app
from walking import commands

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
README = (ROOT / "README.md").read_text(encoding="utf-8")

SCHEMA = """
kind = "table"
label = "outcome"
columns = [
  {kind = "continuous", name = "height", lower = 0.0, upper = 2.0},
  {kind = "integer", name = "visits", lower = 0, upper = 30},
  {kind = "categorical", name = "outcome", categories = ["well", "ill"]},
]
"""


def readme_commands() -> list[str]:
    """Every understudy command of the README, in order."""
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [
        line[2:].split("   #")[0].strip()
        for block in blocks
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    return [line for line in lines if line.startswith("understudy ")]


def run(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
        timeout=300,
    )


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    """A newcomer who types the README's commands, in order, gets no error."""
    tiny_frame(3000).to_csv(tmp_path / "patients.csv", index=False)
    commands = readme_commands()
    assert len(commands) >= 8
    for command in commands:
        extra = ["--steps", "20"] if "fit patients.csv" in command else []
        result = run(["-m", "understudy", *shlex.split(command)[1:], *extra], tmp_path)
        assert result.returncode == 0, f"{command}\n{result.stderr}"
        if "schema draft" in command:
            assert "FILL IN" in (tmp_path / "patients.toml").read_text()
            (tmp_path / "patients.toml").write_text(SCHEMA)


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    """The library's examples work as printed, for tables and for images."""
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        result = run(["-c", code], tmp_path)
        assert result.returncode == 0, result.stderr
    for name in ("patients-release", "digits-in-python"):
        assert (tmp_path / name / "card.json").exists()
        assert (tmp_path / f"{name}.ledger").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page types a command, an option or a value that the command line does not know; nothing is run."""
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: None, raising=False)
    for command in commands(page.read_text("utf-8")):
        words = list(takewhile(lambda word: word not in (">", "|"), shlex.split(command, comments=True)))
        if words[:1] == ["understudy"] and "…" not in command:
            result = CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0 or "does not exist" in result.output, f"{command}\n{result.output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """No page points to a file that does not exist."""
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_map_names_every_room() -> None:
    """The README's map has every module and package at the top of the source tree."""
    for path in sorted((ROOT / "src" / "understudy").iterdir()):
        if path.name.startswith("_") or path.name == "py.typed":
            continue
        assert path.name in README, f"{path.name} is missing in the README's map"


def test_every_command_is_in_the_readme() -> None:
    """The table of commands is complete."""
    names = [command.name for command in app.registered_commands] + [
        group.name for group in app.registered_groups
    ]
    for name in names:
        assert f"| `{name}` |" in README, f"{name} is missing in the README's table"


def test_the_site_has_every_page() -> None:
    """The site's contents name every page of the documentation once, and no page that does not exist."""
    listed = re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))
