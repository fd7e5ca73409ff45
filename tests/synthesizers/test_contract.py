"""The contract of synthesizers: every recipe keeps it on every kind of data, and no planted bug does."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from tiny import TINY_IMAGES, TINY_TABLE, stop_after, tiny_frame, tiny_images
from understudy.auditing.listening import Draw, Ear, listening
from understudy.door.noise import SeededNoise
from understudy.door.query import Batch
from understudy.dpsgd.clipping import SeparateClip
from understudy.errors import ContractError, Interrupted, RecipeError
from understudy.planning import plan
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit, rehearse
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import Binary, Categorical, CodeSchema, Continuous, ImageSchema, Schema, TableSchema
from understudy.synthesizers.codes.queries import LengthCounts
from understudy.synthesizers.codes.recipe import UNDERSTUDY_CODES
from understudy.synthesizers.contract import check_synthesizer
from understudy.synthesizers.embedding import queries as image_queries
from understudy.synthesizers.embedding.recipe import (
    UNDERSTUDY_IMAGES,
    FeatureCritic,
    MeanEmbedding,
    UpsamplingGenerator,
)
from understudy.synthesizers.gan.parts import ConvCritic, PublicWarmStart
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.marginals import fit as marginals_fit
from understudy.synthesizers.marginals.asking import Questions
from understudy.synthesizers.marginals.model import TableModel
from understudy.synthesizers.marginals.queries import CellCounts
from understudy.synthesizers.marginals.recipe import PAIRS, UNDERSTUDY_TABLES, MarginalsRecipe
from understudy.synthesizers.protocol import Asked, Drawn, Recipe, Request, Share
from understudy.synthesizers.registry import RECIPES
from understudy.synthesizers.shared import free_fitter
from understudy.synthesizers.shared.optimisers import Stepper

CODES = tuple(f"c{number}" for number in range(9))
SCHEMAS: dict[str, Schema] = {
    "table": TINY_TABLE,
    "unlabelled": replace(TINY_TABLE, label=None),
    "one-column": TableSchema((TINY_TABLE.columns[0],)),
    "missing": TableSchema(
        (
            Continuous("dose", -1.0, 3.0, missing=True),
            Categorical("town", ("north", "south", "west"), missing=True),
            Binary("smoker", ("no", "yes"), missing=True),
            Categorical("outcome", ("well", "ill", "gone")),
        ),
        label="outcome",
    ),
    "declared": replace(TINY_TABLE, label_weights=(0.75, 0.25)),
    "images": TINY_IMAGES,
    "plain-images": ImageSchema(8, 8, 1),
    "codes": CodeSchema(CODES),
    "counted": CodeSchema(CODES, max_count=4, label=Binary("dead", ("no", "yes"))),
    "one-code": CodeSchema(("a",)),
}
OWN: dict[str, Recipe] = {
    "tables": replace(UNDERSTUDY_TABLES, components=8),
    "wide-tables": replace(UNDERSTUDY_TABLES, components=8, columns=2),
    "codes": replace(UNDERSTUDY_CODES, components=5, quiet=1e9),
    "few-codes": replace(UNDERSTUDY_CODES, components=5),
    "images": replace(
        UNDERSTUDY_IMAGES,
        embedding=MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7),
        generator=UpsamplingGenerator(hidden=(8,), channels=2),
        batch=8,
    ),
}
_CRITIC = FeatureCritic(pixel_frequencies=5, wavelet_frequencies=7, steps=2, fakes=4)
OWN["refined-images"] = replace(OWN["images"], critic=_CRITIC)  # type: ignore[type-var]
OWN["adversarial-images"] = replace(OWN["refined-images"], embedding=None)  # type: ignore[type-var]
ONE_OF_EACH_STEP = ("dp-cgan", "dp-cgan-basic", "dp-cgan-tf2-m1", "dp-cgan-tf2-split", "dp-gan", "ppgan")
"""GANs whose private steps differ in kind: clipping, pairs, microbatches, two updates, public bounds, a clamp."""


def small(recipe: Recipe) -> Recipe:
    """A GAN with few channels or units and a short warm start."""
    assert isinstance(recipe, GanRecipe)
    few = 2 if isinstance(recipe.critic, ConvCritic) else 8
    parts = {"critic": recipe.critic, "generator": recipe.generator}
    changes: dict[str, Any] = {name: part.with_capacity(few) for name, part in parts.items()}
    if recipe.warm_start is not None:
        changes["warm_start"] = PublicWarmStart(steps=2, batch=2)
    return replace(recipe, **changes)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("recipe", OWN)
def test_our_own_recipes_keep_the_contract(recipe: str, schema: str) -> None:
    """Bounds, charges, secrecy, checkpoints and releases, or a refusal in a sentence, on every kind of data."""
    check_synthesizer(OWN[recipe], SCHEMAS[schema], rows=20)


def test_a_table_with_columns_that_are_compared_with_no_other_keeps_the_contract() -> None:
    """Chosen pairs leave columns out of the mixture; checkpoints and releases hold them all the same."""
    flags = tuple(Binary(f"flag{i}") for i in range(6))
    schema = TableSchema(
        (*flags, Continuous("dose", -1.0, 3.0), Categorical("outcome", ("well", "ill"))), "outcome"
    )
    check_synthesizer(replace(OWN["wide-tables"], columns=3), schema, rows=20)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "name",
    [
        name if name in ONE_OF_EACH_STEP else pytest.param(name, marks=pytest.mark.slow)
        for name, recipe in RECIPES.items()
        if isinstance(recipe, GanRecipe)
    ],
)
def test_the_papers_recipes_keep_the_contract(name: str) -> None:
    """So do the papers' GANs, on images."""
    check_synthesizer(small(RECIPES[name]), TINY_IMAGES, rows=20)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("dp-cgan", "table"),
        ("dp-cgan", "declared"),
        ("dp-cgan", "counted"),
        ("ppgan", "codes"),
        ("dp-gan", "table"),
    ],
)
def test_gans_of_tables_and_codes_keep_the_contract(name: str, schema: str) -> None:
    """Dense networks take tables and codes; convolutional ones refuse them in a sentence."""
    check_synthesizer(small(RECIPES[name]), SCHEMAS[schema], rows=20)


