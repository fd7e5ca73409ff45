"""An evaluation that may be published: on record first, then one look at private test rows, with noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from understudy.evaluation.released import (
    PublishedMeasures,
    evaluation_charge,
    publish_criteria,
    publish_measures,
)
from understudy.evaluation.result import Evaluation
from understudy.ledger.ledger import Ledger
from understudy.schema import unit_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.data import Records
    from understudy.evaluation.criteria import Criteria
    from understudy.evaluation.sources import Held
    from understudy.privacy.budget import Budget
    from understudy.privacy.mechanisms import Charge
    from understudy.release.release import Release

__all__ = ["publish_evaluation"]


class _Later:
    """Private rows that are read at the last moment, after the charge is on record."""

    def __init__(self, read: Callable[[], Records]) -> None:
        self._read = read

    @property
    def content(self) -> object:
        return self._read().content


def publish_evaluation(
    release: Release,
    read: Callable[[], Records],
    budget: Budget,
    *,
    ledger: Path,
    dataset: str,
    criteria: Criteria | None = None,
    command: str = "",
) -> Evaluation:
    """Publish the chosen measures, or the verdicts on criteria: reserve, announce, draw, finish.

    Args:
        release: what is measured.
        read: gives the private test rows; called after the charge is on record.
        budget: what this one evaluation spends of the test rows' account.
        ledger: where the account is.
        dataset: its name.
        criteria: publish the verdicts on these instead of measures.
        command: what is noted in the ledger.
    """
    with Ledger(ledger) as book:
        opened = []

        def reserve(charge: Charge) -> None:
            unit = unit_words(release.schema).whole
            entry = book.reserve(dataset, [charge], command=command, unit=unit)
            opened.append(book.progress(entry, 0))

        charge, rows = evaluation_charge(budget), cast("Held", _Later(read))
        found = (
            publish_measures(release, rows, charge, reserve=reserve)
            if criteria is None
            else publish_criteria(release, rows, criteria, charge, reserve=reserve)
        )
        book.finish(opened[0])
    note = f"Published under {budget} by one Gaussian release of counts with sensitivity {found.sensitivity:.4f}."
    empty = Evaluation((), synthetic_rows=None, test_rows=None, seed=0, notes=(note,))
    if isinstance(found, PublishedMeasures):
        return replace(empty, measures=found.measures)
    return replace(empty, criteria=found.criteria)
