"""Choosing the best of several runs, and paying for the choice.

Publishing the best of several private runs costs more than one run, because the choice looks at the data too. The
bound of Papernot and Steinke (arXiv 2110.03620) holds under conditions that this module keeps:

- the number of runs is drawn at random, here from the geometric distribution, and stays secret;
- every run draws its setting from the public grid at random and is independent of the others; where settings cost
  different amounts, the worst counts at each order of the Rényi divergence;
- what the runs are compared by belongs to the run: the number of real test rows that a classifier gets right, with
  Gaussian noise of its own, unless the test rows are declared public;
- only the best run leaves: every other release is deleted.

The whole choice is one entry in the ledger, reserved before a record is read.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from understudy import codec, files
from understudy.door.door import Door
from understudy.door.noise import SecureNoise
from understudy.door.source import Rows
from understudy.errors import EvaluationError, LedgerError, PlanError
from understudy.evaluation.learners import train
from understudy.evaluation.pool import in_processes
from understudy.evaluation.queries import RightAnswers
from understudy.evaluation.sources import ReleaseSource
from understudy.ledger.ledger import Ledger, Status
from understudy.privacy.accounting import Spent, select_best, spent
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.release.release import Release
from understudy.release.weights import weights_to_bytes
from understudy.schema import unit_words
from understudy.tuning.sweep import Sweep, digest, encoded_rows, fitted, planned, save_anew, write_value
from understudy.tuning.variation import Setting  # noqa: TC001 - the codec reads the hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from understudy.tuning.sweep import Bill

__all__ = ["Choice", "Chosen", "draw_runs", "noisy_score", "select", "selection_charge", "selection_cost"]

SCORE = "selection score"
SCORED_ROWS = 20_000
"""Most synthetic rows that the comparing classifier is trained on; public, like its seed."""


@dataclass(frozen=True)
class Choice:
    """How the best run is found.

    Args:
        mean_runs: public mean of the random number of runs, more than one.
        score_noise: standard deviation of the noise on the number of test rows classified right; None if the
            test rows are declared public, and then the exact number is used and costs nothing.
    """

    mean_runs: float
    score_noise: float | None = 10.0


@dataclass(frozen=True)
class Chosen:
    """The run that was chosen.

    Args:
        release: with the cost of the whole choice on its card.
        setting: what it was trained with.
        right: the score that it was chosen by; noisy unless the test rows are public.
    """

    release: Release
    setting: Setting
    right: float


@dataclass(frozen=True)
class _Drawn:
    """The working file of a choice: which entry pays, of which ledger, and which runs were drawn. Never published."""

    entry: str
    owner: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class _Score:
    """The working file of one finished run."""

    right: float


def selection_charge(sweep: Sweep, settings: Sequence[Setting], choice: Choice, first: Setting) -> Charge:
    """The charge of choosing among runs that draw their setting from these, `first` named as the own one.

    Raises:
        PlanError: the settings ask for different budgets, or for none.
    """
    if len({setting.epsilon for setting in settings}) != 1:
        raise PlanError("choose among runs of one ε: the largest ε would always win.")
    costs = [_run_charges(sweep, setting, choice) for setting in settings]
    return select_best(_run_charges(sweep, first, choice), choice.mean_runs, others=costs)[0]


def selection_cost(sweep: Sweep, settings: Sequence[Setting], choice: Choice | None = None) -> Spent:
    """What a new choice of the best costs: a random number of runs with this mean, each with one of these settings.

    It says nothing about runs that were made already, in a fixed number and with scores that were looked at.

    Raises:
        EvaluationError: there are fewer than two runs, so there is no choice.
    """
    if len(settings) < 2:
        raise EvaluationError(f"a choice needs at least two runs, got {len(settings)}.")
    charge = selection_charge(sweep, settings, choice or Choice(float(len(settings))), settings[0])
    return spent((charge,), sweep.delta)


def refuse_unlabelled(sweep: Sweep, settings: Sequence[Setting]) -> None:
    """Refuse, before anything is charged, to choose among runs whose records have no label to be scored by.

    Raises:
        EvaluationError: the recipe makes records without a label.
    """
    schema = planned(sweep, settings[0]).schema
    if schema is None or schema.label_classes is None:
        raise EvaluationError(
            "--select compares runs by how many test rows a classifier gets right, and this recipe makes records "
            "without a label. Draw curves without --select, or take a recipe that is told the label."
        )


def draw_runs(settings: Sequence[Setting], mean_runs: float) -> tuple[Setting, ...]:
    """A geometric number of settings, each drawn from all of them; from the operating system's entropy."""
    chance = secrets.SystemRandom()
    drawn = [chance.choice(settings)]
    while chance.random() >= 1 / mean_runs:
        drawn.append(chance.choice(settings))
    return tuple(drawn)


def noisy_score(release: Release, test: Rows, sweep: Sweep, deviation: float | None) -> float:
    """How many test rows (or persons) a classifier of synthetic rows gets right; one more or less moves it by one."""
    rows = ReleaseSource(release).draw(min(sweep.rows or SCORED_ROWS, SCORED_ROWS), 0)
    predictor = train(sweep.learner, rows.features, rows.labels, rows.classes, 0)
    charges = () if deviation is None else (Charge(SCORE, GaussianRelease(deviation)),)
    door = Door(test, charges, SecureNoise(), private=deviation is not None)
    return float(door.publish(SCORE, RightAnswers(predictor)).value)


