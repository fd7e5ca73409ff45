"""A whole run under audit: every release has the noise that is charged, and nothing leaves beside the noise."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch

from tiny import tiny_plan
from understudy.auditing.configuration import audit
from understudy.auditing.rehearsal import observed_charges, rehearsal_readings, rehearse_with_canaries
from understudy.auditing.step import Thoroughness
from understudy.auditing.verdict import Outcome
from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.query import Published
from understudy.dpsgd import NoisyGradients, PlainGradients
from understudy.errors import PlanError
from understudy.planning import plan
from understudy.privacy.accounting import select_best, spent
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.schema import CodeSchema, ImageSchema
from understudy.synthesizers.codes import queries as code_queries
from understudy.synthesizers.embedding import queries as image_queries
from understudy.synthesizers.embedding.recipe import (
    GROUPS,
    LABELLER,
    Grouping,
    Lessons,
    LinearLabeller,
    MeanEmbedding,
)
from understudy.synthesizers.gan import fit as gan_fit
from understudy.synthesizers.gan.parts import DenseCritic, PublicWarmStart
from understudy.synthesizers.gan.recipe import TRAINING
from understudy.synthesizers.marginals.queries import CellCounts, TripleProducts
from understudy.synthesizers.registry import find_recipe
from understudy.synthesizers.shared import beginning
from understudy.synthesizers.shared.parts import LABELS, ROWS
from understudy.synthesizers.shared.queries import RowCount
from understudy.tuning.selection import SCORE

IMAGES = ImageSchema(12, 12, 1, classes=tuple("0123456789"))
DENSE = replace(find_recipe("dp-cgan"), critic=DenseCritic(hidden=(16,)), batch=16)
OWN = replace(
    find_recipe("understudy", IMAGES),
    embedding=MeanEmbedding(pixel_frequencies=60, wavelet_frequencies=90),
    labeller=LinearLabeller(lessons=Lessons(steps=15, rate=80.0, bound=1.0), quiet_lessons=None),
)


@functools.cache
def chosen(recipe=OWN, rows=6000):
    """A plan at ε = 8 on small images."""
    given = {"noise_multiplier": 2.0, "steps": 50} if recipe is DENSE else {}
    return plan(IMAGES, epsilon=8.0, rows=rows, recipe=recipe, **given)


def rehearsed(recipe=OWN, rows=6000, seed=0):
    """The readings of a rehearsal, by name."""
    sources = iter(range(1000 * seed, 1000 * seed + 100))
    made = chosen(recipe, rows)
    seen = rehearse_with_canaries(made, made.schema, lambda: SeededNoise(next(sources)), seed=seed)
    return seen, {reading.name: reading for reading in rehearsal_readings(seen, 1e-5)}


def failing(found):
    """Names of the readings that fail."""
    return {name for name, reading in found.items() if reading.outcome is Outcome.FAIL}


def test_own_recipe_passes_and_nearly_all_of_its_epsilon_is_proved():
    """Of a claimed ε of 8 the releases of the recipe understudy prove at least 7.5."""
    seen, found = rehearsed()
    assert failing(found) == set()
    proved = max(spent(c, 1e-5, seen.plan.budget.adjacency).epsilon for c in observed_charges(seen, 1e-5))
    assert 7.5 < proved < seen.plan.spent.epsilon


def test_critic_recipe_passes_with_its_side_charges():
    """A private row count and the label histogram beside two critic steps have the noise that is charged."""
    _, found = rehearsed(DENSE, rows=None)
    assert failing(found) == set()
    assert {ROWS, LABELS} <= set(found)
    assert found["draws"].value == 4


@pytest.mark.parametrize("recipe", [OWN, DENSE])
def test_a_run_that_was_chosen_is_audited_by_what_it_drew(recipe):
    """The best of several runs passes: its own releases and steps are attacked, not the choice that pays for them."""
    made = chosen(recipe)
    score = Charge(SCORE, GaussianRelease(10.0))
    picked = made.chosen_by(select_best((*made.charges, score), 4.0)[0])
    how = Thoroughness(rounds=80, opposed_rounds=40, training_rounds=20)
    canaries = 60 if recipe is DENSE else None
    result = audit(picked, canaries=canaries, thoroughness=how, seed=3)
    found = {reading.name: reading for reading in result.readings}
    assert failing(found) == set()
    assert found["draws"].claimed == (18 if recipe is OWN else 3)
    assert ("multiplier" in found) == (recipe is DENSE)


def test_histogram_with_three_percent_less_noise_is_caught(monkeypatch):
    """Label counts with 97 % of the charged noise fail their reading."""
    plain = Door._scale

    def weak(self, purpose, query):
        return plain(self, purpose, query) * (0.97 if purpose == LABELS else 1.0)

    monkeypatch.setattr(Door, "_scale", weak)
    assert failing(rehearsed()[1]) == {LABELS}


def test_noise_source_with_three_percent_less_noise_is_caught(monkeypatch):
    """A source that gives 97 % of what is asked for fails although every scale is right."""
    plain = SeededNoise.perturb
    monkeypatch.setattr(SeededNoise, "perturb", lambda self, t, s, f: plain(self, t, 0.97 * s, f))
    assert "release-noise" in failing(rehearsed()[1])


def test_embedding_without_normalisation_is_caught(monkeypatch):
    """Features that are summed at a norm above one fail the reading of the mean embedding."""
    monkeypatch.setattr(image_queries, "_of_norm_one", lambda features: 1.05 * features)
    assert failing(rehearsed()[1]) == {"mean embedding"}


def test_labeller_without_clipping_is_caught(monkeypatch):
    """Gradients of records that are summed as they are fail the reading of the labeller."""

    class Unclipped(image_queries.LabellerGradient):
        def add(self, sums, batch):
            self.sensitivity, claimed = 1e6, self.sensitivity
            super().add(sums, batch)
            self.sensitivity = claimed

    monkeypatch.setattr(image_queries, "LabellerGradient", Unclipped)
    assert failing(rehearsed()[1]) == {LABELLER}


def test_feature_mean_with_too_small_a_sensitivity_is_caught(monkeypatch):
    """Moduli summed at twice their norm, with the noise of a norm of one, fail the reading of the feature mean."""
    short = image_queries._shortened
    monkeypatch.setattr(image_queries, "_shortened", lambda features, bound: 2 * short(features, bound))
    assert failing(rehearsed()[1]) == {"feature mean"}


def rehearsed_without_labels(seed=0):
    """The readings of a rehearsal of images without labels, by name."""
    sources = iter(range(1000 * seed, 1000 * seed + 100))
    recipe = replace(OWN, grouping=Grouping(count=4, rounds=4))
    made = plan(replace(IMAGES, classes=None), epsilon=8.0, rows=6000, recipe=recipe)
    seen = rehearse_with_canaries(made, made.schema, lambda: SeededNoise(next(sources)), seed=seed)
    return {reading.name: reading for reading in rehearsal_readings(seen, 1e-5)}


def test_groups_pass_and_are_caught_without_a_bound(monkeypatch):
    """Sums of groups pass; a record that counts in full in every group fails them, and the embedding by groups too."""
    found = rehearsed_without_labels()
    assert failing(found) == set()
    assert GROUPS in found
    monkeypatch.setattr(
        image_queries, "_parts", lambda features, head: torch.ones(len(features), head.shape[1]).double()
    )
    assert {GROUPS, "mean embedding"} <= failing(rehearsed_without_labels())


def test_table_counts_pass_and_are_caught_without_the_root(monkeypatch):
    """k marginals and m products pass with noise of σ·√k and σ·√m, and fail with the noise of a single one."""
    made = tiny_plan(recipe="understudy", rows=5000, epsilon=8.0, delta=1e-5, batch=None)

    def found():
        seen = rehearse_with_canaries(made, made.schema, SecureNoise)
        return failing({reading.name: reading for reading in rehearsal_readings(seen, 1e-5)})

    assert found() == set()
    monkeypatch.setattr(TripleProducts, "sensitivity", 1.0)
    assert found() == {"scores of triples"}
    monkeypatch.setattr(CellCounts, "sensitivity", 1.0)
    assert found() == {"scores of triples", "column counts", "label pairs", "column pairs"}


def coded():
    """Names of the readings that fail for a plan on counted codes, of which stand-in records have too many."""
    schema = CodeSchema(tuple(f"c{number}" for number in range(90)), max_count=3)
    made = plan(schema, epsilon=4.0, rows=6000)
    sources = iter(range(100))
    seen = rehearse_with_canaries(made, schema, lambda: SeededNoise(next(sources)))
    found = {reading.name: reading for reading in rehearsal_readings(seen, 1e-5)}
    assert {"codes per record", "code counts", "code pairs", "code repetitions"} <= set(found)
    return failing(found)


def test_code_counts_pass_and_are_caught_without_a_bound(monkeypatch):
    """Codes have the noise that is charged; long records that weigh as much as others fail the reading of codes."""
    assert coded() == set()
    monkeypatch.setattr(code_queries, "weights", lambda entries, _full: np.ones(len(entries)))
    assert "code counts" in coded()


def test_long_repetitions_are_caught(monkeypatch):
    """Repetitions that are summed as they are, with the noise of a bounded vector, fail their reading."""
    plain = code_queries.RepeatSums.add

    def unbounded(self, sums, batch):
        self.sensitivity, claimed = 1e6, self.sensitivity
        plain(self, sums, batch)
        self.sensitivity = claimed

    monkeypatch.setattr(code_queries.RepeatSums, "add", unbounded)
    assert coded() == {"code repetitions"}


def test_exact_counts_beside_the_noise_are_caught(monkeypatch):
    """Class frequencies from exact counts, published beside noisy ones that nobody uses, show in the checkpoint."""
    plain = beginning.label_weights

    def exact(door, schema):
        plain(door, schema)
        counts = torch.bincount(door._records.labels, minlength=len(schema.label_classes)).double()
        return tuple((counts / counts.sum()).tolist())

    monkeypatch.setattr(gan_fit, "label_weights", exact)
    assert "interference" in failing(rehearsed(DENSE)[1])


def test_release_that_nobody_charged_is_caught(monkeypatch):
    """One noisy release more than the plan charges fails the count of draws."""
    plain = gan_fit.label_weights

    def twice(door, schema):
        door._charges["more"] = GaussianRelease(5.0)
        door.publish("more", RowCount())
        return plain(door, schema)

    monkeypatch.setattr(gan_fit, "label_weights", twice)
    assert "draws" in failing(rehearsed(DENSE)[1])


def test_fitter_that_moves_by_the_exact_gradient_is_caught(monkeypatch):
    """A fitter that draws the noisy gradient and then steps with the exact one reveals the record."""
    plain = NoisyGradients.step

    def exact(self, door, critic, fakes, public=None):
        plain(self, door, critic, fakes, public)
        charges = (Charge(TRAINING, door.sampled(TRAINING)),)
        return PlainGradients(TRAINING, self.objective).step(
            door.to_public(door._records, charges), critic, fakes
        )

    monkeypatch.setattr(NoisyGradients, "step", exact)
    assert "interference" in failing(rehearsed(DENSE)[1])


def test_published_digits_far_below_the_noise_are_caught(monkeypatch):
    """Sums that leave with all digits of a float fail, and those on the door's grid pass."""

    def raw(self, purpose, sums, scale):
        self._noise.perturb(sums, scale, 1.0)
        return Published(tuple(sums), scale)

    assert "digits" not in failing(rehearsed(DENSE)[1])
    monkeypatch.setattr(Door, "_drawn", raw)
    assert "digits" in failing(rehearsed(DENSE)[1])


