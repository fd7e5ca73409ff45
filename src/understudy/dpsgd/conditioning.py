"""How a critic is told the label of a record, as values without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import PlanError

__all__ = ["Conditioning", "OneHotChannels", "OneHotFeatures", "Unconditional"]


def _check_classes(classes: int) -> None:
    if classes < 2:
        raise PlanError(f"a conditional critic needs at least two classes, got {classes}.")


@dataclass(frozen=True)
class Unconditional:
    """The critic sees the record only; labels are ignored."""

    kind: ClassVar[str] = "unconditional"


@dataclass(frozen=True)
class OneHotFeatures:
    """The record is flattened and its one-hot label, times a public scale, is appended to the features.

    A gradient is shared out in proportion to the inputs. Beside 784 pixels of size one, a label of size one gets a
    28th of a clipped gradient, less than the noise; a scale of about the record's norm makes it heard.

    Args:
        classes: the number of labels.
        scale: the value that stands for the record's own class.
        unit_range: whether a record's values in [−1, 1] are shown as (x + 1)/2; not for penalties on input gradients.
    """

    kind: ClassVar[str] = "one-hot-features"

    classes: int
    scale: float = 1.0
    unit_range: bool = False

    def __post_init__(self) -> None:
        _check_classes(self.classes)
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise PlanError(f"the scale of a label must be positive and finite, got {self.scale}.")


@dataclass(frozen=True)
class OneHotChannels:
    """An image gets one more constant channel per class: 1 for its own class, 0 for the others."""

    kind: ClassVar[str] = "one-hot-channels"

    classes: int

    def __post_init__(self) -> None:
        _check_classes(self.classes)


Conditioning = Unconditional | OneHotFeatures | OneHotChannels
