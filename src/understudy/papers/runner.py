"""Runs a study: every job with every seed, each result in a file of its own, finished ones never again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from understudy.codec import from_json, to_json
from understudy.data import Records, known
from understudy.errors import DataError, UnderstudyError
from understudy.evaluation.pool import in_processes
from understudy.evaluation.threads import one_thread_each
from understudy.files import replacing, write_whole
from understudy.papers.measuring import Material, Value, measured
from understudy.papers.study import Inception, Job
from understudy.planning import Plan, plan
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.run.fit import Progress, fit_in_stages
from understudy.synthesizers.protocol import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from understudy.papers.study import Study
    from understudy.release.release import Release
    from understudy.schema import Schema

__all__ = ["PER_CLASS", "LossPoint", "Outcome", "Point", "Stage", "run_study"]

PER_CLASS = 8
"""How many sample images of each class are kept for figures."""


LOSS_POINTS = 200
"""How many points of a loss curve are kept."""


@dataclass(frozen=True)
class LossPoint:
    """The losses at one step of a run without privacy."""

    step: int
    critic: float
    generator: float


@dataclass(frozen=True)
class Point:
    """What a run had reached at one of its stops, certified for the steps until there."""

    steps: int
    epsilon: float | None
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Outcome:
    """The result of one job with one seed, as it is kept on disk.

    Args:
        job: name of the job.
        seed: its seed.
        fingerprint: of everything that the result depends on.
        epsilon: certified for this very run; None for real rows and for baselines without noise.
        steps: steps taken.
        noise_multiplier: σ.
        seconds: CPU time that it took, on one core.
        values: the scores by name.
        losses: the curve of the losses, of runs without privacy only.
        points: what was reached at the job's stops.
    """

    job: str
    seed: int
    fingerprint: str
    epsilon: float | None
    steps: int
    noise_multiplier: float
    seconds: float
    values: Mapping[str, Value]
    losses: tuple[LossPoint, ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Stage:
    """News of a study: how far which run of how many is; number 0 trains the inception score's classifier."""

    name: str
    number: int
    total: int
    share: float = 0.0
    skipped: bool = False


OnProgress = Callable[[Stage], None]


@dataclass(frozen=True)
class _Run:
    """One job with one seed, and which of the study's runs it is."""

    number: int
    job: Job
    seed: int

    @property
    def name(self) -> str:
        return f"{self.job.name}-{self.seed}"

    def finished(self, out: Path) -> Outcome | None:
        """The outcome on disk, if it belongs to this very job; a damaged or old file does not count."""
        try:
            text = (out / "runs" / f"{self.name}.json").read_text(encoding="utf-8")
            outcome = from_json(Outcome, text, error=DataError)
        except (OSError, UnicodeDecodeError, UnderstudyError):
            return None
        return outcome if outcome.fingerprint == self.job.fingerprint(self.seed) else None


def run_study(
    study: Study, out: Path, *, seeds: int = 1, workers: int = 1, on_progress: OnProgress | None = None
) -> tuple[Outcome, ...]:
    """Run what is not finished yet and return all outcomes, in the order of jobs and seeds.

    A run is finished when its JSON file exists and its fingerprint is that of the job; anything else is run anew.
    Runs are seeded so that they can be repeated. A seeded run is not private, which does not matter for public data.
    Every run has one thread, so that its numbers do not depend on how many run side by side.

    Args:
        study: what to run.
        out: the folder; results are in `out/runs`.
        seeds: how often each job is run.
        workers: processes at a time; one means this process.
        on_progress: called as runs start, advance and are skipped.
    """
    (out / "runs").mkdir(parents=True, exist_ok=True)
    pairs = [(job, seed) for job in study.jobs for seed in range(1 if job.once else seeds)]
    runs = [_Run(number, job, seed) for number, (job, seed) in enumerate(pairs, 1)]
    found = {run.number: run.finished(out) for run in runs}
    waiting = [run for run in runs if found[run.number] is None]

    def tell(run: _Run, share: float, *, skipped: bool = False) -> None:
        if on_progress is not None:
            on_progress(Stage(run.name, run.number, len(runs), share, skipped))

    for run in runs:
        if found[run.number] is not None:
            tell(run, 1.0, skipped=True)
    with one_thread_each():
        _train_judges(waiting, out, tell)
        if workers == 1:
            for run in waiting:
                _make(out, run, partial(tell, run))
    if workers > 1:
        in_processes(partial(_make, out), waiting, workers=workers, on_progress=tell)
    return tuple(outcome for run in runs if (outcome := found[run.number] or run.finished(out)) is not None)


def _train_judges(waiting: Sequence[_Run], out: Path, tell: Callable[[_Run, float], None]) -> None:
    """Train each classifier behind an inception score once, before several processes ask for it."""
    wanted = {
        (run.job.dataset, score.judge_rows): run.job
        for run in waiting
        for score in run.job.scores
        if isinstance(score, Inception)
    }
    for (dataset, rows), job in wanted.items():
        shown = _Run(0, replace(job, name=f"judge-of-{dataset}", stops=()), 0)
        tell(shown, 0.0)
        _parts(job, out)[2].judge(rows, partial(tell, shown))