def select(
    sweep: Sweep,
    settings: Sequence[Setting],
    folder: Path,
    choice: Choice,
    bill: Bill,
    *,
    workers: int,
    on_progress: Callable[[int, int, float], None] | None = None,
) -> Chosen:
    """Run, compare, publish the best as `folder/best`, and delete everything else.

    An interrupted choice goes on when it is called again: with the same runs and the same entry of the same ledger,
    never with a new draw.

    Args:
        sweep: what the runs share.
        settings: the grid that settings are drawn from, all of one ε.
        folder: for working files, readable by the owner only, and for the release.
        choice: how many runs on average, and how they are compared.
        bill: where the choice is charged.
        workers: processes at a time.
        on_progress: called with a run's number, how many were drawn, and its finished share; for the curator's eyes.

    Raises:
        PlanError: the release exists already, or the settings cannot be compared.
        BudgetError: the choice does not fit into what is left; or what was drawn before an interruption was charged in
            another ledger, or is closed there.
    """
    if (folder / "best").exists():
        raise PlanError(f"{folder / 'best'} exists already. Remove it or choose another folder.")
    refuse_unlabelled(sweep, settings)
    work = folder / f"choice-{digest(sweep, choice, *settings)}"
    charge = selection_charge(sweep, settings, choice, settings[0])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    work.mkdir(mode=0o700, exist_ok=True)
    with files.held(work, error=PlanError), Ledger(bill.ledger) as book:
        drawn = _drawn(work, book, bill, charge, settings, choice, unit_words(sweep.schema).whole)
        waiting = [number for number in range(len(drawn.settings)) if not _scored(work, number).exists()]

        def tell(number: int, share: float) -> None:
            if on_progress is not None:
                on_progress(number, len(drawn.settings), share)

        in_processes(partial(_run, sweep, choice, work, drawn), waiting, workers=workers, on_progress=tell)
        return _publish(sweep, settings, folder, choice, work, drawn, book)


def _drawn(
    work: Path,
    book: Ledger,
    bill: Bill,
    charge: Charge,
    settings: Sequence[Setting],
    choice: Choice,
    unit: str,
) -> _Drawn:
    """What was drawn before an interruption, or a new draw: first the charge, then the number of runs."""
    state = work / "drawn.json"
    if state.exists():
        drawn = codec.from_json(_Drawn, files.read_text(state, error=EvaluationError), error=EvaluationError)
        _refuse_foreign(work, book, drawn)
        return drawn
    entry = book.progress(book.reserve(bill.dataset, [charge], command=bill.command, unit=unit), 0)
    drawn = _Drawn(entry.id, entry.owner, draw_runs(settings, choice.mean_runs))
    write_value(state, drawn)
    return drawn


def _refuse_foreign(work: Path, book: Ledger, drawn: _Drawn) -> None:
    """Refuse runs that another ledger pays for, and runs still to be made by an entry that is closed."""
    entry = book.entry(drawn.entry)
    if entry.owner != drawn.owner:
        raise LedgerError(f"the runs in {work} were charged in another ledger; go on with that one.")
    done = all(_scored(work, number).exists() for number in range(len(drawn.settings)))
    if entry.status is not Status.RESERVED and not done:
        raise LedgerError(
            f"entry {entry.id}, which paid for the runs in {work}, is closed ({entry.status.value}); remove the folder "
            "and choose anew."
        )


def _run(
    sweep: Sweep, choice: Choice, work: Path, drawn: _Drawn, number: int, tell: Callable[[float], None]
) -> None:
    """One of the runs, in a process of its own; the choice has paid for it already."""
    release = fitted(sweep, planned(sweep, drawn.settings[number]), tell, None)
    save_anew(release, _saved(work, number))
    test = Rows.of(encoded_rows(sweep.test, sweep.schema), sweep.schema)
    write_value(_scored(work, number), _Score(noisy_score(release, test, sweep, choice.score_noise)))


def _publish(
    sweep: Sweep,
    settings: Sequence[Setting],
    folder: Path,
    choice: Choice,
    work: Path,
    drawn: _Drawn,
    book: Ledger,
) -> Chosen:
    """Put the cost of the choice on the best run's card, close the entry, save, and delete the rest."""
    scores = [
        codec.from_json(
            _Score, files.read_text(_scored(work, number), error=EvaluationError), error=EvaluationError
        ).right
        for number in range(len(drawn.settings))
    ]
    best = scores.index(max(scores))
    found = Release.load(_saved(work, best))
    own = selection_charge(sweep, settings, choice, drawn.settings[best])
    entry = book.entry(drawn.entry)
    book.finish(entry, hashlib.sha256(weights_to_bytes(found.weights)).hexdigest())
    card = replace(found.card, plan=found.card.plan.chosen_by(own), ledger_head=book.head().hash, files=())
    release = Release(card, found.weights)
    release.save(folder / "best")
    shutil.rmtree(work)
    return Chosen(release, drawn.settings[best], scores[best])


def _run_charges(sweep: Sweep, setting: Setting, choice: Choice) -> tuple[Charge, ...]:
    charges = planned(sweep, setting).charges
    if choice.score_noise is None:
        return charges
    return (*charges, Charge(SCORE, GaussianRelease(choice.score_noise)))


def _saved(work: Path, number: int) -> Path:
    return work / f"{number}.release"


def _scored(work: Path, number: int) -> Path:
    return work / f"{number}.json"
