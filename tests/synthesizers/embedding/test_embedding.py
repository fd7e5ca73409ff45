"""Our own recipe of images: what it publishes is bounded record by record, and what it makes keeps to the labeller.

What every synthesizer promises (charges, leaks, checkpoints, releases) is in `tests/synthesizers/test_contract.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from tiny import TINY_IMAGES, stop_after, tiny_images
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import Batch
from understudy.door.source import Rows
from understudy.errors import BudgetError, Interrupted, PlanError, ReleaseError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan, plan
from understudy.privacy.accounting import spent
from understudy.records.encode import encode
from understudy.release.release import Release
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.schema import ImageSchema
from understudy.synthesizers.embedding import queries
from understudy.synthesizers.embedding.features import Embedding, brightness, class_means
from understudy.synthesizers.embedding.fit import EmbeddingFitter
from understudy.synthesizers.embedding.labeller import standardised
from understudy.synthesizers.embedding.model import build_image_model, doubtful
from understudy.synthesizers.embedding.queries import ClassSums, FeatureSum, LabellerGradient
from understudy.synthesizers.embedding.recipe import (
    EMBEDDING,
    FEATURE_MEAN,
    LABELLER,
    UNDERSTUDY_IMAGES,
    EmbeddingRecipe,
    Lessons,
    LinearLabeller,
    MeanEmbedding,
    UpsamplingGenerator,
    Warp,
)
from understudy.synthesizers.embedding.warping import warped
from understudy.synthesizers.embedding.wavelets import Wavelets
from understudy.synthesizers.shared.parts import LABELS
from understudy.synthesizers.shared.queries import LabelCounts

SHAPE = (1, 8, 8)
SMALL = MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7)
LESSONS = LinearLabeller(lessons=Lessons(3, 80.0, 1.0), quiet_lessons=None)
RECIPE = replace(
    UNDERSTUDY_IMAGES,
    embedding=SMALL,
    labeller=LESSONS,
    generator=UpsamplingGenerator(hidden=(8,), channels=2),
    steps=3,
    batch=8,
)
GradientSum = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


@cache
def small_plan() -> Plan:
    return plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=RECIPE)


def rows_of(x: torch.Tensor, seed: int = 0) -> Rows:
    labels = torch.randint(0, 2, (len(x),), generator=torch.Generator().manual_seed(seed))
    return Rows(x, labels)


def hostile_images() -> torch.Tensor:
    """Extremes: black, white, checked, one pixel, noise, and values that encoding never makes."""
    checked = torch.ones(8, 8)
    checked[::2, ::2] = -1
    pixel = -torch.ones(8, 8)
    pixel[3, 4] = 1
    noise = torch.rand(8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1
    kinds = [-torch.ones(8, 8), torch.ones(8, 8), checked, pixel, noise, torch.full((8, 8), 1e30)]
    return torch.stack([*kinds, torch.full((8, 8), math.nan)]).unsqueeze(1)


def class_sums(rows: Rows) -> torch.Tensor:
    """The exact sums of the embedding."""
    query = ClassSums(Embedding(SMALL, SHAPE), 2)
    (sums,) = whole = query.zero()
    query.add(whole, Batch(torch.as_tensor(rows.x), torch.as_tensor(rows.labels), SeededNoise(0)))
    return sums


def largest_embedding_change() -> float:
    """How far one record moves the class sums, at most, over the hostile images."""
    before = rows_of(torch.rand(6, *SHAPE) * 2 - 1)
    base = class_sums(before)
    changes = []
    for image in hostile_images():
        for label in (0, 1):
            labels = torch.cat([torch.as_tensor(before.labels), torch.tensor([label])])
            after = Rows(torch.cat([torch.as_tensor(before.x), image[None]]), labels)
            changes.append(float((class_sums(after) - base).norm()))
    return max(changes)


def gradient_sum(
    features: torch.Tensor, labels: torch.Tensor, head: torch.Tensor, bound: float
) -> torch.Tensor:
    """What the query of the labeller's steps adds up."""
    query = LabellerGradient(head, bound)
    (sums,) = whole = query.zero()
    query.add(whole, Batch(features, labels, SeededNoise(0)))
    return sums


def unclipped_sum(
    features: torch.Tensor, labels: torch.Tensor, head: torch.Tensor, _bound: float
) -> torch.Tensor:
    """The planted bug: gradients as they come."""
    return gradient_sum(features, labels, head, 1e9)


