"""What a synthetic table loses: made-up tables with piles, grids, chains and rules, real rows beside synthetic ones.

Run `python -m benchmarks.losses [--epsilon 3] [--runs 3]`. Each run is a whole private training with fresh noise. The
table of loans is fitted twice: once with a schema that declares bounds and categories alone, and once with its rules.
Figures are means over runs, with standard deviations.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from understudy.evaluation.learners import Learner, train
from understudy.evaluation.scores import macro_auroc
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.run.fit import fit
from understudy.schema import (
    Binary,
    Categorical,
    Continuous,
    Implied,
    Inequality,
    Integer,
    MissingTogether,
    TableSchema,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 20_000
DELTA = 1e-5
BILLS = tuple(f"bill_{month}" for month in range(1, 5))

LOANS = TableSchema(
    (
        Continuous("amount", -1_000_000, 1_000_000, decimals=0),
        Integer("limit", 0, 1_000_000),
        Continuous("index", 4800, 5400, decimals=1),
        *(Continuous(name, -100_000, 1_000_000, decimals=0) for name in BILLS),
        Integer("systolic", 60, 250, missing=True),
        Integer("diastolic", 30, 150, missing=True),
        Integer("first", 0, 3650),
        Integer("last", 0, 3650),
        Categorical("smokes", ("0", "1", "2")),
        Integer("years", 0, 60),
        Binary("default", ("no", "yes")),
    ),
    label="default",
)
RULES = (
    MissingTogether(("systolic", "diastolic")),
    Inequality("first", "last"),
    Implied("smokes", "0", "years", "0"),
)
PARITY = TableSchema(
    (*(Binary(f"b{i}", ("0", "1")) for i in range(12)), Binary("odd", ("no", "yes"))), label="odd"
)


def loans(seed: int, rows: int = ROWS) -> pd.DataFrame:
    """Rows with everything that generators lose."""
    source = np.random.default_rng(seed)
    kind = source.choice(3, rows, p=[0.134, 0.023, 0.843])
    size = source.lognormal(9.5, 1.2, rows).clip(1, 900_000).round()
    bills = [source.lognormal(10, 1, rows)]
    for _ in BILLS[1:]:
        bills.append(0.95 * bills[-1] + 0.05 * source.lognormal(10, 1, rows) + source.normal(0, 6000, rows))
    frame = pd.DataFrame(
        {
            "amount": np.choose(kind, [np.zeros(rows), -size / 10, size]).round(),
            "limit": 10_000 * source.geometric(0.06, rows).clip(1, 100),
            "index": source.choice(4963.6 + np.round(np.linspace(0, 264.5, 11), 1), rows),
            **{name: bill.clip(-100_000, 1_000_000).round() for name, bill in zip(BILLS, bills, strict=True)},
        }
    )
    pressure = source.normal(130, 18, rows).clip(70, 240)
    measured = source.random(rows) < 0.5
    frame["systolic"] = pd.Series(pressure.round()).where(measured).astype("Int64")
    frame["diastolic"] = (
        pd.Series((pressure * 0.62 + source.normal(0, 6, rows)).clip(35, 145).round())
        .where(measured)
        .astype("Int64")
    )
    frame["first"] = source.integers(0, 3000, rows)
    frame["last"] = (frame["first"] + source.exponential(200, rows)).clip(upper=3650).astype(int)
    smokes = source.choice(3, rows, p=[0.7, 0.2, 0.1])
    frame["smokes"] = smokes.astype(str)
    frame["years"] = np.where(smokes > 0, source.integers(1, 45, rows), 0)
    risk = -2 + 0.00001 * bills[0] + 0.5 * smokes - 0.000004 * frame["limit"]
    frame["default"] = np.where(source.random(rows) < 1 / (1 + np.exp(-risk)), "yes", "no")
    return frame


def parity(seed: int, rows: int = ROWS) -> pd.DataFrame:
    """The label is the parity of 3 of 12 columns."""
    bits = np.random.default_rng(seed).integers(0, 2, (rows, 12))
    frame = pd.DataFrame(bits.astype(str), columns=[f"b{i}" for i in range(12)])
    return frame.assign(odd=np.where(bits[:, [1, 5, 8]].sum(axis=1) % 2, "yes", "no"))


def _index_error(frame: pd.DataFrame) -> float:
    real = loans(99)["index"].value_counts(normalize=True)
    return float(real.sub(frame["index"].round(1).value_counts(normalize=True), fill_value=0).abs().sum() / 2)


def _told_apart(frame: pd.DataFrame) -> float:
    """AuROC of boosting that learned to tell these rows from real ones, on other rows of both."""
    both = [encode(one, LOANS) for one in (loans(98), frame)]
    x, y = np.concatenate([one.x for one in both]), np.repeat([0, 1], [len(one.x) for one in both])
    learned = np.random.default_rng(0).random(len(x)) < 0.5
    predict = train(Learner.GRADIENT_BOOSTING, x[learned], y[learned], 2, 0)
    return macro_auroc(y[~learned], predict(x[~learned]))


MEASURES: dict[str, Callable[[pd.DataFrame], float]] = {
    "an amount that is exactly 0, bounds ± 1,000,000: share": lambda f: (f["amount"] == 0).mean(),
    "the same amount negative: share": lambda f: (f["amount"] < 0).mean(),
    "a limit that is a multiple of 10,000: share": lambda f: (f["limit"] % 10_000 == 0).mean(),
    "11 values with one decimal, bounds 4800 to 5400: one-way error": _index_error,
    "correlation of two consecutive bills": lambda f: f["bill_2"].corr(f["bill_3"]),
    "correlation of the first and the last bill": lambda f: f["bill_1"].corr(f["bill_4"]),
    "missing together or not at all, broken: share": lambda f: (
        f["systolic"].isna() != f["diastolic"].isna()
    ).mean(),
    "smokes = 0 but years > 0: share": lambda f: ((f["smokes"] == "0") & (f["years"] > 0)).mean(),
    "first > last: share": lambda f: (f["first"] > f["last"]).mean(),
    "boosting tells real from synthetic, AuROC": _told_apart,
}


def made(schema: TableSchema, frame: pd.DataFrame, epsilon: float, seed: int) -> pd.DataFrame:
    """As many synthetic rows as there are."""
    release = fit(frame, plan(schema, epsilon=epsilon, delta=DELTA, rows=len(frame)))
    drawn = release.sample(len(frame), seed=seed)
    assert isinstance(drawn, pd.DataFrame)
    return drawn


def parity_learned(frame: pd.DataFrame) -> float:
    """AuROC on real rows of boosting that saw these."""
    seen, real = encode(frame, PARITY), encode(parity(97), PARITY)
    assert seen.labels is not None
    assert real.labels is not None
    return macro_auroc(real.labels, train(Learner.GRADIENT_BOOSTING, seen.x, seen.labels, 2, 0)(real.x))


def main() -> None:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ruled = replace(LOANS, rules=RULES)
    drawn: list[list[pd.DataFrame]] = [[loans(0)]]
    drawn += [
        [made(one, loans(0), options.epsilon, run) for run in range(options.runs)] for one in (LOANS, ruled)
    ]
    print(f"| {ROWS:,} rows | real | synthetic, ε = {options.epsilon:g} | with its rules declared |")
    print("|---|---|---|---|")
    for name, measure in MEASURES.items():
        print(f"| {name} | " + " | ".join(_mean([measure(one) for one in frames]) for frames in drawn) + " |")
    odd = _mean([parity_learned(made(PARITY, parity(0), 1.0, run)) for run in range(options.runs)])
    best = _mean([parity_learned(parity(0))])
    print(f"| label = parity of 3 of 12 columns, ε = 1: AuROC of boosting | {best} | {odd} | |")


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()
