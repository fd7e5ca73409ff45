"""Rows with given values: exact for a mixture, within the rules, and refused where they cannot be had."""

from __future__ import annotations

import datetime as dt
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from understudy.cli import app
from understudy.errors import ReleaseError
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.records.rules import broken
from understudy.release.completing import AT_ONCE, complete_chunks, partial_rows
from understudy.release.release import Release
from understudy.release.sampling import sample_chunks
from understudy.release.weights import model_with
from understudy.run.fit import fit
from understudy.schema import Categorical, Continuous, Datetime, Implied, Integer, Sum, TableSchema
from understudy.synthesizers.marginals.model import TableModel

SCHEMA = TableSchema(
    (
        Categorical("sex", ("f", "m")),
        Integer("age", 0, 110),
        Categorical("ward", ("a", "b|c", "missing kind"), missing=True),
        Continuous("weight", 0, 150, missing=True),
        Datetime("seen", dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
        Categorical("outcome", ("well", "ill", "dead")),
    ),
    label="outcome",
)
CERTAIN = 1e-6
"""The least p-value that passes."""


def people(rows: int) -> pd.DataFrame:
    """Rows whose columns hang together, with round ages."""
    source = np.random.default_rng(0)
    age = source.integers(0, 111, rows)
    age = np.where(source.random(rows) < 0.4, age // 10 * 10, age)
    old = age > 60
    ward = np.where(
        old, source.choice(["a", "b|c"], rows, p=[0.9, 0.1]), source.choice(["b|c", "missing kind"], rows)
    )
    weight = np.where(old, 60, 90) + source.normal(0, 5, rows)
    return pd.DataFrame(
        {
            "sex": source.choice(["f", "m"], rows),
            "age": age,
            "ward": np.where(source.random(rows) < 0.2, None, ward),
            "weight": np.where(source.random(rows) < 0.1, np.nan, weight),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(source.integers(0, 366, rows), unit="D"),
            "outcome": np.where(
                old, source.choice(["ill", "dead"], rows), source.choice(["well", "ill"], rows)
            ),
        }
    )


@cache
def release(recipe: str = "understudy") -> Release:
    few = {"batch": 8, "noise_multiplier": 5.0} if recipe != "understudy" else {}
    made = plan(SCHEMA, epsilon=5.0, rows=3000, recipe=recipe, steps=12, **few)  # type: ignore[arg-type]
    return fit(people(3000), made, insecure_seed=1)


def drawn(rows: int, **asked: object) -> pd.DataFrame:
    found = release().sample(rows, seed=3, **asked)  # type: ignore[arg-type]
    assert isinstance(found, pd.DataFrame)
    assert len(found) == rows
    return found


@cache
def ages_by_component() -> tuple[np.ndarray, TableModel, np.ndarray]:
    """For each class and component the chance of every age, by going through every place and roundness."""
    card = release().card
    model = model_with(release().weights, card.plan.recipe, SCHEMA)
    assert isinstance(model, TableModel)
    known = model.known[1]
    assert known.outcomes is not None
    assert known.round_shares is not None
    assert known.column.grid is not None
    stretches, grid = known.outcomes.stretches, known.column.grid
    within = np.zeros((known.width, grid.size))
    for start, length, mass, which in zip(
        stretches.starts, stretches.lengths, stretches.masses, known.outcomes.which, strict=True
    ):
        for place in range(start, start + length):
            for stride, share in zip((1, *grid.strides), known.round_shares, strict=True):
                at = np.array([place])
                end = at if stride == 1 or length == 1 else grid.made_round(at, stride)
                within[which, end[0]] += max(mass, 1e-12 * length) * share / length
    within /= within.sum(axis=1, keepdims=True)
    first = sum(one.width for one in model.known[:1])
    chances = model.chances.astype(float)[:, :, first : first + known.width]
    assert card.label_weights is not None
    joint = model.shares.astype(float) * (np.array(card.label_weights) / sum(card.label_weights))[:, None]
    return chances @ within, model, joint


def chances_of(model: TableModel, place: int) -> np.ndarray:
    first = sum(one.width for one in model.known[:place])
    return model.chances.astype(float)[:, :, first : first + model.known[place].width]


def p_value(counts: np.ndarray, chances: np.ndarray) -> float:
    """Of the test of χ², cells of fewer than five expected rows put together."""
    expected = chances / chances.sum() * counts.sum()
    small = expected < 5
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], max(expected[small].sum(), 1e-9))
    if expected[-1] < 1 and counts[-1] == 0:
        counts, expected = counts[:-1], expected[:-1] * counts.sum() / expected[:-1].sum()
    return float(stats.chisquare(counts, expected).pvalue)


