"""How much one record may change the sum of gradients, as values that compute their own sensitivity.

A rule turns the norms of one record's gradient into the factors by which it is shrunk, and it alone
says how far the released sum can move: nobody types a sensitivity. The noise of a step is the noise
multiplier times `sensitivity(ADD_OR_REMOVE_ONE)`, so ε does not depend on any bound.

====================  ===================================================================  ================
rule                  what is clipped                                                       sensitivity
====================  ===================================================================  ================
GlobalClip            a record's whole gradient at C; fakes are free                        C
SeparateClip          the same, and each fake's gradient at a bound of its own              real bound
JointClip             a record and its fake partner as one gradient at C                    C
GroupedClip           each group of parameters at its own C_j                               √ΣC_j²
WeightsBiasesClip     two groups: weights, biases                                           √(C_w² + C_b²)
PublicAdaptiveClip    groups and bounds from a declared public batch, at every step         √ΣC_j²
QuantileAdaptiveClip  global, the bound follows a private quantile of the norms             current C
MicrobatchClip        the mean gradient of several records at C                             2C
====================  ===================================================================  ================

Fakes, their labels and their number do not depend on the private records; their gradient is
post-processing of earlier releases and moves no sensitivity.

This module does not import torch: its methods work on the tensors that they are handed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import PlanError
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

__all__ = [
    "Clipping",
    "ConcreteClip",
    "GlobalClip",
    "GroupedClip",
    "JointClip",
    "MicrobatchClip",
    "Partition",
    "PublicAdaptiveClip",
    "QuantileAdaptiveClip",
    "SeparateClip",
    "WeightsBiasesClip",
    "cluster",
]

SLACK = 1e-4
"""Gradients are clipped to C / (1 + SLACK), so that rounding in the norms cannot pass the bound C."""


def _check_bound(bound: float, what: str = "the clipping bound") -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise PlanError(f"{what} must be positive and finite, got {bound}.")


def _times_adjacency(bound: float, adjacency: Adjacency) -> float:
    """One record comes or goes: `bound`. One record is replaced: twice that."""
    return bound if adjacency is Adjacency.ADD_OR_REMOVE_ONE else 2.0 * bound


@dataclass(frozen=True)
class Partition:
    """Groups of parameter names that cover the critic, each with its bound: what the engine applies.

    Args:
        groups: disjoint groups of parameter names.
        bounds: one bound per group.
    """

    groups: tuple[tuple[str, ...], ...]
    bounds: tuple[float, ...]

    def factors(self, squared_norms: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """For each parameter, each record's factor in [0, 1].

        Args:
            squared_norms: for each parameter, the squared norm of its gradient for each record (float64).

        Returns:
            min(1, C_j / ((1 + SLACK) · norm over group j); zero in all groups for a record whose gradient is
            not finite.
        """
        norms = [_group_norm(squared_norms, group) for group in self.groups]
        finite = norms[0].isfinite()
        for norm in norms[1:]:
            finite = finite & norm.isfinite()
        result: dict[str, Tensor] = {}
        for group, bound, norm in zip(self.groups, self.bounds, norms, strict=True):
            factor = (bound / (1.0 + SLACK) / norm).clamp(max=1.0)
            factor = factor.where(finite, factor.new_zeros(()))
            result.update(dict.fromkeys(group, factor))
        return result


def _group_norm(squared_norms: Mapping[str, Tensor], group: tuple[str, ...]) -> Tensor:
    total = squared_norms[group[0]]
    for name in group[1:]:
        total = total + squared_norms[name]
    return total.sqrt()


@dataclass(frozen=True)
class _OneBound:
    """One bound C on everything that a record adds to the sum.

    Args:
        bound: C.
    """

    unit: ClassVar[int] = 1

    bound: float

    def __post_init__(self) -> None:
        _check_bound(self.bound)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C when a record comes or goes."""
        return _times_adjacency(self.bound, adjacency)

    def partition(self, names: Iterable[str]) -> Partition:
        """One group of everything."""
        return Partition((tuple(names),), (self.bound,))


@dataclass(frozen=True)
class GlobalClip(_OneBound):
    """Each record's gradient, over all parameters together, is clipped to one bound.

    Args:
        bound: C.
    """

    kind: ClassVar[str] = "global"


@dataclass(frozen=True)
class JointClip(_OneBound):
    """A record and its fake partner are one unit: the sum of both losses is clipped together.

    The common baseline. It is as private as `GlobalClip` but spends part of the norm on the fake.

    Args:
        bound: C.
    """

    kind: ClassVar[str] = "joint"


@dataclass(frozen=True)
class SeparateClip:
    """Real and fake gradients are clipped apart; fakes hold no private data, so only reals count.

    Args:
        real_bound: the bound of each record's gradient, and the sensitivity.
        fake_bound: the bound of each fake's gradient; a matter of balance, not of privacy.
    """

    kind: ClassVar[str] = "separate"
    unit: ClassVar[int] = 1

    real_bound: float
    fake_bound: float

    def __post_init__(self) -> None:
        _check_bound(self.real_bound)
        _check_bound(self.fake_bound, "the bound of fakes")

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The real bound when a record comes or goes."""
        return _times_adjacency(self.real_bound, adjacency)

    def partition(self, names: Iterable[str]) -> Partition:
        """One group of everything, at the real bound."""
        return Partition((tuple(names),), (self.real_bound,))

    def fake_partition(self, names: Iterable[str]) -> Partition:
        """One group of everything, at the fake bound."""
        return Partition((tuple(names),), (self.fake_bound,))


@dataclass(frozen=True)
class GroupedClip:
    """Each group of parameters is clipped on its own; the whole moves by at most √ΣC_j².

    Args:
        bounds: C_j, one per group.
        groups: the names of the parameters in each group; together they are all of the critic's.
    """

    kind: ClassVar[str] = "grouped"
    unit: ClassVar[int] = 1

    bounds: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for bound in self.bounds:
            _check_bound(bound)
        if len(self.bounds) != len(self.groups) or not self.groups or not all(self.groups):
            raise PlanError(
                f"every group needs one bound and at least one parameter: got {len(self.bounds)} bounds for "
                f"the groups {self.groups}."
            )

    def sensitivity(self, adjacency: Adjacency) -> float:
        """√ΣC_j² when a record comes or goes: it may reach the bound of every group at once."""
        return _times_adjacency(math.hypot(*self.bounds), adjacency)

    def partition(self, names: Iterable[str]) -> Partition:
        """The groups as given, after a check that they cover exactly `names`."""
        given = [name for group in self.groups for name in group]
        wanted = list(names)
        if sorted(given) != sorted(wanted):
            odd = sorted(set(given) ^ set(wanted)) or sorted(n for n in given if given.count(n) > 1)
            raise PlanError(
                f"the clipping groups must hold each parameter of the critic once; these do not fit: {odd}."
            )
        return Partition(self.groups, self.bounds)


@dataclass(frozen=True)
class WeightsBiasesClip:
    """Two groups, whatever the critic: its weights, and its biases.

    Args:
        weight_bound: the bound of all weights together.
        bias_bound: the bound of all biases together.
    """

    kind: ClassVar[str] = "weights-biases"
    unit: ClassVar[int] = 1

    weight_bound: float
    bias_bound: float

    def __post_init__(self) -> None:
        _check_bound(self.weight_bound, "the bound of weights")
        _check_bound(self.bias_bound, "the bound of biases")

    def sensitivity(self, adjacency: Adjacency) -> float:
        """√(C_w² + C_b²) when a record comes or goes."""
        return _times_adjacency(math.hypot(self.weight_bound, self.bias_bound), adjacency)

    def partition(self, names: Iterable[str]) -> Partition:
        """Parameters called `…bias`, and all others; a group without members is left out."""
        weights, biases = _split_biases(names)
        pairs = [(weights, self.weight_bound), (biases, self.bias_bound)]
        kept = [(group, bound) for group, bound in pairs if group]
        return Partition(tuple(g for g, _ in kept), tuple(b for _, b in kept))


def _split_biases(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    every = tuple(names)
    biases = tuple(name for name in every if name.split(".")[-1] == "bias")
    return tuple(name for name in every if name not in biases), biases


@dataclass(frozen=True)
class MicrobatchClip:
    """The mean gradient of several records is clipped as one; cheap in old frameworks, dear in privacy.

    Each record is thrown into one of the microbatches independently of the others, so that one record
    changes one microbatch only. That microbatch's clipped gradient may swing from C to the opposite C:
    the sensitivity is 2C, never C. (Cutting a shuffled batch in consecutive pieces would move two
    microbatches.)

    Args:
        bound: C.
        size: how many records a microbatch holds on average.
    """

    kind: ClassVar[str] = "microbatch"

    bound: float
    size: int

    def __post_init__(self) -> None:
        _check_bound(self.bound)
        if self.size < 2:
            raise PlanError(
                f"a microbatch holds at least two records, got {self.size}: use GlobalClip for one."
            )

    @property
    def unit(self) -> int:
        """How many records one clipped gradient stands for."""
        return self.size

    def sensitivity(self, adjacency: Adjacency) -> float:  # noqa: ARG002 - the same for both
        """2C, whether the record comes, goes or is replaced in its microbatch."""
        return 2.0 * self.bound

    def partition(self, names: Iterable[str]) -> Partition:
        """One group of everything."""
        return Partition((tuple(names),), (self.bound,))


@dataclass(frozen=True)
class PublicAdaptiveClip:
    """Bounds re-estimated at every step as mean gradient norms of a declared public batch.

    Each parameter's bound is its mean norm on the public batch. The biases form one group, if they are to be
    separate, and everything else is merged to groups of similar bounds (`cluster`). Nothing private is read.

    Args:
        groups: how many groups remain, besides that of separate biases.
        least: a floor for every bound, so that a parameter with vanishing public gradients stays trainable.
        separate_biases: whether the biases are a group of their own.
        batch: how many public records are drawn for each estimate.
    """

    kind: ClassVar[str] = "public-adaptive"
    unit: ClassVar[int] = 1

    groups: int
    least: float = 1e-6
    separate_biases: bool = True
    batch: int = 64

    def __post_init__(self) -> None:
        _check_bound(self.least, "the floor of the bounds")
        if self.groups < 1:
            raise PlanError(f"at least one group of parameters is needed, got {self.groups}.")
        if self.batch < 1:
            raise PlanError(f"bounds need at least one public record, got a batch of {self.batch}.")

    def adapted(self, public_norms: Mapping[str, float]) -> GroupedClip:
        """The rule of this step, from each parameter's mean gradient norm on the public batch."""
        floored = {name: max(norm, self.least) for name, norm in public_norms.items()}
        others, biases = _split_biases(floored) if self.separate_biases else (tuple(floored), ())
        merged = cluster({name: floored[name] for name in others}, self.groups)
        if not biases:
            return merged
        bias_bound = math.hypot(*(floored[name] for name in biases))
        return GroupedClip((*merged.bounds, bias_bound), (*merged.groups, biases))

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Known only after `adapted`; asking earlier is a mistake in the calling code."""
        raise PlanError(
            f"{self} has no sensitivity ({adjacency.value}) before its bounds are estimated: ask the rule "
            "that `adapted` returns for the step at hand."
        )


@dataclass(frozen=True)
class QuantileAdaptiveClip:
    """One global bound that follows a quantile of the gradient norms, learned privately as training goes.

    With each sum the step releases how many records were within the bound, shifted so that a record counts
    +½ or −½ (sensitivity ½). Both together are one Gaussian mechanism of the step's multiplier σ: with s the
    standard deviation of the count's noise, the gradients get the multiplier σ_g with
    1/σ² = 1/σ_g² + 1/(2s)². The bound then moves by C ← C·exp(−rate·(share within − quantile)), where the
    share is taken of the public expected batch (Andrew et al. 2021).

    Args:
        quantile: the share of records whose gradient shall be within the bound.
        first_bound: C at the first step; public.
        rate: how fast the bound follows.
        count_noise: s, in records; a twentieth of the expected batch is customary.
    """

    kind: ClassVar[str] = "quantile-adaptive"
    unit: ClassVar[int] = 1

    quantile: float
    first_bound: float
    rate: float
    count_noise: float

    def __post_init__(self) -> None:
        _check_bound(self.first_bound)
        _check_bound(self.count_noise, "the noise of the count")
        if not (0 < self.quantile < 1 and self.rate >= 0):
            raise PlanError(
                f"the quantile must lie in (0, 1) and the rate must not be negative, got {self.quantile} and "
                f"{self.rate}."
            )

    def sensitivity(self, adjacency: Adjacency) -> float:
        """That of the gradients at the first bound; later steps ask `GlobalClip(current bound)`."""
        return _times_adjacency(self.first_bound, adjacency)

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """σ_g, such that gradients and count together have exactly the multiplier of the mechanism."""
        left = noise_multiplier**-2 - (2.0 * self.count_noise) ** -2
        if left <= 0:
            raise PlanError(
                f"the count's noise s = {self.count_noise} alone spends the whole step: it needs "
                f"2s > σ = {noise_multiplier}. Raise count_noise."
            )
        return float(left**-0.5)

    def next_bound(self, bound: float, noisy_count: float, divisor: float) -> float:
        """The bound after a step whose noisy, shifted count is given; post-processing."""
        share = min(max(noisy_count / divisor + 0.5, 0.0), 1.0)
        return bound * math.exp(-self.rate * (share - self.quantile))


ConcreteClip = GlobalClip | SeparateClip | JointClip | GroupedClip | WeightsBiasesClip | MicrobatchClip
"""Rules that can be applied as they are."""

Clipping = ConcreteClip | PublicAdaptiveClip | QuantileAdaptiveClip
"""Every rule; the adaptive ones become a concrete rule at each step."""


def cluster(bounds: Mapping[str, float], groups: int) -> GroupedClip:
    """Merge parameters of similar bounds until `groups` groups remain (Zhang et al. 2018, Algorithm 2).

    The two groups whose bounds have the least ratio are merged, and the new bound is √(C² + C'²).

    Args:
        bounds: a positive bound for each parameter, from public knowledge.
        groups: how many groups remain (or fewer, if there are fewer parameters).
    """
    clusters: list[tuple[tuple[str, ...], float]] = [((name,), bound) for name, bound in bounds.items()]
    while len(clusters) > max(groups, 1):
        clusters.sort(key=lambda item: item[1])
        # Among positive numbers in order the least ratio is between neighbours.
        at = min(range(len(clusters) - 1), key=lambda i: clusters[i + 1][1] / clusters[i][1])
        (names, bound), (more, other) = clusters[at], clusters[at + 1]
        clusters[at : at + 2] = [((*names, *more), math.hypot(bound, other))]
    return GroupedClip(tuple(bound for _, bound in clusters), tuple(names for names, _ in clusters))
