"""The working copy on disk: bit for bit what was encoded, private, and gone with the process."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tiny import TINY_TABLE
from understudy.door import cache as cache_module
from understudy.door.cache import RowCache
from understudy.errors import DataError
from understudy.records.encode import Encoded
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import Binary, Categorical, CodeSchema, Continuous, Integer, Schema, TableSchema

SCHEMAS: dict[str, Schema] = {
    "table": TINY_TABLE,
    "missing": TableSchema(
        (
            Continuous("dose", -1.0, 3.0, missing=True),
            Categorical("town", tuple(f"t{number}" for number in range(300)), missing=True),
            Binary("smoker", ("no", "yes"), missing=True),
            Integer("visits", 0, 9),
        )
    ),
    "categories": TableSchema((Categorical("a", ("x", "y")), Categorical("b", ("x", "y", "z")))),
    "numbers": TableSchema((Continuous("a", 0, 1), Continuous("b", 0, 1))),
    "codes": CodeSchema(("a", "b", "c"), label=Binary("dead", ("no", "yes"))),
    "counted": CodeSchema(("a", "b"), max_count=7),
    "often": CodeSchema(("a", "b"), max_count=1000),
}


def encoded(schema: Schema, rows: int) -> Encoded:
    drawn = stand_in_rows(schema, rows, 0)
    labels = None if drawn.labels is None else np.asarray(drawn.labels)
    return Encoded(np.asarray(drawn.x), labels)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_what_is_read_is_what_was_appended(kind: str) -> None:
    """Walks, slices and scattered rows give the encoder's numbers bit for bit, with their labels."""
    schema = SCHEMAS[kind]
    whole = encoded(schema, 53)
    kept = RowCache(schema)
    for part in (slice(20), slice(20, 20), slice(20, 41), slice(41, 53)):
        kept.append(Encoded(whole.x[part], None if whole.labels is None else whole.labels[part]))
    rows = kept.rows()
    assert len(rows) == 53
    walked = list(rows.batches(10))
    assert torch.equal(torch.cat([x for x, _ in walked]), torch.from_numpy(whole.x))
    indices = torch.tensor([0, 1, 2, 7, 8, 30, 52])
    x, labels = rows.take(indices, torch.zeros(1))
    assert torch.equal(x, torch.from_numpy(whole.x)[indices])
    if whole.labels is None:
        assert labels is None
    else:
        assert torch.equal(torch.cat([one for _, one in walked]), torch.from_numpy(whole.labels))
        assert torch.equal(labels, torch.from_numpy(whole.labels)[indices])
    assert rows.take(torch.zeros(0, dtype=torch.int64), torch.zeros(1))[0].shape == (0, whole.x.shape[1])
    assert rows.x[-3:].shape == (3, whole.x.shape[1])


def test_no_rows_are_rows_too() -> None:
    """A process without records has a copy of none."""
    rows = RowCache(TINY_TABLE).rows()
    assert len(rows) == 0
    assert list(rows.batches(5)) == []


def test_the_copy_is_private_and_has_no_name(tmp_path: Path) -> None:
    """Nobody else can open it, and no folder shows it."""
    kept = RowCache(TINY_TABLE, tmp_path)
    kept.append(encoded(TINY_TABLE, 1000))
    assert list(tmp_path.iterdir()) == []
    found = os.fstat(kept._records.handle)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_nlink == 0
    assert found.st_size > 1000


def test_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    """After kill -9 the folder is empty, before anything is started again."""
    script = f"""
import os, sys
sys.path[:0] = {sys.path[:3]!r}
from pathlib import Path
from tiny import TINY_TABLE
from test_cache import encoded
from understudy.door.cache import RowCache
kept = RowCache(TINY_TABLE, Path({str(tmp_path)!r}))
kept.append(encoded(TINY_TABLE, 1000))
os.kill(os.getpid(), 9)
"""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_with_a_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder cannot hold the copy, the message names the folder and the option."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    kept = RowCache(TINY_TABLE, tmp_path)
    monkeypatch.setattr(cache_module.os, "write", full)
    with pytest.raises(DataError, match="--cache"):
        kept.append(encoded(TINY_TABLE, 10))
    with pytest.raises(DataError, match="working copy"):
        RowCache(TINY_TABLE, tmp_path / "absent")


def test_a_copy_that_was_cut_is_not_read_further() -> None:
    """Where the file is shorter than it was written, reading stops instead of giving zeros."""
    kept = RowCache(TINY_TABLE)
    kept.append(encoded(TINY_TABLE, 100))
    os.ftruncate(kept._records.handle, 50)
    with pytest.raises(DataError, match="cut while it was in use"):
        list(kept.rows().batches(100))
