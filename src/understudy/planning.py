"""`plan`: everything that is decided before a private record is read.

A plan fixes the sampling rate, the noise, the number of steps and every other charge, and certifies what they cost
together. It is made from what a recipe says that it will ask; the door enforces it, and takes its numbers from nowhere
else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from understudy.calling import explained, number, whole
from understudy.discovery.asking import can_find, discovery_charges
from understudy.errors import BudgetError, PlanError
from understudy.notebook import html_table
from understudy.privacy.accounting import Spent, spent
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.calibration import noise_for, steps_for
from understudy.privacy.mechanisms import (
    Charge,
    GaussianRelease,
    GaussianThreshold,
    Selection,
    SubsampledGaussian,
)
from understudy.schema import Schema, schema_of, unit_words, with_stand_ins
from understudy.synthesizers.protocol import Fixed, Recipe, Share, Steps
from understudy.synthesizers.registry import default_recipe, find_recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from understudy.synthesizers.prospect import Prospect
    from understudy.synthesizers.protocol import Asked

__all__ = ["Plan", "plan"]


DEFAULT_SAMPLING_RATE = 0.01
"""The sampling rate when the number of rows is not public, so that it depends on nothing private."""

WEAK_EPSILON = 20.0
"""From here on a budget gets a remark: the promise allows odds of e^20, five hundred million to one."""

_BASELINE_EPOCHS = 20
"""Passes over the rows of a baseline whose recipe leaves its steps to the budget."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """A run, decided and certified before data is touched.

    Args:
        recipe: what will be made, with its steps and noise filled in.
        schema: the public description of the data, or None for a calculation without data.
        budget: what may be spent; None makes a baseline that is not private, and is marked so everywhere.
        rows: the public number of rows (of persons, where the schema names these), or None if it is private and will be
            estimated with noise.
        charges: every mechanism of the run, in the order in which they run.
        spent: what the accountants certify for all charges together; None without a budget.
    """

    recipe: Recipe
    schema: Schema | None
    budget: Budget | None
    rows: int | None
    charges: tuple[Charge, ...]
    spent: Spent | None

    @property
    def private(self) -> bool:
        """Whether the run has a privacy guarantee at all."""
        return self.budget is not None

    @property
    def steps(self) -> int:
        """How many steps the run takes, private or free."""
        assert self.recipe.steps is not None
        return self.recipe.steps

    @property
    def sampled(self) -> Charge | None:
        """The charge of the private steps, or None if every step is free."""
        found = (one for one in self.run_charges if isinstance(one.mechanism, SubsampledGaussian))
        return next(found, None)

    @property
    def training(self) -> SubsampledGaussian:
        """The mechanism of the private steps; PlanError for a recipe that takes none."""
        charge = self.sampled
        if charge is None:
            raise PlanError(
                f"recipe {self.recipe.name!r} takes no private training steps; "
                "its charges are " + ", ".join(charge.purpose for charge in self.run_charges) + "."
            )
        assert isinstance(charge.mechanism, SubsampledGaussian)
        return charge.mechanism

    @property
    def run_charges(self) -> tuple[Charge, ...]:
        """What this one run drew: the charges, with a choice among several runs opened to the chosen one."""
        opened: list[Charge] = []
        for charge in self.charges:
            mechanism = charge.mechanism
            opened += mechanism.charges if isinstance(mechanism, Selection) else [charge]
        return tuple(opened)

    def chosen_by(self, charge: Charge) -> Plan:
        """The plan of a run that was chosen as the best of several: its cost is that of the whole choice.

        Args:
            charge: made by `select_best`, with this plan's own charges as its first possibility.
        """
        if self.budget is None:
            raise PlanError("a baseline without privacy is chosen without a charge.")
        total = spent((charge,), self.budget.delta, self.budget.adjacency)
        return replace(
            self, budget=replace(self.budget, epsilon=total.epsilon), charges=(charge,), spent=total
        )

    def gaussian(self, purpose: str) -> GaussianRelease | None:
        """The Gaussian release for a purpose, or None if the plan has none."""
        found = (one.mechanism for one in self.run_charges if one.purpose == purpose)
        mechanism = next(found, None)
        return mechanism if isinstance(mechanism, GaussianRelease) else None

    @property
    def prospect(self) -> Prospect | None:
        """What the budget buys in the user's terms; None without a schema or a budget, or if it cannot be told."""
        if self.schema is None or self.budget is None:
            return None
        return self.recipe.prospect(with_stand_ins(self.schema), self.run_charges, self.rows)

    @property
    def remark(self) -> str | None:
        """What is to be said about a budget that hardly promises anything; None for usual ones."""
        if self.spent is None or self.spent.epsilon <= WEAK_EPSILON:
            return None
        return (
            f"ε = {self.spent.epsilon:.4g} promises next to nothing: whoever thought that somebody is as likely in the "
            f"data as not may become sure of it beyond all doubt. Usual budgets lie between 0.1 (strong) and 10 (weak)."
        )

    def __repr__(self) -> str:
        cost = (
            "NOT PRIVATE" if self.spent is None else f"ε = {self.spent.epsilon:.4g}, δ = {self.spent.delta:g}"
        )
        unit = unit_words(self.schema).many
        rows = f"{unit} private" if self.rows is None else f"{self.rows:,} {unit}"
        return f"<Plan {self.recipe.name}: {cost}, {rows}>"

    def _repr_html_(self) -> str:
        facts = [line.split("  ", 1) for line in str(self).splitlines() if "  " in line]
        notes = [] if self.prospect is None else str(self.prospect).splitlines()
        warning = "NOT PRIVATE: a baseline without noise" if self.spent is None else self.remark
        rows = [(name, value.strip()) for name, value in facts]
        return html_table(f"Plan of {self.recipe.name}", rows, warning=warning, notes=notes)

    def __str__(self) -> str:
        lines = [f"recipe            {self.recipe.name}", *self._unit_lines(), *self._mechanism_lines()]
        lines += self._schedule_lines()
        if self.spent is None:
            return "\n".join([*lines, "NOT PRIVATE: a baseline without noise"])
        one = unit_words(self.schema).one
        lines += [
            f"ε certified       {self.spent.epsilon:.4f}  (by {self.spent.certified_by.value})",
            f"ε by RDP          {_or_none(self.spent.epsilon_rdp)}",
            f"ε if replaced     {_or_none(self.spent.epsilon_replace_one)}  (one {one}'s content changes)",
            f"δ                 {self.spent.delta:g}",
            f"neighbours        {self.spent.adjacency.value}",
        ]
        return "\n".join(lines)

    def _unit_lines(self) -> list[str]:
        """What is protected, and what it costs that a person may have several records."""
        if self.schema is None:
            return []
        unit, most = unit_words(self.schema), self.schema.max_rows_per_person
        lines = [f"protected         one {unit.whole}"]
        if most is None:
            return lines
        counted = "counted with noise" if self.rows is None else f"{self.rows:,}"
        asked = self.recipe.releases(self.schema, self.rows)
        cost = "who share one vote: the noise does not grow with them; further ones are left out"
        handled = [f"; a step handles up to {most * one.batch:,}" for one in asked if isinstance(one, Steps)]
        return [
            *lines,
            f"{unit.many:<17} {counted}  (rates, δ and counts are of {unit.many}, not of {unit.rows})",
            f"{unit.rows:<17} up to {most} of a {unit.one}, {cost}{''.join(handled)}",
        ]

    def _schedule_lines(self) -> list[str]:
        """What the recipe's schedules do not cover."""
        return [
            f"note              the {what} falls until step {end:,} and rests for {self.steps - end:,} more steps"
            for what, end in self.recipe.schedules.items()
            if end < self.steps
        ]

    def _mechanism_lines(self) -> list[str]:
        lines = [] if self.sampled is not None else [f"generator steps   {self.steps:,}  (free)"]
        for charge in self.run_charges:
            match charge.mechanism:
                case SubsampledGaussian() as step:
                    lines += [
                        f"steps             {step.steps:,}",
                        f"sampling rate     {step.sampling_rate:.6g}",
                        f"noise multiplier  {step.noise_multiplier:.4f}",
                        *([] if step.batch_cap is None else [f"batch cap         {step.batch_cap:,}"]),
                    ]
                case GaussianRelease(noise_multiplier=sigma, count=count):
                    times = f", {count} times" if count > 1 else ""
                    lines.append(f"{charge.purpose:<17} σ = {sigma:g}{times}{self._finds(charge)}")
                case GaussianThreshold(noise_multiplier=sigma, delta=delta):
                    lines.append(f"{charge.purpose:<17} σ = {sigma:g}, δ = {delta:g}{self._finds(charge)}")
        return lines

    def _finds(self, charge: Charge) -> str:
        words = can_find(charge, self.schema)
        return "" if words is None else f": {words}"


