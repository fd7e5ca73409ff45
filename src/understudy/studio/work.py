"""What the processes of the studio do: each calls one verb of the library."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from understudy import files
from understudy.errors import StudioError
from understudy.studio.jobs import single_writer
from understudy.studio.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.data import Records
    from understudy.planning import Plan
    from understudy.release.release import Release
    from understudy.studio.forms import Publishing
    from understudy.studio.workspace import Journey

__all__ = ["audit_release", "evaluate_release", "fit_journey", "plan_of", "publish_measures", "register"]

_EVERY = 200
"""Steps between checkpoints."""


def plan_of(workspace: Workspace, journey: Journey, **changes: Any) -> Plan:
    """The plan of a journey as it stands, or with other numbers; no record is read.

    Raises:
        UnderstudyError: the schema is not complete, or the budget buys no such plan.
    """
    import understudy
    from understudy.schema import load_schema

    numbers: dict[str, Any] = {
        name: changes.get(name, getattr(journey, name))
        for name in ("epsilon", "delta", "rows", "recipe", "steps")
    }
    if journey.unconfirmed or journey.spelling_unconfirmed:
        guessed = [*journey.unconfirmed, *(["how cells are written"] if journey.spelling_unconfirmed else [])]
        raise StudioError(f"confirm first that what was guessed is public: {', '.join(guessed)}.")
    return understudy.plan(load_schema(workspace.schema(journey.name)), **numbers)


def register(workspace: Workspace, journey: Journey) -> None:
    """Open the data set's account in the ledger, if it has none; its whole budget cannot be changed afterwards."""
    from understudy.ledger.ledger import Ledger
    from understudy.privacy.budget import Budget

    with Ledger(workspace.ledger, create=True) as ledger:
        if journey.dataset not in ledger.datasets():
            ledger.register(journey.dataset, Budget(journey.total, journey.delta))


def fit_journey(root: Path, name: str, say: Callable[..., None], asked: Callable[[], bool]) -> None:
    """Fit and release, or go on where an interrupted run stopped."""
    import understudy
    from understudy.run.checkpoint import Checkpoints, load_checkpoint
    from understudy.run.threads import choose_threads

    workspace = Workspace(root)
    journey = workspace.journey(name)
    with single_writer(workspace.folder(name)):
        checkpoint = workspace.checkpoint(name)
        resume = checkpoint.exists()
        made = load_checkpoint(checkpoint)[0].plan if resume else plan_of(workspace, journey)
        register(workspace, journey)
        choose_threads(made, None)

        left = _TimeLeft()

        def tell(progress: Any) -> None:
            say(
                share=progress.done / max(progress.total, 1),
                note=f"step {progress.done:,} of {progress.total:,}{left(progress.done, progress.total)}",
            )

        say(note="reading the records")
        understudy.fit(
            workspace.records(journey.source),
            made,
            out=workspace.release(name),
            ledger=workspace.ledger,
            dataset=journey.dataset,
            checkpoints=Checkpoints(checkpoint, _EVERY, resume),
            stop=asked,
            on_progress=tell,
        )
        checkpoint.unlink(missing_ok=True)


def evaluate_release(root: Path, name: str, say: Callable[..., None], _asked: Callable[[], bool]) -> None:
    """Measure a release on real records; the result is internal."""
    from understudy.data import known, read
    from understudy.evaluation import Criteria, evaluate
    from understudy.release.release import Release
    from understudy.studio.criteria import criteria_of

    workspace = Workspace(root)
    journey = workspace.journey(name)
    release = Release.load(workspace.release(name))
    with single_writer(workspace.folder(name)):
        test = _test_records(workspace, journey, release)()
        if journey.source.known:
            reference = known(journey.source.path).train
        else:
            reference = read(workspace.records(journey.source), release.schema)
        criteria = criteria_of(workspace, journey)
        found = evaluate(
            release,
            test,
            reference=reference,
            seeds=(0,),
            criteria=Criteria(criteria) if criteria else None,
            on_progress=lambda what, share: say(share=share, note=what),
        )
        files.write_whole(workspace.measured(name), found.to_json(), private=True, error=StudioError)


def publish_measures(
    root: Path, name: str, say: Callable[..., None], _asked: Callable[[], bool], wanted: Publishing
) -> None:
    """Measure a release on real records with noise, charged to their account; the result may be published."""
    from understudy.evaluation.criteria import Criteria
    from understudy.evaluation.publishing import publish_evaluation
    from understudy.ledger.ledger import Ledger
    from understudy.privacy.budget import Budget
    from understudy.release.release import Release
    from understudy.studio.criteria import criteria_of

    workspace = Workspace(root)
    journey = workspace.journey(name)
    release = Release.load(workspace.release(name))
    criteria = criteria_of(workspace, journey) if wanted.verdicts else ()
    if wanted.verdicts and not criteria:
        raise StudioError("there are no criteria yet: say on the page Look what the data is needed for.")
    with single_writer(workspace.folder(name)):
        with Ledger(workspace.ledger, create=True) as ledger:
            if wanted.dataset not in ledger.datasets():
                ledger.register(wanted.dataset, Budget(wanted.total, wanted.budget.delta))
        say(note="asking the test records once, with noise")
        found = publish_evaluation(
            release,
            _test_records(workspace, journey, release),
            wanted.budget,
            ledger=workspace.ledger,
            dataset=wanted.dataset,
            criteria=Criteria(criteria) if criteria else None,
            command=f"studio: published evaluation of {name}",
        )
        files.write_whole(workspace.published(name), found.to_json(), error=StudioError)


def _test_records(workspace: Workspace, journey: Journey, release: Release) -> Callable[[], Records]:
    """PRIVATE: what gives the real records that were not trained on, when called."""
    from understudy.data import known, read

    if journey.source.known:
        return lambda: known(journey.source.path).test
    if journey.test is None:
        raise StudioError("choose real records that were not trained on first.")
    records = workspace.records(journey.test)
    return lambda: read(records, release.schema)


class _TimeLeft:
    """Says how long the rest takes, by the steps so far."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def __call__(self, done: int, total: int) -> str:
        from understudy.run.pace import in_words

        now = time.monotonic()
        if self._first is None:
            self._first = (done, now)
        steps, seconds = done - self._first[0], now - self._first[1]
        if not steps or done >= total:
            return ""
        return f", about {in_words(seconds / steps * (total - done))} left"


def audit_release(root: Path, name: str, say: Callable[..., None], _asked: Callable[[], bool]) -> None:
    """Attack the promise of a release on stand-in records, and attach what was found."""
    from understudy.auditing.attachment import attach
    from understudy.auditing.configuration import audit
    from understudy.release.release import Release

    workspace = Workspace(root)
    folder = workspace.release(name)
    with single_writer(workspace.folder(name)):
        say(note="attacking the promise on stand-in records")
        found = audit(
            Release.load(folder),
            on_progress=lambda done, total: say(
                share=done / max(total, 1), note=f"release {done} of {total}"
            ),
        )
        attach(folder, found)