def test_an_audit_is_part_of_it_if_asked_for() -> None:
    """The audit of a plan passes for a sound recipe."""
    check_synthesizer(OWN["tables"], TINY_TABLE, audited=True)


# --- planted bugs -------------------------------------------------------------------------------------------


def broken(recipe: Recipe, schema: Schema, **options: Any) -> str:
    """The sentences in which a planted bug is told."""
    with pytest.raises(ContractError) as told:
        check_synthesizer(recipe, schema, rows=20, **options)
    return str(told.value)


@dataclass(frozen=True, kw_only=True)
class Planted(MarginalsRecipe):
    """Our recipe of tables under another name, for planting bugs into."""

    kind: ClassVar[str] = "planted"
    name: str = "planted"
    summary: str = "a bug"
    source: str = "here"
    components: int = 6


def test_a_sensitivity_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """k marginals with sensitivity √(k − 1) let a record move the counts further than the noise covers."""
    monkeypatch.setattr(
        CellCounts, "sensitivity", property(lambda self: max(1.0, math.sqrt(len(self._sizes) - 1)))
    )
    told = broken(OWN["tables"], TINY_TABLE, audited=True)
    assert "- bounds: column counts: one record moves the sums" in told
    assert "- audit: " in told


def test_a_clipping_bound_that_is_not_kept_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A critic's gradients that are noised for half of their bound."""
    monkeypatch.setattr(SeparateClip, "sensitivity", lambda self, _: self.real_bound / 2)
    assert "- bounds: training: one record moves" in broken(small(RECIPES["dp-cgan"]), TINY_TABLE)


def test_what_is_not_a_number_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of values that are no numbers must not make the sum one that is none."""
    monkeypatch.setattr(image_queries, "_of_norm_one", lambda f: f / f.norm(dim=1, keepdim=True) / 1.0001)
    assert "- bounds: mean embedding: one record moves the sums by nan" in broken(OWN["images"], TINY_IMAGES)


def test_sums_that_depend_on_how_batches_are_cut_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of the batch is no sum over records."""

    def add(self: LengthCounts, sums: list[torch.Tensor], batch: Batch) -> None:
        sums[0][0, 0] += float((batch.x > 0).sum()) / max(len(batch), 1) / batch.x.shape[1]

    monkeypatch.setattr(LengthCounts, "add", add)
    assert "- bounds: codes per record: in batches of 1 the sums differ" in broken(
        OWN["codes"], SCHEMAS["codes"]
    )


