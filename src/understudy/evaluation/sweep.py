"""Sweeps: the same recipe at several budgets and settings, for privacy-utility curves.

Every run is private on its own, but a curve reads real test rows and so is internal, and publishing the best of
several runs costs more than one run: `selection_cost` says how much (Papernot and Steinke 2022, with a random
number of runs).

Runs are independent processes. Each writes its outcome under a name that is made of its setting, so a sweep
that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import multiprocessing
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from understudy import codec
from understudy.engine.clipping import Clipping, GlobalClip, JointClip, MicrobatchClip, SeparateClip
from understudy.errors import EvaluationError, PlanError, RecipeError
from understudy.evaluation.learners import Learner, prior_predictor, train
from understudy.evaluation.run import ReleaseSource, labelled
from understudy.evaluation.scores import accuracy, macro_auroc
from understudy.planning import Plan, plan
from understudy.privacy.accounting import select_best, spent
from understudy.recipes import Recipe, find_recipe
from understudy.recipes.parts import ConvCritic, DeconvGenerator, DenseCritic, DenseGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from understudy.evaluation.utility import Labelled
    from understudy.schema import Schema

__all__ = [
    "Change",
    "CurvePoint",
    "Limits",
    "Outcome",
    "Setting",
    "Sweep",
    "curve_points",
    "grid",
    "run_sweep",
]
__all__ += ["selection_cost"]

KNOWN = ("noise_multiplier", "steps", "batch", "clip", "capacity")


@dataclass(frozen=True)
class Change:
    """One varied setting."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.value:g}"


