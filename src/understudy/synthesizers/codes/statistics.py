"""The published numbers of code vectors, laid out for the training of a generator. All post-processing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from understudy.synthesizers.codes.denoising import believed_pairs, smoothed_lengths
from understudy.synthesizers.codes.model import LENGTH_GROUPS
from understudy.synthesizers.codes.without_replacement import arrivals
from understudy.synthesizers.shared.counts import Counts, single

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["CodeStatistics", "Items", "KnownLengths", "assembled", "known_lengths", "with_pairs"]

_RARE = 1e-3
"""Records that a code or a group has at least, on paper, so that no rate is zero."""

_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class CodeStatistics(Counts):
    """Published numbers of code vectors, all noisy or computed from noisy ones; safe to keep and to publish.

    Args:
        weights: the share of each class; one entry without a label.
        lengths: for each class the chances of having 0, 1, 2, … different codes.
        length_groups: for each class and length its group.
        grouped: for each class the mean length of each group of lengths.
        shares: for each class and group the share of all records.
        frequent: the codes that are items of their own, in falling order.
        start: for each class the logarithms of the rates that items suggest.
        items: for each class the mentions of each frequent code and then of each group of others, per record of all.
        within: for each class and code its share of the mentions of its group; 0 if it is frequent.
        compared: the items that were compared in pairs; none if pairs were not published.
        pairs: the share of records with each two of them, in the order of `torch.triu_indices`; longer ones weigh less.
        weighed: for each class and group of lengths the mean weight of a record in a pair.
        repeats: for each code the chance of one more occurrence after each.
        noise: the standard deviation of the noise in codes and pairs, as shares; 0 if not published.
    """

    weights: Tensor
    lengths: Tensor
    length_groups: Tensor
    grouped: Tensor
    shares: Tensor
    frequent: Tensor
    start: Tensor
    items: Tensor
    within: Tensor
    compared: Tensor
    pairs: Tensor
    weighed: Tensor
    repeats: Tensor
    noise: Tensor

    def expected(self, rates: Tensor, mixing: Tensor) -> tuple[Tensor, Tensor]:
        """The mentions of each item, by class, and the shares of records with two compared items, that rates give.

        Args:
            rates: of shape (classes, components, items), each row with sum 1.
            mixing: of shape (classes, groups of lengths, components), the chances of components.
        """
        once, lengths = len(self.frequent), self.grouped[:, None]
        chances, time = arrivals(rates.unsqueeze(2), lengths, once)
        shares = (self.shares[:, :, None] * mixing).transpose(1, 2)
        mentions = torch.cat([chances[..., :once], time * rates[..., once:].unsqueeze(2)], dim=-1)
        items = torch.einsum("clgv,clg->cv", mentions, shares)
        # Independent arrivals would make (L² - Σ chance²)/2 pairs in a record; L codes make L(L - 1)/2.
        free = (lengths**2 - chances[..., :once].square().sum(dim=-1)).clamp(min=1e-6)
        double = shares * self.weighed[:, None] * lengths * (lengths - 1) / free
        some = chances[..., self.compared].flatten(end_dim=2)
        together = (some * double.flatten()[:, None]).T @ some
        one, other = torch.triu_indices(len(together), len(together), offset=1)
        return items, together[one, other]


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

    @property
    def pooled(self) -> Floats:
        """The chances of 0, 1, 2, … codes, of all classes together."""
        pooled: Floats = self.weights @ self.chances / max(float(self.weights.sum()), 1e-300)
        return pooled

    @property
    def mentions(self) -> Floats:
        """For each class how many codes all its records have together."""
        found: Floats = self.chances @ np.arange(self.chances.shape[1]) * self.weights * self.count
        return found

    def in_groups(self) -> tuple[Ints, Floats, Floats]:
        """For each class the group of each length, the mean length of each group, and its share of all records."""
        groups = np.zeros(self.chances.shape, dtype=np.int64)
        means, shares = np.ones((2, len(self.weights), LENGTH_GROUPS))
        lengths = np.arange(1, self.chances.shape[1])
        for one, (chances, weight) in enumerate(zip(self.chances, self.weights, strict=True)):
            some = chances[1:]
            groups[one, 1:] = _equal_groups(some, LENGTH_GROUPS)
            mass = np.bincount(groups[one, 1:], some, LENGTH_GROUPS)
            mean = np.bincount(groups[one, 1:], some * lengths, LENGTH_GROUPS) / np.maximum(mass, 1e-300)
            means[one], shares[one] = np.where(mass > 0, mean, 1.0), weight * mass
        return groups, means, shares


def known_lengths(counts: Floats, weights: tuple[float, ...], count: float, noise: float) -> KnownLengths:
    """Chances from noisy counts of lengths, one row for each class; counts within the noise are smoothed."""
    shares = np.array(weights)
    rows = [smoothed_lengths(row, share * count, noise) for row, share in zip(counts, shares, strict=True)]
    return KnownLengths(np.stack(rows), shares, count)


@dataclass(frozen=True, eq=False)
class Items:
    """What has rates of its own: the most frequent codes, and groups of the others.

    Args:
        frequent: codes in falling order.
        groups: for each code the group that it is in if it is not frequent.
        believed: for each class and code how many records are believed to have it.
    """

    frequent: Ints
    groups: Ints
    believed: Floats

    @classmethod
    def of(cls, believed: Floats, groups: Ints, number: int) -> Items:
        """The items, given how many codes may be frequent."""
        return cls(np.argsort(-believed.sum(axis=0), kind="stable")[:number], groups, believed)

    @property
    def rest(self) -> Floats:
        """For each class the mentions of codes that are not frequent, by group; no groups if all codes are frequent."""
        if len(self.frequent) == len(self.groups):
            return np.zeros((len(self.believed), 0))
        rare = self.believed.copy()
        rare[:, self.frequent] = 0.0
        return np.stack([np.bincount(self.groups, one, self.groups.max() + 1) for one in rare])

    @property
    def mentions(self) -> Floats:
        """For each class the mentions of each item."""
        return np.concatenate([self.believed[:, self.frequent], self.rest], axis=1)

    @property
    def within(self) -> Floats:
        """For each class and code its share of the mentions of its group; 0 if it is frequent."""
        shares = np.maximum(self.believed, 1e-9)
        shares[:, self.frequent] = 0.0
        sums = np.stack([np.bincount(self.groups, one) for one in shares])
        found: Floats = shares / np.maximum(sums[:, self.groups], 1e-300)
        return found

    def places(self, codes: int, *, groups: bool) -> tuple[Ints, Ints]:
        """The items to compare, and for each code its place among these, or -1: so many codes, and the groups."""
        items = np.arange(codes)
        places = np.full(len(self.groups), -1)
        if groups:
            items = np.append(items, len(self.frequent) + np.arange(self.rest.shape[1]))
            places = codes + self.groups
            places[self.frequent] = -1
        places[self.frequent[:codes]] = np.arange(codes)
        return items, places


def assembled(lengths: KnownLengths, items: Items, noise: float) -> CodeStatistics:
    """Post-processing: counts as shares of records that are possible, and where a generator starts."""
    count = lengths.count
    groups, means, shares = lengths.in_groups()
    mentions = np.maximum(items.mentions, _RARE) / count
    found = CodeStatistics(
        weights=single(lengths.weights),
        lengths=single(lengths.chances),
        length_groups=torch.from_numpy(groups),
        grouped=single(means),
        shares=single(shares),
        frequent=torch.from_numpy(items.frequent),
        start=torch.zeros(mentions.shape),
        items=single(mentions),
        within=single(items.within),
        compared=torch.zeros(0, dtype=torch.int64),
        pairs=torch.zeros(0),
        weighed=torch.ones(means.shape),
        repeats=torch.zeros(len(items.groups)),
        noise=torch.tensor([noise / count, 0.0]),
    )
    return replace(found, start=_rates(found).log())


def with_pairs(
    found: CodeStatistics, compared: Ints, weights: Floats, pairs: Floats, noise: float
) -> CodeStatistics:
    """The same with pairs, the noise taken out as far as it can be told from what is there.

    Args:
        found: everything else.
        compared: the items in pairs.
        weights: for records of 0, 1, 2, … codes the mean weight of a pair.
        pairs: noisy, as shares of records.
        noise: the standard deviation of each.
    """
    found = replace(found, compared=torch.from_numpy(compared), weighed=_mean_weights(found, single(weights)))
    _, chance = found.expected(found.start.exp().unsqueeze(1), torch.ones(*found.shares.shape, 1))
    believed = believed_pairs(pairs, chance.double().numpy(), noise)
    both = torch.stack([found.noise[0], torch.tensor(noise, dtype=found.noise.dtype)])
    return replace(found, pairs=single(believed), noise=both)


def _mean_weights(found: CodeStatistics, weights: Tensor) -> Tensor:
    """The mean weight of a pair for each class and group of lengths."""
    lengths = torch.arange(len(weights))
    pairs = found.lengths * lengths * (lengths - 1)
    empty = torch.zeros(found.shares.shape)
    held = empty.scatter_add(1, found.length_groups, pairs)
    seen = empty.scatter_add(1, found.length_groups, pairs * weights)
    return torch.where(held > 0, seen / held.clamp(min=1e-30), 1.0)


def _rates(found: CodeStatistics) -> Tensor:
    """The rates of one component per class that give the published mentions, found by scaling again and again."""
    rates = found.items / found.items.sum(dim=1, keepdim=True)
    alone = torch.ones(*found.shares.shape, 1)
    for _ in range(_ROUNDS):
        made, _ = found.expected(rates.unsqueeze(1), alone)
        rates = rates * (found.items / made.clamp(min=1e-12)).clamp(0.2, 5.0)
        rates = rates / rates.sum(dim=1, keepdim=True)
    return rates


def _equal_groups(masses: Floats, most: int) -> Ints:
    """The group of each length: at most `most` groups of neighbours with about equal mass."""
    middle = (np.cumsum(masses) - masses / 2) / max(float(masses.sum()), 1e-9)
    groups = np.minimum((middle * most).astype(np.int64), most - 1)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
