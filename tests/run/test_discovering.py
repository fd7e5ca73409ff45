"""Runs that find out what their schema leaves open: paid, drawn once, on the card, and nothing else changes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tiny import TINY_TABLE, stop_after, tiny_frame
from understudy.auditing.listening import Ear, listening
from understudy.certificate import checked_plan
from understudy.data.checking import check
from understudy.discovery.discover import discovered, undescribed_rows
from understudy.door.noise import SeededNoise
from understudy.errors import (
    BudgetError,
    CheckpointError,
    DataError,
    Interrupted,
    PlanError,
    ReleaseError,
    SchemaError,
)
from understudy.evaluation.learners import Learner
from understudy.evaluation.run import evaluate
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan, plan
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.release.release import Card, Release
from understudy.run.checkpoint import Checkpoints, load_checkpoint
from understudy.run.fit import fit
from understudy.schema import (
    DISCOVER,
    Categorical,
    Continuous,
    Integer,
    TableSchema,
    completes,
    with_stand_ins,
)
from understudy.tuning.sweep import Sweep

OPEN = TableSchema(
    (
        Continuous("height", DISCOVER, DISCOVER),
        Integer("visits", 0, DISCOVER),
        Categorical("town", DISCOVER),
        Categorical("outcome", ("well", "ill")),
    ),
    label="outcome",
)
PURPOSES = ("bounds of height", "bounds of visits", "categories of town")
ROWS = 2000


def planned(schema: TableSchema = OPEN, **options: object) -> Plan:
    """A plan with much budget, so that three towns of 2,000 rows are found."""
    settings: dict[str, object] = {"epsilon": 8.0, "delta": 1e-5, "rows": ROWS, "steps": 5}
    return plan(schema, **{**settings, **options})  # type: ignore[arg-type]


PLAN = planned()
FRAME = tiny_frame(ROWS)


def test_what_was_found_is_on_the_card_and_the_plan_stays() -> None:
    """The release describes its records completely, synthetic rows fit, and the plan still says "discover"."""
    release = fit(FRAME, PLAN, insecure_seed=1)
    found = release.schema
    assert isinstance(found, TableSchema)
    assert release.card.plan == PLAN
    assert completes(found, OPEN)
    height, visits, town, _ = found.columns
    assert (town.categories, town.unknown) == (("north", "south", "west", "unknown"), "unknown")  # type: ignore[union-attr]
    assert 0.9 <= height.lower <= 1.0 < 2.0 <= height.upper <= 2.5  # type: ignore[union-attr]
    assert (visits.lower, 29 <= visits.upper <= 33) == (0, True)  # type: ignore[union-attr]
    assert check(release.sample(50, seed=0), found).fits
    assert [one for one in release.card.notes if "rose above" in one] == []


def test_a_saved_release_is_loaded_sampled_and_evaluated_as_any_other(tmp_path: Path) -> None:
    """Its README names what was discovered and how it was paid for."""
    release = fit(FRAME, PLAN, insecure_seed=1)
    again = Release.load(release.save(tmp_path / "release"))
    assert again.schema == release.schema
    assert again.sample(20, seed=3).equals(release.sample(20, seed=3))  # type: ignore[union-attr]
    text = (tmp_path / "release" / "README.md").read_text("utf-8")
    assert "discovered within the budget: town: 4 categories" in text
    assert "Gaussian counts above a threshold" in text
    learner = (Learner.LOGISTIC_REGRESSION,)
    test = tiny_frame(300, seed=9).assign(town="elsewhere")
    result = evaluate(again, test, reference=FRAME, rows=200, learners=learner, seeds=(0,), workers=1)
    assert result.measures


def test_a_private_critic_discovers_too() -> None:
    """Steps are paid from what discovery leaves."""
    made = planned(recipe="dp-cgan", batch=32, steps=3)
    assert made.spent is not None
    assert made.spent.epsilon <= 8.0
    release = fit(FRAME, made)
    assert len(release.sample(5)) == 5


@pytest.mark.parametrize("adjacency", ["add-or-remove-one", "replace-one"])
def test_discovery_is_a_charge_within_the_budget(adjacency: str) -> None:
    """All purposes stand in the plan, in this order and first, the whole stays within ε at the budget's own δ."""
    from understudy.privacy.budget import Adjacency

    made = planned(adjacency=Adjacency(adjacency))
    assert tuple(charge.purpose for charge in made.charges)[:3] == PURPOSES
    assert made.spent is not None
    assert made.spent.epsilon <= 8.0
    assert made.spent.delta == 1e-5
    assert "a category needs about" in str(made)
    assert "a magnitude needs about" in str(made)


def test_what_is_known_costs_nothing() -> None:
    """A complete schema leaves the plan as it was: no charge, no δ set aside."""
    assert planned(TINY_TABLE).charges[0].purpose not in PURPOSES
    loud, quiet = (made.gaussian("column counts") for made in (planned(TINY_TABLE), PLAN))
    assert loud is not None
    assert quiet is not None
    assert loud.noise_multiplier < quiet.noise_multiplier


