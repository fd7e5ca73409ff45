"""The private mechanisms, as frozen values that are both run and accounted.

Each value is the single source of the numbers it needs: the engine samples and noises from these
fields, and the accountant reads the event that the same fields produce. There is no second place
where a sampling rate, a noise multiplier or a number of steps is typed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from understudy.errors import PlanError

if TYPE_CHECKING:
    import dp_accounting

__all__ = ["Charge", "GaussianRelease", "Mechanism", "SubsampledGaussian"]


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
class Charge:
    """One line of a plan or of a ledger: what the budget is spent on, and by which mechanism."""

    purpose: str
    mechanism: SubsampledGaussian | GaussianRelease
