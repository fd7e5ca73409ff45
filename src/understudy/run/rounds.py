"""A fit without messages between processes: shards are counted apart, in rounds, under any batch system.

A recipe that publishes sums asks a handful of questions, some of which follow from earlier answers. Each is a round:
`count_part` counts it in one shard and writes a part; `fit_from_parts` adds the parts of all shards, charges, draws the
noise once and keeps the answer in a file, from which the next round goes on; after the last one it gives the release.
Parts are private. The file of answers holds noisy numbers only, and is a working file like a checkpoint.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from understudy.certificate import checked_plan
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.rounds import AddingDoor, Counted, CountingDoor, QuestionLeft
from understudy.door.source import Rows
from understudy.errors import CheckpointError, PartsError, PlanError, UnderstudyError
from understudy.privacy.mechanisms import GaussianRelease
from understudy.run.answers import Answered
from understudy.run.parts import Part, Parts
from understudy.run.reading import private_rows
from understudy.run.run import Run
from understudy.run.shards import Shards, ends_of
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import refuse_open

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from understudy.door.noise import Noise
    from understudy.door.rounds import Answer
    from understudy.ledger.account import Account
    from understudy.planning import Plan
    from understudy.release.release import Release
    from understudy.run.answers import Facts
    from understudy.run.run import Progress
    from understudy.run.shards import Shard
    from understudy.schema import Schema

__all__ = ["Waiting", "count_part", "fit_from_parts"]

_MADE_UP = 500
"""Made-up records by which questions are compared."""


@dataclass(frozen=True)
class Waiting:
    """The fit goes on when the next round is counted.

    Args:
        purpose: of the question.
        round: its number, from 1.
        most: how many rounds there are at most.
    """

    purpose: str
    round: int
    most: int


def count_part(
    data: object,
    plan: Plan,
    shard: Shard,
    out: Path,
    *,
    after: Path | None = None,
    shards: Shards = Shards.DEALT,
    cache: Path | None = None,
    on_note: Callable[[str], None] | None = None,
) -> str:
    """Count the question of this round in one shard, and write it to a PRIVATE file; returns what was counted.

    Nothing is charged and nothing is drawn: what is written has no noise, and must not leave the machines that may see
    the records.

    Args:
        data: as for `fit`: all of it, of which the shard is dealt, or the shard alone (`Shards.OWN`).
        plan: what the fit will charge.
        shard: which part of the records is counted.
        out: the file; what was there is replaced.
        after: the file of answers that `fit_from_parts` keeps; where it does not exist, this is the first round.
        shards: what `data` is.
        cache: the folder of a working copy of large data.
        on_note: told what readers took from the public part of files.

    Raises:
        PlanError: the recipe asks too often for rounds, or everything is answered already.
        DataError: the records cannot be read or do not fit the schema.
    """
    schema = _schema_for_rounds(plan)
    answered = Answered.kept(after, plan)
    key = answered.round.plan.encode()
    rows, said = private_rows(data, schema, shard, shards, key=key, cache=cache, on_note=on_note)
    door = partial(CountingDoor, answers=answered.answers, made_up=_made_up(schema))
    try:
        run = Run(plan, noise=SecureNoise(), door=door, fitter_seed=answered.facts.seed)
        run.open(rows, None)
        run.train(None)
    except Counted as counted:
        question = counted.question
        part = Part(
            shard=shard,
            round=answered.round,
            data=ends_of(rows, shard, key) if shards is Shards.OWN else said,
            own=shards is Shards.OWN,
            purpose=question.purpose,
            scale=question.scale,
            probe=question.probe,
        )
        part.save(out, counted.sums)
        return question.purpose
    raise PlanError("everything is answered already: `understudy fit --parts` gives the release.")


def fit_from_parts(
    paths: Sequence[Path],
    plan: Plan,
    answers: Path,
    *,
    account: Account | None = None,
    insecure_seed: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Release | Waiting:
    """Answer the question of this round from the parts of all shards, and go on: the release, or what is asked next.

    The answer is charged before it is drawn, and on disk before it is used; then the parts are deleted.

    Args:
        paths: the parts, each exactly once; none to go on after an interruption.
        plan: what is charged.
        answers: the file of answers, made in the first round.
        account: told before anything is drawn.
        insecure_seed: makes the noise repeatable and the release NOT PRIVATE.
        on_progress: called after each step of what is free.

    Raises:
        PartsError: a part is missing, doubled or foreign; nothing was charged.
        CheckpointError: the answers are not those of this fit, or one was lost.
    """
    schema = _schema_for_rounds(plan)
    answered = Answered.kept(answers, plan, insecure_seed)
    if not paths and not answers.exists():
        raise PartsError("there are no parts yet: count them with `understudy count`.")
    parts = Parts(paths, answered.round) if paths else None

    def keep(answer: Answer) -> None:
        answered.with_answer(answer, None if account is None else account.entry).save(answers)
        for path in paths:
            path.unlink()

    facts = answered.facts
    noise: Noise = SeededNoise(facts.seed, len(facts.purposes)) if facts.insecure else SecureNoise()
    door = partial(
        AddingDoor,
        answers=answered.answers,
        made_up=_made_up(schema),
        parts=None if parts is None else parts.of,
        keep=keep,
    )
    run = Run(
        plan,
        account=account,
        seed=facts.seed if facts.insecure else None,
        noise=noise,
        door=door,
        on_progress=on_progress,
        fitter_seed=facts.seed,
    )
    _pay(run, facts, account)
    try:
        run.open(_no_rows(schema), None)
        run.train(None)
    except QuestionLeft as left:
        done = len(Answered.kept(answers, plan).facts.purposes)
        return Waiting(str(left), done + 1, len(plan.recipe.releases(schema, plan.rows)))
    except UnderstudyError:
        if not facts.purposes and account is not None and not account.draws:
            run.give_back()
        raise
    return run.release(None)


def _pay(run: Run, facts: Facts, account: Account | None) -> None:
    """Reserve the plan in the first round, and take its entry up in the others.

    Raises:
        CheckpointError: the record has another answer than the file, which would have to be drawn again.
    """
    if account is None or not facts.purposes:
        run.pay()
        return
    account.resume(facts.entry, 0, 1)
    if Counter(facts.purposes) != Counter(dict(account.draws)):
        raise CheckpointError(
            "the ledger has answers on record that the file of answers does not hold: it is an older one, or the fit "
            "was killed while it drew. They are spent and cannot be drawn again. Begin a new fit."
        )


def _schema_for_rounds(plan: Plan) -> Schema:
    """The schema of a plan that can be fitted in rounds.

    Raises:
        PlanError: it cannot.
    """
    checked_plan(plan)
    schema, recipe = plan.schema, plan.recipe
    if schema is None:
        raise PlanError("this plan was made without a schema: pass --schema to `understudy plan`.")
    refuse_open(schema, "It is discovered in one process: fit without parts.")
    often = [one for one in plan.run_charges if not _once(one.mechanism)]
    if often or recipe.learns_from_public or plan.sampled is not None:
        raise PlanError(
            f"recipe {recipe.name!r} asks the records again and again, or learns from public ones: too much for parts, "
            "which are counted once a question. Use `understudy fit --processes` or torchrun."
        )
    return schema


def _once(mechanism: object) -> bool:
    return isinstance(mechanism, GaussianRelease) and mechanism.count == 1


def _made_up(schema: Schema) -> Rows:
    drawn = stand_in_rows(schema, _MADE_UP, 0)
    return Rows(drawn.x, drawn.labels)


def _no_rows(schema: Schema) -> Rows:
    return _made_up(schema).none()
