"""Pages of the documentation as walks: files to write, commands to type and Python to run, in the page's order.

What a page must follow, so that it can be walked:

- A block ```` ```toml title="name" ```` (or any other language with a title) is a file, written into the folder.
- In a block ```` ```console ````, a line that begins with `$ ` is typed; `understudy`, `python FILE` and `mkdir FOLDER`
  are run. A command that ends with `# refused` must fail; one that ends with `# interrupted` is stopped after a few
  steps. Lines below a command must be said by it; `…` stands for anything.
- A block ```` ```python ```` without a title is run in one session per page.
- Other blocks, and commands that begin with something else (`pip install …`), are for the eye.
"""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tiny import stop_after
from understudy.cli import app
from understudy.errors import UnderstudyError

SOURCE = Path(__file__).parent.parent / "src"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_BOX = re.compile(r"[│┃┏┓┗┛┌┐└┘├┤┬┴┼━─┡┩╇┳┻╭╮╰╯]")


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Language, title and text of every block of a page."""
    yield from _BLOCK.findall(page)


def commands(page: str) -> list[str]:
    """Every line that a page types."""
    typed = (text for language, _, text in blocks(page) if language == "console")
    return [
        line[2:] for text in typed for line in text.replace("\\\n", " ").splitlines() if line.startswith("$ ")
    ]


def type_in(command: str) -> Any:
    """The outcome of one command of ours."""
    words = shlex.split(command, comments=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)  # by which `--processes` starts the others
        if command.endswith("# interrupted"):
            signals = SimpleNamespace(asked=stop_after(3), exit_code=130)
            patch.setattr("understudy.cli.fit.stopping", lambda: nullcontext(signals))
        return CliRunner().invoke(app, words[1:])


def walk(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, left_out: str | None = None
) -> dict[str, object]:
    """Do everything that the page says, in the folder; returns the names of its Python session.

    Args:
        page: its text.
        folder: where; empty.
        monkeypatch: of the test.
        left_out: commands that contain this are not run, because another test does.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    session: dict[str, object] = {"__name__": "__walk__"}
    for language, title, text in blocks(page):
        if title:
            (folder / title).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "page", "exec"), session)
        elif language == "console":
            _walk_console(text, left_out)
    return session


def _walk_console(text: str, left_out: str | None) -> None:
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        words = shlex.split(command, comments=True)
        if words[0] == "python":
            _run_script(words[1:])
        elif words[0] == "mkdir":
            Path(words[1]).mkdir()
        elif words[0] == "understudy" and not (left_out and left_out in command):
            result = type_in(command)
            refused = command.endswith(("# refused", "# interrupted"))
            assert (result.exit_code != 0) == refused, f"{command}\n{result.output}\n{result.exception}"
            said = result.output
            if isinstance(result.exception, UnderstudyError):
                said += str(result.exception)
            _assert_shown(command, shown, said)


def _run_script(words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        runpy.run_path(words[0], run_name="__main__")


def _assert_shown(command: str, shown: str, said: str) -> None:
    """Every line that the page shows below a command was said by it, however wide the terminal."""
    flat = _flat(said)
    for line in shown.splitlines():
        pattern = ".*?".join(re.escape(_flat(part)) for part in line.split("…"))
        assert re.search(pattern, flat), f"{command}\ndid not say: {line}\nbut:\n{said}"


def _flat(text: str) -> str:
    return " ".join(_BOX.sub(" ", text).split())