def sum_in_float32(
    features: torch.Tensor, labels: torch.Tensor, _head: torch.Tensor, bound: float
) -> torch.Tensor:
    """The planted flaw: thousands of records are added up in single precision."""
    error = torch.tensor([-2.0, 1.0, 1.0]) / 6**0.5 * bound
    return (features.T @ error.expand(len(labels), 3)).double()


def largest_gradient_change(sums: GradientSum, bound: float) -> float:
    """How far one record moves the gradient sum, at most, with a classifier that is very wrong."""
    source = torch.Generator().manual_seed(3)
    near = torch.nn.functional.normalize(torch.randn(20, 12, generator=source), dim=1)
    labels, head = torch.arange(20) % 5, torch.randn(12, 5, generator=source) * 100
    whole = sums(near, labels, head, bound)
    return max(
        float((whole - sums(near[keep], labels[keep], head, bound)).norm())
        for keep in (torch.arange(20) != left_out for left_out in range(20))
    )


def rounding_of_others(sums: GradientSum) -> float:
    """How far a record that comes before 6,000 others changes how *they* are added up, in units of the bound."""
    source = torch.Generator().manual_seed(4)
    alike = torch.rand(12, generator=source) + 0.1 * torch.rand(6001, 12, generator=source)
    near, labels = torch.nn.functional.normalize(alike, dim=1), torch.zeros(6001).long()

    def added(rows: slice) -> torch.Tensor:
        return sums(near[rows], labels[rows], torch.zeros(12, 3), 0.5)

    moved = added(slice(None)) - added(slice(1, None)) - added(slice(1))
    return float(moved.norm()) / 0.5


def test_one_record_moves_the_class_sums_by_at_most_one() -> None:
    """The sensitivity of the mean embedding is 1, also for images that nobody would draw."""
    assert largest_embedding_change() <= ClassSums.sensitivity + 1e-12