def test_a_plan_that_does_not_pay_for_discovery_is_refused() -> None:
    """Nor one that pays for texts without a threshold; by the certificate, and by the run itself."""
    for number in range(3):
        lacking = replace(PLAN, charges=PLAN.charges[:number] + PLAN.charges[number + 1 :])
        with pytest.raises(PlanError, match="does not charge"):
            checked_plan(lacking)
        with pytest.raises(PlanError, match="does not charge"):
            fit(FRAME, lacking)
    unshielded = Charge(PURPOSES[2], GaussianRelease(20.0))
    with pytest.raises(PlanError, match="categories of town"):
        checked_plan(replace(PLAN, charges=(*PLAN.charges[:2], unshielded, *PLAN.charges[3:])))


def test_a_forged_delta_of_a_threshold_is_found() -> None:
    """Whoever makes it larger makes the stated ε too small."""
    threshold = PLAN.charges[2]
    larger = replace(threshold, mechanism=replace(threshold.mechanism, delta=9e-6))  # type: ignore[call-arg]
    with pytest.raises(PlanError, match="the charges cost"):
        checked_plan(replace(PLAN, charges=(*PLAN.charges[:2], larger, *PLAN.charges[3:])))


def test_a_card_whose_facts_are_not_those_that_were_open_is_refused() -> None:
    """A schema that changes anything else, a missing one, and one where nothing was open."""
    complete = with_stand_ins(OPEN)
    other = replace(complete, label=None)  # type: ignore[type-var]
    for facts, made in ((None, PLAN), (other, PLAN), (OPEN, PLAN), (complete, planned(TINY_TABLE))):
        with pytest.raises(ReleaseError, match="what was discovered"):
            Card(plan=made, discovered=facts)  # type: ignore[arg-type]
    assert Card(plan=PLAN, discovered=complete).schema == complete


def account(folder: Path, epsilon: float = 8.0, *, create: bool = True) -> LedgerAccount:
    ledger = Ledger(folder / "ledger", create=create)
    ledger.register("ours", Budget(epsilon, 1e-5))
    return LedgerAccount(ledger, "ours", every=2)


def test_the_ledger_is_charged_with_discovery_and_its_delta(tmp_path: Path) -> None:
    """What the ledger counts is what the plan certified; a second run does not fit, and texts are announced first."""
    ours = account(tmp_path)
    fit(FRAME, PLAN, account=ours)
    statement = ours._ledger.statement("ours")
    assert PLAN.spent is not None
    assert statement.spent.epsilon == pytest.approx(PLAN.spent.epsilon, rel=1e-6)
    assert list(statement.entries[0].draws)[:3] == list(PURPOSES)
    with pytest.raises(BudgetError, match="largest ε"):
        fit(FRAME, PLAN, account=account(tmp_path, create=False))


def test_a_resumed_run_knows_what_was_found_and_draws_nothing_twice(tmp_path: Path) -> None:
    """The facts of the checkpoint are those of the release, and each purpose is on record once."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(FRAME, PLAN, account=account(tmp_path), checkpoints=Checkpoints(path, 2), stop=stop_after(2))
    before = load_checkpoint(path)[0].discovered
    assert before is not None
    again = account(tmp_path, create=False)
    release = fit(FRAME, PLAN, account=again, checkpoints=Checkpoints(path, 2, resume=True))
    assert release.schema == before.schema
    draws = again._ledger.statement("ours").entries[0].draws
    assert {draws[purpose] for purpose in PURPOSES} == {1}


def test_a_checkpoint_that_lost_what_was_found_cannot_draw_it_again(tmp_path: Path) -> None:
    """Its record of draws, and the ledger's, refuse."""
    from safetensors.torch import load_file

    from understudy.run.checkpoint import save_checkpoint

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(FRAME, PLAN, checkpoints=Checkpoints(path, 2), stop=stop_after(2))
    state, _ = load_checkpoint(path)
    save_checkpoint(path, replace(state, discovered=None), load_file(path))
    with pytest.raises((BudgetError, CheckpointError)):
        fit(FRAME, PLAN, checkpoints=Checkpoints(path, 2, resume=True))


def test_rows_that_do_not_fit_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    """A cell that is no number, in an open column or in another, costs nothing."""
    for column in ("height", "outcome"):
        ours = account(tmp_path / column)
        broken = FRAME.astype(object)
        broken.loc[7, column] = "tall"
        with pytest.raises(DataError, match=f"column '{column}', row 8"):
            fit(broken, PLAN, account=ours)
        assert ours._ledger.statement("ours").spent.epsilon == 0


def test_few_rows_give_a_guess_and_a_note() -> None:
    """Where nothing rises above the noise, the run still ends with a release that says so."""
    small = planned(epsilon=0.5, delta=1e-3, rows=64)
    release = fit(tiny_frame(64), small, insecure_seed=3)
    assert [one for one in release.card.notes if "column 'town' rose above the noise" in one]
    assert len(release.sample(10)) == 10


