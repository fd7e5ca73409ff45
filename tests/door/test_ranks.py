"""The door's promises over several processes: a check asserts one, and fails under each bug that is planted for it."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import torch
from scipy import stats

from several import together
from understudy.door import poisson
from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.query import Batch, Published
from understudy.door.ranks import ALONE, Ranks, SharedCoins
from understudy.door.source import Rows
from understudy.errors import DataError, LedgerError, RanksError
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.door.query import Query

    Check = Callable[[type[Door]], None]

COUNTS, STEPS = "counts", "training"
CHARGES = (Charge(COUNTS, GaussianRelease(2.0, 9)), Charge(STEPS, SubsampledGaussian(0.5, 1.5, 9)))
SHARDS = [torch.arange(21.0).reshape(7, 3), torch.ones(4, 3), torch.full((2, 3), -0.1)]
TOTAL = torch.cat(SHARDS).double().sum(0)


class SumOf:
    """The sum of the records; remembers the batches that it saw."""

    rows_at_once = 3

    def __init__(self, sensitivity: float = 1.0, width: int = 3) -> None:
        self.sensitivity, self.width = sensitivity, width
        self.seen: list[Tensor] = []

    def zero(self) -> list[Tensor]:
        return [torch.zeros(self.width, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        self.seen.append(batch.x)
        sums[0] += batch.x.double().sum(0)
        sums[1] += len(batch)


class Listener:
    """An account that counts what it hears, and may refuse."""

    def __init__(self, refuses: bool = False) -> None:
        self.heard: list[str] = []
        self.refuses = refuses

    def announce(self, purpose: str) -> None:
        if self.refuses:
            raise LedgerError("the disk is full.")
        self.heard.append(purpose)

    def charge(self) -> None:
        self.announce(STEPS)


def either(door: Door, purpose: str, query: Query) -> Published:
    return door.step(purpose, query, torch.zeros(1)) if purpose == STEPS else door.publish(purpose, query)


def asked(make: type[Door], purpose: str, shards: list[Tensor], **options: Any) -> list[Published]:
    """What every rank sees of one release over these shards."""
    sensitivity = options.pop("sensitivity", 1.0)
    charges = options.pop("charges", CHARGES)

    def work(ranks: Ranks) -> Published:
        records = Rows(shards[ranks.rank])
        door = make(records, charges, SecureNoise(), ranks=ranks, **options)
        return either(door, purpose, SumOf(sensitivity, records.x.shape[1]))

    return together(len(shards), work, timeout=20)


def check_the_sum_is_that_of_all_records(make: type[Door]) -> None:
    """Every record counts once and with its own weight, in one, two and three processes."""
    for shards in ([torch.cat(SHARDS)], [torch.cat(SHARDS[:2]), SHARDS[2]], SHARDS):
        for purpose, charges in (
            (COUNTS, CHARGES),
            (STEPS, (Charge(STEPS, SubsampledGaussian(1.0, 1.5, 9)),)),
        ):
            for seen in asked(make, purpose, shards, charges=charges, private=False):
                assert torch.allclose(seen.values[0], TOTAL, rtol=1e-12, atol=0)
                assert seen.values[1].tolist() == [[13.0, 13.0], [13.0, 13.0]]


def check_an_empty_shard_joins(make: type[Door]) -> None:
    """A process without records adds zeros and waits for nobody."""
    for purpose in (COUNTS, STEPS):
        charges = (CHARGES[0], Charge(STEPS, SubsampledGaussian(1.0, 1.5, 9)))
        for empty in (0, 1, 2):
            shards = [torch.zeros(0, 3) if rank == empty else SHARDS[rank] for rank in range(3)]
            for seen in asked(make, purpose, shards, private=False, charges=charges):
                assert torch.allclose(seen.values[0], torch.cat(shards).double().sum(0), rtol=1e-12, atol=0)


def check_noise_is_drawn_once(make: type[Door]) -> None:
    """Three processes publish with the noise of one, and say so."""
    wide = [torch.zeros(4, 50_000)] * 3
    for purpose, sigma in ((COUNTS, 2.0), (STEPS, 1.5)):
        seen = asked(make, purpose, wide)[0]
        assert seen.deviation == sigma
        statistic = float((seen.values[0] / sigma).square().sum())
        assert 1e-8 < stats.chi2.sf(statistic, 50_000) < 1 - 1e-8


def check_all_see_the_same(make: type[Door]) -> None:
    """What is published is bit for bit the same in all processes."""
    for purpose in (COUNTS, STEPS):
        first, *others = asked(make, purpose, SHARDS)
        for other in others:
            assert all(torch.equal(one, same) for one, same in zip(first.values, other.values, strict=True))
            assert other.deviation == first.deviation


def check_what_is_published_lies_on_the_grid(make: type[Door]) -> None:
    """The digits of no shard's sum are left after the noise."""
    odd = [shard * 0.1 for shard in SHARDS]
    for purpose, sigma in ((COUNTS, 2.0), (STEPS, 1.5)):
        for seen in asked(make, purpose, odd, sensitivity=0.3):
            cells = seen.values[0] / 2.0 ** (math.floor(math.log2(sigma * 0.3)) - 16)
            assert torch.equal(cells, cells.round())


