"""The generator of code sets: a mixture, each component with its own rates of frequent codes and of groups of others.

A record draws how many different codes it has from the published lengths of its class, a component that suits this
number, and then that many codes in proportion to the rates of the component, without replacement. What codes have in
common is which component they come from. Where codes are counted, each is repeated as often as was published for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from understudy.errors import PlanError
from understudy.schema import CodeSchema
from understudy.synthesizers.codes.repeats import draw_repeats
from understudy.synthesizers.codes.without_replacement import first_arrivals
from understudy.synthesizers.model import Model
from understudy.synthesizers.protocol import Drawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.schema import Schema
    from understudy.synthesizers.codes.recipe import CodesRecipe
    from understudy.synthesizers.protocol import Request

__all__ = ["LENGTH_GROUPS", "CodeModel", "build_code_model", "groups_of"]

LENGTH_GROUPS = 8
"""Lengths are merged into this many groups, each of which has its own chances of components."""


class CodeModel(Model):
    """Rates of codes, and records drawn by them.

    Args:
        components: how many each class has.
        frequent: how many codes have rates of their own.
        groups: for each code the group that it is in if it is not frequent.
        classes: how many classes; 0 without a label.
        longest: the most different codes of a record.
        most: the most occurrences of a code.
    """

    lengths: Tensor
    length_groups: Tensor
    frequent: Tensor
    within: Tensor
    repeats: Tensor

    def __init__(
        self, components: int, frequent: int, groups: Tensor, classes: int, longest: int, most: int
    ) -> None:
        super().__init__()
        self.most, self._groups = most, groups
        rest = 0 if frequent == len(groups) else int(groups.max()) + 1
        shape = max(1, classes)
        self.scores = nn.Parameter(torch.randn(shape, components, frequent + rest))
        self.mixing = nn.Parameter(torch.zeros(shape, LENGTH_GROUPS, components))
        self.register_buffer("lengths", torch.ones(shape, longest + 1) / (longest + 1))
        self.register_buffer("length_groups", torch.zeros(shape, longest + 1, dtype=torch.int64))
        self.register_buffer("frequent", torch.arange(frequent))
        self.register_buffer("within", torch.ones(shape, len(groups)))
        self.register_buffer("repeats", torch.zeros(len(groups)))

    def forward(self) -> tuple[Tensor, Tensor]:
        """The rates of all items, of shape (classes, components, items), and the chances of components by length."""
        return self.scores.softmax(dim=-1), self.mixing.softmax(dim=-1)

    def draw(self, request: Request, source: torch.Generator) -> Drawn:
        """Records of the given classes: the count of each code over the largest count."""
        labels, rows = request.labels, request.rows
        classes = torch.zeros(rows, dtype=torch.int64) if labels is None else labels
        lengths = torch.multinomial(self.lengths[classes], 1, generator=source).squeeze(1)
        rates, mixing = self()
        chances = mixing[classes, self.length_groups[classes, lengths]]
        which = torch.multinomial(chances, 1, generator=source).squeeze(1)
        items, counted = first_arrivals(rates[classes, which], lengths, len(self.frequent), source)
        codes = self._codes(items, classes, source)
        times = 1 + draw_repeats(self.repeats[codes], self.most, source)
        made = torch.zeros(rows, len(self._groups))
        made.scatter_reduce_(1, codes, counted * times / self.most, reduce="amax")
        return Drawn(made, labels)

    def _codes(self, items: Tensor, classes: Tensor, source: torch.Generator) -> Tensor:
        """The code of each item; that of a group is drawn by the chances within it."""
        single = len(self.frequent)
        codes = self.frequent[items.clamp(max=max(single - 1, 0))]
        where = (items >= single).nonzero(as_tuple=True)
        if len(where[0]):
            order = self._groups.argsort(stable=True)
            within = self.within[:, order].double()
            below = nn.functional.pad(within.cumsum(dim=1), (1, 0))
            first = torch.searchsorted(self._groups[order], items[where] - single)
            last = torch.searchsorted(self._groups[order], items[where] - single, right=True)
            chosen = classes[where[0]]
            low, high = below[chosen, first], below[chosen, last]
            place = low + torch.rand(len(low), generator=source, dtype=torch.float64) * (high - low)
            found = torch.empty_like(first)
            for one in range(len(below)):
                mine = chosen == one
                found[mine] = torch.searchsorted(below[one], place[mine], right=True) - 1
            codes[where] = order[found.clamp(min=first, max=last - 1)]
        return codes

    def misfit(self, weights: Mapping[str, Tensor]) -> str | None:
        """Why these are not weights of this model; numbers of codes and of groups must exist."""
        problem = super().misfit(weights)
        if problem is not None:
            return problem
        for name, size in (("frequent", len(self._groups)), ("length_groups", LENGTH_GROUPS)):
            if weights[name].numel() and not (weights[name].min() >= 0 and weights[name].max() < size):
                return f"{name} holds numbers that are not below {size}"
        return None


def groups_of(schema: CodeSchema) -> Tensor:
    """For each code the group of the coarsest level of the declared tree; one group for all without a tree."""
    return torch.tensor(schema.levels[0] if schema.levels else (0,) * len(schema.codes))


def build_code_model(recipe: CodesRecipe, schema: Schema) -> CodeModel:
    """The mixture of a recipe for code sets, with fresh weights.

    Raises:
        PlanError: the schema does not describe codes.
    """
    if not isinstance(schema, CodeSchema):
        raise PlanError(f"recipe {recipe.name!r} makes codes, not {schema.kind}.")
    codes, classes = len(schema.codes), len(schema.label_classes or ())
    return CodeModel(
        recipe.components,
        min(recipe.frequent, codes),
        groups_of(schema),
        classes,
        min(recipe.longest, codes),
        schema.max_count,
    )
