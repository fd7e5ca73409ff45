"""Fitting a mixture to the published counts of a table.

Nothing is drawn while it learns: the counts of the mixture are known exactly, and are moved towards the published ones.
After two thirds of the steps the door is asked once more, for what the mixture is furthest from. Columns of a wide
table that are compared with no other have the same chances in all components of a class, and cost next to nothing.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.door.query import Published
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.answers import Answers
from understudy.synthesizers.marginals.arrays import arrays_of, columns_from
from understudy.synthesizers.marginals.asking import First, Questions
from understudy.synthesizers.marginals.columns import table_columns
from understudy.synthesizers.marginals.mixture import Mixture, Targets, components_for, started, stepped
from understudy.synthesizers.marginals.published import PublishedCounts
from understudy.synthesizers.marginals.recipe import SCORES, TRIPLES
from understudy.synthesizers.shared.beginning import class_shares, label_counts, row_count
from understudy.synthesizers.shared.free_fitter import parts_of
from understudy.synthesizers.shared.parts import LABELS, ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.source import Rows
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.columns import KnownColumn
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

__all__ = ["MarginalsFitter"]

_MOST_CHANCES, _MOST_IN_ALL = 2**20, 2**24
"""Chances of columns that are compared, and of all columns, at most: tables with many outcomes get fewer components, so
that a fit stays short and its file small."""


class MarginalsFitter:
    """The state of a fit to a table.

    Args:
        recipe: what to fit.
        schema: of a table.
        seed: for the first components; None draws one. Nothing private hangs on it.
    """

    losses: ClassVar[None] = None

    def __init__(self, recipe: MarginalsRecipe, schema: Schema, seed: int | None) -> None:
        assert isinstance(schema, TableSchema)
        self._recipe, self._schema = recipe, schema
        self._columns = table_columns(schema)
        self._source = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
        self.steps = 0
        self.label_weights: tuple[float, ...] | None = None
        self._questions: Questions
        self._known: tuple[KnownColumn, ...]
        self._active: tuple[int, ...]
        self._targets: Targets
        self._mixture: Mixture
        self._others: tuple[Targets, Mixture] | None = None
        self._counts = PublishedCounts()

    def begin(self, door: Door, public: Rows | None, tick: Callable[[], None]) -> None:
        """Ask for columns, piles, columns by class and pairs."""
        del tick
        count = row_count(door)
        counted = label_counts(door, self._schema)
        self.label_weights = class_shares(counted, self._schema)
        answers = Answers(door, public, count, self._counts)
        if door.rows is None:
            answers.keep(ROWS, Published((torch.tensor([count]),), door.sigma(ROWS)))
        if counted is not None:
            answers.keep(LABELS, counted)
        self._questions = self._asked_with(count)
        first = self._questions.first(answers)
        self._counts, self._known, self._active = answers.counts, first.known, first.active
        self._targets = first.targets.only(first.active)
        compared, outcomes = sum(self._targets.widths), sum(first.targets.widths)
        total = min(self._recipe.components, _MOST_CHANCES // compared, _MOST_IN_ALL // outcomes)
        components = components_for(max(1, total), len(self._targets.classes))
        self._mixture = started(self._targets, components, self._source)
        if others := self._not_active:
            alone = first.targets.only(others)
            self._others = alone, started(alone, 1, self._source, variety=0.0)

    @property
    def _not_active(self) -> list[int]:
        return [i for i in range(len(self._known)) if i not in self._active]

    def advance(self, door: Door, public: Rows | None) -> None:
        """One step of the mixture towards what was published; once, triples are asked for before it.

        A run that was killed after it drew them and before it kept them goes on without: they are spent.
        """
        due = self.steps == 2 * self._recipe.steps // 3 and self._wants_triples
        if due and not door.used.get(SCORES) and not door.used.get(TRIPLES):
            answers = Answers(door, public, self._questions.count, self._counts)
            first = First(self._known, self._targets, self._active)
            self._targets, self._mixture = self._questions.more(answers, first, self._mixture, self._source)
            self._counts = answers.counts
        self._mixture = stepped(self._mixture, self._targets)
        if self._others is not None:
            targets, mixture = self._others
            self._others = targets, stepped(mixture, targets)
        self.steps += 1

    @property
    def _wants_triples(self) -> bool:
        return any(one.purpose == TRIPLES for one in self._recipe.releases(self._schema, None))

    def _asked_with(self, count: float) -> Questions:
        return Questions(self._recipe, self._columns, self.label_weights or (1.0,), count)

    def released(self) -> dict[str, Tensor]:
        """The mixture, the outcomes of columns, and what was published."""
        mixture = self._mixture
        if self._others is not None:
            mixture = mixture.beside(self._others[1], self._active)
        known = {**arrays_of(self._known), **self._counts.named()}
        told = {name: torch.from_numpy(one) for name, one in known.items()}
        return {"shares": mixture.shares, "chances": mixture.chances, **told}

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, what was published included, as named tensors."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "model": self.released(),
            "targets": self._targets.named(),
            "others": {} if self._others is None else self._others[0].named(),
            "run": {
                "source": self._source.get_state(),
                "label-weights": torch.tensor(self.label_weights or (), dtype=torch.float64),
                "count": torch.tensor(self._questions.count, dtype=torch.float64),
                "steps": torch.tensor(self.steps),
                "active": torch.tensor(self._active),
            },
        }
        return {f"{part}:{name}": value for part, named in parts.items() for name, value in named.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        part = parts_of(state)
        run, model = part["run"], part["model"]
        self.steps = int(run["steps"])
        self.label_weights = tuple(run["label-weights"].tolist()) or None
        self._questions = self._asked_with(float(run["count"]))
        arrays = {name: one.numpy() for name, one in model.items()}
        self._known = columns_from(self._columns, arrays)
        self._active = tuple(run["active"].tolist())
        self._counts = PublishedCounts.of(arrays)
        self._targets = Targets.of(part["targets"])
        mixture = Mixture(tuple(model["widths"].tolist()), model["shares"], model["chances"])
        self._mixture = mixture.only(self._active)
        if others := self._not_active:
            alone = mixture.only(others)
            one = Mixture(alone.widths, torch.ones(len(alone.shares), 1), alone.chances[:, :1])
            self._others = Targets.of(part["others"]), one
        self._source.set_state(run["source"])
