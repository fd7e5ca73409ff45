"""Tables by noisy counts: the recipe, as a value without torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from understudy.errors import RecipeError
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.columns import table_columns
from understudy.synthesizers.protocol import Asked, RecipeDefaults, Share
from understudy.synthesizers.shared.beginning import asked_labels
from understudy.synthesizers.shared.parts import LABELS, ROWS, asked_rows, check_positive, check_share, shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.fit import MarginalsFitter
    from understudy.synthesizers.marginals.model import TableModel
    from understudy.synthesizers.prospect import Prospect

__all__ = [
    "COLUMNS",
    "LABEL_PAIRS",
    "PAIRS",
    "PAIR_SCORES",
    "PILES",
    "PURPOSES",
    "SCORES",
    "TRIPLES",
    "UNDERSTUDY_TABLES",
    "MarginalsRecipe",
]

COLUMNS, PILES = "column counts", "piles"
LABEL_PAIRS, PAIR_SCORES, PAIRS = "label pairs", "scores of pairs", "column pairs"
SCORES, TRIPLES = "scores of triples", "triples"
PURPOSES = (ROWS, LABELS, COLUMNS, PILES, LABEL_PAIRS, PAIRS, TRIPLES)
"""What is counted; scores are no counts."""

_SCORED, _PAIRS_SCORED = 1 / 3, 1 / 5
"""The part of the share of triples by which they are chosen, and that of pairs where not all of them are counted."""


@dataclass(frozen=True, kw_only=True)
class MarginalsRecipe(RecipeDefaults):
    """A mixture of products fitted to noisy counts of columns, of columns by class, and of pairs and triples.

    Each kind of counts is one vector of k tables with sensitivity √k, and one Gaussian release.

    Args:
        name: how the command line calls it.
        summary: one line for the table of recipes.
        source: where it is described.
        components: parts of the mixture, shared by all classes.
        steps: towards the counts, which are free; triples are asked for after two thirds of them.
        bins: how many intervals of about equal mass a number is cut into, at most.
        tails: how often the first and the last of them are halved.
        own: how many values of a number may be outcomes of their own.
        groups: how many groups of outcomes a column has in pairs, at most.
        support: how many standard deviations of the noise an outcome should hold; fewer rows make coarser ones.
        pair_support: the same for a cell of a pair.
        columns: up to so many columns every two of them are counted, and every three of them scored. Of more columns as
            many pairs are counted, chosen by their noisy scores.
        triples: how many of them are asked for, at most.
        class_share: the part of the budget (of 1/σ²) that the class counts take.
        column_share: the part that the counts of columns take.
        pile_share: the part that single values of numbers take.
        label_share: the part that counts by class take; 0 leaves them out.
        pair_share: the part that pairs take, a fifth of it for choosing them where they are chosen; 0 leaves them out.
        triple_share: the part that triples take, a third of it for choosing them; 0 leaves them out.
    """

    kind: ClassVar[str] = "marginals"
    name: str
    summary: str
    source: str
    components: int = 600
    steps: int = 900
    bins: int = 40
    tails: int = 2
    own: int = 64
    groups: int = 40
    support: float = 4.0
    pair_support: float = 2.0
    columns: int = 32
    triples: int = 8
    class_share: float = 0.03
    column_share: float = 0.13
    pile_share: float = 0.05
    label_share: float = 0.29
    pair_share: float = 0.45
    triple_share: float = 0.09

    def __post_init__(self) -> None:
        check_positive(
            self.name,
            components=self.components,
            steps=self.steps,
            support=self.support,
            pair_support=self.pair_support,
            triples=self.triples,
        )
        check_share("class counts", self.class_share)
        check_share("column counts", self.column_share)
        check_share("piles", self.pile_share)
        check_share("label pairs", self.label_share, optional=True)
        check_share("column pairs", self.pair_share, optional=True)
        check_share("triples", self.triple_share, optional=True)
        if min(self.bins, self.groups, self.columns) < 2 or min(self.tails, self.own) < 0:
            raise RecipeError(
                f"recipe {self.name!r} needs at least two bins, two groups and two columns in pairs, and no negative "
                f"tails or own outcomes, got {self.bins}, {self.groups}, {self.columns}, {self.tails} and {self.own}."
            )

    @property
    def keeps_counts(self) -> bool:
        """Yes: they are what the budget was spent on."""
        return True

    def refuses(self, schema: Schema) -> str | None:
        """Anything but tables."""
        if isinstance(schema, TableSchema):
            return None
        return f"recipe {self.name!r} makes tables, not {schema.kind}. The recipe understudy chooses by the data."

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        """Class counts, columns, piles, columns by class, pairs and triples with the scores that choose them."""
        labelled, deep, several = True, True, 3
        if isinstance(schema, TableSchema):
            labelled, several = schema.label_classes is not None, len(schema.features)
            deep = any(column.deep for column in table_columns(schema))
        triples = self.triple_share if min(several, self.columns) > 2 else 0.0
        pairs = self.pair_share if several > 1 else 0.0
        scored = pairs * _PAIRS_SCORED if several > self.columns else 0.0
        return (
            *asked_rows(rows),
            *asked_labels(schema, Share(LABELS, self.class_share)),
            *shares(
                Share(COLUMNS, self.column_share),
                Share(PILES, self.pile_share if deep else 0.0),
                Share(LABEL_PAIRS, self.label_share if labelled else 0.0),
                Share(PAIR_SCORES, scored),
                Share(PAIRS, pairs - scored),
                Share(SCORES, triples * _SCORED),
                Share(TRIPLES, triples * (1 - _SCORED)),
            ),
        )

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """The noise per cell of every kind of counts."""
        from understudy.synthesizers.marginals.prospect import table_prospect

        return table_prospect(self, schema, charges, rows) if isinstance(schema, TableSchema) else None

    def cell_noise(self, schema: Schema, charges: Sequence[Charge], columns: tuple[str, ...]) -> float | None:
        """The standard deviation of the noise in a cell of these columns; of pairs, all classes added up."""
        from understudy.synthesizers.marginals.prospect import table_prospect

        if not isinstance(schema, TableSchema):
            return None
        beside = [name for name in columns if name != schema.label]
        if len(beside) == 2 and len(schema.features) > self.columns:
            return None  # only some pairs were counted, and the release does not say which
        purpose = {0: LABELS, 1: COLUMNS if len(columns) == 1 else LABEL_PAIRS, 2: PAIRS}.get(len(beside))
        answers = {one.purpose: one.noise for one in table_prospect(self, schema, charges, None).answers}
        classes = len(schema.label_classes or ("all",)) if purpose == PAIRS else 1
        return answers[purpose] * classes**0.5 if purpose in answers else None

    def rehearsed(self) -> Self:
        """With few steps and components: all of them are free, and what is asked hangs on neither."""
        return replace(self, steps=min(self.steps, 2), components=min(self.components, 20))

    def fitter(self, schema: Schema, *, seed: int | None, device: torch.device) -> MarginalsFitter:
        """The free fit to the published counts, always on the CPU: it takes seconds."""
        from understudy.synthesizers.marginals.fit import MarginalsFitter
        from understudy.synthesizers.shared.devices import on_the_cpu

        on_the_cpu(self.name, device)
        return MarginalsFitter(self, schema, seed)

    @property
    def draws_by_network(self) -> bool:
        """No: the model draws by itself."""
        return False

    def model(self, schema: Schema) -> TableModel:
        """The mixture."""
        from understudy.synthesizers.marginals.model import table_model

        return table_model(schema)


UNDERSTUDY_TABLES = MarginalsRecipe(
    name="understudy-tables",
    summary="mixture fitted to noisy counts of columns, pairs and chosen triples",
    source="Understudy, docs/tables.md",
)
