"""`evaluate`: everything that can be measured about a release, from the release and explicit real rows.

Synthetic records are drawn from the release in here. `test` are real rows kept away from training;
`reference` are the real training rows, needed for ceilings and for closeness. The two must not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from understudy.calling import explained
from understudy.data import read
from understudy.data.databases import Database
from understudy.data.pictures import folder_classes
from understudy.errors import EvaluationError, TooFewRows
from understudy.evaluation.closeness import closeness
from understudy.evaluation.codes import MOST_CODES, code_charts, code_measures
from understudy.evaluation.disclosure import attribute_disclosure, membership_disclosure
from understudy.evaluation.familiar import k_marginal_measure, sdmetrics_installed, sdmetrics_scores
from understudy.evaluation.judging import judge_criteria
from understudy.evaluation.layout import Layout
from understudy.evaluation.propensity import propensity
from understudy.evaluation.result import Evaluation, Measure
from understudy.evaluation.sources import ReleaseSource, labelled
from understudy.evaluation.tables import marginals, table_correlations, table_fidelity, validity
from understudy.evaluation.threads import usable_cores
from understudy.evaluation.utility import IMAGE_LEARNERS, TABLE_LEARNERS, utility
from understudy.records.encode import decode, encode
from understudy.records.images import Images
from understudy.release.release import release_of
from understudy.schema import CodeSchema, ImageSchema, Schema, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from understudy.evaluation.codes import Binary
    from understudy.evaluation.criteria import Criteria
    from understudy.evaluation.intervals import Progress
    from understudy.evaluation.learners import Learner
    from understudy.evaluation.sources import Evaluated, Rows
    from understudy.evaluation.utility import Labelled
    from understudy.records.encode import Encoded

__all__ = ["evaluate", "real_rows"]

PUBLIC_ROWS = 1_000
"""Synthetic rows behind a measure that may be published: a constant, because any other number tells real rows."""


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
    criteria: Criteria | None = None,
    cache: Path | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Measure utility, fidelity, disclosure and closeness of a release.

    A measure that needs more rows than there are is left out, and `Evaluation.not_measured` says so.

    Args:
        release: what synthetic records are drawn from, or the path of a release's folder.
        test: real rows that training never saw, or where they are. Images may carry labels that the release does not
            know: they teach the judge of inception score and Fréchet distance.
        reference: the real training rows, for ceilings, the domain classifier, disclosure and closeness; None
            leaves these out.
        rows: synthetic rows to draw; as many as reference (or test) rows by default.
        seeds: of the draws and of the classifiers.
        learners: the classifiers; chosen by the kind of data by default.
        augment: also train on real and synthetic rows together.
        few: numbers of labelled reference images for the semi-supervised task of the dp-gan paper; images only.
        criteria: what the release must be good enough for; see `Evaluation.verdict`.
        cache: a private folder for the domain classifier and the ceilings.
        workers: trainings at a time, as many as cores by default; the numbers do not depend on it.
        on_progress: called with what is being done and the finished share.

    Raises:
        EvaluationError: the test rows are the reference rows, or something is asked that cannot be measured at all.
    """
    if isinstance(release, str | Path):
        release = release_of(release)
    test = real_rows(test, release.schema)
    reference = None if reference is None else real_rows(reference, release.schema)
    schema = _with_given_labels(release.schema, test, reference)
    real = encode(test, schema)
    trained_on = None if reference is None else encode(reference, schema)
    if trained_on is not None:
        _refuse_same_rows(real, trained_on)
    if few and trained_on is None:
        raise EvaluationError(
            "the semi-supervised task takes its labelled images from the reference rows: give some."
        )
    rows = rows or len(trained_on if trained_on is not None else real)
    steps, found = _Steps(on_progress), _Found()
    drawn = release.sample(rows, seed=seeds[0])
    sides = _Sides(drawn, encode(drawn, release.schema), real, trained_on, schema)
    judged = () if criteria is None else judge_criteria(criteria, release, real, trained_on, seed=seeds[0])
    if release.schema.label_classes is not None:
        found.measures += utility(
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
        if real.labels is not None and len(np.unique(real.labels)) < 2:
            found.not_measured.append("AuROC: all test rows are of one class.")
    if few and trained_on is not None:
        found.measures += _semi_supervised(release, labelled(trained_on, schema), labelled(real, schema), few)
    if isinstance(schema, TableSchema):
        valid = release.sample(PUBLIC_ROWS, seed=seeds[0])
        assert isinstance(valid, pd.DataFrame)
        found.measures.append(validity(valid, Layout.of(schema)))
    charts = _fidelity(sides, release.schema, cache, steps, found)
    if trained_on is not None:
        _disclosure(sides, trained_on, found)
        found.attempt(
            "closeness",
            lambda: closeness(sides.made.x, trained_on.x, real.x, on_progress=steps.part(0.9, 1.0)),
        )
    return replace(
        charts,
        measures=tuple(found.measures),
        synthetic_rows=rows,
        test_rows=len(real),
        seed=seeds[0],
        notes=_notes(release.schema, schema, trained_on is not None, seeds),
        not_measured=tuple(found.not_measured),
        criteria=judged,
    )


@dataclass
class _Found:
    """Measures so far, and what could not be measured."""

    measures: list[Measure] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)

    def attempt(self, what: str, compute: Callable[[], Iterable[Measure]]) -> None:
        """Take the measures; with too few rows say so instead."""
        try:
            self.measures += compute()
        except TooFewRows as problem:
            self.not_measured.append(f"{what}: too few rows; {problem}")


