"""Poisson batches: size, inclusion, pairs, caps, and the price at many rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from scipy import stats

from understudy.door import source as sampling
from understudy.door.noise import SeededNoise
from understudy.door.poisson import poisson_indices
from understudy.door.source import Rows
from understudy.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def inclusion(rows: int, rate: float, draws: int, cap: int | None = None) -> np.ndarray:
    """A matrix of zeros and ones: which row was in which batch."""
    noise = SeededNoise(11)
    table = np.zeros((draws, rows))
    for t in range(draws):
        table[t, poisson_indices(rows, rate, noise, cap).numpy()] = 1
    return table


@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_rows_join_independently_with_the_given_rate(rate: float) -> None:
    """Inclusion, pairs and the variance of the batch size are those of coins, not of a shuffle."""
    draws, rows = 4000, 20
    table = inclusion(rows, rate, draws)
    spread = np.sqrt(rate * (1 - rate) / draws)
    assert np.abs(table.mean(0) - rate).max() < 4.5 * spread
    pairs = table.T @ table / draws
    off = pairs[~np.eye(rows, dtype=bool)]
    assert np.abs(off - rate**2).max() < 5 * np.sqrt(rate**2 * (1 - rate**2) / draws)
    sizes = table.sum(1)
    observed = np.bincount(sizes.astype(int), minlength=rows + 1)
    expected = stats.binom.pmf(np.arange(rows + 1), rows, rate) * draws
    keep = expected > 5
    assert (
        stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue
        > 1e-3
    )


def test_batches_in_a_row_are_independent() -> None:
    """A record's presence says nothing about the next batch (an epoch of shuffled batches would)."""
    table = inclusion(20, 0.25, 4000)
    lagged = np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]
    assert abs(lagged) < 4 / np.sqrt(table[1:].size)


def test_a_cap_cuts_to_a_uniform_subset() -> None:
    """No batch is larger than the cap, and every row keeps the same chance."""
    table = inclusion(20, 0.5, 3000, cap=8)
    assert table.sum(1).max() == 8
    share = table.mean()
    assert np.abs(table.mean(0) - share).max() < 4.5 * np.sqrt(share * (1 - share) / 3000)


@pytest.mark.parametrize(("rows", "rate", "size"), [(0, 0.5, 0), (5, 1.0, 5), (1, 1.0, 1)])
def test_edges(rows: int, rate: float, size: int) -> None:
    """No rows give an empty batch; rate 1 gives everything."""
    indices = poisson_indices(rows, rate, SeededNoise(0))
    assert indices.tolist() == list(range(size))


def test_indices_are_sorted_and_distinct_at_many_rows() -> None:
    """Sixty million rows are sampled without an array of that size."""
    indices = poisson_indices(60_000_000, 1e-5, SeededNoise(0))
    assert 400 < len(indices) < 800
    assert torch.equal(indices, indices.unique())
    assert int(indices[-1]) > 50_000_000


def test_only_the_batch_is_read_from_a_memory_map(tmp_path: Path) -> None:
    """Rows come out in the asked dtype from tensors and from memory-mapped arrays alike."""
    data = np.arange(40, dtype=np.float32).reshape(10, 4)
    np.save(tmp_path / "x.npy", data)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    like = torch.zeros(1, dtype=torch.float64)
    indices = torch.tensor([1, 7])
    for source in (mapped, torch.from_numpy(data)):
        x, labels = Rows(source, np.arange(10)).take(indices, like)
        assert x.dtype == torch.float64
        assert x.tolist() == data[[1, 7]].tolist()
        assert labels is not None
        assert labels.tolist() == [1, 7]


def test_files_beyond_memory_are_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a file larger than half the memory are read, and are those of the mapped array; a cut file is noticed."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(50, 3, 2)).astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    monkeypatch.setattr(sampling, "_memory_bytes", lambda: 2 * mapped.nbytes)
    assert Rows(mapped)._file is None
    monkeypatch.setattr(sampling, "_memory_bytes", lambda: 2 * mapped.nbytes - 1)
    rows, like = Rows(mapped), torch.zeros(1, dtype=torch.float64)
    assert rows._file is not None
    for chosen in ([3, 7, 49], []):
        indices = torch.tensor(chosen, dtype=torch.int64)
        assert np.array_equal(rows.take(indices, like)[0].numpy(), mapped[chosen])
    assert Rows(mapped[2:])._file is None  # a part of the array begins elsewhere in the file
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(DataError, match="a row could not be read") as caught:
        rows.take(torch.tensor([49]), like)
    assert "49" not in str(caught.value), "which row was drawn is the secret that amplification rests on"
