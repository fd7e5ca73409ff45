"""Tables with more columns than are all compared: pairs are chosen by noisy scores, and the rest costs little."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import Batch, Published, Query
from understudy.door.source import Rows
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.release.release import Release
from understudy.run.fit import fit
from understudy.schema import Binary, Categorical, TableSchema
from understudy.synthesizers.marginals.columns import KnownColumn, table_columns
from understudy.synthesizers.marginals.groups import fewer_pairs, groups_in_pairs
from understudy.synthesizers.marginals.queries import PairProducts
from understudy.synthesizers.marginals.questions import chosen_pairs, expected_pairs
from understudy.synthesizers.marginals.recipe import PAIR_SCORES, PAIRS, UNDERSTUDY_TABLES


def wide(columns: int) -> TableSchema:
    """Binary columns and a label."""
    flags = tuple(Binary(f"f{i}", ("no", "yes")) for i in range(columns))
    return TableSchema((*flags, Categorical("ill", ("no", "yes"))), label="ill")


def flags(rows: int, columns: int) -> pd.DataFrame:
    """Coins, but the last column repeats the first in nine of ten rows, and the third follows the label."""
    source = np.random.default_rng(0)
    held = source.random((rows, columns)) < 0.5
    same = source.random(rows) < 0.9
    held[:, -1] = np.where(same, held[:, 0], ~held[:, 0])
    ill = np.where(source.random(rows) < 0.8, held[:, 2], ~held[:, 2])
    words = np.where(np.column_stack([held, ill]), "yes", "no")
    return pd.DataFrame(words, columns=[*(f"f{i}" for i in range(columns)), "ill"])


def released(rows: int, columns: int, epsilon: float | None, steps: int) -> Release:
    recipe = replace(UNDERSTUDY_TABLES, steps=steps)
    made = plan(wide(columns), epsilon=epsilon, rows=rows, recipe=recipe)
    return fit(flags(rows, columns), made, insecure_seed=1, anyway=True)


def test_pairs_are_scored_only_if_not_all_are_counted() -> None:
    """Up to 32 columns the score is not charged; beyond that it is, and takes a fifth of the share of pairs."""
    few, many = (plan(wide(columns), epsilon=1.0, rows=5000) for columns in (32, 33))
    assert PAIR_SCORES not in [one.purpose for one in few.charges]
    scored, counted = many.gaussian(PAIR_SCORES), many.gaussian(PAIRS)
    assert scored is not None
    assert counted is not None
    assert scored.noise_multiplier / counted.noise_multiplier == pytest.approx(2.0)


def test_two_columns_of_forty_that_go_together_are_found() -> None:
    """The one pair that chance does not explain is chosen, counted and kept; what the label explains is not asked."""
    release = released(4000, 40, 3.0, steps=90)
    assert release.weights["paired"].tolist() == [[0, 39]]
    drawn = release.sample(4000, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    assert (drawn["f0"] == drawn["f39"]).mean() > 0.85
    assert (drawn["f2"] == drawn["ill"]).mean() > 0.75
    assert abs((drawn["f4"] == drawn["f5"]).mean() - 0.5) < 0.05


def test_nine_hundred_columns_make_a_release() -> None:
    """A table of 900 columns is fitted in few components and chances, and every column is drawn."""
    release = released(300, 900, 5.0, steps=6)
    drawn = release.sample(20, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    assert drawn.shape == (20, 901)
    assert release.weights["chances"].size <= 2**24
    assert release.weights["paired"].shape[0] <= math.comb(32, 2)


class Deaf(Door):
    """A door that tells nothing about pairs."""

    def publish(self, purpose: str, query: Query) -> Published:
        seen = super().publish(purpose, query)
        return Published((0 * seen.value,), seen.deviation) if purpose == PAIR_SCORES else seen


def test_pairs_are_chosen_by_what_was_published_alone() -> None:
    """Whoever hears zeros cannot know which columns go together; the planted bug that looks at exact sums does."""
    schema, columns = wide(40), 40
    encoded = encode(flags(2000, columns), schema)
    fitter = replace(UNDERSTUDY_TABLES, steps=1).fitter(schema, seed=0, device=torch.device("cpu"))
    made = plan(schema, epsilon=3.0, rows=2000)
    door = Deaf(Rows.of(encoded, schema), made.charges, SeededNoise(1), insecure=True, rows=2000)
    fitter.begin(door, None, lambda: None)
    assert [0, 39] not in fitter.released()["paired"].tolist()


def known(columns: int) -> tuple[KnownColumn, ...]:
    return tuple(KnownColumn(one, one.size) for one in table_columns(wide(columns)))


@pytest.mark.parametrize("claimed", [None, 1.0])
def test_a_record_moves_all_scores_by_at_most_their_sensitivity(
    claimed: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leans are cut to one, so a record moves m scores by √m at most, and reaches it; noise for one is too little."""
    if claimed is not None:
        monkeypatch.setattr(PairProducts, "sensitivity", claimed)
    query = PairProducts(known(12), {i: np.array([-7.0, 7.0]) for i in range(12)})
    sums = query.zero()
    query.add(sums, Batch(torch.full((1, 12), math.nan), None, SeededNoise(0)))
    assert float(sums[0].norm()) == pytest.approx(math.sqrt(66))
    assert (float(sums[0].norm()) > query.sensitivity + 1e-9) == (claimed is not None)


def test_what_the_label_explains_is_expected() -> None:
    """Two columns that both follow the label are no further from independence within classes than chance."""
    tables = [np.array([[90.0, 10.0], [10.0, 90.0]])] * 2
    leans = [np.array([-1.0, 1.0])] * 2
    expected = expected_pairs(tables, leans, np.array([0.5, 0.5]))
    assert float(expected) == pytest.approx(0.64)
    sums = torch.tensor([128.0, 150.0, 0.0], dtype=torch.float64)
    asked = chosen_pairs(sums, torch.tensor([0.64, 0.0, 0.0]), 1.0, 200.0, 3)
    assert asked == [(0, 2)]


def test_groups_of_many_columns_are_few() -> None:
    """However many columns take part, a mixture is compared in a bounded number of groups, best pairs first."""
    columns = tuple(replace(one, width=200) for one in known(600))
    masses = [np.full(200, 5.0)] * 600
    pairs = [(i, i + 1) for i in range(599)]
    groups = groups_in_pairs(columns, masses, range(600), 40, 0.0)
    kept = fewer_pairs(pairs, groups)
    taken = {i for one in kept for i in one}
    assert sum(int(groups[i].max()) + 1 for i in taken) <= 1024
    assert kept[0] == (0, 1)
