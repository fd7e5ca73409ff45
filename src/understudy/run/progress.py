"""Training behind a progress bar that shows steps, ε spent and time left, and nothing that depends on raw data."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from understudy.escaping import for_terminal
from understudy.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from understudy.planning import Plan
    from understudy.release.release import Release
    from understudy.run.run import Progress

__all__ = ["fit_with_bar", "progress_bar", "stages_with_bar"]

_UPDATES = 20
"""How often the ε in the bar is computed anew."""

_TIMED = 10
"""Steps by which the time of a run is estimated."""


class _FirstSteps:
    """Times the first steps of a run and says once how long all of them will take."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total, self._clock = total, clock
        self._first: tuple[int, float] | None = None
        self._waiting = True

    def told(self, done: int) -> str | None:
        from understudy.run.pace import in_words

        if done and self._first is None:
            self._first = (done, self._clock())
        if not self._waiting or self._first is None or done < self._first[0] + _TIMED:
            return None
        self._waiting = False
        seconds = (self._clock() - self._first[1]) / _TIMED
        left = self._total - done
        return f"about {in_words(seconds * left)} for the other {left:,} steps, by the first {_TIMED}"


def fit_with_bar(bar: Bar, data: object, plan: Plan, **options: object) -> Release:
    """Call `fit` and move the bar; options are those of `fit`."""
    return next(stages_with_bar(bar, data, (plan,), **options))  # type: ignore[arg-type]


def stages_with_bar(
    bar: Bar,
    data: object,
    plans: Sequence[Plan],
    clock: Callable[[], float] = time.monotonic,
    losses: Path | None = None,
    **options: object,
) -> Iterator[Release]:
    """Call `fit_in_stages` and move the bar; options are those of `fit_in_stages`.

    Args:
        bar: what is moved.
        data: the records.
        plans: the stages.
        clock: seconds, for tests.
        losses: a CSV file that gets the losses, of a run that is not private.
        options: all others.
    """
    from understudy.run.fit import fit_in_stages

    plan = plans[-1]
    total, pace = plan.steps, _FirstSteps(plan.steps, clock)
    task = bar.add_task(f"training {plan.recipe.name}", total=total, note="")
    every = max(1, total // _UPDATES)
    lost: list[str] = []

    def on_progress(progress: Progress) -> None:
        bar.update(task, completed=progress.done)
        told = pace.told(progress.done)
        if told is not None:
            bar.console.print(told, highlight=False)
        if progress.done % every == 0 or progress.done == total:
            bar.update(task, note=_spent_note(plan, progress.done))
        if progress.losses is not None and losses is not None:
            lost.append(f"{progress.done},{progress.losses.critic!r},{progress.losses.generator!r}\n")

    yield from fit_in_stages(
        data,
        plans,
        on_progress=on_progress,
        watch_losses=losses is not None,
        **options,  # type: ignore[arg-type]
    )
    if losses is not None:
        write_whole(losses, "".join(["NOT PRIVATE: step,critic,generator\n", *lost]), private=True)


def _spent_note(plan: Plan, done: int) -> str:
    """ε after this many steps, as text; a recipe without a critic spends all of it before its first step."""
    from understudy.privacy.accounting import coarse_epsilon

    if plan.budget is None or plan.spent is None:
        return "NOT PRIVATE"
    if done == plan.steps or plan.sampled is None:
        return f"ε {plan.spent.epsilon:.3f}"
    charges = [
        replace(charge, mechanism=replace(plan.training, steps=done))
        if charge.mechanism is plan.training
        else charge
        for charge in plan.run_charges
    ]
    return f"ε {coarse_epsilon(charges, plan.budget):.3f}"


class _Words(ProgressColumn):
    """A column of plain text: the description of a task, or its note."""

    def __init__(self, *, note: bool) -> None:
        super().__init__()
        self._note = note

    def render(self, task: Task) -> Text:
        return Text(for_terminal(str(task.fields["note"] if self._note else task.description)))


def progress_bar() -> Bar:
    """A progress bar on standard error: what, bar, steps, extra text, time left."""
    return Bar(
        _Words(note=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Words(note=True),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
