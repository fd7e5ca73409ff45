"""The audit of one training step: canaries in, noisy gradients out, a verdict.

Anything that can turn a batch of records into a noisy gradient can be audited: it is wrapped as a `Subject`,
whose records carry *codes* in coordinates that no ordinary record uses. A code far above the clipping bound makes a
record's whole clipped gradient point along its own coordinates, so what the record contributes can be read there.
The auditor composes the batches and reads; see `docs/audit.md` for what each reading can and cannot see.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from understudy.auditing import onerun, readings
from understudy.auditing.readings import Spread
from understudy.auditing.samplers import draw_inclusions, sampler_readings
from understudy.auditing.verdict import Audit, Outcome, Reading, judge
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from understudy.auditing.claims import Claim
    from understudy.auditing.readings import Floats

__all__ = ["Subject", "Thoroughness", "audit_step"]

LOUD = 1e8
"""The code of a canary: its gradient is about this many times that of an ordinary record."""

CROWD = 1e6
"""The code of the crowd that an opposing record must turn around: loud, but far below a canary."""

_CROWD_SIZE = 3

_MULTIPLIER_PART = 0.5
"""The part of the audit's probability of a false alarm that goes to the multiplier, whose bound it sharpens."""

_OTHERS = 12
"""Eight more gradient readings, two formal ones, the sampler's and the rehearsal's, which share one part each."""


class Subject(Protocol):
    """A private training step with places for canaries.

    Attributes:
        name: how the audit's result calls it.
        canaries: how many canary coordinates its records have.
        sampler: draws one batch of row numbers out of so many rows, or None when only the gradient is audited.
    """

    name: str
    canaries: int
    sampler: Callable[[int], NDArray[np.int64]] | None

    def release(self, codes: Floats) -> Mapping[str, Floats]:
        """One noisy gradient of the batch whose i-th record carries `codes[i]`, by tensor.

        Args:
            codes: records × canaries; zero records are allowed and must still give noise.

        Returns:
            every tensor that leaves the private step, in units of the claimed sensitivity.
        """
        ...

    def blocks(self, released: Mapping[str, Floats]) -> Floats:
        """Canaries × coordinates: the parts of a released gradient that belong to each canary."""
        ...

    def shared(self, released: Mapping[str, Floats]) -> Floats:
        """The coordinates of a released gradient that all records have in common (biases)."""
        ...


@dataclass(frozen=True)
class Thoroughness:
    """How much is observed, and how sure the verdict is.

    Args:
        rounds: releases with some of the canaries in; made in pairs with equal batches.
        shares: of the canaries that are in, on average, in small and in large batches.
        opposed_rounds: releases in which one record stands against a crowd.
        training_rounds: releases at the claimed sampling rate, for the formal bounds (at most the claimed steps).
        empty_rounds: releases of an empty batch.
        sampler_rounds: batches drawn from the subject's sampler.
        confidence: the probability with which a correct step is not failed by any reading.
        formal_confidence: of the formal bounds as they are shown; they fail a step at `confidence` only.
        resolution: the shortfall of the noise multiplier that a PASS excludes.
    """

    rounds: int = 120
    opposed_rounds: int = 600
    training_rounds: int = 200
    empty_rounds: int = 8
    sampler_rounds: int = 400
    confidence: float = 0.9999
    formal_confidence: float = 0.99
    resolution: float = 0.15
    shares: tuple[float, float] = (0.25, 0.75)

    def __post_init__(self) -> None:
        if self.rounds < 8 or self.rounds % 4:
            raise PlanError(f"rounds must be a multiple of 4 and at least 8, got {self.rounds}.")
        if not 0.5 < self.confidence < 1:
            raise PlanError(f"the confidence must lie between 0.5 and 1, got {self.confidence}.")
        if not 0 < self.shares[0] < self.shares[1] < 1:
            raise PlanError(f"shares must rise and lie between 0 and 1, got {self.shares}.")

    @property
    def multiplier_alpha(self) -> float:
        """The multiplier's part of the probability of a false alarm."""
        return _MULTIPLIER_PART * (1 - self.confidence)

    @property
    def alpha(self) -> float:
        """The part of every other reading."""
        return (1 - _MULTIPLIER_PART) * (1 - self.confidence) / _OTHERS


