"""`understudy reproduce claims`: what the papers claim, and what the accountant says, computed when asked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from understudy.papers.bookkeeping import MomentsMeter, largest_loss
from understudy.papers.facts import DELTA, DP_GAN_CRITIC_STEPS, GROUPINGS, Claimed, Grouping, claimed
from understudy.privacy.accounting import coarse_epsilon, rough_epsilon, spent
from understudy.privacy.budget import Budget
from understudy.privacy.calibration import steps_for
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Claim", "Iterations", "allowed_iterations", "claims"]

_LEAST_CERTIFIED_NOISE = 0.3
"""Runs with less noise than this are far outside of what the two accountants agree on."""


@dataclass(frozen=True)
class Claim:
    """One line of the table of claims; every ε but the first is computed.

    Args:
        paper: short name of the paper.
        setting: which run.
        claimed_epsilon: what the paper prints, None where it prints none.
        formula_epsilon: what the paper's own method of accounting gives for the run as stated.
        published_code_epsilon: what the published code costs as it stands (Poisson sampling assumed in its
            favour), None where there is no code.
        certified_epsilon: what our accountants certify for the stated run, done right.
        note: why the columns differ.
    """

    paper: str
    setting: str
    claimed_epsilon: float | None
    formula_epsilon: float
    published_code_epsilon: float | None
    certified_epsilon: float
    note: str

    def plain(self) -> dict[str, Any]:
        """The claim as a dictionary for JSON."""
        return asdict(self)


def claims(facts: Sequence[Claimed] | None = None) -> tuple[Claim, ...]:
    """Recompute the claims of all five papers (or of the given facts)."""
    return tuple(_recomputed(one) for one in (claimed() if facts is None else facts))


def _recomputed(fact: Claimed) -> Claim:
    stated = fact.stated.mechanism()
    return Claim(
        paper=fact.paper,
        setting=fact.setting,
        claimed_epsilon=fact.epsilon,
        formula_epsilon=fact.meter.epsilon(stated, DELTA),
        published_code_epsilon=None if fact.coded is None else largest_loss(fact.coded.mechanism(), DELTA),
        certified_epsilon=_certified(stated),
        note=_note(fact),
    )


def _certified(mechanism: SubsampledGaussian) -> float:
    """By PLD and RDP together; a bound by participations where the noise is too small for either."""
    if mechanism.noise_multiplier < _LEAST_CERTIFIED_NOISE:
        return largest_loss(mechanism, DELTA)
    return spent((Charge("training", mechanism),), DELTA).epsilon


def _note(fact: Claimed) -> str:
    if fact.coded is None:
        return ""
    reasons = [factor.why for factor in fact.coded.factors]
    return "; ".join((*reasons, fact.coded.remark) if fact.coded.remark else reasons)


# ------------------------------------------------------------------------------ table 7 of dp-gan


@dataclass(frozen=True)
class Iterations:
    """A row of the dp-gan paper's table 7, with its bookkeeping recomputed and done right.

    Args:
        dataset: which data, and whose settings.
        printed_before: the paper's iterations before grouping.
        printed_after: the paper's iterations after grouping.
        bookkeeping_before: what charging every group on its own allows before grouping.
        bookkeeping_after: the same after grouping.
        shared_before: what is right for noise σ·c_j in each group, which share one subsample.
        shared_after: the same after grouping.
        joint: what is right when the noise is σ times the joint sensitivity; grouping then changes nothing.
        joint_at_least: whether `joint` is a lower bound by RDP, because the search by PLD would take many minutes.
    """

    dataset: str
    printed_before: int
    printed_after: int
    bookkeeping_before: int
    bookkeeping_after: int
    shared_before: int
    shared_after: int
    joint: int
    joint_at_least: bool = False

    def plain(self) -> dict[str, Any]:
        """The row as a dictionary for JSON."""
        return asdict(self)


def allowed_iterations(facts: Sequence[Grouping] = GROUPINGS) -> tuple[Iterations, ...]:
    """Recompute table 7: how many generator iterations the budget allows before and after grouping."""
    return tuple(_iterations(one) for one in facts)


def _iterations(fact: Grouping) -> Iterations:
    return Iterations(
        dataset=fact.dataset,
        printed_before=fact.printed_before,
        printed_after=fact.printed_after,
        bookkeeping_before=_bookkept(fact, fact.groups_before),
        bookkeeping_after=_bookkept(fact, fact.groups_after),
        shared_before=_right(fact, fact.groups_before),
        shared_after=_right(fact, fact.groups_after),
        joint=_right(fact, 1),
        joint_at_least=not fact.searched,
    )


def _bookkept(fact: Grouping, groups: int) -> int:
    """The paper's count: k charges for each of 4 critic steps, looked at after every tenth iteration."""
    mechanism = SubsampledGaussian(fact.batch / fact.rows, fact.noise_multiplier, 1)
    charges = MomentsMeter(groups).charges(mechanism, fact.epsilon, DELTA)
    return 10 * math.ceil(charges / (DP_GAN_CRITIC_STEPS * groups) / 10)


def _right(fact: Grouping, groups: int) -> int:
    """The most iterations whose critic steps, with the multiplier σ/√k, fit the budget."""
    sigma, budget = fact.noise_multiplier / math.sqrt(groups), Budget(fact.epsilon, DELTA)

    def charges(steps: int) -> tuple[Charge, ...]:
        return (Charge("training", SubsampledGaussian(fact.batch / fact.rows, sigma, steps)),)

    if coarse_epsilon(charges(DP_GAN_CRITIC_STEPS), budget) > fact.epsilon:
        return 0
    if not fact.searched:
        return _at_least(charges, budget) // DP_GAN_CRITIC_STEPS
    return steps_for(charges, budget) // DP_GAN_CRITIC_STEPS


def _at_least(charges: Callable[[int], Sequence[Charge]], budget: Budget) -> int:
    """A number of steps that fits by RDP at whole orders, to one part in a thousand; quick, and never too large."""

    def fits(steps: int) -> bool:
        return rough_epsilon(charges(steps), budget.delta, budget.adjacency) <= budget.epsilon

    good, bad = 0, 1
    while fits(bad):
        good, bad = bad, 2 * bad
    while bad - good > max(1, good // 1000):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good
