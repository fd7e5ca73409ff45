"""Our own recipe: every private quantity is bounded, noised as charged, and the only way to the generator."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from understudy.charges import EMBEDDING, FEATURE_MEAN, LABELS, TEACHER
from understudy.recipes import RECIPES, Recipe
from understudy.recipes.parts import Lessons, LinearTeacher, MeanEmbedding, UpsamplingGenerator, Warp

from tiny import TINY_IMAGES, tiny_images
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.errors import BudgetError, Interrupted, PlanError, RecipeError, ReleaseError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan, plan
from understudy.privacy.accounting import spent
from understudy.records.encode import encode
from understudy.release.release import Release
from understudy.release.sampling import doubtful
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.schema import ImageSchema
from understudy.synthesizers.embedding import features as embedding_module
from understudy.synthesizers.embedding import labeller as teacher_module
from understudy.synthesizers.embedding.features import Embedding, class_means, class_sums, noisy_class_sums
from understudy.synthesizers.embedding.fit import Apprentice, Performer, build_performer
from understudy.synthesizers.embedding.labeller import (
    Taught,
    Teacher,
    clipped_gradient_sum,
    feature_sum,
    standardised,
)
from understudy.synthesizers.embedding.warping import warped
from understudy.synthesizers.embedding.wavelets import Wavelets
from understudy.synthesizers.shared import publishing

GradientSum = Callable[[Taught, torch.Tensor, float], torch.Tensor]

SHAPE = (1, 8, 8)
SMALL = MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7)
LESSONS = LinearTeacher(lessons=Lessons(3, 80.0, 1.0), quiet_lessons=None)
RECIPE = replace(
    RECIPES["understudy"],
    statistic=SMALL,
    teacher=LESSONS,
    generator=UpsamplingGenerator(hidden=(8,), channels=2),
    steps=3,
    batch=8,
)


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


def largest_embedding_change() -> float:
    """How far one record moves the class sums, at most, over the hostile images."""
    bank, before = Embedding(SMALL, SHAPE), rows_of(torch.rand(6, *SHAPE) * 2 - 1)
    base = class_sums(bank, before, 2)
    changes = []
    for image in hostile_images():
        for label in (0, 1):
            labels = torch.cat([torch.as_tensor(before.labels), torch.tensor([label])])
            after = Rows(torch.cat([torch.as_tensor(before.x), image[None]]), labels)
            changes.append(float((class_sums(bank, after, 2) - base).norm()))
    return max(changes)


def largest_gradient_change(sums: GradientSum, bound: float) -> float:
    """How far one record moves the gradient sum, at most, with a classifier that is very wrong."""
    source = torch.Generator().manual_seed(3)
    near = torch.nn.functional.normalize(torch.randn(20, 12, generator=source), dim=1)
    labels, head = torch.arange(20) % 3, torch.randn(12, 3, generator=source) * 100
    norms = near.double().norm(dim=1)
    whole = sums(Taught(near, norms, labels), head, bound)
    return max(
        float((whole - sums(Taught(near[keep], norms[keep], labels[keep]), head, bound)).norm())
        for keep in (torch.arange(20) != left_out for left_out in range(20))
    )


def unclipped_sum(taught: Taught, head: torch.Tensor, _bound: float) -> torch.Tensor:
    """The planted bug: gradients as they come."""
    return clipped_gradient_sum(taught, head, 1e9)


def test_one_record_moves_the_class_sums_by_at_most_one() -> None:
    """The sensitivity of the mean embedding is 1, also for images that nobody would draw."""
    assert largest_embedding_change() <= 1


def test_leaving_one_image_out_moves_the_class_sums_by_less_than_one() -> None:
    """The images behind it move to other places of their chunks and are rounded anew: the margin covers it."""
    bank, images = Embedding(SMALL, SHAPE), rows_of(torch.rand(1201, *SHAPE) * 2 - 1)
    assert images.labels is not None
    keep = torch.arange(1201) != 600
    others = Rows(torch.as_tensor(images.x)[keep], torch.as_tensor(images.labels)[keep])
    moved = float((class_sums(bank, images, 2) - class_sums(bank, others, 2)).norm())
    assert moved <= 1 - 5e-5


def test_one_record_moves_the_feature_sum_by_at_most_one() -> None:
    """The standardised moduli of any image have norm at most 1, or are zero if they are not finite."""
    standard = standardised(Wavelets(SHAPE)(embedding_module.brightness(hostile_images())))
    assert float(standard.double().norm(dim=1).max()) <= 1
    assert feature_sum(standard).isfinite().all()


@pytest.mark.parametrize("bound", [0.01, 0.5, 1.0])
def test_one_record_moves_the_gradient_sum_by_at_most_the_bound(bound: float) -> None:
    """Every step of the teacher has sensitivity C."""
    assert largest_gradient_change(clipped_gradient_sum, bound) <= bound


def rounding_of_others(sums: GradientSum) -> float:
    """How far a record that comes before 6,000 others changes how *they* are added up, in units of the bound."""
    source = torch.Generator().manual_seed(4)
    alike = torch.rand(12, generator=source) + 0.1 * torch.rand(6001, 12, generator=source)
    near, labels, head = (
        torch.nn.functional.normalize(alike, dim=1),
        torch.zeros(6001).long(),
        torch.zeros(12, 3),
    )

    def added(rows: slice) -> torch.Tensor:
        return sums(Taught(near[rows], near[rows].double().norm(dim=1), labels[rows]), head, 0.5)

    moved = added(slice(None)) - added(slice(1, None)) - added(slice(1))
    return float(moved.norm()) / 0.5


def sum_in_float32(taught: Taught, _head: torch.Tensor, bound: float) -> torch.Tensor:
    """The planted flaw: thousands of records are added up in single precision."""
    error = torch.tensor([-2.0, 1.0, 1.0]) / 6**0.5 * bound
    return (taught.features.T @ error.expand(len(taught.labels), 3)).double()


def test_many_records_are_added_up_far_more_finely_than_the_margin() -> None:
    """One record more does not change the rounding of all others: in float64 it is nothing, in float32 it shows."""
    assert rounding_of_others(clipped_gradient_sum) < 1e-9
    assert rounding_of_others(sum_in_float32) > 1e-6


def test_an_embedding_that_is_not_normalised_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'no division by the norm, and a weight too large' breaks the bound."""
    monkeypatch.setattr(embedding_module, "_of_norm_one", lambda features: 1.001 * features.nan_to_num())
    assert largest_embedding_change() > 1