@dataclass(frozen=True, eq=False)
class _Sides:
    """The three sets of rows that take part; the schema has the labels that the real rows were given with."""

    drawn: pd.DataFrame | Images
    made: Encoded
    real: Encoded
    trained_on: Encoded | None
    schema: Schema


def _with_given_labels(schema: Schema, *sources: Rows | None) -> Schema:
    """The schema, with classes if images that it knows no classes of come with labels."""
    if not isinstance(schema, ImageSchema) or schema.classes is not None:
        return schema
    contents = [getattr(one, "content", one) for one in sources if one is not None]
    labels = [one.labels for one in contents if isinstance(one, Images)]
    if not labels or any(one is None or not len(one) for one in labels):
        return schema
    most = max(int(one.max()) for one in labels if one is not None)
    return replace(schema, classes=tuple(str(label) for label in range(most + 1)))


def _refuse_same_rows(test: Encoded, reference: Encoded) -> None:
    """Rows are compared by what they hold, in whatever order."""
    if len(test) == len(reference) and _sorted_rows(test) == _sorted_rows(reference):
        raise EvaluationError(
            "the test rows and the reference rows hold the same records, so ceilings and closeness would mean "
            "nothing. Give rows that were kept away from training as the test rows."
        )


def _sorted_rows(encoded: Encoded) -> list[bytes]:
    labels = encoded.labels if encoded.labels is not None else np.zeros(len(encoded), dtype=np.int64)
    flat = np.ascontiguousarray(encoded.x.reshape(len(encoded), -1))
    return sorted(row.tobytes() + label.tobytes() for row, label in zip(flat, labels, strict=True))


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


def _fidelity(sides: _Sides, known: Schema, cache: Path | None, steps: _Steps, found: _Found) -> Evaluation:
    """Put the fidelity measures into what was found; returned are the charts."""
    schema, on_progress = sides.schema, steps.part(0.6, 0.9)
    if isinstance(schema, ImageSchema):
        return _of_images(sides, known.label_classes is not None, cache, steps, found)
    assert isinstance(sides.drawn, pd.DataFrame)
    if isinstance(schema, CodeSchema):
        made, real, reference = _presence(sides)
        for name, compute in code_measures(made, real, reference=reference):
            found.attempt(name, lambda compute=compute: [compute()])  # type: ignore[misc]
            on_progress(name, 0.0)
        return Evaluation((), None, None, 0, marginals=code_charts(made, real, schema.codes))
    layout, drawn, test = Layout.of(schema), sides.drawn, _frame(sides.real, schema)
    reference_rows = None if sides.trained_on is None else _frame(sides.trained_on, schema)
    found.measures += table_fidelity(drawn, test, layout, reference=reference_rows, on_progress=on_progress)
    found.measures += k_marginal_measure(drawn, test, layout, reference_rows)
    found.attempt("two-sample AuROC and propensity", lambda: propensity(drawn, test, layout, reference_rows))
    if sdmetrics_installed():
        found.measures += sdmetrics_scores(drawn, test, layout, reference_rows)
    return Evaluation(
        (),
        None,
        None,
        0,
        marginals=marginals(drawn, test, layout),
        correlations=table_correlations(drawn, test, layout),
    )


