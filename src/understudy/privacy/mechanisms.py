"""The private mechanisms, as frozen values that are both run and accounted.

Each value is the single source of the numbers it needs: the engine samples and noises from these
fields, and the accountant reads the event that the same fields produce. There is no second place
where a sampling rate, a noise multiplier or a number of steps is typed.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from understudy.errors import PlanError

if TYPE_CHECKING:
    import dp_accounting

__all__ = [
    "Charge",
    "GaussianRelease",
    "GaussianThreshold",
    "Mechanism",
    "RunCount",
    "Selection",
    "SubsampledGaussian",
]


class Mechanism(Protocol):
    """Anything that touches private records and knows what that costs."""

    def event(self) -> dp_accounting.DpEvent:
        """What the accountant composes."""
        ...


@dataclass(frozen=True)
class SubsampledGaussian:
    """T steps of Poisson sampling and Gaussian noise: the mechanism of private training.

    Args:
        sampling_rate: q, the public probability with which each record joins a batch.
        noise_multiplier: σ, the noise's standard deviation divided by the sum's sensitivity
            under addition or removal of one record.
        steps: T, how many batches are drawn.
        batch_cap: the largest batch ever processed, or None for no limit. A larger Poisson draw is
            cut to a uniform subset of this size, which the event takes into account.
        rows: an upper bound on the number of rows, needed by the truncated event only.
    """

    kind: ClassVar[str] = "subsampled-gaussian"

    sampling_rate: float
    noise_multiplier: float
    steps: int
    batch_cap: int | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.sampling_rate <= 1:
            raise PlanError(
                f"the sampling rate must lie in (0, 1], got {self.sampling_rate}: "
                "the batch cannot be larger than the data set."
            )
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise PlanError(
                f"the noise multiplier must be finite and not negative, got {self.noise_multiplier}."
            )
        if self.steps < 0:
            raise PlanError(f"the number of steps must not be negative, got {self.steps}.")
        if self.batch_cap is not None and self.rows is None:
            raise PlanError("a batch cap needs the number of rows: the truncated event depends on it.")
        if self.batch_cap is not None and self.batch_cap < 1:
            raise PlanError(f"the batch cap must be at least 1, got {self.batch_cap}.")
        if self.rows is not None and self.rows < 1:
            raise PlanError(f"the number of rows must be at least 1, got {self.rows}.")

    def expected_truncations(self) -> float:
        """How many of the T batches are expected to exceed the cap (an upper bound, since `rows` is one)."""
        if self.batch_cap is None or self.rows is None:
            return 0.0
        from scipy.stats import binom

        return self.steps * float(binom.sf(self.batch_cap, self.rows, self.sampling_rate))

    def untruncated(self) -> SubsampledGaussian:
        """The same mechanism without a limit on the batch."""
        return replace(self, batch_cap=None)

    def event(self) -> dp_accounting.DpEvent:
        """A self-composition of Poisson-sampled (or truncated Poisson-sampled) Gaussian events."""
        import dp_accounting

        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
        one: dp_accounting.DpEvent
        if self.batch_cap is None:
            one = dp_accounting.PoissonSampledDpEvent(self.sampling_rate, gaussian)
        else:
            one = dp_accounting.TruncatedSubsampledGaussianDpEvent(
                dataset_size=self.rows,
                sampling_probability=self.sampling_rate,
                truncated_batch_size=self.batch_cap,
                noise_multiplier=self.noise_multiplier,
            )
        return dp_accounting.SelfComposedDpEvent(one, self.steps)


@dataclass(frozen=True)
class GaussianRelease:
    """A vector of known sensitivity published with Gaussian noise, `count` times.

    Args:
        noise_multiplier: the noise's standard deviation divided by the L2 sensitivity.
        count: how many such vectors are published.
    """

    kind: ClassVar[str] = "gaussian"

    noise_multiplier: float
    count: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise PlanError(f"the noise multiplier must be finite and positive, got {self.noise_multiplier}.")
        if self.count < 0:
            raise PlanError(f"the number of releases must not be negative, got {self.count}.")

    def event(self) -> dp_accounting.DpEvent:
        """A self-composition of Gaussian events."""
        import dp_accounting

        return dp_accounting.SelfComposedDpEvent(
            dp_accounting.GaussianDpEvent(self.noise_multiplier), self.count
        )


@dataclass(frozen=True)
class GaussianThreshold:
    """Counts of values that nobody listed, each published with Gaussian noise if that reaches a threshold.

    The counts of values that others have too are a Gaussian release. A value that one person alone has could only be
    published with that person, so it must not be: the threshold lies so high that this happens with probability δ at
    most, and δ is added to that of everything else (docs/discovery.md has the proof).

    Args:
        noise_multiplier: the noise's standard deviation divided by the L2 sensitivity of the counts.
        delta: the probability with which anything that one person alone has is published, at most.
    """

    kind: ClassVar[str] = "gaussian-threshold"

    noise_multiplier: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise PlanError(f"the noise multiplier must be finite and positive, got {self.noise_multiplier}.")
        if not _LEAST_DELTA <= self.delta < 0.5:
            raise PlanError(
                f"the δ of a threshold must lie between {_LEAST_DELTA:g} and 0.5, got {self.delta}: noise has no "
                "farther tails."
            )

    def threshold(self, rows_each: int = 1) -> float:
        """The least noisy count that is published.

        Args:
            rows_each: how many rows a person has at most. Together they count for one, but each may have a value that
                nobody else has, so δ is shared by as many.
        """
        return 1.0 + self.noise_multiplier * _quantile(self.delta / rows_each)

    def people_needed(self, rows_each: int = 1, chance: float = 0.95) -> float:
        """How many people must have a value (all in all, where rows of a person differ) to publish it with a chance."""
        return self.threshold(rows_each) + self.noise_multiplier * _quantile(1 - chance)

    def event(self) -> dp_accounting.DpEvent:
        """The Gaussian event; δ is the accountants' business."""
        import dp_accounting

        return dp_accounting.GaussianDpEvent(self.noise_multiplier)


