"""What the two accountants say, against published figures and independent mathematics."""

from __future__ import annotations

import pytest

from understudy.privacy.accounting import spent
from understudy.privacy.mechanisms import Charge, SubsampledGaussian


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "pld", "rdp", "replaced"),
    [
        (0.01, 1.15, 24_900, 8.1651, 8.8019, 15.63),
        (32 / 3772, 1.15, 5_894, 2.9698, 3.2385, 5.309),
        (128 / 60_000, 0.8, 18_760, 2.4435, 2.7731, 3.772),
    ],
)
def test_golden_values(q: float, sigma: float, steps: int, pld: float, rdp: float, replaced: float) -> None:
    """The settings of published runs cost what they were measured to cost with dp-accounting 0.6."""
    cost = spent([Charge("training", SubsampledGaussian(q, sigma, steps))], 1e-5)
    assert cost.epsilon == pytest.approx(pld, abs=1e-3)
    assert cost.epsilon_rdp == pytest.approx(rdp, abs=1e-3)
    assert cost.epsilon_replace_one == pytest.approx(replaced, rel=4e-3)