def _of_images(
    sides: _Sides, labelled_release: bool, cache: Path | None, steps: _Steps, found: _Found
) -> Evaluation:
    from understudy.evaluation.domain import domain_classifier
    from understudy.evaluation.image_fidelity import discriminator_score, image_fidelity, neighbour_pictures

    real, others = sides.real.x, None if sides.trained_on is None else sides.trained_on.x
    known, judge = sides.trained_on or sides.real, None
    if sides.schema.label_classes is not None:
        tell = steps.part(0.6, 0.8)
        judge = domain_classifier(
            labelled(known, sides.schema),
            cache=cache,
            on_progress=lambda share: tell("domain classifier", share),
        )
    found.attempt(
        "fidelity of images",
        lambda: image_fidelity(sides.made.x, real, judge, reference=others, on_progress=steps.part(0.8, 0.9)),
    )
    if not labelled_release:
        found.attempt(
            "Jensen-Shannon score",
            lambda: [discriminator_score(sides.made.x, real, reference=others, cache=cache)],
        )
    return Evaluation((), None, None, 0, pictures=neighbour_pictures(sides.made.x, known.x))


def _presence(sides: _Sides) -> tuple[Binary, Binary, Binary | None]:
    """Whether codes occur, in synthetic, test and reference records."""
    made, real = ((one.x > 0).astype(np.uint8) for one in (sides.made, sides.real))
    return made, real, None if sides.trained_on is None else (sides.trained_on.x > 0).astype(np.uint8)


def _disclosure(sides: _Sides, trained_on: Encoded, found: _Found) -> None:
    """Membership for all kinds of records, attributes where a record has several."""
    found.attempt(
        "membership disclosure", lambda: membership_disclosure(sides.made.x, trained_on.x, sides.real.x)
    )
    schema = sides.schema
    if isinstance(schema, ImageSchema):
        return
    if isinstance(schema, CodeSchema):
        made, real, known = _presence(sides)
        assert known is not None
        kept = np.argsort(-real.mean(axis=0), kind="stable")[:MOST_CODES]
        names: Sequence[str] = [schema.codes[place] for place in kept]
        drawn, members, others = (side[:, kept].astype(np.int64) for side in (made, known, real))
    else:
        assert isinstance(sides.drawn, pd.DataFrame)
        test = _frame(sides.real, schema)
        layout = Layout.of(schema).by_mass(test)
        names = layout.columns
        frames = (sides.drawn, _frame(trained_on, schema), test)
        drawn, members, others = (layout.codes(frame) for frame in frames)
    if len(names) > 1:
        found.attempt("attribute disclosure", lambda: attribute_disclosure(drawn, members, others, names))


def _frame(encoded: Encoded, schema: TableSchema) -> pd.DataFrame:
    """Real rows in the very form that synthetic ones have: clipped to bounds, categories as text."""
    frame = decode(encoded.x, encoded.labels, schema)
    assert isinstance(frame, pd.DataFrame)
    return frame


def real_rows(given: Rows | Database | str | Path, schema: Schema) -> Rows:
    """Records, or those that are at this place.

    Images in a folder with one subfolder per class keep their labels, even if the schema has none.
    """
    if isinstance(given, Database):
        return read(given, schema)
    if not isinstance(given, str | Path):
        return given
    if isinstance(schema, ImageSchema) and schema.classes is None and Path(given).is_dir():
        schema = replace(schema, classes=folder_classes(Path(given)) or None)
    return read(given, schema)


@dataclass(frozen=True)
class _Steps:
    """Maps the progress of parts to the progress of the whole."""

    on_progress: Progress | None

    def part(self, start: float, stop: float) -> Progress:
        def report(what: str, share: float) -> None:
            if self.on_progress:
                self.on_progress(what, start + (stop - start) * share)

        return report


def _notes(known: Schema, given: Schema, ceilings: bool, seeds: Sequence[int]) -> tuple[str, ...]:
    """Facts about how it was measured that depend on no private row, since they are published too."""
    notes = []
    if known.label_classes is not None:
        notes.append(
            f"Classifiers were trained on {len(seeds)} independent synthetic draws; intervals join the spread over "
            "draws with a bootstrap over test rows."
        )
    else:
        notes.append("The release has no label, so no classifier could be trained: utility is not measured.")
    if not ceilings:
        notes.append("No real training rows were given, so there are no real-data ceilings and no closeness.")
    if isinstance(known, ImageSchema) and given.label_classes is not None and not ceilings:
        notes.append("The domain classifier was trained on the test images, which flatters inception scores.")
    if isinstance(known, ImageSchema) and given.label_classes is None:
        notes.append("No image has a label: features are principal components of pixels, not a classifier's.")
    return tuple(notes)
