"""Clipping rules whose bounds are known before training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from understudy.dpsgd.clipping.partition import Partition, check_bound, split_biases, times_adjacency
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from understudy.privacy.budget import Adjacency

__all__ = ["GlobalClip", "GroupedClip", "JointClip", "MicrobatchClip", "SeparateClip", "WeightsBiasesClip"]


@dataclass(frozen=True)
class _OneBound:
    """One bound C on everything that a record adds to the sum.

    Args:
        bound: C.
    """

    unit: ClassVar[int] = 1
    paired: ClassVar[bool] = False

    bound: float

    def __post_init__(self) -> None:
        check_bound(self.bound)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C when a record comes or goes."""
        return times_adjacency(self.bound, adjacency)

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
    paired: ClassVar[bool] = True


@dataclass(frozen=True)
class SeparateClip:
    """Real and fake gradients are clipped apart; fakes hold no private data, so only reals count.

    Args:
        real_bound: the bound of each record's gradient, and the sensitivity.
        fake_bound: the bound of each fake's gradient; a matter of balance, not of privacy.
    """

    kind: ClassVar[str] = "separate"
    unit: ClassVar[int] = 1
    paired: ClassVar[bool] = False

    real_bound: float
    fake_bound: float

    def __post_init__(self) -> None:
        check_bound(self.real_bound)
        check_bound(self.fake_bound, "the bound of fakes")

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The real bound when a record comes or goes."""
        return times_adjacency(self.real_bound, adjacency)

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
        paired: whether a record and its fake partner are one unit, as in `JointClip`; otherwise fakes are free.
    """

    kind: ClassVar[str] = "grouped"
    unit: ClassVar[int] = 1

    bounds: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...]
    paired: bool = False

    def __post_init__(self) -> None:
        for bound in self.bounds:
            check_bound(bound)
        if len(self.bounds) != len(self.groups) or not self.groups or not all(self.groups):
            raise PlanError(
                f"every group needs one bound and at least one parameter: got {len(self.bounds)} bounds for "
                f"the groups {self.groups}."
            )

    def sensitivity(self, adjacency: Adjacency) -> float:
        """√ΣC_j² when a record comes or goes: it may reach the bound of every group at once."""
        return times_adjacency(math.hypot(*self.bounds), adjacency)

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
        paired: whether a record and its fake partner are one unit, as in `JointClip`; otherwise fakes are free.
    """

    kind: ClassVar[str] = "weights-biases"
    unit: ClassVar[int] = 1

    weight_bound: float
    bias_bound: float
    paired: bool = False

    def __post_init__(self) -> None:
        check_bound(self.weight_bound, "the bound of weights")
        check_bound(self.bias_bound, "the bound of biases")

    def sensitivity(self, adjacency: Adjacency) -> float:
        """√(C_w² + C_b²) when a record comes or goes."""
        return times_adjacency(math.hypot(self.weight_bound, self.bias_bound), adjacency)

    def partition(self, names: Iterable[str]) -> Partition:
        """Parameters called `…bias`, and all others; a group without members is left out."""
        weights, biases = split_biases(names)
        pairs = [(weights, self.weight_bound), (biases, self.bias_bound)]
        kept = [(group, bound) for group, bound in pairs if group]
        return Partition(tuple(g for g, _ in kept), tuple(b for _, b in kept))


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
    paired: ClassVar[bool] = False

    bound: float
    size: int

    def __post_init__(self) -> None:
        check_bound(self.bound)
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
