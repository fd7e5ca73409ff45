"""Schemas of the known public sets, from their published descriptions where these give ranges.

Adult: categories of `adult.names`; the census codes age up to 90, hours up to 99 and gains up to 99,999.
Thyroid (ann): age in centuries and assays that the publisher scaled into [0, 1].
Neither publisher gives ranges for the thyroid assays or for Adult's weights and losses: those bounds are round numbers
chosen with the public rows in view, as nobody may do with private ones.
American Community Survey: the data dictionary of the NIST Diverse Communities excerpts, without the industry
code INDP, whose values it does not list. Diabetes 130: all ICD-9-CM categories that can exist, 001-999,
V01-V91, E000-E030 and E800-E999.
"""

from __future__ import annotations

from dataclasses import replace

from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    CodeTree,
    Continuous,
    ImageSchema,
    Integer,
    TableSchema,
    UnknownCodes,
)

__all__ = ["ACS", "ADULT", "DIABETES", "DIABETES_COUNTS", "FASHION", "MNIST", "OLIVETTI", "THYROID", "USPS"]

_DIGITS = tuple("0123456789")

MNIST = ImageSchema(28, 28, 1, _DIGITS)
USPS = ImageSchema(16, 16, 1, _DIGITS)
OLIVETTI = ImageSchema(64, 64, 1)
FASHION = ImageSchema(
    28,
    28,
    1,
    (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADULT = TableSchema(
    columns=(
        Integer("age", 17, 90),
        Categorical(
            "workclass",
            _words(
                "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
                "Never-worked"
            ),
            missing=True,
        ),
        Integer("fnlwgt", 0, 1_500_000),
        Categorical(
            "education",
            _words(
                "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
                "Masters 1st-4th 10th Doctorate 5th-6th Preschool"
            ),
        ),
        Integer("education-num", 1, 16),
        Categorical(
            "marital-status",
            _words(
                "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
                "Married-AF-spouse"
            ),
        ),
        Categorical(
            "occupation",
            _words(
                "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
                "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
                "Priv-house-serv Protective-serv Armed-Forces"
            ),
            missing=True,
        ),
        Categorical("relationship", _words("Wife Own-child Husband Not-in-family Other-relative Unmarried")),
        Categorical("race", _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
        Binary("sex", ("Female", "Male")),
        Integer("capital-gain", 0, 99_999),
        Integer("capital-loss", 0, 5_000),
        Integer("hours-per-week", 1, 99),
        Categorical(
            "native-country",
            _words(
                "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
                "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico "
                "Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary "
                "Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong "
                "Holand-Netherlands"
            ),
            missing=True,
        ),
        Binary("income", ("<=50K", ">50K")),
    ),
    label="income",
    missing_text=("?",),
)

_THYROID_FLAGS = _words(
    "sex on_thyroxine query_on_thyroxine on_antithyroid_medication sick pregnant thyroid_surgery "
    "I131_treatment query_hypothyroid query_hyperthyroid lithium goitre tumor hypopituitary psych"
)

THYROID = TableSchema(
    columns=(
        Continuous("age", 0.0, 1.0),
        *(Binary(name) for name in _THYROID_FLAGS),
        Continuous("TSH", 0.0, 0.6),
        Continuous("T3", 0.0, 0.2),
        Continuous("TT4", 0.0, 0.6),
        Continuous("T4U", 0.0, 0.25),
        Continuous("FTI", 0.0, 0.7),
        Categorical("diagnosis", ("1", "2", "3")),
    ),
    label="diagnosis",
)


def _numbered(name: str, first: int, last: int, *, missing: bool = False) -> Categorical:
    return Categorical(name, tuple(str(i) for i in range(first, last + 1)), missing=missing)


_NATIONAL_AREAS = _words(
    "01-01301 06-07502 06-08507 08-00803 13-04600 17-03529 17-03531 19-01700 24-01004 26-02702 28-01100 "
    "29-01901 30-00600 32-00405 36-03710 36-04010 38-00100 40-00200 51-01301 51-51255"
)

ACS = TableSchema(
    columns=(
        Categorical("PUMA", _NATIONAL_AREAS),
        Integer("AGEP", 0, 99),
        Binary("SEX", ("1", "2")),
        _numbered("MSP", 1, 6, missing=True),
        _numbered("HISP", 0, 4),
        _numbered("RAC1P", 1, 9),
        Integer("NOC", 0, 19, missing=True),
        Integer("NPF", 2, 20, missing=True),
        _numbered("HOUSING_TYPE", 1, 3),
        _numbered("OWN_RENT", 0, 2),
        Continuous("DENSITY", 0.0, 60_000.0, decimals=1),
        _numbered("INDP_CAT", 0, 18, missing=True),
        _numbered("EDU", 1, 12, missing=True),
        Integer("PINCP", -10_000, 1_400_000, missing=True),
        _numbered("PINCP_DECILE", 0, 9, missing=True),
        Integer("POVPIP", 0, 501, missing=True),
        _numbered("DVET", 1, 6, missing=True),
        Binary("DREM", ("1", "2"), missing=True),
        Binary("DPHY", ("1", "2"), missing=True),
        Binary("DEYE", ("1", "2")),
        Binary("DEAR", ("1", "2")),
        Integer("PWGTP", 1, 9_999),
        Integer("WGTP", 0, 9_999),
    ),
    missing_text=("N",),
)

DIABETES = CodeSchema(
    codes=(
        *(f"{i:03d}" for i in range(1, 1000)),
        *(f"V{i:02d}" for i in range(1, 92)),
        *(f"E{i:03d}" for i in (*range(31), *range(800, 1000))),
    ),
    unknown=UnknownCodes.DROP,
    tree=CodeTree.ICD_9,
)
DIABETES_COUNTS = replace(DIABETES, max_count=15)
"""The same codes with how often each was given, at most 15 times; a bound chosen with public rows in view."""
