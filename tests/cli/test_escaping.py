"""Texts of others never steer a terminal, a page or a spreadsheet."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from understudy.cli import app
from understudy.escaping import for_markdown, for_spreadsheet, for_terminal
from understudy.release.release import Release
from understudy.release.write import print_records, spreadsheet_safe, write_records
from understudy.reporting import Format, report
from understudy.run.progress import _Words, progress_bar
from understudy.schema import Binary, CellType, Continuous, FileFormat, TableSchema

SOURCE = Path(__file__).parents[2] / "src"
HOSTILE = (
    "\x1b[2J\x1b]52;c;aGk=\x07 \x9b2J [/bold] [conceal]hidden[/conceal] <script>x</script> \u202e :skull:"
)


@pytest.fixture
def hostile(table_release: Release, tmp_path: Path) -> Path:
    """A release that is not private and whose card tries to wipe the line that says so."""
    card = replace(table_release.card, warnings=(HOSTILE,), public_source=HOSTILE)
    return replace(table_release, card=card).save(tmp_path / "release")


def steers(text: str) -> list[str]:
    """Characters that a terminal would obey; colours that rich writes itself are taken out first."""
    return re.findall(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", re.sub(r"\x1b\[[\d;]*m", "", text)
    )


def run(*words: object) -> str:
    """What a command prints, to either stream; a failure of the test if it fails."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_a_card_cannot_steer_the_terminal(hostile: Path, tmp_path: Path) -> None:
    """Escapes and markup of a card are spelled out by every command that shows it, and the warning stays."""
    shown = {
        "inspect": run("inspect", hostile),
        "json": run("inspect", hostile, "--json"),
        "sample": run("sample", hostile, "--rows", 2, "--out", tmp_path / "x.csv"),
    }
    for name, text in shown.items():
        assert not steers(text), name
        assert "NOT PRIVATE" in text, name
        assert "[conceal]" in text.replace("\\[", "[").replace("\n", ""), name


def test_pages_of_a_hostile_card_hold_no_tag(hostile: Path) -> None:
    """README and Markdown report show the texts of a card, and no tag or escape of them is one."""
    loaded = Release.load(hostile)
    for text in ((hostile / "README.md").read_text("utf-8"), report(loaded, format=Format.MARKDOWN)):
        assert "<script" not in text
        assert not steers(text)


@pytest.mark.parametrize("name", ["x[/a].csv", "x[red]y.csv", "x:skull:.csv"])
def test_brackets_in_a_path_are_no_markup(hostile: Path, tmp_path: Path, name: str) -> None:
    """A file with brackets in its name is written, and named as it is."""
    text = run("sample", hostile, "--rows", 2, "--out", tmp_path / name)
    assert name in text.replace("\n", "")
    assert (tmp_path / name).exists()


def test_brackets_in_a_data_set_name_are_no_markup(tmp_path: Path) -> None:
    """A data set may be called anything printable."""
    ledger = tmp_path / "a.ledger"
    words = ("--ledger", ledger, "--dataset", "a[/b]")
    assert "a[/b]" in run("ledger", "register", *words, "--epsilon", 1, "--delta", "1e-5")
    assert "a[/b]" in run("ledger", "show", "--ledger", ledger)


def test_progress_bars_show_words_as_they_are() -> None:
    """A recipe's name or a note in a progress bar is no markup and steers nothing."""
    with progress_bar() as bar:
        task = bar.add_task("[/x]\x1b[2J", total=1, note="[bold]")
        shown = [column.render(bar.tasks[task]) for column in bar.columns if isinstance(column, _Words)]
    assert [str(text) for text in shown] == ["[/x]\\x1b[2J", "[bold]"]


def test_ordinary_text_is_left_alone() -> None:
    """Letters of all languages, Greek symbols, tabs and lines pass every medium unchanged."""
    for text in ("ε = 1, σ² ≤ 3", "Ärzte & co", "日本語", "a\tb\nc"):
        assert for_terminal(text) == text
    assert for_markdown("a_b (c) 50 %") == "a_b (c) 50 %"


def test_a_byte_that_is_no_letter_is_spelled() -> None:
    """A file name that is no UTF-8 can be printed."""
    assert for_terminal(os.fsdecode(b"bad\xff.csv")) == "bad\\xff.csv"


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd", "-cmd", "@sum", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "-", "+1+1"]
)
def test_a_formula_becomes_text(cell: str) -> None:
    """What a spreadsheet would compute gets an apostrophe before it."""
    assert for_spreadsheet(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "a=1", "-1", "+2.5", "-1e-5", "-.5", "1-2", "'=1"])
