"""The contract of a synthesizer, run on any recipe: the package's own and third parties'.

Whoever writes a synthesizer calls `check_synthesizer(recipe, schema)` in the tests. It makes plans, runs the code of
`fit` on stand-in records at doors that listen and prove, and says in one sentence for each clause what is not kept:

* prints: the recipe prints as TOML and back, and so does every change of every field;
* refuses: data that it cannot make are refused with a sentence;
* asks: it asks the door for what `releases` declares, in that order and as often, with a plan that charges all of it;
* bounds: no record (or person, where these have several records), however hostile, moves a sum by more than its query
  claims, however batches are cut;
* leaks: with equal releases, runs with and without a record, or person, have equal checkpoints and weights, bit by bit;
* resumes: a fitter restored from any checkpoint goes on to the next one, bit by bit;
* releases: what is released has the names and shapes of `model`, is finite, and samples alike once saved and loaded;
* samples: records fit the schema, and have the class that was asked for;
* baseline: it trains without noise, too;
* audit: the audit of its plan passes, if that is asked for.

Nothing private is read. It stands in this room, above runs and releases, because it runs both;
`understudy.synthesizers.contract` is its public address.
"""

from __future__ import annotations

import enum
import tempfile
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load, save

from understudy import codec
from understudy.auditing.configuration import audit
from understudy.auditing.listening import Ear, listening
from understudy.auditing.people import only_person, with_person, without_first
from understudy.auditing.proving import hostile_rows, proving
from understudy.auditing.rehearsal import differing, on_every_record
from understudy.auditing.verdict import Outcome
from understudy.door.noise import SeededNoise
from understudy.errors import BudgetError, ContractError, PlanError, RecipeError, UnderstudyError
from understudy.planning import plan as planned
from understudy.privacy.mechanisms import GaussianRelease, SubsampledGaussian
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.release.release import Release
from understudy.run.run import Run
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import unit_words, with_stand_ins
from understudy.synthesizers.protocol import Steps
from understudy.synthesizers.registry import known_meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pandas as pd
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.source import Rows
    from understudy.planning import Plan
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Recipe

__all__ = ["check_synthesizer"]

_STEPS = 6
"""Steps of a run: enough for the turns of two networks, and for an optimiser to have a memory."""
_EPSILON, _DELTA = 4.0, 1e-3
_BATCH, _SIGMA = 8, 2.0
_SAMPLED = 40


def check_synthesizer(
    recipe: Recipe, schema: Schema, *, rows: int = 40, seed: int = 0, audited: bool = False
) -> None:
    """Run the whole contract of synthesizers on a recipe, with stand-in records of a schema.

    The recipe is run with at most six steps. Make long work before the first step, such as a warm start, short.

    Args:
        recipe: a frozen dataclass; it needs no entry point yet.
        schema: what records look like. Data that the recipe refuses are checked no further.
        rows: how many stand-in records, or persons where the schema names these.
        seed: of stand-in records, networks and noise.
        audited: whether the plan is audited as well, which takes longer.

    Raises:
        ContractError: with one sentence for each clause that is not kept.
    """
    found = list(dict.fromkeys(_violations(recipe, schema, rows, seed, audited=audited)))
    if found:
        lines = "\n".join(f"- {sentence}" for sentence in found)
        raise ContractError(
            f"recipe {recipe.name!r} does not keep the contract with {schema.kind} data:\n{lines}"
        )


def _violations(recipe: Recipe, schema: Schema, rows: int, seed: int, *, audited: bool) -> Iterator[str]:
    yield from _prints(recipe)
    seen = with_stand_ins(recipe.sees(schema))
    reason = recipe.refuses(seen)
    if reason is not None:
        if not str(reason).strip().endswith("."):
            yield f"refuses: the reason must be a sentence, got {reason!r}."
        return
    try:
        with known_meanwhile(recipe):
            for declared in (rows, None):
                case = Case.of(_shortened(recipe, seen, rows), seen, declared, rows, seed)
                yield from case.violations(whole=declared is not None)
                if audited and declared is not None:
                    yield from _audit(case)
            yield from _baseline(_shortened(recipe, seen, rows), seen, rows, seed)
    except UnderstudyError as problem:
        yield f"asks: it cannot be planned and run: {problem}"


