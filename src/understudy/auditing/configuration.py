"""Audit of a plan: its own critic, loss, rule and noise in the production step, and everything that it publishes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.auditing.discovery import discovery_readings
from understudy.auditing.production import ProductionSubject, engine_claim, engine_sampler
from understudy.auditing.rehearsal import (
    observed_charges,
    readings_besides,
    rehearsal_readings,
    rehearse_with_canaries,
)
from understudy.auditing.step import Thoroughness, audit_step
from understudy.auditing.verdict import Audit, Outcome, Reading, judge
from understudy.auditing.wide import WideCritic
from understudy.calling import explained
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.dpsgd.clipping import MicrobatchClip
from understudy.errors import PlanError
from understudy.privacy.accounting import spent
from understudy.records.encode import encoded_shape
from understudy.release.release import Release
from understudy.schema import ImageSchema, open_columns, with_stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.auditing.rehearsal import Rehearsed
    from understudy.door.noise import Noise
    from understudy.dpsgd.step import CriticStep
    from understudy.planning import Plan
    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema

__all__ = ["audit", "effort_for", "effort_of"]

_STAND_IN = ImageSchema(28, 28, 1, classes=tuple("0123456789"))
"""What a record looks like in plans that were made without a schema."""

_LARGE = 512
"""Hidden units from which on a dense critic's own weights cost more than the places of canaries."""


