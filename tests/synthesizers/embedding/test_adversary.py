"""The critic of our own GAN: what one record can change, when it is asked, and what it is charged for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tiny import TINY_IMAGES, tiny_images
from understudy.auditing.contract import check_synthesizer
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.dpsgd.clipping import GlobalClip
from understudy.errors import ContractError, RecipeError
from understudy.planning import plan
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.run.fit import fit
from understudy.synthesizers.embedding.adversary import Adversary
from understudy.synthesizers.embedding.recipe import (
    CRITIC,
    EMBEDDING,
    FEATURE_MEAN,
    LABELLER,
    UNDERSTUDY_GAN,
    UNDERSTUDY_GAN_PURE,
    FeatureCritic,
    Lessons,
    LinearLabeller,
    MeanEmbedding,
    UpsamplingGenerator,
)
from understudy.synthesizers.shared.parts import LABELS

PART = FeatureCritic(pixel_frequencies=5, wavelet_frequencies=7, steps=2, fakes=4)
SMALL = replace(
    UNDERSTUDY_GAN,
    embedding=MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7),
    labeller=LinearLabeller(lessons=Lessons(2, 80.0, 1.0)),
    generator=UpsamplingGenerator(hidden=(8,), channels=2),
    critic=PART,
    steps=6,
    batch=8,
)
PURE = replace(SMALL, embedding=None)


class Overheard(Door):
    """Keeps the sums before the noise."""

    heard: list[torch.Tensor]

    def _add_noise(self, sums: list[torch.Tensor], scale: float) -> None:
        del scale
        self.heard = [one.clone() for one in sums]


def summed(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """What a step of the critic adds up over records, before the noise."""
    critic = Adversary(PART, 3, torch.device("cpu"))
    charges = (Charge(CRITIC, GaussianRelease(1.0, 1)),)
    door = Overheard(Rows(x, labels), charges, SeededNoise(0), insecure=True)
    critic.learn(door, 100.0, torch.zeros(4, PART.features), torch.tensor([0, 1, 2, 0]))
    return torch.cat([one.flatten() for one in door.heard])


@pytest.mark.parametrize("size", [0.0, 0.5, 1.0, 1e6, 1e30, math.inf, math.nan])
@pytest.mark.parametrize("label", [0, 2, 3, -1])
def test_one_record_moves_a_step_by_at_most_the_bound(size: float, label: int) -> None:
    """Whatever stands behind the door, and whatever its class; a label of no class counts nowhere."""
    source = torch.Generator().manual_seed(1)
    x, labels = torch.rand(5, PART.features, generator=source), torch.tensor([0, 1, 2, 1, 0])
    more = torch.cat([x, torch.full((1, PART.features), size)]), torch.cat([labels, torch.tensor([label])])
    moved = float((summed(*more) - summed(x, labels)).norm())
    assert moved <= PART.bound * (1 + 1e-6)
    if label not in (0, 2):
        assert moved < 1e-9


def test_a_step_that_is_noised_for_half_its_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'sensitivity C/2' breaks the contract of the recipe."""
    loud = replace(PURE, critic=replace(PART, bound=0.01))
    check_synthesizer(loud, TINY_IMAGES, rows=20)
    monkeypatch.setattr(GlobalClip, "sensitivity", lambda self, _: self.bound / 2)
    with pytest.raises(ContractError, match="- bounds: critic: one record moves"):
        check_synthesizer(loud, TINY_IMAGES, rows=20)


def test_every_step_of_the_critic_is_charged_and_drawn_in_time() -> None:
    """All charges are drawn, the critic's at most once before each step and none before it starts."""
    made = plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=SMALL)
    counts = {one.purpose: one.mechanism.count for one in made.charges}  # type: ignore[union-attr]
    assert counts == {LABELS: 1, EMBEDDING: 1, FEATURE_MEAN: 1, LABELLER: 2, CRITIC: 2}
    drawn: list[int] = []

    class Counting(Door):
        def publish(self, purpose: str, query: object) -> object:  # type: ignore[override]
            drawn.append(purpose == CRITIC)
            return super().publish(purpose, query)  # type: ignore[arg-type]

    fitter = SMALL.fitter(TINY_IMAGES, seed=1, device=torch.device("cpu"))
    rows = Rows(torch.rand(20, 1, 8, 8) * 2 - 1, torch.arange(20) % 2)
    door = Counting(rows, made.charges, SeededNoise(1), insecure=True, rows=64)
    fitter.begin(door, None, lambda: None)
    seen = []
    for _ in range(SMALL.steps):
        fitter.advance(door, None)
        seen.append(sum(drawn))
    assert seen == [0, 0, 0, 1, 2, 2]
    assert door.left(CRITIC) == 0


def test_a_gan_from_random_weights_publishes_no_embedding() -> None:
    """Without an embedding nothing is charged for one, and the generator learns from critic and labeller alone."""
    made = plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=PURE)
    assert [one.purpose for one in made.charges] == [LABELS, FEATURE_MEAN, LABELLER, CRITIC]
    assert len(fit(tiny_images(), made).sample(5)) == 5


def test_a_recipe_with_nothing_to_learn_from_is_refused() -> None:
    """Neither statistic nor critic, or a critic that never starts."""
    with pytest.raises(RecipeError, match="neither an embedding nor a critic"):
        replace(PURE, critic=None)
    with pytest.raises(RecipeError, match=r"\[0, 1\)"):
        replace(PART, start=1.0)


@pytest.mark.parametrize("recipe", [UNDERSTUDY_GAN, UNDERSTUDY_GAN_PURE], ids=lambda one: one.name)
def test_an_audit_hears_every_step_without_all_free_ones(recipe: object) -> None:
    """The rehearsed recipe asks before every step, as often as the plan charges, and draws few images."""
    short = recipe.rehearsed()  # type: ignore[attr-defined]
    critic = recipe.critic  # type: ignore[attr-defined]
    assert (short.steps, short.critic.steps, short.critic.start) == (critic.steps, critic.steps, 0.0)
    assert short.releases(None, 60_000) == recipe.releases(None, 60_000)  # type: ignore[attr-defined]
    adversary = Adversary(short.critic, 2, torch.device("cpu"))
    assert adversary.due(0, short.steps)


def test_an_audit_of_a_whole_run_passes() -> None:
    """Every step of the critic is heard, bounded and noised, and no checkpoint tells more than was published."""
    check_synthesizer(SMALL, TINY_IMAGES, rows=20, audited=True)