class _Watch:
    """Passes the progress of a training on, and keeps the losses that it tells."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._last = 0.0
        self.losses: list[LossPoint] = []

    def __call__(self, progress: Progress) -> None:
        share = progress.done / progress.total
        if share - self._last >= 0.01:
            self._tell(0.99 * share)  # scores come after the last step
            self._last = share
        if progress.losses is not None and progress.done % max(1, progress.total // LOSS_POINTS) == 0:
            found = (progress.losses.critic, progress.losses.generator)
            if all(math.isfinite(value) for value in found):
                self.losses.append(LossPoint(progress.done, *found))


def _make(out: Path, run: _Run, tell: Callable[[float], None]) -> None:
    """Train, score and write one run."""
    started = time.process_time()
    tell(0.0)
    job, seed, watch = run.job, run.seed, _Watch(tell)
    private, public, material = _parts(job, out)
    points = []
    release: Release | None = None
    if job.recipe is None:
        points.append(Point(0, None, measured(job, None, material, seed)))
    else:
        plans = _plans(job, material.schema, len(private))
        for release in fit_in_stages(private, plans, public=public, insecure_seed=seed, on_progress=watch):
            made = release.card.plan
            spent = None if made.spent is None else made.spent.epsilon
            scored = job if made == plans[-1] else replace(job, scores=job.scores[:1])
            points.append(Point(made.steps, spent, measured(scored, release, material, seed)))
    _keep_samples(out / "runs" / f"{run.name}.npz", release, private, material.schema, seed)
    last = points.pop()
    outcome = Outcome(
        job=job.name,
        seed=seed,
        fingerprint=job.fingerprint(seed),
        epsilon=last.epsilon,
        steps=last.steps,
        noise_multiplier=_noise(release),
        seconds=round(time.process_time() - started, 2),
        values=last.values,
        losses=tuple(watch.losses),
        points=tuple(points),
    )
    write_whole(out / "runs" / f"{run.name}.json", to_json(outcome))
    tell(1.0)


def _noise(release: Release | None) -> float:
    """The noise multiplier of a run's private steps; 0 without any."""
    made = None if release is None else release.card.plan
    return 0.0 if made is None or made.sampled is None else made.training.noise_multiplier


def _plans(job: Job, schema: Schema, rows: int) -> tuple[Plan, ...]:
    """The plan of the run after those of its stops, all with the noise of the whole run."""
    assert job.recipe is not None
    most = max(1, rows // 4)
    made = partial(plan, schema, epsilon=job.epsilon, delta=job.delta, rows=rows, recipe=job.recipe)
    sampled = [one for one in job.recipe.releases(schema, rows) if isinstance(one, Steps)]
    if sampled and sampled[0].batch > most:
        made = partial(made, batch=most)
    kept = sampled[0].noise_multiplier if sampled and job.keep_noise else None
    last = made(steps=job.steps, noise_multiplier=kept)
    noise = None if last.sampled is None else last.training.noise_multiplier or None
    return (*(made(steps=stop, noise_multiplier=noise) for stop in job.stops), last)


def _parts(job: Job, out: Path) -> tuple[Records, Records | None, Material]:
    """The private rows, the public ones if the job declares some, and what the job is scored with."""
    found = known(job.dataset)
    total = len(found.train)
    private = _rows(found.train, 0, min(job.rows or total, total - job.public))
    public = _rows(found.train, total - job.public, total) if job.public else None
    train, test = (encode(part, found.schema) for part in (found.train, found.test))
    return private, public, Material(found.schema, train, test, out / "judge")


def _rows(records: Records, start: int, stop: int) -> Records:
    """Some of the rows, in order."""
    content = records.content
    if isinstance(content, Images):
        labels = None if content.labels is None else content.labels[start:stop]
        return Records(Images(content.pixels[start:stop], labels))
    return Records(content.iloc[start:stop].reset_index(drop=True))


def _keep_samples(path: Path, release: Release | None, real: Records, schema: Schema, seed: int) -> None:
    """Sample images for the figures, class by class; nothing for tables."""
    if not isinstance(real.content, Images):
        return
    classes = schema.label_classes or ()
    if release is None:
        images = real.images
        labels = np.zeros(len(images), dtype=np.int64) if images.labels is None else images.labels
        order = [
            place for c in range(max(1, len(classes))) for place in np.flatnonzero(labels == c)[:PER_CLASS]
        ]
        pixels = images.pixels[order]
    else:
        counts = None if release.schema.label_classes is None else dict.fromkeys(classes, PER_CLASS)
        drawn = release.sample(PER_CLASS * max(1, len(classes)), counts=counts, seed=seed)
        assert isinstance(drawn, Images)
        pixels = drawn.pixels
    with replacing(path) as work, work.open("wb") as file:
        np.savez_compressed(file, pixels=pixels)