def test_fitter_that_replays_its_own_noise_is_caught(monkeypatch):
    """A fitter that adds noise of its own seed at each step, beside the door's, reveals the record."""
    plain = NoisyGradients.step

    def replaying(self, door, critic, fakes, public=None):
        own = Door(door._records, (Charge(TRAINING, door.sampled(TRAINING)),), SeededNoise(7), insecure=True)
        return plain(self, own, critic, fakes, public)

    monkeypatch.setattr(NoisyGradients, "step", replaying)
    assert {"draws", "interference"} <= failing(rehearsed(DENSE)[1])


def test_a_warm_start_is_not_rehearsed(monkeypatch):
    """Thousands of steps on public records read nothing private, so that an audit need not take them."""
    monkeypatch.setattr(
        gan_fit.GanFitter, "_start_warm", lambda *_: pytest.fail("a warm start was rehearsed")
    )
    recipe = replace(DENSE, warm_start=PublicWarmStart(steps=3000, batch=16))
    made = plan(IMAGES, epsilon=8.0, rows=6000, recipe=recipe, noise_multiplier=2.0, steps=50)
    seen = rehearse_with_canaries(made, IMAGES, SecureNoise, canaries=1)
    assert len(seen.draws) == 2


def test_a_plan_is_audited_as_a_whole():
    """The audit of a plan claims the plan's ε, proves part of it over all charges, and refuses a baseline."""
    result = audit(chosen(), seed=0)
    assert result.verdict.outcome is Outcome.PASS, result.verdict
    assert result.claimed_epsilon == chosen().spent.epsilon
    assert result.lower_bound == result.reading("composition").value > 7.5
    with pytest.raises(PlanError):
        audit(plan(epsilon=None, rows=60_000, recipe="dp-cgan"))