def audit_step(
    subject: Subject,
    claim: Claim,
    thoroughness: Thoroughness | None = None,
    *,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Observe a step, read it, and compare with its claim.

    Args:
        subject: the step with its canaries.
        claim: what it says it is.
        thoroughness: how much is observed.
        seed: of the auditor's own coins (never of the subject's noise).
        on_progress: called after each release with how many were observed, of how many.
    """
    how = thoroughness or Thoroughness()
    rng = np.random.default_rng(seed)
    trained = min(how.training_rounds, claim.mechanism.steps)
    rounds = how.rounds + how.opposed_rounds + how.empty_rounds + trained
    try:
        found = _observe(_Checked(subject, on_progress, rounds), claim, how, rng)
    except _NotFiniteError as problem:
        found = [Reading("finite", Outcome.FAIL, 0.0, 0.0, 0.0, 1.0, str(problem))]
    return Audit(
        subject=subject.name,
        claimed_epsilon=claim.epsilon,
        delta=claim.delta,
        confidence=how.confidence,
        canaries=subject.canaries,
        rounds=rounds,
        readings=tuple(found),
        verdict=judge(found),
    )


def _observe(subject: Subject, claim: Claim, how: Thoroughness, rng: np.random.Generator) -> list[Reading]:
    """Every reading; the audit's probability of a false alarm is shared among them."""
    alpha = how.alpha
    mixed, spreads, direction = _mixed(subject, how, rng)
    opposed = _opposed(subject, claim, how.opposed_rounds, alpha, rng)
    found: list[Reading] = [
        readings.multiplier(
            mixed, claim, how.multiplier_alpha, how.resolution, seen_elsewhere=opposed.low > 0
        ),
        readings.variance(mixed, claim, alpha),
        readings.every_tensor(spreads, claim, alpha),
        readings.normality(mixed, alpha),
        readings.independence(mixed, alpha),
        readings.reuse(mixed, alpha),
        readings.divisor(mixed, alpha),
        opposed,
        _empty(subject, claim, how.empty_rounds, alpha),
    ]
    trained = min(how.training_rounds, claim.mechanism.steps)
    scores, inserted = _train(subject, claim, direction, trained, rng)
    alphas = 1 - how.formal_confidence, alpha
    found += [f(scores, inserted, claim, trained, alphas) for f in (onerun.one_run, onerun.one_run_fdp)]
    if subject.sampler is not None:
        rows = int(min(max(200, 20 / claim.mechanism.sampling_rate), 20_000))
        drawn = draw_inclusions(subject.sampler, rows, how.sampler_rounds)
        found += sampler_readings(drawn, claim, alpha)
    return found


class _NotFiniteError(Exception):
    """The step released something that is not a number."""


class _Checked:
    """A subject whose releases are counted, and checked to be finite: NaN would pass every comparison."""

    def __init__(self, subject: Subject, on_progress: Callable[[int, int], None] | None, rounds: int) -> None:
        self._on_progress, self._rounds, self._done = on_progress, rounds, 0
        self.name, self.canaries, self.sampler = subject.name, subject.canaries, subject.sampler
        self.blocks, self.shared = subject.blocks, subject.shared
        self._release = subject.release

    def release(self, codes: Floats) -> Mapping[str, Floats]:
        released = self._release(codes)
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(self._done, self._rounds)
        for tensor, values in released.items():
            if not np.isfinite(values).all():
                raise _NotFiniteError(
                    f"tensor {tensor!r} is not finite for a batch of {len(codes)} records: the release tells apart "
                    "batches that break the step from batches that do not."
                )
        return released


