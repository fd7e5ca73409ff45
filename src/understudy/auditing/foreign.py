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
import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from understudy.auditing.canaries import CriticSubject, wide_mlp
from understudy.auditing.step import Thoroughness, audit_step
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from understudy.auditing.canaries import Step
    from understudy.auditing.claims import Claim
    from understudy.auditing.verdict import Audit

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
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise PlanError(f"{path_text!r} cannot be run: {_named(problem)}.") from problem
    step: Step | None = getattr(module, name, None)
    if not callable(step):
        raise PlanError(f"{path_text!r} has no function {name!r}.")
    return step


def _named(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _answering(target: str, step: Step) -> Step:
    """The step, with an explanation where it fails or returns something that is not a gradient of the critic."""

    def answered(critic: nn.Module, real: Tensor, fake: Tensor) -> dict[str, Tensor]:
        try:
            released = step(critic, real, fake)
        except Exception as problem:
            raise PlanError(f"{target} failed on {len(real)} records: {_named(problem)}.") from problem
        shapes = {name: parameter.shape for name, parameter in critic.named_parameters()}
        try:
            pairs = released.items() if hasattr(released, "items") else zip(shapes, released, strict=True)
            found = {name: torch.as_tensor(gradient) for name, gradient in pairs}
        except (TypeError, ValueError, RuntimeError) as problem:
            raise PlanError(f"{target} returned no gradient of the critic: {_named(problem)}.") from problem
        if {name: gradient.shape for name, gradient in found.items()} != shapes:
            got = ", ".join(f"{name} {tuple(gradient.shape)}" for name, gradient in found.items())
            raise PlanError(
                f"{target} must return one tensor for each parameter of the critic, of the same shape; got {got}."
            )
        return found

    return answered


def audit_foreign(
    target: str,
    claim: Claim,
    *,
    sensitivity: float,
    canaries: int = 200,
    hidden: tuple[int, ...] = (16,),
    thoroughness: Thoroughness | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
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
        on_progress: called after each release with how many were observed, of how many.

    Raises:
        PlanError: the script cannot be run, or does not return a gradient.
    """
    if not 0 < sensitivity < math.inf:
        raise PlanError(
            f"the sensitivity must be positive: C for a sum, C / B for a mean; got {sensitivity}."
        )
    subject = CriticSubject(
        target,
        _answering(target, load_step(target)),
        wide_mlp(8, hidden, canaries, seed=seed),
        canaries,
        sensitivity=sensitivity,
        seed=seed,
    )
    return audit_step(
        subject, claim, thoroughness or Thoroughness(rounds=240), seed=seed, on_progress=on_progress
    )
