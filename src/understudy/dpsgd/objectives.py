"""What the critic and the generator are trained on, as values.

An objective says three things about one logit of the critic: the loss of a real record, the loss of a
fake one, and what the generator wants. The formulas in torch are in `understudy.dpsgd.losses`; this
module holds only the values, so that a recipe can name them without importing torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import PlanError

__all__ = ["Minimax", "Objective", "Wasserstein", "WassersteinPenalty"]


@dataclass(frozen=True)
class Minimax:
    """Binary cross-entropy on logits.

    Args:
        label_smoothing: the target of real records is 1 − label_smoothing.
        saturating: whether the generator descends log(1 − D), as first printed, whose slope vanishes where the critic
            is sure of a fake; otherwise −log D.
    """

    kind: ClassVar[str] = "minimax"

    label_smoothing: float = 0.0
    saturating: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 0.5:
            raise PlanError(f"label smoothing must lie in [0, 0.5), got {self.label_smoothing}.")


@dataclass(frozen=True)
class Wasserstein:
    """The critic's mean on reals minus its mean on fakes; needs a Lipschitz constraint from elsewhere."""

    kind: ClassVar[str] = "wasserstein"


@dataclass(frozen=True)
class WassersteinPenalty:
    """Wasserstein with weight · (‖∇D(x̂)‖ − 1)² at the interpolate x̂ of a record and its fake.

    The penalty depends on the record, so it is part of the record's clipped loss.

    Args:
        weight: the factor of the penalty (10 in Gulrajani et al. 2017).
    """

    kind: ClassVar[str] = "wasserstein-penalty"

    weight: float = 10.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise PlanError(f"the penalty's weight must be finite and not negative, got {self.weight}.")


Objective = Minimax | Wasserstein | WassersteinPenalty
