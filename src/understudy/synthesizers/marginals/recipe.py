"""Tables by noisy counts: the recipe, as a value without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import RecipeError
from understudy.schema import TableSchema
from understudy.synthesizers.protocol import Asked, RecipeDefaults, Share
from understudy.synthesizers.shared.beginning import asked_labels
from understudy.synthesizers.shared.parts import (
    LABELS,
    Adam,
    Optimiser,
    asked_rows,
    check_positive,
    check_share,
    shares,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.fit import MarginalsFitter
    from understudy.synthesizers.marginals.model import TableModel
    from understudy.synthesizers.prospect import Prospect

__all__ = ["COLUMNS", "LABEL_PAIRS", "PAIRS", "UNDERSTUDY_TABLES", "MarginalsRecipe"]

COLUMNS, LABEL_PAIRS, PAIRS = "column counts", "label pairs", "column pairs"


@dataclass(frozen=True, kw_only=True)
class MarginalsRecipe(RecipeDefaults):
    """A mixture of products fitted to noisy counts of columns, of columns by class, and of columns in pairs.

    Each kind of counts is one vector of k tables with sensitivity √k, and one Gaussian release.

    Args:
        name: how the command line calls it.
        summary: one line for the table of recipes.
        source: where it is described.
        components: equally likely parts of the mixture of each class.
        optimiser: how the mixture follows the counts; its rate falls over all steps.
        averaging: decay of the mixture's moving average, or None.
        steps: of the optimiser, which are free.
        bins: how many intervals of about equal mass a number is cut into.
        tails: how often the first and the last of them are halved.
        support: how many standard deviations of the noise a cell should hold; fewer rows make coarser bins.
        columns: the most columns that are compared in pairs.
        by_class: whether pairs are counted for each class.
        class_share: the part of the budget (of 1/σ²) that the class counts take.
        column_share: the part that the counts of columns take.
        label_share: the part that counts by class take; 0 leaves them out.
        pair_share: the part that pairs take; 0 leaves them out.
    """

    kind: ClassVar[str] = "marginals"
    name: str
    summary: str
    source: str
    components: int = 100
    optimiser: Optimiser = field(default_factory=Adam)
    averaging: float | None = None
    steps: int = 500
    bins: int = 12
    tails: int = 2
    support: float = 4.0
    columns: int = 32
    by_class: bool = True
    class_share: float = 0.05
    column_share: float = 0.25
    label_share: float = 0.4
    pair_share: float = 0.3

    def __post_init__(self) -> None:
        check_positive(self.name, components=self.components, steps=self.steps, support=self.support)
        check_share("class counts", self.class_share)
        check_share("column counts", self.column_share)
        check_share("label pairs", self.label_share, optional=True)
        check_share("column pairs", self.pair_share, optional=True)
        if self.bins < 2 or self.tails < 0 or self.columns < 2:
            raise RecipeError(
                f"recipe {self.name!r} needs at least two bins, no negative tails and at least two columns in pairs, "
                f"got {self.bins}, {self.tails} and {self.columns}."
            )

    @property
    def slots(self) -> int:
        """How many bins a column of numbers has at most, those in the tails included."""
        return self.bins + 2 * self.tails

    def refuses(self, schema: Schema) -> str | None:
        """Anything but tables."""
        if isinstance(schema, TableSchema):
            return None
        return f"recipe {self.name!r} makes tables, not {schema.kind}. The recipe understudy chooses by the data."

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        """Class counts, columns, columns by class, pairs of columns."""
        labelled = schema is None or schema.label_classes is not None
        several = not isinstance(schema, TableSchema) or len(schema.features) > 1
        return (
            *asked_rows(rows),
            *asked_labels(schema, Share(LABELS, self.class_share)),
            *shares(
                Share(COLUMNS, self.column_share),
                Share(LABEL_PAIRS, self.label_share if labelled else 0.0),
                Share(PAIRS, self.pair_share if several else 0.0),
            ),
        )

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """The noise per cell of every kind of counts."""
        from understudy.synthesizers.marginals.prospect import table_prospect

        return table_prospect(self, schema, charges, rows) if isinstance(schema, TableSchema) else None

    def fitter(self, schema: Schema, *, seed: int | None, device: torch.device) -> MarginalsFitter:
        """The free training towards the published counts, always on the CPU: it takes seconds."""
        from understudy.synthesizers.marginals.fit import MarginalsFitter
        from understudy.synthesizers.shared.devices import on_the_cpu

        return MarginalsFitter(self, schema, seed, on_the_cpu(self.name, device))

    def model(self, schema: Schema) -> TableModel:
        """The mixture."""
        from understudy.synthesizers.marginals.model import build_table_model

        return build_table_model(self, schema)


UNDERSTUDY_TABLES = MarginalsRecipe(
    name="understudy-tables",
    summary="mixture fitted to noisy counts of columns and of pairs of columns",
    source="Understudy, docs/tables.md",
    optimiser=Adam(rate=0.05, final_rate=1e-3, beta1=0.9, beta2=0.99),
)
