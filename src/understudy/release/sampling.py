"""`sample`: a release in, synthetic records out. Private data cannot be reached from here."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from understudy.calling import explained, whole
from understudy.errors import NoSuchRecords, ReleaseError
from understudy.records.encode import decode, encoded_shape
from understudy.records.given import Allowed, allowed_of
from understudy.records.images import Images
from understudy.records.rules import keeping_rules
from understudy.release.release import release_of
from understudy.release.weights import model_with
from understudy.schema import Binary, Categorical, CodeSchema, ImageSchema, Ordinal, TableSchema
from understudy.synthesizers.protocol import Request
from understudy.synthesizers.shared.drawing import cumulative, drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from understudy.release.release import Release
    from understudy.schema import Schema
    from understudy.synthesizers.model import Model

    Floats = NDArray[np.float64]
    Labels = NDArray[np.int64]
    Sizes = Callable[[int], Iterator[int]]

__all__ = ["chance", "class_weights", "sample", "sample_chunks", "with_given"]

CHUNK = 4096
"""Records that are made at a time; bounds the memory of a draw of any size."""
_NUMBERS = 2**22
"""Numbers of a table or of images that are made at a time: narrow tables come in larger chunks, which is faster."""
_LENDERS = 1024
"""How many rows are drawn at least, where rows that break a rule take values of others."""
_TRIES = 5
"""How often rows that no other row can mend are drawn again."""


@explained("understudy.sample(release, 1000)")
def sample(
    release: Release | str | Path,
    rows: float,
    *,
    label: str | None = None,
    counts: Mapping[str, int] | None = None,
    given: Mapping[str, object] | None = None,
    balance: str | None = None,
    seed: int | None = None,
    certainty: float | None = None,
) -> pd.DataFrame | Images:
    """Draw synthetic records, all in memory.

    Args:
        release: the generator, or the path of its folder.
        rows: how many records, a whole number such as 1000 or 1e3; with `counts`, their sum.
        label: make only records of this class.
        counts: make exactly this many records of each class, in this order.
        given: make only rows with these values, by column: a value, (least, greatest), a list of values, None for
            missing, or a text as the command line takes it, such as "60..70|missing". For tables by counts.
        balance: make as many rows with each value of this discrete column, one value after another.
        seed: the same seed gives the same records; None draws fresh ones.
        certainty: draw images again until the labeller gives their class this probability, instead of the recipe's;
            0 takes every image with the label that the labeller sees in it. For releases with a labeller.

    Returns:
        A data frame for tables and codes, `Images` for images.
    """
    chunks = list(
        sample_chunks(
            release,
            rows,
            label=label,
            counts=counts,
            given=given,
            balance=balance,
            seed=seed,
            certainty=certainty,
        )
    )
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
    given: Mapping[str, object] | None = None,
    balance: str | None = None,
    seed: int | None = None,
    certainty: float | None = None,
) -> Iterator[pd.DataFrame | Images]:
    """Draw synthetic records in chunks of bounded size; arguments as for `sample`.

    Raises:
        ReleaseError: a class is unknown, a number is negative, the generator was not trained with labels, there is
            no labeller to be certain, or the generator cannot make what is given.
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
    source = chance(seed)
    chosen = label is not None or counts is not None
    sizes = partial(_sizes, at_once=_at_once(schema))
    for known, part in _balanced(allowed_of(given, schema) if given else {}, balance, schema, rows, chosen):
        drawer, weights = with_given(model, known, schema, class_weights(release))
        for labels, size in _label_plan(schema, weights, sizes, part, label, counts, source):
            made = _made(drawer, Request(size, labels, chosen=chosen), schema, source, known)
            if isinstance(schema, TableSchema) and not isinstance(made, Images):
                made = _in_order(made, schema)
            yield made


def chance(seed: int | None) -> np.random.Generator:
    """Where the randomness of drawing comes from: the same for the same seed, fresh without one."""
    return np.random.default_rng(None if seed is None else seed % 2**64)


def class_weights(release: Release) -> Floats:
    """The share of each class; one entry without a label."""
    classes = release.schema.label_classes or ("",)
    return np.array(release.card.label_weights or (1.0,) * len(classes), dtype=np.float64)


def with_given(
    model: Model, known: Mapping[str, Allowed], schema: Schema, weights: Floats
) -> tuple[Model, Floats]:
    """The model of rows that keep these conditions, and the probability of each class with such a row."""
    if not known:
        return model, weights
    assert isinstance(schema, TableSchema)
    weights = weights / weights.sum()
    others = {name: allowed for name, allowed in known.items() if name != schema.label}
    if schema.label is not None and schema.label in known:
        allowed = known[schema.label]
        weights = weights * allowed.among(np.arange(len(weights), dtype=np.float64))
        if not float(weights.sum()) > 0:
            raise NoSuchRecords(f"{allowed.text}: the generator makes no such records.")
    return model.given(others, weights) if others else (model, weights)


