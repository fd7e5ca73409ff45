"""The instrumented readings, tested as estimators on mechanisms whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from understudy.auditing import readings
from understudy.auditing.claims import Claim, epsilon_of
from understudy.auditing.readings import Projections, Spread
from understudy.auditing.verdict import Outcome
from understudy.privacy.mechanisms import SubsampledGaussian

CLAIM = Claim(SubsampledGaussian(0.1, 1.15, 200), delta=1e-5)


def observe(rng, sigma=1.15, shift=1.0, rounds=40, canaries=100, shared_shift=0.0):
    """Projections of an exact Gaussian mechanism."""
    included = rng.random((rounds, canaries)) < np.where(np.arange(rounds) // 4 % 2, 0.25, 0.75)[:, None]
    values = sigma * rng.standard_normal(included.shape) + shift * included
    ordinary = np.where(np.arange(rounds) // 2 % 2, 0, canaries)
    shared = sigma * rng.standard_normal((rounds, 4))
    shared[:, 1] += shared_shift * included.sum(axis=1) + 0.3 * ordinary
    return Projections(values, included, included.sum(axis=1) + ordinary, shared)


def test_epsilon_of_matches_published_values():
    """The accountant behind the bounds gives the values that three other accountants agree on."""
    assert epsilon_of(0.01, 1.15, 24_900, 1e-5) == pytest.approx(8.165, abs=0.01)
    assert epsilon_of(256 / 49_000, 0.1214, 3_120, 1e-5) == pytest.approx(1051, rel=0.01)
    assert epsilon_of(0.1, 1e6, 200, 1e-5) == 0.0
    assert epsilon_of(0.1, 1e-6, 200, 1e-5) < float("inf")


def test_lower_bound_is_valid_at_its_confidence():
    """At 90 % the proved multiplier is on the wrong side of the truth in no more than 10 % of 300 runs."""
    rng = np.random.default_rng(1)
    wrong = sum(
        readings.applied_multiplier(observe(rng, rounds=16, canaries=40), 0.1).high < 1.15 for _ in range(300)
    )
    assert wrong <= 45  # 30 expected at most; 45 is 2.9 standard deviations above


@pytest.mark.parametrize("freedom", [30, 130, 500, 20_000])
def test_interval_of_a_separation_never_errs_towards_an_alarm(freedom):
    """By the exact noncentral t, the lower end is above the truth with at most α / 2, and about that if df is large."""
    for truth in (0.5, 3.0, 10.0, 60.0):
        for alpha in (1e-3, 1e-5, 1e-7):

            def too_high(value, truth=truth, alpha=alpha):
                return readings.separation(value, 1.0, freedom, alpha).low - truth

            edge = optimize.brentq(too_high, truth, 100 * truth + 1000)
            alarm = stats.nct.sf(edge, freedom, truth) / (alpha / 2)
            assert alarm < 1.001
            assert alarm > 0.9 or freedom < 20_000


def test_shared_shift_sharpens_the_bound_and_stays_valid():
    """A record that also moves the biases is seen there, and the combined bound still holds its confidence."""
    rng = np.random.default_rng(2)
    truth = 1.15 / np.hypot(1.0, 1.0)
    found = [readings.applied_multiplier(observe(rng, shared_shift=1.0), 0.1).high for _ in range(100)]
    assert sum(high < truth for high in found) <= 19
    assert np.median(found) < 1.0
    assert readings.applied_multiplier(observe(rng, shared_shift=0.0), 0.1).high > 1.1


def test_multiplier_passes_the_truth_and_fails_a_weaker_noise():
    """A correct mechanism passes, one at 0.8 of the claimed noise fails and proves an ε above the claim."""
    rng = np.random.default_rng(3)
    good = readings.multiplier(observe(rng, rounds=120, canaries=400), CLAIM, 1e-5, 0.1)
    bad = readings.multiplier(observe(rng, 0.8 * 1.15, rounds=120, canaries=400), CLAIM, 1e-5, 0.1)
    assert good.outcome is Outcome.PASS
    assert good.lower_bound is not None
    assert 6.5 < good.lower_bound < CLAIM.epsilon
    assert bad.outcome is Outcome.FAIL
    assert bad.lower_bound is not None
    assert bad.lower_bound > CLAIM.epsilon


def test_too_few_canaries_are_inconclusive_and_say_how_many_decide():
    """With few canaries nothing is certified, and the number that is asked for does decide."""
    rng = np.random.default_rng(4)
    few = readings.multiplier(observe(rng, rounds=16, canaries=40), CLAIM, 1e-5, 0.1)
    assert few.outcome is Outcome.INCONCLUSIVE
    assert few.canaries_needed is not None
    more = readings.multiplier(observe(rng, rounds=16, canaries=2 * few.canaries_needed), CLAIM, 1e-5, 0.1)
    assert more.outcome is Outcome.PASS


def test_a_record_that_was_never_seen_to_move_anything_is_not_certified():
    """Without any shift the multiplier passes only if the record was seen elsewhere."""
    seen = observe(np.random.default_rng(12), shift=-1.0)
    assert readings.multiplier(seen, CLAIM, 1e-5, 0.1).outcome is Outcome.INCONCLUSIVE
    assert readings.multiplier(seen, CLAIM, 1e-5, 0.1, seen_elsewhere=True).outcome is Outcome.PASS


def test_variance_accepts_the_truth_and_rejects_three_percent():
    """Noise 3 % too small (or too large) is caught at a false-alarm rate of 1e-5; the truth is not."""
    rng = np.random.default_rng(5)
    outcomes = [
        readings.variance(observe(rng, factor * 1.15, rounds=120, canaries=400), CLAIM, 1e-5).outcome
        for factor in (1.0, 0.97, 1.03)
    ]
    assert outcomes == [Outcome.PASS, Outcome.FAIL, Outcome.FAIL]


def test_reused_noise_is_found_at_any_distance():
    """A noise draw that returns after ten rounds is invisible to variance and lag 1, and found by reuse."""
    rng = np.random.default_rng(6)
    seen = observe(rng, shift=0.0)
    seen.values[25] = seen.values[15]
    assert readings.reuse(seen, 1e-5).outcome is Outcome.FAIL
    assert readings.independence(seen, 1e-5).outcome is Outcome.PASS
    seen.values[1::2] = seen.values[::2]
    assert readings.independence(seen, 1e-5).outcome is Outcome.FAIL
    assert readings.reuse(observe(rng), 1e-5).outcome is Outcome.PASS


def test_noise_of_another_shape_is_found():
    """Uniform noise of the right variance fails normality."""
    rng = np.random.default_rng(7)
    seen = observe(rng, canaries=200)
    assert readings.normality(seen, 1e-5).outcome is Outcome.PASS
    uniform = Projections(rng.uniform(-2, 2, seen.values.shape), seen.included, seen.sizes, seen.shared)
    assert readings.normality(uniform, 1e-5).outcome is Outcome.FAIL


def test_a_divisor_that_follows_the_batch_is_found():
    """Noise that shrinks in large batches fails; constant noise passes."""
    rng = np.random.default_rng(8)
    seen = observe(rng)
    assert readings.divisor(seen, 1e-5).outcome is Outcome.PASS
    scaled = Projections(seen.values * (100 / seen.sizes)[:, None], seen.included, seen.sizes, seen.shared)
    assert readings.divisor(scaled, 1e-5).outcome is Outcome.FAIL


def test_one_tensor_without_noise_is_named():
    """The tensor that lacks noise is found among others, and named."""
    rng = np.random.default_rng(9)
    good = {name: Spread(float(np.square(1.15 * rng.standard_normal(500)).sum()), 500) for name in "abc"}
    assert readings.every_tensor(good, CLAIM, 1e-5).outcome is Outcome.PASS
    reading = readings.every_tensor({**good, "bias": Spread(0.0, 8)}, CLAIM, 1e-5)
    assert reading.outcome is Outcome.FAIL
    assert "'bias'" in reading.says


def test_direction_finds_the_coordinate_without_noise():
    """Fisher's direction leans on the coordinate that carries less noise."""
    rng = np.random.default_rng(10)
    included = rng.random((40, 100)) < 0.5
    blocks = rng.standard_normal((40, 100, 3)) * np.array([1.0, 1.0, 0.05]) + 0.5 * included[..., None]
    direction = readings.attack_direction(blocks, included)
    assert direction[2] > 0.99
    assert np.linalg.norm(direction) == pytest.approx(1.0)


def test_opposed_allows_one_and_refuses_two():
    """A record that turns the release around by 2 fails; one that moves it by 1 passes."""
    rng = np.random.default_rng(11)
    present = np.arange(300) % 2 == 0
    noise = 1.15 * rng.standard_normal(300)
    assert readings.opposed(noise + present, present, CLAIM, 1e-5).outcome is Outcome.PASS
    assert readings.opposed(noise + 2 * present, present, CLAIM, 1e-5).outcome is Outcome.FAIL
