"""Facts that names of columns suggest: usual bounds to offer, and columns that are better left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Typical", "UsualCategories", "identifies", "typical", "usual_categories", "why_left_out"]


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


@dataclass(frozen=True)
class UsualCategories:
    """Values that are usual for what a name says, from a public standard."""

    what: str
    values: tuple[str, ...]


_COUNTRIES = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD
CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF
GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN
KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA
NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI
SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI
VN VU WF WS YE YT ZA ZM ZW"""
_ICD_CHAPTERS = """
A00-B99 C00-D48 D50-D90 E00-E90 F00-F99 G00-G99 H00-H59 H60-H95 I00-I99 J00-J99 K00-K93 L00-L99 M00-M99 N00-N99 O00-O99
P00-P96 Q00-Q99 R00-R99 S00-T98 V01-Y98 Z00-Z99 U00-U99"""
_USUAL_CATEGORIES = (
    (r"country|nation(ality)?|land", UsualCategories("countries by ISO 3166", tuple(_COUNTRIES.split()))),
    (
        r"icd(_?10)?_?chapter|diagnosis_?chapter|chapter",
        UsualCategories("chapters of ICD-10", tuple(_ICD_CHAPTERS.split())),
    ),
    (r"sex|gender|geschlecht", UsualCategories("sexes", ("female", "male"))),
    (r"blood_?(group|type)", UsualCategories("blood groups", ("0", "A", "B", "AB"))),
    (
        r"weekday|day_?of_?week",
        UsualCategories("days of a week", ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")),
    ),
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


def usual_categories(name: str) -> UsualCategories | None:
    """Return the usual values of a column of categories with this name, or None."""
    plain = _plain(name)
    for pattern, usual in _USUAL_CATEGORIES:
        if re.fullmatch(rf"(.*_)?({pattern})", plain):
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