def test_an_embedding_that_is_not_normalised_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'no division by the norm, and a weight too large' breaks the bound."""
    monkeypatch.setattr(queries, "_of_norm_one", lambda features: 1.001 * features.nan_to_num())
    assert largest_embedding_change() > 1


def test_one_record_moves_the_feature_sum_by_at_most_one() -> None:
    """The standardised moduli of any image have norm at most 1, or are zero if they are not finite."""
    standard = standardised(Wavelets(SHAPE)(brightness(hostile_images())))
    assert float(standard.double().norm(dim=1).max()) <= FeatureSum.sensitivity
    assert standard.isfinite().all()


def feature_sum(features: torch.Tensor) -> torch.Tensor:
    """What the query of the feature mean adds up."""
    query = FeatureSum(features.shape[1])
    (sums,) = whole = query.zero()
    query.add(whole, Batch(features, None, SeededNoise(0)))
    return sums


@pytest.mark.parametrize("size", [1e-30, 0.3, 1.0, 7.0, 1e19, 1e38, math.inf, math.nan])
def test_the_feature_sum_enforces_its_own_bound(size: float) -> None:
    """Whatever stands behind a derived door, one row of it moves the sum by at most 1; short rows stay as they are."""
    short = torch.rand(6, 40, generator=torch.Generator().manual_seed(0)) / 40
    moved = feature_sum(torch.cat([short, torch.full((1, 40), size)])) - feature_sum(short)
    assert float(moved.norm()) <= FeatureSum.sensitivity
    assert torch.equal(feature_sum(short), short.sum(dim=0, dtype=torch.float64))


@pytest.mark.parametrize("label", [-1, 2, 2**40])
def test_a_label_of_no_class_counts_nowhere(label: int) -> None:
    """One record with a foreign label neither stops a run nor moves a sum, in no query by class."""
    images, labels = hostile_images()[:5], torch.tensor([0, 1, 1, 0, 1])
    extended = torch.cat([labels, torch.tensor([label])])
    more = torch.cat([images, images[:1]])
    assert torch.equal(class_sums(Rows(more, extended)), class_sums(Rows(images, labels)))
    features, head = torch.rand(6, 4), torch.rand(4, 2)
    expected = gradient_sum(features[:5], labels, head, 0.5)
    assert torch.allclose(gradient_sum(features, extended, head, 0.5), expected, rtol=1e-12, atol=0)
    query = LabelCounts(2)
    (counts,) = whole = query.zero()
    query.add(whole, Batch(features, extended, SeededNoise(0)))
    assert counts.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("bound", [0.01, 0.5, 1.0])
def test_one_record_moves_the_gradient_sum_by_at_most_the_bound(bound: float) -> None:
    """Every step of the labeller has sensitivity C."""
    assert largest_gradient_change(gradient_sum, bound) <= bound


def test_a_labeller_that_does_not_clip_is_caught() -> None:
    """The planted bug 'gradients as they come' breaks the bound."""
    assert largest_gradient_change(unclipped_sum, 0.5) > 0.5


def test_many_records_are_added_up_far_more_finely_than_the_margin() -> None:
    """One record more does not change the rounding of all others: in float64 it is nothing, in float32 it shows."""
    assert rounding_of_others(gradient_sum) < 1e-9
    assert rounding_of_others(sum_in_float32) > 1e-6


def test_class_means_use_published_counts_never_exact_ones() -> None:
    """Sums are divided by what was published: with weights 0.9 and 0.1 the exact counts would be noticed."""
    rows, schema = rows_of(torch.rand(40, *SHAPE) * 2 - 1), replace(TINY_IMAGES, label_weights=(0.9, 0.1))
    fitter = RECIPE.fitter(schema, seed=1, device=torch.device("cpu"))
    assert isinstance(fitter, EmbeddingFitter)
    fitter.begin(Door(rows, (), SeededNoise(1), private=False, rows=500), None, lambda: None)
    means = fitter.state()["published:means"]
    sums = class_sums(rows)
    assert torch.allclose(means, class_means(sums, torch.tensor([450.0, 50.0])))
    exact = torch.bincount(torch.as_tensor(rows.labels)).double()
    assert not torch.allclose(means, class_means(sums, exact), rtol=0.1)


# --- the plan -----------------------------------------------------------------------------------------------


def test_every_private_quantity_is_a_charge_and_the_total_fits() -> None:
    """Histogram, embedding, mean and labeller are charged in this order, and cost almost all of the budget."""
    made = plan(epsilon=1.0, rows=60_000, recipe="understudy-images")
    assert [charge.purpose for charge in made.charges] == [LABELS, EMBEDDING, FEATURE_MEAN, LABELLER]
    assert made.spent is not None
    assert 0.99 < made.spent.epsilon <= 1.0
    assert made.spent == spent(made.charges, 1e-5, made.spent.adjacency)
    labeller = made.gaussian(LABELLER)
    assert labeller is not None
    assert labeller.count == 60


def test_the_composition_equals_one_gaussian_by_closed_form() -> None:
    """The charges cost what one Gaussian mechanism of the same total μ does (Balle and Wang, 2018)."""
    made = plan(epsilon=1.0, rows=60_000, recipe="understudy-images")
    releases = [made.gaussian(charge.purpose) for charge in made.charges]
    mu = math.sqrt(sum(one.count / one.noise_multiplier**2 for one in releases if one is not None))
    delta = stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu)
    assert 0.98e-5 < delta <= 1.0005e-5


def test_lessons_follow_the_noise_per_row() -> None:
    """Little noise means long lessons; much noise or a private number of rows short ones; the cost is the same."""
    found = {
        (epsilon, rows): plan(epsilon=epsilon, rows=rows, recipe="understudy-images")
        for epsilon, rows in ((10.0, 60_000), (1.0, 60_000), (10.0, 2_000), (10.0, None))
    }
    labeller = UNDERSTUDY_IMAGES.labeller
    assert labeller is not None
    quiet = found.pop((10.0, 60_000))
    assert quiet.recipe.labeller == replace(labeller, lessons=labeller.quiet_lessons, quiet_lessons=None)
    assert quiet.gaussian(LABELLER).count == 150  # type: ignore[union-attr]
    assert quiet.spent is not None
    assert 9.9 < quiet.spent.epsilon <= 10
    for one in found.values():
        assert one.recipe.labeller == replace(labeller, quiet_lessons=None)


def test_only_the_ratio_of_shares_matters() -> None:
    """Shares are relative: halving all of them changes nothing."""
    made = small_plan()
    halved = replace(
        RECIPE,
        embedding=replace(SMALL, share=0.25),
        labeller=replace(LESSONS, share=LESSONS.share / 2, mean_share=LESSONS.mean_share / 2),
        class_share=RECIPE.class_share / 2,
    )
    other = plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=halved)
    for one, two in zip(made.charges, other.charges, strict=True):
        assert one.mechanism.noise_multiplier == pytest.approx(two.mechanism.noise_multiplier)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (ImageSchema(8, 7, 1), "at least 8×8"),
        (ImageSchema(7, 28, 1, classes=("a", "b")), "at least 8×8"),
    ],
)
def test_data_that_it_cannot_make_is_refused_in_the_plan(schema: ImageSchema, text: str) -> None:
    """Tiny images, labelled or not, are refused before anything is spent."""
    with pytest.raises(PlanError, match=text):
        plan(schema, epsilon=1.0, rows=1000, recipe="understudy-images")


def test_there_are_no_private_training_steps() -> None:
    """Whoever asks for them, as the audit of a critic's step does, is told what is charged instead."""
    with pytest.raises(PlanError, match="label histogram, mean embedding, feature mean, labeller"):
        _ = small_plan().training


