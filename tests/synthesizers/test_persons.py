"""Every synthesizer with a schema that names persons: a whole person, however hostile, is bounded as one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from tiny import TINY_IMAGES, TINY_TABLE
from understudy.auditing.configuration import audit
from understudy.auditing.rehearsal import rehearsal_readings, rehearse_with_canaries
from understudy.auditing.step import Thoroughness
from understudy.auditing.verdict import Outcome
from understudy.door import door as doors
from understudy.door import persons as grouping
from understudy.door.noise import SeededNoise
from understudy.door.query import Batch
from understudy.dpsgd import step
from understudy.errors import ContractError, DataError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.entries import Status
from understudy.ledger.ledger import Ledger
from understudy.planning import plan
from understudy.privacy.budget import Budget
from understudy.records.images import Images
from understudy.run.fit import fit
from understudy.schema import Binary, CodeSchema, LongFile, Schema
from understudy.synthesizers.codes.recipe import UNDERSTUDY_CODES
from understudy.synthesizers.contract import check_synthesizer
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES, MeanEmbedding, UpsamplingGenerator
from understudy.synthesizers.gan.parts import ConvCritic, PublicWarmStart
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.marginals.recipe import UNDERSTUDY_TABLES
from understudy.synthesizers.registry import RECIPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from understudy.synthesizers.protocol import Recipe

MOST = 3
CODES = tuple(f"c{number}" for number in range(9))
TABLE = replace(TINY_TABLE, person="patient_id", max_rows_per_person=MOST)
IMAGES = replace(TINY_IMAGES, person="patient_id", max_rows_per_person=MOST)
COUNTED = CodeSchema(
    CODES,
    max_count=4,
    label=Binary("dead", ("no", "yes")),
    person="patient_id",
    max_rows_per_person=MOST,
)
SCHEMAS: dict[str, Schema] = {"table": TABLE, "images": IMAGES, "codes": COUNTED}
OWN: dict[str, Recipe] = {
    "table": replace(UNDERSTUDY_TABLES, components=5),
    "codes": replace(UNDERSTUDY_CODES, components=5),
    "images": replace(
        UNDERSTUDY_IMAGES,
        embedding=MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7),
        generator=UpsamplingGenerator(hidden=(8,), channels=2),
        batch=8,
    ),
}


def small(name: str) -> Recipe:
    """A paper's GAN with few channels or units and a short warm start."""
    recipe = RECIPES[name]
    assert isinstance(recipe, GanRecipe)
    few = 2 if isinstance(recipe.critic, ConvCritic) else 8
    parts = {"critic": recipe.critic, "generator": recipe.generator}
    changes: dict[str, Any] = {part: value.with_capacity(few) for part, value in parts.items()}
    if recipe.warm_start is not None:
        changes["warm_start"] = PublicWarmStart(steps=2, batch=2)
    return replace(recipe, **changes)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_our_own_recipes_keep_the_contract_with_persons(kind: str) -> None:
    """Whole persons of k extreme rows, of k + 5 rows and of no numbers move no sum by more than is claimed."""
    check_synthesizer(OWN[kind], SCHEMAS[kind], rows=12)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dp-cgan", "table"),
        ("dp-cgan", "codes"),
        ("dp-cgan", "images"),
        ("dp-cgan-basic", "images"),
        ("dp-cgan-tf2-m1", "images"),
        ("dp-cgan-tf2-split", "images"),
        ("dp-gan", "table"),
        ("ppgan", "codes"),
    ],
)
def test_the_papers_recipes_keep_the_contract_with_persons(name: str, kind: str) -> None:
    """So do the papers' GANs: in pairs, in microbatches, with public bounds and with penalties."""
    check_synthesizer(small(name), SCHEMAS[kind], rows=12)


def rows_in_full(patch: pytest.MonkeyPatch) -> None:
    """Rows are bounded, and those of a person are not: each weighs as much as a whole person."""
    patch.setattr(grouping, "_share", lambda rows: 1.0)


