"""Which two or three columns to count together: chosen by noisy sums of products. Nothing here is private.

Every column halves its outcomes: each has a sign, +1 or -1, less their mean m and divided by 1 + |m|, all of it
computed from published numbers. So a lean lies in [-1, 1] whatever the record holds. A candidate is two or three
columns, three also with the label, and its function of a record is the product of their leans, which lies in [-1, 1],
too. A record that comes or goes changes the sum of a candidate by at most 1, and the vector of the sums of m candidates
by at most √m: that is its L2 sensitivity. Because leans have the mean 0, a column that hardly varies, or two columns
that go together while the third does not matter, add little. For triples the mixture tells what each sum would be if it
knew everything, for pairs the counts of columns by class do; what is further from that than noise and chance explain is
asked for in full.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.synthesizers.marginals.mixture import Mixture

    Floats = NDArray[np.float64]

__all__ = [
    "Chosen",
    "chosen_pairs",
    "chosen_triples",
    "expected_pairs",
    "expected_sums",
    "leans",
    "sums_of_products",
    "upper",
]


def leans(masses: Floats, rates: Floats | None, *, ordered: bool) -> Floats:
    """A number in [-1, 1] for each outcome: positive for about half of the rows, with a mean of 0 over all of them.

    Args:
        masses: noisy mass of each outcome.
        rates: without an order, a noisy number by which outcomes are ordered, such as how often the label is positive.
        ordered: whether outcomes are in an order of their own.
    """
    order = np.arange(len(masses)) if ordered or rates is None else np.argsort(rates, kind="stable")
    kept = np.maximum(masses, 0)[order]
    before = np.cumsum(kept) - kept / 2
    signs = np.empty(len(masses))
    signs[order] = np.where(before < kept.sum() / 2, -1.0, 1.0)
    if len(masses) > 1 and abs(signs.sum()) == len(masses):
        signs[int(np.argmax(masses))] *= -1
    mean = float((signs[order] * kept).sum() / max(float(kept.sum()), 1e-9))
    return np.clip((signs - mean) / (1 + abs(mean)), -1, 1)


def upper(matrix: Tensor) -> Tensor:
    """The entries above the diagonal, in the order of `itertools.combinations`."""
    above = torch.triu_indices(len(matrix), len(matrix), 1)
    return matrix[above[0], above[1]]


def sums_of_products(leaning: Tensor, weights: Tensor | None = None) -> Tensor:
    """For every three columns, in the order of `itertools.combinations`, the weighted sum of their leans' product.

    Args:
        leaning: of each record (or component) and column.
        weights: of each record (or component); 1 if left out.
    """
    columns, found = leaning.shape[1], [leaning.new_zeros(0)]
    for i in range(columns - 2):
        later = leaning[:, i + 1 :]
        own = leaning[:, i] if weights is None else leaning[:, i] * weights
        found.append(upper((later * own[:, None]).T @ later))
    return torch.cat(found)


def expected_pairs(tables: Sequence[Floats], leaning: Sequence[Floats], classes: Floats) -> Tensor:
    """The sums of pairs per record if columns were independent within every class.

    Args:
        tables: for each column the noisy counts of outcomes by class; one row without a label.
        leaning: for each column the lean of its outcomes.
        classes: the share of each class; one entry without a label.
    """
    kept = [np.maximum(table, 0) + 1e-9 for table in tables]
    means = [(held @ lean) / held.sum(axis=1) for held, lean in zip(kept, leaning, strict=True)]
    by_class = torch.from_numpy(np.stack(means, axis=1))
    return upper((by_class * torch.from_numpy(classes)[:, None]).T @ by_class)


def expected_sums(
    mixture: Mixture, leaning: Mapping[int, Floats], classes: Tensor, of_class: Floats | None
) -> Tensor:
    """The sums per record if the mixture knew everything: without and, if there is one, with the label."""
    pieces = torch.split(mixture.chances.double(), list(mixture.widths), dim=-1)
    means = torch.stack([pieces[i] @ torch.from_numpy(lean) for i, lean in leaning.items()], dim=-1)
    shares = (mixture.shares * classes[:, None]).double()
    factors = [shares] if of_class is None else [shares, shares * torch.from_numpy(of_class)[:, None]]
    return torch.stack([sums_of_products(means.flatten(0, 1), factor.flatten()) for factor in factors])


@dataclass(frozen=True)
class Chosen:
    """The triples to ask for, furthest from the mixture first.

    Args:
        triples: at least one.
        surprising: whether noise and chance do not explain how far they are.
    """

    triples: tuple[tuple[int, int, int], ...]
    surprising: bool


def chosen_triples(
    columns: Sequence[int], sums: Tensor, expected: Tensor, noise: float, rows: float, most: int
) -> Chosen:
    """The triples that are furthest from the mixture: those that surprise, or else the first of them.

    Args:
        columns: those that took part.
        sums: noisy sums, one row without and, if there is one, one with the label.
        expected: by the mixture, per record.
        noise: the standard deviation of each sum.
        rows: the public or noisy number of records.
        most: how many triples may be asked for.
    """
    triples = list(itertools.combinations(columns, 3))
    best, surprising = _furthest(sums, expected, noise, rows, most)
    return Chosen(tuple(triples[i] for i in best), surprising)


def chosen_pairs(
    sums: Tensor, expected: Tensor, noise: float, rows: float, most: int
) -> list[tuple[int, int]]:
    """The pairs of columns that are furthest from independence within classes, furthest first; at least one.

    Args:
        sums: noisy sums of all pairs.
        expected: of independent columns, per record.
        noise: the standard deviation of each sum.
        rows: the public or noisy number of records.
        most: how many pairs may be asked for.
    """
    columns = (1 + math.isqrt(1 + 8 * len(sums))) // 2
    pairs = list(itertools.combinations(range(columns), 2))
    return [pairs[i] for i in _furthest(sums[None], expected[None], noise, rows, most)[0]]


def _furthest(sums: Tensor, expected: Tensor, noise: float, rows: float, most: int) -> tuple[list[int], bool]:
    """The candidates whose sums surprise, furthest first, or the first if none does; and whether any does."""
    far = ((sums - rows * expected) / math.sqrt(noise**2 + max(rows, 1.0))).abs().amax(dim=0)
    threshold = math.sqrt(2 * math.log(max(2, sums.numel()))) + 1
    best = [int(i) for i in torch.argsort(far, descending=True, stable=True)[:most]]
    kept = [i for i in best if float(far[i]) > threshold]
    return kept or best[:1], bool(kept)