def test_a_baseline_finds_everything_without_noise() -> None:
    """It is not private, and its facts are those of the rows."""
    release = fit(FRAME, planned(epsilon=None))
    town = release.schema.columns[2]  # type: ignore[union-attr]
    assert town.categories == ("north", "south", "west", "unknown")  # type: ignore[union-attr]
    assert not release.card.private


def test_public_rows_and_sweeps_need_a_complete_schema() -> None:
    """Public records tell the facts for free, and every run of a sweep would pay anew."""
    with pytest.raises(SchemaError, match="Public records tell it for free"):
        fit(FRAME, planned(recipe="dp-cgan", steps=2, batch=16), public=tiny_frame(20))
    with pytest.raises(SchemaError, match="pay for it anew"):
        Sweep(data="a", test="b", schema=OPEN, recipe=PLAN.recipe, delta=1e-5, rows=ROWS)


def visits(rows: int, seed: int) -> pd.DataFrame:
    """Patients with one to four visits."""
    frame = tiny_frame(rows, seed)
    return frame.assign(patient=np.random.default_rng(seed).integers(0, rows // 2, rows))


PERSONS = replace(OPEN, person="patient", max_rows_per_person=4)


def test_persons_are_what_is_counted_and_protected() -> None:
    """The plan counts patients, and finds what patients have; the patient is neither described nor written."""
    made = planned(PERSONS, rows=1000)
    assert "a category needs about" in str(made)
    assert "patients" in next(line for line in str(made).splitlines() if "categories of town" in line)
    release = fit(visits(ROWS, 0), made, insecure_seed=2)
    assert release.schema.columns[2].categories == ("north", "south", "west", "unknown")  # type: ignore[union-attr]
    assert "patient" not in release.sample(10, seed=0)


def asked(frame: pd.DataFrame, persons: Any) -> list[np.ndarray]:
    """All exact sums that discovery would publish."""
    rows = undescribed_rows(frame, PERSONS, persons)
    ear = Ear()
    door = listening(ear)(rows, PLAN.run_charges, SeededNoise(0), insecure=True)
    discovered(door, PERSONS)
    texts = dict(zip(ear.draws[2].words, ear.draws[2].before, strict=True))
    known = np.array([texts.get(town, 0.0) for town in ("north", "south", "west", *OWN)])
    return [ear.draws[0].before, ear.draws[1].before, known]


OWN = tuple(f"own {number}" for number in range(9))
HOSTILE = {
    "the same extreme row four times": [(1e300, 30, "own 0")] * 4,
    "four towns of their own": [(1.5, 3, town) for town in OWN[:4]],
    "more rows than one may have": [(-float(i), i, OWN[i]) for i in range(9)],
    "nine equal rows": [(1.5, 3, "north")] * 9,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_whole_hostile_person_moves_the_sums_by_one_row(what: str) -> None:
    """With any number of rows, extreme or alike, a person moves bounds by √3 and towns by 1, in any order of rows."""
    frame = visits(60, 3)
    persons = frame["patient"].to_numpy()
    rows = pd.DataFrame(HOSTILE[what], columns=["height", "visits", "town"])
    more = pd.concat([frame, rows], ignore_index=True)
    numbers = np.append(persons, [10_000] * len(rows))
    base = asked(frame, persons)
    for order in (np.arange(len(more)), np.random.default_rng(0).permutation(len(more))):
        found = asked(more.iloc[order], numbers[order])
        moved = [float(np.linalg.norm(one - other)) for one, other in zip(found, base, strict=True)]
        assert moved[0] <= math.sqrt(3) * (1 + 1e-9)
        assert moved[1] <= math.sqrt(3) * (1 + 1e-9)
        assert moved[2] <= 1 + 1e-9


def test_which_rows_of_a_person_take_part_depends_on_that_person_alone() -> None:
    """Neither other people's texts nor the order of rows change it, though texts are numbered by both."""
    mine = pd.DataFrame([(float(i), i, f"ward {i}") for i in range(9)], columns=["height", "visits", "town"])
    kept = []
    for others in (["a", "b"], [f"x{i}" for i in range(50)]):
        rest = pd.DataFrame({"height": 1.0, "visits": 1, "town": others})
        frame = pd.concat([rest, mine.iloc[::-1] if len(others) > 2 else mine], ignore_index=True)
        numbers = np.array([*range(len(others)), *[999] * 9])
        rows = undescribed_rows(frame, PERSONS, numbers)
        assert rows.persons is not None
        chosen = rows.persons.rows_of(torch.tensor([len(rows.persons) - 1]))[0]
        kept.append({frame["town"].iloc[int(row)] for row in chosen})
    assert kept[0] == kept[1]
    assert len(kept[0]) == 4