def all_rows(patch: pytest.MonkeyPatch) -> None:
    """A person with more than k rows takes part with all of them, each with the k-th part of the weight."""
    plain = grouping.Persons.of
    patch.setattr(grouping.Persons, "of", lambda numbers, most, *rows: plain(numbers, most + 5, *rows))
    patch.setattr(grouping, "_share", lambda rows: 1.0 / min(rows, MOST))


@pytest.mark.parametrize(("planted", "kind"), [(rows_in_full, "codes"), (all_rows, "table")])
def test_a_bound_per_row_breaks_the_contract(
    planted: Callable[[pytest.MonkeyPatch], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bugs move sums by more than is claimed, and the contract says so."""
    planted(monkeypatch)
    with pytest.raises(ContractError, match="one person moves the sums by"):
        check_synthesizer(OWN[kind], SCHEMAS[kind], rows=12)


def test_a_person_split_over_batches_breaks_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rows of a person are clipped in two batches, the contract of a GAN says so."""

    def split(self: step.ClippedGradients, sums: list[Tensor], batch: Batch) -> None:
        for row in range(len(batch)):
            labels = None if batch.labels is None else batch.labels[row : row + 1]
            self.add(sums, Batch(batch.x[row : row + 1], labels, batch.chance))

    monkeypatch.setattr(step.ClippedGradients, "add_persons", split)
    with pytest.raises(ContractError, match="one person moves the sums by"):
        check_synthesizer(small("dp-cgan"), TABLE, rows=12)


def found(recipe: Recipe, schema: Schema) -> dict[str, Outcome]:
    """What the rehearsal with whole persons as canaries says of each charge."""
    made = plan(schema, epsilon=2.0, delta=1e-3, rows=200, recipe=recipe)
    seeds = itertools.count(7)
    seen = rehearse_with_canaries(made, schema, lambda: SeededNoise(next(seeds)), canaries=6)
    return {reading.name: reading.outcome for reading in rehearsal_readings(seen, 1e-6)}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_an_audit_with_a_whole_person_as_canary(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit passes with persons as canaries, and fails where only their rows are bounded."""
    assert set(found(OWN[kind], SCHEMAS[kind]).values()) == {Outcome.PASS}
    rows_in_full(monkeypatch)
    assert Outcome.FAIL in found(OWN[kind], SCHEMAS[kind]).values()


def test_the_whole_audit_of_a_gan_passes_with_persons() -> None:
    """Everything that `audit` looks at, for a table whose rows are of persons."""
    recipe = replace(small("dp-cgan"), steps=3, noise_multiplier=2.0, batch=8)  # type: ignore[type-var]
    made = plan(TABLE, epsilon=4.0, delta=1e-3, rows=60, recipe=recipe)
    how = Thoroughness(rounds=40, opposed_rounds=40, training_rounds=40, sampler_rounds=40)
    assert audit(made, thoroughness=how, seed=0).verdict.outcome is not Outcome.FAIL


def visits(seed: int = 0) -> pd.DataFrame:
    """Forty patients with one to five rows each, in any order."""
    source = np.random.default_rng(seed)
    patients = np.repeat(np.arange(40), source.integers(1, 6, 40))
    from tiny import tiny_frame

    return tiny_frame(len(patients), seed).assign(patient_id=patients)


def test_the_order_of_rows_in_a_file_does_not_matter() -> None:
    """The same rows in another order give the same release, although some patients have more than k of them."""
    recipe = replace(OWN["table"], steps=2)  # type: ignore[type-var]
    made = plan(TABLE, epsilon=3.0, delta=1e-3, rows=40, recipe=recipe)
    frame = visits()
    releases = [
        fit(rows, made, insecure_seed=1).weights for rows in (frame, frame.sample(frac=1.0, random_state=3))
    ]
    assert all(bool((value == releases[1][name]).all()) for name, value in releases[0].items())


def test_the_person_is_neither_modelled_nor_written() -> None:
    """No synthetic row has the column, and its values are nowhere in card and weights."""
    recipe = replace(OWN["table"], steps=2)  # type: ignore[type-var]
    made = plan(TABLE, epsilon=3.0, delta=1e-3, rows=40, recipe=recipe)
    frame = visits()
    frame["patient_id"] = "patient-no-" + frame["patient_id"].astype(str)
    release = fit(frame, made)
    assert list(release.sample(5).columns) == [column.name for column in TABLE.columns]  # type: ignore[union-attr]
    assert "patient-no" not in repr(release.card)


def test_data_without_the_person_is_refused(tmp_path: Path) -> None:
    """A table without the column, and images without the array, cannot be protected by person; nothing is spent."""
    made = plan(TABLE, epsilon=3.0, delta=1e-3, rows=40)
    with Ledger(tmp_path / "book.db", create=True) as book:
        book.register("ward", Budget(9.0, 1e-3))
        with pytest.raises(
            DataError, match="'patient_id' tells persons apart, and the data has no such column"
        ):
            fit(visits().drop(columns="patient_id"), made, account=LedgerAccount(book, "ward"))
        assert [entry.status for entry in book.statement("ward").entries] == [Status.REFUNDED]
    images = Images(np.zeros((4, 8, 8, 1), np.uint8), np.zeros(4, np.int64))
    with pytest.raises(DataError, match="no such array"):
        fit(images, plan(IMAGES, epsilon=3.0, delta=1e-3, rows=40))


def test_visits_of_patients_are_records_of_code_sets() -> None:
    """In a long file the visits of a patient are records, and the patient is what is protected."""
    schema = CodeSchema(CODES, long=LongFile("visit_id", "code"), person="patient_id", max_rows_per_person=2)
    rows = pd.DataFrame(
        {
            "patient_id": [1, 1, 1, 2, 2, 3],
            "visit_id": [1, 1, 2, 1, 1, 1],
            "code": ["c0", "c1", "c2", "c0", "c3", None],
        }
    )
    from understudy.data import read
    from understudy.door.source import Rows
    from understudy.records.encode import encode

    held = Rows.of(encode(read(rows, schema), schema), schema)
    assert held.persons is not None
    assert held.people == 3
    assert held.persons.starts.diff().tolist() == [2, 1, 1]
    assert sorted(held.x.sum(1).tolist()) == [0.0, 1.0, 2.0, 2.0]  # type: ignore[union-attr]


def test_poisson_batches_hold_whole_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door asks for so many persons as the plan's rate says of them, never for rows."""
    asked: list[int] = []
    plain = doors.poisson_indices
    monkeypatch.setattr(
        doors, "poisson_indices", lambda rows, *rest: asked.append(rows) or plain(rows, *rest)
    )
    recipe = replace(small("dp-cgan"), steps=2, noise_multiplier=2.0, batch=8)  # type: ignore[type-var]
    fit(visits(), plan(TABLE, epsilon=4.0, delta=1e-3, rows=40, recipe=recipe))
    assert asked == [40, 40]


def test_the_labeller_clips_a_person_as_one() -> None:
    """Its sum over persons equals the clipped mean gradients, made whole person by person."""
    import torch

    from understudy.synthesizers.embedding.labeller import MARGIN
    from understudy.synthesizers.embedding.queries import LabellerGradient

    source, owners = torch.Generator().manual_seed(0), torch.tensor([0, 1, 1, 1, 2, 2, 3])
    x, labels = torch.randn(7, 5, generator=source), torch.tensor([0, 1, 2, 0, 1, 1, 2])
    query = LabellerGradient(torch.randn(5, 3, generator=source), 0.4)
    sums = query.zero()
    query.add_persons(sums, Batch(x, labels, SeededNoise(0), owners))
    expected = torch.zeros(5, 3, dtype=torch.float64)
    for person in range(4):
        own = person == owners
        loose = LabellerGradient(query._head, 1e9)
        whole = loose.zero()
        loose.add(whole, Batch(x[own], labels[own], SeededNoise(0)))
        mean = whole[0] * MARGIN / own.sum()
        expected += mean * min(1.0, 0.4 / float(mean.norm())) / MARGIN
    assert torch.allclose(sums[0], expected, rtol=1e-9, atol=1e-12)
