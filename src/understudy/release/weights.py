"""Generator weights to and from safetensors bytes, checked against the model they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from understudy.errors import PlanError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from understudy.schema import Schema
    from understudy.synthesizers.model import Model
    from understudy.synthesizers.protocol import Recipe

__all__ = ["largest_file", "model_with", "weights_from_bytes", "weights_to_bytes"]

_LARGEST_GENERATOR = 2**28
"""More parameters than this are refused before anything is allocated."""


def weights_to_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """Safetensors bytes of the weights."""
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()})


def weights_from_bytes(blob: bytes, recipe: Recipe, schema: Schema) -> dict[str, Tensor]:
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
    for name, tensor in found.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ReleaseError(f"weight {name} holds a value that is not finite.")
    why = model.misfit(found)
    if why is not None:
        raise ReleaseError(f"the weights do not belong to the generator that the card describes: {why}.")
    return found


def largest_file(recipe: Recipe, schema: Schema) -> int:
    """How many bytes the weights of this generator may take: their numbers, and names and shapes before them."""
    model = _unfilled(recipe, schema)
    return 1024 + sum(len(name) + 256 for name in model.state_dict()) + model.most_bytes


def _unfilled(recipe: Recipe, schema: Schema) -> Model:
    """The model with names, shapes and types of its tensors, without allocating them."""
    try:
        with torch.device("meta"):
            model = recipe.model(schema)
    except (RuntimeError, ValueError, TypeError, OverflowError, PlanError) as problem:
        raise ReleaseError(f"the card describes a generator that cannot be built: {problem}.") from problem
    if sum(tensor.numel() for tensor in model.state_dict().values()) > _LARGEST_GENERATOR:
        raise ReleaseError(f"the card describes a generator of more than {_LARGEST_GENERATOR:,} parameters.")
    return model


def model_with(weights: Mapping[str, Tensor], recipe: Recipe, schema: Schema) -> Model:
    """The model with these weights, ready to draw."""
    model = recipe.model(schema)
    model.take(weights)
    return model.eval()
