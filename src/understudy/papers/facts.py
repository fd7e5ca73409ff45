"""Documented facts about the papers' runs, each with its source; every ε is computed from these, none is typed.

"text" is the paper itself, "code" its published repository. The only ε here are those that the papers print.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from understudy.papers.bookkeeping import ClosedFormula, Meter, MomentsMeter, RenyiMeter, gaussian_noise
from understudy.privacy.mechanisms import SubsampledGaussian

__all__ = [
    "DELTA",
    "GROUPINGS",
    "Claimed",
    "Coded",
    "Factor",
    "Grouping",
    "Stated",
    "claimed",
    "ppgan_formula",
]

DELTA = 1e-5
"""All five papers use this δ."""


@dataclass(frozen=True)
class Stated:
    """A run as the paper states it.

    Args:
        rows: N.
        batch: B.
        noise_multiplier: σ.
        steps: critic steps T.
        source: where these are written.
    """

    rows: int
    batch: int
    noise_multiplier: float
    steps: int
    source: str

    def mechanism(self) -> SubsampledGaussian:
        """The run with Poisson sampling and a sum of sensitivity one."""
        return SubsampledGaussian(self.batch / self.rows, self.noise_multiplier, self.steps)


@dataclass(frozen=True)
class Factor:
    """By how much the noise is too small for what the code really clips, and why."""

    value: float
    why: str


@dataclass(frozen=True)
class Coded:
    """What the published code does.

    Args:
        run: its own rows, batch, noise and steps.
        factors: by which the noise multiplier must be divided.
        remark: what no ε can express.
    """

    run: Stated
    factors: tuple[Factor, ...] = ()
    remark: str = ""

    def mechanism(self) -> SubsampledGaussian:
        """The mechanism with the multiplier that was really applied."""
        sigma = self.run.noise_multiplier / math.prod(factor.value for factor in self.factors)
        return SubsampledGaussian(self.run.batch / self.run.rows, sigma, self.run.steps)


@dataclass(frozen=True)
class Claimed:
    """One claim of one paper.

    Args:
        paper: short name.
        setting: which of its runs.
        epsilon: the printed ε, or None where the paper prints a curve and no number.
        stated: the run as stated.
        meter: how the paper computes ε.
        coded: what the published code does, or None if there is no code for this run.
    """

    paper: str
    setting: str
    epsilon: float | None
    stated: Stated
    meter: Meter
    coded: Coded | None


_FINE_ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *(float(order) for order in range(12, 64)))
"""1.1 … 10.9 and 12 … 63, as in the dp-cgan code and in the tutorials of TensorFlow Privacy."""

_COARSE_ORDERS = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(float(order) for order in range(5, 64)),
    *(128.0, 256.0, 512.0),
)
"""The orders of `compute_dp_sgd_privacy` in TensorFlow Privacy 0.2.2, which the dp-cgan-tf2 notebooks call."""


# ------------------------------------------------------------------------------------------- dp-cgan


_CGAN = Stated(
    rows=60_000,
    batch=600,
    noise_multiplier=1.15,
    steps=249 * 100,
    source="text section 5 (B 600); σ, C and 249 epochs: dp-cgan-tf2 text section 3.1, from the first author",
)


def _cgan_code_steps() -> int:
    """The code compares after the step, with σ·C = 1.12 · 1.1 as the multiplier: one step past its own limit."""
    metered = SubsampledGaussian(600 / 60_000, 1.12 * 1.1, 1)
    return RenyiMeter(_FINE_ORDERS).steps(metered, 9.6, DELTA) + 1


def _cgan() -> Claimed:
    run = Stated(
        rows=55_000,
        batch=600,
        noise_multiplier=1.12,
        steps=_cgan_code_steps(),
        source="code, DP_CGAN_RdpAcc.py; rows: the TensorFlow tutorial reader keeps 5,000 for validation",
    )
    tensors = Factor(2.0, "each of the critic's 4 tensors is clipped to C on its own: √4")
    remark = (
        "its meter is fed σ·C instead of σ; the generator and the fakes get the labels of the private batch, which no "
        "noise covers, so that strictly no finite ε holds"
    )
    return Claimed("dp-cgan", "MNIST", 9.6, _CGAN, RenyiMeter(_FINE_ORDERS), Coded(run, (tensors,), remark))


# --------------------------------------------------------------------------------------- dp-cgan-tf2


def _cgan_tf2() -> tuple[Claimed, ...]:
    meter = RenyiMeter(_COARSE_ORDERS)
    labels = Factor(2.0, "fakes carry the labels of the private batch: both gradients move, 2C")
    average = Factor(2.0, "the mean of a microbatch may swing from C to -C: 2C")
    unbounded = "the generator's step reads private labels without noise"
    thyroid = Stated(3_772, 32, 1.15, 5_894, "text section 3.2: 50 epochs of 3772/32 steps, rounded up")
    thyroid_code = Stated(
        3_772, 32, 1.15, 50 * 117, "code, Thyroid_Experiment.ipynb: the last batch is dropped"
    )
    return (
        Claimed("dp-cgan-tf2", "MNIST, m = B", 9.6, _CGAN, meter, Coded(_CGAN, (labels,), unbounded)),
        Claimed("dp-cgan-tf2", "MNIST, m = 1", 9.6, _CGAN, meter, Coded(_CGAN, (average,))),
        Claimed("dp-cgan-tf2", "thyroid", 3.7, thyroid, meter, Coded(thyroid_code, (labels,), unbounded)),
    )


# -------------------------------------------------------------------------------------------- dp-gan

DP_GAN_NOISE = gaussian_noise(4.0, 1e-4)
"""1.0859: the code derives σ from (4, 1e-4) as if there were one release; the text prints 1.086."""

DP_GAN_CRITIC_STEPS = 4
_DP_GAN_TOWERS = 4
_DP_GAN_TOWER_BATCH = 64


def _dp_gan(setting: str, groups: int, iterations: int) -> Claimed:
    run = Stated(
        rows=49_000,
        batch=_DP_GAN_TOWERS * _DP_GAN_TOWER_BATCH,
        noise_multiplier=DP_GAN_NOISE,
        steps=iterations * DP_GAN_CRITIC_STEPS,
        source=f"text table 7 ({iterations} iterations); code, locals/11.sh: 4 towers of 64, 98 % of 50,000 rows",
    )
    too_small = Factor(
        math.sqrt(_DP_GAN_TOWER_BATCH / _DP_GAN_TOWERS),
        "a stray 1/√B in the noise of each of 4 towers of 64 images: √(64/4)",
    )
    shared = Factor(math.sqrt(groups), f"{groups} groups clipped apart share one subsample: √{groups}")
    return Claimed(
        "dp-gan",
        setting,
        4.0,
        run,
        MomentsMeter(groups),
        Coded(run, (too_small, shared), "the public images are two per cent of the private ones by decree"),
    )


@dataclass(frozen=True)
class Grouping:
    """A row of the dp-gan paper's table 7: generator iterations before and after grouping.

    Args:
        dataset: which data, and whose settings.
        rows: N.
        batch: B.
        noise_multiplier: σ.
        epsilon: the budget's ε.
        groups_before: separately clipped tensors before grouping.
        groups_after: groups after it.
        printed_before: the paper's iterations before.
        printed_after: the paper's iterations after.
        source: where these are written.
        searched: whether the right number of iterations is searched for by PLD; with millions of steps that takes
            long, and a lower bound by RDP is given instead.
    """

    dataset: str
    rows: int
    batch: int
    noise_multiplier: float
    epsilon: float
    groups_before: int
    groups_after: int
    printed_before: int
    printed_after: int
    source: str
    searched: bool = True


_RATIO = "text tables 1 and 7 (m 64); the groups are read from the ratio of the two numbers"

GROUPINGS: tuple[Grouping, ...] = (
    Grouping("MNIST, as in the code", 49_000, 256, DP_GAN_NOISE, 4.0, 7, 5, 560, 780, "code, locals/11.sh"),
    Grouping(
        "MNIST, as in the text", 58_800, 64, DP_GAN_NOISE, 4.0, 7, 5, 560, 780, "text table 1, m 64, 98 %"
    ),
    Grouping("CelebA, as in the text", 200_000, 64, 0.543, 10.0, 7, 5, 2_910, 4_070, _RATIO),
    Grouping(
        "LSUN-L, as in the text", 2_450_000, 64, 0.434, 10.0, 9, 7, 15_010, 19_300, _RATIO, searched=False
    ),
    Grouping(
        "LSUN-U, as in the text", 2_450_000, 64, 0.434, 10.0, 9, 7, 24_630, 31_670, _RATIO, searched=False
    ),
)
"""Table 7, and what is known of the settings behind it."""


# --------------------------------------------------------------------------------------------- ppgan

_PPGAN_BATCH = 64


def ppgan_formula() -> ClosedFormula:
    """Equation 20 with n_d = 5, as the paper's text defines it."""
    return ClosedFormula(counted_steps=5)


