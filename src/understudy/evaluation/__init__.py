"""Evaluation: utility, fidelity and closeness of a release, each number with interval, ceiling and floor.

The names are loaded on first use, so that the command line starts without the numerical libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.evaluation.criteria import Criteria
    from understudy.evaluation.learners import Learner
    from understudy.evaluation.result import Better, Evaluation, Group, Judged, Measure
    from understudy.evaluation.run import evaluate
    from understudy.evaluation.sources import Evaluated

__all__ = [
    "Better",
    "Criteria",
    "Evaluated",
    "Evaluation",
    "Group",
    "Judged",
    "Learner",
    "Measure",
    "evaluate",
]

_HOME = {
    "Better": "result",
    "Criteria": "criteria",
    "Evaluation": "result",
    "Group": "result",
    "Judged": "result",
    "Learner": "learners",
    "Measure": "result",
    "Evaluated": "sources",
    "evaluate": "run",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