_LEAST_DELTA = 1e-13
"""Noise is made of 52 random bits, so that much rarer values than this do not occur."""


def _quantile(tail: float) -> float:
    """What a standard normal number exceeds with this probability."""
    from scipy.special import ndtri

    return -float(ndtri(tail))


class RunCount(enum.Enum):
    """How the number of tried runs is drawn; it must be random, and independent of the data.

    The distributions are those of Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential
    Privacy" (arXiv 2110.03620). A fixed number of runs costs more than any of them.
    """

    LOGARITHMIC = "logarithmic"
    """Cheapest for a given mean; very often only one or two runs."""

    GEOMETRIC = "geometric"
    """The middle way."""

    POISSON = "poisson"
    """The most concentrated number of runs, and the dearest; may be zero runs."""

    @property
    def shape(self) -> float:
        """The parameter by which dp-accounting names the distribution."""
        return {RunCount.LOGARITHMIC: 0.0, RunCount.GEOMETRIC: 1.0, RunCount.POISSON: math.inf}[self]


@dataclass(frozen=True)
class Selection:
    """Running mechanisms a random number of times and publishing only the best result.

    Where runs differ in their settings, each run draws its setting at random, by chances that are public; then the
    dearest possible run counts, order by order of the Rényi divergence. Whatever the runs are compared by must be
    among the charges, or public.

    Args:
        charges: what one run costs.
        mean_runs: the public mean of the number of runs; more than one, except for Poisson.
        runs: the distribution of that number.
        others: what a run with each of the other settings costs, if settings are drawn too.
    """

    kind: ClassVar[str] = "selection"

    charges: tuple[Charge, ...]
    mean_runs: float
    runs: RunCount = RunCount.GEOMETRIC
    others: tuple[tuple[Charge, ...], ...] = ()

    def __post_init__(self) -> None:
        least = 0.0 if self.runs is RunCount.POISSON else 1.0
        if not (math.isfinite(self.mean_runs) and self.mean_runs > least):
            raise PlanError(
                f"the mean number of runs must be finite and above {least:g}, got {self.mean_runs}. "
                "To publish a single run without choosing, charge that run itself."
            )
        if any(isinstance(one.mechanism, GaussianThreshold) for inner in self.possible for one in inner):
            raise PlanError(
                "a choice among runs that each discover categories is not accounted for: discover them in one run, put "
                "what its card says into the schema, and choose among runs with that."
            )

    @property
    def possible(self) -> tuple[tuple[Charge, ...], ...]:
        """What a run may cost, one tuple of charges for each setting that can be drawn."""
        return (self.charges, *self.others)

    def event(self) -> dp_accounting.DpEvent:
        """A repeat-and-select event around the composition of one run.

        Raises:
            PlanError: the runs differ, which no event of the library describes; the accountant treats it itself.
        """
        import dp_accounting
        from dp_accounting.dp_event import RepeatAndSelectDpEvent

        if self.others:
            raise PlanError("a choice among runs that cost different amounts has no single event.")
        one = dp_accounting.ComposedDpEvent([charge.mechanism.event() for charge in self.charges])
        return RepeatAndSelectDpEvent(one, self.mean_runs, self.runs.shape)


@dataclass(frozen=True)
class Charge:
    """One line of a plan or of a ledger: what the budget is spent on, and by which mechanism."""

    purpose: str
    mechanism: SubsampledGaussian | GaussianRelease | GaussianThreshold | Selection