def test_an_error_about_a_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that fails on some record tells that it is there."""
    add = CellCounts.add

    def checked(self: CellCounts, sums: list[torch.Tensor], batch: Batch) -> None:
        if not batch.x.isfinite().all():
            raise ValueError("not finite")
        add(self, sums, batch)

    monkeypatch.setattr(CellCounts, "add", checked)
    assert "a record makes it fail with ValueError: not finite" in broken(OWN["tables"], TINY_TABLE)


def test_an_exact_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dividing by the number of records, instead of the published one, shows in every checkpoint."""
    honest = marginals_fit.row_count

    def exact(door: Any) -> float:
        honest(door)
        return float(len(door._records))

    monkeypatch.setattr(marginals_fit, "row_count", exact)
    assert "- leaks: a row left out shows in " in broken(OWN["tables"], TINY_TABLE)


def test_bins_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door whose noise was switched off for one question."""
    honest = Questions._columns

    def exact(self: Questions, answers: Any) -> Any:
        quiet = copy.copy(answers)
        quiet._door = copy.copy(answers._door)
        quiet._door.private = False
        return honest(self, quiet)

    monkeypatch.setattr(Questions, "_columns", exact)
    told = broken(OWN["tables"], TINY_TABLE)
    assert "- bounds: column counts: it was drawn with noise of 0, and" in told


@dataclass(frozen=True, kw_only=True)
class Secretive(Planted):
    """Does not say that it asks for pairs."""

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        return tuple(one for one in super().releases(schema, rows) if one.purpose != PAIRS)


@dataclass(frozen=True, kw_only=True)
class Wasteful(Planted):
    """Declares more than it asks for."""

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        return (*super().releases(schema, rows), Share("moments", 0.1, 3))


@dataclass(frozen=True, kw_only=True)
class Disordered(Planted):
    """Asks in another order than it says."""

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        return tuple(reversed(super().releases(schema, rows)))


@dataclass(frozen=True, kw_only=True)
class Curt(Planted):
    """Refuses without a reason."""

    def refuses(self, schema: Schema) -> str | None:
        return "no"


@dataclass(frozen=True, kw_only=True)
class Deaf(Planted):
    """Has a field without effect."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bins", 40)


@dataclass(frozen=True, kw_only=True)
class Misshapen(Planted):
    """Its model has other shapes than what it releases."""

    def model(self, schema: Schema) -> TableModel:
        return TableModel(super().model(schema).columns, classes=5)


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (
            Secretive(),
            "- asks: it asks for more than it declares, or does not declare it: the plan does not charge",
        ),
        (
            Wasteful(),
            "- asks: it declares label histogram × 1, column counts × 1, piles × 1, label pairs × 1, ",
        ),
        (Disordered(), "- asks: it declares triples × 1, scores of triples × 1, column pairs × 1, "),
        (Curt(), "- refuses: the reason must be a sentence, got 'no'"),
        (Deaf(), "- prints: another bins does not show in the TOML"),
        (
            Misshapen(),
            "- releases: what is released does not fit the model: class_counts has shape (2,), not (5,)",
        ),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Planted) else "",
)
def test_a_recipe_that_does_not_say_what_it_does_is_caught(recipe: Planted, sentence: str) -> None:
    """Declarations, refusals, fields and shapes that are not true, each in its own sentence."""
    assert sentence in broken(recipe, TINY_TABLE)


def test_a_recipe_that_is_sound_under_another_name_passes() -> None:
    """The planted bugs fail by their bugs, and not by being a third party's."""
    check_synthesizer(Planted(), TINY_TABLE, rows=20)


def test_a_kind_that_another_class_has_is_refused() -> None:
    """Releases of the two could not be told apart."""

    @dataclass(frozen=True, kw_only=True)
    class Impostor(Planted):
        kind: ClassVar[str] = "marginals"

    with pytest.raises(ContractError, match="which MarginalsRecipe has already"):
        check_synthesizer(Impostor(), TINY_TABLE)


