"""What an audit looks at besides the run as planned: little noise, a private number of rows, an evaluation, a resume.

* `little-noise`: where counts stand far above their noise they decide what is asked next, which they do not among a
  few stand-in records; with equal histories a record must not show there either.
* `private-rows`: the same run with its number of rows counted instead of declared must not use the exact number.
* `published-evaluation`: what one row changes in the counts that an evaluation publishes, against their sensitivity.
* `published-criteria`: the same for the sums by which published criteria of a table are judged.
* `resume`: a run that a crash interrupted must not draw again what was charged before.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from understudy.auditing.listening import Ear, listening
from understudy.auditing.people import with_person
from understudy.auditing.verdict import Outcome, Reading
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.evaluation.criteria import Classifier, Criteria, CrossTab, Means, Regression, Score
from understudy.evaluation.judging import Questions
from understudy.evaluation.layout import Layout
from understudy.evaluation.queries import CriteriaSums, MeasureCounts
from understudy.privacy.mechanisms import Charge, GaussianRelease, Selection
from understudy.records.encode import decode
from understudy.run.checkpoint import Checkpoints
from understudy.run.run import Run
from understudy.schema import TableSchema, unit_words
from understudy.synthesizers.protocol import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from understudy.auditing.rehearsal import Rehearsed
    from understudy.door.source import Rows
    from understudy.evaluation.criteria import Criterion
    from understudy.planning import Plan
    from understudy.records.images import Images
    from understudy.schema import Schema

__all__ = [
    "criteria_reading",
    "evaluation_reading",
    "little_noise_reading",
    "private_rows_reading",
    "resume_reading",
    "with_private_rows",
]

_TOLERANCE = 1e-9
_LITTLE = 1e-6
"""What the noise is multiplied by where decisions are to follow from counts alone."""


def with_private_rows(plan: Plan, schema: Schema) -> Plan | None:
    """The plan with a private number of rows, whatever it would cost; None if its number is private already."""
    if plan.rows is None:
        return None
    own = {charge.purpose: charge for charge in plan.run_charges}
    charges = []
    for asked in plan.recipe.releases(schema, None):
        if asked.purpose in own:
            charges.append(own[asked.purpose])
        elif isinstance(asked, Fixed):
            charges.append(Charge(asked.purpose, GaussianRelease(asked.noise_multiplier)))
    return replace(plan, rows=None, charges=tuple(charges))


def private_rows_reading(seen: Rehearsed) -> Reading:
    """Whether a record shows although every release, the row count among them, was the same."""
    leaks = float(len(seen.leaked))
    says = "with a private number of rows, nothing depends on the exact number."
    if seen.leaked:
        says = f"the exact number of rows shows in {', '.join(seen.leaked[:3])}."
    return Reading("private-rows", _fails(bool(leaks)), leaks, leaks, leaks, 0.0, says)


def with_little_noise(plan: Plan) -> Plan:
    """The plan with so little noise that whatever noisy counts decide is decided as it would be among many records."""
    charges = tuple(
        Charge(one.purpose, replace(one.mechanism, noise_multiplier=one.mechanism.noise_multiplier * _LITTLE))
        for one in plan.run_charges
        if not isinstance(one.mechanism, Selection)
    )
    return replace(plan, charges=charges)


def little_noise_reading(seen: Rehearsed) -> Reading:
    """Whether a record shows in what is decided by counts that stand far above their noise, all releases the same."""
    leaks = float(len(seen.leaked))
    says = "with hardly any noise, every decision still follows from what was released."
    if seen.leaked:
        says = f"one record shows in {', '.join(seen.leaked[:3])} when counts stand far above their noise."
    return Reading("little-noise", _fails(bool(leaks)), leaks, leaks, leaks, 0.0, says)


def evaluation_reading(schema: Schema, rows: Rows, canaries: list[Rows]) -> Reading | None:
    """How far one row, or person, moves what a published evaluation counts; None without labels.

    Args:
        schema: of the rows.
        rows: stand-in records.
        canaries: single records, or those of single persons.
    """
    classes = len(schema.label_classes or ())
    if not classes:
        return None
    layout = Layout.of(schema) if isinstance(schema, TableSchema) else None
    query = MeasureCounts(schema, classes, layout, _guesses(classes))
    return _moved_reading(
        "published-evaluation", "counts of a published evaluation", query, schema, rows, canaries
    )


def criteria_reading(schema: Schema, rows: Rows, canaries: list[Rows]) -> Reading | None:
    """How far one row, or person, moves what published criteria of every kind are judged by; None without a table.

    Arguments as for `evaluation_reading`.
    """
    if not isinstance(schema, TableSchema) or len(schema.columns) < 2:
        return None
    query = CriteriaSums(Questions(_every_criterion(schema), _StandIn(schema, rows)))
    return _moved_reading("published-criteria", "sums of published criteria", query, schema, rows, canaries)


def _moved_reading(
    name: str,
    what: str,
    query: MeasureCounts | CriteriaSums,
    schema: Schema,
    rows: Rows,
    canaries: list[Rows],
) -> Reading:
    without = _counts(query, rows)
    moved = max(float(np.linalg.norm(_counts(query, with_person(rows, one)) - without)) for one in canaries)
    claimed = query.sensitivity
    says = f"one {unit_words(schema).one} moves the {what} by {moved:.4g}, at most {claimed:.4g} is claimed."
    wrong = moved > claimed * (1 + _TOLERANCE)
    return Reading(name, _fails(wrong), moved, moved, moved, claimed, says)


@dataclass(frozen=True, eq=False)
class _StandIn:
    """A release whose synthetic rows are stand-ins."""

    schema: Schema
    rows: Rows

    def sample(self, rows: int, *, seed: int | None = None) -> pd.DataFrame | Images:
        del rows, seed
        labels = None if self.rows.labels is None else np.asarray(self.rows.labels)
        return decode(np.asarray(self.rows.x), labels, self.schema)


def _every_criterion(schema: TableSchema) -> Criteria:
    """One criterion of each kind that the columns allow."""
    layout = Layout.of(schema)
    numbers, names = list(layout.numeric), list(layout.columns)
    found: list[Criterion] = [CrossTab("cells", (names[-1],), 0.1)]
    if numbers:
        of, *others = [numbers[0], *(name for name in names if name != numbers[0])]
        found.append(Means("means", of, others[0], 1.0))
        found.append(Regression("regression", of, tuple(others[:2]), 0.1))
    if schema.label_classes is not None:
        found.append(Classifier("classifier", 0.5, score=Score.AUROC))
    return Criteria(tuple(found))


def _guesses(classes: int) -> Callable[[np.ndarray], np.ndarray]:
    """A classifier that knows nothing, always the same one."""

    def probabilities(features: np.ndarray) -> np.ndarray:
        flat = np.nan_to_num(features.reshape(len(features), -1))
        weights = np.random.default_rng(0).normal(size=(flat.shape[1], classes))
        scores = np.exp(np.clip(flat @ weights, -20, 20))
        found: np.ndarray = scores / scores.sum(axis=1, keepdims=True)
        return found

    return probabilities


def _counts(query: MeasureCounts | CriteriaSums, rows: Rows) -> np.ndarray:
    found: np.ndarray = Door(rows, (), SeededNoise(0), private=False).publish("", query).value.numpy()
    return found


class _Book:
    """An account that only counts, as a ledger would after a crash."""

    def __init__(self, charged: int = 0) -> None:
        self.charged, self.draws, self.entry, self.settled = charged, dict[str, int](), "1", True

    def reserve(self, plan: Plan) -> None:
        del plan

    def resume(self, entry: str | None, step: int, every: int) -> int:
        del entry, step, every
        return self.charged

    def cancel(self) -> None: ...

    def announce(self, purpose: str) -> None:
        self.draws[purpose] = self.draws.get(purpose, 0) + 1

    def charge(self) -> None:
        self.charged += 1

    def finish(self, release_hash: str) -> str | None:
        del release_hash
        return None


def resume_reading(plan: Plan, rows: Rows, public: Rows | None) -> Reading:
    """How often a run that was interrupted after a charge, and then resumed, draws in all; never more than charged.

    Args:
        plan: a short plan on a few rows.
        rows: stand-in records.
        public: stand-in public records.
    """
    allowed = sum(_times(charge) for charge in plan.run_charges)
    with tempfile.TemporaryDirectory() as folder:
        kept = Checkpoints(Path(folder) / "checkpoint", every=10**6)
        first, book = Ear(), _Book()
        run = Run(plan, account=book, checkpoints=kept, seed=0, door=listening(first))
        run.open(rows, None)
        run.advance(public)  # charged and drawn, and lost by the crash that follows
        again, known = Ear(), _Book(book.charged)
        known.draws = dict(book.draws)
        resumed = Run(
            plan, account=known, checkpoints=replace(kept, resume=True), seed=0, door=listening(again)
        )
        resumed.pay()
        resumed.open(rows, None)
        resumed.train(public)
    drawn = len(first.draws) + len(again.draws)
    says = f"an interrupted and resumed run drew {drawn} times in all; {allowed} are charged."
    return Reading("resume", _fails(drawn > allowed), drawn, drawn, drawn, allowed, says)


def _times(charge: Charge) -> int:
    mechanism = charge.mechanism
    return mechanism.count if isinstance(mechanism, GaussianRelease) else getattr(mechanism, "steps", 0)


def _fails(wrong: bool) -> Outcome:
    return Outcome.FAIL if wrong else Outcome.PASS