def test_noise_of_a_critic_is_refused() -> None:
    """A noise multiplier would be silently ignored by a recipe that finds its own."""
    with pytest.raises(PlanError, match="--sigma"):
        plan(TINY_IMAGES, epsilon=1.0, rows=1000, recipe=RECIPE, noise_multiplier=1.0)


# --- the release --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release() -> Release:
    """A private release of the tiny images."""
    return fit(tiny_images(), small_plan())


def test_chosen_classes_are_what_the_sample_says(release: Release) -> None:
    """A chosen label or chosen counts come out exactly."""
    assert set(release.sample(9, label="bar", seed=1).labels) == {1}  # type: ignore[union-attr, arg-type]
    counted = release.sample(0, counts={"ring": 3, "bar": 5}, seed=1)
    assert np.bincount(counted.labels).tolist() == [3, 5]  # type: ignore[union-attr, arg-type]


def test_images_are_drawn_again_until_the_labeller_is_certain(release: Release) -> None:
    """With a bar fewer images are doubtful than without one, and labels are those that the labeller sees."""
    # Weights of no training: what noise a training drew must not decide the test.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        recipe = release.card.plan.recipe
        assert isinstance(recipe, EmbeddingRecipe)
        model = build_image_model(recipe, TINY_IMAGES)
        assert model.labeller is not None
        model.labeller.head.copy_(3 * torch.randn_like(model.labeller.head))
    weights = {name: one.numpy() for name, one in model.state_dict().items()}
    card = replace(release.card, label_weights=(0.5, 0.5))

    def sureness(certainty: float) -> np.ndarray:
        drawn = Release(card, weights).sample(400, seed=3, certainty=certainty)
        seen = model.labeller(torch.from_numpy(encode(drawn, TINY_IMAGES).x)).softmax(dim=1)
        assert (seen.argmax(dim=1).numpy() == drawn.labels).mean() > 0.98  # type: ignore[union-attr]
        return np.asarray(seen.max(dim=1).values)

    free = sureness(0.0)
    bar = float(np.median(free))
    assert 0.5 + 0.02 < bar < 1 - 0.02  # this labeller is neither blind nor sure of everything
    assert (sureness(bar) < bar).mean() < 0.7 * (free < bar).mean()


def test_certainty_needs_a_labeller(release: Release) -> None:
    """A release whose labels nobody judges refuses the question, and a certainty of 1 can never be reached."""
    recipe = replace(release.card.plan.recipe, labeller=None)
    weights = {name: one for name, one in release.weights.items() if not name.startswith("labeller.")}
    bare = Release(replace(release.card, plan=replace(release.card.plan, recipe=recipe)), weights)
    with pytest.raises(ReleaseError, match="no labeller"):
        bare.sample(5, certainty=0.5)
    with pytest.raises(ReleaseError, match="probability below 1"):
        release.sample(5, certainty=1.0)


def test_doubt_is_another_class_or_too_little_certainty() -> None:
    """Of three images the first is certain, the second too little, the third of another class."""
    seen = torch.tensor([[0.97, 0.03], [0.9, 0.1], [0.01, 0.99]])
    assert doubtful(seen, torch.zeros(3, dtype=torch.int64), 0.95).tolist() == [1, 2]
    assert doubtful(seen, torch.zeros(3, dtype=torch.int64), 0.0).tolist() == [2]


