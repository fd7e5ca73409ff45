"""What pages show of plans, releases and the ledger, gathered from the library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from understudy import files
from understudy.errors import BudgetError, EvaluationError, StudioError, UnderstudyError
from understudy.studio.work import plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from markupsafe import Markup

    from understudy.evaluation.result import Evaluation
    from understudy.ledger.ledger import Ledger
    from understudy.planning import Plan
    from understudy.privacy.accounting import Spent
    from understudy.privacy.budget import Budget
    from understudy.privacy.mechanisms import Charge
    from understudy.release.release import Release
    from understudy.reporting.charts import Figure
    from understudy.reporting.content import Content
    from understudy.studio.workspace import Journey, Workspace
    from understudy.synthesizers.prospect import Prospect

__all__ = [
    "Account",
    "Measured",
    "Offer",
    "PlanView",
    "accounts",
    "measured_view",
    "offer_of",
    "plan_view",
    "report_page",
    "time_view",
]


@dataclass(frozen=True)
class Asked:
    """One thing that the records will be asked.

    Args:
        purpose: what.
        mechanism: with which noise.
        heard: how well the answer will be heard, in the user's terms; empty if that cannot be told before.
    """

    purpose: str
    mechanism: str
    heard: str


@dataclass(frozen=True)
class PlanView:
    """A plan in words and as a picture; or why there is none.

    Args:
        plan: the plan, or None.
        problem: why there is none, or None.
        attack: the attacker's power as a chart.
        unit: whose data the promise is about.
        left: what the data set has spent after this run, in words.
        asked: everything that the records are asked.
        prospect: what the budget buys in the user's terms, or None.
    """

    plan: Plan | None
    problem: str | None
    attack: Markup | None = None
    unit: str = ""
    left: str = ""
    asked: tuple[Asked, ...] = ()
    prospect: Prospect | None = None


def plan_view(workspace: Workspace, journey: Journey, numbers: dict[str, Any]) -> PlanView:
    """What the numbers give, or what a release was made by; nothing touches data, and nothing is written."""
    from understudy.privacy.attacks import attack_curve
    from understudy.release.release import Release
    from understudy.reporting.charts import attack_chart
    from understudy.schema import unit_words

    released = workspace.release(journey.name)
    try:
        known = Release.load(released).card.plan if released.exists() else None
        made = known or plan_of(workspace, journey, **numbers)
        left = _left_after(workspace, replace(journey, **numbers), made)
    except UnderstudyError as problem:
        return PlanView(None, str(problem))
    if made.spent is None:
        return PlanView(None, "NOT PRIVATE: this was made without noise.")
    curve = attack_curve(made.charges, adjacency=made.spent.adjacency)
    unit = unit_words(made.schema).whole
    return PlanView(made, None, attack_chart(curve), unit, left, _asked(made), made.prospect)


def _asked(made: Plan) -> tuple[Asked, ...]:
    from understudy.discovery.asking import can_find
    from understudy.release.readme import describe_mechanism

    heard = {} if made.prospect is None else {one.purpose: str(one) for one in made.prospect.answers}
    return tuple(
        Asked(
            one.purpose,
            describe_mechanism(one.mechanism),
            heard.get(one.purpose) or can_find(one, made.schema) or "",
        )
        for one in made.run_charges
    )


def _left_after(workspace: Workspace, journey: Journey, made: Plan) -> str:
    """What the account has spent after this run, or has spent with it, in words."""
    from understudy.ledger.ledger import Ledger

    if workspace.ledger.exists():
        with Ledger(workspace.ledger) as ledger:
            if journey.dataset in ledger.datasets():
                return _left_in(ledger, workspace, journey, made)
    cost = 0.0 if made.spent is None else made.spent.epsilon
    if cost > journey.total:
        return f"this run costs more than the ε = {journey.total:g} that the data set may ever spend"
    return f"ε = {cost:.3g} of the {journey.total:g} that the data set may ever spend"


def _left_in(ledger: Ledger, workspace: Workspace, journey: Journey, made: Plan) -> str:
    name, budget = journey.dataset, ledger.datasets()[journey.dataset]
    if workspace.release(journey.name).exists() or workspace.checkpoint(journey.name).exists():
        state = ledger.statement(name)
        return (
            f"ε = {state.spent.epsilon:.3g} of {budget.epsilon:g} is spent or put aside in the account {name}"
        )
    try:
        after = ledger.would_leave(name, made.charges)
    except BudgetError as problem:
        return str(problem)
    return (
        f"after this run ε = {after.epsilon:.3g} of {budget.epsilon:g} would be spent in the account {name}"
    )


def time_view(workspace: Workspace, journey: Journey, numbers: dict[str, Any]) -> str:
    """How long the run takes on this machine, in words, by a trial on stand-in records."""
    made = plan_of(workspace, journey, **numbers)
    return _time_of(made)


@lru_cache(maxsize=32)
def _time_of(made: Plan) -> str:
    from understudy.run.pace import in_words, seconds_per_step

    seconds = seconds_per_step(made) * (made.steps + made.recipe.warm_steps)
    return f"about {in_words(seconds)} for {made.steps:,} steps, once the records are counted"


@dataclass(frozen=True)
class Offer:
    """A release as pages show it.

    Args:
        release: the release itself.
        content: what a public page says about it.
        rows: example records of a table or of codes; None for images.
        pictures: whether it makes images.
        published: measures and verdicts that may be published, or None.
        audit: the outcome of the attached audit and what it says; None without one.
    """

    release: Release
    content: Content
    rows: Any
    pictures: bool
    published: Evaluation | None
    audit: tuple[str, str] | None


def offer_of(workspace: Workspace, journey: Journey) -> Offer | None:
    """The release of a journey, or None before there is one."""
    from understudy.auditing.attachment import attached
    from understudy.release.release import Release
    from understudy.reporting.content import gather
    from understudy.reporting.render import example_rows
    from understudy.schema import ImageSchema

    folder = workspace.release(journey.name)
    if not folder.exists():
        return None
    release = Release.load(folder)
    found = attached(folder)
    published = _evaluation(workspace.published(journey.name))
    content = gather(release, published, found, public=True)
    pictures = isinstance(release.schema, ImageSchema)
    return Offer(
        release,
        content,
        None if pictures else example_rows(content),
        pictures,
        published,
        None if found is None else (found.verdict.outcome.value, found.verdict.says),
    )


@dataclass(frozen=True)
class Measured:
    """INTERNAL: what was measured on real records, as charts and verdicts.

    Args:
        evaluation: all of it.
        utility: what classifiers reach that saw synthetic records only.
        marginals: real beside synthetic distributions.
    """

    evaluation: Evaluation
    utility: tuple[Figure, ...]
    marginals: tuple[Figure, ...]


def measured_view(workspace: Workspace, journey: Journey) -> Measured | None:
    """INTERNAL: what was measured so far, or None."""
    from understudy.reporting.charts import marginal_figures, utility_figures

    found = _evaluation(workspace.measured(journey.name))
    if found is None:
        return None
    return Measured(found, utility_figures(found), marginal_figures(found))


def _evaluation(path: Path) -> Evaluation | None:
    from understudy.evaluation import Evaluation

    if not path.exists():
        return None
    return Evaluation.from_json(files.read_text(path, error=EvaluationError))


def report_page(workspace: Workspace, journey: Journey, *, public: bool) -> str:
    """The report of a journey's release: internal with what was measured, or public with what was published."""
    from understudy.auditing.attachment import attached
    from understudy.release.release import Release
    from understudy.reporting.render import report

    folder = workspace.release(journey.name)
    if not folder.exists():
        raise StudioError("there is no release yet: run it first.")
    which = workspace.published if public else workspace.measured
    shown = _evaluation(which(journey.name))
    return report(Release.load(folder), evaluation=shown, audit=attached(folder), public=public)


