"""`evaluate`: everything that can be measured about a release, from the release and explicit real rows.

Synthetic records are drawn from the release in here. `test` are real rows kept away from training;
`reference` are the real training rows, needed for ceilings and for closeness. The two must not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pandas as pd

from understudy.calling import explained
from understudy.data import read
from understudy.errors import EvaluationError
from understudy.evaluation.closeness import closeness
from understudy.evaluation.codes import code_fidelity, code_marginals
from understudy.evaluation.familiar import sdmetrics_installed, sdmetrics_scores
from understudy.evaluation.layout import Layout
from understudy.evaluation.result import Evaluation, Measure
from understudy.evaluation.tables import marginals, table_correlations, table_fidelity, validity
from understudy.evaluation.threads import usable_cores
from understudy.evaluation.utility import IMAGE_LEARNERS, TABLE_LEARNERS, Labelled, utility
from understudy.records.encode import decode, encode
from understudy.records.images import Images
from understudy.release.release import release_of
from understudy.schema import CodeSchema, ImageSchema, Schema, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.evaluation.intervals import Progress
    from understudy.evaluation.learners import Learner
    from understudy.records.encode import Encoded

__all__ = ["Evaluated", "ReleaseSource", "evaluate"]

PUBLIC_ROWS = 1_000
"""Synthetic rows behind a measure that may be published: a constant, because any other number tells real rows."""


class Held(Protocol):
    """Records as readers return them."""

    @property
    def content(self) -> pd.DataFrame | Images:
        """The table or the images."""
        ...


Rows: TypeAlias = pd.DataFrame | Images | Held


class Evaluated(Protocol):
    """What is evaluated: a `Release`, or anything else that knows its schema and can be sampled."""

    @property
    def schema(self) -> Schema:
        """The public description of the records it makes."""
        ...

    def sample(self, rows: int, *, seed: int | None = None) -> pd.DataFrame | Images:
        """Fresh synthetic records."""
        ...


@dataclass(frozen=True, eq=False)
class ReleaseSource:
    """A release as a source of labelled synthetic rows.

    Args:
        release: what is sampled.
        drawn: rows that were sampled already, and the seed that gives them.
    """

    release: Evaluated
    drawn: tuple[int, pd.DataFrame | Images] | None = None

    def draw(self, rows: int, seed: int) -> Labelled:
        """Sample, then encode with the release's own schema."""
        if self.drawn is not None and (seed, rows) == (self.drawn[0], len(self.drawn[1])):
            made = self.drawn[1]
        else:
            made = self.release.sample(rows, seed=seed)
        return labelled(encode(made, self.release.schema), self.release.schema)


def labelled(encoded: Encoded, schema: Schema) -> Labelled:
    """Encoded rows with their classes; EvaluationError if the schema has no label."""
    if encoded.labels is None or schema.label_classes is None:
        raise EvaluationError("utility needs a label, and the schema declares none.")
    return Labelled(encoded.x, encoded.labels, len(schema.label_classes))