def test_the_norms_that_clipping_uses_are_those_of_the_features() -> None:
    """Norms are computed once; they belong to the very rows that enter the gradient, the constant included."""
    teacher = Teacher(LESSONS, SHAPE, 2)
    standard = standardised(teacher.wavelets(torch.rand(5, *SHAPE)))
    taught = Taught.by(teacher, standard, torch.zeros(5, dtype=torch.int64))
    assert torch.equal(taught.features, teacher.features(standard))
    assert torch.allclose(taught.norms, taught.features.double().square().sum(dim=1).sqrt())


def test_a_teacher_that_does_not_clip_is_caught() -> None:
    """The planted bug 'gradients as they come' breaks the bound."""
    assert largest_gradient_change(unclipped_sum, 0.5) > 0.5


def passes(normal: torch.Tensor) -> bool:
    """Whether numbers have the variance of standard normal ones, at a risk of one in a thousand."""
    degrees, found = normal.numel(), float(normal.double().square().sum())
    return bool(stats.chi2.ppf(0.0005, degrees) < found < stats.chi2.ppf(0.9995, degrees))


def test_the_noise_of_the_embedding_is_what_was_charged() -> None:
    """The class sums carry noise of standard deviation σ; ten percent less or more would be seen."""
    bank, rows = Embedding(MeanEmbedding(), SHAPE), rows_of(torch.rand(6, *SHAPE) * 2 - 1)
    noise = (noisy_class_sums(bank, rows, 2, 5.0, SeededNoise(1)) - class_sums(bank, rows, 2)) / 5.0
    assert passes(noise)
    assert not passes(noise * 1.1)
    assert not passes(noise / 1.1)


