"""What a budget buys, in the user's terms: how loud the noise will be beside what it is to be added to.

A recipe says it before anything is spent, from public facts alone: the schema, the charges of the plan, and the number
of rows where that is declared. `plan` prints it, `fit` refuses by it, and it depends on no private record.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.privacy.mechanisms import GaussianRelease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.privacy.mechanisms import Charge

__all__ = ["Answer", "Prospect", "Reach", "noises", "reach_of", "rows_in_classes"]

_CLEAR = 4.0
"""How many deviations of the noise something should hold to be learned well."""


class Reach(enum.Enum):
    """Whether a budget reaches something."""

    CLEAR = "will be learned"
    FAINT = "will be learned in part: what is frequent"
    LOST = "will not be learned"
    UNKNOWN = "depends on their number, which is private"


def reach_of(held: float | None, noise: float) -> Reach:
    """Whether something that so many rows hold stands out of noise of this deviation."""
    if held is None:
        return Reach.UNKNOWN
    if held >= _CLEAR * noise:
        return Reach.CLEAR
    return Reach.FAINT if held > noise else Reach.LOST


@dataclass(frozen=True)
class Answer:
    """One thing that the door will be asked, and how well the answer can be heard.

    Args:
        purpose: what the door is asked for, as on the plan.
        each: what one number of the answer stands for, such as "value of a column".
        noise: the standard deviation of each number, in rows (or persons, where the schema names these).
        held: how many of them one number counts on average; None if their number is private.
        reach: whether it will be learned.
        unit: what is counted, as in "rows" or "patients".
    """

    purpose: str
    each: str
    noise: float
    held: float | None
    reach: Reach
    unit: str = "rows"

    def __str__(self) -> str:
        held = "" if self.held is None else f" (about {_rows(self.held)} each)"
        return f"± {_rows(self.noise)} {self.unit} per {self.each}{held}: {self.reach.value}"


@dataclass(frozen=True)
class Prospect:
    """What a plan can be expected to give.

    Args:
        basis: the rows that there are, in words.
        answers: everything that will be asked, in the order of the plan.
        advice: what would help, as sentences.
        useless: why the outcome would be worth nothing, as a sentence; None if it is worth something.
    """

    basis: str
    answers: tuple[Answer, ...]
    advice: tuple[str, ...] = ()
    useless: str | None = None

    @property
    def out_of_reach(self) -> tuple[str, ...]:
        """What will not be learned."""
        return tuple(one.purpose for one in self.answers if one.reach is Reach.LOST)

    def __str__(self) -> str:
        lines = [f"what it buys      {self.basis}"]
        lines += [f"{one.purpose:<17} {one}" for one in self.answers]
        if self.out_of_reach:
            lines.append(f"out of reach      {', '.join(self.out_of_reach)}")
        lines += [f"would help        {one}" for one in self.advice]
        return "\n".join([*lines, *([] if self.useless is None else [f"USELESS           {self.useless}"])])


def noises(charges: Sequence[Charge]) -> dict[str, float]:
    """σ of every Gaussian release, by its purpose."""
    return {
        one.purpose: one.mechanism.noise_multiplier
        for one in charges
        if isinstance(one.mechanism, GaussianRelease)
    }


def rows_in_classes(rows: int | None, classes: int, unit: str = "rows") -> str:
    """The rows (or persons) that there are, in words."""
    if rows is None:
        return f"the number of {unit} is private; declare it with --rows if it is public"
    if classes < 2:
        return f"{rows:,} {unit}"
    return f"{rows:,} {unit} in {classes} classes, about {_rows(rows / classes)} each"


def _rows(number: float) -> str:
    if number >= 10 or number == 0:
        return f"{number:,.0f}"
    return f"{number:.{max(1, 1 - math.floor(math.log10(number)))}f}"
