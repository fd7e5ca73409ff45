"""Our own recipe of codes: every sum is bounded by a record's own codes, and what is made keeps what the rows show.

What every synthesizer promises (charges, leaks, checkpoints, releases) is in `tests/synthesizers/test_contract.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.door.noise import SeededNoise
from understudy.door.query import Batch, Query
from understudy.door.source import Rows
from understudy.errors import RecipeError
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.run.fit import fit
from understudy.schema import Binary, CodeBlock, CodeSchema
from understudy.synthesizers.codes import queries
from understudy.synthesizers.codes.denoising import believed_counts, believed_pairs
from understudy.synthesizers.codes.drawing import draw_repeats, first_arrivals
from understudy.synthesizers.codes.queries import CodeCounts, LengthCounts, PairCounts, RepeatSums
from understudy.synthesizers.codes.recipe import CODE_COUNTS, CODE_PAIRS, LENGTHS, REPEATS, UNDERSTUDY_CODES
from understudy.synthesizers.codes.repeats import chance_of_repeats
from understudy.synthesizers.codes.statistics import known_lengths
from understudy.synthesizers.codes.weighing import compared_items, weighing
from understudy.synthesizers.codes.without_replacement import arrivals
from understudy.synthesizers.shared.parts import LABELS

CODES = tuple(f"c{number}" for number in range(12))
SCHEMA = CodeSchema(CODES, max_count=4, label=Binary("dead", ("no", "yes")))
RECIPE = replace(UNDERSTUDY_CODES, components=5, steps=3)
PURPOSES = (LENGTHS, CODE_COUNTS, CODE_PAIRS, REPEATS)


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

FULL = 3
PLACES = np.array([0, 1, 2, 3, 4, 5, 6, 6, 7, 7, -1, -1])
"""Six codes of their own, two groups of two, and two codes that are not compared."""


def some_queries() -> list[Query]:
    """All four sums, with three codes or pairs in full."""
    return [
        LengthCounts(2, 8),
        CodeCounts(2, len(CODES), FULL),
        PairCounts(PLACES, 8, FULL),
        RepeatSums(len(CODES), 4, 1.5),
    ]


def summed(query: Query, x: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> torch.Tensor:
    """The exact sum of a query."""
    (sums,) = whole = query.zero()
    query.add(whole, Batch(torch.from_numpy(x), torch.from_numpy(labels), SeededNoise(0)))
    return sums


def test_a_label_of_no_class_counts_nowhere() -> None:
    """A record with a foreign label is in no count by class, and stops nothing."""
    x = np.zeros((3, len(CODES)), dtype=np.float32)
    x[:, :2] = 1
    for query in (LengthCounts(2, 8), CodeCounts(2, len(CODES), FULL)):
        counted = summed(query, x, np.array([0, -1, 2]))
        assert torch.equal(counted, summed(query, x[:1], np.array([0])))


def moves(record: list[float], label: int) -> list[tuple[float, float]]:
    """By how much one more record moves each sum, and by how much it may."""
    before = rows_of()
    x, labels = np.asarray(before.x), np.asarray(before.labels)
    more = np.vstack([x, np.array([record], dtype=np.float32)])
    return [
        (
            float((summed(query, more, np.append(labels, label)) - summed(query, x, labels)).norm()),
            query.sensitivity,
        )
        for query in some_queries()
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
    record = [1.0] * FULL + [0.0] * (len(CODES) - FULL)
    for moved, allowed in moves(record, 0):
        assert moved == pytest.approx(allowed)


def test_records_that_weigh_too_much_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'every code of a long record counts in full' breaks the bounds of codes and pairs."""
    monkeypatch.setattr(queries, "weights", lambda entries, _full: np.ones(len(entries)))
    lengths, codes, pairs, _ = moves([1.0] * len(CODES), 1)
    assert lengths[0] <= lengths[1]
    assert codes[0] > codes[1]
    assert pairs[0] > pairs[1]