def _balanced(
    known: dict[str, Allowed], balance: str | None, schema: Schema, rows: int, chosen: bool
) -> Iterator[tuple[dict[str, Allowed], int]]:
    """Conditions with their numbers of rows: one of each value of the column to balance."""
    if chosen and getattr(schema, "label", None) in known:
        raise ReleaseError("give the label either as a condition, or as label or counts per label, not both.")
    if balance is None:
        yield known, rows
        return
    column = next((one for one in getattr(schema, "columns", ()) if one.name == balance), None)
    if not isinstance(column, Binary | Ordinal | Categorical):
        raise ReleaseError(f"balance takes a column of a table with listed values, and {balance!r} is none.")
    if chosen:
        raise ReleaseError("give either the column to balance, or a label or counts per label, not both.")
    asked = known.get(balance, Allowed(((0.0, math.inf),), missing=False, text=balance))
    places = np.flatnonzero(asked.among(np.arange(len(column.values), dtype=np.float64)))
    for number, place in enumerate(places):
        part = rows // len(places) + (number < rows % len(places))
        if part:
            value = Allowed(((float(place),) * 2,), missing=False, text=f"{balance}={column.values[place]}")
            yield {**known, balance: value}, part


def _made(
    model: Model, request: Request, schema: Schema, source: np.random.Generator, known: Mapping[str, Allowed]
) -> pd.DataFrame | Images:
    """The records of a request; those of a table keep its rules."""
    if isinstance(schema, TableSchema) and schema.rules:
        return _by_the_rules(model, request, schema, source, known)
    found = model.draw(request, source)
    return decode(found.x, found.labels, schema)


def _by_the_rules(
    model: Model,
    request: Request,
    schema: TableSchema,
    source: np.random.Generator,
    known: Mapping[str, Allowed],
    tries: int = _TRIES,
) -> pd.DataFrame:
    """Rows that break no rule: mended with values of others, of which there are enough; or drawn again."""
    rows, times = request.rows, max(1, -(-_LENDERS // request.rows))
    labels = None if request.labels is None else np.tile(request.labels, times)
    found = model.draw(replace(request, rows=times * rows, labels=labels), source)
    made = decode(found.x, found.labels, schema)
    assert not isinstance(made, Images)
    made, left = keeping_rules(made, schema, source, known)
    made, left = made.iloc[:rows], left[:rows]
    if not left.any():
        return made
    if not tries:
        raise ReleaseError(
            f"{int(left.sum())} of {rows:,} synthetic rows break a rule whatever is drawn in their place. The rules "
            "contradict each other, what is given, or what the generator knows: "
            f"{'; '.join([*map(str, schema.rules), *(one.text for one in known.values())])}."
        )
    labels = None if request.labels is None else request.labels[left]
    fewer = replace(request, rows=int(left.sum()), labels=labels)
    again = _by_the_rules(model, fewer, schema, source, known, tries - 1)
    import pandas as pd

    order = np.argsort(np.concatenate([np.flatnonzero(~left), np.flatnonzero(left)]))
    return pd.concat([made[~left], again], ignore_index=True).iloc[order].reset_index(drop=True)


def _in_order(made: pd.DataFrame, schema: TableSchema) -> pd.DataFrame:
    """A table with the header that its schema declares; columns that are left out are there and empty."""
    return made.reindex(columns=list(schema.order)) if schema.order else made


def _label_plan(
    schema: Schema,
    weights: Floats,
    sizes: Sizes,
    rows: int,
    label: str | None,
    counts: Mapping[str, int] | None,
    source: np.random.Generator,
) -> Iterator[tuple[Labels | None, int]]:
    """Labels and size of each chunk, made as they are needed."""
    classes = schema.label_classes
    if label is not None and counts is not None:
        raise ReleaseError("give either one label or counts per label, not both.")
    if classes is None:
        if label is not None or counts is not None:
            raise ReleaseError("this generator was trained without labels, so it cannot make a chosen class.")
        return ((None, size) for size in sizes(rows))
    wanted = {label: rows} if label is not None else counts
    if wanted is not None:
        return _of_classes(_class_counts(wanted, classes), sizes)
    return _drawn(sizes(rows), weights, source)


def _class_counts(wanted: Mapping[str, int], classes: tuple[str, ...]) -> list[tuple[int, int]]:
    for name, count in wanted.items():
        if name not in classes:
            raise ReleaseError(f"there is no class {name!r}. Known classes: {', '.join(classes)}.")
        if count < 0:
            raise ReleaseError(f"the number of records of class {name!r} must not be negative, got {count}.")
    return [(classes.index(name), count) for name, count in wanted.items()]


def _at_once(schema: Schema) -> int:
    """Records of a chunk."""
    if isinstance(schema, ImageSchema):
        return max(8, min(CHUNK, _NUMBERS // math.prod(encoded_shape(schema))))
    if isinstance(schema, CodeSchema):
        return min(CHUNK, max(2 * _NUMBERS // len(schema.codes), 256))
    if not isinstance(schema, TableSchema):
        return CHUNK
    return min(max(_NUMBERS // encoded_shape(schema)[0], 256), 8 * CHUNK)


def _sizes(rows: int, at_once: int) -> Iterator[int]:
    for start in range(0, rows, at_once):
        yield min(at_once, rows - start)


def _of_classes(counts: list[tuple[int, int]], sizes: Sizes) -> Iterator[tuple[Labels, int]]:
    for index, count in counts:
        for size in sizes(count):
            yield np.full(size, index, dtype=np.int64), size


def _drawn(
    sizes: Iterable[int], weights: Floats, source: np.random.Generator
) -> Iterator[tuple[Labels, int]]:
    line = cumulative(weights[None])
    for size in sizes:
        yield drawn(line, np.zeros(size, dtype=np.int64), source.random(size), len(weights)), size