def _ppgan(epsilon: float) -> Claimed:
    formula = ppgan_formula()
    stated = Stated(
        rows=60_000,
        batch=_PPGAN_BATCH,
        noise_multiplier=formula.noise(_PPGAN_BATCH / 60_000, epsilon, DELTA),
        steps=5 * 500_000,
        source="text section III-B (n_d 5, n_g 5e5) and equation 20; the batch is nowhere stated, 64 is assumed",
    )
    code = Stated(60_000, 128, 1e-4 / 5.0, 100 * 468, "code: noise 1e-4, clipnorm 5, 100 epochs of 468 steps")
    mean = Factor(2.0, "the mean of the whole batch is clipped, not each record: 2C")
    remark = "the published code is one run without an ε; the formula counts 5 of 2,500,000 steps"
    return Claimed("ppgan", f"MNIST, ε = {epsilon:g}", epsilon, stated, formula, Coded(code, (mean,), remark))


# -------------------------------------------------------------------------------------- small-images


def _small_images(sigma: float) -> Claimed:
    run = Stated(
        60_000, 128, sigma, 40 * 469, "text figures 1 to 3; code, experiments/*.sh: B 128, 40 epochs"
    )
    remark = "the code is sound; it shuffles where its accountant assumes Poisson sampling"
    return Claimed(
        "small-images",
        f"σ = {sigma:g}, 40 epochs",
        None,
        run,
        RenyiMeter(_COARSE_ORDERS),
        Coded(run, (), remark),
    )


def _small_images_at_ten() -> Claimed:
    meter = RenyiMeter(_COARSE_ORDERS)
    steps = meter.steps(SubsampledGaussian(128 / 60_000, 0.5, 1), 10.0, DELTA)
    run = Stated(60_000, 128, 0.5, steps, "text section 4 (ε ≤ 10); code, experiments/figure_1.sh")
    return Claimed(
        "small-images", "σ = 0.5, stopped at ε = 10", 10.0, run, meter, Coded(run, (), "the code is sound")
    )


def claimed() -> tuple[Claimed, ...]:
    """Every claim that is recomputed, paper by paper."""
    return (
        _cgan(),
        *_cgan_tf2(),
        _dp_gan("MNIST, basic", groups=7, iterations=560),
        _dp_gan("MNIST, advanced", groups=5, iterations=780),
        *(_ppgan(epsilon) for epsilon in (5.0, 10.0, 20.0)),
        _small_images_at_ten(),
        *(_small_images(sigma) for sigma in (0.5, 0.8, 0.9, 1.0)),
    )
