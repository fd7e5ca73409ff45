"""What a report says, before it is laid out: the same facts for HTML, Markdown and JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from understudy import codec
from understudy.privacy.attacks import AttackPoint, attack_curve, true_positive_rate
from understudy.privacy.mechanisms import SubsampledGaussian
from understudy.records.images import Images
from understudy.release.readme import describe_mechanism, likelihood_factor
from understudy.schema import (
    CodeSchema,
    Datetime,
    ImageSchema,
    Schema,
    TableSchema,
    TimeUnit,
    schema_to_toml,
    unit_words,
)

if TYPE_CHECKING:
    from understudy.auditing.verdict import Audit
    from understudy.evaluation.result import Evaluation
    from understudy.release.release import Card, Release

__all__ = ["Content", "Fact", "Line", "cell_text", "gather"]

_CURVE = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
_EXAMPLE_ROWS = 8
_SEED = 0
"""Of the records shown in the page; public, so that the page can be made again."""


@dataclass(frozen=True)
class Fact:
    """A key figure: what it is, what it is here, and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the statement of what was spent."""

    purpose: str
    mechanism: str


@dataclass(frozen=True, eq=False)
class Content:
    """Everything a report says.

    Args:
        title: of the page.
        kind: "images", "table" or "codes".
        public: whether the page holds only what may be published.
        private: whether the release has a guarantee at all.
        warnings: why it has none.
        facts: key figures at the top.
        promise: what is promised, in plain words, one paragraph each.
        attack: bounds on an attacker's power; empty without a guarantee.
        spending: every charge.
        totals: what the charges cost together.
        examples: synthetic records.
        schema: of the records.
        verdict: what the release is good enough for, in a sentence, or None without criteria.
        evaluation: the numbers that may be shown, or None.
        hidden: whether a public page leaves measures out; how many could tell something.
        audit: what the audit found, or None.
        making: how it was made.
        recipe: the recipe as TOML.
        schema_text: the schema as TOML.
        command: how to make it again.
    """

    title: str
    kind: str
    public: bool
    private: bool
    warnings: tuple[str, ...]
    facts: tuple[Fact, ...]
    promise: tuple[str, ...]
    attack: tuple[AttackPoint, ...]
    spending: tuple[Line, ...]
    totals: tuple[Fact, ...]
    examples: pd.DataFrame | Images
    schema: Schema
    verdict: str | None
    evaluation: Evaluation | None
    hidden: bool
    audit: Audit | None
    making: tuple[Fact, ...]
    recipe: str
    schema_text: str
    command: str


def gather(release: Release, evaluation: Evaluation | None, audit: Audit | None, *, public: bool) -> Content:
    """Collect the facts; on a public page, whatever reads private rows uncovered is left out here."""
    card = release.card
    shown = evaluation.public() if evaluation is not None and public else evaluation
    hidden = evaluation is not None and shown != evaluation
    power = _power(card)
    return Content(
        title=_title(release.schema),
        kind=release.schema.kind,
        public=public,
        private=card.private,
        warnings=card.warnings or (() if card.plan.private else ("it was trained without noise.",)),
        facts=_facts(card, power),
        promise=_promise(card, power),
        attack=_attack(card),
        spending=tuple(Line(c.purpose, describe_mechanism(c.mechanism)) for c in card.plan.charges),
        totals=_totals(card),
        examples=_examples(release),
        schema=release.schema,
        verdict=None if shown is None else shown.verdict,
        evaluation=shown,
        hidden=hidden,
        audit=audit,
        making=_making(card),
        recipe=codec.to_toml(card.plan.recipe, omit_defaults=True),
        schema_text=schema_to_toml(release.schema),
        command=_command(card),
    )


def _title(schema: Schema) -> str:
    match schema:
        case ImageSchema(height=height, width=width):
            return f"A generator of {height} × {width} images"
        case CodeSchema(codes=codes):
            return f"A generator of code vectors ({len(codes)} codes)"
        case TableSchema(columns=columns):
            return f"A generator of tables with {len(columns)} columns"


def _power(card: Card) -> float | None:
    if not card.private or card.plan.spent is None:
        return None
    return true_positive_rate(card.plan.charges, 0.01, card.plan.spent.adjacency)


def _attack(card: Card) -> tuple[AttackPoint, ...]:
    if not card.private or card.plan.spent is None:
        return ()
    return attack_curve(card.plan.charges, _CURVE, card.plan.spent.adjacency)


def _facts(card: Card, power: float | None) -> tuple[Fact, ...]:
    cost = card.plan.spent
    if cost is None or power is None:
        return (Fact("guarantee", "none", "this generator is not private"),)
    return (
        Fact("ε", f"{cost.epsilon:.4g}", f"certified by {cost.certified_by.value}"),
        Fact("δ", f"{cost.delta:g}", "chance that the bound fails"),
        Fact("an attacker recognises", f"≤ {power:.1%}", "of members, at 1 % false alarms (guessing: 1 %)"),
        Fact(
            "neighbours",
            cost.adjacency.value.replace("-", " "),
            f"{unit_words(card.plan.schema).whole}: what an attacker must not tell apart",
        ),
    )


def _promise(card: Card, power: float | None) -> tuple[str, ...]:
    cost = card.plan.spent
    if cost is None or power is None:
        return (
            (
                "This generator carries no privacy guarantee. It may have learned single records by heart; neither it "
                "nor records drawn from it may be published."
            ),
        )
    caught, unit = 100 * power, unit_words(card.plan.schema)
    return (
        (
            "The generator was trained under differential privacy. Whatever anyone concludes from it, or from any "
            f"number of records drawn from it, they would conclude almost as surely if any one {unit.one} had not been "
            f"in the data. {unit.caveat}"
        ),
        (
            f"In numbers: suppose an attacker wants to know whether a certain {unit.one} was in the data, knows all "
            f"others, and takes 1 in 100 {unit.many} that were not in it for one that was. Of the {unit.many} that "
            f"really were in the data they recognise at most {caught:.1f} in 100; blind guessing recognises 1 in 100."
        ),
        (
            f"No outcome becomes more than {likelihood_factor(cost.epsilon)} times as likely through the presence of "
            f"one {unit.one} (e^ε), except with probability δ = {cost.delta:g}. This holds for every attacker, now and "
            "later, and cannot be weakened by drawing more records. It does not hide what is true of the population "
            "as a whole."
        ),
        *card.notes,
    )


def _totals(card: Card) -> tuple[Fact, ...]:
    cost = card.plan.spent
    if cost is None:
        return ()
    facts = [Fact("ε, certified", f"{cost.epsilon:.4f}", f"by {cost.certified_by.value}")]
    if cost.epsilon_rdp is not None:
        facts.append(Fact("ε, second opinion", f"{cost.epsilon_rdp:.4f}", "by Rényi differential privacy"))
    if cost.epsilon_replace_one is not None:
        one = unit_words(card.plan.schema).one
        facts.append(
            Fact("ε, replace-one", f"{cost.epsilon_replace_one:.4f}", f"if one {one}'s content changes")
        )
    if card.plan.budget is not None:
        facts.append(
            Fact("budget", f"ε ≤ {card.plan.budget.epsilon:g}", f"at δ = {card.plan.budget.delta:g}")
        )
    return tuple(facts)


def _examples(release: Release) -> pd.DataFrame | Images:
    schema = release.schema
    if isinstance(schema, ImageSchema):
        if schema.classes is None:
            return release.sample(60, seed=_SEED)
        shown = schema.classes[:10]
        return release.sample(10 * len(shown), counts=dict.fromkeys(shown, 10), seed=_SEED)
    made = release.sample(_EXAMPLE_ROWS, seed=_SEED)
    assert not isinstance(made, Images)
    for column in schema.columns if isinstance(schema, TableSchema) else ():
        if isinstance(column, Datetime):
            made[column.name] = made[column.name].dt.strftime(_MOMENTS.get(column.unit, "%Y-%m-%d %H:%M:%S"))
    return made


_MOMENTS = {TimeUnit.DAY: "%Y-%m-%d", TimeUnit.HOUR: "%Y-%m-%d %H:%M", TimeUnit.MINUTE: "%Y-%m-%d %H:%M"}
"""How moments are shown, at their own resolution."""


def cell_text(value: object) -> str:
    """A value of an example record, as a page shows it."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _making(card: Card) -> tuple[Fact, ...]:
    plan = card.plan
    facts = [
        Fact("recipe", plan.recipe.name, plan.recipe.source),
        Fact(
            unit_words(plan.schema).many,
            "not public" if plan.rows is None else f"{plan.rows:,}",
            "declared public, not checked" if plan.rows else "",
        ),
        Fact("public data", card.public_source or "none", "used beside the private records"),
        Fact("ledger", card.ledger_head or "none", "head of the record of spending"),
        Fact("made with", ", ".join(f"{package.name} {package.version}" for package in card.packages)),
    ]
    facts += [Fact(file.name, f"{file.bytes:,} bytes", f"sha256 {file.sha256}") for file in card.files]
    return tuple(facts)


def _command(card: Card) -> str:
    plan = card.plan
    parts = ["understudy fit DATA --schema schema.toml", f"--recipe {plan.recipe.name}"]
    if plan.budget is None:
        parts.append("--no-privacy")
    else:
        parts += [f"--epsilon {plan.budget.epsilon:g}", f"--delta {plan.budget.delta:g}"]
    parts += [f"--rows {plan.rows}"] if plan.rows is not None else []
    step = next((c.mechanism for c in plan.run_charges if isinstance(c.mechanism, SubsampledGaussian)), None)
    parts += [f"--steps {step.steps}"] if step is not None else []
    return " ".join([*parts, "--out RELEASE"])
