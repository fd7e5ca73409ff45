"""Audit of a configuration: the recipe's loss and clipping rule, and the plan's mechanism, in the production step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.audit.canaries import CriticSubject, widen
from understudy.audit.production import engine_claim, engine_sampler, engine_step
from understudy.audit.step import Thoroughness, audit
from understudy.engine import SecureNoise, SeededNoise
from understudy.errors import PlanError
from understudy.gan.generators import activation_module
from understudy.recipes.parts import DenseCritic

if TYPE_CHECKING:
    from understudy.audit.verdict import Audit
    from understudy.engine import Noise
    from understudy.planning import Plan
    from understudy.recipes import Recipe

__all__ = ["audit_plan"]

_FEATURES = 32


def audit_plan(
    plan: Plan,
    *,
    canaries: int = 400,
    features: int = _FEATURES,
    thoroughness: Thoroughness | None = None,
    seed: int | None = None,
) -> Audit:
    """Audit the private step of a plan on stand-in records; no private record is read.

    The recipe's objective, clipping rule and σ run in the engine's own step. A dense critic has the recipe's layers;
    a convolutional one is replaced by a dense stand-in, and the result's name says so.

    Args:
        plan: what is to be trained; it must be private.
        canaries: how many canaries are used.
        features: how many ordinary inputs a stand-in record has.
        thoroughness: how much is observed.
        seed: of noise and coins, for repeatable audits; None takes the noise that training takes.

    Raises:
        PlanError: the plan is a baseline without privacy.
    """
    if plan.budget is None:
        raise PlanError(
            "a baseline without privacy claims nothing that could be audited: plan with an epsilon."
        )
    recipe, mechanism = plan.recipe, plan.training
    one: Noise = SecureNoise() if seed is None else SeededNoise(seed)
    other: Noise = SecureNoise() if seed is None else SeededNoise(seed + 1)
    subject = CriticSubject(
        _name(recipe),
        engine_step(mechanism, recipe.clipping, recipe.objective, one, divisor=float(recipe.batch)),
        widen(_critic(recipe, features), canaries),
        canaries,
        sensitivity=1.0,
        sampler=engine_sampler(mechanism, other),
    )
    claim = engine_claim(mechanism, recipe.clipping, plan.budget.delta)
    return audit(subject, claim, thoroughness, seed=seed or 0)


def _name(recipe: Recipe) -> str:
    stand_in = (
        "" if isinstance(recipe.critic, DenseCritic) else " (dense stand-in for its convolutional critic)"
    )
    return recipe.name + stand_in


def _critic(recipe: Recipe, features: int) -> torch.nn.Sequential:
    hidden = recipe.critic.hidden if isinstance(recipe.critic, DenseCritic) else (32, 32)
    layers: list[torch.nn.Module] = []
    width = features
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for units in hidden:
            layers += [torch.nn.Linear(width, units), activation_module(recipe.critic.activation)]
            width = units
        layers.append(torch.nn.Linear(width, 1))
    return torch.nn.Sequential(*layers)
