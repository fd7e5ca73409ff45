"""What a list of charges costs: ε by two accountants that must agree.

The privacy loss distribution (PLD) certifies: it is discretised pessimistically, so its ε is an upper
bound on any grid. Rényi differential privacy (RDP) is the second opinion, from different mathematics and
different code: its ε is a looser upper bound, so a PLD figure above it, or absurdly far below it, means that
one of the two is wrong, and the figure is refused. Where PLD is not defined (choosing the best of several
runs), RDP alone certifies, and the result says so.

There is no clipping bound here: noise is measured in multiples of the sensitivity, so ε cannot depend on it.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from understudy.errors import BudgetError
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import (
    Charge,
    GaussianRelease,
    Mechanism,
    RunCount,
    Selection,
    SubsampledGaussian,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import dp_accounting

__all__ = [
    "Accountant",
    "Spent",
    "coarse_epsilon",
    "epsilon_curve",
    "loss_profile",
    "rough_epsilon",
    "select_best",
    "spent",
]

CERTIFIED = 1e-4
"""How much, as a share of ε, the rounding of a certified figure may add."""

SEARCHING = 1e-3
"""The same while searching, and for the second (replace-one) figure; still an upper bound."""

_WHOLE_ORDERS = tuple(float(order) for order in (*range(2, 33), 48, 64, 128, 256))

_SLACK = 5e-3
"""By how much (absolute, in ε) the PLD may exceed the RDP before it is called a disagreement."""


class Accountant(enum.Enum):
    """Which accountant vouches for an ε."""

    PLD = "privacy loss distribution"
    RDP = "Rényi differential privacy"


@dataclass(frozen=True)
class Spent:
    """What was, or would be, spent; each ε is an upper bound at the same δ.

    Args:
        epsilon: the certified ε under `adjacency`.
        epsilon_rdp: the second opinion under the same adjacency, or None where there is none (batches
            that are cut so often that RDP does not describe them).
        epsilon_replace_one: the ε if one record's content changes, or None if it cannot be computed.
        delta: the δ at which all of these hold.
        adjacency: which data sets are neighbours.
        certified_by: the accountant that `epsilon` comes from.
    """

    epsilon: float
    epsilon_rdp: float | None
    epsilon_replace_one: float | None
    delta: float
    adjacency: Adjacency
    certified_by: Accountant = Accountant.PLD

    def fits(self, budget: Budget) -> bool:
        """Whether this stays within the budget, for the same δ and the same neighbours.

        Raises:
            BudgetError: if it was computed for another δ or other neighbours.
        """
        if (self.delta, self.adjacency) != (budget.delta, budget.adjacency):
            raise BudgetError(
                f"cannot compare what was spent at δ = {self.delta:g}, {self.adjacency.value}, "
                f"with a budget {budget}: account for it at the budget's own δ and adjacency."
            )
        return self.epsilon <= budget.epsilon

    def __str__(self) -> str:
        pair = f"(ε = {self.epsilon:.4g}, δ = {self.delta:g})"
        return f"{pair}, {self.adjacency.value}, by {self.certified_by.name}"


def spent(
    charges: Sequence[Charge], delta: float, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> Spent:
    """Compose the charges and certify their ε at δ.

    Raises:
        BudgetError: if the two accountants disagree, or δ is not a probability.
    """
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie strictly between 0 and 1, got {delta}.")
    return _spent(_drawn(charges), delta, adjacency)


@functools.lru_cache(maxsize=64)
def _spent(charges: tuple[Charge, ...], delta: float, adjacency: Adjacency) -> Spent:
    second = _epsilon_by_rdp(charges, delta, adjacency)
    if not _has_pld(charges):
        if second is None:
            raise BudgetError(
                "choosing the best of several runs cannot be accounted when batches are often cut to a cap: "
                "raise the batch cap until cutting is negligible, or remove it."
            )
        replaced = _epsilon_by_rdp(charges, delta, Adjacency.REPLACE_ONE)
        return Spent(second, second, replaced, delta, adjacency, Accountant.RDP)
    epsilon = _certified_epsilon(charges, delta, adjacency, second)
    replaced = epsilon
    if adjacency is not Adjacency.REPLACE_ONE:
        replaced = _epsilon_by_pld(charges, delta, Adjacency.REPLACE_ONE, SEARCHING * epsilon)
    return Spent(epsilon, second, replaced, delta, adjacency)


def _certified_epsilon(
    charges: tuple[Charge, ...], delta: float, adjacency: Adjacency, second: float | None
) -> float:
    """ε by PLD, on a grid refined until it is not worse than RDP; refused if the two contradict."""
    scale = rough_epsilon(charges, delta, adjacency) if second is None else second
    epsilon = math.inf
    for finer in (1, 10, 100):
        epsilon = _epsilon_by_pld(charges, delta, adjacency, CERTIFIED / finer * scale)
        if second is None or epsilon <= second:
            break
    if second is None:
        return epsilon
    if epsilon > second * 1.001 + _SLACK:
        raise BudgetError(
            f"the two accountants contradict each other: ε = {epsilon:.6g} by PLD exceeds ε = {second:.6g} "
            f"by RDP at δ = {delta:g}, although RDP is the looser bound. Nothing is certified; please "
            f"report these charges: {charges}."
        )
    far = adjacency is Adjacency.ADD_OR_REMOVE_ONE and second > 3 * epsilon + 10
    if far and math.isfinite(second):
        raise BudgetError(
            f"the two accountants are too far apart to be trusted: ε = {epsilon:.6g} by PLD, {second:.6g} by "
            f"RDP at δ = {delta:g}. Nothing is certified; use more noise, or report these charges: {charges}."
        )
    return epsilon


def coarse_epsilon(charges: Sequence[Charge], near: Budget) -> float:
    """An upper bound on ε from a coarse grid: faster and a little larger; for searching near a budget."""
    drawn = _drawn(charges)
    if not _has_pld(drawn):
        return spent(drawn, near.delta, near.adjacency).epsilon
    return _epsilon_by_pld(drawn, near.delta, near.adjacency, SEARCHING * near.epsilon)


def rough_epsilon(charges: Sequence[Charge], delta: float, adjacency: Adjacency) -> float:
    """A looser upper bound on ε, by RDP at whole orders only: faster still; for bracketing a search."""
    drawn = tuple(_untruncated(charge) for charge in _drawn(charges))
    return _rdp_epsilon(drawn, delta, adjacency, _WHOLE_ORDERS)


def epsilon_curve(
    charges: Sequence[Charge], deltas: Sequence[float], adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> tuple[Spent, ...]:
    """The same charges certified at several δ, since one (ε, δ) pair tells only part of the story."""
    return tuple(spent(charges, delta, adjacency) for delta in deltas)


def loss_profile(
    charges: Sequence[Charge], adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> tuple[tuple[float, float], ...]:
    """Pairs (ε, δ) that all hold for the charges at once, from ε = 0 up to where δ is below 1e-9."""
    drawn = _drawn(charges)
    if not drawn:
        return ((0.0, 0.0),)
    reach = rough_epsilon(drawn, 1e-9, adjacency)
    if not math.isfinite(reach):
        return ((0.0, 1.0),)
    grid = [reach * index / 400 for index in range(401)]
    if _has_pld(drawn):
        distribution = _composed(drawn, adjacency, SEARCHING * rough_epsilon(drawn, 1e-5, adjacency))
        deltas = distribution.get_delta_for_epsilon(grid)
    else:
        deltas = [_rdp_delta(drawn, epsilon, adjacency) for epsilon in grid]
    return tuple((epsilon, min(1.0, max(0.0, float(d)))) for epsilon, d in zip(grid, deltas, strict=True))


def select_best(
    charges: Sequence[Charge],
    mean_runs: float,
    runs: RunCount = RunCount.GEOMETRIC,
    others: Sequence[Sequence[Charge]] = (),
) -> tuple[Charge, ...]:
    """The charge for publishing the best of a random number of runs, each of which costs `charges`.

    Where each run draws its setting at random, `others` are the costs of the other settings. Account for the result
    with `spent`; RDP certifies it.
    """
    different = tuple(dict.fromkeys(tuple(one) for one in others if tuple(one) != tuple(charges)))
    selection = Selection(tuple(charges), mean_runs, runs, different)
    return (Charge(f"choose the best of {mean_runs:g} runs", selection),)


# ---------------------------------------------------------------- what the accountants are asked


def _drawn(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """The charges that draw anything at all, repetitions of one mechanism taken together.

    Composition knows no order, so this changes no figure; it makes an account of many equal runs as quick as one.
    """
    kept: list[Charge] = []
    for charge in charges:
        if _repetitions(charge) > 0:
            place = next((i for i, one in enumerate(kept) if _joined(one, charge)), None)
            if place is None:
                kept.append(charge)
            else:
                kept[place] = _joined(kept[place], charge) or charge
    return tuple(kept)


def _joined(first: Charge, second: Charge) -> Charge | None:
    """Both as one charge, or None if they are not the same mechanism."""
    match first.mechanism, second.mechanism:
        case SubsampledGaussian(steps=a) as one, SubsampledGaussian(steps=b) as other:
            if replace(one, steps=b) == other:
                return replace(first, mechanism=replace(one, steps=a + b))
        case GaussianRelease(count=a) as release, GaussianRelease(count=b) as again:
            if replace(release, count=b) == again:
                return replace(first, mechanism=replace(release, count=a + b))
    return None


def _repetitions(charge: Charge) -> int:
    match charge.mechanism:
        case SubsampledGaussian(steps=steps):
            return steps
        case GaussianRelease(count=count):
            return count
        case Selection() as selection:
            return max(sum(_repetitions(one) for one in inner) for inner in selection.possible)


def _is_noiseless(charge: Charge) -> bool:
    return isinstance(charge.mechanism, SubsampledGaussian) and charge.mechanism.noise_multiplier == 0


def _has_pld(charges: Sequence[Charge]) -> bool:
    return not any(isinstance(charge.mechanism, Selection) for charge in charges)


def _event(charges: Sequence[Charge]) -> dp_accounting.DpEvent:
    import dp_accounting

    return dp_accounting.ComposedDpEvent([charge.mechanism.event() for charge in charges])


def _epsilon_by_pld(charges: tuple[Charge, ...], delta: float, adjacency: Adjacency, error: float) -> float:
    if any(_is_noiseless(charge) for charge in charges):
        return math.inf
    if not charges:
        return 0.0
    return max(0.0, float(_composed(charges, adjacency, error).get_epsilon_for_delta(delta)))


def _composed(charges: tuple[Charge, ...], adjacency: Adjacency, error: float) -> Any:
    """The privacy loss distribution of all charges, its rounding adding about `error` to ε at most."""
    interval = _interval(charges, error)
    parts = [_distribution(charge.mechanism, adjacency, interval) for charge in charges]
    return functools.reduce(lambda total, part: total.compose(part), parts)


@functools.lru_cache(maxsize=32)
def _distribution(mechanism: Mechanism, adjacency: Adjacency, interval: float) -> Any:
    """The privacy loss distribution of one mechanism, kept for the next search step."""
    if isinstance(mechanism, SubsampledGaussian) and mechanism.steps > 1:
        return _distribution(replace(mechanism, steps=1), adjacency, interval).self_compose(mechanism.steps)
    from dp_accounting import NeighboringRelation, pld

    relation = {
        Adjacency.ADD_OR_REMOVE_ONE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Adjacency.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    accountant = pld.PLDAccountant(relation, value_discretization_interval=interval)
    return accountant.compose(mechanism.event())._pld


def _interval(charges: tuple[Charge, ...], error: float) -> float:
    """The width of the grid of privacy losses.

    The pessimistic rounding of T steps on a grid of width h adds up to about T·h²/2 (measured: 0.1 to 0.6
    times T·h²), so the grid shrinks as 1/√T. It also stays below the standard deviation s of one step's
    loss, unless that is so small that rounding it up to √(s·h) does not matter; and fine enough that many
    steps' losses span more than a thousand points each: below that, the library switches to a form whose
    cost explodes with T. Widths are powers of √2, for the cache.
    """
    total = sum(_repetitions(charge) for charge in charges)
    interval = min(1e-3, math.sqrt(2 * max(error, 1e-6) / max(total, 1)))
    for charge in charges:
        mechanism = charge.mechanism
        if isinstance(mechanism, SubsampledGaussian):
            interval = min(interval, _step_interval(mechanism, error))
    return max(2 ** (round(2 * math.log2(interval)) / 2), 1e-7)


def _step_interval(mechanism: SubsampledGaussian, error: float) -> float:
    q, sigma = mechanism.sampling_rate, max(mechanism.noise_multiplier, 0.1)
    deviation = q * math.sqrt(math.expm1(1 / sigma**2))
    negligible = error**2 / (16 * mechanism.steps * deviation)
    reach = math.log1p(q * math.expm1((0.5 + 9 * sigma) / sigma**2))
    if mechanism.steps > 20_000:
        return min(deviation, reach / 1200)
    return max(deviation, negligible)


# ---------------------------------------------------------------- the second opinion


def _epsilon_by_rdp(charges: tuple[Charge, ...], delta: float, adjacency: Adjacency) -> float | None:
    """ε by RDP, or None where cutting batches to their cap changes the mechanism noticeably.

    RDP is not defined for cut batches. Where the expected number of cuts is below δ/1000 the cut mechanism
    equals the uncut one except with that probability, and the uncut one is accounted.
    """
    if sum(_expected_truncations(charge) for charge in charges) > delta / 1000:
        return None
    from dp_accounting.rdp import rdp_privacy_accountant

    orders = tuple(float(order) for order in rdp_privacy_accountant.DEFAULT_RDP_ORDERS)
    return _rdp_epsilon(tuple(_untruncated(charge) for charge in charges), delta, adjacency, orders)


def _rdp_epsilon(
    charges: tuple[Charge, ...], delta: float, adjacency: Adjacency, orders: tuple[float, ...]
) -> float:
    if not charges:
        return 0.0
    from dp_accounting import rdp

    return max(0.0, float(rdp.compute_epsilon(orders, _bounds(charges, adjacency, orders), delta)[0]))


def _bounds(
    charges: tuple[Charge, ...], adjacency: Adjacency, orders: tuple[float, ...]
) -> tuple[float, ...]:
    """Upper bounds on the Rényi divergence between neighbours, per order.

    Replacing a record is a removal followed by an addition. The weak triangle inequality of Rényi divergence
    (Mironov, "Rényi Differential Privacy", 2017, proposition 11, with p = q = 2) bounds it by the
    add-or-remove divergences at orders 2α and 2α - 1.
    """
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return _renyi(charges, orders)
    far = _renyi(charges, tuple(2 * order for order in orders))
    near = _renyi(charges, tuple(2 * order - 1 for order in orders))
    return tuple((order - 0.5) / (order - 1) * a + b for order, a, b in zip(orders, far, near, strict=True))


def _rdp_delta(charges: tuple[Charge, ...], epsilon: float, adjacency: Adjacency) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant

    bounds = _bounds(charges, adjacency, _WHOLE_ORDERS)
    return float(rdp_privacy_accountant.compute_delta(_WHOLE_ORDERS, bounds, epsilon)[0])


@functools.lru_cache(maxsize=64)
def _renyi(charges: tuple[Charge, ...], orders: tuple[float, ...]) -> tuple[float, ...]:
    """Upper bounds on the Rényi divergence between neighbours (one record added or removed), per order."""
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(list(orders))
    with _quiet_absl():
        accountant.compose(_event([c for c in charges if not isinstance(c.mechanism, Selection)]))
    curve = [float(value) for value in accountant.rdp]
    for charge in charges:
        if isinstance(charge.mechanism, Selection):
            chosen = _selected(charge.mechanism, orders)
            curve = [a + b for a, b in zip(curve, chosen, strict=True)]
    return tuple(curve)


def _selected(selection: Selection, orders: tuple[float, ...]) -> tuple[float, ...]:
    """Rényi divergences of publishing the best of a random number of runs.

    A run whose setting is drawn at random and published with it is a mixture of the possible runs; its divergence is
    at most that of the worst of them, at each order. The theorem (arXiv 2110.03620, theorems 2 and 6) is then
    applied to this worst curve, by the library.
    """
    from dp_accounting.rdp import rdp_privacy_accountant

    curves = [_renyi(_drawn(run), orders) for run in selection.possible]
    worst = [max(at_order) for at_order in zip(*curves, strict=True)]
    bounds = rdp_privacy_accountant._compute_rdp_repeat_and_select(
        orders, worst, selection.mean_runs, selection.runs.shape
    )
    return tuple(float(bound) for bound in bounds)


@contextlib.contextmanager
def _quiet_absl() -> Iterator[None]:
    """Silence the library's remarks that a fractional order did not converge and was left out."""
    logger = logging.getLogger("absl")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _expected_truncations(charge: Charge) -> float:
    match charge.mechanism:
        case SubsampledGaussian() as mechanism:
            return mechanism.expected_truncations()
        case Selection(mean_runs=mean_runs) as selection:
            return mean_runs * max(
                sum(_expected_truncations(one) for one in inner) for inner in selection.possible
            )
        case _:
            return 0.0


def _untruncated(charge: Charge) -> Charge:
    match charge.mechanism:
        case SubsampledGaussian() as mechanism:
            return replace(charge, mechanism=mechanism.untruncated())
        case Selection() as selection:
            first, *others = (tuple(_untruncated(one) for one in inner) for inner in selection.possible)
            return replace(charge, mechanism=replace(selection, charges=first, others=tuple(others)))
        case _:
            return charge