def _or_none(epsilon: float | None) -> str:
    return "not defined" if epsilon is None else f"{epsilon:.4f}"


@explained("understudy.plan(schema, epsilon=1, rows=None)")
def plan(
    schema: Schema | str | Path | None = None,
    *,
    epsilon: float | None,
    delta: float = 1e-5,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    rows: int | None,
    recipe: Recipe | str | None = None,
    batch: int | None = None,
    batch_cap: int | None = None,
    noise_multiplier: float | None = None,
    steps: int | None = None,
    accept_large_delta: bool = False,
) -> Plan:
    """Decide a run and certify its cost, before any record is read.

    Given steps, or by the steps that a recipe was measured with, the plan finds the least noise; given σ, it takes as
    many private steps as the budget allows; given both, it refuses if they cost more than the budget.

    Args:
        schema: the public description of the data, or the path of its file; None for a calculation.
        epsilon: the budget's ε, or None for a baseline without privacy.
        delta: the budget's δ; must be below 1/rows.
        adjacency: which data sets are neighbours.
        rows: the public number of rows; of persons, not of their rows, where the schema names a person. Pass None if
            the number itself is private: a little budget is then spent on estimating it, and the sampling rate is a
            constant.
        recipe: a recipe or the name of one; None takes `default_recipe(schema)`, which is our own where it serves.
        batch: expected batch size, instead of the recipe's.
        batch_cap: the largest batch that is ever processed, so that memory has a bound; a larger draw is cut, and the
            event that is accounted knows it. At least four standard deviations above the batch.
        noise_multiplier: σ, instead of the recipe's.
        steps: how many steps, instead of the recipe's.
        accept_large_delta: allow δ ≥ 1/rows.

    Raises:
        CallError: an argument is missing or of the wrong kind.
        BudgetError: the budget is too small for the run, or δ is too large for the rows.
        PlanError: the settings contradict each other, or have no effect on this recipe.
    """
    schema = None if schema is None else schema_of(schema)
    epsilon = None if epsilon is None else number("epsilon", epsilon)
    delta, rows = number("delta", delta), None if rows is None else whole("rows", rows)
    batch = None if batch is None else whole("batch", batch)
    steps = None if steps is None else whole("steps", steps)
    found = default_recipe(schema).recipe if recipe is None else find_recipe(recipe, schema)
    chosen = _with_options(found, batch=batch, noise_multiplier=noise_multiplier, steps=steps)
    if schema is not None:
        with_stand_ins(schema)  # refuses a grid or a special value with which no bounds can be found
        schema = chosen.sees(schema)
        refusal = chosen.refuses(schema)
        if refusal is not None:
            raise PlanError(refusal)
    if rows is not None and rows < 1:
        raise PlanError(f"the number of rows must be at least 1, got {rows}.")
    asked = chosen.releases(schema, rows)
    _check_cap(chosen, asked, batch_cap, rows, private=epsilon is not None)
    if epsilon is None:
        return _baseline(chosen, schema, asked, rows)
    budget = Budget(epsilon, delta, adjacency)
    if rows is not None and not accept_large_delta:
        budget.refuse_large_delta(rows)
    return _calibrated(chosen, schema, rows, budget, batch_cap, discovery_charges(schema, budget))


