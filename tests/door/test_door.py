"""The door's promises: a check runs a door and asserts one of them, and fails under each bug that is planted for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import torch
from scipy import stats

from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.query import Batch, Published
from understudy.door.source import Rows
from understudy.errors import BudgetError, LedgerError, PlanError
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.door.query import Query

    Check = Callable[[type[Door]], None]

RECORDS = Rows(torch.arange(21.0).reshape(7, 3), torch.arange(7))
COUNTS, STEPS = "counts", "training"
CHARGES = (
    Charge(COUNTS, GaussianRelease(2.0, 2)),
    Charge(STEPS, SubsampledGaussian(0.5, 1.5, 3)),
)


@dataclass
class SumOf:
    """The sum of the records; its bound is whatever a test says."""

    rows_at_once: int = 4
    sensitivity: float = 1.0
    width: int = 3
    diary: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def zero(self) -> list[Tensor]:
        return [torch.zeros(self.width, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        self.diary.append("read")
        self.sizes.append(len(batch))
        if len(batch):
            sums[0] += batch.x.double().sum(0)


@dataclass
class Listener:
    """An account that keeps a diary, and may refuse."""

    diary: list[str]
    refuses: bool = False

    def announce(self, purpose: str) -> None:
        self._note(f"announced {purpose}")

    def charge(self) -> None:
        self._note("charged")

    def _note(self, what: str) -> None:
        if self.refuses:
            raise LedgerError("the disk is full.")
        self.diary.append(what)


class LoudNoise(SeededNoise):
    """Notes when noise and when a batch are drawn."""

    def __init__(self, diary: list[str]) -> None:
        super().__init__(0)
        self.diary = diary

    def uniform(self, shape: list[int]) -> Tensor:  # type: ignore[override]
        self.diary.append("sampled")
        return super().uniform(shape)

    def perturb(self, *arguments: object) -> None:
        self.diary.append("noised")
        super().perturb(*arguments)  # type: ignore[arg-type]


def a_door(make: type[Door], **options: object) -> Door:
    """A door to seven records; secure noise."""
    return make(RECORDS, CHARGES, SecureNoise(), **options)  # type: ignore[arg-type]


def either(door: Door, purpose: str, query: Query) -> Published:
    """A release of all records or one of a batch, by the purpose."""
    return door.step(purpose, query, torch.zeros(1)) if purpose == STEPS else door.publish(purpose, query)


def check_what_is_not_charged_is_refused(make: type[Door]) -> None:
    """Another purpose, a batch where all records are charged, and all records where batches are."""
    door, query = a_door(make), SumOf()
    for ask in (
        lambda: door.publish("pairs", query),
        lambda: door.step("pairs", query, torch.zeros(1)),
        lambda: door.step(COUNTS, query, torch.zeros(1)),
        lambda: door.publish(STEPS, query),
    ):
        with pytest.raises(PlanError, match=r"(not charge|no private steps|Poisson)"):
            ask()
    assert not query.diary
    assert door.used == {}


def check_one_draw_more_is_refused(make: type[Door]) -> None:
    """As many as were charged, in this run and before a resume together; then nothing is read any more."""
    for purpose, allowed in ((COUNTS, 2), (STEPS, 3)):
        for before in (0, 1):
            door, query = a_door(make, used={purpose: before}), SumOf()
            for left in range(allowed - before, 0, -1):
                assert door.left(purpose) == left
                either(door, purpose, query)
            reads = len(query.diary)
            with pytest.raises(BudgetError, match=purpose):
                either(door, purpose, query)
            assert len(query.diary) == reads
            assert door.used == {purpose: allowed}


def check_the_account_hears_of_a_release_first(make: type[Door]) -> None:
    """The announcement comes before any record is read; where the account refuses, nothing is read or counted."""
    diary: list[str] = []
    query = SumOf(rows_at_once=10, diary=diary)
    door = make(RECORDS, CHARGES, LoudNoise(diary), insecure=True, account=Listener(diary))  # type: ignore[arg-type]
    for _ in range(2):
        door.publish(COUNTS, query)
    assert diary == 2 * [f"announced {COUNTS}", "read", "noised"]
    diary.clear()
    refused = make(RECORDS, CHARGES, LoudNoise(diary), insecure=True, account=Listener(diary, refuses=True))  # type: ignore[arg-type]
    with pytest.raises(LedgerError):
        refused.publish(COUNTS, query)
    assert (diary, refused.used) == ([], {})


def check_every_step_is_charged_first(make: type[Door]) -> None:
    """The charge comes before the batch is drawn, once per step; where the account refuses, nothing is drawn."""
    diary: list[str] = []
    query = SumOf(diary=diary)
    door = make(RECORDS, CHARGES, LoudNoise(diary), insecure=True, account=Listener(diary))  # type: ignore[arg-type]
    for _ in range(3):
        door.step(STEPS, query, torch.zeros(1))
    assert diary == 3 * ["charged", "sampled", "read", "noised"]
    diary.clear()
    refused = make(RECORDS, CHARGES, LoudNoise(diary), insecure=True, account=Listener(diary, refuses=True))  # type: ignore[arg-type]
    with pytest.raises(LedgerError):
        refused.step(STEPS, query, torch.zeros(1))
    assert (diary, refused.used) == ([], {})


def check_noise_of_a_seed_must_be_admitted(make: type[Door]) -> None:
    """Private records behind a seed are refused unless whoever asks says that the result is not private."""
    with pytest.raises(PlanError, match="not private"):
        make(RECORDS, CHARGES, SeededNoise(0))
    make(RECORDS, CHARGES, SeededNoise(0), insecure=True).publish(COUNTS, SumOf())
    make(RECORDS, CHARGES, SeededNoise(0), private=False).publish(COUNTS, SumOf())


def check_a_query_needs_a_bound(make: type[Door]) -> None:
    """No sensitivity, an infinite one and one that is not a number are refused before anything is read."""
    for purpose in (COUNTS, STEPS):
        for sensitivity in (0.0, -1.0, math.inf, math.nan):
            door, query = a_door(make), SumOf(sensitivity=sensitivity)
            with pytest.raises(PlanError, match="sensitivity"):
                either(door, purpose, query)
            assert not query.diary
            assert door.used == {}


def check_noise_has_its_scale_once(make: type[Door]) -> None:
    """Noise is normal with deviation σ · sensitivity, and what is published says so."""
    wide = Rows(torch.zeros(4, 50_000))
    for purpose, sigma in ((COUNTS, 2.0), (STEPS, 1.5)):
        seen = either(
            make(wide, CHARGES, SeededNoise(1), insecure=True), purpose, SumOf(width=50_000, sensitivity=0.7)
        )
        assert seen.deviation == pytest.approx(sigma * 0.7)
        statistic = float((seen.value / (sigma * 0.7)).square().sum())
        assert 1e-8 < stats.chi2.sf(statistic, 50_000) < 1 - 1e-8


def check_what_is_published_lies_on_the_grid(make: type[Door]) -> None:
    """Every number is a multiple of 2^(⌊log2 scale⌋ − 16), whatever digits the records have."""
    odd = Rows(torch.full((5, 3), 0.1) * torch.tensor([1e-6, 1.0, 1e3]))
    for sensitivity in (1e-5, 0.3, 1.0, 700.0):
        for purpose, sigma in ((COUNTS, 2.0), (STEPS, 1.5)):
            seen = either(make(odd, CHARGES, SecureNoise()), purpose, SumOf(sensitivity=sensitivity))
            cells = seen.value / 2.0 ** (math.floor(math.log2(sigma * sensitivity)) - 16)
            assert torch.equal(cells, cells.round())


def check_a_baseline_is_exact(make: type[Door]) -> None:
    """Without privacy the sum is the sum, for queries without a bound too, and the deviation says so."""
    door = a_door(make, private=False)
    for sensitivity in (1.0, math.inf):
        seen = door.publish(COUNTS, SumOf(sensitivity=sensitivity))
        assert torch.equal(seen.value, torch.as_tensor(RECORDS.x).double().sum(0))
        assert seen.deviation == 0.0
    assert door.sigma(COUNTS) == 0.0


def check_derived_doors_share_one_budget(make: type[Door]) -> None:
    """What is drawn at one of them is drawn for all, on one account; features stand for their own records."""
    diary: list[str] = []
    door = make(RECORDS, CHARGES, SeededNoise(0), insecure=True, account=Listener(diary))  # type: ignore[arg-type]
    other = door.derived(lambda batch: batch.x[:, :2] + 1)
    other.publish(COUNTS, SumOf(width=2))
    door.publish(COUNTS, SumOf())
    assert door.used == other.used == {COUNTS: 2}
    assert diary == 2 * [f"announced {COUNTS}"]
    for one in (door, other, other.derived(lambda batch: batch.x)):
        with pytest.raises(BudgetError):
            one.publish(COUNTS, SumOf())


def check_public_records_cost_nothing(make: type[Door]) -> None:
    """A door to public records leaves the account and the counts alone, and adds no noise."""
    diary: list[str] = []
    door = make(RECORDS, CHARGES, SeededNoise(0), insecure=True, account=Listener(diary))  # type: ignore[arg-type]
    public = door.to_public(RECORDS, (Charge(STEPS, SubsampledGaussian(1.0, 0.0, 2)),))
    for _ in range(3):
        seen = public.step(STEPS, SumOf(), torch.zeros(1))
        assert torch.equal(seen.value, torch.as_tensor(RECORDS.x).double().sum(0))
    assert not diary
    assert door.used == {}
    assert not public.private
    assert public.rows == 7


def check_batches_are_scheduling_only(make: type[Door]) -> None:
    """However many records a query takes at once, each is in the sum exactly once."""
    expected = torch.as_tensor(RECORDS.x).double().sum(0)
    for size in (1, 2, 3, 7, 100):
        query = SumOf(rows_at_once=size)
        assert torch.equal(a_door(make, private=False).publish(COUNTS, query).value, expected)
        assert max(query.sizes) <= size
        assert sum(query.sizes) == 7


def check_a_cap_is_kept_and_its_rows_too(make: type[Door]) -> None:
    """No batch exceeds the cap, and one record more than was declared is not told by a refusal."""
    charge = Charge(STEPS, SubsampledGaussian(1.0, 1.5, 9, batch_cap=5, rows=7))
    for records in (RECORDS, Rows(torch.zeros(8, 3))):
        query = SumOf()
        make(records, (charge,), SecureNoise()).step(STEPS, query, torch.zeros(1))
        assert query.sizes == [5]


def check_only_a_door_that_is_not_private_can_be_watched(make: type[Door]) -> None:
    """Numbers without noise may be kept of baselines and seeded runs; a private door refuses, whoever asks."""
    seeded = make(RECORDS, CHARGES, SeededNoise(1), insecure=True)
    for door in (seeded, make(RECORDS, CHARGES, SecureNoise(), private=False)):
        door.watch()
        assert door.watched
    private = make(RECORDS, CHARGES, SecureNoise())
    with pytest.raises(PlanError, match="without noise"):
        private.watch()
    assert not private.watched


class ChargesAnything(Door):
    """A purpose that nobody charged is drawn with some noise."""

    def sigma(self, purpose: str) -> float:
        return super().sigma(purpose) if purpose in self._charges else 1.0

    def left(self, purpose: str) -> int:
        return super().left(purpose) if purpose in self._charges else 1


class AllRecordsAtThePriceOfABatch(Door):
    """A charge of Poisson batches pays for a sum over everybody."""

    def publish(self, purpose: str, query: Query) -> Published:
        charges = self._charges
        self._charges = {
            name: GaussianRelease(one.noise_multiplier, one.steps)
            if isinstance(one, SubsampledGaussian)
            else one
            for name, one in charges.items()
        }
        try:
            return super().publish(purpose, query)
        finally:
            self._charges = charges


class NeverEmpty(Door):
    """There is always one more."""

    def left(self, purpose: str) -> int:
        return max(super().left(purpose), 1)


class ForgetsToCount(Door):
    """Draws are not counted."""

    def _count(self, purpose: str) -> None:
        pass


class TellsNobody(Door):
    """The account hears nothing."""

    def publish(self, purpose: str, query: Query) -> Published:
        self._account = None
        return super().publish(purpose, query)

    def step(self, purpose: str, query: Query, like: Tensor) -> Published:
        self._account = None
        return super().step(purpose, query, like)


class TellsAfterwards(Door):
    """The account hears of it when it is drawn already: a crash in between would be free."""

    def publish(self, purpose: str, query: Query) -> Published:
        account, self._account = self._account, None
        seen = super().publish(purpose, query)
        self._account = account
        account.announce(purpose)  # type: ignore[union-attr]
        return seen

    def step(self, purpose: str, query: Query, like: Tensor) -> Published:
        account, self._account = self._account, None
        seen = super().step(purpose, query, like)
        self._account = account
        account.charge()  # type: ignore[union-attr]
        return seen


class BelievesAnyBound(Door):
    """A query without a bound gets noise as if it had one of one."""

    def _scale(self, purpose: str, query: Query) -> float:
        bounded = 0 < query.sensitivity < math.inf
        return super()._scale(purpose, query) if bounded else self.sigma(purpose)


class NoiseOfSigma(Door):
    """The noise forgets the sensitivity."""

    def _scale(self, purpose: str, query: Query) -> float:
        return super()._scale(purpose, query) / query.sensitivity


class NoiseTwice(Door):
    """Noise upon noise."""

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        self._noise.perturb(sums, scale, 1.0)
        return super()._drawn(purpose, sums, scale)


class NoNoise(Door):
    """The sum as it is, with a deviation that is not there."""

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        return Published(tuple(sums), scale)


class NoGrid(Door):
    """The last digits of the floats are left as they are."""

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        self._noise.perturb(sums, scale, 1.0)
        return Published(tuple(sums), scale)


class GridBeforeTheNoise(Door):
    """Sums are rounded and then noised."""

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        grid = 2.0 ** (math.floor(math.log2(scale)) - 16)
        for one in sums:
            one.div_(grid).round_().mul_(grid)
        self._noise.perturb(sums, scale, 1.0)
        return Published(tuple(sums), scale)


class TakesAnySeed(Door):
    """Noise that can be computed again passes for private."""

    def __init__(self, records: Rows, charges: object, noise: object, **options: object) -> None:
        super().__init__(records, charges, noise, **{**options, "insecure": True})  # type: ignore[arg-type]


class AnybodyMayWatch(Door):
    """Shows losses of a private run."""

    def watch(self) -> None:
        self.watched = True


class NoisyBaseline(Door):
    """A baseline that is noised although it says that it is not."""

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        if not scale:
            self._noise.perturb(sums, 1e-3, 1.0)
        return super()._drawn(purpose, sums, scale)


class BudgetForEach(Door):
    """A derived door starts to count anew."""

    def derived(self, transform: Callable[[Batch], Tensor]) -> Door:  # type: ignore[override]
        other = super().derived(transform)
        other.used = dict(self.used)
        return other


class PublicOnTheAccount(Door):
    """Public records are charged like private ones."""

    def to_public(self, records: Rows, charges: object) -> Door:
        other = super().to_public(records, charges)  # type: ignore[arg-type]
        other.used = self.used
        return other


class DropsShortBatches(Door):
    """The last batch is left out where it is not full."""

    def publish(self, purpose: str, query: Query) -> Published:
        plain, size = query.add, query.rows_at_once
        query.add = lambda sums, batch: plain(sums, batch) if len(batch) == size else None  # type: ignore[method-assign]
        return super().publish(purpose, query)


class NoCap(Door):
    """The cap was accounted for and is not kept."""

    def sampled(self, purpose: str) -> SubsampledGaussian:
        return super().sampled(purpose).untruncated()


CHECKS: list[Check] = [
    check_what_is_not_charged_is_refused,
    check_one_draw_more_is_refused,
    check_the_account_hears_of_a_release_first,
    check_every_step_is_charged_first,
    check_noise_of_a_seed_must_be_admitted,
    check_a_query_needs_a_bound,
    check_noise_has_its_scale_once,
    check_what_is_published_lies_on_the_grid,
    check_a_baseline_is_exact,
    check_derived_doors_share_one_budget,
    check_public_records_cost_nothing,
    check_batches_are_scheduling_only,
    check_a_cap_is_kept_and_its_rows_too,
    check_only_a_door_that_is_not_private_can_be_watched,
]

MUTANTS: list[tuple[type[Door], Check]] = [
    (ChargesAnything, check_what_is_not_charged_is_refused),
    (AllRecordsAtThePriceOfABatch, check_what_is_not_charged_is_refused),
    (NeverEmpty, check_one_draw_more_is_refused),
    (ForgetsToCount, check_one_draw_more_is_refused),
    (TellsNobody, check_the_account_hears_of_a_release_first),
    (TellsAfterwards, check_the_account_hears_of_a_release_first),
    (TellsNobody, check_every_step_is_charged_first),
    (TellsAfterwards, check_every_step_is_charged_first),
    (TakesAnySeed, check_noise_of_a_seed_must_be_admitted),
    (BelievesAnyBound, check_a_query_needs_a_bound),
    (NoiseOfSigma, check_noise_has_its_scale_once),
    (NoiseTwice, check_noise_has_its_scale_once),
    (NoNoise, check_noise_has_its_scale_once),
    (NoGrid, check_what_is_published_lies_on_the_grid),
    (GridBeforeTheNoise, check_what_is_published_lies_on_the_grid),
    (NoisyBaseline, check_a_baseline_is_exact),
    (BudgetForEach, check_derived_doors_share_one_budget),
    (PublicOnTheAccount, check_public_records_cost_nothing),
    (DropsShortBatches, check_batches_are_scheduling_only),
    (NoCap, check_a_cap_is_kept_and_its_rows_too),
    (AnybodyMayWatch, check_only_a_door_that_is_not_private_can_be_watched),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_door_keeps_its_promises(check: Check) -> None:
    """Without a planted bug every check holds."""
    check(Door)


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=lambda part: part.__name__)
def test_the_named_check_kills_the_mutant(mutant: type[Door], check: Check) -> None:
    """With the planted bug the named check fails."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(mutant)


def test_every_check_kills_something() -> None:
    """No check is there for show."""
    assert {check for _, check in MUTANTS} == set(CHECKS)


def test_a_batch_does_not_print_its_records() -> None:
    """What is private does not slip into a log or an error message."""
    assert repr(Batch(torch.full((2, 3), 7.5), torch.tensor([1, 2]), SecureNoise())) == "Batch(<private>)"


def test_one_tensor_is_asked_for_by_name_and_several_are_not() -> None:
    """`value` is the one tensor of a query that has one, and an error otherwise."""
    one = torch.ones(2)
    assert Published((one,), 1.0).value is one
    with pytest.raises(ValueError, match="unpack"):
        _ = Published((one, one), 1.0).value
