"""`understudy push`: a release to where others find it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.console import err, print_json

__all__ = ["push_command"]


def push_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    to: Annotated[
        str,
        typer.Option(help="A folder that does not exist yet, or hf://owner/name on the Hugging Face Hub."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Check a release and publish it: the files of its format, and nothing else that lies in the folder.

    Releases that are NOT PRIVATE are refused. The Hub needs `pip install 'understudy[hub]'` and a token as
    `huggingface-cli login` leaves it.

    Examples:
        understudy push release/ --to /srv/public/visits

        understudy push release/ --to hf://st-elsewhere/visits
    """
    from understudy.release.hub import push

    place = push(release, to)
    if as_json:
        print_json({"pushed": place})
    else:
        err.print(f"pushed to {place}")
