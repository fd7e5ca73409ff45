"""Understudy: publish a generator instead of the data.

The verbs are `plan`, `fit`, `load`, `sample`, `statistics`, `evaluate`, `audit` and `report`; the values they pass on
are `Schema`, `Budget`, `Plan`, `Recipe` and `Release`. Names are loaded on first use, so that planning does not wait
for torch.

>>> import understudy
>>> understudy.plan(epsilon=3, rows=60_000, recipe="dp-cgan-printed", steps=100).training.steps
100
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from understudy._version import __version__

if TYPE_CHECKING:
    from understudy.auditing.configuration import audit
    from understudy.auditing.verdict import Audit
    from understudy.data.draft import draft_schema
    from understudy.data.editing import Draft
    from understudy.errors import UnderstudyError
    from understudy.evaluation import Evaluation, evaluate
    from understudy.planning import Plan, plan
    from understudy.privacy.budget import Adjacency, Budget
    from understudy.release.hub import load
    from understudy.release.release import Release
    from understudy.release.sampling import sample
    from understudy.release.statistics import statistics
    from understudy.reporting.render import report
    from understudy.run.fit import fit
    from understudy.run.synthesizer import Synthesizer
    from understudy.schema import CodeSchema, ImageSchema, Schema, TableSchema
    from understudy.synthesizers.protocol import Recipe

__all__ = [
    "Adjacency",
    "Audit",
    "Budget",
    "CodeSchema",
    "Draft",
    "Evaluation",
    "ImageSchema",
    "Plan",
    "Recipe",
    "Release",
    "Schema",
    "Synthesizer",
    "TableSchema",
    "UnderstudyError",
    "__version__",
    "audit",
    "draft_schema",
    "evaluate",
    "fit",
    "load",
    "plan",
    "report",
    "sample",
    "statistics",
]

_HOMES = {
    "Adjacency": "understudy.privacy.budget",
    "Audit": "understudy.auditing.verdict",
    "Budget": "understudy.privacy.budget",
    "CodeSchema": "understudy.schema",
    "Draft": "understudy.data.editing",
    "Evaluation": "understudy.evaluation",
    "ImageSchema": "understudy.schema",
    "Plan": "understudy.planning",
    "Recipe": "understudy.synthesizers.protocol",
    "Release": "understudy.release.release",
    "Schema": "understudy.schema",
    "Synthesizer": "understudy.run.synthesizer",
    "TableSchema": "understudy.schema",
    "UnderstudyError": "understudy.errors",
    "audit": "understudy.auditing.configuration",
    "draft_schema": "understudy.data.draft",
    "evaluate": "understudy.evaluation",
    "fit": "understudy.run.fit",
    "load": "understudy.release.hub",
    "plan": "understudy.planning",
    "report": "understudy.reporting.render",
    "sample": "understudy.release.sampling",
    "statistics": "understudy.release.statistics",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
