from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from understudy.cli.schema import app
from understudy.data import Database, read
from understudy.data.checking import check
from understudy.data.databases import source_of
from understudy.data.draft import draft_schema
from understudy.errors import DataError
from understudy.records.encode import encode
from understudy.schema import (
    Binary,
    Categorical,
    Continuous,
    Integer,
    TableSchema,
    save_schema,
    schema_from_toml,
)

SCHEMA = TableSchema(
    (
        Integer("age", 0, 120, missing=True),
        Categorical("town", ("Ulm", "Bonn")),
        Continuous("weight", 0.0, 200.0, decimals=1),
        Binary("ill", ("False", "True")),
    )
)
ROWS = [(31, "Ulm", 61.5, True), (None, "Bonn", 80.0, False), (87, "Ulm", 70.2, False)]
CREATE = "create table people (age integer, town text, weight {number}, ill {truth})"
SELECT = "select * from people order by weight"
WANTED = [61.5, 70.2, 80.0]


def _sqlite(folder: Path) -> str:
    path = folder / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute(CREATE.format(number="real", truth="text"))
        connection.executemany(
            "insert into people values (?, ?, ?, ?)", [(*row[:3], str(row[3])) for row in ROWS]
        )
    connection.close()
    return str(path)


def _duckdb(folder: Path) -> str:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(CREATE.format(number="decimal(8, 1)", truth="boolean"))
        connection.executemany("insert into people values (?, ?, ?, ?)", ROWS)
    return str(path)


@pytest.fixture(scope="module")
def postgresql(postgresql_server: str) -> str:
    """The address of a server with a table of people."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgresql_server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE.format(number="numeric(8, 1)", truth="boolean"))
        for age, town, weight, ill in ROWS:
            values = f"{'null' if age is None else age}, '{town}', {weight}, {ill}"
            cursor.execute(f"insert into people values ({values})")
    return postgresql_server


def _check_rows(source: Database) -> None:
    records = read(source, SCHEMA)
    encoded = encode(records, SCHEMA)
    assert [float(value) for value in records.frame["weight"]] == WANTED
    assert encoded.x[:, -1].tolist() == [1, -1, -1]
    assert encoded.x[:, 1].tolist() == [0, 0, 1]
    assert check(source, SCHEMA).fits


@pytest.mark.parametrize("make", [_sqlite, _duckdb])
def test_files_of_databases(make: Any, tmp_path: Path) -> None:
    """A query to a SQLite or DuckDB file gives the rows; nothing can be written; `draft` takes its types."""
    path = make(tmp_path)
    _check_rows(Database(path, SELECT))
    assert {column.name for column in _learned(Database(path, SELECT)).columns} == {
        "age",
        "town",
        "weight",
        "ill",
    }
    with pytest.raises(DataError, match="did not answer the query"):
        read(Database(path, "drop table people"), SCHEMA)
    _check_rows(Database(path, SELECT))
    with pytest.raises(DataError, match="did not answer") as problem:
        read(Database(path, "select 'secret' from nowhere"), SCHEMA)
    assert "secret" not in str(problem.value)
    with pytest.raises(DataError, match="does not exist"):
        read(Database(str(tmp_path / "none.db"), SELECT), SCHEMA)


def _learned(source: Database) -> TableSchema:
    schema = schema_from_toml(draft_schema(source, from_public=True))
    assert isinstance(schema, TableSchema)
    return schema


def test_a_server(postgresql: str) -> None:
    """PostgreSQL answers with booleans, empty cells and exact numbers as they are; nothing can be written."""
    _check_rows(Database(postgresql, SELECT))
    for attempt in ("drop table people", "delete from people returning *"):
        with pytest.raises(DataError, match="did not answer the query"):
            read(Database(postgresql, attempt), SCHEMA)
    _check_rows(Database(postgresql, SELECT))
    text = draft_schema(Database(postgresql, SELECT))
    assert 'kind = "integer"\nname = "age"' in text
    assert "correct" not in text


def test_credentials_are_never_shown(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither values nor errors nor the command line show user or password; both may come from the environment."""
    source = Database(postgresql, SELECT)
    wrong = Database(postgresql.replace("correct", "wrong"), SELECT)
    with pytest.raises(DataError) as problem:
        read(wrong, SCHEMA)
    schema = tmp_path / "schema.toml"
    save_schema(SCHEMA, schema)
    shown = CliRunner().invoke(app, ["check", postgresql, "--query", SELECT, "--schema", str(schema)])
    assert shown.exit_code == 0, shown.output
    for text in (repr(source), str(source), str(problem.value), shown.output):
        assert "curator" not in text
        assert "horse" not in text
    folder = postgresql.split("host=")[1]
    monkeypatch.setenv("PGPASSWORD", "correct horse")
    monkeypatch.setenv("PGUSER", "curator")
    _check_rows(Database(f"postgresql:///postgres?host={folder}", SELECT))


def test_what_an_argument_names() -> None:
    """Databases need a query, and only databases take one."""
    assert source_of("patients.csv", None) == "patients.csv"
    assert source_of("postgresql://u:p@h/d", "select 1") == Database("postgresql://u:p@h/d", "select 1")
    with pytest.raises(
        DataError, match=r"postgresql://h/d is a database: say what to read, as in --query"
    ) as no:
        source_of("postgresql://u:p@h/d", None)
    assert "u:p" not in str(no.value)
    with pytest.raises(DataError, match=r"patients\.csv is none"):
        source_of("patients.csv", "select 1")
    with pytest.raises(DataError, match="no database that can be read"):
        Database("mysql://h/d", "select 1")
