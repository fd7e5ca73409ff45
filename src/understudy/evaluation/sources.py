"""Where rows come from in an evaluation: real ones as readers return them, synthetic ones from a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pandas as pd

from understudy.errors import EvaluationError
from understudy.evaluation.utility import Labelled
from understudy.records.encode import encode
from understudy.records.images import Images

if TYPE_CHECKING:
    from understudy.records.encode import Encoded
    from understudy.schema import Schema

__all__ = ["Evaluated", "Held", "ReleaseSource", "Rows", "labelled"]


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
    return Labelled(encoded.x, encoded.labels, len(schema.label_classes), schema.label_classes)
