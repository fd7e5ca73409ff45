"""Clipping rules whose bounds move with training: by public records, or by a private count."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from understudy.dpsgd.clipping.fixed import GroupedClip
from understudy.dpsgd.clipping.partition import check_bound, split_biases, times_adjacency
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.privacy.budget import Adjacency

__all__ = ["GroupBound", "PublicAdaptiveClip", "QuantileAdaptiveClip", "cluster"]


class GroupBound(enum.Enum):
    """How the bound of a group follows from its members' (Zhang et al. 2018 say both)."""

    ROOT = "root of squares"  # Algorithm 2: no record whose members keep their bounds is clipped
    MEAN = "mean"  # section 4.4, "our current implementation"


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
        paired: whether a record and its fake partner are one unit, public ones too; otherwise fakes are free.
        group_bound: how the bound of a group follows from those of its members.
    """

    kind: ClassVar[str] = "public-adaptive"
    unit: ClassVar[int] = 1

    groups: int
    least: float = 1e-6
    separate_biases: bool = True
    batch: int = 64
    paired: bool = False
    group_bound: GroupBound = GroupBound.ROOT

    def __post_init__(self) -> None:
        check_bound(self.least, "the floor of the bounds")
        if self.groups < 1:
            raise PlanError(f"at least one group of parameters is needed, got {self.groups}.")
        if self.batch < 1:
            raise PlanError(f"bounds need at least one public record, got a batch of {self.batch}.")

    def adapted(self, public_norms: Mapping[str, float]) -> GroupedClip:
        """The rule of this step, from each parameter's mean gradient norm on the public batch."""
        floored = {name: max(norm, self.least) for name, norm in public_norms.items()}
        others, biases = split_biases(floored) if self.separate_biases else (tuple(floored), ())
        merged = cluster({name: floored[name] for name in others}, self.groups)
        groups = (*merged.groups, biases) if biases else merged.groups
        bounds = tuple(self._of_members([floored[name] for name in group]) for group in groups)
        return GroupedClip(bounds, groups, self.paired)

    def _of_members(self, bounds: list[float]) -> float:
        mean = self.group_bound is GroupBound.MEAN
        return sum(bounds) / len(bounds) if mean else math.hypot(*bounds)

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
        floor: the bound never falls below floor · first_bound. A critic that a loss has stopped pushing has gradients
            of zero, and a bound that follows them down has lost its meaning long before it meets the least float.
    """

    kind: ClassVar[str] = "quantile-adaptive"
    unit: ClassVar[int] = 1
    paired: ClassVar[bool] = False

    quantile: float
    first_bound: float
    rate: float
    count_noise: float
    floor: float = 1e-3

    def __post_init__(self) -> None:
        check_bound(self.first_bound)
        check_bound(self.count_noise, "the noise of the count")
        if not 0 < self.floor <= 1:
            raise PlanError(
                f"the floor is a share of the first bound: it must lie in (0, 1], got {self.floor}."
            )
        if not (0 < self.quantile < 1 and self.rate >= 0):
            raise PlanError(
                f"the quantile must lie in (0, 1) and the rate must not be negative, got {self.quantile} and "
                f"{self.rate}."
            )

    def sensitivity(self, adjacency: Adjacency) -> float:
        """That of the gradients at the first bound; later steps ask `GlobalClip(current bound)`."""
        return times_adjacency(self.first_bound, adjacency)

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
        moved = bound * math.exp(-self.rate * (share - self.quantile))
        return max(moved, self.floor * self.first_bound)


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
