"""`understudy inspect`: what a release says about itself, after checking it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.console import print_json, print_markdown, warn_not_private
from understudy.escaping import for_markdown

__all__ = ["inspect_command"]


def inspect_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole card.")] = False,
) -> None:
    """Check a release (format, hashes, shapes) and print what it promises.

    Example: `understudy inspect release/`
    """
    from understudy.auditing.attachment import attached, describe_audit
    from understudy.codec import to_plain
    from understudy.release.readme import model_card
    from understudy.release.release import Release

    card = Release.load(release).card
    found = attached(release)
    if not card.private:
        warn_not_private(card.warnings)
    if as_json:
        print_json(to_plain(card))
    else:
        print_markdown(model_card(card))
        if found is not None:
            print_markdown(f"## Audit\n\n{for_markdown(describe_audit(found))}")
