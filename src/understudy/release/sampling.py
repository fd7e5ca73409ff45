"""`sample`: a release in, synthetic records out. Private data cannot be reached from here."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.errors import ReleaseError
from understudy.records.encode import decode
from understudy.records.images import Images
from understudy.release.weights import generator_with
from understudy.synthesizers.codes.model import CodeGenerator
from understudy.synthesizers.embedding.fit import Performer
from understudy.synthesizers.embedding.warping import warped
from understudy.synthesizers.gan.generators import draw_latent
from understudy.synthesizers.marginals.model import TableGenerator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from understudy.recipes import Recipe
    from understudy.release.release import Release
    from understudy.synthesizers.embedding.fit import Performing

__all__ = ["doubtful", "sample", "sample_chunks"]

CHUNK = 4096
"""Records that are made at a time; bounds the memory of a draw of any size."""

TRIES = 20
"""How often an image is drawn anew until the teacher is certain of its class."""


def sample(
    release: Release,
    rows: int,
    *,
    label: str | None = None,
    counts: Mapping[str, int] | None = None,
    seed: int | None = None,
    certainty: float | None = None,
) -> pd.DataFrame | Images:
    """Draw synthetic records, all in memory.

    Args:
        release: the generator.
        rows: how many records; with `counts`, their sum.
        label: make only records of this class.
        counts: make exactly this many records of each class, in this order.
        seed: the same seed gives the same records; None draws fresh ones.
        certainty: draw images again until the teacher gives their class this probability, instead of the recipe's;
            0 takes every image with the label that the teacher sees in it. For releases with a teacher.

    Returns:
        A data frame for tables and codes, `Images` for images.
    """
    chunks = list(sample_chunks(release, rows, label=label, counts=counts, seed=seed, certainty=certainty))
    first = chunks[0]
    if isinstance(first, Images):
        images = [chunk for chunk in chunks if isinstance(chunk, Images)]
        labels = (
            None
            if first.labels is None
            else np.concatenate([c.labels for c in images if c.labels is not None])
        )
        return Images(np.concatenate([chunk.pixels for chunk in images]), labels)
    import pandas as pd

    return pd.concat([chunk for chunk in chunks if not isinstance(chunk, Images)], ignore_index=True)


def sample_chunks(
    release: Release,
    rows: int,
    *,
    label: str | None = None,
    counts: Mapping[str, int] | None = None,
    seed: int | None = None,
    certainty: float | None = None,
) -> Iterator[pd.DataFrame | Images]:
    """Draw synthetic records in chunks of bounded size; arguments as for `sample`.

    Raises:
        ReleaseError: a class is unknown, a number is negative, the generator was not trained with labels, or there is
            no teacher to be certain.
    """
    if rows < 0 or (rows == 0 and not counts):
        raise ReleaseError(f"the number of records must be positive, got {rows}.")
    recipe, schema = _with_certainty(release.card.plan.recipe, certainty), release.schema
    classes = schema.label_classes
    source = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
    chosen = label is not None or counts is not None
    draw_labels = _label_plan(release, classes, rows, label, counts, source)
    generator = generator_with(release.weights, recipe, schema)
    with torch.inference_mode():
        for intended, size in draw_labels:
            encoded, labels = _draw(generator, recipe, intended, size, source, chosen=chosen)
            yield decode(encoded.numpy(), None if labels is None else labels.numpy(), schema)


def _with_certainty(recipe: Recipe, certainty: float | None) -> Recipe:
    """The recipe with another certainty of its teacher, which is a matter of sampling only."""
    if certainty is None:
        return recipe
    if recipe.teacher is None:
        raise ReleaseError(f"recipe {recipe.name!r} has no teacher, so a certainty cannot be asked for.")
    return replace(recipe, teacher=replace(recipe.teacher, certainty=certainty))


def _draw(
    generator: Performing,
    recipe: Recipe,
    labels: torch.Tensor | None,
    size: int,
    source: torch.Generator,
    *,
    chosen: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Encoded records and their labels: as drawn, or as the teacher sees them if the release has one.

    A record whose class the teacher is not certain of is drawn again. After the last try a class that was chosen
    stands, and otherwise the teacher's label is taken.
    """
    encoded = _made(generator, recipe, labels, size, source)
    if labels is None or not isinstance(generator, Performer):
        return encoded, labels
    assert recipe.teacher is not None
    certainty = recipe.teacher.certainty
    seen = generator.teacher(encoded).softmax(dim=1)
    for _ in range(TRIES if chosen or certainty > 0 else 0):
        again = doubtful(seen, labels, certainty)
        if not len(again):
            break
        encoded[again] = _made(generator, recipe, labels[again], len(again), source)
        seen[again] = generator.teacher(encoded[again]).softmax(dim=1)
    return encoded, labels if chosen else seen.argmax(dim=1)


def doubtful(seen: torch.Tensor, labels: torch.Tensor, certainty: float) -> torch.Tensor:
    """Which records the teacher takes for another class, or not surely enough for the one asked for."""
    probability, likeliest = seen.max(dim=1)
    return ((likeliest != labels) | (probability < certainty)).nonzero().squeeze(1)


def _made(
    generator: Performing,
    recipe: Recipe,
    labels: torch.Tensor | None,
    size: int,
    source: torch.Generator,
) -> torch.Tensor:
    if isinstance(generator, (TableGenerator, CodeGenerator)):
        return generator.draw(labels, size, source)
    made: torch.Tensor = generator(draw_latent(recipe.latent, size, source), labels)
    return made if recipe.warp is None else warped(made, recipe.warp, source)


def _label_plan(
    release: Release,
    classes: tuple[str, ...] | None,
    rows: int,
    label: str | None,
    counts: Mapping[str, int] | None,
    source: torch.Generator,
) -> Iterator[tuple[torch.Tensor | None, int]]:
    """Labels and size of each chunk, made as they are needed."""
    if label is not None and counts is not None:
        raise ReleaseError("give either one label or counts per label, not both.")
    if classes is None:
        if label is not None or counts is not None:
            raise ReleaseError("this generator was trained without labels, so it cannot make a chosen class.")
        return _unlabelled(rows)
    wanted = {label: rows} if label is not None else counts
    if wanted is not None:
        return _given(_class_counts(wanted, classes))
    weights = release.card.label_weights or (1.0,) * len(classes)
    return _drawn(rows, torch.tensor(weights, dtype=torch.float64), source)


def _class_counts(wanted: Mapping[str, int], classes: tuple[str, ...]) -> list[tuple[int, int]]:
    for name, count in wanted.items():
        if name not in classes:
            raise ReleaseError(f"there is no class {name!r}. Known classes: {', '.join(classes)}.")
        if count < 0:
            raise ReleaseError(f"the number of records of class {name!r} must not be negative, got {count}.")
    return [(classes.index(name), count) for name, count in wanted.items()]


def _sizes(rows: int) -> Iterator[int]:
    for start in range(0, rows, CHUNK):
        yield min(CHUNK, rows - start)


def _unlabelled(rows: int) -> Iterator[tuple[None, int]]:
    return ((None, size) for size in _sizes(rows))


def _given(counts: list[tuple[int, int]]) -> Iterator[tuple[torch.Tensor, int]]:
    for index, count in counts:
        for size in _sizes(count):
            yield torch.full((size,), index, dtype=torch.int64), size


def _drawn(rows: int, weights: torch.Tensor, source: torch.Generator) -> Iterator[tuple[torch.Tensor, int]]:
    for size in _sizes(rows):
        yield torch.multinomial(weights, size, replacement=True, generator=source), size
