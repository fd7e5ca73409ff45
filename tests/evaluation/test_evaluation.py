"""The whole evaluation on small images, tables and code vectors, and the parts that need a network."""

from __future__ import annotations

import datetime as dt
import inspect
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from tiny import TINY_IMAGES, tiny_images, tiny_plan
from understudy.errors import EvaluationError, TooFewRows
from understudy.evaluation import Evaluation, Group, Learner, evaluate, semisupervised
from understudy.evaluation.domain import domain_classifier
from understudy.evaluation.image_fidelity import discriminator_score, image_fidelity
from understudy.evaluation.layout import Layout
from understudy.evaluation.semisupervised import coded_images, semi_supervised, synthetic_share
from understudy.evaluation.sources import ReleaseSource
from understudy.evaluation.utility import Labelled
from understudy.records.images import Images
from understudy.run.fit import fit
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    Continuous,
    Datetime,
    ImageSchema,
    TableSchema,
    TimeUnit,
)
from understudy.synthesizers.registry import RECIPES

if TYPE_CHECKING:
    from pathlib import Path

TABLE = TableSchema(
    (
        Continuous("age", 0, 100),
        Datetime("seen", dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31), missing=True),
        Categorical("town", ("a", "b", "c")),
        Binary("ill"),
    ),
    label="ill",
)
CODES = CodeSchema(tuple("abcdefgh"))
DIGITS = ImageSchema(8, 8, 1, tuple("0123456789"))


def visits(rows: int, seed: int) -> pd.DataFrame:
    """A table whose label depends on age and town."""
    generator = np.random.default_rng(seed)
    age = generator.uniform(20, 90, rows)
    town = generator.choice(list("abc"), rows)
    ill = (age + 20 * (town == "a") + generator.normal(0, 8, rows) > 60).astype(int)
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 365, rows), unit="D")
    return pd.DataFrame({"age": age, "seen": seen, "town": town, "ill": ill.astype(str)})


def patients(rows: int, seed: int) -> pd.DataFrame:
    """Code vectors with dependence."""
    generator = np.random.default_rng(seed)
    chance = np.where(generator.random((rows, 1)) < 0.5, 0.6, 0.1)
    return pd.DataFrame((generator.random((rows, 8)) < chance).astype(int), columns=list("abcdefgh"))


def digit_images(part: int) -> Images:
    """One third of the digits."""
    bunch = load_digits()
    rows = np.arange(part, 1797, 3)
    pixels = np.clip(bunch.images[rows] * 16, 0, 255).astype(np.uint8)[..., None]
    return Images(pixels, bunch.target[rows].astype(np.int64))


def test_table_evaluation(pool_release: Any) -> None:
    """A table gets utility, fidelity and closeness, chart data and a JSON that reads back."""
    release = pool_release(TABLE, visits(400, 0))
    seen: list[float] = []
    found = evaluate(
        release,
        visits(400, 1),
        reference=visits(400, 2),
        learners=[Learner.LOGISTIC_REGRESSION],
        on_progress=lambda _, share: seen.append(share),
    )
    accuracy = found["logistic regression: accuracy"]
    assert accuracy.floor is not None
    assert accuracy.value > accuracy.floor + 0.1
    assert found["validity"].value == 1.0
    assert {group: bool(found.of(group)) for group in Group} == dict.fromkeys(Group, True)
    assert [chart.column for chart in found.marginals] == ["age", "seen", "town", "ill"]
    assert found.correlations is not None
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert Evaluation.from_json(found.to_json()) == found


def test_code_evaluation_without_label_or_reference(pool_release: Any) -> None:
    """Code vectors without a label get fidelity only, and the notes say why."""
    found = evaluate(pool_release(CODES, patients(500, 0)), patients(500, 1))
    assert not found.of(Group.UTILITY)
    assert not found.of(Group.CLOSENESS)
    assert found["dimension-wise prediction"].value > 0.6
    assert any("no label" in note for note in found.notes)
    assert any("ceilings" in note for note in found.notes)


