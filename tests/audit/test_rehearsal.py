"""A whole run under audit: every release has the noise that is charged, and nothing leaves beside the noise."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import pytest
import torch

from tiny import tiny_plan
from understudy.audit.configuration import audit_plan
from understudy.audit.rehearsal import observed_charges, rehearsal_readings, rehearse_with_canaries
from understudy.audit.verdict import Outcome
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.dpsgd.nonprivate import NonPrivateStep
from understudy.errors import PlanError
from understudy.planning import plan
from understudy.privacy.accounting import spent
from understudy.recipes import find_recipe
from understudy.recipes.parts import DenseCritic, Lessons, LinearTeacher, MeanEmbedding
from understudy.schema import CodeSchema, ImageSchema
from understudy.synthesizers.codes import publishing as code_publishing
from understudy.synthesizers.embedding import features as embedding
from understudy.synthesizers.embedding import labeller as teacher
from understudy.synthesizers.gan import fit as trainer
from understudy.synthesizers.marginals import publishing as table_publishing
from understudy.synthesizers.shared import publishing

IMAGES = ImageSchema(12, 12, 1, classes=tuple("0123456789"))
DENSE = replace(find_recipe("dp-cgan"), critic=DenseCritic(hidden=(16,)), batch=16)
OWN = replace(
    find_recipe("understudy"),
    statistic=MeanEmbedding(pixel_frequencies=60, wavelet_frequencies=90),
    teacher=LinearTeacher(lessons=Lessons(steps=15, rate=80.0, bound=1.0), quiet_lessons=None),
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
    assert {"row count", "label histogram"} <= set(found)
    assert found["draws"].value == 4


def test_histogram_with_three_percent_less_noise_is_caught(monkeypatch):
    """Label counts with 97 % of the charged noise fail their reading."""
    plain = publishing._noisy_histogram

    def weak(plan, *arguments):
        less = replace(plan.label_release, noise_multiplier=0.97 * plan.label_release.noise_multiplier)
        charges = tuple(
            replace(c, mechanism=less) if c.purpose == "label histogram" else c for c in plan.charges
        )
        return plain(replace(plan, charges=charges), *arguments)

    monkeypatch.setattr(publishing, "_noisy_histogram", weak)
    assert failing(rehearsed()[1]) == {"label histogram"}


def test_noise_source_with_three_percent_less_noise_is_caught(monkeypatch):
    """A source that gives 97 % of what is asked for fails although every scale is right."""
    plain = SeededNoise.perturb
    monkeypatch.setattr(SeededNoise, "perturb", lambda self, t, s, f: plain(self, t, 0.97 * s, f))
    assert "release-noise" in failing(rehearsed()[1])


def test_embedding_without_normalisation_is_caught(monkeypatch):
    """Features that are summed at a norm above one fail the reading of the mean embedding."""
    monkeypatch.setattr(embedding, "_of_norm_one", lambda features: 1.05 * features)
    assert failing(rehearsed()[1]) == {"mean embedding"}


def test_teacher_without_clipping_is_caught(monkeypatch):
    """Gradients of records that are summed as they are fail the reading of the teacher."""
    plain = teacher.clipped_gradient_sum
    monkeypatch.setattr(teacher, "clipped_gradient_sum", lambda *given: plain(*given[:-1], 1e6))
    assert failing(rehearsed()[1]) == {"teacher"}


def test_feature_mean_with_too_small_a_sensitivity_is_caught(monkeypatch):
    """Moduli summed at twice their norm, with the noise of a norm of one, fail the reading of the feature mean."""
    plain = teacher.feature_sum
    monkeypatch.setattr(teacher, "feature_sum", lambda standard: 2 * plain(standard))
    assert failing(rehearsed()[1]) == {"feature mean"}


def test_table_counts_pass_and_are_caught_without_the_root(monkeypatch):
    """Counts of k marginals pass with noise of σ·√k, and fail with the noise of a single one."""
    made = tiny_plan(recipe="understudy", rows=5000, epsilon=8.0, delta=1e-5, batch=None)

    def found():
        seen = rehearse_with_canaries(made, made.schema, SecureNoise)
        return failing({reading.name: reading for reading in rehearsal_readings(seen, 1e-5)})

    assert found() == set()
    plain = table_publishing.noisy_counts
    monkeypatch.setattr(
        table_publishing,
        "noisy_counts",
        lambda marginals, sigma, noise: plain(m := list(marginals), sigma / math.sqrt(len(m)), noise),
    )
    assert found() == {"column counts", "label pairs", "column pairs"}


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
    """Codes have the noise that is charged; records that are not shortened fail the readings of codes and pairs."""
    assert coded() == set()
    monkeypatch.setattr(code_publishing, "shortened", lambda present, _kept: present)
    assert {"code counts", "code pairs"} <= coded()


def test_long_repetitions_are_caught(monkeypatch):
    """Repetitions that are summed as they are, with the noise of a bounded vector, fail their reading."""
    plain = code_publishing.repeat_sums
    monkeypatch.setattr(
        code_publishing,
        "repeat_sums",
        lambda *given: replace(plain(*given[:-1], 1e6), sensitivity=given[-1]),
    )
    assert coded() == {"code repetitions"}


def test_exact_counts_beside_the_noise_are_caught(monkeypatch):
    """Class frequencies from exact counts, published beside noisy ones that nobody uses, show in the checkpoint."""
    plain = publishing._noisy_histogram

    def exact(plan, classes, rows, noise):
        plain(plan, classes, rows, noise)
        counts = torch.bincount(rows.labels, minlength=classes).double()
        return tuple((counts / counts.sum()).tolist())

    monkeypatch.setattr(publishing, "_noisy_histogram", exact)
    assert "interference" in failing(rehearsed(DENSE)[1])


def test_release_that_nobody_charged_is_caught(monkeypatch):
    """One noisy release more than the plan charges fails the count of draws."""
    plain = publishing.row_count

    def twice(plan, count, noise):
        noise.perturb([torch.zeros(3)], 5.0, 1.0)
        return plain(plan, count, noise)

    monkeypatch.setattr("understudy.run.run.row_count", twice)
    assert "draws" in failing(rehearsed(DENSE)[1])


def test_trainer_that_moves_by_the_exact_gradient_is_caught(monkeypatch):
    """A trainer that draws the noisy gradient and then steps with the exact one reveals the record."""

    def exact(self, gradients, rows, public=None):
        with torch.no_grad():
            fakes = trainer.Rows(*self._fakes())
        gradients.step(self.critic, rows, fakes, public)
        bare = NonPrivateStep(1.0, self._recipe.objective, gradients.noise)
        self._move_critic({n: g.detach() for n, g in bare.step(self.critic, rows, fakes).items()})
        self.steps += 1

    monkeypatch.setattr(trainer.Trainer, "advance", exact)
    found = failing(rehearsed(DENSE)[1])
    assert "interference" in found


def test_trainer_that_replays_its_own_noise_is_caught(monkeypatch):
    """A trainer that seeds the noise anew at each step, beside the source it was given, reveals the record."""
    plain = trainer.Trainer.advance

    def replaying(self, gradients, rows, public=None):
        gradients.noise = SeededNoise(7)
        plain(self, gradients, rows, public)

    monkeypatch.setattr(trainer.Trainer, "advance", replaying)
    assert {"draws", "interference"} <= failing(rehearsed(DENSE)[1])


def test_a_plan_is_audited_as_a_whole():
    """The audit of a plan claims the plan's ε, proves part of it over all charges, and refuses a baseline."""
    result = audit_plan(chosen(), seed=0)
    assert result.verdict.outcome is Outcome.PASS, result.verdict
    assert result.claimed_epsilon == chosen().spent.epsilon
    assert result.lower_bound == result.reading("composition").value > 7.5
    with pytest.raises(PlanError):
        audit_plan(plan(epsilon=None, rows=60_000, recipe="dp-cgan"))
