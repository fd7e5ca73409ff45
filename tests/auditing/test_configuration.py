"""Plans under audit: every recipe passes as it is, and errors in its own step are seen through its own critic."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from understudy import codec
from understudy.auditing import configuration
from understudy.auditing.configuration import audit
from understudy.auditing.step import Thoroughness
from understudy.auditing.verdict import Outcome
from understudy.cli.audit import app
from understudy.door.noise import SeededNoise
from understudy.dpsgd.clipping import GroupedClip, MicrobatchClip
from understudy.errors import PlanError, RecipeError
from understudy.planning import plan
from understudy.schema import Binary, Categorical, CodeSchema, Continuous, ImageSchema, TableSchema
from understudy.synthesizers.gan.parts import ConvCritic, DeconvGenerator, DenseCritic, DenseGenerator
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.registry import RECIPES

IMAGES = ImageSchema(16, 16, 1, classes=("0", "1", "2"))
SMALL = Thoroughness(rounds=32, opposed_rounds=16, training_rounds=2, empty_rounds=4, resolution=0.6)
FEW = replace(SMALL, rounds=16, opposed_rounds=8)
TABLE = TableSchema(
    (Continuous("age", 0, 100), Categorical("town", ("a", "b", "c")), Binary("ill")), label="ill"
)
CODES = CodeSchema(tuple(f"c{i}" for i in range(12)))
OPTIONS = {"noise_multiplier": 1.1, "steps": 20, "batch": 24}


def small(name):
    """A recipe with a narrow critic of its own kind."""
    recipe = RECIPES[name]
    narrow, generator = DenseCritic(hidden=(12, 8)), DenseGenerator(hidden=(16,))
    if isinstance(recipe.critic, ConvCritic):
        narrow, generator = ConvCritic(capacity=4), DeconvGenerator(capacity=4)
    critic = replace(narrow, activation=recipe.critic.activation)
    return replace(recipe, critic=critic, generator=generator)


def chosen(name):
    """A plan of a small recipe at an ε near 8."""
    if not isinstance(RECIPES[name], GanRecipe):
        schema = next(one for one in (IMAGES, TABLE, CODES) if RECIPES[name].refuses(one) is None)
        return plan(schema, epsilon=8.0, rows=2000, recipe=name)
    return plan(IMAGES, epsilon=30.0, rows=2000, recipe=small(name), **OPTIONS)


def run(name, seed, how=SMALL):
    """One small audit of a recipe; in microbatches only the opposed rounds see a record move the release."""
    recipe = RECIPES[name]
    if not isinstance(recipe, GanRecipe):
        return audit(chosen(name), thoroughness=how, seed=seed)
    if isinstance(recipe.clipping, MicrobatchClip):
        how = replace(how, opposed_rounds=400)
    return audit(chosen(name), canaries=48, thoroughness=how, seed=seed)


@pytest.mark.parametrize("name", ["dp-gan", "dp-cgan-tf2-m1"])
def test_recipes_pass_once(name):
    """Groups with public bounds on convolutions, and one microbatch of everything, pass as they are."""
    verdict = run(name, 0).verdict
    assert verdict.outcome is Outcome.PASS, verdict


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_pass_again_and_again(name):
    """Six seeded audits of each recipe, and every one passes."""
    outcomes = [run(name, seed, replace(SMALL, rounds=60)).verdict for seed in range(1, 7)]
    assert [verdict for verdict in outcomes if verdict.outcome is not Outcome.PASS] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["small-images", "dp-gan"])
def test_convolutional_critic_as_it_is_proves_most_of_its_epsilon(name):
    """Of a claimed ε of 8, at least 6.5 is proved of the convolutional critics in their real size."""
    result = audit(plan(epsilon=8.0, rows=60_000, recipe=name), seed=0)
    assert result.verdict.outcome is Outcome.PASS, result.verdict
    assert 6.5 < result.lower_bound < result.claimed_epsilon


class _Weak(SeededNoise):
    """Noise 3 % too small."""

    def perturb(self, tensors, scale, factor):
        super().perturb(tensors, 0.97 * scale, factor)


def test_weak_noise_of_a_convolutional_critic_is_caught(monkeypatch):
    """Noise 3 % too small in the step of a convolutional critic fails."""
    monkeypatch.setattr(configuration, "SeededNoise", _Weak)
    found = run("small-images", 0, FEW)
    failing = {reading.name for reading in found.readings if reading.outcome is Outcome.FAIL}
    assert "tensors" in failing


def test_groups_of_a_convolutional_critic_without_the_root_are_caught(monkeypatch):
    """Groups of dp-gan that are noised as if they were one fail the multiplier."""
    monkeypatch.setattr(GroupedClip, "sensitivity", lambda self, adjacency: max(self.bounds))
    assert run("dp-gan", 0, FEW).reading("multiplier").outcome is Outcome.FAIL


@pytest.mark.slow
def test_noise_that_returns_is_caught_with_few_canaries(monkeypatch):
    """A reused key shows in the coordinates of 48 canaries."""

    class OneKey(SeededNoise):
        def _key(self):
            self.draws = 0
            return super()._key()

    monkeypatch.setattr(configuration, "SeededNoise", OneKey)
    assert run("small-images", 0, FEW).reading("reuse").outcome is Outcome.FAIL


def test_too_few_canaries_are_inconclusive_and_the_number_that_is_named_decides():
    """With 12 canaries the audit leaves with code 4 and names a number; with that number it passes."""
    how, made = replace(SMALL, rounds=24, resolution=0.25), chosen("dp-cgan")
    few = audit(made, canaries=12, thoroughness=how, seed=0).verdict
    assert few.exit_code == 4
    assert few.canaries_needed is not None
    assert 12 < few.canaries_needed < 2000
    enough = audit(made, canaries=few.canaries_needed, thoroughness=how, seed=0).verdict
    assert enough.exit_code == 0, enough


@pytest.mark.slow
def test_command_proves_most_of_the_own_recipe():
    """`audit --recipe understudy` passes, and all charges together prove nearly what is claimed."""
    done = CliRunner().invoke(app, ["--recipe", "understudy", "--epsilon", "8", "--seed", "0", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["readings"][-1]["name"] == "composition"
    assert found["readings"][-1]["lower_bound"] > 7.5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plan", "plan.json", "--recipe", "dp-gan"], "plan of the recipe 'dp-cgan'"),
        (["--plan", "plan.json", "--epsilon", "3"], "not several"),
        (["--plan", "plan.json", "--attach", "release"], "not several"),
        (["--plan", "none.json"], "cannot be read"),
        (["--plan", "plan.json", "--steps", "10"], "multiple of 4"),
    ],
)
def test_contradictory_words_are_refused(tmp_path, monkeypatch, words, told):
    """A plan beside another recipe, other numbers or a release is not silently preferred."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(codec.to_json(chosen("dp-cgan")))
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, PlanError)
    assert told in str(done.exception)


def test_command_is_short_for_run():
    """`audit --recipe R` is `audit run --recipe R`: it gets as far as looking for the recipe."""
    done = CliRunner().invoke(app, ["--recipe", "no-such-recipe"])
    assert isinstance(done.exception, RecipeError)
