"""The documents tell the truth: commands run, files exist, and every command is documented."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperCommand
from typer.main import get_command

import understudy
from tiny import tiny_frame
from understudy.cli import app
from walking import blocks, commands, type_in

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
    return [line.split("  #")[0].strip() for line in commands(README) if line.startswith("understudy ")]


def test_every_command_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer who types the README's commands, in order, gets no error; free steps are fewer here."""
    monkeypatch.chdir(tmp_path)
    tiny_frame(3000).to_csv("patients.csv", index=False)
    typed = [command for command in readme_commands() if command != "understudy demo"]
    assert len(typed) >= 8
    for command in typed:
        extra = " --steps 20" if "fit patients.csv" in command else ""
        result = type_in(command.replace("--steps 300", "--steps 20") + extra)
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
        if "schema draft" in command:
            assert "FILL IN" in Path("patients.toml").read_text("utf-8")
            Path("patients.toml").write_text(SCHEMA, encoding="utf-8")


@pytest.mark.slow
def test_the_demo_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of the README makes a report and a release of every set."""
    monkeypatch.chdir(tmp_path)
    result = type_in("understudy demo")
    assert result.exit_code == 0, result.output
    made = sorted(path.parent.name for path in (tmp_path / "demo" / "studio").glob("*/report.html"))
    assert made == ["breast-cancer", "digits", "digits-by-a-gan", "registry"]


@pytest.mark.filterwarnings("default")  # one example is charged nowhere, which warns
def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's examples work as printed, for tables and for images; free steps are fewer here."""
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(code.replace("steps=200", "steps=20"), {})
    for name in ("patients-release", "digits-in-python"):
        assert (tmp_path / name / "card.json").exists()
        assert (tmp_path / f"{name}.ledger").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page types a command, an option or a value that the command line does not know; nothing is run."""
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: None, raising=False)
    for command in commands(page.read_text("utf-8")):
        words = list(takewhile(lambda word: word not in (">", "|"), shlex.split(command, comments=True)))
        if words[:1] != ["understudy"] or "…" in command:
            continue
        refusal = _refusal(words[1:])
        assert refusal is None or "does not exist" in refusal, command  # a file of the reader's


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_of_a_page_are_well_formed(page: Path) -> None:
    """TOML can be read, and Python (but for outlines without bodies, in docs/design.md) names only what there is."""
    for language, _, text in blocks(page.read_text("utf-8")):
        if language == "toml":
            tomllib.loads(text)
        elif language == "python" and not text.startswith(">>>") and page.name != "design.md":
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("understudy"):
                    module = import_module(str(node.module))
                    assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def _refusal(words: list[str]) -> str | None:
    try:
        _command_line().main(words, standalone_mode=False)
    except Exception as problem:  # noqa: BLE001 - typer's own, which has no public name in all versions
        return str(problem)
    return None


@cache
def _command_line() -> Any:
    return get_command(app)


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


def test_the_reference_has_every_public_name() -> None:
    """Each line of the reference names one thing that exists, and all that `import understudy` offers is there."""
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    assert len(named) == page.count(":::")
    for name in named:
        module, _, thing = name.rpartition(".")
        assert hasattr(import_module(module), thing), name
    assert {f"understudy.{name}" for name in understudy.__all__} - set(named) <= {"understudy.__version__"}


def test_the_site_builds(tmp_path: Path) -> None:
    """No page has a broken link or a reference to nothing, where the tools of `make docs` are installed."""
    pytest.importorskip("mkdocstrings")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    result = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    commands_page = (tmp_path / "site" / "commands" / "index.html").read_text("utf-8")
    assert "understudy ledger register" in commands_page