@explained("understudy.evaluate(release, test_rows, reference=training_rows)")
def evaluate(
    release: Evaluated | str | Path,
    test: Rows | str | Path,
    *,
    reference: Rows | str | Path | None = None,
    rows: int | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    learners: Sequence[Learner] | None = None,
    augment: bool = False,
    few: Sequence[int] = (),
    cache: Path | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Measure utility, fidelity and closeness of a release.

    Args:
        release: what synthetic records are drawn from, or the path of a release's folder.
        test: real rows that training never saw, or where they are.
        reference: the real training rows, for ceilings, the domain classifier and closeness; None leaves
            these out.
        rows: synthetic rows to draw; as many as reference (or test) rows by default.
        seeds: of the draws and of the classifiers.
        learners: the classifiers; chosen by the kind of data by default.
        augment: also train on real and synthetic rows together.
        few: numbers of labelled reference images for the semi-supervised task of the dp-gan paper; images only.
        cache: a private folder for the domain classifier and the ceilings.
        workers: trainings at a time, as many as cores by default; the numbers do not depend on it.
        on_progress: called with what is being done and the finished share.
    """
    if isinstance(release, str | Path):
        release = release_of(release)
    schema = release.schema
    real = encode(_rows(test, schema), schema)
    trained_on = None if reference is None else encode(_rows(reference, schema), schema)
    if few and trained_on is None:
        raise EvaluationError(
            "the semi-supervised task takes its labelled images from the reference rows: give some."
        )
    rows = rows or len(trained_on if trained_on is not None else real)
    steps = _Steps(on_progress)
    measures: list[Measure] = []
    drawn = release.sample(rows, seed=seeds[0])
    if schema.label_classes is not None:
        measures += utility(
            ReleaseSource(release, (seeds[0], drawn)),
            labelled(real, schema),
            reference=None if trained_on is None else labelled(trained_on, schema),
            learners=learners or (IMAGE_LEARNERS if isinstance(schema, ImageSchema) else TABLE_LEARNERS),
            rows=rows,
            seeds=seeds,
            augment=augment,
            cache=cache,
            workers=workers or usable_cores(),
            on_progress=steps.part(0.0, 0.6),
        )
    if few and trained_on is not None:
        measures += _semi_supervised(release, labelled(trained_on, schema), labelled(real, schema), few)
    if isinstance(schema, TableSchema):
        valid = release.sample(PUBLIC_ROWS, seed=seeds[0])
        assert isinstance(valid, pd.DataFrame)
        measures.append(validity(valid, Layout.of(schema)))
    fidelity = _fidelity(drawn, real, trained_on, schema, cache, steps)
    measures += fidelity.measures
    synthetic = encode(drawn, schema)
    if trained_on is not None:
        measures += closeness(synthetic.x, trained_on.x, real.x, on_progress=steps.part(0.9, 1.0))
    return Evaluation(
        tuple(measures),
        synthetic_rows=rows,
        test_rows=len(real),
        seed=seeds[0],
        marginals=fidelity.marginals,
        correlations=fidelity.correlations,
        pictures=fidelity.pictures,
        notes=_notes(schema, trained_on is not None, seeds),
    )


def _semi_supervised(
    release: Evaluated, reference: Labelled, test: Labelled, few: Sequence[int]
) -> tuple[Measure, ...]:
    """Algorithm 4 of dp-gan, which needs the generator's codes and so a release with weights."""
    from understudy.evaluation.semisupervised import few_labels
    from understudy.release.release import Release

    if not isinstance(release, Release):
        raise EvaluationError(
            "the semi-supervised task needs a release, whose generator shows its latent codes."
        )
    return few_labels(release, reference, test, few)


def _fidelity(
    drawn: pd.DataFrame | Images,
    real: Encoded,
    trained_on: Encoded | None,
    schema: Schema,
    cache: Path | None,
    steps: _Steps,
) -> Evaluation:
    """The fidelity measures and chart data, as an evaluation of their own."""
    if isinstance(schema, ImageSchema):
        return _of_images(encode(drawn, schema).x, real, trained_on, schema, cache, steps)
    assert isinstance(drawn, pd.DataFrame)
    on_progress = steps.part(0.6, 0.9)
    if isinstance(schema, CodeSchema):
        synthetic, others = encode(drawn, schema).x, None if trained_on is None else trained_on.x
        present = [np.asarray(x > 0, dtype=np.uint8) for x in (synthetic, real.x)]
        known = None if others is None else np.asarray(others > 0, dtype=np.uint8)
        measures = code_fidelity(present[0], present[1], reference=known, on_progress=on_progress)
        chart = code_marginals(present[0], present[1], schema.codes)
        return Evaluation(measures, len(drawn), len(real), 0, marginals=(chart,))
    layout = Layout.of(schema)
    test, known_rows = _frame(real, schema), None if trained_on is None else _frame(trained_on, schema)
    measures = table_fidelity(drawn, test, layout, reference=known_rows, on_progress=on_progress)
    if sdmetrics_installed():
        measures += sdmetrics_scores(drawn, test, layout, known_rows)
    return Evaluation(
        measures,
        len(drawn),
        len(real),
        0,
        marginals=marginals(drawn, test, layout),
        correlations=table_correlations(drawn, test, layout),
    )


def _of_images(
    synthetic: np.ndarray,
    real: Encoded,
    trained_on: Encoded | None,
    schema: ImageSchema,
    cache: Path | None,
    steps: _Steps,
) -> Evaluation:
    from understudy.evaluation.domain import domain_classifier
    from understudy.evaluation.image_fidelity import discriminator_score, image_fidelity, neighbour_pictures

    known = real if trained_on is None else trained_on
    others = None if trained_on is None else trained_on.x
    if schema.classes is None:
        measures: tuple[Measure, ...] = (discriminator_score(synthetic, real.x, reference=others),)
    else:
        tell = steps.part(0.6, 0.8)
        judge = domain_classifier(
            labelled(known, schema), cache=cache, on_progress=lambda share: tell("domain classifier", share)
        )
        measures = image_fidelity(
            synthetic, real.x, judge, reference=others, on_progress=steps.part(0.8, 0.9)
        )
    pictures = neighbour_pictures(synthetic, known.x)
    return Evaluation(measures, len(synthetic), len(real), 0, pictures=pictures)


def _frame(encoded: Encoded, schema: TableSchema) -> pd.DataFrame:
    """Real rows in the very form that synthetic ones have: clipped to bounds, categories as text."""
    frame = decode(encoded.x, encoded.labels, schema)
    assert isinstance(frame, pd.DataFrame)
    return frame


def _rows(given: Rows | str | Path, schema: Schema) -> Rows:
    """Records, or those that are at this place."""
    return read(given, schema) if isinstance(given, str | Path) else given


@dataclass(frozen=True)
class _Steps:
    """Maps the progress of parts to the progress of the whole."""

    on_progress: Progress | None

    def part(self, start: float, stop: float) -> Progress:
        def report(what: str, share: float) -> None:
            if self.on_progress:
                self.on_progress(what, start + (stop - start) * share)

        return report


def _notes(schema: Schema, ceilings: bool, seeds: Sequence[int]) -> tuple[str, ...]:
    notes = []
    if schema.label_classes is not None:
        notes.append(
            f"Classifiers were trained on {len(seeds)} independent synthetic draws; intervals join the spread over "
            "draws with a bootstrap over test rows."
        )
    if not ceilings:
        notes.append("No real training rows were given, so there are no real-data ceilings and no closeness.")
    if schema.label_classes is None:
        notes.append("The schema has no label, so no classifier could be trained: utility is not measured.")
    if isinstance(schema, ImageSchema) and not ceilings:
        notes.append("The domain classifier was trained on the test images, which flatters inception scores.")
    return tuple(notes)
