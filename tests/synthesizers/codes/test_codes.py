"""Our own recipe on codes: every sum is bounded by a record's own codes, noised as charged, and the only way out."""

from __future__ import annotations

import inspect
import math
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
from understudy.charges import CODE_COUNTS, CODE_PAIRS, LABELS, LENGTHS, REPEATS
from understudy.recipes import RECIPES, recipe_from_toml, recipe_to_toml
from understudy.recipes.parts import LatentClasses, NoisyCodeCounts
from understudy.synthesizers.codes.publishing import publish_codes

from understudy.door.noise import Noise, SeededNoise
from understudy.door.source import Rows
from understudy.errors import Interrupted, PlanError, RecipeError
from understudy.planning import Plan, plan
from understudy.records.encode import encode
from understudy.release.release import Release
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.schema import Binary, CodeSchema
from understudy.synthesizers.codes import publishing as code_publishing
from understudy.synthesizers.codes.fit import CodeApprentice
from understudy.synthesizers.codes.queries import (
    Bounded,
    code_counts,
    length_counts,
    noisy,
    pair_counts,
    present_codes,
    repeat_sums,
    shortened,
)
from understudy.synthesizers.codes.repeats import chance_of_repeats, draw_repeats
from understudy.synthesizers.codes.statistics import CodeStatistics, known_lengths
from understudy.synthesizers.codes.without_replacement import arrivals, first_arrivals

CODES = tuple(f"c{number}" for number in range(12))
SCHEMA = CodeSchema(CODES, max_count=4, label=Binary("dead", ("no", "yes")))
PART = RECIPES["understudy"].codes
assert PART is not None
RECIPE = replace(PART, generator=LatentClasses(5), steps=3)


@cache
def small_plan() -> Plan:
    return plan(SCHEMA, epsilon=2.0, delta=1e-3, rows=64, recipe=RECIPE)


def frame_of_codes(rows: int = 64, seed: int = 0) -> pd.DataFrame:
    """Counted codes of people, some far more frequent than others, and a label."""
    source = np.random.default_rng(seed)
    counts = source.poisson(np.geomspace(0.8, 0.05, len(CODES)), (rows, len(CODES))).clip(0, 4)
    frame = pd.DataFrame(counts, columns=list(CODES))
    frame["dead"] = source.choice(["no", "yes"], rows, p=[0.7, 0.3])
    return frame


def rows_of(rows: int = 64, seed: int = 0) -> Rows:
    encoded = encode(frame_of_codes(rows, seed), SCHEMA)
    assert encoded.labels is not None
    return Rows(encoded.x, encoded.labels)


# --- sensitivity --------------------------------------------------------------------------------------------

KEPT = 3