def test_numbers_and_words_stay(cell: str) -> None:
    """Numbers, also as text, and cells that begin otherwise are not touched."""
    assert for_spreadsheet(cell) == cell


def test_a_csv_is_safe_by_default_and_raw_on_demand(tmp_path: Path) -> None:
    """Text cells and headings are guarded in CSV only; numbers, missing cells and Parquet are as they were."""
    frame = pd.DataFrame(
        {
            "=head": [-1.5, 2.0, None],
            "town": pd.Categorical(["=cmd()", "north", None]),
            "code": ["-1", "@x", "north"],
        }
    )
    write_records(iter([frame]), tmp_path / "safe.csv")
    write_records(iter([frame]), tmp_path / "raw.csv", raw_text=True)
    write_records(iter([frame]), tmp_path / "t.parquet")
    safe = (tmp_path / "safe.csv").read_text("utf-8").splitlines()
    assert safe == ["'=head,town,code", "-1.5,'=cmd(),-1", "2.0,north,'@x", ",,north"]
    assert (tmp_path / "raw.csv").read_text("utf-8").splitlines()[1] == "-1.5,=cmd(),-1"
    assert list(pd.read_parquet(tmp_path / "t.parquet")["code"]) == ["-1", "@x", "north"]
    assert list(frame.columns) == ["=head", "town", "code"], "the caller's table was changed"
    assert spreadsheet_safe(frame).dtypes.iloc[0] == frame.dtypes.iloc[0]


def test_records_go_to_standard_output(table_release: Release, tmp_path: Path) -> None:
    """`--out -` prints CSV, or with --json a list of objects, and nothing else on standard output."""
    folder = table_release.save(tmp_path / "release")
    words = ["sample", str(folder), "--rows", "3", "--seed", "1", "--out", "-"]
    text = CliRunner().invoke(app, words)
    assert len(pd.read_csv(io.StringIO(text.stdout))) == 3
    assert "3 records" in text.stderr
    rows = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert len(rows) == 3
    assert set(rows[0]) == {column.name for column in table_release.schema.columns}  # type: ignore[union-attr]
    assert not (Path.cwd() / "-").exists()


def test_a_schema_may_name_a_column_like_a_formula(tmp_path: Path) -> None:
    """Cells are written as the schema's files write them, to a file and to standard output alike, and guarded after."""
    schema = TableSchema(
        (Binary("=flag", ("-no", "+yes"), stored_as=CellType.BOOL), Continuous("x", -1, 1)),
        file=FileFormat(separator=";", decimal=","),
    )
    frame = pd.DataFrame({"=flag": [True, False], "x": [-0.5, 0.5]})
    write_records(iter([frame]), tmp_path / "a.csv", schema=schema)
    stream = io.StringIO()
    print_records(iter([frame]), stream, schema=schema, as_json=False)
    wanted = ["'=flag;x", "'+yes;-0,5", "'-no;0,5"]
    assert (tmp_path / "a.csv").read_text("utf-8").splitlines() == wanted
    assert stream.getvalue().splitlines() == wanted


def test_json_in_several_chunks_is_one_list() -> None:
    """Chunks follow each other inside one list."""
    stream, frame = io.StringIO(), pd.DataFrame({"a": [1, 2]})
    assert print_records(iter([frame, frame]), stream, as_json=True) == 4
    assert json.loads(stream.getvalue()) == [{"a": 1}, {"a": 2}] * 2


def program(*words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program as a user would, with a terminal of another kind."""
    return subprocess.run(
        [sys.executable, "-m", "understudy", *(os.fsencode(str(word)) for word in words)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **environment},
        cwd=cwd,
        check=False,
        timeout=300,
    )


def test_an_ascii_terminal_is_enough(hostile: Path, tmp_path: Path) -> None:
    """Greek letters are spelled out where the terminal has none; JSON stays JSON."""
    done = program("inspect", hostile, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    done = program("inspect", hostile, "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["warnings"] == [HOSTILE]


def test_a_full_standard_output_is_an_error_not_a_traceback(hostile: Path, tmp_path: Path) -> None:
    """`understudy inspect > /dev/full` ends with a sentence and exit code 1."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "understudy", "inspect", str(hostile)],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            check=False,
            timeout=300,
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
