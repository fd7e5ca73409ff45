from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from understudy.cli.schema import app
from understudy.data import known_schema
from understudy.errors import DataError, SchemaError
from understudy.schema import schema_from_toml

if TYPE_CHECKING:
    from pathlib import Path

RUN = CliRunner()


def _csv(folder: Path) -> Path:
    path = folder / "t.csv"
    path.write_text("age,town\n31,Ulm\n130,Bonn\n")
    return path


def test_draft_to_the_screen_and_to_a_file(tmp_path: Path) -> None:
    """The draft goes to standard output, or to a new file that is never overwritten."""
    path, out = _csv(tmp_path), tmp_path / "schema.toml"
    shown = RUN.invoke(app, ["draft", str(path)])
    assert shown.exit_code == 0
    assert "FILL IN" in shown.stdout
    assert "Ulm" not in shown.stdout
    written = RUN.invoke(app, ["draft", str(path), "--out", str(out)])
    assert written.exit_code == 0
    assert out.read_text() == shown.stdout
    again = RUN.invoke(app, ["draft", str(path), "--out", str(out)])
    assert isinstance(again.exception, SchemaError)
    assert "exists already" in str(again.exception)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["schema.toml", "t.csv"]


def test_draft_from_public_and_check(tmp_path: Path) -> None:
    """A public draft fits its own file; other data are counted as clipped, or refused with the reason."""
    path, out = _csv(tmp_path), tmp_path / "schema.toml"
    assert RUN.invoke(app, ["draft", str(path), "--from-public", "--out", str(out)]).exit_code == 0
    result = RUN.invoke(app, ["check", str(path), "--schema", str(out), "--json"])
    facts = json.loads(result.stdout)
    assert facts == {"fits": True, "rows": 2, "encoded_shape": [3], "clipped": 0, "unknown": 0}
    path.write_text("age,town\n31,Ulm\n131,Bonn\n")
    shown = RUN.invoke(app, ["check", str(path), "--schema", str(out)])
    assert "1 values outside their bounds" in shown.stdout
    assert "do not publish" in shown.stdout
    path.write_text("age,town\n31,Rome\n")
    refused = RUN.invoke(app, ["check", str(path), "--schema", str(out)])
    assert refused.exit_code == 1
    assert isinstance(refused.exception, DataError)
    assert "Rome" in str(refused.exception)


def test_show_prints_a_known_schema() -> None:
    """The ready schema of a known set is printed as TOML that can be read back."""
    shown = RUN.invoke(app, ["show", "adult"])
    assert schema_from_toml(shown.stdout) == known_schema("adult")


def test_every_command_teaches_by_an_example() -> None:
    """The help of each command holds an example, and wrong usage exits with code 2."""
    for command in ("draft", "check", "show"):
        assert f"understudy schema {command}" in RUN.invoke(app, [command, "--help"]).stdout
    assert RUN.invoke(app, ["check"]).exit_code == 2
