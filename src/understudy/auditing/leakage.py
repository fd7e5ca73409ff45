"""Membership attacks on a release: who was in the training rows, judged by samples of the generator alone.

INTERNAL: these attacks read the private rows, and their result is about them. It is for the curator's eyes and must
not be published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from understudy.auditing.membership import MembershipResult, distance_scores, membership, shadow_scores
from understudy.errors import EvaluationError
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.run.fit import run_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.auditing.membership import Bools, Floats
    from understudy.data import Records
    from understudy.release.release import Release

    Content = pd.DataFrame | Images

__all__ = ["Leakage", "attack_release"]


@dataclass(frozen=True)
class Leakage:
    """What membership attacks on one release reached. INTERNAL: it depends on private rows.

    Args:
        epsilon: what the release claims.
        delta: its δ.
        members: how many training rows were tried.
        non_members: how many other rows were tried.
        synthetic: how many synthetic records the attacker drew.
        shadows: how many shadow generators were trained.
        results: one per attack.
    """

    epsilon: float
    delta: float
    members: int
    non_members: int
    synthetic: int
    shadows: int
    results: tuple[MembershipResult, ...]

    @property
    def contradicted(self) -> bool:
        """Whether an attack reached more than (ε, δ) allows."""
        return any(result.contradicts for result in self.results)


def attack_release(
    release: Release,
    members: Records,
    non_members: Records,
    *,
    rows: int = 1000,
    synthetic: int = 10_000,
    shadows: int = 0,
    false_positive_rate: float = 0.01,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> Leakage:
    """Attack a release with rows that were, and rows that were not, in its training data. Reads private rows.

    Half of the non-members serve as the attacker's reference rows, the other half are tried.

    Args:
        release: the release; it must have a guarantee to compare with.
        members: PRIVATE rows that it was trained on.
        non_members: rows of the same kind that it was not trained on.
        rows: how many members, and how many non-members, are tried at most.
        synthetic: how many synthetic records the attacker draws.
        shadows: how many shadow generators are trained as the release was, each on a random half of the tried rows
            and on the members that are not tried; 0 leaves that attack out. At least 8 if any.
        false_positive_rate: at which true positives are counted.
        seed: of the attacker's choices.
        on_progress: called with the number of shadows that are ready.

    Raises:
        EvaluationError: the release has no guarantee, or there are too few rows.
    """
    spent = release.card.plan.spent
    if spent is None:
        raise EvaluationError("a release without a guarantee has no bound to compare an attack with.")
    if shadows and shadows < 8:
        raise EvaluationError(f"a likelihood ratio needs at least 8 shadow generators, got {shadows}.")
    rng = np.random.default_rng(seed)
    game = _Game.draw(members.content, non_members.content, rows, rng)
    vectors = _Vectors(release)
    tried, reference = vectors(game.tried), vectors(game.reference)
    made = vectors(release.sample(synthetic, seed=seed))
    scores = {"distance": distance_scores(tried, made, reference)}
    if shadows:
        trained = _shadows(release, game, vectors, synthetic, shadows, rng, on_progress)
        scores["shadow"] = shadow_scores(tried, made, trained)
    results = tuple(
        membership(
            name,
            score,
            game.member,
            epsilon=spent.epsilon,
            delta=spent.delta,
            false_positive_rate=false_positive_rate,
        )
        for name, score in scores.items()
    )
    count = int(game.member.sum())
    return Leakage(spent.epsilon, spent.delta, count, len(game.member) - count, synthetic, shadows, results)


@dataclass(frozen=True, eq=False)
class _Game:
    """Who is tried, who of them was a member, and what else the attacker has."""

    tried: Content
    member: Bools
    reference: Content
    rest: Content

    @classmethod
    def draw(cls, members: Content, others: Content, rows: int, rng: np.random.Generator) -> _Game:
        inside, outside = rng.permutation(len(members)), rng.permutation(len(others))
        count_in, count_out = min(rows, len(members)), min(rows, len(others) // 2)
        tried = _joined(_taken(members, inside[:count_in]), _taken(others, outside[:count_out]))
        member = np.arange(count_in + count_out) < count_in
        return cls(
            tried, member, _taken(others, outside[len(others) // 2 :]), _taken(members, inside[count_in:])
        )


class _Vectors:
    """Records to rows of numbers, by the release's schema."""

    def __init__(self, release: Release) -> None:
        self._schema = release.schema

    def __call__(self, records: Content) -> Floats:
        encoded = encode(records, self._schema).x
        return encoded.reshape(len(encoded), -1).astype(np.float64)


def _shadows(
    release: Release,
    game: _Game,
    vectors: _Vectors,
    synthetic: int,
    shadows: int,
    rng: np.random.Generator,
    on_progress: Callable[[int], None] | None,
) -> list[tuple[Floats, Bools]]:
    """Generators trained as the release was, each on half of the tried rows and the rest of the members.

    Shadows come in pairs with opposite halves, so that every row is in exactly half of them.
    """
    trained: list[tuple[Floats, Bools]] = []
    for number in range(shadows):
        coins = rng.random(len(game.member)) < 0.5 if number % 2 == 0 else ~trained[-1][1]
        inside = _joined(_taken(game.tried, np.flatnonzero(coins)), game.rest)
        shadow = run_plan(inside, release.card.plan)
        trained.append((vectors(shadow.sample(synthetic, seed=number)), coins))
        if on_progress is not None:
            on_progress(number + 1)
    return trained


def _taken(content: Content, which: np.ndarray) -> Content:
    if isinstance(content, Images):
        own = (None if one is None else one[which] for one in (content.labels, content.persons))
        return Images(content.pixels[which], *own)
    return content.iloc[which]


def _joined(one: Content, other: Content) -> Content:
    if isinstance(one, Images) and isinstance(other, Images):
        pairs = ((one.labels, other.labels), (one.persons, other.persons))
        own = (None if a is None or b is None else np.concatenate([a, b]) for a, b in pairs)
        return Images(np.concatenate([one.pixels, other.pixels]), *own)
    assert isinstance(one, pd.DataFrame)
    assert isinstance(other, pd.DataFrame)
    return pd.concat([one, other], ignore_index=True)
