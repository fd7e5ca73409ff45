"""Fitting a mixture to the published counts of a table.

Nothing is drawn while it learns: the counts of the mixture are known exactly, and are moved towards the published ones.
After two thirds of the steps the door is asked once more, for what the mixture is furthest from.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.schema import TableSchema
from understudy.synthesizers.marginals.asking import Questions
from understudy.synthesizers.marginals.columns import table_columns
from understudy.synthesizers.marginals.mixture import Mixture, Targets, components_for, started, stepped
from understudy.synthesizers.marginals.model import weights_of
from understudy.synthesizers.marginals.recipe import SCORES, TRIPLES
from understudy.synthesizers.marginals.tensors import columns_from
from understudy.synthesizers.shared.beginning import label_weights, row_count
from understudy.synthesizers.shared.free_fitter import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.source import Rows
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.columns import KnownColumn
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

__all__ = ["MarginalsFitter"]

_MOST_CHANCES = 2**20
"""Chances of a mixture, at most: tables with hundreds of columns get fewer components, so that a fit stays short."""


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
        self._targets: Targets
        self._mixture: Mixture

    def begin(self, door: Door, public: Rows | None, tick: Callable[[], None]) -> None:
        """Ask for columns, piles, columns by class and pairs."""
        del public, tick  # nothing here learns from public rows
        count = row_count(door)
        self.label_weights = label_weights(door, self._schema)
        self._questions = self._asked_with(count)
        self._known, self._targets = self._questions.first(door)
        total = min(self._recipe.components, _MOST_CHANCES // sum(self._targets.widths))
        components = components_for(max(1, total), len(self._targets.classes))
        self._mixture = started(self._targets, components, self._source)

    def advance(self, door: Door, public: Rows | None) -> None:
        """One step of the mixture towards what was published; once, triples are asked for before it.

        A run that was killed after it drew them and before it kept them goes on without: they are spent.
        """
        del public
        due = self.steps == 2 * self._recipe.steps // 3 and self._wants_triples
        if due and not door.used.get(SCORES) and not door.used.get(TRIPLES):
            self._targets, self._mixture = self._questions.more(
                door, self._known, self._targets, self._mixture, self._source
            )
        self._mixture = stepped(self._mixture, self._targets)
        self.steps += 1

    @property
    def _wants_triples(self) -> bool:
        return any(one.purpose == TRIPLES for one in self._recipe.releases(self._schema, None))

    def _asked_with(self, count: float) -> Questions:
        return Questions(self._recipe, self._columns, self.label_weights or (1.0,), count)

    def released(self) -> dict[str, Tensor]:
        """The mixture and the outcomes of columns."""
        return weights_of(self._mixture, self._known)

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, what was published included, as named tensors."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "model": self.released(),
            "targets": self._targets.named(),
            "run": {
                "source": self._source.get_state(),
                "label-weights": torch.tensor(self.label_weights or (), dtype=torch.float64),
                "count": torch.tensor(self._questions.count, dtype=torch.float64),
                "steps": torch.tensor(self.steps),
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
        self._known = columns_from(self._columns, model)
        self._targets = Targets.of(part["targets"])
        self._mixture = Mixture(self._targets.widths, model["shares"], model["chances"])
        self._source.set_state(run["source"])
