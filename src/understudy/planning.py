"""`plan`: everything that is decided before a private record is read.

A plan fixes the sampling rate, the noise, the number of steps and every other charge, and certifies what they
cost together. Training takes its numbers from the plan and from nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from understudy.charges import LABELS, ROWS, TEACHER, TRAINING, shared_charges, side_charges
from understudy.errors import BudgetError, PlanError, UnderstudyError
from understudy.privacy.accounting import Spent, rough_epsilon, spent
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.calibration import noise_for, steps_for
from understudy.privacy.composition import repetitions
from understudy.privacy.mechanisms import Charge, GaussianRelease, Mechanism, Selection, SubsampledGaussian
from understudy.recipes import Recipe, default_recipe, find_recipe
from understudy.recipes.serving import for_schema, refuse_unserved
from understudy.schema import CodeSchema, ImageSchema, Schema, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Plan", "checked_plan", "plan"]

_AGREEMENT = 1e-6
"""How much, as a share, a stated ε may lie below the computed one: rounding of another machine, nothing else."""

_MOST_DRAWS = 10_000_000
"""Draws of a plan from elsewhere that are accounted for: ten seconds' work, and more than anybody trains."""

DEFAULT_SAMPLING_RATE = 0.01
"""The sampling rate when the number of rows is not public, so that it depends on nothing private."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run, decided and certified before data is touched.

    Args:
        recipe: the system that will be trained.
        schema: the public description of the data, or None for a calculation without data.
        budget: what may be spent; None makes a baseline that is not private, and is marked so everywhere.
        rows: the public number of rows, or None if it is private and will be estimated with noise.
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
        """How many training steps the run takes: private ones of the critic, or free ones of the generator."""
        assert self.recipe.steps is not None
        return self.recipe.steps

    @property
    def training(self) -> SubsampledGaussian:
        """The mechanism of the private steps; PlanError for a recipe without a critic, which takes none."""
        mechanism = self._mechanism(TRAINING)
        if mechanism is None:
            raise PlanError(
                f"recipe {self.recipe.name!r} has no critic and takes no private training steps; "
                "its charges are " + ", ".join(charge.purpose for charge in self.run_charges) + "."
            )
        assert isinstance(mechanism, SubsampledGaussian)
        return mechanism

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

    @property
    def label_release(self) -> GaussianRelease | None:
        """The mechanism that publishes class counts, if the run needs one."""
        return self.gaussian(LABELS)

    @property
    def row_release(self) -> GaussianRelease | None:
        """The mechanism that publishes the number of rows, if it was not declared."""
        return self.gaussian(ROWS)

    def gaussian(self, purpose: str) -> GaussianRelease | None:
        """The Gaussian release for a purpose, or None if the plan has none."""
        mechanism = self._mechanism(purpose)
        assert mechanism is None or isinstance(mechanism, GaussianRelease)
        return mechanism

    def noise_of(self, purpose: str) -> float:
        """The σ that was charged for a purpose; zero in a baseline, which has no budget.

        Raises:
            PlanError: the plan does not charge it, so it must not be drawn.
        """
        if not self.private:
            return 0.0
        release = self.gaussian(purpose)
        if release is None:
            raise PlanError(
                f"the plan does not charge the {purpose}, so it must not be drawn. Make a new plan."
            )
        return release.noise_multiplier

    def _mechanism(self, purpose: str) -> Mechanism | None:
        return next((charge.mechanism for charge in self.run_charges if charge.purpose == purpose), None)

    def __str__(self) -> str:
        lines = [f"recipe            {self.recipe.name}", *self._mechanism_lines()]
        if self.spent is None:
            return "\n".join([*lines, "NOT PRIVATE: a baseline without noise"])
        lines += [
            f"ε certified       {self.spent.epsilon:.4f}  (by {self.spent.certified_by.value})",
            f"ε by RDP          {_or_none(self.spent.epsilon_rdp)}",
            f"ε if replaced     {_or_none(self.spent.epsilon_replace_one)}  (one record's content changes)",
            f"δ                 {self.spent.delta:g}",
            f"neighbours        {self.spent.adjacency.value}",
        ]
        return "\n".join(lines)

    def _mechanism_lines(self) -> list[str]:
        if self.recipe.has_critic:
            step = self.training
            return [
                f"steps             {step.steps:,}",
                f"sampling rate     {step.sampling_rate:.6g}",
                f"noise multiplier  {step.noise_multiplier:.4f}",
                *([] if step.batch_cap is None else [f"batch cap         {step.batch_cap:,}"]),
            ]
        releases = [(charge.purpose, self.gaussian(charge.purpose)) for charge in self.run_charges]
        return [f"generator steps   {self.steps:,}  (free)"] + [
            f"{purpose:<17} σ = {one.noise_multiplier:g}" + (f", {one.count} times" if one.count > 1 else "")
            for purpose, one in releases
            if one is not None
        ]


def _or_none(epsilon: float | None) -> str:
    return "not defined" if epsilon is None else f"{epsilon:.4f}"


def plan(
    schema: Schema | None = None,
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

    Given σ, the plan takes as many steps as the budget allows; given steps, it finds the least noise; given both, it
    refuses if they cost more than the budget.

    Args:
        schema: the public description of the data; None for a calculation.
        epsilon: the budget's ε, or None for a baseline without privacy.
        delta: the budget's δ; must be below 1/rows.
        adjacency: which data sets are neighbours.
        rows: the public number of rows. Pass None if the number itself is private: a little budget is then spent
            on estimating it, and the sampling rate is a constant.
        recipe: a recipe or the name of one; None takes `default_recipe(schema)`, which is our own where it serves.
        batch: expected batch size, instead of the recipe's.
        batch_cap: the largest batch that is ever processed, so that memory has a bound; a larger draw is cut, and the
            event that is accounted knows it. At least four standard deviations above the batch.
        noise_multiplier: σ, instead of the recipe's.
        steps: critic steps (generator steps for a recipe without a critic), instead of the recipe's.
        accept_large_delta: allow δ ≥ 1/rows.

    Raises:
        BudgetError: the budget is too small for the run, or δ is too large for the rows.
        PlanError: the settings contradict each other.
    """
    found = default_recipe(schema).recipe if recipe is None else find_recipe(recipe)
    chosen = _with_overrides(for_schema(found, schema), batch, noise_multiplier, steps)
    if schema is not None and not chosen.conditional:
        schema = without_label(schema)
    refuse_unserved(chosen, schema)
    if rows is not None and rows < 1:
        raise PlanError(f"the number of rows must be at least 1, got {rows}.")
    _check_cap(chosen, batch_cap, rows, private=epsilon is not None)
    if epsilon is None:
        return _baseline(chosen, schema, rows)
    budget = Budget(epsilon, delta, adjacency)
    if rows is not None and rows > 0 and not accept_large_delta:
        budget.refuse_large_delta(rows)
    if not chosen.has_critic:
        return _statistic_plan(chosen, schema, rows, budget)
    rate = _sampling_rate(chosen.batch, rows)
    fixed = side_charges(chosen, schema, rows)
    training = _training(chosen, rate, fixed, budget, batch_cap, rows)
    charges = (*fixed, Charge(TRAINING, training))
    total = spent(charges, delta, adjacency)
    if total.epsilon > epsilon:
        raise BudgetError(
            f"σ = {training.noise_multiplier:g} for {training.steps:,} steps costs ε = {total.epsilon:.4f}, "
            f"more than the budget of {epsilon:g}. Leave one of the two out and it will be computed."
        )
    return Plan(
        recipe=replace(chosen, noise_multiplier=training.noise_multiplier, steps=training.steps),
        schema=schema,
        budget=budget,
        rows=rows,
        charges=charges,
        spent=total,
    )