def _mixed(
    subject: Subject, how: Thoroughness, rng: np.random.Generator
) -> tuple[readings.Projections, dict[str, Spread], Floats]:
    """Rounds with some of the canaries in, in small and large batches, each batch released twice.

    Returns the projections, the noise of every tensor (from the difference of twin releases), and the attack
    direction learned from all rounds, for later rounds to use.
    """
    canaries = subject.canaries
    blocks, shared, included, sizes = [], [], [], []
    noise = _Spreads()
    for pair in range(how.rounds // 2):
        coins = rng.random(canaries) < how.shares[pair // 2 % 2]
        ordinary = 0 if pair % 2 else max(2, int(how.shares[0] * canaries) // 3)
        codes = np.concatenate([LOUD * np.eye(canaries)[coins], np.zeros((ordinary, canaries))])
        twins = subject.release(codes), subject.release(codes)
        noise.add(*twins)
        for twin in twins:
            blocks.append(subject.blocks(twin))
            shared.append(subject.shared(twin))
            included.append(coins)
            sizes.append(len(codes))
    all_blocks, all_included = np.stack(blocks), np.stack(included)
    mixed = readings.project(all_blocks, np.stack(shared), all_included, np.array(sizes))
    return mixed, noise.spreads(), readings.attack_direction(all_blocks, all_included)


class _Spreads:
    """Collects the noise of every tensor from pairs of releases of one batch, whose difference is noise alone."""

    def __init__(self) -> None:
        self._squares: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, one: Mapping[str, Floats], other: Mapping[str, Floats]) -> None:
        for tensor in one:
            self._squares[tensor] += float(np.square(one[tensor] - other[tensor]).sum()) / 2
            self._counts[tensor] += one[tensor].size

    def spreads(self) -> dict[str, Spread]:
        return {tensor: Spread(self._squares[tensor], self._counts[tensor]) for tensor in self._squares}


def _opposed(subject: Subject, claim: Claim, rounds: int, alpha: float, rng: np.random.Generator) -> Reading:
    """Rounds in which a small crowd pulls one way and, by a coin, one record pulls the other way, alone.

    The direction for one half of the rounds is learned from the other half.
    """
    crowd = np.zeros((_CROWD_SIZE, subject.canaries))
    crowd[:, 0] = -CROWD
    opponent = np.zeros((1, subject.canaries))
    opponent[0, 0] = LOUD
    present = rng.permutation(np.arange(rounds) % 2 == 0)
    seen = [
        subject.blocks(subject.release(np.concatenate([opponent, crowd]) if here else crowd))[:1]
        for here in present
    ]
    sizes = np.full(rounds, len(crowd))
    projected = readings.project(np.stack(seen), np.zeros((rounds, 0)), present[:, None], sizes)
    return readings.opposed(projected.values[:, 0], present, claim, alpha)


def _empty(subject: Subject, claim: Claim, rounds: int, alpha: float) -> Reading:
    """Rounds without any record: the release must be noise, the whole noise."""
    nobody = np.zeros((0, subject.canaries))
    noise = _Spreads()
    try:
        for _ in range(rounds // 2):
            noise.add(subject.release(nobody), subject.release(nobody))
    except _NotFiniteError:
        raise
    except Exception as problem:  # noqa: BLE001 - whatever a foreign step raises is the finding
        says = f"the step cannot take an empty batch ({type(problem).__name__}: {problem}), which shows that it was."
        return Reading("empty-batch", Outcome.FAIL, 0.0, 0.0, 0.0, 1.0, says)
    return readings.every_tensor(noise.spreads(), claim, alpha, "empty-batch")


def _train(
    subject: Subject, claim: Claim, direction: Floats, rounds: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """A run at the claimed rate, with one coin per canary for whether it is in the data at all.

    Returns each canary's score and coin.
    """
    canaries, q = subject.canaries, claim.mechanism.sampling_rate
    inserted = rng.random(canaries) < 0.5
    values = np.empty((rounds, canaries))
    for row in values:
        sampled = inserted & (rng.random(canaries) < q)
        row[:] = subject.blocks(subject.release(LOUD * np.eye(canaries)[sampled])) @ direction
    return onerun.likelihood_scores(values, q, claim.mechanism.noise_multiplier), inserted