def _shortened(recipe: Recipe, schema: Schema, rows: int) -> Recipe:
    """The recipe with few steps, of few records and with some noise where they are private."""
    known = {field.name for field in fields(recipe)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    if "steps" in known:
        changes["steps"] = min(recipe.steps or _STEPS, _STEPS)
    if any(isinstance(one, Steps) for one in recipe.releases(schema, rows)):
        changes |= {"batch": min(_BATCH, rows), "noise_multiplier": _SIGMA}
    shorter: Recipe = replace(recipe, **{name: value for name, value in changes.items() if name in known})  # type: ignore[type-var]
    return shorter


# ------------------------------------------------------------------------------ prints


def _prints(recipe: Recipe) -> Iterator[str]:
    """Broken if the recipe, or the recipe with any one value changed, does not come back from its TOML."""
    text = codec.to_toml(recipe)
    if codec.from_toml(type(recipe), text, error=RecipeError) != recipe:
        yield "prints: the recipe that comes back from its TOML is another one."
    for field in fields(recipe):  # type: ignore[arg-type]
        for value in _others(getattr(recipe, field.name)):
            try:
                changed: Recipe = replace(recipe, **{field.name: value})  # type: ignore[type-var]
            except (UnderstudyError, ValueError):
                continue  # not a value that the recipe takes
            shown = codec.to_toml(changed)
            if shown == text or codec.from_toml(type(recipe), shown, error=RecipeError) != changed:
                yield f"prints: another {field.name} does not show in the TOML, or does not come back from it."


def _others(value: object) -> Iterator[Any]:
    """Values near a value, each different from it in one place."""
    match value:
        case bool():
            yield not value
        case enum.Enum():
            yield from (one for one in type(value) if one is not value)
        case int():
            yield value + 1
        case float():
            yield 0.75 * value if value else 0.5
        case str():
            yield f"{value}-other"
        case tuple():
            for place, item in enumerate(value):
                yield from ((*value[:place], other, *value[place + 1 :]) for other in _others(item))
        case _ if is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                for other in _others(getattr(value, field.name)):
                    try:
                        yield replace(value, **{field.name: other})
                    except (UnderstudyError, ValueError):
                        continue


# ------------------------------------------------------------------------------ runs


@dataclass(frozen=True, eq=False)
class Stage:
    """A run before its first step or after some step.

    Args:
        tensors: what a checkpoint would hold.
        drawn: how many releases were made so far.
        used: how many of each purpose.
    """

    tensors: dict[str, Tensor]
    drawn: int
    used: dict[str, int]


@dataclass(frozen=True, eq=False)
class Recording:
    """A whole run on stand-in records: its stages, and what it would release."""

    stages: tuple[Stage, ...]
    release: Release


@dataclass(frozen=True, eq=False)
class Case:
    """A plan that is run again and again, at other doors and with other records.

    Args:
        made: the plan.
        schema: what records look like to the recipe.
        rows: stand-in records.
        public: public ones for recipes that learn from such.
        seed: of networks and noise.
    """

    made: Plan
    schema: Schema
    rows: Rows
    public: Rows | None
    seed: int

    @classmethod
    def of(cls, recipe: Recipe, schema: Schema, declared: int | None, rows: int, seed: int) -> Case:
        """The case of a recipe with its number of rows declared public, or not."""
        made = planned(schema, epsilon=_EPSILON, delta=_DELTA, rows=declared, recipe=recipe)
        public = stand_in_rows(schema.without_persons(), 4, seed + 1) if recipe.learns_from_public else None
        return cls(made, schema, stand_in_rows(schema, rows, seed), public, seed)

    @property
    def rehearsed(self) -> Plan:
        """The plan with every record in every batch, so that nothing hangs on chance."""
        return on_every_record(self.made)

    def recorded(self, rows: Rows, ear: Ear, make: Callable[..., Door] | None = None) -> Recording:
        """Run from the beginning to the release."""
        doors: list[Door] = []

        def door(*arguments: Any, **options: Any) -> Door:
            doors.append((make or listening(ear))(*arguments, **options))
            return doors[-1]

        run = Run(self.rehearsed, seed=self.seed, noise=SeededNoise(self.seed), door=door)
        run.open(rows, self.public)
        stages = []
        for step in range(self.made.steps + 1):
            if step:
                run.advance(self.public)
            tensors = run.state()
            del tensors["label-weights"]
            stages.append(Stage(tensors, len(ear.draws), dict(doors[0].used)))
        return Recording(tuple(stages), run.release(None, self.made))

    def violations(self, *, whole: bool) -> Iterator[str]:
        """All that is not kept; only what hangs on records if not the whole."""
        ear, broken = Ear(), dict[str, str]()
        try:
            base = self.recorded(self.rows, ear, proving(ear, self.schema, broken))
        except (PlanError, BudgetError) as problem:
            yield f"asks: it asks for more than it declares, or does not declare it: {problem}"
            return
        yield from (f"bounds: {sentence}" for sentence in broken.values())
        yield from self._asks(ear)
        yield from self._leaks(base, ear)
        if whole:
            yield from self._charges()
            yield from self._resumes(base, ear)
            yield from _releases(base.release)

    def _asks(self, ear: Ear) -> Iterator[str]:
        """Broken if the purposes that were asked for are not those that are declared, in that order and number."""
        asked = [draw.purpose for draw in ear.draws]
        declared = {one.purpose: _times(one.mechanism) for one in self.made.run_charges}
        found = {purpose: asked.count(purpose) for purpose in dict.fromkeys(asked)}
        if list(found.items()) != list(declared.items()):
            yield f"asks: it declares {_told(declared)} and asks for {_told(found)}."

    def _charges(self) -> Iterator[str]:
        """Broken if a plan that lacks a charge is not refused before anything is drawn."""
        for lacking in self.made.charges:
            bare = replace(self.made, charges=tuple(one for one in self.made.charges if one != lacking))
            ear = Ear()
            try:
                replace(self, made=bare).recorded(self.rows, ear)
            except PlanError:
                if not ear.draws:
                    continue
            yield f"asks: a plan that does not charge the {lacking.purpose} is not refused before anything is drawn."

    def _leaks(self, base: Recording, ear: Ear) -> Iterator[str]:
        """Broken if a record shows anywhere although all releases are the same."""
        few = only_person(self.rows, 0)
        for what, rows in (*self._neighbours(), ("all but one left out", few), ("none", without_first(few))):
            again = Ear(ear.draws)
            try:
                other = self.recorded(rows, again)
            except Exception as problem:  # noqa: BLE001 - whatever is raised tells about the record
                yield f"leaks: with {what} it fails ({type(problem).__name__}: {problem}), and without does not."
                continue
            shown = {
                name
                for one, two in zip(base.stages, other.stages, strict=True)
                for name in differing(one.tensors, two.tensors)
            }
            shown |= differing(base.release.weights, other.release.weights)
            if shown or base.release.card.label_weights != other.release.card.label_weights:
                yield (
                    f"leaks: {what} shows in {', '.join(sorted(shown)[:3]) or 'the label weights'} although every "
                    "release was the same."
                )

    def _neighbours(self) -> Iterator[tuple[str, Rows]]:
        """The stand-in records without the first person, and with one more that is extreme or no record at all."""
        one = unit_words(self.schema).one
        yield f"a {one} left out", without_first(self.rows)
        hostile = hostile_rows(self.schema)
        for place in (1, 3, 10):
            yield f"a {one} more", with_person(self.rows, only_person(hostile, place))

    def _resumes(self, base: Recording, ear: Ear) -> Iterator[str]:
        """Broken if a fitter that was restored from a stage does not reach the next one exactly."""
        made, recipe = self.rehearsed, self.made.recipe
        for before, after in pairwise(base.stages):
            fitter = recipe.fitter(self.schema, seed=self.seed + 1, device=torch.device("cpu"))
            fitter.restore(load(save({name: one.contiguous() for name, one in before.tensors.items()})))
            door = listening(Ear(ear.draws[before.drawn :]))(
                self.rows,
                made.run_charges,
                SeededNoise(self.seed),
                insecure=True,
                rows=made.rows,
                used=before.used,
            )
            fitter.advance(door, self.public)
            lost = differing(after.tensors, fitter.state())
            if lost:
                yield f"resumes: after a checkpoint {', '.join(sorted(lost)[:3])} is not what it would have been."
                return
        if differing(base.release.weights, fitter.released()):
            yield "resumes: after a checkpoint other weights are released."


def _times(mechanism: object) -> int:
    match mechanism:
        case SubsampledGaussian(steps=steps):
            return steps
        case GaussianRelease(count=count):
            return count
    return 1


def _told(purposes: Mapping[str, int]) -> str:
    return ", ".join(f"{purpose} × {times}" for purpose, times in purposes.items()) or "nothing"


# ------------------------------------------------------------------------------ releases


def _releases(release: Release) -> Iterator[str]:
    """Broken if the weights are not those of `model`, or if the release cannot be saved, loaded and sampled."""
    recipe, schema = release.card.plan.recipe, release.schema
    why = recipe.model(schema).misfit(release.weights)
    if why is not None:
        yield f"releases: what is released does not fit the model: {why}."
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            again = Release.load(release.save(Path(folder) / "release"))
    except UnderstudyError as problem:
        yield f"releases: it cannot be saved and loaded: {problem}"
        return
    first, second = release.sample(_SAMPLED, seed=1), again.sample(_SAMPLED, seed=1)
    if not _same(first, second):
        yield "releases: once saved and loaded, the same seed makes other records."
    yield from _samples(release, first)


def _samples(release: Release, drawn: pd.DataFrame | Images) -> Iterator[str]:
    """Broken if records do not fit the schema, or do not have the class that was asked for."""
    encoded = encode(drawn, release.schema)
    if encoded.clipped or encoded.unknown:
        yield "samples: it makes records that lie outside of the schema."
    for place, name in enumerate(release.schema.label_classes or ()):
        labels = encode(release.sample(3, label=name, seed=1), release.schema).labels
        if labels is None or (labels != place).any():
            yield f"samples: records of the class {name!r} were asked for, and others were made."


def _same(one: pd.DataFrame | Images, other: pd.DataFrame | Images) -> bool:
    if isinstance(one, Images) and isinstance(other, Images):
        return np.array_equal(one.pixels, other.pixels) and np.array_equal(one.labels, other.labels)  # type: ignore[arg-type]
    return not isinstance(one, Images) and not isinstance(other, Images) and one.equals(other)


def _baseline(recipe: Recipe, schema: Schema, rows: int, seed: int) -> Iterator[str]:
    """Broken if it does not train without noise."""
    made = planned(schema, epsilon=None, rows=rows, recipe=recipe)
    public = stand_in_rows(schema.without_persons(), 4, seed + 1) if recipe.learns_from_public else None
    case = Case(made, schema, stand_in_rows(schema, rows, seed), public, seed)
    release = case.recorded(case.rows, Ear()).release
    if any(not np.isfinite(one).all() for one in release.weights.values() if one.dtype.kind == "f"):
        yield "baseline: without noise it makes weights that are not finite."


def _audit(case: Case) -> Iterator[str]:
    """Broken if an audit contradicts the plan."""
    found = audit(case.made, seed=case.seed).verdict
    if found.outcome is Outcome.FAIL:
        yield f"audit: {found.says}"
