"""A source of noise that an auditor listens to: what was about to be released, what was, and with which scale.

Everything private that leaves a run leaves it through `Noise.perturb`, which replaces a sum by sum + noise. The tap
stands there. It can also *force history*: write, in place of each release, the release of an earlier run. Two runs with
one history may differ only in what they were about to release; if anything else differs, it leaked past the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from understudy.audit.readings import Floats
    from understudy.door.noise import Noise

__all__ = ["Draw", "Wiretap"]


@dataclass(frozen=True, eq=False)
class Draw:
    """One release.

    Args:
        before: every number before the noise.
        after: the same after it, not yet multiplied by the factor.
        scale: the standard deviation that was asked for.
        released: the tensors as they were released.
    """

    before: Floats
    after: Floats
    scale: float
    released: tuple[Tensor, ...]

    @property
    def noise(self) -> Floats:
        """What was added, in units of the scale that was asked for."""
        added: Floats = (self.after - self.before) / max(self.scale, 1e-300)
        return added


class Wiretap:
    """Passes every request on to a real source of noise, and remembers the releases.

    Args:
        source: where the noise comes from.
        history: releases of an earlier run, to be written in place of this run's.
    """

    def __init__(self, source: Noise, history: Sequence[Draw] = ()) -> None:
        self._source = source
        self._history = history
        self.draws: list[Draw] = []

    @property
    def private(self) -> bool:
        """As of the source."""
        return self._source.private

    def normal(self, shape: Sequence[int]) -> Tensor:
        """From the source."""
        return self._source.normal(shape)

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """From the source."""
        return self._source.uniform(shape)

    def integers(self, high: int, count: int) -> Tensor:
        """From the source."""
        return self._source.integers(high, count)

    def perturb(self, tensors: Iterable[Tensor], scale: float, factor: float) -> None:
        """Let the source add its noise, note it, and put history in its place where there is one."""
        listed = list(tensors)
        before = _flat(listed)
        self._source.perturb(listed, scale, factor)
        copies = tuple(tensor.clone() for tensor in listed)
        self.draws.append(Draw(before, _flat(listed) / factor, scale, copies))
        if len(self.draws) <= len(self._history):
            for tensor, past in zip(listed, self._history[len(self.draws) - 1].released, strict=True):
                tensor.copy_(past)


def _flat(tensors: Sequence[Tensor]) -> Floats:
    flat: Floats = np.concatenate([tensor.detach().double().cpu().numpy().ravel() for tensor in tensors])
    return flat