def check_each_draws_its_own_members(make: type[Door]) -> None:
    """Which records join in one process tells nothing about another."""

    def work(ranks: Ranks) -> list[float]:
        query = SumOf(width=1)
        door = make(Rows(torch.arange(60.0)[:, None]), CHARGES, SecureNoise(), ranks=ranks)
        for _ in range(2):
            door.step(STEPS, query, torch.zeros(1))
        return [float(one) for batch in query.seen for one in batch]

    members = together(2, work)
    assert members[0] != members[1]  # equal by chance once in 2^120


def check_the_first_alone_is_charged(make: type[Door]) -> None:
    """One charge is heard for one release, by the account of the first process."""

    def work(ranks: Ranks) -> list[str]:
        account = Listener()
        door = make(Rows(SHARDS[ranks.rank]), CHARGES, SecureNoise(), account=account, ranks=ranks)  # type: ignore[arg-type]
        for purpose in (COUNTS, STEPS):
            either(door, purpose, SumOf())
        return account.heard

    assert together(3, work) == [[COUNTS, STEPS], [], []]


def check_nothing_is_drawn_where_the_account_refuses(make: type[Door]) -> None:
    """The ledger of the first process fails: no process gets an answer, and none waits for ever."""
    answers = []

    def work(ranks: Ranks) -> None:
        account = Listener(refuses=True) if ranks.first else None
        door = make(Rows(SHARDS[ranks.rank]), CHARGES, SecureNoise(), account=account, ranks=ranks)  # type: ignore[arg-type]
        answers.append(door.publish(COUNTS, SumOf()))

    with pytest.raises(LedgerError):
        together(3, work, timeout=5)
    assert answers == []


def check_a_cap_holds_for_all_together(make: type[Door]) -> None:
    """The batch of all processes is cut to the cap, however it lies in the shards."""
    charge = Charge(STEPS, SubsampledGaussian(1.0, 1.5, 9, batch_cap=5, rows=13))
    for shards in (SHARDS, [torch.zeros(0, 3), torch.cat(SHARDS)]):
        for seen in asked(make, STEPS, shards, private=False, charges=(charge,)):
            assert seen.values[1].tolist() == [[5.0, 5.0], [5.0, 5.0]]


def check_all_clip_to_one_bound(make: type[Door]) -> None:
    """Noise is scaled to the bound of the first process: another bound, or another purpose, is refused."""

    charges = (*CHARGES, Charge("other", GaussianRelease(2.0)))

    def another_bound(ranks: Ranks) -> Published:
        door = make(Rows(SHARDS[ranks.rank]), charges, SecureNoise(), ranks=ranks)
        return door.publish(COUNTS, SumOf(sensitivity=1.0 + ranks.rank))

    def another_purpose(ranks: Ranks) -> Published:
        door = make(Rows(SHARDS[ranks.rank]), charges, SecureNoise(), ranks=ranks)
        return door.publish(COUNTS if ranks.first else "other", SumOf())

    for work in (another_bound, another_purpose):
        with pytest.raises(RanksError, match="not at the same step"):
            together(2, work, timeout=5)