def test_image_evaluation(pool_release: Any, tmp_path: Path) -> None:
    """Images get a CNN, inception scores and neighbours; a second run reads the classifier from the cache."""
    release = pool_release(DIGITS, digit_images(0))
    arguments: dict[str, Any] = {
        "reference": digit_images(2),
        "learners": [Learner.CNN],
        "seeds": (0,),
        "cache": tmp_path,
    }
    found = evaluate(release, digit_images(1), **arguments)
    assert found["CNN: accuracy"].value > 0.7
    score = found["inception score, 1 split"]
    assert score.ceiling is not None
    assert score.floor is not None
    assert score.floor < score.value
    assert abs(score.value - score.ceiling) < 1.0
    assert found.pictures is not None
    assert len(found.pictures.synthetic) == len(found.pictures.nearest) == 10
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == ["ceiling", "domain"]
    again = evaluate(release, digit_images(1), **arguments)
    assert again == found


def test_cache_is_not_shared_between_data(tmp_path: Path) -> None:
    """Other images, labels or seeds train another classifier; the same ones do not."""
    images = digit_images(0)
    rows = Labelled(images.pixels.transpose(0, 3, 1, 2) / 127.5 - 1, images.labels, 10)  # type: ignore[arg-type]
    rows = Labelled(rows.features[:100], rows.labels[:100], 10)
    domain_classifier(rows, cache=tmp_path)
    domain_classifier(rows, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    domain_classifier(rows, cache=tmp_path, seed=1)
    domain_classifier(Labelled(rows.features, rows.labels[::-1], 10), cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_private_rows_have_no_way_in_as_synthetic() -> None:
    """`evaluate` takes a release, test rows and reference rows; nothing else that could hold rows."""
    assert list(inspect.signature(evaluate).parameters)[:3] == ["release", "test", "reference"]
    assert "synthetic" not in inspect.signature(evaluate).parameters


def test_a_source_without_label_is_refused(pool_release: Any) -> None:
    """Utility of unlabelled data says what is missing."""
    with pytest.raises(EvaluationError, match="label"):
        ReleaseSource(pool_release(CODES, patients(10, 0))).draw(5, 0)


def test_the_trivial_generator_keeps_to_the_schema() -> None:
    """Floors come from uniform values within the bounds, moments included; before, these were all in 1970."""
    layout = Layout.of(TABLE)
    made = layout.uniform(2_000, 0)
    assert layout.valid(made).all()
    numbers = layout.numbers(made)
    assert np.abs(numbers.mean(axis=0) - 0.5).max() < 0.05
    assert numbers.min() >= 0
    assert numbers.max() <= 1


def test_layout_of_a_schema() -> None:
    """Datetimes become seconds within their bounds, missing ones are valid where allowed."""
    layout = Layout.of(TABLE)
    frame = visits(50, 0)
    frame.loc[0, "seen"] = pd.NaT
    frame.loc[1, "seen"] = pd.Timestamp("1999-01-01")
    numbers = layout.numbers(frame)
    assert np.isnan(numbers[0, 1])
    assert numbers[2:, 1].min() >= 0
    assert layout.valid(frame).tolist() == [True, False, *[True] * 48]
    assert layout.labels("seen")[:2] == ("2020-01-01", "2020-01-19")
    day = Datetime("seen", dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2), unit=TimeUnit.MINUTE)
    assert Layout.of(TableSchema((day,))).labels("seen")[1] == "2020-01-01T01:12"


def pixels_of(images: Images) -> np.ndarray:
    """Images as networks take them."""
    return (images.pixels.transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32)


def test_discriminator_score_has_measured_floors() -> None:
    """Junk of every kind is told from digits with certainty, real digits are not, and the floor is junk's own."""
    real, other = pixels_of(digit_images(0)), pixels_of(digit_images(1))
    black = np.full_like(real, -1)
    bad = discriminator_score(black, real, reference=other)
    assert bad.ceiling is not None
    assert bad.floor is not None
    assert bad.ceiling < 0.5 * bad.floor
    assert bad.value > 0.9 * bad.floor, "black images must not look better than the worst of junk"
    assert all(word in bad.explanation for word in ("noise", "black", "upside down"))
    with pytest.raises(TooFewRows, match="300"):
        discriminator_score(real[:299], real)


def test_one_good_image_again_and_again_is_far_from_the_ceiling() -> None:
    """A collapsed generator lies among real images, but precision and density alone no longer get it praise."""
    test, other = digit_images(0), digit_images(1)
    one = np.repeat(pixels_of(other)[:1], 300, axis=0)
    found = {m.name: m for m in image_fidelity(one, pixels_of(test), None, reference=pixels_of(other))}
    assert "precision" not in found
    assert "density" not in found
    for name in ("precision and recall", "density and coverage", "recall", "coverage"):
        assert found[name].ceiling is not None
        assert found[name].value < 0.2 * (found[name].ceiling or 0), found[name]


def test_images_without_labels_are_evaluated(pool_release: Any) -> None:
    """A release without classes gets a Jensen-Shannon score and a Fréchet distance; given labels add the judge's."""
    unlabelled = replace(DIGITS, classes=None)
    release = pool_release(unlabelled, Images(digit_images(0).pixels))
    judged = evaluate(release, digit_images(1), reference=digit_images(2), rows=300)
    names = {measure.name for measure in judged.measures}
    assert {
        "Jensen-Shannon score",
        "inception score, 1 split",
        "Fréchet distance in classifier features",
    } <= names
    assert judged["inception score, 1 split"].value > 3
    assert not judged.of(Group.UTILITY)
    bare = evaluate(release, Images(digit_images(1).pixels[:200]), rows=200)
    names = {measure.name for measure in bare.measures}
    assert {"Fréchet distance in pixel components", "coverage"} <= names
    assert not any(name.startswith("inception") for name in names)
    assert bare.not_measured == (
        "Jensen-Shannon score: too few rows; it takes 300 real and synthetic images.",
    )
    assert any("No image has a label" in note for note in bare.notes)


def test_the_same_rows_for_test_and_reference_are_refused(pool_release: Any) -> None:
    """Also in another order, the training rows are no test rows; one row more or less makes other rows."""
    release = pool_release(TABLE, visits(50, 0))
    rows = visits(50, 1)
    with pytest.raises(EvaluationError, match="same records"):
        evaluate(release, rows, reference=rows.iloc[::-1])
    found = evaluate(
        release, rows, reference=visits(49, 1), learners=[Learner.LOGISTIC_REGRESSION], seeds=(0,)
    )
    assert found.measures


def test_too_few_rows_are_said_and_never_published(pool_release: Any) -> None:
    """With 40 rows no classifier tells real from synthetic: that is said instead of 0.5, in the internal part."""
    found = evaluate(
        pool_release(TABLE, visits(40, 0)),
        visits(40, 1),
        reference=visits(10, 2),
        learners=[Learner.LOGISTIC_REGRESSION],
        seeds=(0,),
    )
    assert "two-sample AuROC" not in {measure.name for measure in found.measures}
    assert [line.split(":")[0] for line in found.not_measured] == [
        "two-sample AuROC and propensity",
        "membership disclosure",
        "attribute disclosure",
    ]
    assert "100" in found.not_measured[0]
    assert found.public().not_measured == ()


@pytest.mark.parametrize("positives", [0, 1])
def test_a_rare_class_never_aborts(pool_release: Any, positives: int) -> None:
    """One positive among 60 test rows is missing from a third of all resamples; none at all leaves ranking out."""
    test = visits(60, 1)
    test["ill"] = ["1"] * positives + ["0"] * (60 - positives)
    found = evaluate(
        pool_release(TABLE, visits(200, 0)), test, learners=[Learner.LOGISTIC_REGRESSION], seeds=(0, 1)
    )
    names = [measure.name for measure in found.of(Group.UTILITY)]
    assert ("logistic regression: macro AuROC" in names) == bool(positives)
    assert ("logistic regression: average precision of rare class 1" in names) == bool(positives)
    assert any("one class" in line for line in found.not_measured) == (not positives)
    balanced = evaluate(
        pool_release(TABLE, visits(200, 0)),
        visits(200, 1),
        learners=[Learner.LOGISTIC_REGRESSION],
        seeds=(0,),
    )
    assert not any("rare" in measure.name for measure in balanced.measures)


def test_synthetic_share_follows_the_paper() -> None:
    """Zero in the first third, half of the final share half way through the second, final at the end."""
    assert [synthetic_share(step, 90, 0.2) for step in (0, 29, 45, 60, 89)] == pytest.approx(
        [0, 0, 0.1, 0.2, 0.2]
    )


def test_codes_of_a_release_go_with_its_images(image_release: Any, table_release: Any) -> None:
    """The same seed gives the same codes and images, the label is part of the code, and tables are refused."""
    draw = coded_images(image_release)
    codes, made = draw(6, 3)
    assert made.shape == (6, 1, 8, 8)
    assert codes.shape == (6, 102)
    assert codes[:, 100:].sum(axis=1).tolist() == [1.0] * 6
    assert np.array_equal(draw(6, 3)[1], made)
    with pytest.raises(EvaluationError, match="needs images"):
        coded_images(table_release)


def test_semi_supervised_task_runs_with_codes() -> None:
    """With few labels, synthetic images whose codes carry the class keep C1 well above chance."""
    images = digit_images(0)
    pixels = (images.pixels.transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32)
    labels = images.labels
    assert labels is not None

    def generator(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = np.random.default_rng(seed).integers(0, len(pixels), rows)
        return np.eye(10)[labels[chosen]], pixels[chosen]

    test = digit_images(1)
    held = Labelled((test.pixels.transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32), test.labels, 10)  # type: ignore[arg-type]
    found = semi_supervised(generator, Labelled(pixels[:60], labels[:60], 10), held, steps=120, batch=32)
    assert found.name == "semi-supervised accuracy, 60 labelled"
    assert found.ceiling is None
    assert found.floor is not None
    assert found.value > 0.6
    assert found.floor > 0.5
    with pytest.raises(EvaluationError, match="labelled images"):
        semi_supervised(generator, Labelled(pixels[:1], labels[:1], 10), held)


def test_few_labels_come_from_the_given_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of dp-gan's kind knows no labels; the semi-supervised task takes them from the reference rows."""
    monkeypatch.setattr(semisupervised, "semi_supervised", partial(semi_supervised, steps=6, batch=16))
    recipe = replace(RECIPES["dp-cgan"], conditional=False)
    release = fit(tiny_images(), tiny_plan(TINY_IMAGES, recipe=recipe))
    assert release.schema.label_classes is None
    found = evaluate(release, tiny_images(seed=1), reference=tiny_images(seed=2), few=(10,), rows=30)
    assert found["semi-supervised accuracy, 10 labelled"].floor is not None
    assert found["inception score, 1 split"].ceiling is not None
    assert any(line.startswith("Jensen-Shannon") for line in found.not_measured)


def test_few_labels_are_part_of_an_evaluation(image_release: Any) -> None:
    """`evaluate` runs the semi-supervised task between floor and ceiling, and says what it needs when it cannot."""
    kinds = {"learners": [Learner.LOGISTIC_REGRESSION], "seeds": (0,)}
    real, test = tiny_images(), tiny_images(seed=1)
    found = evaluate(image_release, test, reference=real, few=(10,), **kinds)  # type: ignore[arg-type]
    task = found["semi-supervised accuracy, 10 labelled"]
    assert task.floor is not None
    assert task.ceiling is not None
    assert task.ceiling >= task.floor
    assert task.internal
    with pytest.raises(EvaluationError, match="reference rows"):
        evaluate(image_release, test, few=(10,), **kinds)  # type: ignore[arg-type]
    with pytest.raises(EvaluationError, match="got 100000"):
        evaluate(image_release, test, reference=real, few=(100_000,), **kinds)  # type: ignore[arg-type]
