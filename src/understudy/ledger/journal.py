"""An append-only, hash-chained journal in one SQLite file.

Every record's hash covers the hash before it, so a record that is edited, removed or reordered breaks the
chain. A chain that was cut at its end, or replaced by an older copy, is still whole in itself; that is
found by comparing it with a head that was noted elsewhere: in the small file beside the journal, in memory,
or in the card of a release. Whoever can rewrite the journal, the file beside it and all cards can forge the
account: this guards against accidents and careless hands, not against the owner of the disk.

A record is durable (fsync) when `append` returns inside a finished transaction. Time is noted for readers
only; the order is that of the sequence numbers, so a clock that jumps does no harm.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.errors import LedgerError
from understudy.files import remove_leftovers, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Head", "Journal", "Record"]

_APPLICATION = 0x75737479
_FORMAT = 1
_PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""

_TABLE = """CREATE TABLE journal (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, action TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL
)"""
_NO_EDIT = """CREATE TRIGGER journal_is_not_edited BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"""
_NO_CUT = """CREATE TRIGGER journal_is_not_cut BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"""
_SCHEMA = (_TABLE, _NO_EDIT, _NO_CUT)


@dataclass(frozen=True)
class Record:
    """One line of the journal."""

    seq: int
    time: str
    action: str
    body: dict[str, Any]
    hash: str


@dataclass(frozen=True)
class Head:
    """The last record of a journal at some moment; enough to prove later that nothing before it changed."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read what `str` wrote.

        Raises:
            LedgerError: if the text is something else.
        """
        seq, _, digest = text.strip().partition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 19 and _is_digest(digest)):
            raise LedgerError(f"not the head of a ledger: {text[:80]!r} (expected number:sha256).")
        return cls(int(seq), digest)


_NOTHING = Head(0, "0" * 64)


class Journal:
    """The open file. Use it as a context manager, from one thread, in the process that opened it.

    Args:
        path: the SQLite file; it, and the files beside it, are readable by their owner only.
        create: make a new journal if there is none.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self.head = _NOTHING
        with _explained(path):
            fresh = not path.exists()
            if fresh and not create:
                raise LedgerError(
                    f"there is no ledger at {path}; make one with `understudy ledger register`."
                )
            if fresh and self._noted() not in (None, _NOTHING):
                raise LedgerError(
                    f"{self._beside} exists but {path} does not: the ledger was removed. Restore it; a new "
                    "ledger would forget what was spent."
                )
            remove_leftovers(self._beside)
            if fresh:
                self._note_head()
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
            try:
                self._prepare(create)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, create: bool) -> None:
        run = self._connection.execute
        run("PRAGMA trusted_schema=OFF")
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        if create or self._noted() == _NOTHING:  # new, or its making was interrupted before the first record
            with self._locked():
                if not run("SELECT 1 FROM sqlite_master").fetchall():
                    for statement in _SCHEMA:
                        run(statement)
                    run(f"PRAGMA application_id={_APPLICATION}")
                    run(f"PRAGMA user_version={_FORMAT}")
        self._refuse_foreign()

    def _refuse_foreign(self) -> None:
        run = self._connection.execute
        found = (run("PRAGMA application_id").fetchone()[0], run("PRAGMA user_version").fetchone()[0])
        schema = {row[0] for row in run("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if found != (_APPLICATION, _FORMAT) or schema != set(_SCHEMA):
            raise LedgerError(
                f"{self.path} is not a ledger of this version, or its tables were changed: application "
                f"{found[0]}, format {found[1]}. Restore it from a copy that is at least as recent."
            )

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Everything appended is already durable."""
        self._connection.close()

    def unlink(self) -> None:
        """Delete the file and those beside it."""
        for ending in (".head", "", "-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[list[Record]]:
        """Hold the write lock; yields the records that are new since the last look, verified.

        All that is appended inside becomes durable together when the block ends, or not at all if it raises.
        """
        with _explained(self.path):
            seen = self.head
            try:
                with self._locked():
                    fresh = self._catch_up()
                    self._refuse_behind(self._noted())
                    seen = self.head
                    yield fresh
                if self.head != seen:
                    self._note_head()
            except BaseException:
                self.head = seen
                raise

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait in line with others who compute something long before they write; nobody else waits for them.

        It saves them from computing in vain and guards nothing: who cannot wait in line here (a foreign file system)
        or has waited long goes on without.
        """
        handle = os.open(self.path.parent, os.O_RDONLY)
        try:
            end = time.monotonic() + _PATIENCE
            with contextlib.suppress(OSError):
                while not _taken(handle) and time.monotonic() < end:
                    time.sleep(0.05)
            yield
        finally:
            os.close(handle)  # which also ends the turn

    def append(self, action: str, body: dict[str, Any]) -> Record:
        """Add one record inside a `transaction`."""
        moment = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        text = json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False)
        seq = self.head.seq + 1
        digest = _digest(self.head.hash, seq, moment, action, text)
        self._connection.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?)", (seq, moment, action, text, digest)
        )
        self.head = Head(seq, digest)
        return Record(seq, moment, action, body, digest)

    def verify(self, known: str | None = None) -> Head:
        """Recompute the whole chain, compare it with the noted head and a known one; returns the head.

        Args:
            known: a head noted elsewhere: its hash alone, as in the card of a release, or with its number.

        Raises:
            LedgerError: if a record was edited or removed, or the journal is older than a noted head.
        """
        with _explained(self.path), self._locked():
            rows = self._rows(0)
            seen = self.head
            head = _NOTHING
            wanted = None if known is None else _digest_of(known)
            for row in rows:
                head = self._check(head, row)
                if head.hash == wanted:
                    wanted = None
                if seen.seq == head.seq and seen != head:
                    raise self._rolled_back(seen)
            if head.seq < seen.seq:
                raise self._rolled_back(seen)
            if wanted is not None:
                raise LedgerError(
                    f"{self.path} was rolled back or cut, or is another ledger: no record has the hash {wanted[:12]}…. "
                    "An older ledger forgets what was spent: restore a copy that contains it."
                )
            self._refuse_behind(self._noted())
            return head

    def _catch_up(self) -> list[Record]:
        """Read and verify what was appended since the last look, and that what was seen is still there."""
        if self.head.seq:
            row = self._connection.execute(
                "SELECT hash FROM journal WHERE seq = ?", (self.head.seq,)
            ).fetchone()
            if row is None or row[0] != self.head.hash:
                raise self._rolled_back(self.head)
        records = []
        for row in self._rows(self.head.seq):
            self.head = self._check(self.head, row)
            records.append(self._record(row))
        return records

    def _rows(self, after: int) -> list[tuple[Any, ...]]:
        query = "SELECT seq, time, action, body, hash FROM journal WHERE seq > ? ORDER BY seq"
        return self._connection.execute(query, (after,)).fetchall()

    def _check(self, previous: Head, row: tuple[Any, ...]) -> Head:
        seq, time, action, body, digest = row
        if seq != previous.seq + 1:
            raise LedgerError(
                f"{self.path}: record {previous.seq + 1} is missing (the next one is {seq}). The ledger was "
                "edited; restore it from a copy that is at least as recent."
            )
        if not all(isinstance(item, str) for item in row[1:]) or digest != _digest(
            previous.hash, seq, time, action, body
        ):
            raise LedgerError(
                f"{self.path}: record {seq} does not match its hash. The ledger was edited or damaged; "
                "restore it from a copy that is at least as recent."
            )
        return Head(seq, digest)

    def _record(self, row: tuple[Any, ...]) -> Record:
        seq, time, action, body, digest = row
        try:
            plain = json.loads(body)
        except (ValueError, RecursionError) as cause:
            raise LedgerError(f"{self.path}: record {seq} is not valid JSON: {cause}.") from cause
        if not isinstance(plain, dict):
            raise LedgerError(f"{self.path}: record {seq} holds no table.")
        return Record(seq, time, action, plain, digest)

    # ------------------------------------------------------------ the head beside the file

    @property
    def _beside(self) -> Path:
        return self.path.with_name(self.path.name + ".head")

    def _noted(self) -> Head | None:
        try:
            return Head.parse(self._beside.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as cause:
            raise LedgerError(f"{self._beside} is damaged: {cause}.") from cause

    def _note_head(self) -> None:
        """Write the head beside the file, atomically; an older head left by a crash still proves its part."""
        write_whole(self._beside, str(self.head), error=LedgerError, private=True)

    def _refuse_behind(self, noted: Head | None) -> None:
        if noted is None:
            raise LedgerError(
                f"{self._beside} is missing: the last known head of the ledger. Restore it, or write into it "
                "the head that the card of the latest release carries."
            )
        if noted == _NOTHING:
            return
        row = self._connection.execute("SELECT hash FROM journal WHERE seq = ?", (noted.seq,)).fetchone()
        if row is None or row[0] != noted.hash:
            raise self._rolled_back(noted)

    def _rolled_back(self, noted: Head) -> LedgerError:
        last = self._connection.execute("SELECT MAX(seq) FROM journal").fetchone()[0] or 0
        return LedgerError(
            f"{self.path} was rolled back or cut: record {noted.seq} was {noted.hash[:12]}… once, but the "
            f"ledger now ends at record {last} or differs there. An older ledger forgets what was spent: "
            f"restore a copy that contains {noted}."
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _taken(handle: int) -> bool:
    """Whether the lock on an open folder could be had at once; OSError where there are no such locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digest(previous: str, seq: int, time: str, action: str, body: str) -> str:
    """The hash of a record: an unambiguous JSON list, so that no two records share a text."""
    return hashlib.sha256(json.dumps([previous, seq, time, action, body]).encode()).hexdigest()


def _digest_of(head: str) -> str:
    digest = head.strip().rpartition(":")[2]
    if not _is_digest(digest):
        raise LedgerError(f"not the head of a ledger: {head[:80]!r} (expected sha256 or number:sha256).")
    return digest


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(character in "0123456789abcdef" for character in text)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system say into an error that says what to do."""
    try:
        yield
    except sqlite3.Error as cause:
        text = str(cause)
        hint = "Is it a ledger, and may this user write to it?"
        if "locked" in text:
            hint = f"Another process has held it for more than {_PATIENCE:g} s."
        elif "full" in text or "disk I/O" in text:
            hint = "The disk is full or failing; nothing was drawn that is not on record."
        elif "readonly" in text:
            hint = "It cannot be written; a charge that cannot be recorded must not be spent."
        raise LedgerError(f"the ledger {path} cannot be used: {text}. {hint}") from cause
    except OSError as cause:
        raise LedgerError(f"the ledger {path} cannot be used: {cause.strerror or cause}.") from cause
    except UnicodeDecodeError as cause:
        raise LedgerError(f"the ledger {path} is damaged: {cause}. Restore it from a copy.") from cause