class NoiseOnEveryRank(Door):
    """Each process noises its own sums."""

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        if scale:
            self._noise.perturb(sums, scale, 1.0)
        return super()._published(purpose, sums, scale)


class NoiseAfterTheBroadcast(Door):
    """Each process noises the sums of all, so that whoever sees two answers can take their mean."""

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        return self._drawn(purpose, self._ranks.shared(self._ranks.added(sums, purpose, scale)), scale)


class NoiseBeforeTheReduce(Door):
    """The first process noises its own sums, and adds those of the others to them."""

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        own = list(self._drawn(purpose, sums, scale).values) if self._ranks.first else sums
        return Published(tuple(self._ranks.shared(self._ranks.added(own, purpose, scale))), scale)


class SkipsAnEmptyShard(Door):
    """Who has no record does not join."""

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        if not len(self._records):
            return Published(tuple(sums), scale)
        return super()._published(purpose, sums, scale)


class DividesByTheWorld(Door):
    """The mean over processes instead of the sum."""

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        return super()._published(purpose, [one / self._ranks.size for one in sums], scale)


class OneEntropyForAll(Door):
    """All processes draw the same members."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._coins = SharedCoins(self._coins, self._ranks)


class ChargesOnEveryRank(Door):
    """Every process writes to its account."""

    def __init__(self, *arguments: Any, account: Any = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._account = account


class LedgerOnRankOne(Door):
    """The second process writes to its account, the first draws."""

    def __init__(self, *arguments: Any, account: Any = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._account = account if self._ranks.rank == 1 else None


class DrawsBeforeItCharges(Door):
    """The answer is there before the account is told."""

    def publish(self, purpose: str, query: Query) -> Published:
        account, self._account = self._account, None
        seen = super().publish(purpose, query)
        if account is not None:
            account.announce(purpose)
        return seen


class CapForEach(Door):
    """Every process keeps to the cap by itself."""

    def step(self, purpose: str, query: Query, like: Tensor) -> Published:
        def alone(rows: int, rate: float, chance: Any, cap: int | None, _ranks: Ranks) -> Tensor:
            return poisson.poisson_indices(rows, rate, chance, cap)

        from understudy.door import door

        honest, door.poisson_indices = door.poisson_indices, alone  # type: ignore[assignment]
        try:
            return super().step(purpose, query, like)
        finally:
            door.poisson_indices = honest


class AsksNoQuestions(Door):
    """Sums are added whatever they were clipped to."""

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        total = self._ranks.added(sums)
        seen = self._drawn(purpose, total, scale) if self._ranks.first else Published(tuple(total), scale)
        return Published(tuple(self._ranks.shared(seen.values)), scale)


CHECKS: list[Check] = [
    check_the_sum_is_that_of_all_records,
    check_an_empty_shard_joins,
    check_noise_is_drawn_once,
    check_all_see_the_same,
    check_what_is_published_lies_on_the_grid,
    check_each_draws_its_own_members,
    check_the_first_alone_is_charged,
    check_nothing_is_drawn_where_the_account_refuses,
    check_a_cap_holds_for_all_together,
    check_all_clip_to_one_bound,
]

MUTANTS: list[tuple[type[Door], Check]] = [
    (NoiseOnEveryRank, check_noise_is_drawn_once),
    (NoiseAfterTheBroadcast, check_all_see_the_same),
    (NoiseBeforeTheReduce, check_what_is_published_lies_on_the_grid),
    (SkipsAnEmptyShard, check_an_empty_shard_joins),
    (DividesByTheWorld, check_the_sum_is_that_of_all_records),
    (OneEntropyForAll, check_each_draws_its_own_members),
    (ChargesOnEveryRank, check_the_first_alone_is_charged),
    (LedgerOnRankOne, check_the_first_alone_is_charged),
    (DrawsBeforeItCharges, check_nothing_is_drawn_where_the_account_refuses),
    (CapForEach, check_a_cap_holds_for_all_together),
    (AsksNoQuestions, check_all_clip_to_one_bound),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_door_keeps_its_promises_over_processes(check: Check) -> None:
    """Without a planted bug every check holds."""
    check(Door)


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=lambda part: part.__name__)
def test_the_named_check_kills_the_mutant(mutant: type[Door], check: Check) -> None:
    """With the planted bug the named check fails."""
    with pytest.raises((AssertionError, pytest.fail.Exception, RanksError)):
        check(mutant)


def test_every_check_kills_something() -> None:
    """No check is there for show."""
    assert {check for _, check in MUTANTS} == set(CHECKS)


def test_a_cap_is_dealt_out_as_a_uniform_subset_would_be() -> None:
    """How many records of each process stay within a cap follows the hypergeometric law."""
    draws, sizes, cap = 500, (6, 3), 4

    def work(ranks: Ranks) -> list[int]:
        coins, rows = SeededNoise(5, rank=ranks.rank), sizes[ranks.rank]
        return [len(poisson.poisson_indices(rows, 1.0, coins, cap, ranks)) for _ in range(draws)]

    first, second = together(2, work)
    assert {one + other for one, other in zip(first, second, strict=True)} == {cap}
    found = Counter(second)
    law = stats.hypergeom(sum(sizes), sizes[1], cap)
    expected = [draws * law.pmf(count) for count in range(4)]
    assert stats.chisquare([found[count] for count in range(4)], expected).pvalue > 1e-6


def test_coins_for_public_records_are_the_same_in_all() -> None:
    """Every process looks at the same public records, so their networks and bounds stay equal."""

    def work(ranks: Ranks) -> tuple[list[int], list[float]]:
        door = Door(Rows(torch.zeros(3, 1)), CHARGES, SecureNoise(), ranks=ranks)
        public = door.to_public(Rows(torch.arange(50.0)[:, None]), (CHARGES[1],))
        drawn = public.step(STEPS, SumOf(width=1), torch.zeros(1)).values[0].tolist()
        return door.public_chance.integers(1000, 8).tolist(), drawn

    first, second, third = together(3, work)
    assert first == second == third


def test_a_failure_of_one_stops_all_with_its_words() -> None:
    """What must be done by every process before any goes on is not done without one of them."""

    def refuse(fails: bool) -> None:
        if fails:
            raise DataError("column 'age', row 3: the value is missing.")

    def work(ranks: Ranks) -> str:
        try:
            with ranks.agreed():
                refuse(ranks.rank == failing)
        except (DataError, RanksError) as problem:
            return f"{type(problem).__name__}: {problem}"
        return "went on"

    failing = 1
    said = together(3, work)
    assert set(said) == {"RanksError: process 1 of 3 stopped: column 'age', row 3: the value is missing."}
    failing = 0
    assert together(2, work)[0].startswith("DataError: column 'age'")
    failing = 7
    assert together(2, work) == ["went on", "went on"]


def test_a_lost_process_is_told_to_all_others() -> None:
    """Who waits for a process that is gone stops within the timeout, with a sentence that says what to do."""
    said = {}

    def work(ranks: Ranks) -> None:
        door = Door(Rows(SHARDS[0]), CHARGES, SecureNoise(), ranks=ranks)
        door.publish(COUNTS, SumOf())
        if ranks.rank == 1:
            return
        try:
            door.publish(COUNTS, SumOf())
        except RanksError as problem:
            said[ranks.rank] = str(problem)

    together(3, work, timeout=5)
    assert sorted(said) == [0, 2]
    assert all("--resume" in text and "stays spent" in text for text in said.values())


def test_bytes_seeds_and_answers_are_those_of_the_first() -> None:
    """What the first process says reaches all unchanged; alone nothing is sent."""

    def work(ranks: Ranks) -> tuple[bytes, bool, int]:
        told = ranks.shared_bytes(b"of process 0" if ranks.first else b"other")
        return told, ranks.shared_answer(ranks.first), ranks.shared_seed()

    first, *others = together(3, work)
    assert first[:2] == (b"of process 0", True)
    assert all(other == first for other in others)
    assert ALONE.shared_bytes(b"x") == b"x"
    assert ALONE.told("a") == ["a"]