def exact_sums(x: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> list[Bounded]:
    """All four sums as they are before noise, for records shortened to three codes."""
    whole = present_codes(x)
    cut = shortened(whole, KEPT)
    return [
        length_counts(whole, labels, 2, 8),
        code_counts(cut, labels, 2, KEPT),
        pair_counts(cut, np.arange(8), KEPT),
        repeat_sums(x, cut, 4, 1.5),
    ]


def moves(record: list[float], label: int) -> list[tuple[float, float]]:
    """By how much one more record moves each sum, and by how much it may."""
    before = rows_of()
    x, labels = np.asarray(before.x), np.asarray(before.labels)
    more = np.vstack([x, np.array([record], dtype=np.float32)])
    return [
        (float((after.sums - one.sums).norm()), one.sensitivity)
        for one, after in zip(exact_sums(x, labels), exact_sums(more, np.append(labels, label)), strict=True)
    ]


HOSTILE = st.lists(
    st.one_of(st.floats(width=32), st.sampled_from([0.0, 0.25, 1.0, math.nan, math.inf, -math.inf, 1e30])),
    min_size=len(CODES),
    max_size=len(CODES),
)


@settings(max_examples=60, deadline=None)
@given(record=HOSTILE, label=st.integers(0, 1))
def test_one_record_moves_every_sum_by_at_most_its_sensitivity(record: list[float], label: int) -> None:
    """Whatever a record holds, and however many codes it has, each sum moves by no more than the noise assumes."""
    for moved, allowed in moves(record, label):
        assert moved <= allowed + 1e-9


def test_the_sensitivities_are_reached() -> None:
    """The bounds are tight: a record of three frequent codes, each four times, reaches all of them."""
    record = [1.0] * KEPT + [0.0] * (len(CODES) - KEPT)
    for moved, allowed in moves(record, 0):
        assert moved == pytest.approx(allowed)


def test_records_that_are_not_shortened_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'every code of a long record counts' breaks the bounds of codes and pairs."""
    monkeypatch.setitem(globals(), "shortened", lambda present, _kept: present)
    lengths, codes, pairs, _ = moves([1.0] * len(CODES), 1)
    assert lengths[0] <= lengths[1]
    assert codes[0] > codes[1]
    assert pairs[0] > pairs[1]


def test_what_others_keep_does_not_depend_on_who_is_there() -> None:
    """A long record keeps the same codes whichever records stand around it, so a sum differs by one record only."""
    source = np.random.default_rng(3)
    present = source.random((40, 30)) < 0.5
    alone = np.vstack([shortened(one[None], KEPT) for one in present])
    assert np.array_equal(shortened(present, KEPT), alone)
    assert np.array_equal(alone & present, alone)
    assert (alone.sum(axis=1) == np.minimum(present.sum(axis=1), KEPT)).all()


def test_shortening_prefers_no_code() -> None:
    """Over many long records every code is kept about equally often; the first three of each would be seen."""
    source = np.random.default_rng(4)
    present = source.random((20_000, 30)) < 0.5
    kept = shortened(present, KEPT).sum(axis=0) / present.sum(axis=0)
    assert kept.max() / kept.min() < 1.15
    first = (present & (np.cumsum(present, axis=1) <= KEPT)).sum(axis=0)
    assert first.max() > 5 * max(1, first.min())


def passes(normal: torch.Tensor) -> bool:
    """Whether numbers have the variance of standard normal ones, at a risk of one in a thousand."""
    degrees, found = normal.numel(), float(normal.double().square().sum())
    return bool(stats.chi2.ppf(0.0005, degrees) < found < stats.chi2.ppf(0.9995, degrees))


PURPOSES = (LENGTHS, CODE_COUNTS, CODE_PAIRS, REPEATS)


@pytest.mark.parametrize("which", range(4))
def test_the_noise_of_every_sum_is_what_was_charged(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published carries σ times the sensitivity; four times or a quarter of that would be seen."""
    drawn: list[torch.Tensor] = []

    def spied(exact: Bounded, sigma: float, noise: Noise) -> torch.Tensor:
        made = noisy(exact, sigma, noise)
        drawn.append((made - exact.sums) / exact.sensitivity)
        return made

    monkeypatch.setattr(code_publishing, "noisy", spied)
    for seed in range(4):
        publish_codes(small_plan(), SCHEMA, rows_of(), (0.7, 0.3), 64.0, SeededNoise(seed))
    release = small_plan().gaussian(PURPOSES[which])
    assert release is not None
    normal = torch.cat([one.flatten() for one in drawn[which::4]]) / release.noise_multiplier
    assert passes(normal)
    assert not passes(normal * 2)
    assert not passes(normal / 2)


# --- nothing but noisy sums gets out ------------------------------------------------------------------------


def blind(exact: Bounded, sigma: float, noise: Noise) -> torch.Tensor:
    """Numbers of the right shape that know nothing of the rows."""
    del sigma, noise
    count = exact.sums.numel()
    return (torch.arange(count, dtype=torch.float64) % 7 + 5).reshape(exact.sums.shape)


def published(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> CodeStatistics:
    """What is published if the noisy sums are the same for all rows."""
    monkeypatch.setattr(code_publishing, "noisy", blind)
    return publish_codes(small_plan(), SCHEMA, rows, (0.7, 0.3), 64.0, SeededNoise(1))


def same(one: CodeStatistics, two: CodeStatistics) -> bool:
    return all(torch.equal(value, two.named()[name]) for name, value in one.named().items())


def test_everything_follows_from_noisy_sums_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two quite different data sets with the same noisy sums publish the same numbers, the choice of codes included."""
    assert same(published(rows_of(), monkeypatch), published(rows_of(31, seed=8), monkeypatch))


def test_an_exact_choice_of_codes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'the most frequent codes of the rows themselves' makes the published numbers differ."""

    def exact(rows: Rows) -> CodeStatistics:
        order = np.argsort(-(np.asarray(rows.x) > 0).sum(axis=0), kind="stable")
        monkeypatch.setattr(code_publishing, "most_frequent", lambda _codes, number: order[:number])
        return published(rows, monkeypatch)

    assert not same(exact(rows_of()), exact(rows_of(31, seed=8)))


def test_what_the_plan_does_not_charge_is_not_drawn() -> None:
    """A private plan without one of the charges refuses to publish it."""
    made = small_plan()
    for purpose in PURPOSES:
        bare = replace(made, charges=tuple(one for one in made.charges if one.purpose != purpose))
        with pytest.raises(PlanError, match=f"does not charge the {purpose}"):
            publish_codes(bare, SCHEMA, rows_of(), (0.7, 0.3), 64.0, SeededNoise(1))


def test_the_generator_is_trained_from_published_numbers_alone() -> None:
    """No argument of the free training can hold rows."""
    assert list(inspect.signature(CodeApprentice.__init__).parameters) == [
        "self",
        "recipe",
        "schema",
        "statistics",
        "seed",
    ]
    assert list(inspect.signature(CodeApprentice.advance).parameters) == ["self"]


# --- the race and the repetitions ---------------------------------------------------------------------------


def test_chances_of_arrival_agree_with_drawing() -> None:
    """What the training computes is what the drawing does: each code arrives as often as its chance says."""
    scores = torch.linspace(0, -8, 60)[None]
    lengths = torch.tensor([5.0])
    chances = arrivals(scores.softmax(dim=1), lengths)[0]
    assert float(chances.sum()) == pytest.approx(5.0, abs=1e-3)
    source = torch.Generator().manual_seed(1)
    drawn, counted = first_arrivals(scores.expand(20_000, -1), torch.full((20_000,), 5), source)
    found = torch.bincount(drawn[counted], minlength=60) / 20_000
    assert float((found - chances).abs().max()) < 0.03
    assert float((found - 5 * scores.softmax(dim=1)[0]).abs().max()) > 0.08  # with replacement would be seen


def test_the_derivative_of_chances_is_exact() -> None:
    """The last step of Newton's method carries the derivative of the solution, checked by differences."""
    rates = torch.linspace(0.1, 2.0, 9, dtype=torch.float64).softmax(dim=0)[None].requires_grad_()
    lengths = torch.tensor([3.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda r: arrivals(r / r.sum(), lengths), (rates,), atol=1e-5)


def test_every_length_up_to_all_codes_can_be_drawn() -> None:
    """A record gets exactly as many different codes as asked, none and all of them included."""
    lengths = torch.tensor([0, 1, 7])
    drawn, counted = first_arrivals(torch.zeros(3, 7), lengths, torch.Generator().manual_seed(1))
    assert counted.sum(dim=1).tolist() == lengths.tolist()
    assert len(set(drawn[2].tolist())) == 7


def test_repetitions_have_the_published_mean() -> None:
    """A code that is repeated 0.7 times on average is drawn so, and no count exceeds the largest."""
    chance = chance_of_repeats(np.array([7000.0]), np.array([10_000.0]), 0.0, 4)
    drawn = draw_repeats(torch.full((50_000,), float(chance[0])), 4, torch.Generator().manual_seed(1))
    assert float(drawn.double().mean()) == pytest.approx(0.7, abs=0.02)
    assert int(drawn.max()) == 3
    assert chance_of_repeats(np.array([-5.0]), np.array([10.0]), 0.0, 4)[0] == 0.0


def test_rare_codes_are_repeated_as_the_average_is() -> None:
    """Where noise is all there is to see, a code takes the mean of all codes instead of the noise."""
    rare, common = chance_of_repeats(np.array([40.0, 5000.0]), np.array([2.0, 10_000.0]), 50.0, 4)
    assert rare == pytest.approx(common, rel=0.1)


# --- the plan -----------------------------------------------------------------------------------------------


def test_the_charges_fit_the_schema() -> None:
    """Labels, repetitions and pairs are charged where there are any, and all charges cost the whole budget."""
    full = plan(SCHEMA, epsilon=1.0, rows=10_000)
    assert [one.purpose for one in full.charges] == [LABELS, *PURPOSES]
    assert full.spent is not None
    assert 0.99 < full.spent.epsilon <= 1.0
    plain = plan(CodeSchema(CODES), epsilon=1.0, rows=10_000)
    assert [one.purpose for one in plain.charges] == [LENGTHS, CODE_COUNTS, CODE_PAIRS]
    single = plan(CodeSchema(("a",)), epsilon=1.0, rows=10_000)
    assert [one.purpose for one in single.charges] == [LENGTHS, CODE_COUNTS]


def test_all_parts_are_one_recipe_file() -> None:
    """The TOML of the recipe holds the part for codes, and comes back equal; so does that of a plan."""
    recipe = RECIPES["understudy"]
    assert "[codes.statistic]" in recipe_to_toml(recipe)
    assert recipe_from_toml(recipe_to_toml(recipe)) == recipe
    assert recipe_from_toml(recipe_to_toml(small_plan().recipe)) == small_plan().recipe


def test_contradictions_are_refused() -> None:
    """Parts that would be silently ignored, and numbers that mean nothing, are errors."""
    own = RECIPES["understudy"]
    with pytest.raises(RecipeError, match="need a mean embedding"):
        replace(own, statistic=NoisyCodeCounts())
    with pytest.raises(RecipeError, match="kind 'code-counts'"):
        replace(own, codes=RECIPES["dp-cgan"])
    for wrong in ({"longest": 0}, {"frequent": 1}, {"repeats": 0.0}, {"covered": 0.0}, {"code_share": 0.0}):
        with pytest.raises(RecipeError):
            NoisyCodeCounts(**wrong)  # type: ignore[arg-type]


# --- the release --------------------------------------------------------------------------------------------


def test_a_release_saves_loads_and_makes_valid_records(tmp_path: Path) -> None:
    """The same seed gives the same records, and every one of them can be encoded again without a complaint."""
    release = fit(frame_of_codes(), small_plan())
    again = Release.load(release.save(tmp_path / "release"))
    drawn = release.sample(300, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    pd.testing.assert_frame_equal(drawn, again.sample(300, seed=1))  # type: ignore[arg-type]
    encoded = encode(drawn, SCHEMA)
    assert encoded.clipped == 0
    assert encoded.unknown == 0
    assert set(release.sample(9, label="yes", seed=1)["dead"]) == {"yes"}  # type: ignore[index]
    text = (tmp_path / "release" / "README.md").read_text(encoding="utf-8")
    for purpose in (LABELS, *PURPOSES):
        assert f"| {purpose} |" in text


def test_a_run_that_was_stopped_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    """Interrupted and resumed, the seeded run gives the same weights bit by bit, and publishes nothing twice."""
    whole = fit(frame_of_codes(), small_plan(), insecure_seed=5)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted, match="after 1 of 3"):
        fit(frame_of_codes(), small_plan(), insecure_seed=5, checkpoints=Checkpoints(path), stop=lambda: True)
    other = frame_of_codes(seed=99)  # a resumed run must not look at them again
    resumed = fit(other, small_plan(), insecure_seed=5, checkpoints=Checkpoints(path, resume=True))
    assert all(torch.equal(value, resumed.weights[name]) for name, value in whole.weights.items())


@pytest.mark.parametrize(
    "schema", [CodeSchema(CODES), CodeSchema(CODES, max_count=4), CodeSchema(("c0",)), SCHEMA]
)
def test_codes_without_label_counts_or_pairs_train_too(schema: CodeSchema, tmp_path: Path) -> None:
    """What codes do not have is neither charged nor missed; private row counts and baselines included."""
    wanted = [*schema.codes, *(["dead"] if schema.label else [])]
    for options in ({"rows": None}, {"rows": 64, "epsilon": None}):
        settings: dict[str, object] = {"epsilon": 2.0, "delta": 1e-3, "recipe": RECIPE, **options}
        made = fit(frame_of_codes()[wanted], plan(schema, **settings))  # type: ignore[arg-type]
        again = Release.load(made.save(tmp_path / f"release-{options['rows']}"))
        assert len(again.sample(20)) == 20
        assert made.card.private == ("epsilon" not in options)


def test_lengths_that_nobody_has_are_not_made_up() -> None:
    """Cells within the noise count as empty, exact zeros stay zeros, and the largest cell is always believed."""
    noisy_cells = np.array([[40.0, 900.0, 60.0, -20.0, 25.0]])
    assert known_lengths(noisy_cells, (1.0,), 1000.0, 20.0).chances[0].tolist() == [0, 0.9375, 0.0625, 0, 0]
    exact = known_lengths(np.array([[0.0, 30.0, 0.0, 10.0]]), (1.0,), 40.0, 0.0)
    assert exact.chances[0].tolist() == [0, 0.75, 0, 0.25]
    assert known_lengths(np.array([[-3.0, -9.0]]), (1.0,), 5.0, 20.0).chances[0].tolist() == [1, 0]


def test_people_without_codes_stay_without() -> None:
    """Data in which nobody has a code train, and make empty records."""
    empty = pd.DataFrame(0, index=range(500), columns=list(CODES))
    drawn = fit(empty, plan(CodeSchema(CODES), epsilon=4.0, rows=500, steps=3), insecure_seed=1).sample(
        50, seed=1
    )
    assert isinstance(drawn, pd.DataFrame)
    assert int(drawn.to_numpy().sum()) == 0


def related_codes(rows: int, seed: int) -> pd.DataFrame:
    """Three codes per person; whoever has `a` has `b` too, and `c` and `d` never meet."""
    source = np.random.default_rng(seed)
    frame = pd.DataFrame(0, index=range(rows), columns=["a", "b", "c", "d", "e", "f", "g", "h"])
    kind = source.random(rows) < 0.4
    frame.loc[kind, ["a", "b"]] = 1
    frame.loc[~kind, "e"] = 1
    either = source.random(rows) < 0.5
    frame.loc[either, "c"] = 1
    frame.loc[~either, "d"] = 1
    for place in np.flatnonzero(frame.sum(axis=1) < 3):
        frame.iloc[place, frame.columns.get_loc(source.choice(["f", "g", "h"]))] = 1
    return frame


def test_synthetic_codes_keep_what_the_real_ones_show() -> None:
    """How many codes a person has, how frequent they are, and which go together, survive at ε = 2."""
    real = related_codes(4000, 1)
    schema = CodeSchema(tuple(real.columns))
    release = fit(real, plan(schema, epsilon=2.0, rows=4000, steps=200), insecure_seed=3)
    drawn = release.sample(4000, seed=2)
    assert isinstance(drawn, pd.DataFrame)
    assert (drawn.sum(axis=1) == 3).mean() > 0.95
    assert float((drawn.mean() - real.mean()).abs().max()) < 0.06
    assert drawn.loc[drawn["a"] == 1, "b"].mean() > 0.8 > drawn.loc[drawn["a"] == 0, "b"].mean() + 0.5
    assert (drawn["c"] * drawn["d"]).mean() < 0.1


def test_repetitions_survive() -> None:
    """Codes that are repeated often stay so: mean counts agree within a tenth at a generous budget."""
    made = plan(SCHEMA, epsilon=50.0, rows=4000, recipe=replace(RECIPE, steps=150))
    real = frame_of_codes(4000, 1)
    drawn = fit(real, made, insecure_seed=3).sample(4000, seed=2)
    assert isinstance(drawn, pd.DataFrame)
    codes = list(CODES)
    assert float((drawn[codes].mean() - real[codes].mean()).abs().max()) < 0.1
