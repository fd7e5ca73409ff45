"""What a reproduction consists of, as frozen values: jobs, the scores they are given, tables and figures."""

from __future__ import annotations

import enum
import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from understudy.codec import to_plain
from understudy.errors import PlanError
from understudy.synthesizers.gan.recipe import GanRecipe

if TYPE_CHECKING:
    from understudy.papers.classifiers import Learner
    from understudy.synthesizers.protocol import Recipe

__all__ = [
    "AnyTable",
    "Classified",
    "CodeFidelity",
    "Curve",
    "CurvesFigure",
    "GenerateScoreTable",
    "GridFigure",
    "Inception",
    "IterationsTable",
    "JensenShannon",
    "Job",
    "Line",
    "LossFigure",
    "Metric",
    "NoiseTable",
    "Score",
    "SemiSupervised",
    "Study",
    "Table",
    "steps_for",
    "updates_of",
]

T = TypeVar("T")


class Metric(enum.Enum):
    """How predicted classes are scored."""

    MICRO = "micro AuROC"
    MACRO = "macro AuROC"
    HARD_MICRO = "micro AuROC of hard labels"  # the thyroid notebook's; high for a constant predictor


@dataclass(frozen=True)
class Classified:
    """A classifier trained on synthetic rows alone and tested on real ones."""

    kind: ClassVar[str] = "classified"
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    learner: Learner
    metric: Metric

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"{self.learner.value}: {self.metric.value}"


@dataclass(frozen=True)
class Inception:
    """The inception score by a classifier of the data's own domain.

    Args:
        splits: 10 as in dp-gan, or 1 as in the curves of small-images.
        judge_rows: how many real training rows the classifier learns from, None for all.
    """

    kind: ClassVar[str] = "inception"
    limits: ClassVar[tuple[float, float]] = (1.0, math.inf)
    splits: int = 10
    judge_rows: int | None = None

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"inception score, {self.splits} split{'s' if self.splits > 1 else ''}"


@dataclass(frozen=True)
class JensenShannon:
    """The dp-gan paper's score of unlabelled images; 0 is best."""

    kind: ClassVar[str] = "jensen-shannon"
    limits: ClassVar[tuple[float, float]] = (0.0, math.inf)
    name: ClassVar[str] = "Jensen-Shannon score"


@dataclass(frozen=True)
class SemiSupervised:
    """Accuracy of a classifier of few labelled images that is helped by synthetic ones (Algorithm 4 of dp-gan)."""

    kind: ClassVar[str] = "semi-supervised"
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    labelled: int
    steps: int = 600

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"semi-supervised accuracy, {self.labelled} labelled"


@dataclass(frozen=True)
class CodeFidelity:
    """How well generated code vectors agree with real ones.

    Args:
        name: a key of `understudy.papers.measuring.CODE_MEASURES`.
    """

    kind: ClassVar[str] = "codes"
    name: str = "prevalence correlation"

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value that it can have."""
        return (-1.0, 1.0) if "correlation" in self.name else (0.0, math.inf)


Score = Classified | Inception | JensenShannon | SemiSupervised | CodeFidelity


@dataclass(frozen=True)
class Job:
    """One thing to train and to score; the runner repeats it with several seeds.

    Args:
        name: unique in its study, and a file name.
        dataset: a known data set.
        recipe: what is trained; None scores real training rows in the place of synthetic ones.
        epsilon: the budget, or None for a baseline without privacy.
        scores: what is measured.
        steps: critic steps, the noise then follows from the budget; None takes the recipe's noise and as many steps
            as the budget allows.
        rows: use this many training rows, None for all.
        public: this many further training rows are declared public and kept out of the private ones.
        drawn: synthetic rows that are scored.
        delta: the budget's δ.
        keep_noise: with `steps`, keep the recipe's noise as well; the run then costs what it costs, up to `epsilon`.
        once: run with the first seed only; for comparisons that would take too long with every seed.
        losses: keep the losses; of a private run, too, which is seeded, on public data, and NOT PRIVATE.
        stops: steps before the last one after which the generator is released as well and given the first score,
            each release certified for its own steps: the points of a curve from one run.
    """

    name: str
    dataset: str
    recipe: Recipe | None
    epsilon: float | None
    scores: tuple[Score, ...]
    steps: int | None = None
    rows: int | None = None
    public: int = 0
    drawn: int = 10_000
    delta: float = 1e-5
    keep_noise: bool = False
    once: bool = False
    stops: tuple[int, ...] = ()
    losses: bool = False

    def __post_init__(self) -> None:
        if self.stops and (self.steps is None or self.stops[-1] >= self.steps):
            raise PlanError(f"job {self.name!r}: stops {self.stops} need a known number of steps after them.")

    @property
    def taken(self) -> int:
        """How many steps it takes; none for real rows, and where the budget decides, none that are known yet."""
        return self.steps or (self.recipe.steps if self.recipe is not None else None) or 0

    def fingerprint(self, seed: int) -> str:
        """Changes whenever anything that the result depends on changes."""
        text = json.dumps([to_plain(self), seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Line:
    """A line of a table: the paper's value beside ours.

    Args:
        label: the paper's name of the setting.
        job: whose results are shown; None where nothing could be run.
        score: which of its scores.
        paper: the printed value, None if the paper prints none.
        claim: (paper, setting) in the table of claims, for the claimed and the certified ε of the paper's run.
        remark: what a reader must know.
        stop: show what the job had reached after this many steps; None for its end.
    """

    label: str
    job: str | None
    score: Score
    paper: float | None = None
    claim: tuple[str, str] | None = None
    remark: str = ""
    stop: int | None = None


@dataclass(frozen=True)
class Table:
    """A table of a paper, made again."""

    name: str
    title: str
    lines: tuple[Line, ...]
    remark: str = ""


@dataclass(frozen=True)
class GenerateScoreTable:
    """The ppgan paper's generate score |IS - mean| / (max - min) over a set of jobs, beside the inception score."""

    name: str
    title: str
    jobs: tuple[str, ...]
    score: Inception
    remark: str = ""


