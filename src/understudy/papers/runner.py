"""Runs a study: every job with every seed, each result in a file of its own, finished ones never again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from understudy.codec import from_json, to_json
from understudy.data import Records, known
from understudy.encode import encode
from understudy.errors import DataError, UnderstudyError
from understudy.fitting import Progress, fit
from understudy.images import Images
from understudy.papers.measuring import Material, Value, measured
from understudy.planning import Plan, plan

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.data import Dataset
    from understudy.papers.study import Job, Study
    from understudy.release import Release
    from understudy.schema import Schema

__all__ = ["PER_CLASS", "LossPoint", "Outcome", "Stage", "run_study"]

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
class Outcome:
    """The result of one job with one seed, as it is kept on disk.

    Args:
        job: name of the job.
        seed: its seed.
        fingerprint: of everything that the result depends on.
        epsilon: certified for this very run; None for real rows and for baselines without noise.
        steps: steps taken.
        noise_multiplier: σ.
        seconds: how long it took.
        values: the scores by name.
        losses: the curve of the losses, of runs without privacy only.
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


@dataclass(frozen=True)
class Stage:
    """How far a study is: which run of how many, and which step of it."""

    name: str
    number: int
    total: int
    step: int = 0
    steps: int = 1
    skipped: bool = False


Told = Callable[[Stage], None]


def run_study(study: Study, out: Path, *, seeds: int = 1, told: Told | None = None) -> tuple[Outcome, ...]:
    """Run what is not finished yet and return all outcomes, in the order of jobs and seeds.

    A run is finished when its JSON file exists and its fingerprint is that of the job; anything else is run anew.
    Runs are seeded so that they can be repeated. A seeded run is not private, which does not matter for public data.

    Args:
        study: what to run.
        out: the folder; results are in `out/runs`.
        seeds: how often each job is run.
        told: called as runs start, advance and are skipped.
    """
    folder = out / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    tell = told or _silent
    pairs = [(job, seed) for job in study.jobs for seed in range(1 if job.once else seeds)]
    sets = _Sets(out / "judge")
    outcomes = []
    for number, (job, seed) in enumerate(pairs, 1):
        path = folder / f"{job.name}-{seed}.json"
        finished = _finished(path, job.fingerprint(seed))
        tell(Stage(job.name, number, len(pairs), skipped=finished is not None))
        outcomes.append(finished or _run(job, seed, path, sets, _Steps(tell, job.name, number, len(pairs))))
    return tuple(outcomes)


def _finished(path: Path, fingerprint: str) -> Outcome | None:
    """The outcome on disk, if it belongs to this very job; a damaged or old file does not count."""
    try:
        outcome = from_json(Outcome, path.read_text(encoding="utf-8"), error=DataError)
    except (OSError, UnicodeDecodeError, UnderstudyError):
        return None
    return outcome if outcome.fingerprint == fingerprint else None


@dataclass(frozen=True)
class _Steps:
    """Passes the progress of one training on as stages of the study, and keeps the losses that it tells."""

    tell: Told
    name: str
    number: int
    total: int
    losses: list[LossPoint] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        self.tell(Stage(self.name, self.number, self.total, progress.done, progress.total))
        if progress.losses is not None and progress.done % max(1, progress.total // LOSS_POINTS) == 0:
            found = (progress.losses.critic, progress.losses.generator)
            if all(math.isfinite(value) for value in found):
                self.losses.append(LossPoint(progress.done, *found))


def _run(job: Job, seed: int, path: Path, sets: _Sets, steps: _Steps) -> Outcome:
    started = time.monotonic()
    private, public, material = sets.of(job)
    decided: Plan | None = None
    release: Release | None = None
    if job.recipe is not None:
        decided = _plan(job, material.schema, len(private))
        release = fit(private, decided, public=public, insecure_seed=seed, told=steps)
    values = measured(job, release, material, seed)
    _keep_samples(path.with_suffix(".npz"), release, private, material.schema, seed)
    outcome = Outcome(
        job=job.name,
        seed=seed,
        fingerprint=job.fingerprint(seed),
        epsilon=None if decided is None or decided.spent is None else decided.spent.epsilon,
        steps=0 if decided is None else decided.steps,
        noise_multiplier=0.0 if decided is None else decided.recipe.noise_multiplier or 0.0,
        seconds=round(time.monotonic() - started, 2),
        values=values,
        losses=tuple(steps.losses),
    )
    part = path.with_suffix(".part")
    part.write_text(to_json(outcome), encoding="utf-8")
    part.replace(path)
    return outcome


def _plan(job: Job, schema: Schema, rows: int) -> Plan:
    assert job.recipe is not None
    most = max(1, rows // 4)
    return plan(
        schema,
        epsilon=job.epsilon,
        delta=job.delta,
        rows=rows,
        recipe=job.recipe,
        batch=most if job.recipe.batch > most else None,
        steps=job.steps,
        noise_multiplier=job.recipe.noise_multiplier if job.keep_noise else None,
    )


class _Sets:
    """Data sets that were read, cut into private, public and test rows."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._known: dict[str, Dataset] = {}

    def of(self, job: Job) -> tuple[Records, Records | None, Material]:
        """The private rows, the public ones if the job declares some, and what the job is scored with."""
        if job.dataset not in self._known:
            self._known[job.dataset] = known(job.dataset)
        found = self._known[job.dataset]
        total = len(found.train)
        rows = min(job.rows or total, total - job.public)
        private = _rows(found.train, 0, rows)
        public = _rows(found.train, total - job.public, total) if job.public else None
        train, test = (encode(part, found.schema) for part in (found.train, found.test))
        return private, public, Material(found.schema, train, test, self._cache)


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
    np.savez_compressed(path, pixels=pixels)


def _silent(stage: Stage) -> None:
    del stage
