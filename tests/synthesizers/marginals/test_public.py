"""Public rows beside a private table: a right one takes noise away, a wrong one does no harm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from understudy.evaluation.layout import Layout
from understudy.evaluation.tables import two_way_error
from understudy.planning import plan
from understudy.run.fit import fit
from understudy.schema import Categorical, Integer, TableSchema
from understudy.synthesizers.marginals.answers import drawn_towards

SCHEMA = TableSchema(
    (
        Integer("age", 0, 99),
        Categorical("town", tuple("abcdef")),
        Categorical("trade", tuple("uvwxyz")),
        Categorical("ill", ("no", "yes")),
    ),
    label="ill",
)


def people(rows: int, seed: int, *, reversed_order: bool = False) -> pd.DataFrame:
    """Town and trade follow age, and illness follows all; the wrong table has everything the other way round."""
    source = np.random.default_rng(seed)
    age = source.beta(2, 5, rows) * 99
    town = ((age / 17 + source.normal(0, 0.7, rows)) % 6).astype(int)
    trade = ((town + source.integers(0, 2, rows)) % 6).astype(int)
    ill = source.random(rows) < 0.1 + 0.13 * town
    if reversed_order:
        age, town, trade, ill = 99 - age, 5 - town, source.permutation(5 - trade), ~ill
    held = {"age": age.astype(int), "town": np.array(list("abcdef"))[town]}
    return pd.DataFrame({**held, "trade": np.array(list("uvwxyz"))[trade], "ill": np.where(ill, "yes", "no")})


@pytest.mark.parametrize(("shift", "factor"), [(0.0, 0.1), (3.0, 1.0), (1000.0, 1.001)])
def test_what_is_drawn_towards_public_numbers_is_never_further_off(shift: float, factor: float) -> None:
    """The mean squared error over many draws: a tenth with right public numbers, and no more with wrong ones."""
    source = torch.Generator().manual_seed(0)
    truth = torch.linspace(0, 100, 30, dtype=torch.float64)
    noisy = truth + 5 * torch.randn(2000, 30, generator=source, dtype=torch.float64)
    public = truth + shift * torch.linspace(-1, 2, 30, dtype=torch.float64)
    drawn = torch.stack([drawn_towards(one, public, 5.0) for one in noisy])
    assert float(((drawn - truth) ** 2).mean()) <= factor * float(((noisy - truth) ** 2).mean())


def test_a_right_public_table_helps_and_a_wrong_one_does_no_harm() -> None:
    """Two-way errors of small private tables: clearly smaller with public rows of the same kind, equal with others."""
    made = plan(SCHEMA, epsilon=0.5, rows=1000, steps=120)
    truth = people(20_000, 99)
    layout = Layout.of(SCHEMA).by_mass(truth)
    codes = layout.codes(truth)
    tables = {"none": None, "right": people(1000, 50), "wrong": people(1000, 51, reversed_order=True)}
    errors: dict[str, list[float]] = {name: [] for name in tables}
    for seed in range(4):
        private = people(1000, seed)
        for name, public in tables.items():
            drawn = fit(private, made, public=public, insecure_seed=seed, anyway=True).sample(4000, seed=0)
            assert isinstance(drawn, pd.DataFrame)
            errors[name].append(two_way_error(codes, layout.codes(drawn), layout.sizes))
    none, right, wrong = (float(np.mean(errors[name])) for name in tables)
    assert right < 0.7 * none
    assert wrong < none + 2 * float(np.std(errors["none"]))


def test_counts_are_kept_as_they_were_published() -> None:
    """What the release keeps is the noisy counts of private rows, whatever public rows said."""
    made = plan(SCHEMA, epsilon=2.0, rows=500, steps=3)
    with_public = fit(people(500, 0), made, public=people(300, 1), insecure_seed=3)
    without = fit(people(500, 0), made, insecure_seed=3)
    assert np.array_equal(with_public.weights["column_counts"], without.weights["column_counts"])
    assert with_public.card.public_source is not None
