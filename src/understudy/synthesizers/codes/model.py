"""The generator of code sets: a mixture, each component with its own rates of frequent codes and of groups of others.

A record draws how many different codes it has from the published lengths of its class, a component that suits this
number, and then that many codes in proportion to the rates of the component, without replacement. What codes have in
common is which component they come from. Where codes are counted, each is repeated as often as was published for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import PlanError
from understudy.schema import CodeSchema
from understudy.synthesizers.codes.drawing import draw_repeats, first_arrivals
from understudy.synthesizers.model import Model, misfit_by_names
from understudy.synthesizers.protocol import Drawn
from understudy.synthesizers.shared.drawing import cumulative, drawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from understudy.schema import Schema
    from understudy.synthesizers.codes.recipe import CodesRecipe
    from understudy.synthesizers.protocol import Request

    Ints = NDArray[np.int64]

__all__ = ["LENGTH_GROUPS", "CodeModel", "build_code_model", "groups_of"]

LENGTH_GROUPS = 8
"""Lengths are merged into this many groups, each of which has its own chances of components."""

_WHOLE = ("length_groups", "frequent")
"""Weights that are whole numbers."""


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

    def __init__(
        self, components: int, frequent: int, groups: Ints, classes: int, longest: int, most: int
    ) -> None:
        self.most, self._groups = most, groups
        rest = 0 if frequent == len(groups) else int(groups.max()) + 1
        each = max(1, classes)
        self.shapes: dict[str, tuple[int, ...]] = {
            "scores": (each, components, frequent + rest),
            "mixing": (each, LENGTH_GROUPS, components),
            "lengths": (each, longest + 1),
            "length_groups": (each, longest + 1),
            "frequent": (frequent,),
            "within": (each, len(groups)),
            "repeats": (len(groups),),
        }
        self._weights: Mapping[str, NDArray[Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Logarithms of rates and of chances of components, lengths, what is frequent, and repetitions."""
        return tuple(self.shapes)

    @property
    def most_numbers(self) -> int:
        """Exactly as many as the shapes say."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def most_bytes(self) -> int:
        """Eight for each whole number, four for each other."""
        return sum((8 if name in _WHOLE else 4) * math.prod(shape) for name, shape in self.shapes.items())

    def misfit(self, weights: Mapping[str, NDArray[Any]]) -> str | None:
        """Why these are not weights of such codes, as the end of a sentence; None if they are."""
        types = {name: np.int64 if name in _WHOLE else np.float32 for name in self.shapes}
        problem = misfit_by_names(weights, types)
        if problem is not None:
            return problem
        for name, shape in self.shapes.items():
            if weights[name].shape != shape:
                return f"{name} has shape {weights[name].shape}, not {shape}"
        for name, size in (("frequent", len(self._groups)), ("length_groups", LENGTH_GROUPS)):
            if weights[name].size and not (weights[name].min() >= 0 and weights[name].max() < size):
                return f"{name} holds numbers that are not below {size}"
        if bool((weights["lengths"] < 0).any()) or not bool((weights["lengths"].sum(-1) > 0).all()):
            return "lengths must not be negative, nor all zero"
        return None

    def take(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Become the model with these weights."""
        self._weights = dict(weights)

    def draw(self, request: Request, source: np.random.Generator) -> Drawn:
        """Records of the given classes: the count of each code over the largest count."""
        held, rows = self._weights, request.rows
        classes = np.zeros(rows, dtype=np.int64) if request.labels is None else request.labels
        longest, components = held["lengths"].shape[1], held["mixing"].shape[2]
        lengths = drawn(cumulative(held["lengths"]), classes, source.random(rows), longest)
        mixing = cumulative(_shares(held["mixing"]).reshape(-1, components))
        group = classes * LENGTH_GROUPS + held["length_groups"][classes, lengths]
        which = drawn(mixing, group, source.random(rows), components)
        rates = _shares(held["scores"])[classes, which]
        items, counted = first_arrivals(rates, lengths, len(held["frequent"]), source)
        codes = self._codes(items, classes, source)
        times = 1 + draw_repeats(held["repeats"][codes], self.most, source)
        made = np.zeros((rows, len(self._groups)), dtype=np.float32)
        places = np.broadcast_to(np.arange(rows)[:, None], codes.shape)
        np.maximum.at(made, (places, codes), (counted * times / self.most).astype(np.float32))
        return Drawn(made, request.labels)

    def _codes(self, items: Ints, classes: Ints, source: np.random.Generator) -> Ints:
        """The code of each item; that of a group is drawn by the chances within it."""
        frequent, within = self._weights["frequent"], self._weights["within"]
        single = len(frequent)
        codes: Ints = np.zeros(items.shape, dtype=np.int64)
        own = items < single
        codes[own] = frequent[items[own]]
        row, place = np.nonzero(~own)
        if len(row):
            order = np.argsort(self._groups, kind="stable")
            below = np.pad(np.cumsum(within[:, order].astype(np.float64), axis=1), ((0, 0), (1, 0)))
            group, chosen = items[row, place] - single, classes[row]
            first = np.searchsorted(self._groups[order], group)
            last = np.searchsorted(self._groups[order], group, side="right")
            low, high = below[chosen, first], below[chosen, last]
            at = low + source.random(len(low)) * (high - low)
            found = np.empty_like(first)
            for one in range(len(below)):
                mine = chosen == one
                found[mine] = np.searchsorted(below[one], at[mine], side="right") - 1
            codes[row, place] = order[np.clip(found, first, last - 1)]
        return codes


def _shares(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rates with sum 1, from their logarithms."""
    made = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: NDArray[np.float32] = made / made.sum(axis=-1, keepdims=True)
    return shares


def groups_of(schema: CodeSchema) -> Ints:
    """For each code the group of the coarsest level of the declared tree; one group for all without a tree."""
    return np.array(schema.levels[0] if schema.levels else (0,) * len(schema.codes), dtype=np.int64)


def build_code_model(recipe: CodesRecipe, schema: Schema) -> CodeModel:
    """The mixture of a recipe for code sets, without weights yet.

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
