"""Runs a study: every job with every seed, each result in a file of its own, finished ones never again.

A long run keeps its state on the way and goes on from there when the study is started again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from understudy.codec import from_json, to_json
from understudy.data import Records, known
from understudy.errors import DataError, UnderstudyError
from understudy.evaluation.pool import in_processes
from understudy.evaluation.threads import one_thread_each
from understudy.files import replacing, write_whole
from understudy.papers.measuring import Material, measured
from understudy.papers.outcomes import Begun, LossPoint, Outcome, Point
from understudy.papers.study import Inception, Job, updates_of
from understudy.planning import Plan, plan
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.run.checkpoint import Checkpoints
from understudy.run.devices import Device
from understudy.run.fit import Progress, fit_in_stages, stages_of
from understudy.synthesizers.protocol import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from understudy.papers.study import Study
    from understudy.release.release import Release
    from understudy.schema import Schema

__all__ = ["PER_CLASS", "Stage", "finished_runs", "run_study"]

PER_CLASS = 8
"""How many sample images of each class are kept for figures."""


LOSS_POINTS = 200
"""How many points of a loss curve are kept."""

KEPT_EVERY = 200
"""Steps between two states of a run on disk."""

_PUBLIC_ORDER = 20
"""Seed of the order in which rows are split into private and public ones. MNIST is ordered by writer, so that its last
rows are by few hands."""


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

    def begun(self, out: Path) -> Begun:
        """What an interruption left of this very job; nothing, with nothing lying about, if it left nothing of use."""
        fingerprint = self.job.fingerprint(self.seed)
        try:
            found = from_json(Begun, self._file(out, "begun").read_text(encoding="utf-8"), error=DataError)
        except (OSError, UnicodeDecodeError, UnderstudyError):
            found = Begun("")
        if found.fingerprint == fingerprint and self.state(out).is_file():
            return found
        self.forget(out)
        return Begun(fingerprint)

    def keep(self, out: Path, begun: Begun) -> None:
        write_whole(self._file(out, "begun"), to_json(begun))

    def forget(self, out: Path) -> None:
        for path in (self._file(out, "begun"), self.state(out)):
            path.unlink(missing_ok=True)

    def state(self, out: Path) -> Path:
        """Where its checkpoint is."""
        return self._file(out, "checkpoint")

    def _file(self, out: Path, ending: str) -> Path:
        return out / "runs" / f"{self.name}.{ending}"


def finished_runs(study: Study, out: Path, seeds: int) -> tuple[Outcome, ...]:
    """The outcomes that are on disk already, in the order of jobs and seeds."""
    found = (run.finished(out) for run in _runs(study, seeds))
    return tuple(outcome for outcome in found if outcome is not None)


def _runs(study: Study, seeds: int) -> list[_Run]:
    pairs = [(job, seed) for job in study.jobs for seed in range(1 if job.once else seeds)]
    return [_Run(number, job, seed) for number, (job, seed) in enumerate(pairs, 1)]


def run_study(
    study: Study,
    out: Path,
    *,
    seeds: int = 1,
    workers: int = 1,
    device: Device = Device.CPU,
    on_progress: OnProgress | None = None,
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
        device: where networks are trained.
        on_progress: called as runs start, advance and are skipped.
    """
    (out / "runs").mkdir(parents=True, exist_ok=True)
    runs = _runs(study, seeds)
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
                _make(out, device, run, partial(tell, run))
    if workers > 1:
        in_processes(partial(_make, out, device), waiting, workers=workers, on_progress=tell)
    return finished_runs(study, out, seeds)


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
    """Passes the progress of a training on, and keeps on disk what it has to show so far."""

    def __init__(self, run: _Run, out: Path, tell: Callable[[float], None]) -> None:
        self._run, self._out, self._tell = run, out, tell
        self._last = 0.0
        self._begun = run.begun(out)
        self._started = time.process_time()

    @property
    def seconds(self) -> float:
        """CPU time of this run, those before interruptions included."""
        return self._begun.seconds + time.process_time() - self._started

    @property
    def losses(self) -> tuple[LossPoint, ...]:
        return self._begun.losses

    @property
    def points(self) -> tuple[Point, ...]:
        return self._begun.points

    def reached(self, point: Point) -> None:
        """A stage is scored."""
        self._begun = replace(self._begun, points=(*self.points, point))
        self._keep()

    def __call__(self, progress: Progress) -> None:
        share = progress.done / progress.total
        if share - self._last >= 0.01:
            self._tell(0.99 * share)  # scores come after the last step
            self._last = share
        if (
            self._run.job.losses
            and progress.losses is not None
            and progress.done % max(1, progress.total // LOSS_POINTS) == 0
        ):
            self._lose(progress.done, progress.losses.critic, progress.losses.generator)
        if progress.done % KEPT_EVERY == 0:
            self._keep()

    def _lose(self, step: int, critic: float, generator: float) -> None:
        new = not self.losses or self.losses[-1].step < step
        if new and math.isfinite(critic) and math.isfinite(generator):
            self._begun = replace(self._begun, losses=(*self.losses, LossPoint(step, critic, generator)))

    def _keep(self) -> None:
        self._run.keep(self._out, replace(self._begun, seconds=self.seconds))


def _make(out: Path, device: Device, run: _Run, tell: Callable[[float], None]) -> None:
    """Train, score and write one run."""
    tell(0.0)
    job, seed, watch = run.job, run.seed, _Watch(run, out, tell)
    private, public, material = _parts(job, out)
    release: Release | None = None
    if job.recipe is None:
        watch.reached(Point(0, None, measured(job, None, material, seed)))
    else:
        plans = _plans(job, material.schema, len(private))
        state = run.state(out)
        kept = Checkpoints(state, KEPT_EVERY, resume=state.is_file())
        for release in fit_in_stages(
            private,
            plans,
            public=public,
            checkpoints=kept,
            insecure_seed=seed,
            device=device,
            watch_losses=job.losses,
            on_progress=watch,
        ):
            made = release.card.plan
            if all(point.steps != made.steps for point in watch.points):
                spent = None if made.spent is None else made.spent.epsilon
                scored = job if made == plans[-1] else replace(job, scores=job.scores[:1])
                watch.reached(Point(made.steps, spent, measured(scored, release, material, seed)))
    _keep_samples(out / "runs" / f"{run.name}.npz", release, private, material.schema, seed)
    *points, last = watch.points
    outcome = Outcome(
        job=job.name,
        seed=seed,
        fingerprint=job.fingerprint(seed),
        epsilon=last.epsilon,
        steps=last.steps,
        noise_multiplier=_noise(release),
        seconds=round(watch.seconds, 2),
        values=last.values,
        losses=watch.losses,
        points=tuple(points),
        updates=updates_of(job.recipe, last.steps),
        date=datetime.now(UTC).date().isoformat(),
    )
    write_whole(out / "runs" / f"{run.name}.json", to_json(outcome))
    run.forget(out)
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
    return stages_of(made(steps=job.steps, noise_multiplier=kept), job.stops)


def _parts(job: Job, out: Path) -> tuple[Records, Records | None, Material]:
    """The private rows, the public ones if the job declares some, and what the job is scored with.

    Which rows are public is drawn at random, by one public seed for all jobs.
    """
    found = known(job.dataset)
    total = len(found.train)
    order = np.random.default_rng(_PUBLIC_ORDER).permutation(total)
    kept = np.sort(order[: total - job.public]) if job.public else np.arange(total)
    declared = order[total - job.public :]
    private = _rows(found.train, kept[: job.rows])
    public = _rows(found.train, declared) if job.public else None
    train, test = (encode(part, found.schema) for part in (found.train, found.test))
    few = None if public is None else encode(public, found.schema)
    return private, public, Material(found.schema, train, test, out / "judge", few)


def _rows(records: Records, chosen: npt.NDArray[np.int64]) -> Records:
    """Some of the rows."""
    content = records.content
    if isinstance(content, Images):
        labels = None if content.labels is None else content.labels[chosen]
        return Records(Images(content.pixels[chosen], labels))
    return Records(content.iloc[chosen].reset_index(drop=True))


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