def test_what_was_not_given_follows_the_exact_posterior() -> None:
    """Wards, outcomes and ages of women of 57 to 73 have the posterior's chances, and no others."""
    ages, model, joint = ages_by_component()
    rows = drawn(20_000, given={"sex": "f", "age": (57, 73)})
    assert set(rows["sex"]) == {"f"}
    assert rows["age"].between(57, 73).all()
    sex, ward = chances_of(model, 0)[:, :, 0], chances_of(model, 2)
    posterior = joint * sex * ages[:, :, 57:74].sum(axis=-1)
    wards = rows["ward"].fillna("-").map({"a": 0, "b|c": 1, "missing kind": 2, "-": 3})
    counts = np.bincount(wards, minlength=4)
    assert p_value(counts, np.einsum("ck,cko->o", posterior, ward)) > CERTAIN
    assert p_value(counts, np.einsum("ck,cko->o", joint, ward)) < 1e-9
    assert p_value(counts, np.einsum("ck,cko->o", joint * sex, ward)) < 1e-9
    classes = np.bincount(rows["outcome"].map({"well": 0, "ill": 1, "dead": 2}), minlength=3)
    assert p_value(classes, posterior.sum(axis=1)) > CERTAIN
    assert p_value(classes, joint.sum(axis=1)) < 1e-9
    of_age = np.einsum("ck,cka->a", joint * sex, ages[:, :, 57:74])
    found = np.bincount(rows["age"] - 57, minlength=17)
    assert p_value(found, of_age) > CERTAIN
    assert p_value(found, np.roll(of_age, 1)) < 1e-9


def test_ranges_lists_missing_values_and_dates() -> None:
    """Every form of a condition holds in every row, as text and as Python values."""
    rows = drawn(500, given={"age": "..20|80|90..", "ward": "missing|a", "seen": "2024-03-01..2024-03-31"})
    assert ((rows["age"] <= 20) | (rows["age"] == 80) | (rows["age"] >= 90)).all()
    assert set(rows["ward"].fillna("-")) == {"-", "a"}
    assert rows["seen"].between(pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-31")).all()
    again = drawn(
        500,
        given={
            "age": [(None, 20), 80, (90, None)],
            "ward": [None, "a"],
            "seen": (dt.date(2024, 3, 1), dt.date(2024, 3, 31)),
        },
    )
    pd.testing.assert_frame_equal(rows, again)
    assert set(drawn(50, given={"ward": "b|c"})["ward"]) == {"b|c"}
    assert drawn(50, given={"weight": None})["weight"].isna().all()
    assert drawn(200, given={"weight": "59.5..60.25"})["weight"].between(59.5 - 1e-5, 60.25 + 1e-5).all()


def test_counts_and_balance_beside_conditions() -> None:
    """Chosen classes stand, and any discrete column comes in equal numbers."""
    rows = drawn(30, counts={"ill": 10, "dead": 20}, given={"age": (0, 40)})
    assert rows["outcome"].tolist() == ["ill"] * 10 + ["dead"] * 20
    assert (rows["age"] <= 40).all()
    assert drawn(31, balance="outcome", given={"sex": "m"})["outcome"].value_counts().to_dict() == {
        "well": 11,
        "ill": 10,
        "dead": 10,
    }
    assert drawn(30, balance="ward")["ward"].value_counts().tolist() == [10, 10, 10]
    assert set(drawn(30, balance="outcome", given={"outcome": "ill|dead"})["outcome"]) == {"ill", "dead"}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"given": {"colour": "red"}}, "no column 'colour'"),
        ({"given": {"sex": "x"}}, "is not in the schema"),
        ({"given": {"sex": "missing"}}, "never missing|not in the schema"),
        ({"given": {"age": None}}, "never missing"),
        ({"given": {"age": "70..60"}}, "ends before it begins"),
        ({"given": {"age": "200..300"}}, "age=200..300: the generator makes no such records"),
        ({"given": {"age": "old"}}, "is not a number"),
        ({"given": {"age": []}}, "no value is given"),
        ({"balance": "age"}, "listed values"),
        ({"balance": "sex", "label": "ill"}, "not both"),
        ({"given": {"outcome": "ill"}, "label": "ill"}, "not both"),
    ],
)
def test_conditions_that_cannot_be_kept_are_refused(asked: dict[str, object], why: str) -> None:
    """One sentence says which, before any row is made."""
    with pytest.raises(ReleaseError, match=why):
        release().sample(10, **asked)  # type: ignore[arg-type]