def test_the_noise_of_the_teacher_is_what_was_charged() -> None:
    """The mean and a single step carry σ and σ·C; half as much again or a third less would be seen."""
    part = LinearTeacher(lessons=Lessons(1, 2.0, 0.5))
    teacher, rows = Teacher(part, SHAPE, 2), rows_of(torch.rand(30, *SHAPE) * 2 - 1)
    teacher_module.teach(teacher, part, rows, 10.0, 3.0, 7.0, SeededNoise(2))
    standard = standardised(teacher.wavelets(embedding_module.brightness(torch.as_tensor(rows.x))))
    of_mean = (teacher.mean * 10.0 - feature_sum(standard)) / 3.0
    taught = Taught.by(teacher, standard, torch.as_tensor(rows.labels))
    exact = clipped_gradient_sum(taught, torch.zeros_like(teacher.head), 0.5)
    of_step = (teacher.head * (-10.0 / 2.0) - exact) / (7.0 * 0.5)
    for noise in (of_mean, of_step):
        assert passes(noise)
        assert not passes(noise * 1.5)
        assert not passes(noise / 1.5)


def test_class_means_use_published_counts_never_exact_ones() -> None:
    """Sums are divided by what was published: with weights 0.9 and 0.1 the exact counts would be noticed."""
    made, rows = small_plan(), rows_of(torch.rand(40, *SHAPE) * 2 - 1)
    quiet = replace(made, budget=None)  # a baseline: no noise hides the divisor
    means = publishing.mean_embedding(quiet, TINY_IMAGES, rows, (0.9, 0.1), 500.0, SeededNoise(1))
    sums = class_sums(Embedding(SMALL, SHAPE), rows, 2)
    assert torch.allclose(means, class_means(sums, torch.tensor([450.0, 50.0])))
    exact = torch.bincount(torch.as_tensor(rows.labels)).double()
    assert not torch.allclose(means, class_means(sums, exact), rtol=0.1)


def test_what_the_plan_does_not_charge_is_not_drawn() -> None:
    """A private plan without the charge refuses to publish the embedding."""
    made = small_plan()
    bare = replace(made, charges=tuple(one for one in made.charges if one.purpose != EMBEDDING))
    with pytest.raises(PlanError, match="does not charge the mean embedding"):
        publishing.mean_embedding(
            bare, TINY_IMAGES, rows_of(torch.zeros(4, *SHAPE)), (0.5, 0.5), 4.0, SeededNoise(1)
        )


def test_the_generator_is_trained_from_published_numbers_alone() -> None:
    """No argument of the free training can hold rows, and equal published numbers give equal weights."""
    assert not {"rows", "data", "records", "x"} & set(inspect.signature(Apprentice.__init__).parameters)
    assert list(inspect.signature(Apprentice.advance).parameters) == ["self"]
    rows = rows_of(torch.rand(40, *SHAPE) * 2 - 1)
    order = torch.randperm(40)
    weights = []
    for one in (rows, Rows(torch.as_tensor(rows.x)[order], torch.as_tensor(rows.labels)[order])):
        means = publishing.mean_embedding(small_plan(), TINY_IMAGES, one, (0.5, 0.5), 40.0, SeededNoise(4))
        run = Apprentice(RECIPE, TINY_IMAGES, means.round(decimals=4), None, 1)
        run.advance()
        weights.append(run.released_weights())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


# --- the plan -----------------------------------------------------------------------------------------------


def test_every_private_quantity_is_a_charge_and_the_total_fits() -> None:
    """Histogram, embedding, mean and teacher are charged in this order, and cost almost all of the budget."""
    made = plan(epsilon=1.0, rows=60_000, recipe="understudy")
    assert [charge.purpose for charge in made.charges] == [LABELS, EMBEDDING, FEATURE_MEAN, TEACHER]
    assert made.spent is not None
    assert 0.99 < made.spent.epsilon <= 1.0
    assert made.spent == spent(made.charges, 1e-5, made.spent.adjacency)
    teacher = made.gaussian(TEACHER)
    assert teacher is not None
    assert teacher.count == 60


def test_the_composition_equals_one_gaussian_by_closed_form() -> None:
    """The charges cost what one Gaussian mechanism of the same total μ does (Balle and Wang, 2018)."""
    made = plan(epsilon=1.0, rows=60_000, recipe="understudy")
    releases = [made.gaussian(charge.purpose) for charge in made.charges]
    mu = math.sqrt(sum(one.count / one.noise_multiplier**2 for one in releases if one is not None))
    delta = stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu)
    assert 0.98e-5 < delta <= 1.0005e-5


