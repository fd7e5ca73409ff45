"""The classifier behind the inception score: trained once, kept in a cache, and reported with accuracy and hash."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from understudy.data import known
from understudy.evaluation.domain import domain_classifier
from understudy.evaluation.intervals import wilson
from understudy.evaluation.sources import labelled
from understudy.records.encode import encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Judge", "train_judge"]


@dataclass(frozen=True)
class Judge:
    """What is known of a trained judge.

    Args:
        dataset: whose training rows it learned from.
        accuracy: share of test rows that it classifies right.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        sha256: of its weights.
    """

    dataset: str
    accuracy: float
    low: float
    high: float
    sha256: str

    def plain(self) -> dict[str, Any]:
        """The values as a dictionary for JSON."""
        return asdict(self)


def train_judge(
    dataset: str, cache: Path, *, rows: int | None = None, on_progress: Callable[[float], None] | None = None
) -> Judge:
    """Train the judge on the training rows of a known set (or read it from the cache) and test it.

    It is not chosen by its test accuracy: there is one training, and this is its result.

    Args:
        dataset: a known set of labelled images.
        cache: where it is kept; `understudy reproduce PAPER --out DIR` looks in `DIR/judge`.
        rows: use the first so many training rows.
        on_progress: called with the finished share.
    """
    from safetensors.torch import save

    found = known(dataset)
    train, test = (labelled(encode(part, found.schema), found.schema) for part in (found.train, found.test))
    taught = type(train)(train.features[:rows], train.labels[:rows], train.classes)
    judge = domain_classifier(taught, cache=cache, on_progress=on_progress)
    right = judge.probabilities(test.features).argmax(axis=1) == test.labels
    share = wilson(int(right.sum()), len(test))
    weights = {name: tensor.contiguous() for name, tensor in judge.network.state_dict().items()}
    return Judge(dataset, share.value, share.low, share.high, hashlib.sha256(save(weights)).hexdigest())