@dataclass(frozen=True)
class Paid:
    """One entry of an account as a picture needs it.

    Args:
        what: the command or the release, for readers.
        when: it was reserved.
        state: reserved, spent or refunded.
        unit: whom it protects.
        before: the ε of the account before it.
        after: the ε of the account with it.
    """

    what: str
    when: str
    state: str
    unit: str
    before: float
    after: float


@dataclass(frozen=True)
class Account:
    """A data set's account as a picture needs it.

    Args:
        name: of the data set.
        budget: the ε it may ever spend.
        spent: the ε that is spent or reserved.
        left: the largest ε of one more release that still fits.
        delta: of all of them.
        entries: every run.
        journeys: that are charged to it.
    """

    name: str
    budget: float
    spent: float
    left: float
    delta: float
    entries: tuple[Paid, ...]
    journeys: tuple[str, ...]


def accounts(workspace: Workspace) -> list[Account]:
    """Every data set of the studio's ledger."""
    from understudy.ledger.ledger import Ledger

    if not workspace.ledger.exists():
        return []
    found = []
    with Ledger(workspace.ledger) as ledger:
        for name, budget in ledger.datasets().items():
            state = ledger.statement(name)
            paid: list[Paid] = []
            counted: tuple[Charge, ...] = ()
            for one in state.entries:
                before = _cost(counted, budget).epsilon
                counted += one.counted()
                after = _cost(counted, budget).epsilon
                paid.append(Paid(one.command, one.time[:16], one.status.value, one.unit, before, after))
            users = tuple(one.name for one in workspace.journeys() if one.dataset == name)
            left = _left(counted, budget)
            found.append(
                Account(name, budget.epsilon, state.spent.epsilon, left, budget.delta, tuple(paid), users)
            )
    return found


@lru_cache(maxsize=256)
def _cost(charges: tuple[Charge, ...], budget: Budget) -> Spent:
    from understudy.privacy.accounting import spent

    return spent(charges, budget.delta, budget.adjacency)


@lru_cache(maxsize=256)
def _left(charges: tuple[Charge, ...], budget: Budget) -> float:
    from understudy.ledger.ledger import remaining_epsilon

    return remaining_epsilon(charges, budget)
