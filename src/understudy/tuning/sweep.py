"""Sweeps: the same recipe at several budgets and settings, for privacy-utility curves.

Every run is private on its own and on record, but a curve reads real test rows and so is internal, and publishing
the best of several runs costs more than one run: see `understudy.tuning.selection`.

Runs are independent processes. Each writes its outcome under a name that is made of its setting, so a sweep
that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from understudy import codec, files
from understudy.data.databases import Database
from understudy.errors import EvaluationError
from understudy.evaluation.learners import Learner
from understudy.evaluation.pool import in_processes
from understudy.planning import Plan, plan
from understudy.privacy.accounting import Spent, spent
from understudy.schema import refuse_open
from understudy.synthesizers.protocol import Recipe
from understudy.synthesizers.registry import find_recipe
from understudy.tuning.curves import Limits, Outcome
from understudy.tuning.scoring import Scorer
from understudy.tuning.variation import Change, Setting, varied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from understudy.data import Records
    from understudy.ledger.account import LedgerAccount
    from understudy.records.encode import Encoded
    from understudy.release.release import Release
    from understudy.run.fit import Progress
    from understudy.schema import Schema

__all__ = [
    "Bill",
    "Sweep",
    "planned",
    "run_sweep",
    "runs_cost",
    "sweep_of",
]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What all runs share.

    Args:
        data: private training records: a path, the name of a known set, or a database with a query.
        test: real test records, likewise.
        schema: of both.
        recipe: what is varied.
        delta: of every run.
        rows: the public number of training rows, or None.
        learner: the classifier whose scores are drawn, where the recipe knows a label.
    """

    data: str | Database
    test: str | Database
    schema: Schema
    recipe: Recipe
    delta: float
    rows: int | None
    learner: Learner = Learner.LOGISTIC_REGRESSION

    def __post_init__(self) -> None:
        refuse_open(
            self.schema, "Every run would pay for it anew: fit once, and take the schema of that release."
        )


@dataclass(frozen=True)
class Bill:
    """Where runs are charged.

    Args:
        ledger: an existing ledger.
        dataset: the name that the private data is registered by in it.
        command: noted with every entry.
    """

    ledger: Path
    dataset: str
    command: str = ""


def planned(sweep: Sweep, setting: Setting) -> Plan:
    """The plan of one run; repeats share it."""
    return _planned(sweep, setting.epsilon, setting.changes)


@lru_cache(maxsize=256)
def _planned(sweep: Sweep, epsilon: float, changes: tuple[Change, ...]) -> Plan:
    values = {change.name: change.value for change in changes}
    return plan(
        sweep.schema,
        epsilon=epsilon,
        delta=sweep.delta,
        rows=sweep.rows,
        recipe=varied(sweep.recipe, values),
        batch=int(values["batch"]) if "batch" in values else None,
        noise_multiplier=values.get("noise_multiplier"),
        steps=int(values["steps"]) if "steps" in values else None,
    )


def runs_cost(sweep: Sweep, settings: Sequence[Setting]) -> Spent:
    """What these runs cost together: each is made, whatever is published of them afterwards."""
    return spent([charge for one in settings for charge in planned(sweep, one).charges], sweep.delta)