@explained("understudy.audit(plan)")
def audit(
    subject: Plan | Release | str | Path,
    *,
    canaries: int | None = None,
    thoroughness: Thoroughness | None = None,
    seed: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Audit the private step of a plan, and what it publishes beside it, on stand-in records; no private one is read.

    The recipe's critic runs with its layers, labels, objective, clipping rule and σ in the engine's own step, and the
    start and two steps of the whole run are rehearsed. A recipe without a critic is rehearsed only. Of a run that was
    chosen among several, the run is audited against the ε of the choice, not the choice itself.

    Args:
        subject: what is to be trained, or a release (or its folder), whose plan is taken; it must be private.
        canaries: how many canaries are used; by default as many as suit the critic's size.
        thoroughness: how much is observed.
        seed: of noise and coins, for repeatable audits; None takes the noise that training takes.
        on_progress: called after each release of the step with how many were observed, of how many.

    Raises:
        PlanError: the plan is a baseline without privacy.
    """
    if isinstance(subject, str | Path):
        subject = Release.load(subject)
    plan = subject.card.plan if isinstance(subject, Release) else subject
    if plan.budget is None or plan.spent is None:
        raise PlanError(
            "a baseline without privacy claims nothing that could be audited: plan with an epsilon."
        )
    sources = _sources(seed)
    declared = plan.recipe.sees(plan.schema or _STAND_IN)
    schema = with_stand_ins(declared)
    step = _critic_step(plan, schema)
    if step is None and canaries is not None:
        raise PlanError(
            f"recipe {plan.recipe.name!r} has no critic, so --canaries would have no effect: it is audited by records "
            "with and without which the whole run is rehearsed. Leave --canaries out."
        )
    places, effort = (0, Thoroughness()) if step is None else effort_for(step)
    how = thoroughness or effort
    seen = rehearse_with_canaries(plan, schema, sources, seed=seed or 0)
    alpha = how.alpha / 2 if open_columns(declared) else how.alpha
    published = rehearsal_readings(seen, alpha)
    published += readings_besides(plan, schema, sources, seed=seed or 0)
    published += discovery_readings(plan, declared, sources, alpha, seed=seed or 0)
    if step is not None:
        critic = _subject(plan, step, schema, canaries or places, sources)
        claim = engine_claim(plan.training, step.clipping, plan.budget.delta)
        stepped = audit_step(critic, claim, how, seed=seed or 0, on_progress=on_progress)
        places, rounds, found = stepped.canaries, stepped.rounds, [*stepped.readings, *published]
    else:
        places, rounds, found = len(seen.draws) - 1, sum(map(len, seen.draws)), published
    if published[0].outcome is Outcome.PASS:
        found.append(_composition(plan, seen, found, how.alpha))
    return Audit(
        subject=plan.recipe.name,
        claimed_epsilon=plan.spent.epsilon,
        delta=plan.budget.delta,
        confidence=how.confidence,
        canaries=places,
        rounds=rounds,
        readings=tuple(found),
        verdict=judge(found),
    )


def _sources(seed: int | None) -> Callable[[], Noise]:
    """Makes sources of noise: secure ones, or seeded ones that all differ."""
    made = 0

    def make() -> Noise:
        nonlocal made
        made += 1
        return SecureNoise() if seed is None else SeededNoise(1000 * seed + made)

    return make


def _critic_step(plan: Plan, schema: Schema) -> CriticStep | None:
    """The critic of the recipe with fresh weights, always the same ones; None without private steps."""
    if plan.sampled is None:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return plan.recipe.critic_step(schema)


def effort_of(plan: Plan) -> Thoroughness:
    """How much is observed of a plan by default."""
    step = _critic_step(plan, with_stand_ins(plan.recipe.sees(plan.schema or _STAND_IN)))
    return Thoroughness() if step is None else effort_for(step)[1]


def effort_for(step: CriticStep) -> tuple[int, Thoroughness]:
    """Canaries and rounds that prove most for the time they take, by the kind of critic.

    Places for canaries and records are dear in a convolutional critic, so it gets few of both and many rounds. In
    microbatches canaries drown each other, and only rounds with a single one see it move the release.
    """
    if any(isinstance(layer, nn.Conv2d) for layer in step.critic.modules()):
        canaries = 48
        how = Thoroughness(rounds=400, opposed_rounds=200, training_rounds=60, shares=(0.125, 0.375))
    else:
        widths = [layer.out_features for layer in step.critic.modules() if isinstance(layer, nn.Linear)]
        canaries, large = 240, sum(widths[:-1]) > _LARGE
        how = Thoroughness(
            rounds=80 if large else 160,
            opposed_rounds=80 if large else 300,
            training_rounds=60 if large else 100,
        )
    if isinstance(step.clipping, MicrobatchClip):
        how = replace(how, opposed_rounds=600)
    return canaries, how


def _subject(
    plan: Plan, step: CriticStep, schema: Schema, canaries: int, sources: Callable[[], Noise]
) -> ProductionSubject:
    return ProductionSubject(
        plan.recipe.name,
        WideCritic(step.critic, encoded_shape(schema), canaries),
        plan.training,
        step.clipping,
        step.objective,
        sources(),
        divisor=float(step.batch),
        sampler=engine_sampler(plan.training, sources()),
    )


def _composition(plan: Plan, seen: Rehearsed, found: list[Reading], alpha: float) -> Reading:
    """The lower bound on ε of everything together, for the canary that shows most."""
    assert plan.budget is not None
    assert plan.spent is not None
    training = [
        replace(charge, mechanism=replace(plan.training, noise_multiplier=_observed_multiplier(found)))
        for charge in plan.run_charges
        if charge == plan.sampled
    ]
    bound = 0.0
    for charges in set(observed_charges(seen, alpha)):
        total: tuple[Charge, ...] = (*charges, *training)
        bound = max(bound, spent(total, plan.budget.delta, plan.budget.adjacency).epsilon)
    claimed = plan.spent.epsilon
    says = f"all charges together: ε ≥ {bound:.4g}, claimed {claimed:.4g}."
    outcome = Outcome.FAIL if bound > claimed * (1 + 1e-3) else Outcome.PASS
    return Reading("composition", outcome, bound, bound, claimed, claimed, says, bound)


def _observed_multiplier(found: list[Reading]) -> float:
    """The largest noise multiplier of a step that the readings allow."""
    by_name = {reading.name: reading for reading in found}
    if "multiplier" not in by_name:
        return 1e4
    opposed = by_name["opposed"]
    turned = by_name["multiplier"].claimed / max(opposed.low, 1e-4)
    return min(by_name["multiplier"].high, turned, 1e4)