def test_lessons_follow_the_noise_per_row() -> None:
    """Little noise means long lessons; much noise or a private number of rows short ones; the cost is the same."""
    found = {
        (epsilon, rows): plan(epsilon=epsilon, rows=rows, recipe="understudy")
        for epsilon, rows in ((10.0, 60_000), (1.0, 60_000), (10.0, 2_000), (10.0, None))
    }
    teacher = RECIPES["understudy"].teacher
    assert teacher is not None
    quiet = found.pop((10.0, 60_000))
    assert quiet.recipe.teacher == replace(teacher, lessons=teacher.quiet_lessons, quiet_lessons=None)
    assert quiet.gaussian(TEACHER).count == 150  # type: ignore[union-attr]
    assert quiet.spent is not None
    assert 9.9 < quiet.spent.epsilon <= 10
    for one in found.values():
        assert one.recipe.teacher == replace(teacher, quiet_lessons=None)


def test_only_the_ratio_of_shares_matters() -> None:
    """Shares are relative: halving all of them changes nothing."""
    made = small_plan()
    assert RECIPE.teacher is not None
    halved = replace(
        RECIPE,
        statistic=replace(SMALL, share=0.25),
        teacher=replace(LESSONS, share=LESSONS.share / 2, mean_share=LESSONS.mean_share / 2),
        labels=replace(RECIPE.labels, share=0.025),  # type: ignore[call-arg]
    )
    other = plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=halved)
    for one, two in zip(made.charges, other.charges, strict=True):
        assert one.mechanism.noise_multiplier == pytest.approx(two.mechanism.noise_multiplier)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (ImageSchema(8, 8, 1), "needs labelled images"),
        (ImageSchema(7, 28, 1, classes=("a", "b")), "at least 8×8"),
    ],
)
def test_data_that_it_cannot_make_is_refused_in_the_plan(schema: ImageSchema, text: str) -> None:
    """Unlabelled and tiny images are refused before anything is spent."""
    with pytest.raises(PlanError, match=text):
        plan(schema, epsilon=1.0, rows=1000, recipe="understudy")


def test_there_are_no_private_training_steps() -> None:
    """Whoever asks for them, as the audit of a critic's step does, is told what is charged instead."""
    with pytest.raises(PlanError, match="label histogram, mean embedding, feature mean, teacher"):
        _ = small_plan().training


def test_parts_without_an_embedding_are_refused() -> None:
    """A teacher alone would be silently ignored by a recipe with a critic."""
    with pytest.raises(RecipeError, match="need a mean embedding"):
        replace(RECIPES["dp-cgan"], teacher=LinearTeacher())
    with pytest.raises(PlanError, match="--sigma"):
        plan(TINY_IMAGES, epsilon=1.0, rows=1000, recipe=RECIPE, noise_multiplier=1.0)


# --- the release --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release() -> Release:
    """A private release of the tiny images."""
    return fit(tiny_images(), small_plan())


def test_a_release_saves_loads_and_samples(release: Release, tmp_path: Path) -> None:
    """Generator and teacher travel together, and the same seed gives the same images."""
    again = Release.load(release.save(tmp_path / "release"))
    first, second = release.sample(50, seed=1), again.sample(50, seed=1)
    assert np.array_equal(first.pixels, second.pixels)  # type: ignore[union-attr]
    assert np.array_equal(first.labels, second.labels)  # type: ignore[union-attr, arg-type]
    text = (tmp_path / "release" / "README.md").read_text(encoding="utf-8")
    for purpose in (LABELS, EMBEDDING, FEATURE_MEAN, TEACHER):
        assert f"| {purpose} |" in text


def test_chosen_classes_are_what_the_sample_says(release: Release) -> None:
    """A chosen label or chosen counts come out exactly."""
    assert set(release.sample(9, label="bar", seed=1).labels) == {1}  # type: ignore[union-attr, arg-type]
    counted = release.sample(0, counts={"ring": 3, "bar": 5}, seed=1)
    assert np.bincount(counted.labels).tolist() == [3, 5]  # type: ignore[union-attr, arg-type]


