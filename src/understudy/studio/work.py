"""What the processes of the studio do: each calls one verb of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy import files
from understudy.errors import StudioError
from understudy.studio.jobs import single_writer
from understudy.studio.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.planning import Plan
    from understudy.studio.workspace import Journey

__all__ = ["audit_release", "evaluate_release", "fit_journey", "plan_of", "register"]

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
        name: changes.get(name, getattr(journey, name)) for name in ("epsilon", "delta", "rows", "recipe")
    }
    if journey.unconfirmed:
        raise StudioError(
            f"confirm first that the kinds of these columns are public: {', '.join(journey.unconfirmed)}."
        )
    return understudy.plan(load_schema(workspace.folder(journey.name) / "schema.toml"), **numbers)


def register(workspace: Workspace, journey: Journey) -> None:
    """Open the data set's account in the ledger; its whole budget cannot be changed afterwards."""
    from understudy.ledger.ledger import Ledger
    from understudy.privacy.budget import Budget

    with Ledger(workspace.ledger, create=True) as ledger:
        ledger.register(journey.name, Budget(journey.total, journey.delta))


def fit_journey(root: Path, name: str, say: Callable[..., None], asked: Callable[[], bool]) -> None:
    """Fit and release, or go on where an interrupted run stopped."""
    import understudy
    from understudy.run.checkpoint import Checkpoints, load_checkpoint
    from understudy.run.threads import choose_threads

    workspace = Workspace(root)
    journey = workspace.journey(name)
    with single_writer(workspace.folder(name)):
        checkpoint = workspace.folder(name) / "release.checkpoint"
        resume = checkpoint.exists()
        made = load_checkpoint(checkpoint)[0].plan if resume else plan_of(workspace, journey)
        register(workspace, journey)
        choose_threads(made, None)

        def tell(progress: Any) -> None:
            say(
                share=progress.done / max(progress.total, 1),
                note=f"step {progress.done:,} of {progress.total:,}",
            )

        say(note="reading the records")
        understudy.fit(
            workspace.records(journey.source),
            made,
            out=workspace.release(name),
            ledger=workspace.ledger,
            dataset=name,
            checkpoints=Checkpoints(checkpoint, _EVERY, resume),
            stop=asked,
            on_progress=tell,
        )
        checkpoint.unlink(missing_ok=True)


def evaluate_release(root: Path, name: str, say: Callable[..., None], _asked: Callable[[], bool]) -> None:
    """Measure a release on real records; the result is internal."""
    from understudy.data import known, read
    from understudy.evaluation import evaluate
    from understudy.release.release import Release

    workspace = Workspace(root)
    journey = workspace.journey(name)
    release = Release.load(workspace.release(name))
    with single_writer(workspace.folder(name)):
        if journey.source.known:
            data = known(journey.source.path)
            test, reference = data.test, data.train
        else:
            if journey.test is None:
                raise StudioError("choose real records that were not trained on first.")
            test = read(workspace.records(journey.test), release.schema)
            reference = read(workspace.records(journey.source), release.schema)
        found = evaluate(
            release,
            test,
            reference=reference,
            seeds=(0,),
            on_progress=lambda what, share: say(share=share, note=what),
        )
        files.write_whole(workspace.folder(name) / "evaluation.json", found.to_json(), error=StudioError)


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
