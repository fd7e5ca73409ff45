"""`understudy count`: one shard of the records for `understudy fit --parts`, under any batch system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err, say
from understudy.cli.options import PrivateData, Query
from understudy.cli.running import command_line, saved_plan
from understudy.run.record import beside, open_account

if TYPE_CHECKING:
    from understudy.release.release import Release

__all__ = ["count_command", "release_from_parts"]

ANSWERS = "answers"
"""The ending of the file of answers, beside the release."""


def count_command(
    data: PrivateData,
    plan: Annotated[Path, typer.Option(help="A plan saved by `understudy plan --save`.")],
    shard: Annotated[str, typer.Option(help="Which part of the records, such as 3/8.")],
    out: Annotated[Path, typer.Option(help="The part: a PRIVATE file, which has no noise.")],
    after: Annotated[
        Path | None,
        typer.Option(
            help="The answers that `fit --parts` keeps beside its release; absent in the first round."
        ),
    ] = None,
    query: Query = None,
    own_shards: Annotated[
        bool,
        typer.Option("--own-shards", help="DATA is this shard alone; {rank} in it is its number, from 0."),
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            exists=True,
            envvar="UNDERSTUDY_CACHE",
            help="Folder for a working copy of large data on disk; private, without a name, gone at the end.",
        ),
    ] = None,
) -> None:
    """Count one shard of private records for `understudy fit --parts`; nothing is charged and nothing published.

    Example:
        understudy count /shared/visits --plan plan.json --after release.answers --shard 3/8 --out parts/3
    """
    from understudy.data.databases import source_of
    from understudy.data.read import refuse_absent
    from understudy.run.rounds import count_part
    from understudy.run.shards import Shard, Shards

    which = Shard.of(shard)
    records = source_of(data.replace("{rank}", str(which.rank)) if own_shards else data, query)
    refuse_absent(records)
    purpose = count_part(
        records,
        saved_plan(plan),
        which,
        out,
        after=after,
        shards=Shards.OWN if own_shards else Shards.DEALT,
        cache=cache,
        on_note=lambda note: say(f"note: {note}", to_err=True),
    )
    err.print(
        f"{out}: the {purpose} of shard {which}, PRIVATE and without noise; `understudy fit --parts` deletes it.",
        highlight=False,
        markup=False,
    )


def release_from_parts(
    parts: Path,
    plan: Path,
    out: Path,
    ledger: Path | None,
    dataset: str | None,
    insecure_seed: int | None,
) -> dict[Path, Release]:
    """One round of `fit --parts`: the release by its folder, or nothing if a question is to be counted first."""
    from understudy.errors import PartsError
    from understudy.files import remove_leftovers
    from understudy.run.rounds import Waiting, fit_from_parts

    if out.exists():
        raise PartsError(f"{out} exists already. Remove it or choose another name for --out.")
    if not parts.is_dir():
        raise PartsError(f"{parts} is not a folder of parts.")
    made, answers = saved_plan(plan), beside(out, ANSWERS)
    paths = sorted(path for path in parts.iterdir() if not path.name.startswith("."))
    with open_account(made, out, ledger, dataset, command=command_line(), say=err.print) as account:
        found = fit_from_parts(paths, made, answers, account=account, insecure_seed=insecure_seed)
        if isinstance(found, Waiting):
            say(
                f"round {found.round} of at most {found.most}: count the {found.purpose} in every shard with "
                f"`understudy count … --after {answers}`, then come back.",
                to_err=True,
            )
            return {}
        found.save(out)
    answers.unlink()
    for path in (out, answers):
        remove_leftovers(path)
    return {out: found}
