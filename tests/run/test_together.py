"""One run in several processes: the same result, one account, one writer, and no record twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from several import together
from tiny import TINY_IMAGES, TINY_TABLE, stop_after, tiny_frame, tiny_images, tiny_plan
from understudy.auditing.listening import Ear, listening
from understudy.door.noise import SeededNoise
from understudy.door.ranks import Ranks
from understudy.door.source import Rows
from understudy.errors import DataError, Interrupted, RanksError, UnderstudyError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan, plan
from understudy.privacy.budget import Budget
from understudy.records.encode import Encoded
from understudy.run import fit as fit_module
from understudy.run.checkpoint import Checkpoints, load_checkpoint
from understudy.run.fit import fit_together
from understudy.run.run import Run
from understudy.run.shards import Shards, dealt, own_part
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import Binary, CodeSchema, Schema
from understudy.synthesizers.codes.recipe import UNDERSTUDY_CODES
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES, MeanEmbedding, UpsamplingGenerator
from understudy.synthesizers.marginals.recipe import UNDERSTUDY_TABLES

ROWS = 64
CODES = CodeSchema(tuple(f"c{number}" for number in range(9)), label=Binary("dead", ("no", "yes")))
IMAGES = replace(
    UNDERSTUDY_IMAGES,
    embedding=MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7),
    generator=UpsamplingGenerator(hidden=(8,), channels=2),
    batch=8,
)
KINDS: dict[str, tuple[Schema, Any, dict[str, Any]]] = {
    "tables": (TINY_TABLE, replace(UNDERSTUDY_TABLES, components=5), {}),
    "codes": (CODES, replace(UNDERSTUDY_CODES, components=5), {}),
    "images": (TINY_IMAGES, IMAGES, {}),
    "gan": (TINY_TABLE, "dp-cgan", {"batch": ROWS}),
}


class WithoutNoise(SeededNoise):
    """Scales and adds nothing."""

    def perturb(self, tensors: Any, scale: float, factor: float) -> None:
        for one in tensors:
            one.mul_(factor)


@pytest.fixture(autouse=True)
def _one_thread_seeds_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks are threads here, and torch's global source of random numbers belongs to one at a time."""
    lock, honest = threading.RLock(), torch.random.fork_rng

    @contextmanager
    def locked(*arguments: Any, **options: Any) -> Iterator[None]:
        with lock, honest(*arguments, **options):
            yield

    monkeypatch.setattr(torch.random, "fork_rng", locked)


def own_plan(kind: str, **options: Any) -> tuple[Plan, Rows]:
    schema, recipe, more = KINDS[kind]
    settings = {"epsilon": 5.0, "delta": 1e-3, "rows": None, "steps": 3, "recipe": recipe, **more, **options}
    if kind == "gan":
        settings["rows"] = ROWS
    return plan(schema, **settings), stand_in_rows(schema, ROWS, 0)