@dataclass(frozen=True)
class IterationsTable:
    """Table 7 of the dp-gan paper: a calculation, no training."""

    name: str
    title: str
    remark: str = ""


@dataclass(frozen=True)
class NoiseTable:
    """The closed formula of the ppgan paper beside what the accountant certifies for it: no training."""

    name: str
    title: str
    remark: str = ""


AnyTable = Table | GenerateScoreTable | IterationsTable | NoiseTable


@dataclass(frozen=True)
class GridFigure:
    """Sample images of a job, by class where there are classes."""

    name: str
    title: str
    job: str


@dataclass(frozen=True)
class Curve:
    """One curve: a job with its stops."""

    label: str
    job: str


@dataclass(frozen=True)
class CurvesFigure:
    """A score against the certified ε."""

    name: str
    title: str
    score: Score
    curves: tuple[Curve, ...]
    levels: tuple[Curve, ...] = ()
    """Horizontal lines: jobs without an ε, such as real rows."""


@dataclass(frozen=True)
class LossFigure:
    """The losses of critic and generator along a run that is NOT PRIVATE."""

    name: str
    title: str
    job: str


AnyFigure = GridFigure | CurvesFigure | LossFigure


@dataclass(frozen=True)
class Study:
    """All that is reproduced of one paper."""

    paper: str
    title: str
    jobs: tuple[Job, ...]
    tables: tuple[AnyTable, ...]
    figures: tuple[AnyFigure, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = {job.name for job in self.jobs}
        if len(names) != len(self.jobs):
            raise PlanError(f"study {self.paper!r}: two jobs have the same name.")
        missing = _mentioned(self) - names
        if missing:
            raise PlanError(f"study {self.paper!r} shows jobs that it does not run: {sorted(missing)}.")
        watched = {job.name for job in self.jobs if job.losses}
        for figure in self.figures:
            if isinstance(figure, LossFigure) and figure.job not in watched:
                raise PlanError(f"study {self.paper!r}: {figure.job!r} keeps no losses that could be shown.")

    def runs(self, seeds: int) -> int:
        """How many trainings and scorings there are."""
        return sum(1 if job.once else seeds for job in self.jobs)


def updates_of(recipe: Recipe | None, steps: int) -> int:
    """How often the generator is updated in so many steps of a recipe."""
    return steps // _critic_steps(recipe)


def steps_for(recipe: Recipe, updates: int) -> int:
    """The steps in which the generator is updated so often: comparisons are fair at matched updates."""
    return updates * _critic_steps(recipe)


def _critic_steps(recipe: Recipe | None) -> int:
    return recipe.critic_steps if isinstance(recipe, GanRecipe) else 1


def _mentioned(study: Study) -> set[str]:
    found: set[str] = set()
    for table in study.tables:
        if isinstance(table, GenerateScoreTable):
            found |= set(table.jobs)
        elif isinstance(table, Table):
            found |= {line.job for line in table.lines if line.job is not None}
    for figure in study.figures:
        if isinstance(figure, CurvesFigure):
            found |= {curve.job for curve in (*figure.curves, *figure.levels)}
        else:
            found.add(figure.job)
    return found
