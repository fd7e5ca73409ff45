"""A simulated subject: an exact Gaussian mechanism without any network, with errors that can be planted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest


@dataclass
class SimulatedSubject:
    """Adds each included canary's contribution to its own coordinates, then Gaussian noise."""

    sigma: float = 1.15
    shift: float = 1.0
    canaries: int = 100
    width: int = 4
    seed: int = 0
    reuse: bool = False
    sampler: object = None
    name: str = "simulated"
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def release(self, codes):
        if self.reuse:
            self.rng = np.random.default_rng(self.seed)
        weight = self.sigma * self.rng.standard_normal((self.width, self.canaries))
        weight[0] += self.shift * np.sign(codes).sum(axis=0)
        return {"weight": weight, "bias": self.sigma * self.rng.standard_normal(8)}

    def blocks(self, released):
        return released["weight"].T

    def shared(self, released):
        return released["bias"]


@pytest.fixture
def simulated():
    return SimulatedSubject
