"""What is published: something that draws records and knows no data. Nothing here needs torch; networks do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from understudy.records.given import Allowed
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Drawn, Partial, Request

__all__ = ["CountTable", "Floats", "Model", "misfit_by_names"]

Floats = NDArray[np.float64]

_IN_ONE_PIECE = (
    "this generator makes records in one piece, so no values can be given beside their class (label, counts); "
    "a release of the recipe understudy-tables can be asked for any."
)


@dataclass(frozen=True, eq=False)
class CountTable:
    """Noisy counts of one or several columns, as they were published.

    Args:
        purpose: what the charge that paid for them is called.
        columns: by name.
        cells: for every count the values of these columns, in words.
        counts: with noise, so they may be negative.
        noise: the standard deviation of the noise in each of them.
    """

    purpose: str
    columns: tuple[str, ...]
    cells: Sequence[tuple[str, ...]]
    counts: Floats
    noise: float


class Model:
    """The part of a synthesizer that is released; its weights are the file.

    `certainty` says how sure a labeller must be of a record's class, where the model has a labeller; else it is None.
    """

    certainty: float | None = None

    def draw(self, request: Request, source: np.random.Generator) -> Drawn:
        """Synthetic records; each kind of model has its own way."""
        raise NotImplementedError

    def given(self, known: Mapping[str, Allowed], classes: Floats) -> tuple[Model, Floats]:
        """A model of the records with such values in some columns, and the probability of each class with one.

        Args:
            known: for columns beside the label, by name, the values that are asked for.
            classes: the share of each class; one entry without a label.

        Raises:
            ReleaseError: the model cannot, which most cannot; or there are no such records.
        """
        del known, classes
        raise ReleaseError(_IN_ONE_PIECE)

    def distribution(self, column: str, classes: Floats) -> tuple[Floats, Floats]:
        """The values of a number that are told apart, as their means, and the probability of each; missing left out.

        Args:
            column: a number, by name.
            classes: the share of each class; one entry without a label.

        Raises:
            ReleaseError: the model does not know, which most do not.
        """
        del column, classes
        raise ReleaseError(_IN_ONE_PIECE)

    def counts(self, schema: Schema) -> Iterator[CountTable]:
        """Noisy counts that were published and are in the file; most models keep none.

        Args:
            schema: what records look like.
        """
        del schema
        return iter(())

    def completed(self, partial: Partial, classes: Floats, source: np.random.Generator) -> Drawn:
        """A record for each of these, which keeps what is known of it.

        Args:
            partial: what is known.
            classes: the share of each class; one entry without a label.
            source: of chance.

        Raises:
            ReleaseError: the model cannot, which most cannot.
        """
        del partial, classes, source
        raise ReleaseError(_IN_ONE_PIECE)

    @property
    def names(self) -> tuple[str, ...]:
        """What its weights are called."""
        raise NotImplementedError

    @property
    def most_numbers(self) -> int:
        """How many numbers its weights have, at most, as far as it knows before them."""
        raise NotImplementedError

    @property
    def most_bytes(self) -> int:
        """How many bytes the numbers of its weights take, at most."""
        raise NotImplementedError

    def misfit(self, weights: Mapping[str, NDArray[Any]]) -> str | None:
        """Why these are not weights of this model, as the end of a sentence; None if they are."""
        raise NotImplementedError

    def take(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Become the model with these weights."""
        raise NotImplementedError


def misfit_by_names(
    weights: Mapping[str, NDArray[Any]], dtypes: Mapping[str, np.dtype[Any] | type[np.generic]]
) -> str | None:
    """Why the names and types are not those of a model; None if they are."""
    odd = sorted(set(weights) ^ set(dtypes))
    if odd:
        return f"{', '.join(odd[:5])} is in the file or in the model, and not in both"
    for name, dtype in dtypes.items():
        if weights[name].dtype != dtype:
            return f"{name} has type {weights[name].dtype}, not {np.dtype(dtype)}"
    return None
