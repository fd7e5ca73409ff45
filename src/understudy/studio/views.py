"""What pages show of plans, releases and the ledger, gathered from the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy import files
from understudy.errors import BudgetError, EvaluationError, StudioError, UnderstudyError
from understudy.studio.work import plan_of

if TYPE_CHECKING:
    from markupsafe import Markup

    from understudy.planning import Plan
    from understudy.release.release import Release
    from understudy.reporting.content import Content
    from understudy.studio.workspace import Journey, Workspace
    from understudy.synthesizers.prospect import Prospect

__all__ = ["Account", "Offer", "PlanView", "accounts", "offer_of", "plan_view", "report_page"]


@dataclass(frozen=True)
class PlanView:
    """A plan in words and as a picture; or why there is none.

    Args:
        plan: the plan, or None.
        problem: why there is none, or None.
        attack: the attacker's power as a chart.
        unit: whose data the promise is about.
        left: what the data set has spent after this run, in words.
        prospect: what the budget buys in the user's terms, or None.
    """

    plan: Plan | None
    problem: str | None
    attack: Markup | None = None
    unit: str = ""
    left: str = ""
    prospect: Prospect | None = None


def plan_view(workspace: Workspace, journey: Journey, numbers: dict[str, Any]) -> PlanView:
    """What the numbers give; nothing touches data, and nothing is written."""
    from understudy.privacy.attacks import attack_curve
    from understudy.reporting.charts import attack_chart
    from understudy.schema import unit_words

    try:
        made = plan_of(workspace, journey, **numbers)
    except UnderstudyError as problem:
        return PlanView(None, str(problem))
    assert made.spent is not None
    curve = attack_curve(made.charges, adjacency=made.spent.adjacency)
    return PlanView(
        made,
        None,
        attack_chart(curve),
        unit_words(made.schema).whole,
        _left_after(workspace, journey, made, numbers.get("total", journey.total)),
        made.prospect,
    )


def _left_after(workspace: Workspace, journey: Journey, made: Plan, total: float) -> str:
    from understudy.ledger.ledger import Ledger

    if workspace.ledger.exists():
        with Ledger(workspace.ledger) as ledger:
            if journey.name in ledger.datasets():
                begun = workspace.release(journey.name).exists()
                begun = begun or (workspace.folder(journey.name) / "release.checkpoint").exists()
                if begun:
                    state = ledger.statement(journey.name)
                    return f"ε = {state.spent.epsilon:.3g} of {state.budget.epsilon:g} is spent or put aside"
                try:
                    after = ledger.would_leave(journey.name, made.charges)
                except BudgetError as problem:
                    return str(problem)
                budget = ledger.datasets()[journey.name]
                return f"after this run ε = {after.epsilon:.3g} of {budget.epsilon:g} would be spent"
    assert made.spent is not None
    if made.spent.epsilon > total:
        return f"this run costs more than the ε = {total:g} that the data set may ever spend"
    return f"ε = {made.spent.epsilon:.3g} of the {total:g} that the data set may ever spend"


@dataclass(frozen=True)
class Offer:
    """A release as pages show it.

    Args:
        release: the release itself.
        content: what a public page says about it.
        rows: example records of a table or of codes; None for images.
        pictures: whether it makes images.
        measured: whether there is an (internal) evaluation.
        verdict: of the attached audit, in one line; None without one.
    """

    release: Release
    content: Content
    rows: Any
    pictures: bool
    measured: bool
    verdict: str | None


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
    content = gather(release, None, found, public=True)
    pictures = isinstance(release.schema, ImageSchema)
    return Offer(
        release,
        content,
        None if pictures else example_rows(content),
        pictures,
        (workspace.folder(journey.name) / "evaluation.json").exists(),
        None if found is None else f"{found.verdict.outcome.value}: {found.verdict.says}",
    )


def report_page(workspace: Workspace, journey: Journey, *, public: bool) -> str:
    """The report of a journey's release, with what was measured so far."""
    from understudy.auditing.attachment import attached
    from understudy.evaluation import Evaluation
    from understudy.release.release import Release
    from understudy.reporting.render import report

    folder = workspace.release(journey.name)
    if not folder.exists():
        raise StudioError("there is no release yet: run it first.")
    path = workspace.folder(journey.name) / "evaluation.json"
    measured = Evaluation.from_json(files.read_text(path, error=EvaluationError)) if path.exists() else None
    return report(Release.load(folder), evaluation=measured, audit=attached(folder), public=public)


@dataclass(frozen=True)
class Account:
    """A data set's account as a picture needs it.

    Args:
        name: of the data set.
        budget: the ε it may ever spend.
        spent: the ε that is spent or reserved.
        delta: of both.
        entries: every run: when, its state, and how many steps it charged.
    """

    name: str
    budget: float
    spent: float
    delta: float
    entries: tuple[tuple[str, str, int], ...]

    @property
    def share(self) -> float:
        """The spent share of the budget, in percent."""
        return min(100.0, 100 * self.spent / self.budget)


def accounts(workspace: Workspace) -> list[Account]:
    """Every data set of the studio's ledger."""
    from understudy.ledger.ledger import Ledger

    if not workspace.ledger.exists():
        return []
    found = []
    with Ledger(workspace.ledger) as ledger:
        for name in ledger.datasets():
            state = ledger.statement(name)
            entries = tuple((str(one.time), one.status.value, one.steps_charged) for one in state.entries)
            found.append(
                Account(name, state.budget.epsilon, state.spent.epsilon, state.budget.delta, entries)
            )
    return found