def test_other_generators_refuse() -> None:
    """A critic's generator cannot be asked for values, and says so."""
    with pytest.raises(ReleaseError, match="in one piece"):
        release("dp-cgan").sample(10, given={"sex": "f"})
    with pytest.raises(ReleaseError, match="in one piece"):
        release("dp-cgan").complete(pd.DataFrame({"sex": ["f"]}))


def test_a_completed_row_keeps_its_cells_and_the_rest_follows_the_posterior() -> None:
    """Filled cells come back as they were; outcomes of the empty ones have the chances that the filled ones give."""
    ages, model, joint = ages_by_component()
    partial = pd.DataFrame(
        {
            "age": ["70"] * 6000 + [""] * 4,
            "ward": ["a"] * 6000 + ["missing", "a", "", "b|c"],
            "weight": ["61.23456789"] * 6004,
        }
    )
    rows = release().complete(partial, seed=1)
    assert list(rows.columns) == [column.name for column in SCHEMA.columns]
    assert (rows["age"][:6000] == 70).all()
    assert (rows["weight"] == 61.23456789).all()
    assert rows["ward"].fillna("-").tolist()[-4:-2] == ["-", "a"]
    weight = model.known[3].outcome(encoded_weight(61.23456789))[0]
    posterior = joint * ages[:, :, 70] * chances_of(model, 2)[:, :, 0] * chances_of(model, 3)[:, :, weight]
    classes = np.bincount(rows["outcome"][:6000].map({"well": 0, "ill": 1, "dead": 2}), minlength=3)
    assert p_value(classes, posterior.sum(axis=1)) > CERTAIN
    assert p_value(classes, (joint * ages[:, :, 70]).sum(axis=1)) < 1e-9


def encoded_weight(value: float) -> np.ndarray:
    """A record with this weight."""
    frame = people(1).assign(weight=value)
    return encode(frame, SCHEMA).x


