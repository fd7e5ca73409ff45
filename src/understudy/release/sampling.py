"""`sample`: a release in, synthetic records out. Private data cannot be reached from here."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.calling import explained, whole
from understudy.errors import ReleaseError
from understudy.records.encode import decode
from understudy.records.images import Images
from understudy.release.release import release_of
from understudy.release.weights import model_with
from understudy.schema import TableSchema
from understudy.synthesizers.protocol import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pandas as pd

    from understudy.release.release import Release
    from understudy.schema import Schema

__all__ = ["sample", "sample_chunks"]

CHUNK = 4096
"""Records that are made at a time; bounds the memory of a draw of any size."""


@explained("understudy.sample(release, 1000)")
def sample(
    release: Release | str | Path,
    rows: float,
    *,
    label: str | None = None,
    counts: Mapping[str, int] | None = None,
    seed: int | None = None,
    certainty: float | None = None,
) -> pd.DataFrame | Images:
    """Draw synthetic records, all in memory.

    Args:
        release: the generator, or the path of its folder.
        rows: how many records, a whole number such as 1000 or 1e3; with `counts`, their sum.
        label: make only records of this class.
        counts: make exactly this many records of each class, in this order.
        seed: the same seed gives the same records; None draws fresh ones.
        certainty: draw images again until the labeller gives their class this probability, instead of the recipe's;
            0 takes every image with the label that the labeller sees in it. For releases with a labeller.

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
    release: Release | str | Path,
    rows: float,
    *,
    label: str | None = None,
    counts: Mapping[str, int] | None = None,
    seed: int | None = None,
    certainty: float | None = None,
) -> Iterator[pd.DataFrame | Images]:
    """Draw synthetic records in chunks of bounded size; arguments as for `sample`.

    Raises:
        ReleaseError: a class is unknown, a number is negative, the generator was not trained with labels, or there is
            no labeller to be certain.
    """
    release, rows = release_of(release), whole("rows", rows)
    if rows < 0 or (rows == 0 and not counts):
        raise ReleaseError(f"the number of records must be positive, as in sample(1000); got {rows}.")
    schema, model = release.schema, model_with(release.weights, release.card.plan.recipe, release.schema)
    if certainty is not None:
        if model.certainty is None:
            name = release.card.plan.recipe.name
            raise ReleaseError(f"recipe {name!r} has no labeller, so a certainty cannot be asked for.")
        if not 0 <= certainty < 1:
            raise ReleaseError(f"a certainty is a probability below 1, got {certainty}.")
        model.certainty = certainty
    source = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
    chosen = label is not None or counts is not None
    draw_labels = _label_plan(release, schema.label_classes, rows, label, counts, source)
    with torch.inference_mode():
        for labels, size in draw_labels:
            drawn = model.draw(Request(size, labels, chosen=chosen), source)
            own = None if drawn.labels is None else drawn.labels.numpy()
            yield _in_order(decode(drawn.x.numpy(), own, schema), schema)


def _in_order(made: pd.DataFrame | Images, schema: Schema) -> pd.DataFrame | Images:
    """A table with the header that its schema declares; columns that are left out are there and empty."""
    if isinstance(made, Images) or not isinstance(schema, TableSchema) or not schema.order:
        return made
    return made.reindex(columns=list(schema.order))


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
