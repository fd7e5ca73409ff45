"""Generator weights to and from safetensors bytes, checked against the model they belong to."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from understudy.errors import PlanError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from understudy.schema import Schema
    from understudy.synthesizers.model import Model
    from understudy.synthesizers.protocol import Recipe

__all__ = ["largest_file", "model_with", "weights_from_bytes", "weights_to_bytes"]

_LARGEST_GENERATOR = 2**28
"""More parameters than this are refused before anything is allocated."""


def weights_to_bytes(weights: Mapping[str, NDArray[Any]]) -> bytes:
    """Safetensors bytes of the weights."""
    return save({name: one.copy(order="C") for name, one in weights.items()})


def weights_from_bytes(blob: bytes, recipe: Recipe, schema: Schema) -> dict[str, NDArray[Any]]:
    """The weights of the generator that recipe and schema describe.

    Raises:
        ReleaseError: the bytes are not safetensors, or hold other tensors than this generator has, or a value that
            is not finite.
    """
    model = _unfilled(recipe, schema)
    try:
        found = load(blob)
    except (SafetensorError, ValueError, KeyError, OverflowError) as problem:
        raise ReleaseError(f"the weights are not a safetensors file: {problem}.") from problem
    for name, one in found.items():
        if np.issubdtype(one.dtype, np.floating) and not np.isfinite(one).all():
            raise ReleaseError(f"weight {name} holds a value that is not finite.")
    why = model.misfit(found)
    if why is not None:
        raise ReleaseError(f"the weights do not belong to the generator that the card describes: {why}.")
    return found


def largest_file(recipe: Recipe, schema: Schema) -> int:
    """How many bytes the weights of this generator may take: their numbers, and names and shapes before them."""
    model = _unfilled(recipe, schema)
    return 1024 + sum(len(name) + 256 for name in model.names) + model.most_bytes


def _unfilled(recipe: Recipe, schema: Schema) -> Model:
    """The model with names, shapes and types of its tensors, without allocating them."""
    try:
        with _nothing_allocated(recipe):
            model = recipe.model(schema)
    except (RuntimeError, ValueError, TypeError, OverflowError, PlanError) as problem:
        raise ReleaseError(f"the card describes a generator that cannot be built: {problem}.") from problem
    if model.most_numbers > _LARGEST_GENERATOR:
        raise ReleaseError(f"the card describes a generator of more than {_LARGEST_GENERATOR:,} parameters.")
    return model


def model_with(weights: Mapping[str, NDArray[Any]], recipe: Recipe, schema: Schema) -> Model:
    """The model with these weights, ready to draw."""
    model = recipe.model(schema)
    model.take(weights)
    return model


def _nothing_allocated(recipe: Recipe) -> AbstractContextManager[object]:
    """Networks have names, shapes and types of their tensors inside, and no tensors; other models never have any."""
    if not recipe.draws_by_network:
        return nullcontext()
    import torch

    return torch.device("meta")
