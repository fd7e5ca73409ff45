"""Facts that names of columns suggest: usual bounds to offer, and columns that are better left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Typical", "identifies", "typical", "why_left_out"]


@dataclass(frozen=True)
class Typical:
    """Bounds that are usual for what a name says, known to everybody."""

    what: str
    lower: str
    upper: str


_USUAL = (
    (r"age|alter|years?_?old", Typical("ages", "0", "120")),
    (r"pct|percent(age)?|prozent", Typical("percentages", "0", "100")),
    (r"share|fraction|probability|ratio", Typical("shares", "0", "1")),
    (r"month|monat", Typical("months", "1", "12")),
    (r"hour|stunde|hr", Typical("hours of a day", "0", "23")),
    (r"weekday|dow", Typical("days of a week", "0", "7")),
    (r"year|jahr|yr", Typical("years", "1900", "2100")),
    (r"bmi", Typical("body mass indices", "10", "80")),
    (r"height|groesse|größe", Typical("heights in centimetres", "30", "250")),
    (r"weight|gewicht", Typical("weights in kilograms", "0", "300")),
    (r"systolic|sbp|diastolic|dbp|bp", Typical("blood pressures", "20", "300")),
    (r"heart_?rate|pulse", Typical("heart rates", "20", "300")),
    (r"temp(erature)?", Typical("body temperatures in degrees Celsius", "25", "45")),
    (r"lat(itude)?", Typical("latitudes", "-90", "90")),
    (r"lon(g|gitude)?|lng", Typical("longitudes", "-180", "180")),
    (r"hours?_?per_?week", Typical("hours of a week", "0", "168")),
)
_IDENTIFIERS = (
    r"(id|ids|uuid|guid|key|mrn|ssn|iban|nr|no|number|index|email|e_?mail|phone|telephone|passport|rowid)"
)
_FREE_TEXT = (
    r"(names?|first_?name|last_?name|surname|address|street|comments?|notes?|remarks?|description|"
    r"text|free_?text|title|url)"
)


def typical(name: str) -> Typical | None:
    """Return the usual bounds of a column with this name, or None."""
    plain = _plain(name)
    for pattern, usual in reversed(_USUAL):
        if re.fullmatch(rf"(.*_)?({pattern})(_.*)?", plain):
            return usual
    return None


def why_left_out(name: str) -> str | None:
    """Say why a column of this name is no part of a first draft, or None."""
    plain = _plain(name)
    if not plain or plain.startswith(("(column", "unnamed")):
        return "it has no name"
    if identifies(name):
        return "its name says that it identifies rows or people"
    if re.fullmatch(rf"(.*_)?{_FREE_TEXT}", plain):
        return "its name says that it holds names or free text"
    return None


def identifies(name: str) -> bool:
    """Whether a name says that the column tells rows or people apart."""
    return re.fullmatch(rf"(.*_)?{_IDENTIFIERS}", _plain(name)) is not None


def _plain(name: str) -> str:
    """Lower case with underscores between the words: "patientId" and "Patient-ID" are "patient_id"."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name.strip())
    return re.sub(r"[\s.\-/]+", "_", words).lower().strip("_")