def checked_plan(found: Plan, *, error: type[UnderstudyError] = PlanError) -> Plan:
    """The same plan, once it is sure that its charges cover what its recipe draws and cost what it states.

    For every plan that enters, from a file, a card or a caller: whatever such a plan says of its own cost is computed
    anew from its charges. It may state more than that (an earlier accountant was less sharp), never less.

    Args:
        found: the plan.
        error: what is raised.

    Raises:
        error: something that is drawn is not charged, or the stated cost is less than that of the charges.
    """
    if found.budget is None:
        if found.spent is not None:
            raise error("a baseline without privacy has no ε, and this one states one. Make it anew.")
        return found
    stated, budget = found.spent, found.budget
    if (
        stated is None
        or not math.isfinite(stated.epsilon)
        or (stated.delta, stated.adjacency) != (budget.delta, budget.adjacency)
    ):
        raise error(
            f"the budget is {budget}, and no ε is stated for this δ and these neighbours. Make it anew."
        )
    _refuse_uncharged(found, error)
    try:
        cost = _cost_near(found.charges, stated)
    except (ArithmeticError, ValueError, MemoryError, BudgetError) as problem:
        raise error(
            f"{stated} is stated, and the charges do not bear it out: {problem} Make it anew."
        ) from problem
    pairs = [
        (stated.epsilon, cost.epsilon),
        (stated.epsilon_rdp, cost.epsilon_rdp),
        (stated.epsilon_replace_one, cost.epsilon_replace_one),
        (budget.epsilon, cost.epsilon),
    ]
    if stated.certified_by is not cost.certified_by or any(_understated(*pair) for pair in pairs):
        raise error(
            f"{stated} is stated, of a budget of ε = {budget.epsilon:g}, and the charges cost {cost}: one of them was "
            "changed after it was computed. Make it anew, and do not rely on this one."
        )
    return found


