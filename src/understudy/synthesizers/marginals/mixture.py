"""A mixture of products, and fitting one to published counts. Nothing here is private.

Each class of the label has the same number of components, each with a share. Within a component columns are
independent, so the counts of any columns are sums of products of chances: they are known exactly, without drawing a
record, and are moved towards the published ones.

The fit is by multiplication. A cell with published share T and share M in the mixture, whose noise has the variance v
in shares of n rows, asks every component for a factor 1 + (T - M) / (M + n v). Without noise that is T / M, and a step
is one of expectation and maximisation for the likelihood of all tables together; with noise it is a step along the
gradient of the squared error in units of its variance M / n + v, so that a cell that noise covers asks for little.
A component's chances are multiplied by the sum of what all tables ask. There is no rate to choose.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

__all__ = ["Mixture", "Targets", "Triple", "blurred", "components_for", "fitted", "started", "stepped"]

_POWER = 1.7
"""Factors are raised to this power: over-relaxation, which takes half as many steps."""
_TINY = 1e-9
_MOST_FACTOR = 10.0


@dataclass(frozen=True, eq=False)
class Triple:
    """A published table of three columns.

    Args:
        places: for each of the three columns the slice of groups that it has.
        shares: of shape (classes or 1, groups, groups, groups).
        variance: n times the variance of the noise in a share.
    """

    places: tuple[slice, slice, slice]
    shares: Tensor
    variance: float


@dataclass(frozen=True, eq=False)
class Targets:
    """What a mixture is fitted to: published counts as shares of the n rows.

    Args:
        widths: how many outcomes each column has.
        classes: the share of each class; one entry without a label.
        columns: the share of rows with each outcome, of shape (outcomes,).
        labels: the share of rows with each class and outcome, of shape (classes, outcomes); or (0, outcomes).
        groups: which group each outcome lies in, of shape (outcomes, groups); 0 or 1.
        pairs: the share of rows in two groups, symmetric, of shape (classes or 1, groups, groups).
        compared: 1 where `pairs` was published, else 0, of shape (groups, groups).
        triples: of three groups.
        variances: n times the variance of the noise in a share of columns, of labels and of pairs.
    """

    widths: tuple[int, ...]
    classes: Tensor
    columns: Tensor
    labels: Tensor
    groups: Tensor
    pairs: Tensor
    compared: Tensor
    variances: tuple[float, float, float]
    triples: tuple[Triple, ...] = ()

    def only(self, places: Sequence[int]) -> Targets:
        """What was published of some of the columns, before triples are."""
        starts = [0, *itertools.accumulate(self.widths)]
        index = [outcome for i in places for outcome in range(starts[i], starts[i + 1])]
        groups = self.groups[index]
        used = groups.any(dim=0)
        return replace(
            self,
            widths=tuple(self.widths[i] for i in places),
            classes=self.classes.clone(),  # a checkpoint keeps no tensor twice
            columns=self.columns[index],
            labels=self.labels[:, index],
            groups=groups[:, used],
            pairs=self.pairs[:, used][:, :, used],
            compared=self.compared[used][:, used],
        )

    def named(self) -> dict[str, Tensor]:
        """All of it as named tensors, for a checkpoint."""
        plain = ("classes", "columns", "labels", "groups", "pairs", "compared")
        found = {name: getattr(self, name) for name in plain}
        found["widths"] = torch.tensor(self.widths)
        found["variances"] = torch.tensor(self.variances, dtype=torch.float64)
        for place, triple in enumerate(self.triples):
            ends = [(one.start, one.stop) for one in triple.places]
            found[f"triple-{place}-places"] = torch.tensor(ends)
            found[f"triple-{place}-shares"] = triple.shares
            found[f"triple-{place}-variance"] = torch.tensor(triple.variance, dtype=torch.float64)
        return found

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Targets:
        """The same from named tensors."""
        triples: list[Triple] = []
        while (name := f"triple-{len(triples)}") + "-shares" in named:
            one, two, three = (slice(*ends) for ends in named[f"{name}-places"].tolist())
            variance = float(named[f"{name}-variance"])
            triples.append(Triple((one, two, three), named[f"{name}-shares"], variance))
        first, second, third = named["variances"].tolist()
        plain = ("classes", "columns", "labels", "groups", "pairs", "compared")
        return cls(
            widths=tuple(named["widths"].tolist()),
            **{name: named[name] for name in plain},
            variances=(first, second, third),
            triples=tuple(triples),
        )


@dataclass(frozen=True, eq=False)
class Mixture:
    """Shares of components and their chances.

    Args:
        widths: how many outcomes each column has.
        shares: of each component within its class, of shape (classes, components).
        chances: of all outcomes side by side, of shape (classes, components, outcomes).
    """

    widths: tuple[int, ...]
    shares: Tensor
    chances: Tensor

    def only(self, places: Sequence[int]) -> Mixture:
        """The mixture of some of the columns."""
        pieces = torch.split(self.chances, list(self.widths), dim=-1)
        widths = tuple(self.widths[i] for i in places)
        return Mixture(widths, self.shares, torch.cat([pieces[i] for i in places], dim=-1))

    def beside(self, other: Mixture, places: Sequence[int]) -> Mixture:
        """The mixture of more columns: these in their places, those of `other` in between.

        Args:
            other: with one component for each class, which all components here get.
            places: of these columns in the order of all.
        """
        mine, theirs = (iter(torch.split(one.chances, list(one.widths), dim=-1)) for one in (self, other))
        components, kept = self.chances.shape[1], set(places)
        count = len(self.widths) + len(other.widths)
        pieces = [next(mine) if i in kept else next(theirs).expand(-1, components, -1) for i in range(count)]
        widths = tuple(piece.shape[-1] for piece in pieces)
        return Mixture(widths, self.shares, torch.cat(pieces, dim=-1))


def components_for(total: int, classes: int) -> int:
    """How many components a class has: an equal part, no more than two thirds of all and no fewer than a tenth."""
    return max(1, total // 10, min(2 * total // 3, total // classes))


def started(targets: Targets, components: int, source: torch.Generator, variety: float = 1.0) -> Mixture:
    """A mixture whose components all differ, and together are near the published shares of single columns."""
    known = targets.labels if len(targets.labels) else targets.columns[None] * targets.classes[:, None]
    known = known.clamp(min=0) / targets.classes[:, None] + 0.02 * targets.columns.clamp(min=0) + 1e-4
    draws = torch.randn(len(known), components, known.shape[1], generator=source)
    chances = _each_column(known[:, None] * (variety * draws).exp(), targets.widths)
    return Mixture(targets.widths, torch.full(chances.shape[:2], 1 / components), chances)


def fitted(targets: Targets, start: Mixture, steps: int) -> Mixture:
    """The mixture after so many steps of multiplication."""
    mixture = start
    for _ in range(steps):
        mixture = stepped(mixture, targets)
    return mixture


def blurred(mixture: Mixture, source: torch.Generator) -> Mixture:
    """A mixture near this one whose components have parted, so that new targets find some to move."""
    draws = 0.5 * torch.randn(mixture.chances.shape, generator=source)
    chances = _each_column((mixture.chances + 1e-4) * draws.exp(), mixture.widths)
    shares = 0.5 * mixture.shares + 0.5 / mixture.shares.shape[1]
    return Mixture(mixture.widths, shares, chances)


def stepped(mixture: Mixture, targets: Targets) -> Mixture:
    """The mixture after one step of multiplication towards its targets."""
    asked = _asked(mixture, targets)
    widths = list(mixture.widths)
    pieces = torch.split(mixture.chances * asked, widths, dim=-1)
    sums = torch.stack([piece.sum(dim=-1) for piece in pieces], dim=-1)
    usual = torch.cat(
        [sums[..., i : i + 1].expand(*sums.shape[:-1], width) for i, width in enumerate(widths)], dim=-1
    )
    factor = (asked / usual.clamp(min=_TINY)).clamp(max=_MOST_FACTOR).pow(_POWER)
    chances = _each_column(mixture.chances * factor + 1e-12, mixture.widths)
    heavier = sums.sum(dim=-1)
    heavier = heavier / (mixture.shares * heavier).sum(dim=1, keepdim=True).clamp(min=_TINY)
    shares = mixture.shares * heavier.clamp(max=_MOST_FACTOR).pow(_POWER) + 1e-12
    return Mixture(mixture.widths, shares / shares.sum(dim=1, keepdim=True), chances)


def _each_column(values: Tensor, widths: tuple[int, ...]) -> Tensor:
    """The same numbers with a sum of 1 in each column."""
    pieces = torch.split(values, list(widths), dim=-1)
    return torch.cat([piece / piece.sum(dim=-1, keepdim=True).clamp(min=1e-30) for piece in pieces], dim=-1)


def _asked(mixture: Mixture, targets: Targets) -> Tensor:
    """The sum of the factors that all published tables ask of every chance."""
    shares = mixture.shares * targets.classes[:, None]
    by_class = torch.einsum("cz,czo->co", shares, mixture.chances)
    first, second, third = targets.variances
    asked = _factor(targets.columns, by_class.sum(dim=0), first)[None]
    if len(targets.labels):
        asked = asked + _factor(targets.labels, by_class, second)
    total = asked[:, None].expand_as(mixture.chances)
    if not targets.compared.any() and not targets.triples:
        return total
    grouped = mixture.chances @ targets.groups
    weighted = grouped * shares[:, :, None]
    if len(targets.pairs) > 1 or len(grouped) == 1:
        made = weighted.transpose(1, 2) @ grouped
    else:
        made = (weighted.flatten(0, 1).T @ grouped.flatten(0, 1))[None]
    by_group = grouped @ (_factor(targets.pairs, made, third) * targets.compared)
    for triple in targets.triples:
        _ask_triple(by_group, triple, grouped, weighted)
    return total + by_group @ targets.groups.T


def _factor(published: Tensor, made: Tensor, variance: float) -> Tensor:
    """1 + (T - M) / (M + n v), not negative."""
    return (1 + (published - made) / (made + variance).clamp(min=_TINY)).clamp(min=0)


def _ask_triple(by_group: Tensor, triple: Triple, grouped: Tensor, weighted: Tensor) -> None:
    """Add what a table of three columns asks, in place."""
    one, two, three = (grouped[:, :, place] for place in triple.places)
    outer = (one[:, :, :, None] * two[:, :, None, :]).flatten(2)
    made = outer.transpose(1, 2) @ weighted[:, :, triple.places[2]]
    sizes = (one.shape[2], two.shape[2], three.shape[2])
    made = made.reshape(len(made), *sizes)
    if len(triple.shares) == 1:
        made = made.sum(dim=0, keepdim=True)
    factor = _factor(triple.shares, made, triple.variance).expand(len(grouped), *sizes)
    inner = (factor.flatten(1, 2) @ three.transpose(1, 2)).transpose(1, 2)
    inner = inner.reshape(*inner.shape[:2], *sizes[:2])
    by_group[:, :, triple.places[0]] += torch.einsum("czab,czb->cza", inner, two)
    by_group[:, :, triple.places[1]] += torch.einsum("czab,cza->czb", inner, one)
    by_group[:, :, triple.places[2]] += outer @ factor.flatten(1, 2)
