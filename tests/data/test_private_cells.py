"""No private cell leaves by a name, a draft or a message; each planted bug that would let one out is caught."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.data import dialect as dialect_module
from understudy.data import read
from understudy.data import text as text_module
from understudy.data.draft import _Mark, draft_schema
from understudy.errors import DataError
from understudy.records import columns as columns_module
from understudy.records import names as names_module
from understudy.records.encode import encode
from understudy.schema import Categorical, Integer, TableSchema

SECRETS = ("Zanzibar", "Quebec")
SCHEMA = TableSchema((Integer("age", 0, 120), Categorical("town", ("Ulm", "Bonn"))))


def _said(action: Callable[[], object]) -> str:
    """Everything that a person or a log sees of an action: what it returns, or its whole traceback."""
    try:
        return str(action())
    except DataError as problem:
        return "".join(traceback.format_exception(problem))


def _files(folder: Path, secret: str) -> list[Path]:
    """Files that differ in one private cell, each wrong in another way."""
    texts = {
        "bare.csv": f"31,{secret}\n87,Ulm\n",
        "stranger.csv": f"age,town\n31,Ulm\n87,{secret}\n",
        "no_number.csv": f"age,town\n31,Ulm\n{secret},Bonn\n",
        "ragged.csv": f"age,town\n31,Ulm\n87,Bonn,{secret}\n",
        "absent.csv": f"age;city\n31;{secret}\n",
        "headless.csv": f"{secret},31\n{secret}x,32\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def _everything(folder: Path, secret: str) -> str:
    place = folder / secret[0]
    place.mkdir(exist_ok=True)
    said = []
    for path in _files(place, secret):
        said.append(_said(lambda path=path: encode(read(path, SCHEMA), SCHEMA)))  # type: ignore[misc]
        said.append(_said(lambda path=path: draft_schema(path)))  # type: ignore[misc]
    return "\n".join(said).replace(str(place), "")


def test_neighbouring_files_say_the_same(tmp_path: Path) -> None:
    """Reading, encoding and drafting files that differ in one private cell give the same texts, tracebacks included."""
    first, second = (_everything(tmp_path, secret) for secret in SECRETS)
    assert first == second
    assert not any(secret in first for secret in SECRETS)


def _shows_cells(examined: Any, column: Any) -> None:
    if examined.faults:
        raise DataError(f"column {column.name}: {examined.faults[0].cells}")


def _shows_pyarrow(place: Any, *rest: Any) -> None:
    raise DataError(f"cannot read {place}: {rest[-1]}")


def _shows_names(names: Any, most: int = 12) -> str:
    return ", ".join(map(repr, names[:most]))


BUGS: list[tuple[Any, str, Any]] = [
    (columns_module.Examined, "refuse_faults", _shows_cells),
    (text_module, "_refuse", _shows_pyarrow),
    (dialect_module, "data_like", lambda names: None),
    (names_module, "data_like", lambda names: None),
]


@pytest.mark.parametrize(("place", "name", "bug"), BUGS, ids=["cells", "pyarrow", "header", "names"])
def test_planted_bugs_are_caught(
    place: Any, name: str, bug: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bug that shows cells, pyarrow's words, or a first record as names, the texts differ."""
    monkeypatch.setattr(place, name, bug)
    first, second = (_everything(tmp_path, secret) for secret in SECRETS)
    assert first != second


def test_a_draft_that_trusts_rows_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If guesses were in force at once, one private row would change a valid line of a draft."""

    def in_force(cell: str) -> list[str]:
        path = tmp_path / "t.csv"
        path.write_text(f"age,town\n31,Ulm\n{cell},Bonn\n")
        return [line for line in draft_schema(path).splitlines() if not line.startswith("#")]

    assert in_force("87") == in_force("87.5")
    monkeypatch.setattr(_Mark, "__call__", lambda self, line: line)
    assert in_force("87") != in_force("87.5")