@pytest.fixture
def tolerance(kind: str) -> Iterator[float]:
    """How far sums may differ: a record's own numbers hang on its batch in float32, by how a matrix product is cut.

    So a critic is built in float64; what wavelets give stays in float32, and counts are whole numbers.
    """
    torch.set_default_dtype(torch.float64 if kind == "gan" else torch.float32)
    yield 1e-6 if kind == "images" else 1e-12
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_one_two_and_five_processes_give_the_same_result(kind: str, tolerance: float) -> None:
    """Without noise, and with all records in every batch, sums agree to 1e-12 and what is trained agrees bit by bit."""
    made, rows = own_plan(kind)

    def work(ranks: Ranks) -> tuple[Ear, dict[str, torch.Tensor]]:
        ear = Ear()
        run = Run(made, seed=3, noise=WithoutNoise(0), door=listening(ear), ranks=ranks)
        own = slice(ranks.rank, None, ranks.size)
        run.open(Rows(rows.x[own], None if rows.labels is None else rows.labels[own]), None)
        run.train(None)
        return ear, run.state()

    alone, state = together(1, work)[0]
    assert len(alone.draws) >= 3
    for size in (2, 5):
        (ear, same), *others = together(size, work)
        for one, other in zip(alone.draws, ear.draws, strict=True):
            assert np.allclose(one.before, other.before, rtol=tolerance, atol=tolerance), one.purpose
        if kind != "images":
            assert all(torch.equal(value, same[name]) for name, value in state.items())
        if kind == "gan":  # whose steps are all private, so that every process takes them
            assert all(torch.equal(value, each[name]) for _, each in others for name, value in state.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_in_one_shard_moves_each_sum_by_its_sensitivity_at_most(kind: str) -> None:
    """The audit of shards: with one history, a record more in the second process moves no sum beyond its bound."""
    made, rows = own_plan(kind)
    multipliers = {one.purpose: one.mechanism.noise_multiplier for one in made.run_charges}

    def heard(ear: Ear, without: int | None) -> Ear:
        def work(ranks: Ranks) -> None:
            own = np.arange(ranks.rank, ROWS, ranks.size)
            own = own[own != without]
            run = Run(
                made,
                seed=3,
                noise=WithoutNoise(0),
                door=listening(ear if ranks.first else Ear()),
                ranks=ranks,
            )
            run.open(Rows(rows.x[own], None if rows.labels is None else rows.labels[own]), None)
            run.train(None)

        together(2, work)
        return ear

    whole = heard(Ear(), None)
    less = heard(Ear(whole.draws), ROWS - 1)  # a record of the second process
    moved = [
        np.linalg.norm(one.before - other.before) / (one.scale / multipliers[one.purpose])
        for one, other in zip(whole.draws, less.draws, strict=True)
    ]
    assert 0 < max(moved) <= 1 + 1e-6


def check_everybody_is_dealt_once(deal: Any) -> None:
    """Whatever the number of processes, each record is that of exactly one, with all others of its person."""
    for records in (0, 1, 3, 20):
        numbers = np.arange(records)
        for persons in (None, numbers // 3, numbers % 4):
            encoded = Encoded(numbers.astype(np.float32)[:, None], numbers, persons=persons)
            for size in (1, 2, 5):
                parts = [deal(encoded, SimpleNamespace(rank=rank, size=size)) for rank in range(size)]
                assert sorted(int(one) for part in parts for one in part.x[:, 0]) == list(range(records))
                assert all(np.array_equal(part.x[:, 0], part.labels) for part in parts)
                if persons is not None:
                    assert all(np.array_equal(persons[part.labels], part.persons) for part in parts)
                    assert sum(len(set(part.persons)) for part in parts) == len(set(persons))


def test_every_record_and_person_is_that_of_one_process() -> None:
    """No record is lost, none counts twice, and no person is split."""
    check_everybody_is_dealt_once(dealt)


def overlapping(encoded: Encoded, ranks: Any) -> Encoded:
    """A record at each border is in two shards."""
    cuts = np.linspace(0, len(encoded), ranks.size + 1).astype(int)
    own = slice(cuts[ranks.rank], cuts[ranks.rank + 1] + 1)
    return Encoded(encoded.x[own], None if encoded.labels is None else encoded.labels[own])


def by_rows(encoded: Encoded, ranks: Any) -> Encoded:
    """Persons are dealt out row by row."""
    own = slice(ranks.rank, None, ranks.size)
    persons = None if encoded.persons is None else encoded.persons[own]
    return Encoded(encoded.x[own], None if encoded.labels is None else encoded.labels[own], persons=persons)


@pytest.mark.parametrize("mutant", [overlapping, by_rows])
def test_a_record_or_a_person_in_two_shards_is_found(mutant: Any) -> None:
    """The check of dealing kills a deal whose shards overlap, and one that splits persons."""
    with pytest.raises(AssertionError):
        check_everybody_is_dealt_once(mutant)


def test_own_shards_of_persons_are_refused() -> None:
    """Nobody can see whether a person has records in two shards, so there are none where persons have several."""
    encoded = Encoded(np.zeros((3, 1), dtype=np.float32), None, persons=np.arange(3))
    with pytest.raises(RanksError, match="two shards"):
        own_part(encoded, SimpleNamespace(rank=0, size=2), Shards.OWN)  # type: ignore[arg-type]


PLAN = tiny_plan(TINY_TABLE, steps=12)


def test_the_first_pays_writes_and_releases(tmp_path: Path) -> None:
    """Three processes leave one entry in one ledger, one checkpoint, one series of steps shown, and one release."""
    heard: list[tuple[int, int]] = []

    def work(ranks: Ranks) -> Any:
        with Ledger(tmp_path / f"ledger-{ranks.rank}", create=True) as book:
            book.register("ours", Budget(5.0, 1e-3))
            release = fit_together(
                tiny_frame(),
                PLAN,
                ranks,
                account=LedgerAccount(book, "ours", every=5),
                checkpoints=Checkpoints(tmp_path / f"checkpoint-{ranks.rank}", 5),
                on_progress=lambda progress: heard.append((ranks.rank, progress.done)),
            )
            return release, [entry.steps_charged for entry in book.statement("ours").entries]

    (release, charged), *others = together(3, work)
    assert release is not None
    assert release.card.private
    assert charged == [12]
    assert others == [(None, []), (None, [])]
    assert {rank for rank, _ in heard} == {0}
    assert [path.name for path in sorted(tmp_path.glob("checkpoint*"))] == ["checkpoint-0"]


@pytest.mark.parametrize(("begun", "ended"), [(2, 3), (3, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path, begun: int, ended: int) -> None:
    """Stopped in order and resumed with more or fewer processes, a run takes each of its steps once."""
    path, ledger = tmp_path / "checkpoint", tmp_path / "ledger"

    def work(ranks: Ranks) -> Any:
        book = Ledger(ledger) if ranks.first else None
        account = None if book is None else LedgerAccount(book, "ours", every=4)
        try:
            return fit_together(
                tiny_frame(),
                PLAN,
                ranks,
                account=account,
                checkpoints=Checkpoints(path, 4, resume),
                stop=stop_after(3) if ranks.first and not resume else lambda: not ranks.first,
            )
        finally:
            if book is not None:
                book.close()

    with Ledger(ledger, create=True) as book:
        book.register("ours", Budget(5.0, 1e-3))
    resume = False
    with pytest.raises(Interrupted, match="after"):
        together(begun, work)
    resume = True
    release = together(ended, work)[0]
    assert release is not None
    with Ledger(ledger) as book:
        assert [entry.steps_charged for entry in book.statement("ours").entries] == [12]


def test_a_lost_process_ends_the_run_and_its_step_stays_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step in which a process is lost counts as taken, in the checkpoint too, and the rest can be taken later."""
    path = tmp_path / "checkpoint"

    def work(ranks: Ranks) -> Any:
        points = Checkpoints(path, 100, resume)
        return in_ledger(tmp_path / "ledger", ranks, tiny_frame(), PLAN, checkpoints=points)

    honest, steps = Run.advance, threading.local()

    def advance(self: Run, public: Any) -> None:
        steps.taken = getattr(steps, "taken", 0) + 1
        if steps.taken == 6 and self._ranks.rank == 1:
            raise KeyboardInterrupt
        honest(self, public)

    resume = False
    monkeypatch.setattr(Run, "advance", advance)
    with pytest.raises(RanksError, match="lost another one"):
        together(3, work, timeout=20)
    monkeypatch.setattr(Run, "advance", honest)
    state, _ = load_checkpoint(path)
    assert state.step == 6
    assert state.used["training"] == 6
    resume = True
    assert together(2, work)[0] is not None


def refusal(work: Any, size: int = 2) -> str:
    with pytest.raises(UnderstudyError) as found:
        together(size, work, timeout=20)
    return str(found.value)


def in_ledger(path: Path, ranks: Ranks, data: object, made: Plan, **options: Any) -> Any:
    """A run whose first process has an account; what is left there is asserted by `nothing_spent`."""
    if not ranks.first:
        return fit_together(data, made, ranks, **options)
    with Ledger(path, create=True) as book:
        book.register("ours", Budget(5.0, 1e-3))
        return fit_together(data, made, ranks, account=LedgerAccount(book, "ours"), **options)


def nothing_spent(path: Path) -> bool:
    with Ledger(path) as book:
        return not book.counted("ours")


def test_processes_with_other_plans_seeds_or_versions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever would clip, noise or count otherwise is found before anything is charged."""
    ledger = tmp_path / "ledger"
    other = tiny_plan(TINY_TABLE, steps=13)
    said = refusal(lambda ranks: in_ledger(ledger, ranks, tiny_frame(), PLAN if ranks.first else other))
    assert "another plan or other options" in said
    said = refusal(lambda ranks: in_ledger(ledger, ranks, tiny_frame(), PLAN, insecure_seed=ranks.rank), 3)
    assert "another plan or other options" in said
    main = threading.local()
    monkeypatch.setattr(fit_module, "packages_in_use", lambda: getattr(main, "versions", "torch 2"))

    def old(ranks: Ranks) -> Any:
        main.versions = "torch 1" if ranks.rank == 1 else "torch 2"
        return in_ledger(ledger, ranks, tiny_frame(), PLAN)

    assert "process 1 has another version" in refusal(old)
    assert nothing_spent(ledger)


def test_data_that_processes_read_in_another_order_is_refused(tmp_path: Path) -> None:
    """Each would take its part of another whole, and a record could count twice; the same rows pass."""
    ledger = tmp_path / "ledger"

    def given(*seeds: int) -> Any:
        frame = tiny_frame(40)
        return lambda ranks: in_ledger(
            ledger, ranks, frame.sample(frac=1.0, random_state=seeds[ranks.rank]), PLAN
        )

    assert "did not read the same data in the same order" in refusal(given(1, 2))
    assert nothing_spent(ledger)
    assert together(2, given(1, 1))[0] is not None


def test_two_processes_with_one_shard_are_refused(tmp_path: Path) -> None:
    """A shard that two processes read would count twice; different shards, and empty ones, pass."""
    ledger = tmp_path / "ledger"

    def given(*seeds: int) -> Any:
        return lambda ranks: in_ledger(
            ledger, ranks, tiny_frame(40, seeds[ranks.rank]), PLAN, shards=Shards.OWN
        )

    assert "processes 1 and 2 were given the same shard" in refusal(given(1, 2, 2), 3)
    assert nothing_spent(ledger)
    assert together(2, given(1, 2))[0] is not None


def test_a_shard_that_cannot_be_read_gives_the_reservation_back(tmp_path: Path) -> None:
    """One process with bad records stops all, with its message, and nothing is spent."""
    ledger = tmp_path / "ledger"
    bad = tiny_frame().assign(visits="many")

    def work(ranks: Ranks) -> Any:
        return in_ledger(ledger, ranks, bad if ranks.rank == 1 else tiny_frame(), PLAN, shards=Shards.OWN)

    said = refusal(work)
    assert said.startswith("process 1 of 2 stopped: column 'visits', row 1")
    assert "many" not in said
    assert nothing_spent(ledger)


def test_a_first_process_that_fails_says_so_itself(tmp_path: Path) -> None:
    """The error of the first process keeps its kind."""

    def work(ranks: Ranks) -> Any:
        data = tiny_frame().assign(visits="many") if ranks.first else tiny_frame()
        return fit_together(data, PLAN, ranks, shards=Shards.OWN)

    with pytest.raises(DataError, match="column 'visits', row 1"):
        together(2, work)


def test_images_are_dealt_with_their_labels() -> None:
    """A run on images in two processes, from the seed to the release."""
    made = tiny_plan(TINY_IMAGES, steps=3)
    release = together(2, lambda ranks: fit_together(tiny_images(), made, ranks, insecure_seed=1))[0]
    assert release is not None
    assert not release.card.private
