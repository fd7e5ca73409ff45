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
from understudy.schema import Binary, CodeSchema
from understudy.synthesizers.codes import queries
from understudy.synthesizers.codes.denoising import believed_counts
from understudy.synthesizers.codes.queries import CodeCounts, LengthCounts, PairCounts, RepeatSums, shortened
from understudy.synthesizers.codes.recipe import CODE_COUNTS, CODE_PAIRS, LENGTHS, REPEATS, UNDERSTUDY_CODES
from understudy.synthesizers.codes.repeats import chance_of_repeats, draw_repeats
from understudy.synthesizers.codes.statistics import known_lengths
from understudy.synthesizers.codes.without_replacement import arrivals, first_arrivals
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

KEPT = 3


def some_queries() -> list[Query]:
    """All four sums, for records shortened to three codes."""
    return [
        LengthCounts(2, 8),
        CodeCounts(2, len(CODES), KEPT),
        PairCounts(np.arange(8), KEPT),
        RepeatSums(len(CODES), 4, KEPT, 1.5),
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
    for query in (LengthCounts(2, 8), CodeCounts(2, len(CODES), KEPT)):
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
    record = [1.0] * KEPT + [0.0] * (len(CODES) - KEPT)
    for moved, allowed in moves(record, 0):
        assert moved == pytest.approx(allowed)


def test_records_that_are_not_shortened_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'every code of a long record counts' breaks the bounds of codes and pairs."""
    monkeypatch.setattr(queries, "shortened", lambda present, _kept: present)
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


def test_numbers_that_mean_nothing_are_refused() -> None:
    """Lengths, codes and shares of nothing are errors."""
    for wrong in ({"longest": 0}, {"frequent": 1}, {"repeats": 0.0}, {"covered": 0.0}, {"code_share": 0.0}):
        with pytest.raises(RecipeError):
            replace(UNDERSTUDY_CODES, **wrong)  # type: ignore[arg-type]


# --- the release --------------------------------------------------------------------------------------------


def test_lengths_are_smooth_where_noise_hides_them_and_exact_where_it_does_not() -> None:
    """Noise alone makes no length impossible and none certain; without noise the counts stand as they are."""
    exact = known_lengths(np.array([[0.0, 30.0, 0.0, 10.0]]), (1.0,), 40.0, 0.0)
    assert exact.chances[0].tolist() == [0, 0.75, 0, 0.25]
    source = np.random.default_rng(5)
    true = np.bincount(source.poisson(8, 80), minlength=40)
    noisy = known_lengths((true + source.normal(0, 16, 40))[None], (1.0,), 80.0, 16.0).chances[0]
    assert noisy.max() < 0.5
    assert noisy.sum() == pytest.approx(1)


def test_codes_within_the_noise_are_not_made() -> None:
    """Of a thousand codes that nobody has few are believed, and frequent ones keep their counts."""
    true = np.concatenate([np.full(20, 300.0), np.zeros(1000)])
    seen = true + np.random.default_rng(6).normal(0, 10, len(true))
    believed = believed_counts(seen, 10.0)
    assert believed[20:].sum() < 0.05 * believed.sum() < np.maximum(seen, 0)[20:].sum()
    assert np.abs(believed[:20] - 300).max() < 40


def test_records_lose_what_is_not_believed_and_frequent_codes_are_not_blown_up() -> None:
    """If half of all mentions are unknown, records get shorter; frequent codes do not fill the place of rare ones."""
    lengths = known_lengths(np.array([[0.0, 0.0, 0.0, 0.0, 100.0]]), (1.0,), 100.0, 0.0)
    shorter, codes = lengths.agreeing(np.array([[100.0, 100.0, 0.0, 0.0]]), 4)
    assert codes[0].tolist() == pytest.approx([100, 100, 0, 0], rel=0.1)
    assert float(shorter.chances[0] @ np.arange(5)) == pytest.approx(2, rel=0.1)


def test_pairs_are_asked_for_only_where_noise_does_not_drown_them() -> None:
    """With few records the whole budget goes to lengths and codes; the card and the charges say so."""
    few = plan(CodeSchema(CODES), epsilon=1.0, rows=800)
    assert [one.purpose for one in few.charges] == [LENGTHS, CODE_COUNTS]
    assert few.spent is not None
    assert 0.99 < few.spent.epsilon <= 1.0
    many = plan(CodeSchema(CODES), epsilon=1.0, rows=10_000)
    assert CODE_PAIRS in [one.purpose for one in many.charges]
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


def test_repetitions_survive() -> None:
    """Codes that are repeated often stay so: mean counts agree within a tenth at a generous budget."""
    made = plan(SCHEMA, epsilon=50.0, rows=4000, recipe=replace(RECIPE, steps=150))
    real = frame_of_codes(4000, 1)
    drawn = fit(real, made, insecure_seed=3).sample(4000, seed=2)
    assert isinstance(drawn, pd.DataFrame)
    codes = list(CODES)
    assert float((drawn[codes].mean() - real[codes].mean()).abs().max()) < 0.1