def _with_options(recipe: Recipe, **options: float | None) -> Recipe:
    """The recipe with options in place of its own fields; refuses an option that has no effect on it."""
    given = {name: value for name, value in options.items() if value is not None}
    known = {field.name for field in fields(recipe)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise PlanError(
                f"recipe {recipe.name!r} has no {name.replace('_', ' ')}, so {_FLAGS[name]} would have no effect: "
                "leave it out, or name a recipe that has one, such as --recipe dp-cgan."
            )
    changes: dict[str, Any] = dict(given)
    if "noise_multiplier" in known and "noise_multiplier" in given and "steps" not in given:
        changes["steps"] = None
    elif "noise_multiplier" in known and "steps" in given and "noise_multiplier" not in given:
        changes["noise_multiplier"] = None
    changed: Recipe = replace(recipe, **changes)  # type: ignore[type-var]
    return changed


_FLAGS = {"batch": "--batch", "noise_multiplier": "--sigma", "steps": "--steps"}


def _calibrated(
    recipe: Recipe,
    schema: Schema | None,
    rows: int | None,
    budget: Budget,
    cap: int | None,
    first: tuple[Charge, ...],
) -> Plan:
    """Fill in whatever the recipe leaves to the budget, beside the first charges: noise of shares, σ or T of steps."""
    asked = recipe.releases(schema, rows)
    charges = _found(recipe, asked, rows, budget, cap, first)
    settled = recipe.settled(charges, rows)
    if settled != recipe:
        return _calibrated(settled, schema, rows, budget, cap, first)
    total = spent(charges, budget.delta, budget.adjacency)
    if total.epsilon > budget.epsilon:
        raise BudgetError(
            f"{_told(charges)} cost ε = {total.epsilon:.4f}, more than the budget of {budget.epsilon:g}. Give σ or "
            "the steps alone (--sigma or --steps) and the other will be computed, or raise ε."
        )
    filled = _filled(recipe, charges)
    return Plan(recipe=filled, schema=schema, budget=budget, rows=rows, charges=charges, spent=total)


def _found(
    recipe: Recipe,
    asked: Sequence[Asked],
    rows: int | None,
    budget: Budget,
    cap: int | None,
    first: tuple[Charge, ...],
) -> tuple[Charge, ...]:
    steps = next((one for one in asked if isinstance(one, Steps)), None)
    if any(isinstance(one, Share) for one in asked):
        if steps is not None and None in (steps.noise_multiplier, steps.steps):
            raise PlanError(
                f"recipe {recipe.name!r} shares a budget between releases and private steps: give σ and the steps."
            )
        shared = noise_for(lambda sigma: (*first, *_charges(asked, rows, cap, shared=sigma)), budget)
        return (*first, *_charges(asked, rows, cap, shared=shared))
    if steps is None:
        return (*first, *_charges(asked, rows, cap))
    sigma, count = steps.noise_multiplier, steps.steps
    if sigma is None and count is None:
        raise PlanError(
            f"recipe {recipe.name!r} leaves both the noise and the steps open: pass steps=… or noise_multiplier=…."
        )
    made: Callable[[float, int], tuple[Charge, ...]] = lambda noise, taken: (  # noqa: E731
        *first,
        *_charges(
            [replace(one, noise_multiplier=noise, steps=taken) if one is steps else one for one in asked],
            rows,
            cap,
        ),
    )
    if sigma is None:
        wanted = count or 0
        return made(noise_for(lambda value: made(value, wanted), budget), wanted)
    if count is None:
        known = sigma
        return made(known, steps_for(lambda value: made(known, value), budget))
    return made(sigma, count)


def _charges(
    asked: Sequence[Asked], rows: int | None, cap: int | None, *, shared: float = math.nan
) -> tuple[Charge, ...]:
    """The mechanisms of what is asked; shares together cost what one release with noise `shared` does."""
    whole = sum(one.share for one in asked if isinstance(one, Share))
    charges = []
    for one in asked:
        match one:
            case Fixed(purpose=purpose, noise_multiplier=sigma):
                charges.append(Charge(purpose, GaussianRelease(sigma)))
            case Share(purpose=purpose, share=share, count=count):
                sigma = shared * math.sqrt(count * whole / share)
                charges.append(Charge(purpose, GaussianRelease(sigma, count)))
            case Steps(purpose=purpose, batch=batch, noise_multiplier=noise, steps=steps):
                capped = None if cap is None else rows
                rate = _sampling_rate(batch, rows)
                step = SubsampledGaussian(rate, noise or 0.0, steps or 0, batch_cap=cap, rows=capped)
                charges.append(Charge(purpose, step))
    return tuple(charges)


def _sampling_rate(batch: int, rows: int | None) -> float:
    if rows is None:
        return DEFAULT_SAMPLING_RATE
    if batch > rows:
        raise PlanError(
            f"the expected batch of {batch} is larger than the data set of {rows} rows. "
            f"Choose --batch {max(1, rows // 20)} or less."
        )
    return batch / rows


def _told(charges: Sequence[Charge]) -> str:
    for charge in charges:
        if isinstance(charge.mechanism, SubsampledGaussian):
            step = charge.mechanism
            return f"σ = {step.noise_multiplier:g} for {step.steps:,} steps"
    return "the releases of this recipe"


def _filled(recipe: Recipe, charges: Sequence[Charge]) -> Recipe:
    """The recipe with the noise and the steps of the plan, where these are fields of it."""
    for charge in charges:
        if isinstance(charge.mechanism, SubsampledGaussian):
            step = charge.mechanism
            filled: Recipe = replace(  # type: ignore[type-var]
                recipe, noise_multiplier=step.noise_multiplier or None, steps=step.steps
            )
            return filled
    return recipe


def _check_cap(
    recipe: Recipe, asked: Sequence[Asked], cap: int | None, rows: int | None, *, private: bool
) -> None:
    """Refuse a cap that has no meaning, or that would cut batches often and so change what is learned."""
    if cap is None:
        return
    steps = next((one for one in asked if isinstance(one, Steps)), None)
    if not private or steps is None or rows is None:
        raise PlanError(
            f"a batch cap needs private steps, which recipe {recipe.name!r} may not have, and a public number of rows, "
            "on which its cost depends."
        )
    least = math.ceil(steps.batch + 4 * math.sqrt(steps.batch * max(0.0, 1 - steps.batch / rows)))
    if cap < least:
        raise PlanError(
            f"a batch cap of {cap} would cut batches of {steps.batch} too often; choose {least} or more, four "
            "standard deviations above. Ten deviations above cost nothing."
        )


def _baseline(recipe: Recipe, schema: Schema | None, asked: Sequence[Asked], rows: int | None) -> Plan:
    """The same run without noise: the charges say how batches are drawn, and cost nothing."""
    if rows is None:
        raise PlanError("a baseline without privacy needs the number of rows.")
    passes = [
        replace(one, noise_multiplier=None, steps=one.steps or math.ceil(_BASELINE_EPOCHS * rows / one.batch))
        for one in asked
        if isinstance(one, Steps)
    ]
    charges = _charges(passes, rows, None)
    filled = _filled(recipe.settled(charges, rows), charges)
    return Plan(recipe=filled, schema=schema, budget=None, rows=rows, charges=charges, spent=None)
