"""PRIVATE: a door whose records lie in shards that never meet, but for the sums that each counted by itself.

Where processes cannot talk to each other, a fit goes in *rounds*: one question a round. In every shard a door counts
(`CountingDoor`), and what it counted is a part, which is private. Where all parts of the round are, a door without
records adds them up (`AddingDoor`): it charges, draws the noise once and keeps the answer, as if it had counted itself.
Both are asked by the same fitter, from one seed, and repeat what was answered in the rounds before; the first question
without an answer is that of the round.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from understudy.door.door import Door
from understudy.door.query import Batch, Published
from understudy.errors import PartsError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import Tensor

    from understudy.door.query import Query
    from understudy.door.source import Rows

__all__ = ["AddingDoor", "Answer", "Counted", "CountingDoor", "Question", "QuestionLeft"]


@dataclass(frozen=True)
class Question:
    """What is asked, as far as it can be compared; public.

    Args:
        purpose: what the answer is for.
        scale: the standard deviation of the noise, which follows from the bound that records are cut to.
        probe: a hash of what it would count in made-up records.
    """

    purpose: str
    scale: float
    probe: str


@dataclass(frozen=True, eq=False)
class Answer:
    """A noisy answer of an earlier round: free to use and to keep."""

    purpose: str
    published: Published


class Counted(Exception):  # noqa: N818 - not an error: how a counting door ends the fit that it was asked by
    """PRIVATE: the sums of a shard for the question of this round."""

    def __init__(self, question: Question, sums: Sequence[Tensor]) -> None:
        super().__init__(question.purpose)
        self.question, self.sums = question, tuple(sums)


class QuestionLeft(Exception):  # noqa: N818 - not an error: how an adding door ends the fit that it was asked by
    """There is a question that nobody has counted yet."""


class _RoundsDoor(Door):
    """A door that repeats the answers of earlier rounds, and charges nothing for them.

    Args:
        arguments: those of `Door`.
        answers: of the earlier rounds, in their order.
        made_up: records by which questions are compared; the same in all shards.
        options: those of `Door`.
    """

    def __init__(self, *arguments: Any, answers: Sequence[Answer], made_up: Rows, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._answers, self._made_up = deque(answers), made_up

    def publish(self, purpose: str, query: Query) -> Published:
        """The answer of an earlier round, or what this round makes of the question."""
        scale = self._scale(purpose, query)
        if not self._answers:
            return self._new(query, Question(purpose, scale, self._probe(query)))
        answer = self._answers.popleft()
        if answer.purpose != purpose or answer.published.deviation != scale:
            raise PartsError(
                f"the {purpose} is asked where the {answer.purpose} was answered before. All rounds of a fit need one "
                "installation and one plan."
            )
        self._count(purpose)
        return answer.published

    @abstractmethod
    def _new(self, query: Query, question: Question) -> Published:
        """What becomes of the question of this round."""

    def _probe(self, query: Query) -> str:
        sums, code = query.zero(), hashlib.sha256()
        for x, labels in self._made_up.batches(query.rows_at_once):
            query.add(sums, Batch(x, labels, self.chance))
        for one in sums:
            code.update(str(tuple(one.shape)).encode() + one.numpy().tobytes())
        return code.hexdigest()

    def step(self, purpose: str, query: Query, like: Tensor) -> Published:
        """Refuses: steps are far too many for rounds."""
        del query, like
        raise PlanError(f"the {purpose} takes steps; each would be a round of its own. Use --processes.")


class CountingDoor(_RoundsDoor):
    """PRIVATE: counts the records of one shard for the question of the round, and ends there: nothing is drawn."""

    def _new(self, query: Query, question: Question) -> Published:
        raise Counted(question, self._summed(question.purpose, query))


class AddingDoor(_RoundsDoor):
    """Adds the parts of all shards for the question of the round, and ends at the next.

    Args:
        arguments: those of `Door`, without records.
        parts: gives the parts once they are known to be those of this question; None if there are none.
        keep: is handed the answer, and has it on disk when it returns.
        options: those of `Door`, and `answers` and `made_up`.
    """

    def __init__(
        self,
        *arguments: Any,
        parts: Callable[[Question], Iterable[Sequence[Tensor]]] | None,
        keep: Callable[[Answer], None],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._parts, self._keep = parts, keep

    def _new(self, query: Query, question: Question) -> Published:
        if self._parts is None:
            raise QuestionLeft(question.purpose)
        parts, self._parts = self._parts(question), None
        added = query.zero()
        for part in parts:
            if not _fits(part, added):
                raise PartsError(f"a part does not hold sums of the {question.purpose}. Count it again.")
            for one, own in zip(added, part, strict=True):
                one.add_(own)
        total = self._summed(question.purpose, query)  # of no records: from here on it is charged
        for one, own in zip(total, added, strict=True):
            one.add_(own)
        seen = self._drawn(question.purpose, total, question.scale)
        self._keep(Answer(question.purpose, seen))
        return seen


def _fits(sums: Sequence[Tensor], like: Sequence[Tensor]) -> bool:
    """Whether sums have the shapes and the type of others, and hold numbers."""
    return [one.shape for one in sums] == [one.shape for one in like] and all(
        one.dtype == torch.float64 and bool(one.isfinite().all()) for one in sums
    )