def test_two_codes_of_a_group_make_no_pair() -> None:
    """A group counts once in a record, and not with itself: else a record would add more than its pairs."""
    x = np.zeros((1, len(CODES)), dtype=np.float32)
    x[0, [0, 6, 7]] = 1
    assert float(summed(PairCounts(PLACES, 8, FULL), x, np.zeros(1, dtype=np.int64)).sum()) == 1.0


def test_long_records_weigh_less_and_the_scale_makes_up_for_it() -> None:
    """What records add on average, times the scale, is what they have; with loud noise the bound is lower."""
    numbers, chances = np.arange(21), np.full(21, 1 / 21)
    quiet, loud = (weighing(numbers, chances, 1000.0, 0.99, sigma, 30) for sigma in (0.1, 1000.0))
    assert (quiet.full, quiet.scale) == (20, pytest.approx(1.0))
    assert 14 <= loud.full < 20
    seen = chances @ np.minimum(numbers, np.sqrt(loud.full * numbers))
    assert seen * loud.scale == pytest.approx(float(chances @ numbers))


def test_fewer_codes_are_compared_where_noise_is_louder() -> None:
    """How many codes are compared follows from what the noise leaves to be heard of their pairs."""
    codes, lengths = np.geomspace(0.5, 0.002, 200), np.full(41, 1 / 41)
    few, many = (compared_items(codes, np.zeros(0), lengths, rows, 0.99, 5.0) for rows in (300.0, 300_000.0))
    assert few.codes < 32 < many.codes


# --- the race and the repetitions ---------------------------------------------------------------------------


def test_chances_of_arrival_agree_with_drawing() -> None:
    """What the training computes is what the drawing does: each code arrives as often as its chance says."""
    scores = torch.linspace(0, -8, 60)[None]
    lengths = torch.tensor([5.0])
    chances = arrivals(scores.softmax(dim=1), lengths, 60)[0][0]
    assert float(chances.sum()) == pytest.approx(5.0, abs=1e-3)
    source, each = np.random.default_rng(1), np.repeat(scores.softmax(dim=1).numpy(), 20_000, axis=0)
    drawn, counted = first_arrivals(each, np.full(20_000, 5), 60, source)
    found = torch.from_numpy(np.bincount(drawn[counted], minlength=60) / 20_000)
    assert float((found - chances).abs().max()) < 0.03
    assert float((found - 5 * scores.softmax(dim=1)[0]).abs().max()) > 0.08  # with replacement would be seen


