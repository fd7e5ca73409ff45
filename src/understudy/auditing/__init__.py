"""Attacks on the running step: readings, a verdict, and the lower bound on ε that they prove.

The values (`Claim`, `Audit`, `Verdict`) need no torch; what runs a step is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.auditing.canaries import CriticSubject, wide_mlp, widen
    from understudy.auditing.claims import Claim
    from understudy.auditing.configuration import audit
    from understudy.auditing.step import Subject, Thoroughness, audit_step
    from understudy.auditing.verdict import Audit, Outcome, Reading, Verdict

__all__ = [
    "Audit",
    "Claim",
    "CriticSubject",
    "Outcome",
    "Reading",
    "Subject",
    "Thoroughness",
    "Verdict",
    "audit",
    "audit_step",
    "wide_mlp",
    "widen",
]

_HOME = {
    "Audit": "verdict",
    "Claim": "claims",
    "CriticSubject": "canaries",
    "Outcome": "verdict",
    "Reading": "verdict",
    "Subject": "step",
    "Thoroughness": "step",
    "Verdict": "verdict",
    "audit": "configuration",
    "audit_step": "step",
    "wide_mlp": "canaries",
    "widen": "canaries",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
