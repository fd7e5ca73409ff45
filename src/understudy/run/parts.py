"""PRIVATE: the files in which shards hand over what they counted, and which of them belong together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import PartsError
from understudy.files import read_plain
from understudy.run.shards import Shard
from understudy.run.working_files import facts_and_tensors, write_working_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

    from understudy.door.rounds import Question

__all__ = ["Part", "Parts", "Round"]

FORMAT = 1
_LARGEST = 2**36


@dataclass(frozen=True)
class Round:
    """What all parts of a round have in common.

    Args:
        plan: a hash of the plan.
        versions: of the package and of those it uses.
        after: a hash of all that was answered in the rounds before.
    """

    plan: str
    versions: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """PRIVATE: what a part says besides its sums.

    Args:
        format: version of this file's format.
        shard: whose sums these are.
        round: in which they were counted.
        data: a hash of all data where shards are dealt, and of the shard alone where it is a file of its own.
        own: whether the shard is a file of its own.
        purpose, scale, probe: the question that was counted; see `Question`.
    """

    format: int = FORMAT
    shard: Shard
    round: Round
    data: str
    own: bool
    purpose: str
    scale: float
    probe: str

    def save(self, path: Path, sums: Sequence[Tensor]) -> None:
        """Write the part; only its owner can read it.

        Raises:
            PartsError: the disk refuses.
        """
        write_working_file(path, self, {f"{n:04d}": one for n, one in enumerate(sums)}, error=PartsError)


class Parts:
    """PRIVATE: the parts of one round, each exactly once.

    Args:
        paths: the files.
        round: what they must have been counted for.

    Raises:
        PartsError: one is damaged, missing, doubled or foreign.
    """

    def __init__(self, paths: Sequence[Path], round: Round) -> None:  # noqa: A002 - the plain name
        self.paths = tuple(paths)
        self._found = {path: _read(path)[0] for path in paths}
        refuse_foreign(self._found, round)
        refuse_missing(self._found)
        refuse_other_data(self._found)

    def of(self, question: Question) -> Iterator[list[Tensor]]:
        """The sums of each shard, one at a time.

        Raises:
            PartsError: some were counted for another question.
        """
        for path, part in self._found.items():
            if (part.purpose, part.scale, part.probe) != (question.purpose, question.scale, question.probe):
                raise PartsError(
                    f"{path} counted the {part.purpose} otherwise than this process would ask for the "
                    f"{question.purpose}. Count all parts from one installation, on machines of one kind."
                )
        return (self._sums(path) for path in self.paths)

    def _sums(self, path: Path) -> list[Tensor]:
        part, held = _read(path)
        if part != self._found[path]:
            raise PartsError(f"{path} changed while it was read; try again.")
        return [held[name] for name in sorted(held)]


def _read(path: Path) -> tuple[Part, dict[str, Tensor]]:
    blob = read_plain(path, _LARGEST, error=PartsError)
    return facts_and_tensors(Part, path, blob, "a part", error=PartsError)


def refuse_foreign(parts: dict[Path, Part], round: Round) -> None:  # noqa: A002
    """Refuse parts of another plan, version or round."""
    for path, part in parts.items():
        for what in ("plan", "versions", "after"):
            if getattr(part.round, what) != getattr(round, what):
                words = {"plan": "plan", "versions": "version of the package, or of one it uses,"}
                raise PartsError(
                    f"{path} was counted for another {words.get(what, 'round of this fit')}. Nothing was charged. "
                    "Remove it and count again."
                )


def refuse_missing(parts: dict[Path, Part]) -> None:
    """Refuse unless every shard is there exactly once."""
    sizes = sorted({part.shard.size for part in parts.values()})
    if len(sizes) > 1:
        raise PartsError(
            f"there are parts of {sizes[0]} shards and parts of {sizes[1]}: a record could count twice. Nothing was "
            "charged. Remove one kind."
        )
    found = Counter(part.shard.rank for part in parts.values())
    twice = [rank for rank, times in found.items() if times > 1]
    if twice:
        raise PartsError(
            f"part {Shard(twice[0], sizes[0])} is there {found[twice[0]]} times. Nothing was charged. Keep one of "
            "them."
        )
    gone = [rank for rank in range(sizes[0]) if rank not in found]
    if gone:
        raise PartsError(
            f"part {Shard(gone[0], sizes[0])} is missing, as {len(gone)} of {sizes[0]} are. Nothing was charged. "
            "Count it."
        )


def refuse_other_data(parts: dict[Path, Part]) -> None:
    """Refuse shards that were dealt from different data, and two that are one file."""
    kinds = {part.own for part in parts.values()}
    data = Counter(part.data for part in parts.values() if part.own or part.shard.size > 1)
    if len(kinds) > 1 or (kinds == {False} and len(data) > 1):
        raise PartsError(
            "the parts were not dealt from the same data in the same order, so that a record could be in two of them. "
            "Nothing was charged. Count all of them from the same files; a query needs an `order by` that leaves no "
            "two rows equal."
        )
    if kinds == {True} and max(data.values()) > 1:
        raise PartsError(
            "two parts were counted from the same shard. Nothing was charged. Give each its own: name it with {rank}, "
            "as in visits-{rank}.parquet."
        )
