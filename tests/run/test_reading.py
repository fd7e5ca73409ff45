"""Large files become rows behind the door batch by batch, and are the rows that reading them whole would give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from tiny import TINY_TABLE, tiny_frame
from understudy.data import formats, stream, text
from understudy.data.stream import Stream
from understudy.door.ranks import ALONE
from understudy.door.source import Rows
from understudy.errors import DataError, Interrupted, RanksError
from understudy.planning import plan
from understudy.run import reading
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.run.reading import private_rows
from understudy.run.shards import Shard, Shards
from understudy.schema import Binary, CodeSchema, LongFile

WHOLE = tiny_frame(500)


def rows_of(*given: Any, **options: Any) -> Rows:
    """The records alone."""
    return private_rows(*given, **options)[0]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches from few rows."""
    monkeypatch.setattr(formats, "BATCH_ROWS", 64)
    monkeypatch.setattr(text, "_BLOCK", 4000)
    monkeypatch.setattr(reading, "_NUMBERS_AT_ONCE", 300)


def written(folder: Path, kind: str) -> Path:
    """The table as one file, or in a folder of several."""
    halves = {str(i): WHOLE.iloc[i::9] for i in range(9)} if "folder" in kind else {"": WHOLE}
    ending = kind.partition("-")[0]
    for name, frame in halves.items():
        path = folder / f"part{name}.{ending}"
        if ending == "parquet":
            frame.to_parquet(path, row_group_size=100 if kind == ending else 20)
        elif ending == "csv":
            frame.to_csv(path, index=False)
        else:
            with pa.OSFile(str(path), "wb") as sink:
                table = pa.Table.from_pandas(frame, preserve_index=False)
                maker = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
                with maker(sink, table.schema) as out:
                    out.write_table(table, 150)
    return folder if "folder" in kind else folder / f"part.{ending}"


def as_set(rows: Rows) -> list[tuple[float, ...]]:
    """All rows with their labels, in an order of their own."""
    found = []
    for x, labels in rows.batches(97):
        assert labels is not None
        found += [tuple(row) for row in torch.cat([x, labels[:, None].float()], dim=1).tolist()]
    return sorted(found)


KINDS = ["parquet", "parquet-groups", "csv", "arrow", "ipc", "parquet-folder", "csv-folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_gives_the_rows_of_the_whole(tmp_path: Path, kind: str) -> None:
    """Every format, alone and in folders, in one process and dealt to two or three: each row once, bit for bit."""
    expected = as_set(rows_of(WHOLE, TINY_TABLE, ALONE, Shards.DEALT))
    source = written(tmp_path, kind)
    for size in (1, 2, 3):
        parts = [
            rows_of(
                source,
                TINY_TABLE,
                Shard(rank, size),
                Shards.DEALT,
                cache=tmp_path,
            )
            for rank in range(size)
        ]
        assert sorted(row for part in parts for row in as_set(part)) == expected
        assert min(map(len, parts)) >= len(WHOLE) / size / 2, "the work is not shared"


PERSONS = replace(TINY_TABLE, person=("clinic", "who"), max_rows_per_person=3)


def with_persons() -> pd.DataFrame:
    """Persons of two clinics with one to many rows, anywhere in the table."""
    source = np.random.default_rng(1)
    return WHOLE.assign(who=source.integers(0, 90, len(WHOLE)), clinic=source.choice(["a", " b"], len(WHOLE)))


def by_person(rows: Rows) -> list[list[tuple[float, ...]]]:
    """The rows of each person that take part, in an order of their own."""
    assert rows.persons is not None
    found = []
    for number in range(rows.people):
        x, labels = rows.pick(rows.persons.rows_of(torch.tensor([number]))[0])
        assert labels is not None
        found.append(sorted(tuple(row) for row in torch.cat([x, labels[:, None].float()], dim=1).tolist()))
    return sorted(found)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_persons_are_streamed_and_never_split(tmp_path: Path, kind: str) -> None:
    """A person's rows may lie in any file: dealt to one, two or three, each person is in one shard, with all rows."""
    frame = with_persons()
    for number in range(2):
        part = frame.iloc[number::2]
        if kind == "csv":
            part.to_csv(tmp_path / f"{number}.csv", index=False)
        else:
            part.assign(who=part["who"].astype(float if number else int)).to_parquet(
                tmp_path / f"{number}.parquet"
            )
    expected = by_person(rows_of(frame, PERSONS, ALONE, Shards.DEALT))
    for size in (1, 2, 3):
        parts = [
            rows_of(tmp_path, PERSONS, Shard(rank, size), Shards.DEALT, cache=tmp_path, key=b"k")
            for rank in range(size)
        ]
        assert sorted(person for part in parts for person in by_person(part)) == expected
        assert min(part.people for part in parts) > len(expected) / size / 2
    with pytest.raises(RanksError, match="two shards"):
        rows_of(tmp_path, PERSONS, Shard(0, 2), Shards.OWN, cache=tmp_path)


def test_a_fit_of_streamed_persons_is_the_fit_from_memory(tmp_path: Path) -> None:
    """With one seed, counts of persons from the working copy give the release of a fit in memory."""
    with_persons().to_parquet(tmp_path / "table.parquet")
    made = plan(PERSONS, epsilon=3.0, delta=1e-3, rows=None, steps=5)
    one, other = (
        fit(data, made, insecure_seed=1, cache=cache).weights
        for data, cache in ((with_persons(), None), (tmp_path / "table.parquet", tmp_path))
    )
    assert all(np.array_equal(value, other[name]) for name, value in one.items())


def test_a_streamed_row_of_nobody_is_refused(tmp_path: Path) -> None:
    """An empty cell, and a file without the column, are named with their place."""
    frame = with_persons().astype({"clinic": object})
    frame.drop(columns="who").to_parquet(tmp_path / "none.parquet")
    frame.loc[130, "clinic"] = None
    frame.to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match=r"from row 129 on.*row 3: the cell is empty"):
        rows_of(tmp_path / "empty.parquet", PERSONS, ALONE, Shards.DEALT, cache=tmp_path)
    with pytest.raises(DataError, match="who"):
        rows_of(tmp_path / "none.parquet", PERSONS, ALONE, Shards.DEALT, cache=tmp_path)


