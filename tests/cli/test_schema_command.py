from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from understudy.cli.schema import app
from understudy.data import known_schema
from understudy.errors import DataError, SchemaError
from understudy.schema import Integer, TableSchema, schema_from_toml

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


PEOPLE = "patient_id;age;sex;dose;seen\n1;31;female;1,25;2001-02-03\n2;87;male;?;2019-11-30\n"


def _drafted(folder: Path) -> Path:
    path = folder / "people.toml"
    (folder / "people.csv").write_text(PEOPLE)
    result = RUN.invoke(app, ["draft", str(folder / "people.csv"), "--out", str(path)])
    assert "understudy schema edit" in result.stderr
    return path


def test_edit_takes_everything_by_options(tmp_path: Path) -> None:
    """A script fills a draft in without a question, and what comes out fits the file."""
    path = _drafted(tmp_path)
    words = [
        "--confirm",
        "--usual",
        "--study",
        "2000-01-01..2020-12-31",
        "--set",
        "seen.unit=day",
        "--set",
        "label=sex",
    ]
    words += ["--set", "dose.lower=0", "--set", "dose.upper=500", "--set", "dose.missing=yes", "--no-ask"]
    result = RUN.invoke(app, ["edit", str(path), *words])
    assert result.exit_code == 0, result.output
    assert "is complete" in result.stderr
    checked = RUN.invoke(app, ["check", str(tmp_path / "people.csv"), "--schema", str(path), "--json"])
    facts = json.loads(checked.stdout)
    assert (facts["fits"], facts["clipped"]) == (True, 0)


def test_edit_counts_what_is_left(tmp_path: Path) -> None:
    """Without a terminal nothing is asked; what is left is counted and named, and what was given is kept."""
    path = _drafted(tmp_path)
    before = RUN.invoke(app, ["edit", str(path), "--set", "age.lower=0"])
    assert before.exit_code == 0
    assert "age.upper" in before.stderr
    assert "age.lower" not in before.stderr
    after = RUN.invoke(app, ["edit", str(path), "--leave-out", "age"])
    assert "age.upper" not in after.stderr
    for wrong in ("age", "age.lower", "=3"):
        assert isinstance(RUN.invoke(app, ["edit", str(path), "--set", wrong]).exception, SchemaError)
    assert isinstance(RUN.invoke(app, ["edit", str(path), "--study", "2020"]).exception, SchemaError)


def test_edit_is_a_conversation(tmp_path: Path) -> None:
    """Enter takes what is offered, wrong answers are asked again, - leaves out, and what is left is counted."""
    path = _drafted(tmp_path)
    answers = {
        "label": ["?", "sex"],
        "missing_text": [""],
        "person": ["-"],
        "file.decimal": [""],
        "age.kind": [""], "age.lower": [""], "age.upper": ["-5", "110"], "age.missing": ["no"],
        "sex.kind": [""], "sex.categories": ["female, male, other"], "sex.missing": [""],
        "dose.kind": ["-"],
        "seen.kind": [""], "seen.lower": ["2000-01-01"], "seen.upper": ["2020-12-31"], "seen.unit": [""],
        "seen.missing": [""],
    }  # fmt: skip
    typed = "\n".join(line for lines in answers.values() for line in lines) + "\n"
    result = RUN.invoke(app, ["edit", str(path), "--ask"], input=typed)
    assert result.exit_code == 0, result.output
    assert "that cannot be: column 'age'" in result.stdout
    assert "(1 left)" in result.stdout
    assert "is complete" in result.stderr
    schema = schema_from_toml(path.read_text())
    assert isinstance(schema, TableSchema)
    assert [column.name for column in schema.columns] == ["age", "sex", "seen"]
    assert schema.columns[0] == Integer("age", 0, 110)
    assert schema.label_classes == ("female", "male", "other")


def test_edit_can_be_left_and_taken_up(tmp_path: Path) -> None:
    """q and the end of the input keep every answer that was given."""
    path = _drafted(tmp_path)
    for typed in ("sex\n", "\nq\n"):
        assert RUN.invoke(app, ["edit", str(path), "--ask"], input=typed).exit_code == 0
    text = path.read_text()
    assert 'label = "sex"\n' in text
    assert "# missing_text" not in text
    assert "FILL IN" in text


def test_edit_takes_facts_that_nobody_knows(tmp_path: Path) -> None:
    """`discover` stands in the place of a bound or of a list, and the draft is complete with it."""
    path = _drafted(tmp_path)
    words = ["--confirm", "--usual", "--study", "2000-01-01..2020-12-31", "--set", "label=sex"]
    words += [
        "--set",
        "dose.upper=discover",
        "--set",
        "dose.lower=0",
        "--set",
        "dose.missing=yes",
        "--no-ask",
    ]
    result = RUN.invoke(app, ["edit", str(path), *words, "--set", "sex.categories=discover"])
    assert "is complete" in result.stderr, result.output
    text = path.read_text()
    assert 'upper = "discover"' in text
    assert 'categories = "discover"' in text


def test_check_tells_which_rules_the_rows_break(tmp_path: Path) -> None:
    """A declared rule that real rows break is told with its count, to the curator alone, and refuses nothing."""
    schema = tmp_path / "schema.toml"
    schema.write_text(
        'kind = "table"\n[[columns]]\nkind = "integer"\nname = "first"\nlower = 0\nupper = 9\n'
        '[[columns]]\nkind = "integer"\nname = "last"\nlower = 0\nupper = 9\nmissing = true\n'
        '[[columns]]\nkind = "binary"\nname = "smokes"\n'
        '[[rules]]\nkind = "inequality"\nlow = "first"\nhigh = "last"\n'
        '[[rules]]\nkind = "implied"\nwhen = "smokes"\nequals = "0"\nthen = "first"\nvalue = "0"\n'
        '[[rules]]\nkind = "forbidden"\ncolumns = ["first", "smokes"]\nnever = [["9", "1"]]\n'
    )
    path = tmp_path / "t.csv"
    path.write_text("first,last,smokes\n3,2,1\n5,,0\n7,8,0\n0,0,0\n")
    result = RUN.invoke(app, ["check", str(path), "--schema", str(schema)])
    assert result.exit_code == 0
    assert "rule first <= last: broken by 1 rows" in result.stdout
    assert "rule if smokes is 0 then first is 0: broken by 2 rows" in result.stdout
    assert "never" not in result.stdout
    facts = json.loads(RUN.invoke(app, ["check", str(path), "--schema", str(schema), "--json"]).stdout)
    assert [one["rows"] for one in facts["rules"]] == [1, 2]