def test_the_derivative_of_chances_is_exact() -> None:
    """The last step of Newton's method carries the derivative of the solution, checked by differences."""
    rates = torch.linspace(0.1, 2.0, 9, dtype=torch.float64).softmax(dim=0)[None].requires_grad_()
    lengths = torch.tensor([3.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda r: arrivals(r / r.sum(), lengths, 7), (rates,), atol=1e-5)


def test_every_length_up_to_all_codes_can_be_drawn() -> None:
    """A record gets exactly as many different codes as asked, none and all of them included."""
    lengths, rates = np.array([0, 1, 7]), np.full((3, 7), 1 / 7, dtype=np.float32)
    drawn, counted = first_arrivals(rates, lengths, 7, np.random.default_rng(1))
    assert counted.sum(axis=1).tolist() == lengths.tolist()
    assert len(set(drawn[2].tolist())) == 7


def test_a_group_arrives_as_often_as_its_codes_would() -> None:
    """Rare codes that run as a group are drawn as often as if each ran by itself, and the training knows it."""
    rates = torch.cat([torch.linspace(0, -3, 10).exp(), torch.tensor([2.0])])
    rates, rows = (rates / rates.sum())[None], 20_000
    chances, time = arrivals(rates, torch.tensor([4.0]), 10)
    assert float(chances[0, :10].sum() + time[0, 0] * rates[0, 10]) == pytest.approx(4.0, abs=1e-3)
    source, each = np.random.default_rng(1), np.repeat(rates.numpy(), rows, axis=0)
    drawn, counted = first_arrivals(each, np.full(rows, 4), 10, source)
    found = np.bincount(drawn[counted], minlength=11) / rows
    assert float(found[10]) == pytest.approx(float(time[0, 0] * rates[0, 10]), rel=0.06)


def test_repetitions_have_the_published_mean() -> None:
    """A code that is repeated 0.7 times on average is drawn so, and no count exceeds the largest."""
    chance = chance_of_repeats(np.array([7000.0]), np.array([10_000.0]), 0.0, 4)
    drawn = draw_repeats(np.full(50_000, chance[0]), 4, np.random.default_rng(1))
    assert float(drawn.mean()) == pytest.approx(0.7, abs=0.02)
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


def test_numbers_that_mean_nothing_are_refused() -> None:
    """Lengths, codes and shares of nothing are errors."""
    for wrong in ({"longest": 0}, {"frequent": 1}, {"repeats": 0.0}, {"covered": 0.0}, {"code_share": 0.0}):
        with pytest.raises(RecipeError):
            replace(UNDERSTUDY_CODES, **wrong)  # type: ignore[arg-type]


# --- the release --------------------------------------------------------------------------------------------


def test_lengths_are_smooth_where_noise_hides_them_and_exact_where_it_does_not() -> None:
    """Noise alone makes no length impossible and none certain; without noise the counts stand as they are."""
    exact = known_lengths(np.array([[0.0, 30.0, 0.0, 10.0]]), (1.0,), 40.0, 0.0)
    assert exact.chances[0].tolist() == pytest.approx([0, 0.75, 0, 0.25], abs=1e-5)
    source = np.random.default_rng(5)
    true = np.bincount(source.poisson(8, 80), minlength=40)
    noisy = known_lengths((true + source.normal(0, 16, 40))[None], (1.0,), 80.0, 16.0).chances[0]
    assert noisy.max() < 0.6
    assert noisy.sum() == pytest.approx(1)


def test_a_peak_of_lengths_does_not_hide_the_others() -> None:
    """If most records have exactly three codes, the curve through the others is not drawn to that peak."""
    true = 800 * np.bincount([3] * 7 + [1, 5, 9], minlength=20) / 10
    noisy = true + np.random.default_rng(5).normal(0, 13, 20)
    found = known_lengths(noisy[None], (1.0,), 800.0, 13.0).chances[0]
    assert found[3] == pytest.approx(0.7, abs=0.05)
    assert float(found @ np.arange(20)) == pytest.approx(3.6, abs=0.7)


def test_codes_within_the_noise_are_not_made() -> None:
    """Of a thousand codes that nobody has few are believed, and frequent ones keep their counts."""
    true = np.concatenate([np.full(20, 300.0), np.zeros(1000)])
    seen = true + np.random.default_rng(6).normal(0, 10, len(true))
    believed = believed_counts(seen, 10.0, 6000.0)
    assert believed[20:].sum() < 0.05 * believed.sum() < np.maximum(seen, 0)[20:].sum()
    assert np.abs(believed[:20] - 300).max() < 40


def test_mentions_that_nobody_knows_the_code_of_go_to_doubtful_codes() -> None:
    """Counts add up to all mentions; frequent codes do not take the place of rare ones."""
    counts = np.array([300.0, 20.0, 3.0, -4.0])
    believed = believed_counts(counts, 10.0, 500.0)
    assert believed.sum() == pytest.approx(500)
    assert believed[0] == pytest.approx(300)
    assert believed[3] == 0


def test_a_tree_tells_which_rare_codes_there_are() -> None:
    """Of codes with the same noisy count, one among frequent neighbours is believed more than one among none."""
    counts = np.random.default_rng(7).normal(0, 10, 200) + np.repeat([25.0, 0.0], 100)
    counts[[0, 199]] = 22.0
    levels = [np.repeat([0, 1], 100)]
    with_tree, without = (believed_counts(counts, 10.0, 2500.0, level) for level in (levels, []))
    assert with_tree[0] > 1.5 * with_tree[199]
    assert without[0] == pytest.approx(without[199])


def test_pairs_within_the_noise_become_chance() -> None:
    """Most of pairs that meet as chance has it are taken for that, and a loud one stays."""
    chance = np.full(400, 0.01)
    pairs = chance + np.random.default_rng(8).normal(0, 0.002, 400)
    pairs[0] = 0.05
    believed = believed_pairs(pairs, chance, 0.002)
    assert believed[0] == pytest.approx(0.05, abs=0.004)
    assert np.abs(believed[1:] - 0.01).mean() < 0.3 * np.abs(pairs[1:] - 0.01).mean()


def test_pairs_and_lengths_take_what_the_number_of_records_allows() -> None:
    """With few records lengths take more of the budget and pairs less, and with fewer none; the whole is spent."""
    few, more, many = (plan(CodeSchema(CODES), epsilon=1.0, rows=rows) for rows in (300, 3000, 50_000))
    assert [one.purpose for one in few.charges] == [LENGTHS, CODE_COUNTS]
    assert few.spent is not None
    assert 0.99 < few.spent.epsilon <= 1.0
    sigmas = [{one.purpose: made.gaussian(one.purpose) for one in made.charges} for made in (few, more, many)]
    lengths = [one[LENGTHS].noise_multiplier for one in sigmas if one[LENGTHS] is not None]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[2]
    pairs = [one[CODE_PAIRS].noise_multiplier for one in sigmas[1:] if one[CODE_PAIRS] is not None]
    assert pairs[0] > pairs[1]
    unknown = plan(CodeSchema(CODES), epsilon=1.0, rows=None)
    assert CODE_PAIRS in [one.purpose for one in unknown.charges]


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


def test_rare_codes_keep_the_company_of_their_block() -> None:
    """Codes that run as groups meet the frequent code that their block goes with, and the other block does not."""
    source = np.random.default_rng(9)
    names = tuple(f"{block}{i}" for block in "xy" for i in range(15))
    real = pd.DataFrame(0, index=range(6000), columns=["a", "b", *names])
    kind = source.random(6000) < 0.5
    real.loc[kind, "a"], real.loc[~kind, "b"] = 1, 1
    cells = real.to_numpy(copy=True)
    cells[np.arange(6000), 2 + np.where(kind, 0, 15) + source.integers(0, 15, 6000)] = 1
    real = pd.DataFrame(cells, columns=real.columns)
    blocks = tuple(CodeBlock(one, tuple(name for name in names if name[0] == one)) for one in "xy")
    schema = CodeSchema(tuple(real.columns), blocks=blocks)
    recipe = replace(UNDERSTUDY_CODES, frequent=4, components=8, steps=200)
    drawn = fit(real, plan(schema, epsilon=4.0, rows=6000, recipe=recipe), insecure_seed=3).sample(
        4000, seed=2
    )
    assert isinstance(drawn, pd.DataFrame)
    in_x = drawn[[name for name in names if name[0] == "x"]].any(axis=1)
    assert in_x[drawn["a"] == 1].mean() > 0.7 > 0.3 > in_x[drawn["b"] == 1].mean()


def test_repetitions_survive() -> None:
    """Codes that are repeated often stay so: mean counts agree within a tenth at a generous budget."""
    made = plan(SCHEMA, epsilon=50.0, rows=4000, recipe=replace(RECIPE, steps=150))
    real = frame_of_codes(4000, 1)
    drawn = fit(real, made, insecure_seed=3).sample(4000, seed=2)
    assert isinstance(drawn, pd.DataFrame)
    codes = list(CODES)
    assert float((drawn[codes].mean() - real[codes].mean()).abs().max()) < 0.1
