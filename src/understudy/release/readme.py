"""The README of a release: what a data-protection officer needs, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.escaping import for_markdown
from understudy.privacy.accounting import Accountant
from understudy.schema import open_columns, open_facts, unit_words

if TYPE_CHECKING:
    from understudy.release.release import Card

__all__ = ["describe_mechanism", "front_matter", "likelihood_factor", "model_card", "promise"]

_USAGE = """```console
$ pip install understudy
$ understudy inspect THIS_FOLDER
$ understudy sample THIS_FOLDER --rows 1000 --out synthetic.csv
```"""


def model_card(card: Card) -> str:
    """Markdown that says what was promised, what it cost and how to use the release."""
    sections = [
        "# A synthetic data generator",
        promise(card),
        "## What was spent",
        _charges(card),
        "## How it was made",
        _making(card),
        "## How to use it",
        _USAGE,
        "The folder holds weights and text only; loading it runs no code.",
    ]
    return "\n\n".join(sections) + "\n"


def front_matter(card: Card) -> str:
    """The first lines of the README, by which a hub of models knows what this is."""
    tags = ["synthetic-data", "differential-privacy"] if card.private else ["synthetic-data", "not-private"]
    return "---\nlibrary_name: understudy\ntags:\n" + "".join(f"- {tag}\n" for tag in tags) + "---\n\n"


def promise(card: Card) -> str:
    """What holds for one person in the data, in words; or why nothing does."""
    plan = card.plan
    if not card.private or plan.spent is None:
        reasons = list(card.warnings) or ["it was trained without noise"]
        bullets = "\n".join(f"- {for_markdown(reason)}" for reason in reasons)
        return f"> **NOT PRIVATE.** Do not publish this generator:\n\n{bullets}"
    factor, unit = likelihood_factor(plan.spent.epsilon), unit_words(plan.schema)
    return (
        f"Made under differential privacy with ε = {plan.spent.epsilon:.4f} and δ = {plan.spent.delta:g} "
        f"(neighbouring data sets: {plan.spent.adjacency.value}).\n\n"
        "In words: whatever anyone concludes from this generator or from any number of records drawn from it, they "
        f"would conclude almost as likely had any one {unit.one} not been in the data: no outcome becomes "
        f"more than {factor} times as likely, except with probability {plan.spent.delta:g}. This holds against "
        "any attacker, with any other knowledge, now and later. It does not hide what is true of the whole population. "
        + unit.caveat
        + "".join(f"\n\n> Note: {note}" for note in card.notes)
    )


def likelihood_factor(epsilon: float) -> str:
    """e^ε in the way people write numbers: 7.39, 2,970, or e^40 where the digits would say nothing."""
    if epsilon > math.log(1e7):
        return f"e^{epsilon:.3g}"
    factor = float(f"{math.exp(epsilon):.3g}")
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:g}"


def _charges(card: Card) -> str:
    plan = card.plan
    rows = ["| purpose | mechanism |", "|---|---|"]
    rows += [
        f"| {for_markdown(charge.purpose)} | {for_markdown(describe_mechanism(charge.mechanism))} |"
        for charge in plan.charges
    ]
    if plan.spent is None:
        return "\n".join(rows)
    replace_one = plan.spent.epsilon_replace_one
    totals = [
        "",
        f"All together: ε = {plan.spent.epsilon:.4f}, certified by {plan.spent.certified_by.value}.",
    ]
    if plan.spent.epsilon_rdp is not None and plan.spent.certified_by is not Accountant.RDP:
        totals.append(f"Second opinion, by Rényi divergences: ε = {plan.spent.epsilon_rdp:.4f}.")
    if replace_one is not None:
        one = unit_words(plan.schema).one
        totals.append(f"If neighbours differ by replacing one {one}: ε = {replace_one:.4f}.")
    return "\n".join(rows + totals)


def _making(card: Card) -> str:
    plan = card.plan
    declared = "no" if plan.rows is None else f"{plan.rows:,} (declared, not checked)"
    lines = [
        f"- recipe: {for_markdown(plan.recipe.name)} ({for_markdown(plan.recipe.source)})",
        f"- number of {unit_words(plan.schema).many} declared public: {declared}",
        f"- public data used: {for_markdown(card.public_source or 'none')}",
        *_discoveries(card),
        *_counts(card),
        "- versions: "
        + for_markdown(", ".join(f"{package.name} {package.version}" for package in card.packages)),
    ]
    return "\n".join(lines)


def _counts(card: Card) -> list[str]:
    """Whether the noisy counts are in the file, too."""
    if not (card.private and card.plan.recipe.keeps_counts):
        return []
    return [
        "- beside the generator: the noisy counts themselves (`understudy statistics THIS_FOLDER --counts`)"
    ]


def _discoveries(card: Card) -> list[str]:
    """One line for each column about which something was discovered."""
    found = {column.name: column for column in getattr(card.discovered, "columns", ())}
    lines = []
    for column in open_columns(card.plan.schema):
        facts = {fact: getattr(found[column.name], fact) for fact in open_facts(column)}
        told = ", ".join(
            f"{len(value)} categories" if isinstance(value, tuple) else f"{fact} {value}"
            for fact, value in facts.items()
        )
        lines.append(f"- discovered within the budget: {for_markdown(column.name)}: {told}")
    return lines


def describe_mechanism(mechanism: object) -> str:
    """One line about a mechanism, from its own fields."""
    from understudy.privacy.mechanisms import (
        GaussianRelease,
        GaussianThreshold,
        Selection,
        SubsampledGaussian,
    )

    match mechanism:
        case SubsampledGaussian(sampling_rate=rate, noise_multiplier=sigma, steps=steps):
            return (
                f"{steps:,} steps of Poisson sampling at rate {rate:.6g} with Gaussian noise, σ = {sigma:.4f}"
            )
        case GaussianRelease(noise_multiplier=sigma, count=count):
            return f"{count} Gaussian release{'s' if count > 1 else ''}, σ = {sigma:.4g}"
        case GaussianThreshold(noise_multiplier=sigma, delta=delta):
            return (
                f"Gaussian counts above a threshold, σ = {sigma:.4g}; what one person alone has passes it with "
                f"probability {delta:.3g} at most"
            )
        case Selection(charges=charges, mean_runs=mean, runs=runs, others=others):
            inner = "; ".join(f"{one.purpose}: {describe_mechanism(one.mechanism)}" for one in charges)
            drawn = f" (its setting drawn from {len(others) + 1} that cost differently)" if others else ""
            return (
                f"the best of a random number of runs ({runs.value}, mean {mean:g}); this run{drawn}: {inner}"
            )
        case _:
            return str(mechanism)