def test_an_address_is_streamed_like_a_path(tmp_path: Path) -> None:
    """Buckets are read through the file systems of pyarrow, of which `file://` is the one that needs no network."""
    folder = tmp_path / "data"
    folder.mkdir()
    source = f"file://{written(folder, 'parquet-folder')}"
    expected = as_set(rows_of(WHOLE, TINY_TABLE, ALONE, Shards.DEALT))
    for size in (1, 2):
        parts = [
            rows_of(source, TINY_TABLE, Shard(rank, size), Shards.DEALT, cache=tmp_path)
            for rank in range(size)
        ]
        assert sorted(row for part in parts for row in as_set(part)) == expected


def test_the_folder_of_the_working_copy_stays_empty(tmp_path: Path) -> None:
    """Nothing is there after success, after a failure, after a request to stop, and after Ctrl-C in a step."""
    source, folder = written(tmp_path, "parquet"), tmp_path / "cache"
    folder.mkdir()
    made = plan(TINY_TABLE, epsilon=3.0, delta=1e-3, rows=500, recipe="dp-cgan", steps=3, batch=50)
    seen = []

    def stopped() -> bool:
        seen.append(list(folder.iterdir()))
        return len(seen) > 1

    def interrupted(progress: Any) -> None:
        raise KeyboardInterrupt

    fit(source, made, cache=folder)
    WHOLE.assign(visits=7.5).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(DataError):
        fit(tmp_path / "bad.parquet", made, cache=folder)
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(Interrupted):
        fit(source, made, cache=folder, stop=stopped, checkpoints=checkpoints)
    with pytest.raises(KeyboardInterrupt):
        fit(source, made, cache=folder, on_progress=interrupted)
    assert seen == [[], []]
    assert list(folder.iterdir()) == []


