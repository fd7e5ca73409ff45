"""What one critic step works on, and what it yields before the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ClippedSum", "CriticBatch"]


@dataclass(frozen=True)
class CriticBatch:
    """Records and fakes of one step.

    Only `real` and `real_labels` are private. Each record has a partner among the fakes and a mixing
    coefficient for its interpolate; both are drawn for each record independently of the other records, so
    that one record more or less leaves the others' losses as they are.

    Args:
        real: the Poisson batch, any number of rows, also none.
        real_labels: int64 labels of the records, or None.
        fake: generated rows, a public number of them.
        fake_labels: int64 labels of the fakes, or None.
        mixing: for each record a number in [0, 1]: x̂ = mixing · record + (1 − mixing) · partner. None when
            the objective has no penalty.
        partner: for each record the index of its fake; by default record i has fake i modulo their number.
        fake_weight: the factor of the sum of the fakes' gradients (expected batch / number of fakes).
        microbatch: for each record the number of its microbatch; needed by `MicrobatchClip` only.
    """

    real: Tensor
    real_labels: Tensor | None
    fake: Tensor
    fake_labels: Tensor | None = None
    mixing: Tensor | None = None
    partner: Tensor | None = None
    fake_weight: float = 1.0
    microbatch: Tensor | None = None

    def partners(self) -> Tensor:
        """The index of each record's fake."""
        if self.partner is not None:
            return self.partner
        return torch.arange(self.real.shape[0], device=self.real.device) % max(self.fake.shape[0], 1)

    def interpolates(self) -> Tensor:
        """x̂ for each record."""
        if self.mixing is None:
            raise ValueError(
                "a gradient penalty needs one mixing coefficient per record: set CriticBatch.mixing."
            )
        shape = (-1, *[1] * (self.real.dim() - 1))
        mixing = self.mixing.to(self.real.dtype).reshape(shape)
        return torch.lerp(self.fake[self.partners()], self.real, mixing)

    def part(self, start: int, stop: int) -> CriticBatch:
        """Records start … stop − 1 with all fakes."""
        pick = slice(start, stop)
        return CriticBatch(
            real=self.real[pick],
            real_labels=None if self.real_labels is None else self.real_labels[pick],
            fake=self.fake,
            fake_labels=self.fake_labels,
            mixing=None if self.mixing is None else self.mixing[pick],
            partner=self.partners()[pick],
            fake_weight=self.fake_weight,
            microbatch=None if self.microbatch is None else self.microbatch[pick],
        )


@dataclass(frozen=True)
class ClippedSum:
    """The sum of clipped gradients of one batch, still without noise and therefore private.

    Args:
        gradients: for each parameter, clipped sum over records plus weighted sum over fakes.
        sensitivity: how far the sum moves when one record comes or goes.
        shifted_count: Σ over records of +½ (within the bound) or −½ (shrunk or not finite).
    """

    gradients: dict[str, Tensor]
    sensitivity: float
    shifted_count: float