def _cost_near(charges: Sequence[Charge], stated: Spent) -> Spent:
    """What the charges cost; refused quickly where that is far from what is stated, as a forged file may make it."""
    draws = sum(repetitions(charge) for charge in charges)
    if draws > _MOST_DRAWS:
        raise BudgetError(f"{draws:,} draws are more than the {_MOST_DRAWS:,} that are accounted for.")
    rough = rough_epsilon(charges, stated.delta, stated.adjacency)
    if not rough <= 10 * stated.epsilon + 100:
        raise BudgetError(f"they cost up to about ε = {rough:.4g}.")
    return spent(charges, stated.delta, stated.adjacency)


def _understated(stated: float | None, cost: float | None) -> bool:
    if stated is None or stated == cost:
        return False
    return cost is None or not (math.isfinite(stated) and stated >= cost * (1 - _AGREEMENT))


def _refuse_uncharged(found: Plan, error: type[UnderstudyError]) -> None:
    """Refuse a plan that does not charge everything that its recipe draws, as often as it draws it."""
    recipe = found.recipe
    drawn = {c.purpose: repetitions(c) for c in side_charges(recipe, found.schema, found.rows)}
    if recipe.has_critic:
        drawn[TRAINING] = found.steps
    else:
        drawn |= {c.purpose: repetitions(c) for c in shared_charges(recipe, found.schema, 1.0)}
    charged = {charge.purpose: repetitions(charge) for charge in found.run_charges}
    for purpose, times in drawn.items():
        if charged.get(purpose, 0) < times:
            raise error(
                f"recipe {recipe.name!r} draws the {purpose} {times:,} times, and the plan charges it "
                f"{charged.get(purpose, 0):,} times. Make a new plan."
            )


def without_label(schema: Schema) -> Schema:
    """The same records for a recipe that knows no labels: a table keeps its label as an ordinary column."""
    match schema:
        case TableSchema():
            return replace(schema, label=None, label_weights=None)
        case ImageSchema():
            return replace(schema, classes=None, label_weights=None)
        case CodeSchema():
            return replace(schema, label=None, label_weights=None)


def _with_overrides(recipe: Recipe, batch: int | None, sigma: float | None, steps: int | None) -> Recipe:
    if sigma is not None and not recipe.has_critic:
        raise PlanError(
            f"recipe {recipe.name!r} takes its noise from the budget: leave --sigma out, or name a recipe with a "
            "critic, such as --recipe dp-cgan."
        )
    if sigma is not None and steps is None:
        recipe = replace(recipe, noise_multiplier=sigma, steps=None)
    elif steps is not None and sigma is None:
        recipe = replace(recipe, noise_multiplier=None, steps=steps)
    elif steps is not None and sigma is not None:
        recipe = replace(recipe, noise_multiplier=sigma, steps=steps)
    return recipe if batch is None else replace(recipe, batch=batch)


