"""The published numbers of code vectors, laid out for the training of a generator. All post-processing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from understudy.synthesizers.codes.denoising import believed_counts, smoothed_lengths, thinned
from understudy.synthesizers.codes.without_replacement import arrivals
from understudy.synthesizers.shared.counts import Counts, single

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["CodeStatistics", "KnownLengths", "assembled", "kept_codes", "known_lengths", "most_frequent"]

_GROUPS = 8
"""Lengths are merged into this many groups while a generator learns; it draws exact ones."""

_RARE = 1e-3
"""Records that a code has at least, on paper, so that no rate is zero."""

_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class CodeStatistics(Counts):
    """Published numbers of code vectors, all noisy or computed from noisy ones; safe to keep and to publish.

    Args:
        weights: the share of each class; one entry without a label.
        lengths: for each class the chances of having 0, 1, 2, … different codes.
        grouped: for each class the mean length of each group of lengths.
        shares: for each class and group the share of all records.
        kept: m, the most codes with which a record was counted.
        start: for each class the logarithms of the rates that single codes suggest.
        codes: for each class and code the share of all records, of shortened records.
        frequent: the codes that were compared in pairs, in falling order; none if pairs were not published.
        pairs: the share of records with each two of them, in the order of `torch.triu_indices`.
        repeats: for each code the chance of one more occurrence after each.
        noise: the standard deviation of the noise in codes and pairs, as shares; 0 if not published.
    """

    weights: Tensor
    lengths: Tensor
    grouped: Tensor
    shares: Tensor
    kept: Tensor
    start: Tensor
    codes: Tensor
    frequent: Tensor
    pairs: Tensor
    repeats: Tensor
    noise: Tensor

    def expected(self, rates: Tensor) -> tuple[Tensor, Tensor]:
        """The shares of records with each code, by class, and with each two frequent codes, that rates would give.

        Args:
            rates: of shape (classes, latent classes, codes), each row with sum 1.
        """
        latent, lengths = rates.shape[1], self.grouped[:, None]
        chances = arrivals(rates.unsqueeze(2), lengths)
        shares, counted = self.shares[:, None] / latent, lengths.clamp(max=float(self.kept))
        single = (shares * counted / lengths).expand(-1, latent, -1)
        codes = torch.einsum("clgv,clg->cv", chances, single)
        # Independent arrivals would make (L² - Σ chance²)/2 pairs in a record; L codes make L(L - 1)/2.
        double = (
            shares * counted * (counted - 1) / (lengths**2 - chances.square().sum(dim=-1)).clamp(min=1e-6)
        )
        some = chances[..., self.frequent].flatten(end_dim=2)
        together = (some * double.flatten()[:, None]).T @ some
        one, other = torch.triu_indices(len(together), len(together), offset=1)
        return codes, together[one, other]


@dataclass(frozen=True, eq=False)
class KnownLengths:
    """How many different codes records have, by class, as published.

    Args:
        chances: for each class the chances of 0, 1, 2, … codes.
        weights: the share of each class.
        count: the number of records.
    """

    chances: Floats
    weights: Floats
    count: float

    def occurrences(self, kept: int) -> Floats:
        """For each class how many codes all its records have together, counting at most `kept` of each."""
        lengths = np.minimum(np.arange(self.chances.shape[1]), kept)
        total: Floats = self.chances @ lengths * self.weights * self.count
        return total

    def agreeing(self, codes: Floats, kept: int) -> tuple[KnownLengths, Floats]:
        """Lengths and counts of codes with the same sums: records lose codes that are not believed, and gain none."""
        totals = np.maximum(self.occurrences(kept), 1e-9)
        shares = np.minimum(1.0, codes.sum(axis=1) / totals)
        shorter = replace(
            self, chances=np.stack([thinned(*one) for one in zip(self.chances, shares, strict=True)])
        )
        scale = shorter.occurrences(kept) / np.maximum(codes.sum(axis=1), 1e-9)
        return shorter, codes * scale[:, None]

    def in_groups(self) -> tuple[Floats, Floats]:
        """For each class the mean length of each group of about equally many records, and the group's share."""
        grouped, shares = np.ones((2, len(self.weights), _GROUPS))
        shares[:] = 0
        lengths = np.arange(1, self.chances.shape[1])
        for one, (chances, weight) in enumerate(zip(self.chances, self.weights, strict=True)):
            some = chances[1:]
            group = _equal_groups(some, _GROUPS)
            mass = np.bincount(group, some, _GROUPS)
            mean = np.bincount(group, some * lengths, _GROUPS) / np.maximum(mass, 1e-300)
            grouped[one], shares[one] = np.where(mass > 0, mean, 1.0), weight * mass
        return grouped, shares


