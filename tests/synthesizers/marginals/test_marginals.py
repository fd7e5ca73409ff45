"""Our own recipe on tables: every vector of counts is bounded, noised as charged, and the only way to the generator."""

from __future__ import annotations

import datetime as dt
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from understudy.charges import COLUMNS, LABEL_PAIRS, LABELS, PAIRS
from understudy.recipes import RECIPES, default_recipe, recipe_from_toml, recipe_to_toml
from understudy.recipes.parts import LatentClasses, NoisyMarginals, SharedLabelHistogram
from understudy.synthesizers.marginals.publishing import publish_marginals

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame
from understudy.door.noise import Noise, SeededNoise
from understudy.door.source import Rows
from understudy.errors import Interrupted, PlanError, RecipeError
from understudy.planning import Plan, plan
from understudy.records.encode import encode
from understudy.release.release import Release
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    Ordinal,
    Schema,
    TableSchema,
)
from understudy.synthesizers.marginals import publishing as table_publishing
from understudy.synthesizers.marginals import queries as counting
from understudy.synthesizers.marginals.cells import axes_of
from understudy.synthesizers.marginals.columns import BinnedColumn, binned
from understudy.synthesizers.marginals.fit import TableApprentice
from understudy.synthesizers.marginals.statistics import Marginals

EVERY_KIND = TableSchema(
    (
        Continuous("dose", -1.0, 3.0, missing=True),
        Integer("visits", 0, 9),
        Integer("income", 0, 100_000, missing=True),
        Categorical("town", ("north", "south", "west"), missing=True),
        Binary("smoker", ("no", "yes"), missing=True),
        Ordinal("grade", ("low", "middle", "high")),
        Datetime("seen", dt.datetime(2020, 1, 1), dt.datetime(2024, 1, 1)),
        Categorical("outcome", ("well", "ill", "gone")),
    ),
    label="outcome",
)
TABLES = RECIPES["understudy"].tables
assert TABLES is not None
RECIPE = replace(TABLES, generator=LatentClasses(5), steps=3)


@cache
def small_plan(schema: TableSchema = EVERY_KIND) -> Plan:
    return plan(schema, epsilon=2.0, delta=1e-3, rows=64, recipe=RECIPE)


def frame_of_every_kind(rows: int = 64, seed: int = 0) -> pd.DataFrame:
    """Rows that fit EVERY_KIND."""
    source = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(source.integers(0, 1400, rows), unit="D")
    frame = pd.DataFrame(
        {
            "dose": source.normal(0, 0.3, rows).round(3),
            "visits": source.integers(0, 10, rows),
            "income": source.lognormal(8, 1, rows).astype(int),
            "town": source.choice(["north", "south", "west"], rows),
            "smoker": source.choice(["no", "yes"], rows),
            "grade": source.choice(["low", "middle", "high"], rows),
            "seen": days,
            "outcome": source.choice(["well", "ill", "gone"], rows, p=[0.7, 0.2, 0.1]),
        }
    ).astype({"income": "Int64", "town": object, "smoker": object})
    for column in ("dose", "income", "town", "smoker"):
        frame.loc[source.random(rows) < 0.1, column] = None
    return frame


def rows_of(rows: int = 64, seed: int = 0) -> Rows:
    encoded = encode(frame_of_every_kind(rows, seed), EVERY_KIND)
    assert encoded.labels is not None
    return Rows(encoded.x, encoded.labels)


# --- sensitivity --------------------------------------------------------------------------------------------


def all_vectors(rows: Rows, columns: list[BinnedColumn], by_class: bool) -> list[list[torch.Tensor]]:
    """The three vectors of exact counts, for bins that were fixed before."""
    x, labels = np.asarray(rows.x), np.asarray(rows.labels)
    bins = [(column.outcome(x), column.bins) for column in columns]
    quiet = SeededNoise(0)
    return [
        counting.noisy_counts(counting.column_marginals(axes_of(EVERY_KIND), x), 0.0, quiet),
        counting.noisy_counts(counting.label_marginals(bins, labels, 3), 0.0, quiet),
        counting.noisy_counts(counting.pair_marginals(bins, labels if by_class else None, 3), 0.0, quiet),
    ]