def test_groups_of_rows_are_read_by_one_process_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a Parquet file has enough of them, no process reads what is not its own."""
    source, read = written(tmp_path, "parquet-groups"), []
    honest = Stream.batches

    def watched(self: Stream, place: Any) -> Any:
        for frame in honest(self, place):
            read.append(len(frame))
            yield frame

    monkeypatch.setattr(Stream, "batches", watched)
    for rank in range(3):
        rows_of(source, TINY_TABLE, Shard(rank, 3), Shards.DEALT, cache=tmp_path)
    assert sum(read) == len(WHOLE)


def test_codes_in_columns_are_streamed(tmp_path: Path) -> None:
    """Wide code sets from Parquet; as text they are read whole."""
    schema = CodeSchema(("a", "b", "c"), max_count=3)
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 4, (200, 3)), columns=list("abc"))
    frame.to_parquet(tmp_path / "codes.parquet")
    frame.to_csv(tmp_path / "codes.csv", index=False)
    rows = rows_of(tmp_path / "codes.parquet", schema, ALONE, Shards.DEALT, cache=tmp_path)
    assert np.array_equal(np.rint(rows.x[:] * 3), frame.to_numpy())
    with pytest.raises(DataError, match="read whole"):
        rows_of(tmp_path / "codes.csv", schema, ALONE, Shards.DEALT, cache=tmp_path)


def test_long_tables_of_codes_become_sets_some_persons_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a person may lie in any file; no matrix of all persons and codes is ever made."""
    schema = CodeSchema(
        ("a", "b", "c"), max_count=3, label=Binary("dead", ("no", "yes")), long=LongFile("who", "code")
    )
    source = np.random.default_rng(0)
    who = source.integers(0, 60, 400)
    frame = pd.DataFrame({"who": who, "code": source.choice(["a", "b", "c", None], 400)})
    frame["dead"] = np.where(who % 3, "no", "yes")
    for number in range(2):
        frame.iloc[number::2].to_csv(tmp_path / f"{number}.csv", index=False)
    expected = as_set(rows_of(tmp_path, schema, ALONE, Shards.DEALT))
    assert len(expected) == frame["who"].nunique()
    monkeypatch.setattr(stream, "_PERSONS_AT_ONCE", 7)
    monkeypatch.setattr(reading, "LARGE", 1)
    for size in (1, 3):
        parts = [rows_of(tmp_path, schema, Shard(rank, size), Shards.DEALT) for rank in range(size)]
        assert all(not isinstance(part.x, torch.Tensor) for part in parts)
        assert sorted(row for part in parts for row in as_set(part)) == expected


def test_large_files_are_streamed_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a size, the working copy is made without being asked for; below it, memory holds the rows."""
    source = written(tmp_path, "csv")
    assert isinstance(rows_of(source, TINY_TABLE, ALONE, Shards.DEALT).x, torch.Tensor)
    monkeypatch.setattr(reading, "LARGE", 1000)
    assert not isinstance(rows_of(source, TINY_TABLE, ALONE, Shards.DEALT).x, torch.Tensor)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_bad_cell_late_in_a_file_is_found_by_its_row(tmp_path: Path, kind: str) -> None:
    """The message names the file, where the batch begins and the row in it, and shows no cell."""
    bad = WHOLE.astype({"visits": object})
    bad.loc[300, "visits"] = "secret" if kind == "csv" else 7.5
    path = tmp_path / f"bad.{kind}"
    if kind == "csv":
        bad.to_csv(path, index=False)
    else:
        bad.astype({"visits": float}).to_parquet(path)
    with pytest.raises(DataError) as found:
        rows_of(path, TINY_TABLE, ALONE, Shards.DEALT, cache=tmp_path)
    said = str(found.value)
    assert "secret" not in said
    begins, within = (int(part.replace(",", "")) for part in _numbers(said))
    assert begins + within - 1 == 301


def _numbers(said: str) -> list[str]:
    import re

    return re.findall(r"row ([\d,]+)", said)[:2]


def test_numbers_that_only_text_can_tell_are_read_in_every_batch(tmp_path: Path) -> None:
    """A cell that pyarrow cannot take for a number, late in the file, loses and repeats no row."""
    frame = WHOLE.astype({"visits": object})
    frame.loc[400, "visits"] = " 5 "
    frame.to_csv(tmp_path / "table.csv", index=False)
    expected = WHOLE.copy()
    expected.loc[400, "visits"] = 5
    rows = rows_of(tmp_path / "table.csv", TINY_TABLE, ALONE, Shards.DEALT, cache=tmp_path)
    assert as_set(rows) == as_set(rows_of(expected, TINY_TABLE, ALONE, Shards.DEALT))


def test_a_fit_from_the_working_copy_is_the_fit_from_memory(tmp_path: Path) -> None:
    """With one seed, both ways give the same release bit for bit, for counts and for private steps."""
    source = written(tmp_path, "parquet")
    for recipe, more in (("understudy", {"steps": 5}), ("dp-cgan", {"steps": 3, "batch": 50})):
        made = plan(TINY_TABLE, epsilon=3.0, delta=1e-3, rows=500, recipe=recipe, **more)  # type: ignore[arg-type]
        results: list[Any] = [
            fit(data, made, insecure_seed=1, cache=cache, anyway=True).weights
            for data, cache in ((WHOLE, None), (source, tmp_path))
        ]
        assert all(np.array_equal(value, results[1][name]) for name, value in results[0].items())