def test_images_are_drawn_again_until_the_teacher_is_certain(release: Release) -> None:
    """With a bar fewer images are doubtful than without one, and labels are those that the teacher sees."""
    # Weights of no training: what noise a training drew must not decide the test.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        performer = build_performer(release.card.plan.recipe, TINY_IMAGES)
        assert isinstance(performer, Performer)
        performer.teacher.head.copy_(3 * torch.randn_like(performer.teacher.head))
    weights, card = performer.state_dict(), replace(release.card, label_weights=(0.5, 0.5))

    def sureness(certainty: float) -> np.ndarray:
        drawn = Release(card, weights).sample(400, seed=3, certainty=certainty)
        seen = performer.teacher(torch.from_numpy(encode(drawn, TINY_IMAGES).x)).softmax(dim=1)
        assert (seen.argmax(dim=1).numpy() == drawn.labels).mean() > 0.98  # type: ignore[union-attr]
        return np.asarray(seen.max(dim=1).values)

    free = sureness(0.0)
    bar = float(np.median(free))
    assert 0.5 + 0.02 < bar < 1 - 0.02  # this teacher is neither blind nor sure of everything
    assert (sureness(bar) < bar).mean() < 0.7 * (free < bar).mean()


def test_certainty_needs_a_teacher(release: Release) -> None:
    """A release whose labels nobody judges refuses the question, and a certainty of 1 can never be reached."""
    recipe = replace(release.card.plan.recipe, teacher=None)
    bare = Release(replace(release.card, plan=replace(release.card.plan, recipe=recipe)), release.weights)
    with pytest.raises(ReleaseError, match="no teacher"):
        bare.sample(5, certainty=0.5)
    with pytest.raises(RecipeError, match="probability below 1"):
        release.sample(5, certainty=1.0)


def test_doubt_is_another_class_or_too_little_certainty() -> None:
    """Of three images the first is certain, the second too little, the third of another class."""
    seen = torch.tensor([[0.97, 0.03], [0.9, 0.1], [0.01, 0.99]])
    assert doubtful(seen, torch.zeros(3, dtype=torch.int64), 0.95).tolist() == [1, 2]
    assert doubtful(seen, torch.zeros(3, dtype=torch.int64), 0.0).tolist() == [2]


def test_a_run_that_was_stopped_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    """Interrupted and resumed, the seeded run gives the same weights bit by bit, and publishes nothing twice."""
    whole = fit(tiny_images(), small_plan(), insecure_seed=5)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted, match="after 1 of 3"):
        fit(tiny_images(), small_plan(), insecure_seed=5, checkpoints=Checkpoints(path), stop=lambda: True)
    other_rows = tiny_images(seed=99)  # a resumed run must not look at them again
    resumed = fit(other_rows, small_plan(), insecure_seed=5, checkpoints=Checkpoints(path, resume=True))
    assert all(torch.equal(value, resumed.weights[name]) for name, value in whole.weights.items())
    assert resumed.card.label_weights == whole.card.label_weights


@pytest.mark.parametrize("change", [{"teacher": None}, {"warp": None}, {"teacher": None, "warp": None}])
def test_parts_can_be_switched_off(change: dict[str, None], tmp_path: Path) -> None:
    """Each idea can be taken out of the recipe, for an ablation."""
    recipe: Recipe = replace(RECIPE, **change)  # type: ignore[arg-type]
    made = fit(tiny_images(), plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=recipe))
    assert len(Release.load(made.save(tmp_path / "release")).sample(5)) == 5


def test_a_private_row_count_and_a_baseline_train_too() -> None:
    """Without a declared number of rows it is counted with noise; without a budget the release says NOT PRIVATE."""
    unknown = plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=None, recipe=RECIPE)
    assert unknown.row_release is not None
    assert fit(tiny_images(), unknown).card.private
    baseline = plan(TINY_IMAGES, epsilon=None, rows=64, recipe=RECIPE)
    assert "NOT PRIVATE" in str(baseline)
    assert not fit(tiny_images(), baseline).card.private


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
                stop=lambda: True,
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
