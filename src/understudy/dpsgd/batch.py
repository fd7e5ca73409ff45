"""What one critic step works on, and what it yields before the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["ClippedSum", "CriticBatch", "FakesPart"]


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
        fake_values: what the critic's first weight makes of the fakes, where a walk through them has found it
            (`FakesPart.values`); it saves the penalty a product.
        microbatch: for each record the number of its microbatch; needed by `MicrobatchClip` only.
        persons: for each record the number of its person, in ascending order; the gradient of the mean loss of a
            person's records is then clipped as one. None if every record is a person of its own.
        weights: for each record one over the number of its person's records; None without persons.
    """

    real: Tensor
    real_labels: Tensor | None
    fake: Tensor
    fake_labels: Tensor | None = None
    mixing: Tensor | None = None
    partner: Tensor | None = None
    fake_values: Tensor | None = None
    microbatch: Tensor | None = None
    persons: Tensor | None = None
    weights: Tensor | None = None

    @property
    def people(self) -> int:
        """How many gradients are clipped: one for each person."""
        return (
            len(self.real) if self.persons is None else int(self.persons.max()) + 1 if len(self.real) else 0
        )

    def partners(self) -> Tensor:
        """The index of each record's fake."""
        if self.partner is not None:
            return self.partner
        return torch.arange(self.real.shape[0], device=self.real.device) % max(self.fake.shape[0], 1)

    def interpolates(self) -> Tensor:
        """x̂ for each record."""
        return self.between(self.fake[self.partners()], self.real)

    def between(self, partners: Tensor, records: Tensor) -> Tensor:
        """Interpolate any value that records and partners have, as x̂ does their rows."""
        if self.mixing is None:
            raise ValueError(
                "a gradient penalty needs one mixing coefficient per record: set CriticBatch.mixing."
            )
        mixing = self.mixing.to(records.dtype).reshape(-1, *[1] * (records.dim() - 1))
        return torch.lerp(partners, records, mixing)

    def pieces(self, size: int) -> Iterator[CriticBatch]:
        """Batches of at most `size` records, each with its own partners, whose clipped sums add up to that of this.

        A person is never split: one with more records makes a longer batch.
        """
        partners = self.partners()
        for pick in self._ranges(size):
            own = partners[pick] if self.fake.shape[0] else slice(0, 0)
            yield replace(
                self,
                real=self.real[pick],
                real_labels=_rows(self.real_labels, pick),
                fake=self.fake[own],
                fake_labels=_rows(self.fake_labels, own),
                mixing=_rows(self.mixing, pick),
                partner=None,
                fake_values=_rows(self.fake_values, own),
                persons=None if self.persons is None else self.persons[pick] - self.persons[pick.start],
                weights=_rows(self.weights, pick),
            )

    def _ranges(self, size: int) -> Iterator[slice]:
        if self.persons is None:
            yield from (slice(start, start + size) for start in range(0, len(self.real), size))
            return
        start = stop = 0
        for records in torch.bincount(self.persons).tolist():
            if stop > start and stop + records - start > size:
                yield slice(start, stop)
                start = stop
            stop += records
        if stop > start:
            yield slice(start, stop)


def _rows(column: Tensor | None, pick: slice | Tensor) -> Tensor | None:
    return None if column is None else column[pick]


@dataclass(frozen=True)
class ClippedSum:
    """The sum of clipped gradients of one batch, still without noise and therefore private.

    Args:
        gradients: for each parameter, the clipped sum over records, in float64; nothing of the free fakes is in it.
        sensitivity: how far the sum moves when one record (or person) comes or goes.
        shifted_count: Σ over records (or persons) of +½ (within the bound) or −½ (shrunk or not finite).
    """

    gradients: dict[str, Tensor]
    sensitivity: float
    shifted_count: float


@dataclass(frozen=True)
class FakesPart:
    """What free fakes add to a step. It holds nothing private.

    Args:
        gradients: for each parameter, the mean gradient of the critic's loss on the fakes.
        values: what the critic's first weight makes of them, where the penalty can start from there.
    """

    gradients: dict[str, Tensor]
    values: Tensor | None = None
