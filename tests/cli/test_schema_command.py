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
    assert (facts["fits"], facts["rows"], facts["shape"]) == (True, 2, [3])
    assert (facts["clipped"], facts["unknown"], facts["ignored"]) == (0, 0, [])
    path.write_text("age,town\n31,Ulm\n131,Bonn\n")
    shown = RUN.invoke(app, ["check", str(path), "--schema", str(out)])
    assert "age: 1 outside the bounds, would be clipped" in shown.stdout
    assert "do not publish" in shown.stdout


def test_check_lists_everything_at_once(tmp_path: Path) -> None:
    """One call shows all that is wrong in every column, with the cells, and which columns are ignored."""
    schema = tmp_path / "schema.toml"
    schema.write_text(
        'kind = "table"\n[[columns]]\nkind = "integer"\nname = "age"\nlower = 0\nupper = 120\nstep = 5\n'
        '[[columns]]\nkind = "categorical"\nname = "town"\ncategories = ["Ulm", "other"]\nunknown = "other"\n'
        '[[columns]]\nkind = "binary"\nname = "ill"\n[[columns]]\nkind = "binary"\nname = "absent"\n'
    )
    path = tmp_path / "t.csv"
    path.write_text("id,age,town,ill\n1,31,Ulm,maybe\n2,old,Rome,0\n3,,Oslo,\n4,130,Ulm,1\n")
    result = RUN.invoke(app, ["check", str(path), "--schema", str(schema)])
    assert result.exit_code == 1
    for expected in (
        "not in the schema, ignored: id",
        "age: 1 missing; 1 outside the bounds, would be clipped; 1 off the grid, would be rounded; REFUSED: in 1 rows",
        "(row 2) the value ('old') is not a number",
        "REFUSED: in 1 rows (row 3) the value is missing",
        "town: 2 unknown, would be mapped",
        "ill: 1 missing; REFUSED: in 1 rows (row 1) the value ('maybe') is not in the schema",
        "absent: REFUSED: the source has no such column",
    ):
        assert expected in result.stdout
    facts = json.loads(RUN.invoke(app, ["check", str(path), "--schema", str(schema), "--json"]).stdout)
    assert not facts["fits"]


def test_only_check_shows_private_detail(tmp_path: Path) -> None:
    """A file that cannot be cut into cells: the error names the row, and `check` alone shows what is there."""
    path, schema = tmp_path / "t.csv", tmp_path / "schema.toml"
    path.write_text("age,town\n31,Ulm\n77,Bonn,secret\n")
    schema.write_text('kind = "table"\n[[columns]]\nkind = "integer"\nname = "age"\nlower = 0\nupper = 120\n')
    result = RUN.invoke(app, ["check", str(path), "--schema", str(schema)])
    assert isinstance(result.exception, DataError)
    assert "row 2" in str(result.exception)
    assert "secret" not in str(result.exception)
    assert "PRIVATE, do not publish" in result.output
    assert "secret" in result.output
    drafted = RUN.invoke(app, ["draft", str(path)])
    assert isinstance(drafted.exception, DataError)
    assert "secret" not in drafted.output + str(drafted.exception)


def test_a_file_without_header_needs_names(tmp_path: Path) -> None:
    """The first record of a file without header never becomes names; with names given it is a row like others."""
    path, out = tmp_path / "t.data", tmp_path / "schema.toml"
    path.write_text("39, State-gov, 77516\n50, Private, 83311\n")
    refused = RUN.invoke(app, ["draft", str(path)])
    assert isinstance(refused.exception, DataError)
    assert "looks like data" in str(refused.exception)
    assert "State-gov" not in str(refused.exception) + refused.output
    options = ["--no-header", "--names", "age,work,weight"]
    assert RUN.invoke(app, ["draft", str(path), *options, "--from-public", "--out", str(out)]).exit_code == 0
    checked = json.loads(RUN.invoke(app, ["check", str(path), "--schema", str(out), "--json"]).stdout)
    assert (checked["fits"], checked["rows"], checked["clipped"]) == (True, 2, 0)
    years = tmp_path / "years.csv"
    years.write_text("2019,2020\n1,2\n3,4\n")
    assert RUN.invoke(app, ["draft", str(years), "--header"]).exit_code == 0


def test_show_prints_a_known_schema() -> None:
    """The ready schema of a known set is printed as TOML that can be read back."""
    shown = RUN.invoke(app, ["show", "adult"])
    assert schema_from_toml(shown.stdout) == known_schema("adult")


def test_every_command_teaches_by_an_example() -> None:
    """The help of each command holds an example, and wrong usage exits with code 2."""
    for command in ("draft", "check", "show"):
        assert f"understudy schema {command}" in RUN.invoke(app, [command, "--help"]).stdout
    assert RUN.invoke(app, ["check"]).exit_code == 2