@pytest.mark.parametrize("change", [{"labeller": None}, {"warp": None}, {"labeller": None, "warp": None}])
def test_parts_can_be_switched_off(change: dict[str, None], tmp_path: Path) -> None:
    """Each idea can be taken out of the recipe, for an ablation."""
    recipe = replace(RECIPE, **change)  # type: ignore[arg-type]
    made = fit(tiny_images(), plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=recipe))
    assert len(Release.load(made.save(tmp_path / "release")).sample(5)) == 5


# --- pieces -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 9, 13), (1, 48, 41)])
def test_wavelets_fit_every_size(shape: tuple[int, int, int]) -> None:
    """Sizes even and odd, with one channel or more, by matrix or by convolution, have the widths they say."""
    waves = Wavelets(shape)
    assert tuple(order.shape[1] for order in waves(torch.rand(2, *shape))) == waves.widths


def test_wavelets_know_no_constant() -> None:
    """Away from the border a constant image has no first-order moduli: the filters have mean zero."""
    fine = Wavelets((1, 28, 28)).fine(torch.ones(1, 1, 28, 28))
    assert float(fine[:, :, 3:-3, 3:-3].max()) < 2e-3


def test_the_matrix_and_the_convolution_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path of small grids is the same function as the plain one."""
    images = torch.rand(3, 1, 11, 14)
    fast = Wavelets((1, 11, 14))(images)
    monkeypatch.setattr("understudy.synthesizers.embedding.wavelets._DENSE_CELLS", 0)
    for one, two in zip(fast, Wavelets((1, 11, 14))(images), strict=True):
        assert torch.allclose(one, two, atol=1e-5)


def test_a_warp_without_strength_changes_nothing() -> None:
    """All strengths zero give the image back; the usual ones do not."""
    images = torch.rand(4, 1, 9, 8) * 2 - 1
    source = torch.Generator().manual_seed(1)
    assert torch.allclose(warped(images, Warp(0, 0, 0, 0), source), images, atol=1e-5)
    assert not torch.allclose(warped(images, Warp(), source), images, atol=0.1)


# --- with a ledger ------------------------------------------------------------------------------------------


def test_the_ledger_counts_every_charge_once(tmp_path: Path) -> None:
    """A run that was stopped and resumed is one entry, counts in full, and leaves nothing for a second run."""
    made, path = small_plan(), tmp_path / "run.checkpoint"
    assert made.budget is not None
    with Ledger(tmp_path / "ledger", create=True) as book:
        book.register("digits", made.budget)
        with pytest.raises(Interrupted):
            fit(
                tiny_images(),
                made,
                account=LedgerAccount(book, "digits", every=2),
                checkpoints=Checkpoints(path, 2),
                stop=stop_after(1),
            )
        fit(
            tiny_images(),
            made,
            account=LedgerAccount(book, "digits", every=2),
            checkpoints=Checkpoints(path, 2, resume=True),
        )
        assert len(book.statement("digits").entries) == 1
        assert book.counted("digits") == made.charges
        with pytest.raises(BudgetError, match="largest ε"):
            fit(tiny_images(), made, account=LedgerAccount(book, "digits"))


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e300])
def test_an_odd_record_adds_nothing_that_is_no_number(odd: float) -> None:
    """Features that are no numbers count nowhere, and leave the sum of the others as it is."""
    from understudy.door.query import Batch
    from understudy.synthesizers.embedding.queries import LabellerGradient, _of_norm_one

    source = torch.Generator().manual_seed(0)
    features = torch.rand((5, 4), generator=source, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1])
    query = LabellerGradient(torch.zeros(4, 3), 1.0)
    chance: Any = None
    alone, beside = query.zero(), query.zero()
    query.add(alone, Batch(features, labels, chance))
    worse = torch.cat([features, torch.full((1, 4), odd, dtype=torch.float64)])
    query.add(beside, Batch(worse, torch.cat([labels, torch.tensor([1])]), chance))
    assert beside[0].isfinite().all()
    assert (beside[0] - alone[0]).norm() <= 1.0
    assert _of_norm_one(torch.zeros(2, 4)).equal(torch.zeros(2, 4))
