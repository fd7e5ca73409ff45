"""Audit somebody else's step: a function in a script, named as `script.py:function`.

The function is called as `function(critic, real, fake)` and returns the noisy gradient of the critic, by parameter
name or in the order of `critic.parameters()`:

* `critic` is a torch module from rows to logits;
* `real` holds one record per row, and may be empty;
* `fake` holds generated rows of the same width.

It does the loss, the clipping and the noise itself, as in training. The script is executed: audit only code you trust.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.audit.canaries import CriticSubject, wide_mlp
from understudy.audit.step import Thoroughness, audit
from understudy.errors import PlanError

if TYPE_CHECKING:
    from understudy.audit.canaries import Step
    from understudy.audit.claims import Claim
    from understudy.audit.verdict import Audit

__all__ = ["audit_foreign", "load_step"]


def load_step(target: str) -> Step:
    """The function that `script.py:function` names.

    Raises:
        PlanError: there is no such file, or no such function in it.
    """
    path_text, _, name = target.rpartition(":")
    path = Path(path_text)
    if not path_text or not name:
        raise PlanError(f"expected script.py:function, got {target!r}.")
    if not path.is_file():
        raise PlanError(f"there is no file {path_text!r}; give the path of a Python script before the colon.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PlanError(f"{path_text!r} cannot be read as a Python script.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    step: Step | None = getattr(module, name, None)
    if not callable(step):
        raise PlanError(f"{path_text!r} has no function {name!r}.")
    return step


def audit_foreign(
    target: str,
    claim: Claim,
    *,
    sensitivity: float,
    canaries: int = 200,
    hidden: tuple[int, ...] = (16,),
    thoroughness: Thoroughness | None = None,
    seed: int = 0,
) -> Audit:
    """Audit the step that `script.py:function` names; its sampler is not seen.

    Args:
        target: script and function.
        claim: what its books say.
        sensitivity: how far one record may move the returned gradient, as claimed: C for a sum, C / B for a mean.
        canaries: how many canaries are used.
        hidden: the hidden layers of the critic that it is handed.
        thoroughness: how much is observed.
        seed: of the auditor's coins and of the critic.
    """
    subject = CriticSubject(
        target,
        load_step(target),
        wide_mlp(8, hidden, canaries, seed=seed),
        canaries,
        sensitivity=sensitivity,
        seed=seed,
    )
    return audit(subject, claim, thoroughness or Thoroughness(rounds=240), seed=seed)