def run_sweep(
    sweep: Sweep,
    settings: Sequence[Setting],
    folder: Path,
    *,
    workers: int,
    bill: Bill | None = None,
    on_progress: Callable[[Setting, float], None] | None = None,
) -> tuple[tuple[Outcome, ...], Limits]:
    """Run what is not yet in the folder, a process each, and return everything.

    Args:
        sweep: what the runs share.
        settings: the runs.
        folder: outcomes and releases; private, since outcomes read real rows.
        workers: processes at a time.
        bill: where each run is charged before it reads a record; an interrupted run stays on it in full.
        on_progress: called with a setting and its finished share.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    limits = _limits(sweep, settings, folder)
    waiting = [setting for setting in settings if not _path(sweep, setting, folder).exists()]
    for setting in settings:
        if on_progress is not None and setting not in waiting:
            on_progress(setting, 1.0)
    in_processes(partial(_run_one, sweep, folder, bill), waiting, workers=workers, on_progress=on_progress)
    return tuple(_read(_path(sweep, setting, folder)) for setting in settings), limits


def _run_one(
    sweep: Sweep, folder: Path, bill: Bill | None, setting: Setting, tell: Callable[[float], None]
) -> None:
    """One run in its own process: plan, fit on record, save, score, and only then the outcome file."""
    made = planned(sweep, setting)
    with opened(bill) as account:
        release = fitted(sweep, made, tell, account)
    path = _path(sweep, setting, folder)
    save_anew(release, path.with_suffix(".release"))
    training, test = _real(sweep)
    drawn = release.sample(sweep.rows or len(test), seed=setting.repeat)
    reached = _scorer(sweep, made, training, test, folder).scores(drawn, setting.repeat)
    assert made.spent is not None
    write_value(path, Outcome(setting, made.spent.epsilon, reached))


@contextmanager
def opened(bill: Bill | None) -> Iterator[LedgerAccount | None]:
    """The account of a bill, for one run; None without a bill."""
    if bill is None:
        yield None
        return
    from understudy.ledger.account import LedgerAccount
    from understudy.ledger.ledger import Ledger

    with Ledger(bill.ledger) as book:
        yield LedgerAccount(book, bill.dataset, command=bill.command)


def fitted(sweep: Sweep, made: Plan, tell: Callable[[float], None], account: LedgerAccount | None) -> Release:
    """Train as planned, with about fifty reports of progress."""
    from understudy.run.fit import run_plan

    every = max(1, made.steps // 50)

    def on_progress(progress: Progress) -> None:
        if progress.done % every == 0:
            tell(0.95 * progress.done / made.steps)

    return run_plan(sweep.data, made, on_progress=on_progress, account=account)


def save_anew(release: Release, path: Path) -> None:
    """Save a release where an interrupted run may have left one."""
    shutil.rmtree(path, ignore_errors=True)
    release.save(path)


def write_value(path: Path, value: object) -> None:
    """Write a value as JSON, readable by its owner only, whole or not at all."""
    files.write_whole(path, codec.to_json(value), error=EvaluationError, private=True)


def _limits(sweep: Sweep, settings: Sequence[Setting], folder: Path) -> Limits:
    """Score real training rows as runs will be scored; what cannot be measured is refused here, before a charge."""
    path = folder / f"limits-{digest(sweep)}.json"
    if not path.exists():
        training, test = _real(sweep)
        scorer = _scorer(sweep, planned(sweep, settings[0]), training, test, folder)
        write_value(path, Limits(scorer.scores(training.content, 0)))
    return codec.from_json(Limits, files.read_text(path, error=EvaluationError), error=EvaluationError)


def _real(sweep: Sweep) -> tuple[Records, Records]:
    from understudy.data import read

    return read(sweep.data, sweep.schema), read(sweep.test, sweep.schema)


def _scorer(sweep: Sweep, made: Plan, training: Records, test: Records, folder: Path) -> Scorer:
    assert made.schema is not None
    return Scorer(sweep.schema, made.schema, sweep.learner, training, test, folder)


def encoded_rows(source: str | Database, schema: Schema) -> Encoded:
    """Real rows as arrays, from a file or by a known name."""
    from understudy.data import read
    from understudy.records.encode import encode

    return encode(read(source, schema), schema)


def _read(path: Path) -> Outcome:
    return codec.from_json(Outcome, files.read_text(path, error=EvaluationError), error=EvaluationError)


def digest(*values: object) -> str:
    """A short name for what values hold."""
    return hashlib.sha256("\n".join(codec.to_json(value) for value in values).encode()).hexdigest()[:16]


def _path(sweep: Sweep, setting: Setting, folder: Path) -> Path:
    return folder / f"run-{digest(sweep, setting)}.json"


def sweep_of(
    data: str | Database,
    test: str | Database,
    schema: Schema,
    recipe: Recipe | str,
    delta: float,
    rows: int | None,
    learner: Learner,
) -> Sweep:
    """A sweep, with the part of the recipe that serves the data; the recipe as a value, by name or from a file."""
    return Sweep(
        data=data,
        test=test,
        schema=schema,
        recipe=find_recipe(recipe, schema),
        delta=delta,
        rows=rows,
        learner=learner,
    )
