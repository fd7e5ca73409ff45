"""ε by Rényi differential privacy: the second opinion, and the only one on choosing the best of several runs."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from typing import TYPE_CHECKING

import numpy as np

from understudy.privacy.budget import Adjacency
from understudy.privacy.composition import expected_truncations, merged, threshold_delta, untruncated
from understudy.privacy.mechanisms import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import dp_accounting

    from understudy.privacy.mechanisms import Charge

__all__ = ["WHOLE_ORDERS", "epsilon_by_rdp", "rdp_delta", "rdp_epsilon"]

WHOLE_ORDERS = tuple(float(order) for order in (*range(2, 33), 48, 64, 128, 256))


def epsilon_by_rdp(charges: tuple[Charge, ...], delta: float, adjacency: Adjacency) -> float | None:
    """ε by RDP, or None where cutting batches to their cap changes the mechanism noticeably.

    RDP is not defined for cut batches. The cut mechanism equals the uncut one except with a probability of at most the
    expected number of cuts, t. If the uncut one is (ε, δ')-private, the cut one is (ε, δ' + t·(1 + e^ε))-private:
    a thousandth of δ is kept for the second term, and where that is too little there is no figure.
    """
    cuts = sum(expected_truncations(charge) for charge in charges)
    kept = delta / 1000 if cuts else 0.0
    if cuts > kept:
        return None
    from dp_accounting.rdp import rdp_privacy_accountant

    orders = tuple(float(order) for order in rdp_privacy_accountant.DEFAULT_RDP_ORDERS)
    uncut = tuple(untruncated(charge) for charge in charges)
    epsilon = rdp_epsilon(uncut, delta - kept, adjacency, orders)
    return None if cuts and math.log(cuts) + float(np.logaddexp(0.0, epsilon)) > math.log(kept) else epsilon


def rdp_epsilon(
    charges: tuple[Charge, ...], delta: float, adjacency: Adjacency, orders: tuple[float, ...]
) -> float:
    """The ε of all charges at δ, by the best of these orders; what thresholds may publish is taken off δ."""
    left = delta - threshold_delta(charges)
    if not charges or left <= 0:
        return math.inf if charges else 0.0
    from dp_accounting import rdp

    return max(0.0, float(rdp.compute_epsilon(orders, _bounds(charges, adjacency, orders), left)[0]))


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


def rdp_delta(charges: tuple[Charge, ...], epsilon: float, adjacency: Adjacency) -> float:
    """The δ of all charges at ε."""
    from dp_accounting.rdp import rdp_privacy_accountant

    bounds = _bounds(charges, adjacency, WHOLE_ORDERS)
    spread = float(rdp_privacy_accountant.compute_delta(WHOLE_ORDERS, bounds, epsilon)[0])
    return spread + threshold_delta(charges)


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

    curves = [_renyi(merged(run), orders) for run in selection.possible]
    worst = [max(at_order) for at_order in zip(*curves, strict=True)]
    bounds = rdp_privacy_accountant._compute_rdp_repeat_and_select(
        orders, worst, selection.mean_runs, selection.runs.shape
    )
    return tuple(float(bound) for bound in bounds)


def _event(charges: Sequence[Charge]) -> dp_accounting.DpEvent:
    import dp_accounting

    return dp_accounting.ComposedDpEvent([charge.mechanism.event() for charge in charges])


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