def test_completing_streams_and_names_the_row_of_a_wrong_cell(tmp_path: Path) -> None:
    """Pieces come one by one, and an error counts rows from the start of the file."""
    path = tmp_path / "partial.csv"
    lines = ["sex,age", *["f,"] * AT_ONCE, "m,40", "m,400"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    chunks = complete_chunks(release(), partial_rows(path, SCHEMA), seed=1)
    assert set(next(chunks)["sex"]) == {"f"}
    with pytest.raises(ReleaseError, match=rf"column 'age', row {AT_ONCE + 2}: the value lies outside"):
        next(chunks)
    with pytest.raises(ReleaseError, match="no column 'colour'"):
        release().complete(pd.DataFrame({"colour": ["red"]}))


def test_conditions_stream() -> None:
    """A large draw comes in pieces, the first of them before the last is made."""
    chunks = sample_chunks(release(), 10**9, given={"sex": "f"}, seed=1)
    assert 0 < len(next(chunks)) < 10**6  # type: ignore[arg-type]


def test_rules_and_conditions_hold_together() -> None:
    """Mending a rule breaks no condition: totals lie in the range asked for, completed rows keep their cells."""
    rules = (Sum("all", ("men", "women")), Implied("smokes", "0", "years", "0"))
    schema = TableSchema(
        (
            Integer("men", 0, 10),
            Integer("women", 0, 10),
            Integer("all", 0, 20),
            Categorical("smokes", ("0", "1")),
            Integer("years", 0, 40),
        ),
        rules=rules,
    )
    source = np.random.default_rng(0)
    frame = pd.DataFrame(source.integers(0, 11, (500, 2)), columns=["men", "women"])
    frame["all"] = frame.sum(axis=1)
    frame["smokes"] = source.choice(["0", "1"], 500)
    frame["years"] = np.where(frame["smokes"] == "0", 0, source.integers(1, 40, 500))
    made = fit(frame, plan(schema, epsilon=5.0, rows=500, steps=4), insecure_seed=1)
    rows = made.sample(2000, given={"all": (8, 12), "years": (5, 30)}, seed=1)
    assert isinstance(rows, pd.DataFrame)
    assert rows["all"].between(8, 12).all()
    assert rows["years"].between(5, 30).all()
    whole = made.complete(pd.DataFrame({"all": [9] * 40, "men": [4] * 40, "years": [7] * 40}), seed=1)
    assert (whole[["all", "men", "years"]].to_numpy() == [9, 4, 7]).all()
    for rule in rules:
        assert not broken(rows, rule).any()
        assert not broken(whole, rule).any()
    with pytest.raises(ReleaseError, match="row 1: nothing was found that completes it"):
        made.complete(pd.DataFrame({"all": [20], "men": [1]}), seed=1)


def test_the_command_line_takes_conditions_and_partial_rows(tmp_path: Path) -> None:
    """`sample --given … --balance …` and `--complete` write the rows that were asked for; both together are refused."""
    folder = release().save(tmp_path / "release")
    out, partial = tmp_path / "out.csv", tmp_path / "partial.csv"
    options = ["--rows", "20", "--given", "age=60..70", "--given", "ward=missing", "--balance", "sex"]
    done = CliRunner().invoke(app, ["sample", str(folder), *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    rows = pd.read_csv(out)
    assert rows["age"].between(60, 70).all()
    assert rows["ward"].isna().all()
    assert rows["sex"].tolist() == ["f"] * 10 + ["m"] * 10
    partial.write_text("sex,age\nm,\n,33\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["sample", str(folder), "--complete", str(partial), "--out", str(out)])
    assert done.exit_code == 0, done.output
    whole = pd.read_csv(out)
    assert (whole["sex"][0], whole["age"][1], len(whole)) == ("m", 33, 2)
    both = ["--complete", str(partial), "--given", "sex=f", "--out", str(out)]
    assert CliRunner().invoke(app, ["sample", str(folder), *both]).exit_code == 2


def test_several_sets_differ_and_come_again_with_their_seeds(tmp_path: Path) -> None:
    """`--sets 2` writes two files, the second that of the next seed; one stream cannot hold them."""
    folder = release().save(tmp_path / "release")
    asked = ["sample", str(folder), "--rows", "5", "--seed", "7", "--sets", "2"]
    done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "rows.csv")])
    assert done.exit_code == 0, done.output
    one, two = ((tmp_path / f"rows-{number}.csv").read_text() for number in (1, 2))
    assert one != two
    again = ["sample", str(folder), "--rows", "5", "--seed", "8", "--out", str(tmp_path / "again.csv")]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert (tmp_path / "again.csv").read_text() == two
    assert CliRunner().invoke(app, [*asked, "--out", "-"]).exit_code == 2


def test_conditions_over_http() -> None:
    """The address takes the same conditions, repeated, and a column to balance."""
    client = pytest.importorskip("starlette.testclient")
    from understudy.serving import release_app

    served = client.TestClient(release_app(release(), hosts=frozenset({"testserver"})))
    answer = served.get("/sample?rows=10&given=age=60..70&given=ward=missing&balance=sex&format=json")
    rows = pd.DataFrame(answer.json())
    assert rows["age"].between(60, 70).all()
    assert rows["ward"].isna().all()
    assert rows["sex"].tolist() == ["f"] * 5 + ["m"] * 5
