"""The typed result of an audit: readings, the verdict they give, and how both are said in words."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.notebook import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Audit", "Outcome", "Reading", "Verdict", "judge"]


class Outcome(enum.Enum):
    """What a reading, or a whole audit, says about the claim."""

    PASS = "PASS"  # noqa: S105 - not a password
    """The observations agree with the claim, and were fine enough to see it broken."""

    FAIL = "FAIL"
    """The observations contradict the claim at the audit's confidence."""

    INCONCLUSIVE = "INCONCLUSIVE"
    """They contradict nothing, but were too few to see the claim broken."""


@dataclass(frozen=True)
class Reading:
    """One number read from the running step, beside what the claim says it should be.

    Args:
        name: which reading.
        outcome: what it says about the claim.
        value: what was observed.
        low: lower end of the interval around the observed value, at the audit's confidence.
        high: upper end of that interval.
        claimed: what the claim implies for this number.
        says: one sentence for people.
        lower_bound: the lower bound on ε that the reading proves, where it proves one.
        ceiling: the largest lower bound that this reading could have proved with so many canaries.
        canaries_needed: when inconclusive, about how many canaries would decide.
    """

    name: str
    outcome: Outcome
    value: float
    low: float
    high: float
    claimed: float
    says: str
    lower_bound: float | None = None
    ceiling: float | None = None
    canaries_needed: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The conclusion of an audit.

    Args:
        outcome: FAIL if any reading fails, else INCONCLUSIVE if any is, else PASS.
        reading: the reading that decided, or None when all passed.
        says: why, in one sentence.
        canaries_needed: when inconclusive, about how many canaries would decide.
    """

    outcome: Outcome
    reading: str | None
    says: str
    canaries_needed: int | None = None

    @property
    def exit_code(self) -> int:
        """0 for PASS, 3 for FAIL, 4 for INCONCLUSIVE (1 and 2 mean that the command itself went wrong)."""
        return {Outcome.PASS: 0, Outcome.FAIL: 3, Outcome.INCONCLUSIVE: 4}[self.outcome]


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found.

    Args:
        subject: the name of what was audited.
        claimed_epsilon: ε of the claim.
        delta: the δ at which every ε here is read.
        confidence: the probability with which a correct step is not failed by any of the readings.
        canaries: how many canaries were used.
        rounds: how many releases of the step were observed.
        readings: everything that was read.
        verdict: the conclusion.
    """

    subject: str
    claimed_epsilon: float
    delta: float
    confidence: float
    canaries: int
    rounds: int
    readings: tuple[Reading, ...]
    verdict: Verdict

    @property
    def lower_bound(self) -> float:
        """The largest lower bound on ε that any reading proved."""
        return max((r.lower_bound for r in self.readings if r.lower_bound is not None), default=0.0)

    def __repr__(self) -> str:
        return (
            f"<Audit of {self.subject}: {self.verdict.outcome.value}, ε ≥ {self.lower_bound:.4g} shown, "
            f"{self.claimed_epsilon:.4g} claimed>"
        )

    def _repr_html_(self) -> str:
        rows = [(one.name, one.outcome.value, one.says) for one in self.readings]
        title = f"Audit of {self.subject}: {self.verdict.outcome.value}"
        return html_table(title, rows, head=("reading", "outcome", "says"), notes=[self.verdict.says])

    def reading(self, name: str) -> Reading:
        """The reading of that name; KeyError if it was not made."""
        for reading in self.readings:
            if reading.name == name:
                return reading
        raise KeyError(name)


def judge(readings: Sequence[Reading]) -> Verdict:
    """The verdict that readings give together; among failures the strongest lower bound on ε speaks."""
    failed = [r for r in readings if r.outcome is Outcome.FAIL]
    if failed:
        first = max(failed, key=lambda r: -1.0 if r.lower_bound is None else r.lower_bound)
        return Verdict(Outcome.FAIL, first.name, first.says)
    open_ones = [r for r in readings if r.outcome is Outcome.INCONCLUSIVE]
    if open_ones:
        needed = max((r.canaries_needed or 0 for r in open_ones), default=0)
        return Verdict(Outcome.INCONCLUSIVE, open_ones[0].name, open_ones[0].says, needed or None)
    return Verdict(Outcome.PASS, None, "every reading agrees with the claim.")