def known_lengths(counts: Floats, weights: tuple[float, ...], count: float, noise: float) -> KnownLengths:
    """Chances from noisy counts of lengths, one row for each class; counts within the noise are smoothed."""
    shares = np.array(weights)
    rows = [smoothed_lengths(row, share * count, noise) for row, share in zip(counts, shares, strict=True)]
    return KnownLengths(np.stack(rows), shares, count)


def kept_codes(lengths: KnownLengths, covered: float, sigma: float, size: int) -> int:
    """m, with how many codes a record takes part: the least that a share `covered` of the records do not exceed.

    If the noise of a code would then exceed the mean count of a code, m is the one that makes the noise least beside
    what is counted: √m over the mean number of codes that are kept.

    Args:
        lengths: as published.
        covered: share of the records.
        sigma: noise of the counts of codes, for sensitivity 1.
        size: how many codes there are.
    """
    below = np.cumsum(lengths.weights @ lengths.chances)
    most = max(2, int(np.searchsorted(below, covered * below[-1])))
    if sigma * np.sqrt(most) <= lengths.occurrences(most).sum() / (size * len(lengths.weights)):
        return most
    numbers = range(2, most + 1)
    noises = [np.sqrt(m) / max(float(lengths.occurrences(m).sum()), 1e-9) for m in numbers]
    return numbers[int(np.argmin(noises))]


def most_frequent(codes: Floats, number: int) -> NDArray[np.int64]:
    """The most frequent codes by noisy counts, of all classes together."""
    return np.argsort(-codes.sum(axis=0), kind="stable")[:number]


def assembled(
    lengths: KnownLengths,
    kept: int,
    codes: Floats,
    frequent: NDArray[np.int64],
    pairs: Floats,
    repeats: Floats,
    noise: tuple[float, float],
) -> CodeStatistics:
    """Post-processing: counts as shares of records that are possible, and where a generator starts."""
    count = lengths.count
    targets = np.stack([believed_counts(row, noise[0]) for row in codes])
    lengths, targets = lengths.agreeing(targets, kept)
    grouped, shares = lengths.in_groups()
    found = CodeStatistics(
        weights=single(lengths.weights),
        lengths=single(lengths.chances),
        grouped=single(grouped),
        shares=single(shares),
        kept=torch.tensor(float(kept)),
        start=torch.zeros(codes.shape),
        codes=single(np.maximum(targets, _RARE) / count),
        frequent=torch.from_numpy(frequent),
        pairs=single(pairs / count),
        repeats=single(repeats),
        noise=torch.tensor(noise) / count,
    )
    return replace(found, start=_rates(found).log())


def _rates(found: CodeStatistics) -> Tensor:
    """The rates of one latent class per class that give the published codes, found by scaling again and again."""
    rates = found.codes / found.codes.sum(dim=1, keepdim=True)
    for _ in range(_ROUNDS):
        made, _ = found.expected(rates.unsqueeze(1))
        rates = rates * (found.codes / made.clamp(min=1e-12)).clamp(0.2, 5.0)
        rates = rates / rates.sum(dim=1, keepdim=True)
    return rates


def _equal_groups(masses: Floats, most: int) -> NDArray[np.int64]:
    """The group of each length: at most `most` groups of neighbours with about equal mass."""
    middle = (np.cumsum(masses) - masses / 2) / max(float(masses.sum()), 1e-9)
    groups = np.minimum((middle * most).astype(np.int64), most - 1)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
