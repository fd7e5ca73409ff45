"""Somebody else's step: loaded by name, convicted or believed by its gradients, with exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from understudy.auditing.claims import Claim
from understudy.auditing.foreign import audit_foreign, load_step
from understudy.cli.audit import app
from understudy.errors import PlanError
from understudy.privacy.mechanisms import SubsampledGaussian

SCRIPT = """
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import softplus

def make(sigma):
    def step(critic, real, fake):
        weights = {n: p.detach() for n, p in critic.named_parameters()}
        loss = lambda w, row: softplus(-functional_call(critic, w, (row[None],))).sum()
        if len(real):
            g = vmap(grad(loss), (None, 0))(weights, real)
        else:
            g = {n: w.new_zeros((0, *w.shape)) for n, w in weights.items()}
        norms = torch.stack([v.flatten(1).square().sum(1) for v in g.values()]).sum(0).sqrt()
        factor = (1 / norms.clamp(min=1e-12)).clamp(max=1)
        return [torch.tensordot(factor, v, 1) + sigma * torch.randn(v.shape[1:]) for v in g.values()]
    return step

torch.manual_seed(0)
good, bad = make(1.15), make(0.5)

def crashes(critic, real, fake): raise KeyError("lost")
def nothing(critic, real, fake): pass
def too_few(critic, real, fake): return [torch.zeros(3)]
def misshapen(critic, real, fake): return {name: torch.zeros(2) for name, _ in critic.named_parameters()}
"""
OPTIONS = ["--sampling-rate", "0.1", "--noise-multiplier", "1.15", "--iterations", "20", "--sensitivity", "1"]


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "theirs.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(("function", "code", "verdict"), [("good", 0, "PASS"), ("bad", 3, "FAIL")])
def test_foreign_step_gets_its_verdict_and_exit_code(script, function, code, verdict):
    """A correct foreign step passes with code 0; one with half the noise fails with code 3."""
    result = CliRunner().invoke(
        app, ["foreign", f"{script}:{function}", *OPTIONS, "--canaries", "80", "--steps", "60", "--json"]
    )
    assert result.exit_code == code, result.output
    assert json.loads(result.stdout)["verdict"]["outcome"] == verdict


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("crashes", "KeyError: 'lost'"),
        ("nothing", "no gradient"),
        ("too_few", "no gradient"),
        ("misshapen", "same shape"),
    ],
)
def test_a_step_that_gives_no_gradient_is_explained(script, function, told):
    """An exception in their code, or something that is no gradient, is a PlanError that says what came."""
    claim = Claim(SubsampledGaussian(0.1, 1.15, 20), delta=1e-5)
    with pytest.raises(PlanError, match=told):
        audit_foreign(f"{script}:{function}", claim, sensitivity=1.0, canaries=16)


def test_scripts_that_cannot_run_and_impossible_sensitivities_are_explained(script, tmp_path):
    """A script that does not even load, and a sensitivity of nothing, are refused."""
    broken = tmp_path / "broken.py"
    broken.write_text("import there_is_no_such_module")
    with pytest.raises(PlanError, match="ModuleNotFoundError"):
        load_step(f"{broken}:step")
    with pytest.raises(PlanError, match="positive"):
        audit_foreign(f"{script}:good", Claim(SubsampledGaussian(0.1, 1.15, 20), delta=1e-5), sensitivity=0.0)


def test_missing_scripts_and_functions_are_explained(script, tmp_path):
    """A target without a colon, without a file, or without the function is refused with a reason."""
    for target in ("theirs", f"{tmp_path}/none.py:f", f"{script}:absent"):
        with pytest.raises(PlanError):
            load_step(target)
