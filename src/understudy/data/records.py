"""`Records`: the PRIVATE value that readers return and that only `fit` and the evaluations take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from understudy.errors import DataError
from understudy.records.images import Images

if TYPE_CHECKING:
    from understudy.schema import Schema

__all__ = ["Dataset", "Records"]


@dataclass(frozen=True, eq=False)
class Records:
    """Rows of a table (or counts of codes), or images. Printing it shows neither values nor their number.

    Args:
        content: a DataFrame, or `Images`.
        notes: what readers took from the public part of files because nobody declared it.
    """

    content: pd.DataFrame | Images
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.content, pd.DataFrame | Images):
            raise DataError(f"records hold a DataFrame or Images, not {type(self.content).__name__}")

    @property
    def frame(self) -> pd.DataFrame:
        """The table; DataError if these are images."""
        if not isinstance(self.content, pd.DataFrame):
            raise DataError("these records are images, not a table")
        return self.content

    @property
    def images(self) -> Images:
        """The images; DataError if this is a table."""
        if not isinstance(self.content, Images):
            raise DataError("these records are a table, not images")
        return self.content

    def __len__(self) -> int:
        return len(self.content)

    def __repr__(self) -> str:
        return f"Records(<private {'images' if isinstance(self.content, Images) else 'table'}>)"


@dataclass(frozen=True)
class Dataset:
    """A known public data set with its parts and its ready schema.

    Args:
        name: what it is called on the command line.
        train: the records that play the private ones.
        test: records that training never sees.
        schema: bounds and categories from the published description where it gives them; see `public_schemas`.
    """

    name: str
    train: Records
    test: Records
    schema: Schema
