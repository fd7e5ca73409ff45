"""The hash-chained journal: what is written stays, and what was tampered with is noticed."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
from typing import TYPE_CHECKING

import pytest

from understudy.errors import LedgerError
from understudy.ledger.journal import Head, Journal

if TYPE_CHECKING:
    from pathlib import Path


def append(path: Path, *actions: str) -> Head:
    """Append one record per action, each in its own transaction."""
    with Journal(path, create=True) as journal:
        for action in actions:
            with journal.transaction():
                journal.append(action, {"number": len(action)})
        return journal.head


def tamper(path: Path, *statements: str) -> None:
    """Change the file behind the journal's back, and put its guards back in place."""
    connection = sqlite3.connect(path)
    guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in guards:
        connection.execute(sql)
    connection.commit()
    connection.close()


def beside(path: Path) -> Path:
    """The file that holds the last known head."""
    return path.with_name(path.name + ".head")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal of a test lives."""
    return tmp_path / "ledger.db"


def test_records_are_read_back_in_order(path: Path) -> None:
    """What was appended comes back, with its numbers and its hashes chained."""
    head = append(path, "a", "bb", "ccc")
    with Journal(path) as journal, journal.transaction() as records:
        assert [(one.seq, one.action, one.body["number"]) for one in records] == [
            (1, "a", 1),
            (2, "bb", 2),
            (3, "ccc", 3),
        ]
        assert records[-1].hash == head.hash
        assert len({one.hash for one in records}) == 3


def test_files_are_private(path: Path) -> None:
    """The journal and everything beside it are readable by their owner only."""
    with Journal(path, create=True) as journal, journal.transaction():
        journal.append("a", {})
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_a_failed_transaction_leaves_nothing(path: Path) -> None:
    """If the block raises, none of its records exist, and the journal goes on."""
    with Journal(path, create=True) as journal:
        with contextlib.suppress(ZeroDivisionError), journal.transaction():
            journal.append("lost", {})
            raise ZeroDivisionError
        with journal.transaction() as fresh:
            assert fresh == []
            assert journal.append("kept", {}).seq == 1
        assert journal.verify().seq == 1


def test_other_processes_records_are_seen(path: Path) -> None:
    """Each transaction yields what others appended since the last one, once."""
    with Journal(path, create=True) as first, Journal(path) as second:
        with first.transaction():
            first.append("a", {})
        with second.transaction() as fresh:
            assert [one.action for one in fresh] == ["a"]
            second.append("b", {})
        with first.transaction() as fresh:
            assert [one.action for one in fresh] == ["b"]
        with second.transaction() as fresh:
            assert fresh == []


def test_sql_cannot_edit_by_accident(path: Path) -> None:
    """UPDATE and DELETE are refused by the file itself."""
    append(path, "a", "b")
    connection = sqlite3.connect(path)
    for statement in ("UPDATE journal SET body = '{}'", "DELETE FROM journal"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE journal SET body = '{\"number\": 7}' WHERE seq = 2", "does not match its hash"),
        ("UPDATE journal SET time = '1999-01-01' WHERE seq = 1", "does not match its hash"),
        ("UPDATE journal SET action = 'refund' WHERE seq = 3", "does not match its hash"),
        ("UPDATE journal SET body = x'00' WHERE seq = 2", "does not match its hash"),
        ("DELETE FROM journal WHERE seq = 2", "record 2 is missing"),
        ("DELETE FROM journal WHERE seq = 1", "record 1 is missing"),
        ("DELETE FROM journal WHERE seq = 3", "rolled back or cut"),
        ("DELETE FROM journal", "rolled back or cut"),
    ],
)
def test_edits_and_cuts_are_noticed(path: Path, statement: str, message: str) -> None:
    """Any changed, removed or cut record is refused, when verifying and when writing."""
    append(path, "a", "bb", "ccc")
    tamper(path, statement)
    with Journal(path) as journal:
        with pytest.raises(LedgerError, match=message):
            journal.verify()
        with pytest.raises(LedgerError, match=message), journal.transaction():
            pytest.fail("a damaged journal must not be written")


def test_an_older_copy_is_noticed(path: Path, tmp_path: Path) -> None:
    """Restoring a backup over the journal is a roll-back, even though the backup is whole in itself."""
    append(path, "a")
    shutil.copy(path, tmp_path / "backup")
    append(path, "b")
    shutil.copy(tmp_path / "backup", path)
    with Journal(path) as journal, pytest.raises(LedgerError, match="rolled back"), journal.transaction():
        pytest.fail("an older journal must not be written")


def test_an_older_copy_of_everything_is_noticed_by_a_known_head(path: Path, tmp_path: Path) -> None:
    """If the file beside it was rolled back, too, the head in a release card still tells."""
    append(path, "a")
    for file in (path, beside(path)):
        shutil.copy(file, tmp_path / f"backup {file.name}")
    card = append(path, "b")
    for file in (path, beside(path)):
        shutil.copy(tmp_path / f"backup {file.name}", file)
    with Journal(path) as journal:
        assert journal.verify().seq == 1
        for noted in (str(card), card.hash):
            with pytest.raises(LedgerError, match="rolled back"):
                journal.verify(noted)


def test_a_rewritten_history_is_noticed_by_a_known_head(path: Path, tmp_path: Path) -> None:
    """A different but consistent journal of the same length does not contain the known head."""
    card = append(path, "a", "b")
    other = tmp_path / "other.db"
    append(other, "a", "c")
    with Journal(other) as journal, pytest.raises(LedgerError, match="rolled back"):
        journal.verify(card.hash)


def test_a_known_head_is_found_with_or_without_its_number(path: Path) -> None:
    """The hash on a card is enough, also when more was written since; what is no head is refused."""
    card = append(path, "a", "b")
    append(path, "c")
    with Journal(path) as journal:
        for noted in (str(card), card.hash):
            assert journal.verify(noted).seq == 3
        with pytest.raises(LedgerError, match="not the head of a ledger"):
            journal.verify("2:abc")


def test_a_rollback_under_an_open_journal_is_noticed(path: Path) -> None:
    """A process that has the journal open remembers what it saw."""
    append(path, "a", "b")
    with Journal(path) as journal:
        with journal.transaction():
            pass
        tamper(path, "DELETE FROM journal WHERE seq = 2")
        beside(path).write_text("0:" + "0" * 64)
        with pytest.raises(LedgerError, match="rolled back"), journal.transaction():
            pytest.fail("must not be written")


def test_missing_files_are_not_replaced(path: Path) -> None:
    """A journal without its head, or a head without its journal, is refused: a new one would forget."""
    append(path, "a", "b")
    head = beside(path).read_text()
    beside(path).unlink()
    with Journal(path) as journal, pytest.raises(LedgerError, match="is missing"):
        journal.verify()
    beside(path).write_text(head)
    path.unlink()
    with pytest.raises(LedgerError, match="was removed"):
        Journal(path, create=True)


def test_a_crash_before_the_first_record_can_be_repeated(path: Path) -> None:
    """The file beside, written first, does not block making the journal again while nothing was on record."""
    Journal(path, create=True).close()
    path.unlink()
    assert append(path, "a").seq == 1


def test_a_crash_while_the_file_is_made_leaves_an_empty_journal(path: Path) -> None:
    """A file without tables beside the head of nothing is a journal without records, also for a reader."""
    Journal(path, create=True).close()
    path.write_bytes(b"")
    with Journal(path) as journal, journal.transaction() as fresh:
        assert fresh == []
    assert append(path, "a").seq == 1
    path.write_bytes(b"")
    with pytest.raises(LedgerError):
        Journal(path)


def test_a_stale_head_is_allowed(path: Path) -> None:
    """A crash between a record and its note beside leaves an older head, which is still part of the chain."""
    append(path, "a")
    older = beside(path).read_text()
    append(path, "b")
    beside(path).write_text(older)
    assert append(path, "c").seq == 3


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to look", b"\x00" * 5000])
def test_foreign_files_are_refused(path: Path, content: bytes) -> None:
    """A file that is no ledger is refused with an explanation, and not changed into one."""
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Journal(path)


def test_foreign_tables_are_refused(path: Path) -> None:
    """A database with other tables, triggers or views is no ledger."""
    append(path, "a")
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIEW extra AS SELECT * FROM journal")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger"):
        Journal(path)


@pytest.mark.parametrize(
    "text", ["", "5", "5:abc", "x:" + "0" * 64, "5:" + "G" * 64, "9" * 30 + ":" + "0" * 64]
)
def test_only_heads_are_heads(text: str) -> None:
    """Text that is no head is refused."""
    with pytest.raises(LedgerError, match="not the head"):
        Head.parse(text)


def test_a_damaged_head_is_refused(path: Path) -> None:
    """Bytes that are no text beside the journal are refused with an explanation."""
    append(path, "a")
    beside(path).write_bytes(b"\xff\xfe")
    with pytest.raises(LedgerError, match="damaged"), Journal(path) as journal:
        journal.verify()


def test_a_missing_ledger_is_explained(path: Path) -> None:
    """Opening what does not exist says how to make it."""
    with pytest.raises(LedgerError, match="register"):
        Journal(path)