@dataclass(frozen=True)
class Setting:
    """One run of a sweep."""

    epsilon: float
    changes: tuple[Change, ...]
    repeat: int

    def __str__(self) -> str:
        return " ".join([f"ε={self.epsilon:g}", *map(str, self.changes), f"#{self.repeat + 1}"])

    @property
    def label(self) -> str:
        """The varied settings without ε and repeat: what one curve is made of."""
        return " ".join(map(str, self.changes)) or "as the recipe says"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What all runs share.

    Args:
        data: private training records: a path or the name of a known set.
        test: real test records, likewise.
        schema: of both.
        recipe: what is varied.
        delta: of every run.
        rows: the public number of training rows, or None.
        learner: the classifier whose scores are drawn.
    """

    data: str
    test: str
    schema: Schema
    recipe: Recipe
    delta: float
    rows: int | None
    learner: Learner = Learner.LOGISTIC_REGRESSION


@dataclass(frozen=True)
class Outcome:
    """What one run reached."""

    setting: Setting
    spent_epsilon: float
    accuracy: float
    macro_auroc: float


@dataclass(frozen=True)
class Limits:
    """Scores of the same classifier on real training rows, and of a predictor that knows class shares only."""

    ceiling_accuracy: float
    ceiling_macro_auroc: float
    floor_accuracy: float
    floor_macro_auroc: float


@dataclass(frozen=True)
class CurvePoint:
    """A point of a curve: the mean over repeats with its 95 % interval (NaN ends for a single run)."""

    epsilon: float
    value: float
    low: float
    high: float
    runs: int


def grid(epsilons: Sequence[float], vary: Mapping[str, Sequence[float]], repeats: int) -> tuple[Setting, ...]:
    """Every combination, repeats innermost.

    Raises:
        PlanError: nothing to run, or a name that cannot be varied.
    """
    unknown = [name for name in vary if name not in KNOWN]
    if unknown:
        raise PlanError(f"{unknown[0]!r} cannot be varied; known are {', '.join(KNOWN)}.")
    if not epsilons or repeats < 1 or not all(vary.values()):
        raise PlanError("a sweep needs at least one ε, one value of everything varied, and one repeat.")
    combinations = itertools.product(
        *([Change(name, value) for value in values] for name, values in vary.items())
    )
    return tuple(
        Setting(epsilon, changes, repeat)
        for epsilon, changes, repeat in itertools.product(epsilons, list(combinations), range(repeats))
    )


def planned(sweep: Sweep, setting: Setting) -> Plan:
    """The plan of one run."""
    values = {change.name: change.value for change in setting.changes}
    recipe = sweep.recipe
    if "clip" in values:
        recipe = _with_clip(recipe, values["clip"])
    if "capacity" in values:
        recipe = _with_capacity(recipe, int(values["capacity"]))
    return plan(
        sweep.schema,
        epsilon=setting.epsilon,
        delta=sweep.delta,
        rows=sweep.rows,
        recipe=recipe,
        batch=int(values["batch"]) if "batch" in values else None,
        noise_multiplier=values.get("noise_multiplier"),
        steps=int(values["steps"]) if "steps" in values else None,
    )


def selection_cost(sweep: Sweep, settings: Sequence[Setting]) -> float:
    """ε of publishing the best of these runs, their number drawn at random with this mean; the dearest run counts.

    Raises:
        EvaluationError: there are no runs.
    """
    if not settings:
        raise EvaluationError("there are no runs to choose from.")
    different = {planned(sweep, setting).charges for setting in settings}
    return max(
        spent(select_best(charges, float(len(settings))), sweep.delta).epsilon for charges in different
    )


def run_sweep(
    sweep: Sweep,
    settings: Sequence[Setting],
    folder: Path,
    *,
    workers: int,
    told: Callable[[Setting, float], None] | None = None,
) -> tuple[tuple[Outcome, ...], Limits]:
    """Run what is not yet in the folder, a process each, and return everything.

    Args:
        sweep: what the runs share.
        settings: the runs.
        folder: outcomes and releases; private, since outcomes read real rows.
        workers: processes at a time.
        told: called with a setting and its finished share.
    """
    folder.mkdir(parents=True, exist_ok=True)
    limits = _limits(sweep, folder)
    waiting = [setting for setting in settings if not _path(sweep, setting, folder).exists()]
    for setting in settings:
        if told is not None and setting not in waiting:
            told(setting, 1.0)
    if waiting:
        _run_all(sweep, waiting, folder, workers, told)
    return tuple(_read(_path(sweep, setting, folder)) for setting in settings), limits


def curve_points(outcomes: Sequence[Outcome], score: str) -> dict[str, tuple[CurvePoint, ...]]:
    """For each combination of varied settings, the score over ε."""
    found: dict[str, dict[float, list[float]]] = {}
    for outcome in outcomes:
        at = found.setdefault(outcome.setting.label, {})
        at.setdefault(outcome.setting.epsilon, []).append(float(getattr(outcome, score)))
    return {
        label: tuple(_point(epsilon, values) for epsilon, values in sorted(points.items()))
        for label, points in found.items()
    }


def _point(epsilon: float, values: list[float]) -> CurvePoint:
    mean, runs = float(np.mean(values)), len(values)
    if runs == 1:
        return CurvePoint(epsilon, mean, math.nan, math.nan, 1)
    half = float(stats.t.ppf(0.975, runs - 1)) * float(np.std(values, ddof=1)) / math.sqrt(runs)
    return CurvePoint(epsilon, mean, max(0.0, mean - half), min(1.0, mean + half), runs)


def _run_all(
    sweep: Sweep,
    settings: Sequence[Setting],
    folder: Path,
    workers: int,
    told: Callable[[Setting, float], None] | None,
) -> None:
    context = multiprocessing.get_context("spawn")
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(min(workers, len(settings)), mp_context=context) as pool,
    ):
        news: Any = manager.Queue()
        running = {pool.submit(_run_one, sweep, setting, folder, news) for setting in settings}
        try:
            while running:
                finished, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                while not news.empty():
                    setting, share = news.get()
                    if told is not None:
                        told(setting, share)
                for future in finished:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_one(sweep: Sweep, setting: Setting, folder: Path, news: Any) -> None:
    """One run in its own process: plan, fit, save, score, and only then the outcome file."""
    import shutil

    import torch

    from understudy.fitting import fit

    torch.set_num_threads(1)
    made = planned(sweep, setting)
    every = max(1, made.steps // 50)

    def told(progress: Any) -> None:
        if progress.done % every == 0:
            news.put((setting, 0.95 * progress.done / made.steps))

    release = fit(sweep.data, made, told=told)
    path = _path(sweep, setting, folder)
    saved = path.with_suffix(".release")
    shutil.rmtree(saved, ignore_errors=True)
    release.save(saved)
    test = _rows(sweep.test, sweep.schema)
    drawn = ReleaseSource(release).draw(sweep.rows or len(test), setting.repeat)
    reached = _scores(sweep.learner, drawn, test, setting.repeat)
    assert made.spent is not None
    outcome = Outcome(setting, made.spent.epsilon, *reached)
    part = path.with_suffix(".part")
    part.write_text(codec.to_json(outcome), encoding="utf-8")
    part.replace(path)
    news.put((setting, 1.0))


def _limits(sweep: Sweep, folder: Path) -> Limits:
    path = folder / f"limits-{_digest(sweep)}.json"
    if not path.exists():
        real, test = _rows(sweep.data, sweep.schema), _rows(sweep.test, sweep.schema)
        top = _scores(sweep.learner, real, test, 0)
        guess = prior_predictor(test.labels, test.classes)(test.features)
        floor = accuracy(test.labels, guess), macro_auroc(test.labels, guess)
        path.write_text(codec.to_json(Limits(*top, *floor)), encoding="utf-8")
    return codec.from_json(Limits, path.read_text(encoding="utf-8"), error=EvaluationError)


def _scores(learner: Learner, rows: Labelled, test: Labelled, seed: int) -> tuple[float, float]:
    probabilities = train(learner, rows.features, rows.labels, rows.classes, seed)(test.features)
    return accuracy(test.labels, probabilities), macro_auroc(test.labels, probabilities)


def _rows(source: str, schema: Schema) -> Labelled:
    from understudy.data import read
    from understudy.encode import encode

    return labelled(encode(read(source, schema), schema), schema)


def _read(path: Path) -> Outcome:
    return codec.from_json(Outcome, path.read_text(encoding="utf-8"), error=EvaluationError)


def _digest(*values: object) -> str:
    return hashlib.sha256("\n".join(codec.to_json(value) for value in values).encode()).hexdigest()[:16]


def _path(sweep: Sweep, setting: Setting, folder: Path) -> Path:
    return folder / f"run-{_digest(sweep, setting)}.json"


def _with_clip(recipe: Recipe, bound: float) -> Recipe:
    clipping: Clipping
    match recipe.clipping:
        case GlobalClip() | JointClip() | MicrobatchClip() as old:
            clipping = replace(old, bound=bound)
        case SeparateClip() as old:
            clipping = replace(old, real_bound=bound, fake_bound=bound)
        case other:
            raise RecipeError(
                f"recipe {recipe.name!r} clips by {other.kind!r}, which has no single bound to vary."
            )
    return replace(recipe, clipping=clipping)


def _with_capacity(recipe: Recipe, capacity: int) -> Recipe:
    def resized(network: Any) -> Any:
        match network:
            case DeconvGenerator() | ConvCritic():
                return replace(network, capacity=capacity)
            case DenseGenerator() | DenseCritic():
                return replace(network, hidden=(capacity,) * len(network.hidden))
        raise RecipeError(f"the capacity of {network!r} cannot be varied.")

    return replace(recipe, generator=resized(recipe.generator), critic=resized(recipe.critic))


def sweep_of(
    data: str, test: str, schema: Schema, recipe: str, delta: float, rows: int | None, learner: Learner
) -> Sweep:
    """A sweep, with the recipe found by name or file."""
    return Sweep(
        data=data,
        test=test,
        schema=schema,
        recipe=find_recipe(recipe),
        delta=delta,
        rows=rows,
        learner=learner,
    )