@pytest.mark.parametrize(
    ("owner", "method"),
    [(Stepper, "restore"), (free_fitter.MovingAverage, "restore")],
    ids=("rates", "average"),
)
def test_a_state_that_is_not_restored_is_caught(
    owner: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run that forgets its optimiser or its average goes on elsewhere."""
    monkeypatch.setattr(owner, method, lambda *_: None)
    averaged = replace(OWN["codes"], averaging=0.9)  # type: ignore[type-var]
    assert "- resumes: after a checkpoint " in broken(averaged, SCHEMAS["codes"])


def test_classes_that_were_not_asked_for_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that turns labels round."""
    honest = TableModel.draw

    def turned(self: TableModel, request: Request, source: np.random.Generator) -> Drawn:
        made = honest(self, request, source)
        return Drawn(made.x, None if made.labels is None else 1 - made.labels)

    monkeypatch.setattr(TableModel, "draw", turned)
    assert "- samples: records of the class 'well' were asked for, and others were made" in broken(
        OWN["tables"], TINY_TABLE
    )


# --- the noise, and whole runs ------------------------------------------------------------------------------


def passes(normal: np.ndarray) -> bool:
    """Whether numbers have the variance of standard normal ones, at a risk of one in a million."""
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], normal.size)
    return bool(low < np.square(normal).sum() < high)


@pytest.mark.parametrize(
    ("recipe", "schema"), [("tables", "table"), ("codes", "counted"), ("images", "images")]
)
def test_every_release_carries_the_noise_that_was_charged(recipe: str, schema: str) -> None:
    """All that a run publishes has noise of σ times the sensitivity; half as much again or a third less is seen."""
    draws: list[Draw] = []
    made = plan(SCHEMAS[schema], epsilon=2.0, delta=1e-3, rows=40, recipe=OWN[recipe])
    for seed in range(4):
        ear = Ear()
        rows = stand_in_rows(SCHEMAS[schema], 40, 0)
        list(rehearse(made, rows, noise=SeededNoise(seed), door=listening(ear)))
        draws += ear.draws
    assert {draw.purpose for draw in draws} == {charge.purpose for charge in made.charges}
    normal = np.concatenate([draw.noise for draw in draws])
    assert passes(normal)
    assert not passes(normal * 1.5)
    assert not passes(normal / 1.5)


def coded(rows: int = 64, seed: int = 0) -> pd.DataFrame:
    """Records that fit the counted codes."""
    source = np.random.default_rng(seed)
    frame = pd.DataFrame(source.integers(0, 5, (rows, len(CODES))), columns=list(CODES))
    return frame.assign(dead=source.choice(["no", "yes"], rows))


@pytest.mark.parametrize(
    ("recipe", "schema", "data"),
    [("tables", "table", tiny_frame), ("codes", "counted", coded), ("images", "images", tiny_images)],
)
def test_a_run_that_was_stopped_ends_where_it_would_have_ended(
    recipe: str, schema: str, data: Callable[..., Any], tmp_path: Path
) -> None:
    """Interrupted and resumed, the seeded run gives the same weights bit by bit, and publishes nothing twice."""
    made = plan(SCHEMAS[schema], epsilon=2.0, delta=1e-3, rows=64, recipe=OWN[recipe], steps=3)
    whole = fit(data(), made, insecure_seed=5)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted, match="after 1 of 3"):
        fit(data(), made, insecure_seed=5, checkpoints=Checkpoints(path), stop=stop_after(1))
    # What was published before is not asked again; a table asks for triples of the same rows later.
    other = data() if recipe == "tables" else data(seed=99)
    resumed = fit(other, made, insecure_seed=5, checkpoints=Checkpoints(path, resume=True))
    assert all(np.array_equal(value, resumed.weights[name]) for name, value in whole.weights.items())
    assert resumed.card.label_weights == whole.card.label_weights
    text = (resumed.save(tmp_path / "release") / "README.md").read_text(encoding="utf-8")
    for charge in made.charges:
        assert f"| {charge.purpose} |" in text


def test_the_package_offers_what_the_contract_promises() -> None:
    """The public address knows its one name, and no other."""
    import understudy.synthesizers.contract as address

    assert address.check_synthesizer is check_synthesizer
    with pytest.raises(AttributeError, match="check_everything"):
        _ = address.check_everything
    with pytest.raises(RecipeError):
        replace(UNDERSTUDY_TABLES, bins=0)