@cache
def some_columns() -> list[BinnedColumn]:
    """Bins from counts without noise: for the sensitivity any fixed bins will do."""
    part = NoisyMarginals()
    counts = iter(
        counting.noisy_counts(
            counting.column_marginals(axes_of(EVERY_KIND), np.asarray(rows_of().x)), 0.0, SeededNoise(0)
        )
    )
    return [
        binned(axis, part, [next(counts).numpy() for _ in range(axis.depth)], 4, 0.0, 64.0)
        for axis in axes_of(EVERY_KIND)
    ]


class Listening(SeededNoise):
    """Notes the scale of the noise that is asked for."""

    def __init__(self) -> None:
        super().__init__(0)
        self.scales: list[float] = []

    def perturb(self, tensors: Iterable[torch.Tensor], scale: float, factor: float) -> None:
        self.scales.append(scale)


def noise_for_one(marginals: list[tuple[npt.NDArray[np.int64], int]]) -> float:
    """The standard deviation that goes with σ = 1."""
    heard = Listening()
    counting.noisy_counts(marginals, 1.0, heard)
    return heard.scales[0]


HOSTILE = st.lists(
    st.one_of(st.floats(width=32), st.sampled_from([-1.0, 0.0, 1.0, math.nan, math.inf, -math.inf, 1e30])),
    min_size=sum(axis.width for axis in axes_of(EVERY_KIND)),
    max_size=sum(axis.width for axis in axes_of(EVERY_KIND)),
)


def excess(record: list[float], label: int, by_class: bool) -> float:
    """By how much one more record moves a vector beyond the noise's idea of the sensitivity, at most."""
    before = rows_of()
    x = np.vstack([np.asarray(before.x), np.array([record], dtype=np.float32)])
    after = Rows(x, np.append(np.asarray(before.labels), label))
    found = []
    for one, two in zip(
        all_vectors(before, some_columns(), by_class),
        all_vectors(after, some_columns(), by_class),
        strict=True,
    ):
        moved = math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(one, two, strict=True)))
        marginals = [(np.zeros(1, dtype=np.int64), len(counts)) for counts in one]
        found.append(moved - noise_for_one(marginals))
    return max(found)


@settings(max_examples=30, deadline=None)
@given(record=HOSTILE, label=st.integers(0, 2), by_class=st.booleans())
def test_one_record_moves_every_vector_by_at_most_its_sensitivity(
    record: list[float], label: int, by_class: bool
) -> None:
    """Whatever a record holds, it adds at most one to each marginal, and the noise is scaled for all of them."""
    assert excess(record, label, by_class) <= 1e-9


def test_the_sensitivity_is_reached() -> None:
    """The bound is tight: an ordinary record adds one to every marginal but the deeper ones of missing values."""
    x = np.asarray(rows_of(1, seed=3).x)[0].tolist()
    assert excess(x, 0, by_class=True) > -1e-9


def test_noise_for_one_marginal_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'k marginals with sensitivity 1' breaks the bound."""
    monkeypatch.setattr(counting.math, "sqrt", lambda _k: 1.0, raising=True)
    heard = Listening()
    counting.noisy_counts([(np.zeros(1, dtype=np.int64), 2)] * 9, 1.0, heard)
    monkeypatch.undo()
    assert heard.scales[0] < math.sqrt(9)


def passes(normal: torch.Tensor) -> bool:
    """Whether numbers have the variance of standard normal ones, at a risk of one in a thousand."""
    degrees, found = normal.numel(), float(normal.double().square().sum())
    return bool(stats.chi2.ppf(0.0005, degrees) < found < stats.chi2.ppf(0.9995, degrees))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_noise_of_every_vector_is_what_was_charged(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `publish_marginals` draws carries σ·√k of its charge; half as much again or a third less would be seen."""
    made, drawn = small_plan(), []

    def spied(marginals: Iterable[counting.Marginal], sigma: float, noise: Noise) -> list[torch.Tensor]:
        held = list(marginals)
        noisy = counting.noisy_counts(held, sigma, noise)
        exact = counting.noisy_counts(held, 0.0, SeededNoise(0))
        drawn.append(torch.cat(noisy) - torch.cat(exact))
        counts.append(len(held))
        return noisy

    counts: list[int] = []
    monkeypatch.setattr(table_publishing, "noisy_counts", spied)
    publish_marginals(made, EVERY_KIND, rows_of(), (0.5, 0.3, 0.2), 64.0, SeededNoise(9))
    release = made.gaussian((COLUMNS, LABEL_PAIRS, PAIRS)[which])
    assert release is not None
    normal = drawn[which] / (release.noise_multiplier * math.sqrt(counts[which]))
    assert passes(normal)
    assert not passes(normal * 1.5)
    assert not passes(normal / 1.5)


