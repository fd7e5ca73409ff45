"""Membership attacks find a generator that copies, and not one that does not; intervals and bounds hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from tiny import tiny_frame, tiny_plan
from understudy.auditing.leakage import attack_release
from understudy.auditing.membership import distance_scores, largest_power, membership, shadow_scores
from understudy.cli.audit import app
from understudy.data import Records
from understudy.errors import EvaluationError
from understudy.release.release import Release
from understudy.run.fit import fit


def records(seed, rows=1200):
    """Records, which of them were used, and reference rows from elsewhere."""
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal((rows, 6)), rng.random(rows) < 0.5, rng.standard_normal((2000, 6))


def test_copying_generator_is_caught_by_distance():
    """A generator that publishes its records contradicts ε = 1."""
    rng, rows, members, reference = records(0)
    synthetic = rows[members] + 1e-3 * rng.standard_normal((int(members.sum()), 6))
    result = membership(
        "distance", distance_scores(rows, synthetic, reference), members, epsilon=1.0, delta=1e-5
    )
    assert result.true_positive_rate > 0.95
    assert result.contradicts


def test_independent_generator_contradicts_nothing():
    """Samples that do not depend on the records never contradict a small ε in 40 tries."""
    for seed in range(40):
        rng, rows, members, reference = records(seed, rows=900)
        scores = distance_scores(rows, rng.standard_normal((600, 6)), reference)
        assert not membership("distance", scores, members, epsilon=0.1, delta=1e-5).contradicts


def test_shadow_models_sharpen_a_weak_leak():
    """Where the plain distance is blurred by how unusual a record is, the likelihood ratio still orders members."""
    rng, rows, members, reference = records(1)
    scale = np.exp(rng.normal(0, 1.5, len(rows)))[:, None]
    rows = rows * scale

    def generate(held):
        return rows[held] + 0.4 * scale[held] * rng.standard_normal((int(held.sum()), 6))

    shadows = [(generate(held), held) for held in (rng.random((16, len(rows))) < 0.5)]
    synthetic = generate(members)
    ratio = shadow_scores(rows, synthetic, shadows)
    plain = distance_scores(rows, synthetic, reference)

    def power(scores):
        return membership("x", scores, members, epsilon=1.0, delta=1e-5).true_positive_rate

    assert power(ratio) > power(plain)
    with pytest.raises(EvaluationError):
        shadow_scores(rows, synthetic, shadows[:1])


def test_largest_power_is_the_bound_of_the_definition():
    """ε = 0 allows nothing over guessing; large ε allows everything; in between, e^ε times the rate."""
    assert largest_power(0.01, 0.0, 0.0) == pytest.approx(0.01)
    assert largest_power(0.01, 1.0, 1e-5) == pytest.approx(math.e * 0.01 + 1e-5)
    assert largest_power(0.01, 20.0, 0.0) == pytest.approx(1.0, abs=1e-6)


def test_too_few_non_members_are_refused():
    """A rate of 1 % cannot be read from a hundred records."""
    with pytest.raises(EvaluationError):
        membership("x", np.arange(100.0), np.arange(100) % 2 == 0, epsilon=1.0, delta=1e-5)


@pytest.fixture(scope="module")
def release():
    """A release of three steps on tiny rows, and rows of both kinds."""
    members, others = Records(tiny_frame(64, seed=0)), Records(tiny_frame(200, seed=1))
    return fit(members, tiny_plan()), members, others


def test_a_release_is_attacked_by_distance_and_by_shadows(release):
    """Both attacks report rates, intervals and the bound; a private release of three steps contradicts nothing."""
    made, members, others = release
    told = []
    found = attack_release(
        made, members, others, synthetic=50, shadows=8, false_positive_rate=0.05, on_progress=told.append
    )
    assert [result.attack for result in found.results] == ["distance", "shadow"]
    assert (found.members, found.non_members, told[-1]) == (64, 100, 8)
    assert not found.contradicted
    for result in found.results:
        assert result.low <= result.true_positive_rate <= result.high


def test_a_release_that_sells_its_rows_is_caught(release, monkeypatch):
    """Samples that are the training rows contradict the ε on the card."""
    made, members, others = release
    monkeypatch.setattr(Release, "sample", lambda self, rows, **_: members.content)
    found = attack_release(made, members, others, false_positive_rate=0.05)
    assert found.results[0].true_positive_rate == 1.0
    assert found.contradicted


def test_too_few_shadows_and_releases_without_a_promise_are_refused(release):
    """Seven shadows cannot give a likelihood ratio; a baseline has no bound to compare with."""
    made, members, others = release
    with pytest.raises(EvaluationError, match="8 shadow"):
        attack_release(made, members, others, shadows=7)
    card = replace(made.card, plan=replace(made.card.plan, budget=None, spent=None))
    with pytest.raises(EvaluationError, match="without a guarantee"):
        attack_release(Release(card, made.weights), members, others)


def test_command_says_that_it_is_internal(release, tmp_path):
    """`audit membership` prints its table, and that it must not be published."""
    made, members, others = release
    folder = made.save(tmp_path / "release")
    members.content.to_csv(tmp_path / "in.csv", index=False)
    others.content.to_csv(tmp_path / "out.csv", index=False)
    done = CliRunner().invoke(
        app,
        [
            *("membership", str(folder), "--members", str(tmp_path / "in.csv")),
            *(
                "--non-members",
                str(tmp_path / "out.csv"),
                "--false-positive-rate",
                "0.05",
                "--synthetic",
                "50",
            ),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "INTERNAL" in done.stderr
    assert "membership (internal)" in done.stdout