def _sampling_rate(batch: int, rows: int | None) -> float:
    if rows is None:
        return DEFAULT_SAMPLING_RATE
    if batch > rows:
        raise PlanError(
            f"the expected batch of {batch} is larger than the data set of {rows} rows. "
            f"Choose --batch {max(1, rows // 20)} or less."
        )
    return batch / rows


def _check_cap(recipe: Recipe, cap: int | None, rows: int | None, *, private: bool) -> None:
    """Refuse a cap that has no meaning, or that would cut batches often and so change what is learned."""
    if cap is None:
        return
    if not private or not recipe.has_critic or rows is None:
        raise PlanError(
            "a batch cap needs a private recipe with a critic and a public number of rows, on which its cost depends."
        )
    least = math.ceil(recipe.batch + 4 * math.sqrt(recipe.batch * max(0.0, 1 - recipe.batch / rows)))
    if cap < least:
        raise PlanError(
            f"a batch cap of {cap} would cut batches of {recipe.batch} too often; choose {least} or more, four "
            "standard deviations above. Ten deviations above cost nothing."
        )


def _training(
    recipe: Recipe,
    rate: float,
    fixed: Sequence[Charge],
    budget: Budget,
    cap: int | None,
    rows: int | None,
) -> SubsampledGaussian:
    """Fill in whichever of σ and T the recipe leaves open."""
    sampled = partial(SubsampledGaussian, rate, batch_cap=cap, rows=None if cap is None else rows)

    def charges(sigma: float, steps: int) -> Sequence[Charge]:
        return (*fixed, Charge(TRAINING, sampled(sigma, steps)))

    sigma, steps = recipe.noise_multiplier, recipe.steps
    if sigma is None and steps is None:
        raise PlanError(
            f"recipe {recipe.name!r} leaves both the noise and the steps open: pass steps=… or noise_multiplier=…."
        )
    if sigma is None:
        wanted = steps or 0
        sigma, steps = noise_for(lambda value: charges(value, wanted), budget), wanted
    elif steps is None:
        known = sigma
        steps = steps_for(lambda value: charges(known, value), budget)
    return sampled(sigma, steps)


def _statistic_plan(recipe: Recipe, schema: Schema | None, rows: int | None, budget: Budget) -> Plan:
    """A run without a critic: every charge is a Gaussian release, and shares of 1/σ² decide between them."""
    fixed = side_charges(recipe, schema, rows)

    def charges(sigma: float) -> tuple[Charge, ...]:
        return (*fixed, *shared_charges(recipe, schema, sigma))

    sigma = noise_for(charges, budget)
    taught = _with_lessons(recipe, charges(sigma), rows)
    if taught != recipe:
        return _statistic_plan(taught, schema, rows, budget)
    return Plan(
        recipe=replace(recipe, noise_multiplier=sigma),
        schema=schema,
        budget=budget,
        rows=rows,
        charges=charges(sigma),
        spent=spent(charges(sigma), budget.delta, budget.adjacency),
    )


def _with_lessons(recipe: Recipe, charges: Sequence[Charge], rows: int | None) -> Recipe:
    """The recipe with the one kind of lessons that suits its teacher's noise per row."""
    if recipe.teacher is None:
        return recipe
    (release,) = (charge.mechanism for charge in charges if charge.purpose == TEACHER)
    assert isinstance(release, GaussianRelease)
    whole = release.noise_multiplier / math.sqrt(release.count)
    return replace(recipe, teacher=recipe.teacher.at_noise(None if rows is None else whole / rows))


def _baseline(recipe: Recipe, schema: Schema | None, rows: int | None) -> Plan:
    if rows is None:
        raise PlanError("a baseline without privacy needs the number of rows.")
    if not recipe.has_critic:
        teacher = None if recipe.teacher is None else recipe.teacher.at_noise(0.0)
        recipe = replace(recipe, teacher=teacher)
        return Plan(recipe=recipe, schema=schema, budget=None, rows=rows, charges=(), spent=None)
    rate = _sampling_rate(recipe.batch, rows)
    steps = recipe.steps or math.ceil(20 * rows / recipe.batch)
    return Plan(
        recipe=replace(recipe, steps=steps, noise_multiplier=None),
        schema=schema,
        budget=None,
        rows=rows,
        charges=(Charge(TRAINING, SubsampledGaussian(rate, 0.0, steps)),),
        spent=None,
    )
