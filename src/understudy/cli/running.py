"""What a long run needs around it: a ledger, a checkpoint, signals that stop it in order."""

from __future__ import annotations

import signal
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.console import err
from understudy.escaping import for_terminal
from understudy.run.record import OWN_DATASET, beside, refuse_half, told_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from understudy.planning import Plan
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Recipe
    from understudy.tuning.sweep import Bill

__all__ = [
    "Signals",
    "bill_for",
    "chosen_recipe",
    "command_line",
    "remove_finished_checkpoint",
    "saved_plan",
    "shown_to_the_curator",
    "skipping_damaged",
    "stopping",
]

NO_LIMIT = 1e6
"""The ε of a ledger that only records: a sweep's own, which must take any number of runs."""


def chosen_recipe(
    name: str | None, schema: Schema | None, *, clip: float | None = None, capacity: int | None = None
) -> Recipe:
    """The recipe that was named, or the default for such data, with another bound or capacity if one is given."""
    from understudy.tuning.variation import varied

    wanted = {"clip": clip, "capacity": capacity}
    given = {what: float(value) for what, value in wanted.items() if value is not None}
    return varied(_named_or_default(name, schema), given)


def _named_or_default(name: str | None, schema: Schema | None) -> Recipe:
    """Says a line if the default for such data is not the usual one."""
    from understudy.synthesizers.registry import default_recipe, find_recipe

    if name is not None:
        return find_recipe(name, schema)
    default = default_recipe(schema)
    if default.why is not None:
        err.print(default.why)
    elif schema is None:
        err.print("no schema: planned as for labelled images; pass --schema for a table.")
    return default.recipe


def saved_plan(path: Path) -> Plan:
    """The plan that `understudy plan --save` (or `--json`) wrote, its cost computed anew."""
    from understudy.certificate import checked_plan
    from understudy.codec import from_json
    from understudy.errors import PlanError
    from understudy.files import read_text
    from understudy.planning import Plan

    return checked_plan(from_json(Plan, read_text(path, error=PlanError), error=PlanError))


def bill_for(folder: Path, ledger: Path | None, dataset: str | None, delta: float) -> Bill:
    """Where the runs of a sweep are charged: the given ledger, or one beside the folder that sets no limit."""
    from understudy.ledger.ledger import Ledger
    from understudy.privacy.budget import Budget
    from understudy.tuning.sweep import Bill

    refuse_half(ledger, dataset)
    if ledger is not None and dataset is not None:
        return Bill(ledger, dataset, command_line())
    path = beside(folder, "ledger")
    path.parent.mkdir(parents=True, exist_ok=True)
    with Ledger(path, create=True) as book:
        book.register(OWN_DATASET, Budget(NO_LIMIT, delta))
    err.print(told_own(path))
    return Bill(path, OWN_DATASET, command_line())


def command_line() -> str:
    """This command, as the ledger notes it: addresses without user, password and parameters."""
    from understudy.data.places import without_secrets

    return for_terminal(" ".join(["understudy", *map(without_secrets, sys.argv[1:])]))


def remove_finished_checkpoint(release: Path, ledger: Path | None) -> bool:
    """Take away the checkpoint of a run whose release is saved: it was killed between the two; returns whether.

    It stays unless the checkpoint's plan is that of the release and, of a private run, the ledger has its entry closed
    with these very weights.
    """
    from understudy.errors import UnderstudyError
    from understudy.files import remove_leftovers
    from understudy.release.release import WEIGHTS, Release
    from understudy.run.checkpoint import load_checkpoint

    path = beside(release, "checkpoint")
    if not path.exists():
        return False
    try:
        card, state = Release.load(release).card, load_checkpoint(path)[0]
        weights = next(record.sha256 for record in card.files if record.name == WEIGHTS)
        closed = (
            state.entry is None or _closed_with(ledger or beside(release, "ledger"), state.entry) == weights
        )
    except UnderstudyError:
        return False
    if state.plan != card.plan or not closed:
        return False
    path.unlink(missing_ok=True)
    for one in (release, path):
        remove_leftovers(one)
    return True


def _closed_with(ledger: Path, entry: str) -> str | None:
    from understudy.ledger.ledger import Ledger

    with Ledger(ledger) as book:
        return book.entry(entry).release


@dataclass
class Signals:
    """Which signal arrived, if any."""

    received: list[int] = field(default_factory=list)

    def asked(self) -> bool:
        """Whether the run should stop."""
        return bool(self.received)

    @property
    def exit_code(self) -> int:
        """128 and the number of the signal, as shells expect."""
        return 128 + self.received[0] if self.received else 1


@contextmanager
def stopping() -> Iterator[Signals]:
    """Turn the first SIGINT or SIGTERM into a request to stop after the step; a second SIGINT stops at once."""
    signals = Signals()

    def note(number: int, _frame: object) -> None:
        if signals.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        signals.received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shown_to_the_curator() -> Iterator[None]:
    """Print warnings about private records on the screen, where nothing keeps them."""
    from understudy.errors import CuratorWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", CuratorWarning)
        plain = warnings.showwarning

        def shown(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, CuratorWarning):
                err.print(f"PRIVATE, for your eyes only: {message}")
            else:
                plain(message, category, *rest)

        warnings.showwarning = shown  # type: ignore[assignment]
        yield


def skipping_damaged(schema: Schema, skip: bool) -> Schema:
    """The schema that leaves damaged files out, if `--skip-damaged` asks for it.

    Raises:
        SchemaError: it describes no images.
    """
    from understudy.errors import SchemaError
    from understudy.schema import ImageSchema

    if not skip:
        return schema
    if not isinstance(schema, ImageSchema):
        raise SchemaError(f"--skip-damaged is for files of images, and the schema describes {schema.kind}.")
    return replace(schema, skip_damaged=True)
