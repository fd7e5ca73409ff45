"""Which three columns to count together: chosen by noisy sums of products. Nothing here is private.

Every column halves its outcomes: each has a sign, +1 or -1, less their mean m and divided by 1 + |m|, all of it
computed from published numbers. So a lean lies in [-1, 1] whatever the record holds. A candidate is three columns, with
or without the label, and its function of a record is the product of their leans, which lies in [-1, 1] as well. A
record that comes or goes changes the sum of a candidate by at most 1, and the vector of the sums of m candidates by at
most √m: that is its L2 sensitivity. Because leans have the mean 0, a column that hardly varies, or two columns that go
together while the third does not matter, add little. The mixture tells what each sum would be if it knew everything;
what is further from that than noise and chance explain is asked for in full.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.synthesizers.marginals.mixture import Mixture

    Floats = NDArray[np.float64]

__all__ = ["Candidates", "chosen_triples", "expected_sums", "leans", "product_sums"]


@dataclass(frozen=True)
class Candidates:
    """Triples of columns that are scored, each without and, if there is one, with the label.

    Args:
        columns: those that take part.
        labelled: whether there is a label.
    """

    columns: tuple[int, ...]
    labelled: bool

    @property
    def triples(self) -> list[tuple[int, int, int]]:
        """All triples, in the order of the scores."""
        return list(itertools.combinations(self.columns, 3))

    @property
    def count(self) -> int:
        """How many sums are published; their L2 sensitivity is its root."""
        return math.comb(len(self.columns), 3) * (2 if self.labelled else 1)


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


def product_sums(leaning: Tensor, labels: Tensor | None) -> Tensor:
    """PRIVATE: the sums over records of the products of three leans, in the order of `Candidates.triples`.

    Args:
        leaning: of each record and column that takes part; cut to [-1, 1], which is what bounds a record's influence.
        labels: the lean of each record's class, cut likewise; then a second row of sums has them as a factor.
    """
    signs = leaning.clamp(-1, 1)
    labels = None if labels is None else labels.clamp(-1, 1)
    columns = signs.shape[1]
    rows = []
    for factor in (None,) if labels is None else (None, labels):
        found = []
        first = signs if factor is None else signs * factor[:, None]
        for i in range(columns - 2):
            products = (signs[:, i + 1 :] * first[:, i : i + 1]).T @ signs[:, i + 1 :]
            above = torch.triu_indices(len(products), len(products), 1)
            found.append(products[above[0], above[1]].double())
        rows.append(torch.cat(found) if found else torch.zeros(0, dtype=torch.float64))
    return torch.stack(rows)


def expected_sums(
    mixture: Mixture,
    leaning: Sequence[Floats],
    candidates: Candidates,
    classes: Tensor,
    of_class: Floats | None,
) -> Tensor:
    """The mixture's own sums, per record, in the same shape."""
    pieces = torch.split(mixture.chances, list(mixture.widths), dim=-1)
    means = torch.stack(
        [pieces[i] @ torch.as_tensor(leaning[i], dtype=torch.float32) for i in candidates.columns], dim=-1
    )
    shares = mixture.shares * classes[:, None]
    rows = []
    for factor in (None,) if of_class is None else (None, of_class):
        weights = shares if factor is None else shares * torch.as_tensor(factor, dtype=torch.float32)[:, None]
        rows.append(
            torch.stack(
                [
                    (weights * means[:, :, i] * means[:, :, j] * means[:, :, k]).sum()
                    for i, j, k in itertools.combinations(range(means.shape[-1]), 3)
                ]
            ).double()
        )
    return torch.stack(rows)


def chosen_triples(
    candidates: Candidates, sums: Tensor, expected: Tensor, noise: float, rows: float, most: int
) -> list[tuple[int, int, int]]:
    """The triples that are furthest from the mixture, if noise and chance do not explain it; furthest first.

    Args:
        candidates: as scored.
        sums: noisy sums, of the shape of `product_sums`.
        expected: by the mixture, per record.
        noise: the standard deviation of each sum.
        rows: the public or noisy number of records.
        most: how many triples may be asked for.
    """
    if not candidates.triples:
        return []
    spread = math.sqrt(noise**2 + max(rows, 1.0))
    far = ((sums - rows * expected) / spread).abs().amax(dim=0)
    threshold = math.sqrt(2 * math.log(max(2, candidates.count))) + 1
    best = torch.argsort(far, descending=True, stable=True)[:most]
    triples = candidates.triples
    return [triples[int(i)] for i in best if float(far[i]) > threshold]