# --- nothing but noisy counts gets out ----------------------------------------------------------------------


def blind_counts(marginals: Iterable[counting.Marginal], sigma: float, noise: Noise) -> list[torch.Tensor]:
    """Counts of the right shape that know nothing of the rows."""
    del sigma, noise
    return [torch.arange(size, dtype=torch.float64) % 7 + 5 for _, size in marginals]


def published(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> Marginals:
    """What is published if the noisy counts are the same for all rows."""
    monkeypatch.setattr(table_publishing, "noisy_counts", blind_counts)
    return table_publishing.publish_marginals(
        small_plan(), EVERY_KIND, rows, (0.5, 0.3, 0.2), 64.0, SeededNoise(1)
    )


def same(one: Marginals, two: Marginals) -> bool:
    return all(torch.equal(value, two.named()[name]) for name, value in one.named().items())


def test_bins_and_targets_follow_from_noisy_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two quite different tables with the same noisy counts publish the same numbers, bins included."""
    assert same(published(rows_of(), monkeypatch), published(rows_of(31, seed=8), monkeypatch))


def test_exact_bins_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'bins from the rows themselves' makes the published numbers differ."""
    original = table_publishing._publish_columns

    def exact(plan: Plan, *rest: object) -> object:
        monkeypatch.setattr(table_publishing, "noisy_counts", counting.noisy_counts)
        made = original(replace(plan, budget=None), *rest)  # type: ignore[arg-type]
        monkeypatch.setattr(table_publishing, "noisy_counts", blind_counts)
        return made

    monkeypatch.setattr(table_publishing, "_publish_columns", exact)
    assert not same(published(rows_of(), monkeypatch), published(rows_of(31, seed=8), monkeypatch))


def test_exact_row_counts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'divide by the number of rows' makes the published numbers differ."""
    original: Callable[..., Marginals] = table_publishing.publish_marginals

    def exact(
        plan: Plan, schema: Schema, rows: Rows, weights: tuple[float, ...], _count: float, noise: Noise
    ) -> Marginals:
        return original(plan, schema, rows, weights, float(len(rows)), noise)

    monkeypatch.setattr(table_publishing, "publish_marginals", exact)
    assert not same(published(rows_of(), monkeypatch), published(rows_of(31, seed=8), monkeypatch))


def test_what_the_plan_does_not_charge_is_not_drawn() -> None:
    """A private plan without one of the charges refuses to publish it."""
    made = small_plan()
    for purpose in (COLUMNS, LABEL_PAIRS, PAIRS):
        bare = replace(made, charges=tuple(one for one in made.charges if one.purpose != purpose))
        with pytest.raises(PlanError, match=f"does not charge the {purpose}"):
            publish_marginals(bare, EVERY_KIND, rows_of(), (0.5, 0.3, 0.2), 64.0, SeededNoise(1))


def test_the_generator_is_trained_from_published_numbers_alone() -> None:
    """No argument of the free training can hold rows."""
    assert list(inspect.signature(TableApprentice.__init__).parameters) == [
        "self",
        "recipe",
        "schema",
        "statistics",
        "seed",
    ]
    assert list(inspect.signature(TableApprentice.advance).parameters) == ["self"]


# --- the plan -----------------------------------------------------------------------------------------------


def test_the_charges_fit_the_schema() -> None:
    """With a label four charges, without one two, with a single column one; and they cost the whole budget."""
    labelled = plan(TINY_TABLE, epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in labelled.charges] == [LABELS, COLUMNS, LABEL_PAIRS, PAIRS]
    assert labelled.spent is not None
    assert 0.99 < labelled.spent.epsilon <= 1.0
    plain = plan(replace(TINY_TABLE, label=None), epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in plain.charges] == [COLUMNS, PAIRS]
    single = plan(TableSchema((Binary("a"),)), epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in single.charges] == [COLUMNS]


@pytest.mark.parametrize(
    ("schema", "name", "text"),
    [
        (TINY_TABLE, "understudy", None),
        (replace(TINY_TABLE, label=None), "understudy", None),
        (ImageSchema(28, 28, 1, classes=("a", "b")), "understudy", None),
        (None, "understudy", None),
        (ImageSchema(28, 28, 1), "small-images", "needs labelled images"),
        (ImageSchema(4, 28, 1, classes=("a", "b")), "dp-cgan", "at least 8×8"),
        (CodeSchema(("a", "b")), "understudy", None),
        (CodeSchema(("a", "b"), label=Binary("c")), "understudy", None),
    ],
)
def test_the_default_recipe_serves_the_data_or_says_why_not(
    schema: Schema | None, name: str, text: str | None
) -> None:
    """Without a name our own recipe is taken where it serves, else one of the papers', with a reason."""
    default = default_recipe(schema)
    assert default.recipe.name == name
    assert (default.why is None) == (text is None)
    assert text is None or text in str(default.why)
    made = plan(schema, epsilon=4.0, rows=10_000)
    assert made.recipe.name == name
    assert made.recipe.tables is None


def test_a_part_for_other_data_is_refused_by_name() -> None:
    """Who passes the part for tables with codes, or noise to a recipe without a critic, is told what to take."""
    with pytest.raises(
        PlanError, match=r"is for tables here, not for codes\. Use the recipe understudy as it comes"
    ):
        plan(CodeSchema(("a", "b")), epsilon=1.0, rows=1000, recipe=TABLES)
    with pytest.raises(PlanError, match="--recipe dp-cgan"):
        plan(TINY_TABLE, epsilon=1.0, rows=1000, noise_multiplier=1.0)


def test_both_parts_are_one_recipe_file() -> None:
    """The TOML of the recipe holds the part for tables, and comes back equal."""
    recipe = RECIPES["understudy"]
    assert recipe_from_toml(recipe_to_toml(recipe)) == recipe
    assert "[tables.statistic]" in recipe_to_toml(recipe)


def test_contradictions_are_refused() -> None:
    """Parts that would be silently ignored, and numbers that mean nothing, are errors."""
    own = RECIPES["understudy"]
    with pytest.raises(RecipeError, match="need a mean embedding"):
        replace(own, statistic=NoisyMarginals())
    with pytest.raises(RecipeError, match="kind 'marginals'"):
        replace(own, tables=RECIPES["dp-cgan"])
    with pytest.raises(RecipeError, match="needs a private statistic"):
        replace(RECIPES["dp-cgan"], labels=SharedLabelHistogram())
    for wrong in ({"bins": 1}, {"support": 0.0}, {"columns": 1}, {"pair_share": 2.0}):
        with pytest.raises(RecipeError):
            NoisyMarginals(**wrong)  # type: ignore[arg-type]


# --- the release --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release() -> Release:
    """A private release of a table with columns of every kind."""
    return fit(frame_of_every_kind(), small_plan())


def test_a_release_saves_loads_and_makes_valid_records(release: Release, tmp_path: Path) -> None:
    """The same seed gives the same records, and every one of them can be encoded again without a complaint."""
    again = Release.load(release.save(tmp_path / "release"))
    drawn = release.sample(300, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    pd.testing.assert_frame_equal(drawn, again.sample(300, seed=1))  # type: ignore[arg-type]
    encoded = encode(drawn, EVERY_KIND)
    assert encoded.clipped == 0
    assert encoded.unknown == 0
    text = (tmp_path / "release" / "README.md").read_text(encoding="utf-8")
    for purpose in (LABELS, COLUMNS, LABEL_PAIRS, PAIRS):
        assert f"| {purpose} |" in text


def test_missing_values_stay_as_frequent_as_they_were() -> None:
    """What is missing in a tenth of the rows is missing in about a tenth of the records, in every kind of column."""
    made = plan(EVERY_KIND, epsilon=None, rows=2000, recipe=replace(RECIPE, steps=60))
    drawn = fit(frame_of_every_kind(2000), made, insecure_seed=1).sample(2000, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    for column in ("dose", "income", "town", "smoker"):
        assert 0.06 < drawn[column].isna().mean() < 0.14
    assert drawn["income"].median() == pytest.approx(frame_of_every_kind(2000)["income"].median(), rel=0.2)


def test_chosen_classes_are_what_the_sample_says(release: Release) -> None:
    """A chosen label or chosen counts come out exactly."""
    assert set(release.sample(9, label="ill", seed=1)["outcome"]) == {"ill"}  # type: ignore[index]
    counted = release.sample(0, counts={"well": 3, "gone": 5}, seed=1)
    assert counted["outcome"].value_counts().to_dict() == {"gone": 5, "well": 3}  # type: ignore[index]


def test_a_run_that_was_stopped_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    """Interrupted and resumed, the seeded run gives the same weights bit by bit, and publishes nothing twice."""
    whole = fit(frame_of_every_kind(), small_plan(), insecure_seed=5)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted, match="after 1 of 3"):
        fit(
            frame_of_every_kind(),
            small_plan(),
            insecure_seed=5,
            checkpoints=Checkpoints(path),
            stop=lambda: True,
        )
    other = frame_of_every_kind(seed=99)  # a resumed run must not look at them again
    resumed = fit(other, small_plan(), insecure_seed=5, checkpoints=Checkpoints(path, resume=True))
    assert all(torch.equal(value, resumed.weights[name]) for name, value in whole.weights.items())


@pytest.mark.parametrize(
    "schema",
    [
        replace(TINY_TABLE, label=None),
        TableSchema((TINY_TABLE.columns[0],)),
        TableSchema(TINY_TABLE.columns[2:], label="outcome"),
        TableSchema((TINY_TABLE.columns[3], TINY_TABLE.columns[4]), label="outcome"),
    ],
)
def test_tables_without_label_numbers_or_pairs_train_too(schema: TableSchema, tmp_path: Path) -> None:
    """What a table does not have is neither charged nor missed; private row counts and baselines included."""
    for options in ({"rows": None}, {"rows": 64, "epsilon": None}):
        settings: dict[str, object] = {"epsilon": 2.0, "delta": 1e-3, "recipe": RECIPE, **options}
        made = fit(tiny_frame(), plan(schema, **settings))  # type: ignore[arg-type]
        again = Release.load(made.save(tmp_path / f"release-{options['rows']}"))
        assert len(again.sample(20)) == 20
        assert made.card.private == ("epsilon" not in options)


def related(rows: int, seed: int, *, shuffled: bool = False) -> pd.DataFrame:
    """A skewed number decides the outcome, and a second one follows the first."""
    source = np.random.default_rng(seed)
    first = source.lognormal(-3.5, 0.8, rows).clip(0, 2)
    frame = pd.DataFrame(
        {
            "first": first,
            "second": (first * 3 + source.normal(0, 0.03, rows)).clip(-1, 6),
            "outcome": np.where(first > 0.05, "ill", "well"),
        }
    )
    if shuffled:
        frame["outcome"] = source.permutation(frame["outcome"])
    return frame


RELATED = TableSchema(
    (Continuous("first", 0, 2), Continuous("second", -1, 6), Categorical("outcome", ("well", "ill"))),
    label="outcome",
)


def learned(*, shuffled: bool) -> tuple[float, float]:
    """Accuracy of the rule that made the data on synthetic rows, and the rank correlation of the two numbers."""
    made = plan(RELATED, epsilon=2.0, rows=3000, recipe="understudy", steps=80)
    drawn = fit(related(3000, 1, shuffled=shuffled), made, insecure_seed=3).sample(3000, seed=2)
    assert isinstance(drawn, pd.DataFrame)
    right = ((drawn["first"] > 0.05) == (drawn["outcome"] == "ill")).mean()
    return float(right), float(stats.spearmanr(drawn["first"], drawn["second"]).statistic)


def test_synthetic_rows_keep_what_the_real_ones_show() -> None:
    """The rule and the correlation survive at ε = 2; a table whose labels mean nothing shows that this can fail."""
    accuracy, correlation = learned(shuffled=False)
    assert accuracy > 0.85
    assert correlation > 0.5
    assert learned(shuffled=True)[0] < 0.65


@pytest.mark.parametrize("schema", [TINY_TABLE, TINY_IMAGES])
def test_the_recipe_of_a_plan_can_be_written_down(schema: Schema) -> None:
    """A report prints the recipe that was planned, so it must be sayable in TOML and come back equal."""
    made = plan(schema, epsilon=4.0, rows=10_000).recipe
    assert recipe_from_toml(recipe_to_toml(made)) == made
