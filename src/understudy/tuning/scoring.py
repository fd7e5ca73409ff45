"""What the runs of a sweep are scored by: a classifier where there is a label, fidelity where there is none.

The same function scores the real training rows first, for the ceilings, before any run is charged. Whatever cannot be
measured is therefore refused when nothing was spent yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from understudy.evaluation.codes import cooccurrence_error, prevalence_correlation
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import prior_predictor, train
from understudy.evaluation.scores import accuracy, macro_auroc
from understudy.evaluation.sources import labelled
from understudy.evaluation.tables import one_way_error, two_way_error
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.schema import CodeSchema, ImageSchema, TableSchema
from understudy.tuning.curves import Reached

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.data import Records
    from understudy.evaluation.domain import DomainClassifier
    from understudy.evaluation.learners import Learner
    from understudy.schema import Schema

__all__ = ["Scorer"]

Content = pd.DataFrame | Images


class Scorer:
    """Scores records against real test rows, and what trivial records or guesses reach.

    Args:
        schema: of the real rows.
        seen: of the records that runs make: without the label, if their recipe does not know it.
        learner: the classifier, where there is a label.
        training: the real training rows; only the judge of images is taught by them.
        test: the real test rows.
        folder: private, for what depends on real rows only.
    """

    def __init__(
        self,
        schema: Schema,
        seen: Schema,
        learner: Learner,
        training: Records,
        test: Records,
        folder: Path,
    ) -> None:
        self._schema, self._seen, self._learner = schema, seen, learner
        self._training, self._test, self._folder = training, test, folder

    def scores(self, made: Content, seed: int) -> tuple[Reached, ...]:
        """Every score of some records, each with its floor.

        Raises:
            EvaluationError: the test rows do not define a score.
        """
        if self._seen.label_classes is not None:
            return self._classified(made, seed)
        match self._seen:
            case ImageSchema():
                return self._of_images(made, seed)
            case TableSchema():
                return self._of_table(made)
            case CodeSchema():
                return self._of_codes(made)

    def _classified(self, made: Content, seed: int) -> tuple[Reached, ...]:
        rows, test = (labelled(encode(one, self._seen), self._seen) for one in (made, self._test))
        guess = prior_predictor(test.labels, test.classes)(test.features)
        predicted = train(self._learner, rows.features, rows.labels, rows.classes, seed)(test.features)
        return tuple(
            Reached(name, compute(test.labels, predicted), compute(test.labels, guess))
            for name, compute in (("accuracy", accuracy), ("macro AuROC", macro_auroc))
        )

    def _of_images(self, made: Content, seed: int) -> tuple[Reached, ...]:
        from understudy.evaluation.image_fidelity import discriminator_score, image_fidelity

        real, synthetic = encode(self._test, self._seen).x, encode(made, self._seen).x
        measures = [
            *image_fidelity(synthetic, real, self._judge()),
            discriminator_score(synthetic, real, seed=seed, cache=self._folder),
        ]
        shown = ("inception score, 1 split", "Fréchet", "Jensen-Shannon")
        return tuple(
            Reached(one.name, one.value, one.floor)
            for one in measures
            if one.name.startswith(shown) and one.floor is not None
        )

    def _judge(self) -> DomainClassifier | None:
        if self._schema.label_classes is None:
            return None
        from understudy.evaluation.domain import domain_classifier

        return domain_classifier(
            labelled(encode(self._training, self._schema), self._schema), cache=self._folder
        )

    def _of_table(self, made: Content) -> tuple[Reached, ...]:
        assert isinstance(self._seen, TableSchema)
        assert isinstance(made, pd.DataFrame)
        plain = Layout.of(self._seen)
        layout = plain.by_mass(self._test.frame)
        test, drawn, trivial = (
            layout.codes(one) for one in (self._test.frame, made, plain.uniform(len(made), 0))
        )
        errors = [("one-way marginal error", one_way_error)]
        errors += [("two-way marginal error", two_way_error)] if len(layout.sizes) > 1 else []
        return tuple(
            Reached(name, compute(test, drawn, layout.sizes), compute(test, trivial, layout.sizes))
            for name, compute in errors
        )

    def _of_codes(self, made: Content) -> tuple[Reached, ...]:
        test, drawn = (encode(one, self._seen).x > 0 for one in (self._test, made))
        empty = np.zeros_like(drawn[:2])
        return tuple(
            Reached(name, compute(test, drawn), compute(test, empty))
            for name, compute in (
                ("prevalence correlation", prevalence_correlation),
                ("co-occurrence error", cooccurrence_error),
            )
        )
