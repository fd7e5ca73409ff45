"""The audit as a whole, on a simulated mechanism: verdicts, wording, and the typed result."""

from __future__ import annotations

import numpy as np
import pytest

from understudy import codec
from understudy.auditing import Audit, Claim, Outcome, Thoroughness, audit_step
from understudy.errors import PlanError
from understudy.privacy.mechanisms import SubsampledGaussian

CLAIM = Claim(SubsampledGaussian(0.1, 1.15, 200), delta=1e-5)
QUICK = Thoroughness(rounds=80, opposed_rounds=60, training_rounds=40)


def failing(result):
    """Names of the readings that fail."""
    return {reading.name for reading in result.readings if reading.outcome is Outcome.FAIL}


@pytest.mark.slow
def test_correct_mechanism_passes_a_hundred_times(simulated):
    """One hundred audits of the exact mechanism pass, every one."""
    outcomes = [audit_step(simulated(canaries=300, seed=i), CLAIM, QUICK, seed=i).verdict for i in range(100)]
    assert [v for v in outcomes if v.outcome is not Outcome.PASS] == []


@pytest.mark.parametrize(
    ("planted", "reading"),
    [
        ({"sigma": 0.97 * 1.15}, "variance"),
        ({"shift": 1.2}, "multiplier"),
        ({"reuse": True}, "reuse"),
    ],
)
def test_planted_errors_are_caught(simulated, planted, reading):
    """Noise 3 % too small, a record that moves the sum by 1.2, and reused noise each fail their reading."""
    result = audit_step(simulated(canaries=400, **planted), CLAIM, QUICK)
    assert result.verdict.outcome is Outcome.FAIL
    assert reading in failing(result)


def test_exit_codes_follow_the_verdict(simulated):
    """PASS is 0, FAIL 3, INCONCLUSIVE 4, apart from the codes of a command that went wrong."""
    assert audit_step(simulated(canaries=200), CLAIM, QUICK).verdict.exit_code == 0
    assert audit_step(simulated(sigma=0.5), CLAIM, QUICK).verdict.exit_code == 3
    few = audit_step(
        simulated(canaries=90), CLAIM, Thoroughness(rounds=8, opposed_rounds=20, training_rounds=4)
    )
    assert few.verdict.exit_code == 4
    assert few.verdict.canaries_needed > 90


def test_not_a_number_fails_instead_of_passing_every_comparison(simulated):
    """A release that holds NaN is a failure of its own."""
    subject = simulated()
    plain = subject.release

    def broken(codes):
        released = plain(codes)
        released["bias"][0] = np.nan
        return released

    subject.release = broken
    assert audit_step(subject, CLAIM, QUICK).verdict.reading == "finite"


def test_a_step_that_cannot_take_an_empty_batch_fails(simulated):
    """An empty Poisson batch must give noise; an exception reveals that it was empty."""
    subject = simulated(canaries=200)
    plain = subject.release

    def refuses(codes):
        if not len(codes):
            raise ZeroDivisionError("mean of nothing")
        return plain(codes)

    subject.release = refuses
    result = audit_step(subject, CLAIM, QUICK)
    assert failing(result) == {"empty-batch"}
    assert "mean of nothing" in result.verdict.says


def test_result_survives_json(simulated):
    """An audit written as JSON and read back is the same audit."""
    result = audit_step(simulated(sigma=1e-9), CLAIM, QUICK)
    assert codec.from_json(Audit, codec.to_json(result)) == result
    assert result.lower_bound > CLAIM.epsilon
    with pytest.raises(KeyError):
        result.reading("tarot")


def test_impossible_settings_are_refused():
    """Rounds that do not come in fours, a confidence of one, a claim without noise."""
    for wrong in ({"rounds": 10}, {"confidence": 1.0}):
        with pytest.raises(PlanError):
            Thoroughness(**wrong)
    with pytest.raises(PlanError):
        Claim(SubsampledGaussian(0.1, 0.0, 10), 1e-5)
