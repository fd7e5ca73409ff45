"""Layouts of health records with one row per person and code, recognised by the names of their columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.schema import LongFile

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["code_columns", "long_layout"]

_OMOP = r"(condition|drug|procedure|device|measurement|observation|specimen)_concept_id"


_NUMBERED = r"i?1?0?_?(dx|diag|diagnosis|icd|icd9|icd10|code|proc|procedure)[_ ]?(code)?[_ ]?\d+"
"""Columns of discharge data such as DX1, I10_DX2, diag_3 or PROC4."""


def long_layout(names: Sequence[str]) -> LongFile | None:
    """Return which columns hold persons and codes in MEDS data and in OMOP's tables of events, or None for others.

    MEDS (Medical Event Data Standard) has `subject_id`, `time` and `code`; OMOP's `condition_occurrence` and its
    like have `person_id` and, for instance, `condition_concept_id`.
    """
    if {"subject_id", "time", "code"} <= set(names):
        return LongFile("subject_id", "code")
    concept = next((name for name in names if re.fullmatch(_OMOP, name.lower())), None)
    person = next((name for name in names if name.lower() == "person_id"), None)
    return None if concept is None or person is None else LongFile(person, concept)


def code_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The columns named like DX1 to DX20 or diag_1 to diag_3, if at least half of all columns are; else none."""
    found = tuple(name for name in names if re.fullmatch(_NUMBERED, name.lower()))
    return found if len(found) > 1 and 2 * len(found) >= len(names) else ()
