"""What was answered in the rounds of a fit: noisy numbers in one working file, from which the next round goes on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from understudy import codec
from understudy.door.query import Published
from understudy.door.rounds import Answer
from understudy.errors import CheckpointError
from understudy.files import read_plain
from understudy.planning import Plan
from understudy.release.release import packages_in_use
from understudy.run.parts import Round
from understudy.run.working_files import facts_and_tensors, write_working_file

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Answered", "Facts"]

FORMAT = 1
_LARGEST = 2**36


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the file of answers says besides the answers.

    Args:
        format: version of this file's format.
        plan: of the fit.
        seed: of what is free, such as the first components; the same in all shards.
        insecure: whether the noise comes from this seed as well.
        purposes: of the answers, in their order.
        deviations: of their noise.
        entry: the number of the ledger's entry that the fit is charged to.
    """

    format: int = FORMAT
    plan: Plan
    seed: int
    insecure: bool = False
    purposes: tuple[str, ...] = ()
    deviations: tuple[float, ...] = ()
    entry: str | None = None


class Answered:
    """What was answered so far: noisy numbers, which may be kept.

    Args:
        facts: about them.
        tensors: the answers.
    """

    def __init__(self, facts: Facts, tensors: dict[str, Tensor]) -> None:
        self.facts, self.tensors = facts, tensors

    @classmethod
    def kept(cls, path: Path | None, plan: Plan, insecure_seed: int | None = None) -> Answered:
        """Those in a file; none if it does not exist.

        Raises:
            CheckpointError: it belongs to another plan or seed.
        """
        if path is None or not path.exists():
            seed = int(_hashed(codec.to_json(plan))[:15], 16) if insecure_seed is None else insecure_seed
            return cls(Facts(plan=plan, seed=seed, insecure=insecure_seed is not None), {})
        blob = read_plain(path, _LARGEST, error=CheckpointError)
        facts, tensors = facts_and_tensors(Facts, path, blob, "a file of answers", error=CheckpointError)
        if facts.plan != plan:
            raise CheckpointError(f"{path} belongs to a fit with another plan.")
        if facts.insecure and insecure_seed not in (None, facts.seed):
            raise CheckpointError(f"{path} belongs to a fit with another seed.")
        return cls(facts, tensors)

    @property
    def answers(self) -> list[Answer]:
        """In their order."""
        found = []
        for number, (purpose, deviation) in enumerate(
            zip(self.facts.purposes, self.facts.deviations, strict=True)
        ):
            names = sorted(name for name in self.tensors if name.startswith(f"{number:04d}:"))
            values = tuple(self.tensors[name] for name in names)
            found.append(Answer(purpose, Published(values, deviation)))
        return found

    @property
    def round(self) -> Round:
        """What parts of the next round must have been counted for."""
        code = hashlib.sha256(repr((self.facts.purposes, self.facts.deviations)).encode())
        for name in sorted(self.tensors):
            code.update(name.encode() + self.tensors[name].numpy().tobytes())
        versions = "; ".join(f"{one.name} {one.version}" for one in packages_in_use())
        return Round(_hashed(codec.to_json(self.facts.plan)), versions, code.hexdigest())

    def with_answer(self, answer: Answer, entry: str | None) -> Answered:
        """One more."""
        facts, number = self.facts, len(self.facts.purposes)
        more = {f"{number:04d}:{place:04d}": one for place, one in enumerate(answer.published.values)}
        return Answered(
            replace(
                facts,
                purposes=(*facts.purposes, answer.purpose),
                deviations=(*facts.deviations, answer.published.deviation),
                entry=entry,
            ),
            {**self.tensors, **more},
        )

    def save(self, path: Path) -> None:
        """Write it; on disk when this returns."""
        write_working_file(path, self.facts, self.tensors, error=CheckpointError)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
