"""Audit of a whole run: what it publishes at the start, and what its checkpoints reveal after each step.

The real code of `fit` runs on stand-in records, once without and a few times with one canary record more, and the
auditor listens at the only door through which anything private may leave (`listening`). History is forced, so at every
release the two runs have seen the same past, and the difference of what they are about to release is exactly what one
record changes: no statistics are needed for it. Three things follow:

* `draws`: as many releases are made as the plan charges;
* one reading per charge: the noise divided by what one record changed, against the charged multiplier;
* `interference`: with equal histories the checkpoints must be equal bit by bit. A run that uses an exact count, an
  un-noised gradient or noise of its own beside the door reveals the canary there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import stats

from understudy.auditing import besides
from understudy.auditing.correlation import repeated_noise, shared_noise
from understudy.auditing.listening import Draw, Ear, listening
from understudy.auditing.people import with_person
from understudy.auditing.readings import Spread, every_tensor_of
from understudy.auditing.verdict import Outcome, Reading
from understudy.errors import RecipeError
from understudy.privacy.composition import repetitions
from understudy.privacy.mechanisms import Charge, GaussianRelease, GaussianThreshold, SubsampledGaussian
from understudy.records.encode import encoded_shape
from understudy.run.fit import rehearse
from understudy.run.stand_ins import stand_in_rows, valid_rows
from understudy.schema import CodeSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.auditing.readings import Floats
    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.planning import Plan
    from understudy.schema import Schema

__all__ = [
    "Rehearsed",
    "differing",
    "observed_charges",
    "on_every_record",
    "probes",
    "readings_besides",
    "rehearsal_readings",
    "rehearse_with_canaries",
]

_ROWS = 24
_CANARIES, _MOST_CANARIES = 4, 26
_STEPS = 2
_PROBED = 200_000
_TINY = 1e-6
_GRID_BITS = 20
"""Published numbers are multiples of a power of two at most this many bits below their noise."""
_MOST_ROWS = 8
"""The most records of a canary that is a whole person, beside some that must be left out."""


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """One rehearsal without a canary and several with one, all with the history of the first.

    Args:
        plan: what was rehearsed.
        draws: the releases of each rehearsal, the one without a canary first.
        leaked: names of what differed between checkpoints although the histories were equal.
        source: noise asked of one source itself, twice, because small releases hold too few numbers to measure it.
    """

    plan: Plan
    draws: tuple[tuple[Draw, ...], ...]
    leaked: tuple[str, ...]
    source: tuple[Draw, Draw]


def rehearse_with_canaries(
    plan: Plan,
    schema: Schema,
    noise: Callable[[], Noise],
    *,
    seed: int = 0,
    canaries: int | None = None,
    quiet: bool = False,
) -> Rehearsed:
    """Run the plan's own code on stand-in records, without and with a canary.

    Every record is in every batch, training takes two steps, public records are few, and a warm start on them is left
    out; all else is as planned.

    Args:
        plan: what is to be trained.
        schema: what a record looks like.
        noise: makes a source of noise.
        seed: of the stand-in records and of the networks.
        canaries: how many; by default one of every class, and not too few.
        quiet: whether every other canary is an empty record.
    """
    shortened = _shortened(plan, schema)
    rows = stand_in_rows(schema, _ROWS, seed)
    first = Ear()
    expected = _states(shortened, rows, noise(), first, seed)
    ears, leaked = [first], set[str]()
    for canary in range(_canaries(schema) if canaries is None else canaries):
        ear = Ear(first.draws)
        found = _states(
            shortened,
            with_person(rows, _canary(schema, canary, seed, quiet=quiet and canary % 2 == 0)),
            noise(),
            ear,
            seed,
        )
        leaked |= ear.strayed | {
            name for one, other in zip(expected, found, strict=True) for name in differing(one, other)
        }
        ears.append(ear)
    heard = tuple(tuple(ear.draws) for ear in ears)
    return Rehearsed(shortened, heard, tuple(sorted(leaked)), probes(noise()))


def probes(noise: Noise) -> tuple[Draw, Draw]:
    """Noise asked of one source itself, twice."""
    drawn = [torch.zeros(_PROBED, dtype=torch.float64) for _ in range(2)]
    for one in drawn:
        noise.perturb([one], 1.0, 1.0)
    first, second = (Draw("the source", np.zeros(_PROBED), one.numpy(), 1.0, (one,)) for one in drawn)
    return first, second


def readings_besides(
    plan: Plan, schema: Schema, noise: Callable[[], Noise], *, seed: int = 0
) -> list[Reading]:
    """What else may draw or leak: the run with hardly any noise, or a private number of rows; evaluations; resuming.

    Arguments as for `rehearse_with_canaries`.
    """
    rows = stand_in_rows(schema, _ROWS, seed)
    short = _shortened(plan, schema)
    short = replace(short, recipe=replace(short.recipe, steps=_STEPS))  # type: ignore[type-var]
    found = [besides.resume_reading(short, rows, _public_rows(schema, seed))]
    loud = rehearse_with_canaries(besides.with_little_noise(plan), schema, noise, seed=seed)
    found.append(besides.little_noise_reading(loud))
    hidden = besides.with_private_rows(plan, schema)
    if hidden is not None:
        seen = rehearse_with_canaries(hidden, schema, noise, seed=seed, canaries=1)
        found.append(besides.private_rows_reading(seen))
    found += _small_bound(plan, schema, noise, seed)
    canaries = [_canary(schema, number, seed) for number in range(_canaries(schema))]
    readings = (besides.evaluation_reading, besides.criteria_reading)
    published = [reading(schema, rows, canaries) for reading in readings]
    return [*found, *(one for one in published if one is not None)]


def _small_bound(plan: Plan, schema: Schema, noise: Callable[[], Noise], seed: int) -> list[Reading]:
    """What a record changes when the clipping bound is tiny, so that rounding and forgotten parameters show.

    One canary is an empty record, whose gradient lies in biases and label columns; none of it may be left out of the
    norm.
    """
    if plan.sampled is None:
        return []
    try:
        recipe = plan.recipe.varied("clip", _TINY)
    except RecipeError:
        return []
    seen = rehearse_with_canaries(replace(plan, recipe=recipe), schema, noise, seed=seed, quiet=True)
    sigma, number = plan.training.noise_multiplier, len(seen.plan.charges) - 1
    moved = max(s for canary in _separations(seen, number) for s in canary) * sigma
    says = f"with a bound of {_TINY:g}, one record moves the sum by {moved:.4g} times what is claimed."
    return [Reading("small-bound", _fails(moved > 1 + 1e-6), moved, moved, moved, 1.0, says)]


def _public_rows(schema: Schema, seed: int) -> Rows:
    return stand_in_rows(schema.without_persons(), 4, seed + 1)


def on_every_record(plan: Plan, steps: int | None = None) -> Plan:
    """The same charges with every record in every batch, and with fewer private steps if that is said.

    Of a run that was chosen among several, that is what this one drew; the score of the choice is drawn after it.
    """
    asked = {one.purpose for one in plan.recipe.releases(plan.schema, plan.rows)}
    charges = tuple(
        Charge(
            c.purpose,
            replace(
                c.mechanism, sampling_rate=1.0, steps=steps or c.mechanism.steps, batch_cap=None, rows=None
            ),
        )
        if isinstance(c.mechanism, SubsampledGaussian)
        else c
        for c in plan.run_charges
        if c.purpose in asked
    )
    return replace(plan, charges=charges)


def _shortened(plan: Plan, schema: Schema) -> Plan:
    """The plan for a few rows and two private steps."""
    rows = None if plan.rows is None else _ROWS
    short = on_every_record(plan, _STEPS)
    return replace(short, schema=schema, rows=rows, recipe=plan.recipe.rehearsed())


def _states(plan: Plan, rows: Rows, noise: Noise, ear: Ear, seed: int) -> list[dict[str, Tensor]]:
    assert plan.schema is not None
    public = _public_rows(plan.schema, seed)
    return list(rehearse(plan, rows, public, noise=noise, door=listening(ear), seed=seed))


def differing(
    one: Mapping[str, Tensor | NDArray[Any]], other: Mapping[str, Tensor | NDArray[Any]]
) -> set[str]:
    """Names of tensors or arrays that are not equal bit by bit, or are not in both."""
    names = {
        name
        for name in one
        if name in other and not torch.equal(torch.as_tensor(one[name]), torch.as_tensor(other[name]))
    }
    return names | (one.keys() ^ other.keys())


# ------------------------------------------------------------------------------ stand-in records


def _canary(schema: Schema, number: int, seed: int, *, quiet: bool = False) -> Rows:
    """An extreme record, every value at one of its ends, in coarse or fine patterns; or an empty one.

    The second of codes has every code, so that no bound on their number is too large to be met.

    Where the schema names persons, a whole person: as many such records as may take part, all the same so that they
    pull together, or every third time more than may, each another.
    """
    source = np.random.default_rng((seed, number))
    ends = np.sign(source.uniform(-1, 1, (1, *encoded_shape(schema))))
    if schema.person_columns:
        most = min(schema.max_rows_per_person or 1, _MOST_ROWS)
        ends = np.repeat(ends, most, axis=0)
        if number % 3 == 2:
            ends = np.sign(source.uniform(-1, 1, (most + 5, *encoded_shape(schema))))
    if number % 2 and ends.ndim == 4:
        ends = np.repeat(np.repeat(ends[:, :, ::2, ::2], 2, axis=2), 2, axis=3)
        ends = ends[:, :, : encoded_shape(schema)[1], : encoded_shape(schema)[2]]
    if number == 1 and isinstance(schema, CodeSchema):
        ends = np.ones_like(ends)
    classes = schema.label_classes
    ends = np.zeros_like(ends) if quiet else ends
    return valid_rows(ends, source, schema, None if classes is None else number % len(classes))


def _canaries(schema: Schema) -> int:
    """One of every class, as far as that is affordable, and not too few."""
    return min(max(_CANARIES, len(schema.label_classes or ())), _MOST_CANARIES)


# ------------------------------------------------------------------------------ readings


def rehearsal_readings(seen: Rehearsed, alpha: float) -> list[Reading]:
    """How many releases there were, what each charge really has, and what leaked past the noise.

    Args:
        seen: the rehearsals.
        alpha: the probability of a false alarm, shared by the readings of noise.
    """
    expected = sum(repetitions(charge) for charge in seen.plan.charges)
    made = [len(draws) for draws in seen.draws]
    every = [
        [len(_of(seen, draws, number)) for number in range(len(seen.plan.charges))] for draws in seen.draws
    ]
    says = f"{max(made)} noisy releases were made and {expected} are charged."
    charged = [repetitions(charge) for charge in seen.plan.charges]
    wrong = any(count != expected for count in made) or any(one != charged for one in every)
    asked = {tuple(len(one.before) for one in draws if one.selected is None) for draws in seen.draws}
    found = [Reading("draws", _fails(wrong), float(max(made)), min(made), max(made), expected, says)]
    found.append(_interference(seen))
    if wrong or len(asked) > 1:
        return found
    spreads = {charge.purpose: _spread(seen, number) for number, charge in enumerate(seen.plan.charges)}
    spreads["the source"] = _spread_of(seen.source[0].noise)
    found.append(every_tensor_of("release", spreads, 1.0, alpha / 4, "release-noise"))
    heard = [draw for draws in seen.draws for draw in draws]
    found += [
        shared_noise([*heard, *seen.source], alpha / 8),
        repeated_noise([*heard, *seen.source], alpha / 8),
    ]
    found.append(_digits(heard))
    high = _unit_deviation(seen, alpha / 2)[1]
    for number, charge in enumerate(seen.plan.charges):
        if isinstance(charge.mechanism, (GaussianRelease, GaussianThreshold, SubsampledGaussian)):
            found.append(_release(seen, number, charge.mechanism, high))
    return found


def _interference(seen: Rehearsed) -> Reading:
    says = "with equal histories, checkpoints with and without a record are equal bit by bit."
    if seen.leaked:
        says = f"one record shows in {', '.join(seen.leaked[:3])} although every release was the same."
    leaks = float(len(seen.leaked))
    return Reading("interference", _fails(bool(leaks)), leaks, leaks, leaks, 0.0, says)


def _digits(heard: Sequence[Draw]) -> Reading:
    """Whether every number that left lies on a grid far above the last digits of a float and far below its noise."""
    grids = [2.0 ** (math.floor(math.log2(draw.scale)) - _GRID_BITS) for draw in heard]
    off = sum(int((draw.after % grid != 0).sum()) for draw, grid in zip(heard, grids, strict=True))
    says = "everything published lies on a public grid far below its noise."
    if off:
        says = (
            f"{off:,} published numbers carry digits far below their noise, which can tell what was added up."
        )
    return Reading("digits", _fails(bool(off)), off, off, off, 0.0, says)


def _of(seen: Rehearsed, draws: Sequence[Draw], number: int) -> Sequence[Draw]:
    """The releases of the charge with that number; a fitter that asks in every step mixes them with others."""
    return [draw for draw in draws if draw.purpose == seen.plan.charges[number].purpose]


def _spread(seen: Rehearsed, number: int) -> Spread:
    return _spread_of(
        np.concatenate([draw.noise for draws in seen.draws for draw in _of(seen, draws, number)])
    )


def _spread_of(noise: Floats) -> Spread:
    return Spread(float(np.square(noise).sum()), noise.size)


def _unit_deviation(seen: Rehearsed, alpha: float) -> tuple[float, float]:
    """Interval of the deviation of all noise together, in units of what was asked for."""
    spreads = [_spread(seen, number) for number in range(len(seen.plan.charges))]
    spreads.append(_spread_of(seen.source[0].noise))
    squares, count = sum(s.squares for s in spreads), sum(s.count for s in spreads)
    low, high = (math.sqrt(squares / float(stats.chi2.ppf(p, count))) for p in (1 - alpha / 2, alpha / 2))
    return low, high


def _separations(seen: Rehearsed, number: int) -> list[list[float]]:
    """For each canary, how far it moved each release of a charge, in units of the scale of the noise."""
    without = _of(seen, seen.draws[0], number)
    return [
        [
            one.distance(other) / max(one.scale, 1e-300)
            for one, other in zip(_of(seen, draws, number), without, strict=True)
        ]
        for draws in seen.draws[1:]
    ]


def _applied(separations: Sequence[float], high: float) -> float:
    """The common multiplier of releases with these separations, if the noise is `high` times what was asked for."""
    total = math.sqrt(sum(s * s for s in separations))
    return high * math.sqrt(len(separations)) / max(total, 1e-9)


def _release(
    seen: Rehearsed,
    number: int,
    claimed: GaussianRelease | GaussianThreshold | SubsampledGaussian,
    high: float,
) -> Reading:
    """One charge: the least multiplier that any canary met, against the charged one."""
    purpose = seen.plan.charges[number].purpose
    separations = _separations(seen, number)
    applied = min(_applied([s], high) for canary in separations for s in canary)
    sigma, times = claimed.noise_multiplier, repetitions(seen.plan.charges[number])
    says = (
        f"{purpose}: noise is at most {applied:.4g} times what one record changed (charged {sigma:.4g}, "
        f"{times} release{'s' if times > 1 else ''})."
    )
    return Reading(purpose, _fails(applied < sigma), applied, 0.0, applied, sigma, says)


def observed_charges(seen: Rehearsed, alpha: float) -> tuple[tuple[Charge, ...], ...]:
    """For each canary, the Gaussian releases of the plan with the multipliers that were observed (upper ends)."""
    high = _unit_deviation(seen, alpha)[1]
    found: list[tuple[Charge, ...]] = []
    for canary in range(len(seen.draws) - 1):
        charges = []
        for number, charge in enumerate(seen.plan.charges):
            if isinstance(charge.mechanism, (GaussianRelease, GaussianThreshold)):
                sigma = _applied(_separations(seen, number)[canary], high)
                charges.append(replace(charge, mechanism=replace(charge.mechanism, noise_multiplier=sigma)))
        found.append(tuple(charges))
    return tuple(found)


def _fails(wrong: bool) -> Outcome:
    return Outcome.FAIL if wrong else Outcome.PASS
