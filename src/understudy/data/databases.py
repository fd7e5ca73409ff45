"""Rows from a database: one query, read once and read-only, through an ADBC driver as Arrow; SQLite as it is.

Credentials come from the environment or a service file as the database's own tools take them (`PGPASSWORD`,
`PGSERVICEFILE`), or stand in the address; they are shown and recorded nowhere.
"""

from __future__ import annotations

import enum
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd
import pyarrow as pa

from understudy.data.places import without_secrets
from understudy.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Database", "DatabaseKind", "source_of"]


class DatabaseKind(enum.Enum):
    """The databases that can be asked."""

    POSTGRESQL = "PostgreSQL"
    SQLITE = "SQLite"
    DUCKDB = "DuckDB"


_ADDRESSES = {
    "postgresql://": DatabaseKind.POSTGRESQL,
    "postgres://": DatabaseKind.POSTGRESQL,
    "sqlite://": DatabaseKind.SQLITE,
    "duckdb://": DatabaseKind.DUCKDB,
}
_ENDINGS = {
    ".sqlite": DatabaseKind.SQLITE,
    ".sqlite3": DatabaseKind.SQLITE,
    ".db": DatabaseKind.SQLITE,
    ".duckdb": DatabaseKind.DUCKDB,
}


@dataclass(frozen=True, repr=False)
class Database:
    """The rows that a query gives, read when they are needed.

    Args:
        address: `postgresql://host/name`, or the path of a SQLite or DuckDB file (also as `sqlite:///path`).
        query: what to read, in the database's own SQL.
        confined: whether the query may read nothing but the database; DuckDB would read any file and address.
    """

    address: str
    query: str
    confined: bool = False

    def __post_init__(self) -> None:
        if _kind_of(self.address) is None:
            raise DataError(
                f"{without_secrets(self.address)} is no database that can be read; give postgresql://…, or a file that "
                f"ends in {', '.join(_ENDINGS)}"
            )

    def __str__(self) -> str:
        return without_secrets(self.address)

    def __repr__(self) -> str:
        return f"Database({str(self)!r})"

    @property
    def file(self) -> str | None:
        """The path of a database that is a file; None for a server."""
        return None if _kind_of(self.address) is DatabaseKind.POSTGRESQL else _path(self.address)

    @property
    def states_types(self) -> bool:
        """Whether the database says what each column of an answer holds; in SQLite every cell has a type of its own."""
        return _kind_of(self.address) is not DatabaseKind.SQLITE

    def frame(self) -> pd.DataFrame:
        """PRIVATE: the whole answer of a SQLite file, every cell as it is stored, whatever the others are."""
        self.refuse_absent()
        try:
            with closing(
                sqlite3.connect(f"file:{quote(_path(self.address))}?mode=ro", uri=True)
            ) as connection:
                cursor = connection.execute(self.query)
                names = [str(one[0]) for one in cursor.description or ()]
                rows = cursor.fetchall()
        except sqlite3.Error as cause:
            raise self._refused(cause) from None
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        series = [pd.Series(list(cells), dtype=object) for cells in columns]
        return pd.concat(series, axis=1, keys=names) if series else pd.DataFrame()

    @property
    def types(self) -> Any:
        """The pyarrow schema of the answer."""
        with self._answer() as reader:
            return _plain(reader.schema.empty_table()).schema

    def table(self) -> Any:
        """PRIVATE: the whole answer as a pyarrow table."""
        with self._answer() as reader:
            return _plain(reader.read_all())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """PRIVATE: the answer, for whatever reads Arrow."""
        return self.table().__arrow_c_stream__(requested_schema)

    def refuse_absent(self) -> None:
        """Refuse a database file that is not there."""
        if self.file is not None and not Path(self.file).is_file():
            raise DataError(f"{self} does not exist")

    @contextmanager
    def _answer(self) -> Iterator[Any]:
        kind = _kind_of(self.address)
        assert kind is not None
        self.refuse_absent()
        connect = _driver(kind)
        try:
            with connect(self.address) as connection, connection.cursor() as cursor:
                _read_only(kind, cursor, confined=self.confined)
                cursor.execute(self.query)
                yield cursor.fetch_record_batch()
        except DataError:
            raise
        except Exception as cause:  # noqa: BLE001 - drivers raise their own kinds, and all may hold cells
            raise self._refused(cause) from None

    def _refused(self, cause: Exception) -> DataError:
        said = str(cause).replace(self.address, str(self))
        return DataError(f"{self} did not answer the query; see `understudy schema check`", said)


def source_of(data: str, query: str | None) -> str | Database:
    """Return what an argument of the command line names: a database with its query, or anything else as it is."""
    kind = _kind_of(data)
    if kind is None and query is not None:
        raise DataError(f"a query is for databases, but {without_secrets(data)} is none")
    if kind is None or (query is None and not data.startswith(tuple(_ADDRESSES)) and not Path(data).exists()):
        return data
    if query is None:
        raise DataError(
            f'{without_secrets(data)} is a database: say what to read, as in --query "select ..."'
        )
    return Database(data, query)


def _kind_of(address: str) -> DatabaseKind | None:
    for start, kind in _ADDRESSES.items():
        if address.startswith(start):
            return kind
    return _ENDINGS.get(Path(address).suffix.lower())


def _path(address: str) -> str:
    """The path in `sqlite:///path`, which is absolute with four slashes, or the address itself."""
    scheme, mark, rest = address.partition("://")
    return rest.removeprefix("/") if mark and scheme in ("sqlite", "duckdb") else address


def _driver(kind: DatabaseKind) -> Any:
    try:
        match kind:
            case DatabaseKind.POSTGRESQL:
                import adbc_driver_postgresql.dbapi as postgresql

                return lambda address: postgresql.connect(address, autocommit=True)
            case DatabaseKind.SQLITE:
                raise DataError("a SQLite file states no types, so its answer is no Arrow table; use `frame`")
            case DatabaseKind.DUCKDB:
                import adbc_driver_duckdb
                import adbc_driver_manager.dbapi as manager

                return lambda address: manager.connect(
                    driver=adbc_driver_duckdb.driver_path(),
                    entrypoint="duckdb_adbc_init",
                    db_kwargs={"path": _path(address), "access_mode": "READ_ONLY", "temp_directory": ""},
                    autocommit=True,
                )
    except ImportError:
        raise DataError(f"reading from {kind.value} needs a driver: install understudy[sql]") from None


def _read_only(kind: DatabaseKind, cursor: Any, *, confined: bool) -> None:
    if kind is DatabaseKind.POSTGRESQL:
        cursor.execute("set default_transaction_read_only = on")
    if kind is DatabaseKind.DUCKDB and confined:
        cursor.execute("set enable_external_access = false")  # cannot be undone while the database is open


def _plain(table: Any) -> Any:
    """Types of the database that Arrow does not know, such as exact numerics, as the text that carries them."""
    for i, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            column = pa.chunked_array(
                [chunk.storage for chunk in table.column(i).chunks], field.type.storage_type
            )
            table = table.set_column(i, field.name, column)
    return table
