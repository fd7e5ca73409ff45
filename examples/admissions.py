"""Made-up admissions of a hospital, written as such files are: semicolons, decimal commas, German dates, `?`.

Several rows belong to one patient. Run it in an empty folder; `docs/tutorials/hospital.md` says what then:

    python examples/admissions.py
"""

from __future__ import annotations

import csv
import datetime as dt
import random
from pathlib import Path

COLUMNS = (
    "patient_id", "age", "sex", "admitted", "ward", "icd_chapter", "creatinine", "cost", "remark", "outcome",
)  # fmt: skip
WARDS = ("medicine", "surgery", "cardiology", "maternity", "intensive care")
CHAPTERS = {
    "medicine": ("E00-E90", "J00-J99", "K00-K93"),
    "surgery": ("S00-T98", "K00-K93", "C00-D48"),
    "cardiology": ("I00-I99",),
    "maternity": ("O00-O99",),
    "intensive care": ("I00-I99", "J00-J99", "S00-T98"),
}
FIRST_DAY, DAYS = dt.date(2022, 1, 1), 1095


def admissions(patients: int, seed: int) -> list[tuple[str, ...]]:
    """One to six rows for each patient; older ones are ill more often, and dearer."""
    source = random.Random(seed)  # noqa: S311 - rows of nobody, for a tutorial
    rows = []
    for number in range(patients):
        age, sex = min(int(source.gammavariate(9, 6)), 104), source.choice(("female", "male"))
        for _ in range(min(1 + int(source.expovariate(0.9)), 6)):
            wards = (
                WARDS
                if sex == "female" and 16 < age < 50
                else [ward for ward in WARDS if ward != "maternity"]
            )
            ward = source.choice(wards)
            creatinine = source.lognormvariate(-0.2 + age / 200, 0.35)
            badly = source.random() < 0.03 + age / 500 + (0.15 if ward == "intensive care" else 0)
            cost = source.lognormvariate(7.5, 0.6) * (3 if ward == "intensive care" else 1)
            rows.append(
                (
                    f"P{100_000 + 7 * number}",
                    str(age),
                    sex,
                    (FIRST_DAY + dt.timedelta(source.randrange(DAYS))).strftime("%d.%m.%Y"),
                    ward,
                    source.choice(CHAPTERS[ward]),
                    "?" if source.random() < 0.08 else f"{creatinine:.2f}".replace(".", ","),
                    f"{cost:.0f}",
                    f"seen by Dr. {source.choice('ABCDEFGH')}., bed {source.randrange(900)}",
                    "died" if badly else "home",
                )
            )
    return rows


def write(path: Path, rows: list[tuple[str, ...]]) -> None:
    """A file as a hospital's system would export it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


if __name__ == "__main__":
    write(Path("admissions.csv"), admissions(4000, seed=1))
    write(Path("admissions-new.csv"), admissions(1000, seed=2))
