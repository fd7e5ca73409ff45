"""The one object that holds private records and answers with noisy sums.

Whoever asks is handed no record. The door refuses what the plan did not charge and counts what it did; it writes to the
account first; it walks the records in batches, so that nothing needs all of them in memory; it adds the sums of all
processes of the run; and it draws the noise, once, here and nowhere else. What it publishes lies on a public grid far
below the noise, so that the last digits of a float tell nothing about the sum.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import TYPE_CHECKING

import torch

from understudy.door.persons import add_persons
from understudy.door.poisson import poisson_indices
from understudy.door.query import Batch, Published, TextCounts
from understudy.door.ranks import ALONE, SharedCoins
from understudy.door.source import Rows
from understudy.errors import BudgetError, PlanError
from understudy.privacy.mechanisms import GaussianRelease, GaussianThreshold, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.door.query import Chance, Query
    from understudy.door.ranks import Ranks
    from understudy.ledger.account import Account
    from understudy.privacy.mechanisms import Charge

__all__ = ["Door"]

_GRID_BITS = 16
"""What is published is rounded to a power of two this many bits below the noise's standard deviation."""

_DERIVED_AT_ONCE = 2000


class Door:
    """Private records behind the charges of a plan.

    Args:
        records: PRIVATE: those of this process.
        charges: what the plan pays for.
        noise: where noise and sampling come from.
        private: False for a baseline, which draws anything without noise.
        insecure: allows noise from a seed; whoever asks for it marks what was drawn as NOT PRIVATE.
        rows: the number of records (of persons, where these have several) where that is declared public, else None.
        account: told before anything is drawn, by the first process only.
        used: how often each purpose was drawn before (after a resume).
        ranks: the processes whose records stand behind this door together; alone by default.

    Where persons have several records, what holds for a record here holds for all records of a person together.
    `counted` is the number of records as declared, or as somebody had it published with noise; None until then.

    Raises:
        PlanError: the noise is not private, and nobody says that this is known.
    """

    def __init__(
        self,
        records: Rows,
        charges: Sequence[Charge],
        noise: Noise,
        *,
        private: bool = True,
        insecure: bool = False,
        rows: int | None = None,
        account: Account | None = None,
        used: Mapping[str, int] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        if private and not (noise.private or insecure):
            raise PlanError(
                f"{type(noise).__name__} is not private: whoever knows its seed can remove it. Use SecureNoise, or "
                "mark what is drawn as NOT PRIVATE and say insecure=True."
            )
        self._records = records
        self._charges = {one.purpose: one.mechanism for one in charges}
        self._noise = noise
        self._coins: Chance = noise
        self._account = account if ranks.first else None
        self._ranks = ranks
        self.private = private
        self.rows = rows
        self.used: dict[str, int] = dict(used or {})
        self.counted: float | None = rows
        self.watched = False

    def watch(self) -> None:
        """Let those who ask keep numbers that no noise covers, such as losses, of a run that is NOT PRIVATE anyway.

        Raises:
            PlanError: the run is private.
        """
        if self.private and self._noise.private:
            raise PlanError(
                "the losses of a private run read records without noise. They are shown of baselines and of seeded "
                "runs on public data, which are NOT PRIVATE."
            )
        self.watched = True

    @property
    def chance(self) -> Chance:
        """Coins for single records of this process."""
        return self._coins

    @property
    def public_chance(self) -> Chance:
        """Coins for what is public, such as which public records are looked at; the same in all processes."""
        return SharedCoins(self.chance, self._ranks)

    def to_public(self, records: Rows, charges: Sequence[Charge]) -> Door:
        """A door to declared public records, which answers without noise and charges nothing."""
        door = Door(records, charges, self._noise, private=False, rows=len(records))
        door._coins = SharedCoins(
            self._coins, self._ranks
        )  # all processes take the same steps on all of them
        return door

    def publish(self, purpose: str, query: Query) -> Published:
        """The sum over all records, with the noise that was charged for this purpose.

        Raises:
            PlanError: the plan does not charge it, or charges it for Poisson batches only.
            BudgetError: everything that was charged for this purpose is drawn already.
        """
        match self._charges.get(purpose):
            case SubsampledGaussian():
                raise PlanError(
                    f"the plan charges the {purpose} for Poisson batches, and a sum over all records costs more. Ask "
                    "for it by `step`."
                )
            case GaussianThreshold():
                raise PlanError(f"the plan charges the {purpose} above a threshold. Ask for it by `select`.")
        scale = self._scale(purpose, query)
        return self._published(purpose, self._summed(purpose, query), scale)

    def select(self, purpose: str, column: int) -> dict[str, float]:
        """The texts of a column that enough people have, in alphabetical order, each with its noisy count.

        A text that nobody listed could only come from a record, so one that a single person has must not be published;
        the threshold that follows from the charge sees to that.

        Args:
            purpose: a charge with a threshold.
            column: of records whose texts stand in `Rows.words`.

        Raises:
            PlanError: the plan does not charge it, or without a threshold; or there are several processes.
            BudgetError: it is drawn already.
        """
        if self._ranks.size > 1:
            raise PlanError(f"every process has its own texts of the {purpose}; ask for them in one process.")
        charged, records = self._charges.get(purpose), self._records
        threshold = 0.0
        if self.private:
            if not isinstance(charged, GaussianThreshold):
                raise PlanError(f"the plan charges no threshold for the {purpose}. Make a new plan.")
            threshold = charged.threshold(1 if records.persons is None else records.persons.most)
        words = records.words[column]
        query = TextCounts(column, len(words))
        scale = self._scale(purpose, query)
        (counts,) = self._summed(purpose, query)
        return self._selected(purpose, words, counts, scale, threshold)

    def _summed(self, purpose: str, query: Query) -> list[Tensor]:
        """PRIVATE: the sum over all records, once it is on record that it will be drawn."""
        if self.private and self._account is not None:
            self._account.announce(purpose)
        self._count(purpose)
        sums, records, at_once = query.zero(), self._records, self._at_once(query.rows_at_once)
        coins = self.chance
        if records.persons is None:
            for x, labels in records.batches(at_once):
                query.add(sums, Batch(x, labels, coins))
        elif records.people:
            everybody = torch.arange(records.people)
            add_persons(query, sums, records.persons, everybody, records.pick, at_once, coins)
        return sums

    def step(self, purpose: str, query: Query, like: Tensor) -> Published:
        """The sum over one Poisson batch, of whole persons, with the noise that was charged for this purpose.

        Args:
            purpose: a charge of private steps.
            query: what to sum.
            like: the batch comes in the dtype and on the device of this tensor.

        Raises:
            PlanError: the plan does not charge it.
            BudgetError: all steps of the plan were taken.
        """
        mechanism = self.sampled(purpose)
        scale = self._scale(purpose, query)
        if self.private and self._account is not None:
            self._account.charge()
        self._count(purpose)
        rate, cap, records = mechanism.sampling_rate, mechanism.batch_cap, self._records
        chosen = poisson_indices(records.people, rate, self._coins, cap, self._ranks)
        take = partial(records.take, like=like)
        sums = query.zero()
        if records.persons is None:
            query.add(sums, Batch(*take(chosen), self.chance))
        else:
            add_persons(query, sums, records.persons, chosen, take, 2**62, self.chance)
        return self._published(purpose, sums, scale)

    def derived(self, transform: Callable[[Batch], Tensor]) -> Self:
        """A door to features of the same records, computed once and kept private.

        Args:
            transform: PRIVATE: gives one row of features for each record of a batch, from that record alone.
        """
        features, done = torch.zeros(0), 0
        for x, labels in self._records.batches(self._at_once(_DERIVED_AT_ONCE)):
            made = transform(Batch(x, labels, self.chance))
            if not done:
                features = torch.empty(len(self._records), *made.shape[1:])
            features[done : done + len(made)] = made
            done += len(made)
        other = copy.copy(self)  # shares `used` and the account: one budget
        other._records = Rows(features, self._records.labels, self._records.persons)
        return other

    def sampled(self, purpose: str) -> SubsampledGaussian:
        """The mechanism of private steps with this purpose: public numbers.

        Raises:
            PlanError: the plan has no such steps.
        """
        mechanism = self._charges.get(purpose)
        if not isinstance(mechanism, SubsampledGaussian):
            raise PlanError(f"the plan has no private steps for the {purpose}. Make a new plan.")
        return mechanism

    def sigma(self, purpose: str) -> float:
        """The noise multiplier that was charged for a purpose; 0 in a baseline.

        Raises:
            PlanError: the plan does not charge it, so it must not be drawn.
        """
        mechanism = self._charges.get(purpose)
        if not self.private:
            return 0.0
        if not isinstance(mechanism, (GaussianRelease, GaussianThreshold, SubsampledGaussian)):
            raise PlanError(
                f"the plan does not charge the {purpose}, so it must not be drawn. Make a new plan."
            )
        return mechanism.noise_multiplier

    def left(self, purpose: str) -> int:
        """How often a purpose may still be drawn."""
        match self._charges.get(purpose):
            case GaussianRelease(count=count):
                return count - self.used.get(purpose, 0)
            case GaussianThreshold():
                return 1 - self.used.get(purpose, 0)
            case SubsampledGaussian(steps=steps):
                return steps - self.used.get(purpose, 0)
        return 0

    def _at_once(self, rows: int) -> int:
        """How many records are handed to a query at a time; an audit makes it few."""
        return rows

    def _count(self, purpose: str) -> None:
        self.used[purpose] = self.used.get(purpose, 0) + 1

    def _scale(self, purpose: str, query: Query) -> float:
        """The standard deviation of the noise; refuses what was not charged, or was drawn already."""
        sigma = self.sigma(purpose)
        if not self.private:
            return 0.0
        if self.left(purpose) < 1:
            raise BudgetError(
                f"everything that the plan charges for the {purpose} was drawn ({self.used[purpose]:,} times); "
                "one more would not be covered by the budget. Plan more before training."
            )
        if not (sigma > 0 and 0 < query.sensitivity < math.inf):
            raise PlanError(
                f"the {purpose} has noise multiplier {sigma:g} and sensitivity {query.sensitivity:g}: a private "
                "release needs both positive and finite."
            )
        return sigma * query.sensitivity

    def _published(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        """The sums of all processes with noise, which the first one draws; the same in all."""
        total = self._ranks.added(sums, purpose, scale)
        seen = self._drawn(purpose, total, scale) if self._ranks.first else Published(tuple(total), scale)
        return Published(tuple(self._ranks.shared(seen.values)), seen.deviation)

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        """The sums with noise of this scale; here an audit listens."""
        del purpose
        self._add_noise(sums, scale)
        return Published(tuple(sums), scale)

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        """The texts whose count reaches the threshold once it has noise; here an audit listens, too."""
        del purpose
        self._add_noise([counts], scale)
        least = threshold + scale * 2.0**-_GRID_BITS  # rounding to the grid may add half of a step
        chosen = ((counts >= least) & (counts > 0)).nonzero().flatten().tolist()
        return dict(sorted((words[i], float(counts[i])) for i in chosen))

    def _add_noise(self, sums: list[Tensor], scale: float) -> None:
        """Noise of this scale in every entry, in place, on a public grid: the one place where noise is added."""
        if scale > 0:
            grid = 2.0 ** (math.floor(math.log2(scale)) - _GRID_BITS)
            self._noise.perturb(sums, scale, 1.0 / grid)
            for one in sums:
                one.round_().mul_(grid)
