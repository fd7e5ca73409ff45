"""An audit that travels with a release: `audit.json` in its folder, bound to the card by a hash.

An audit of a plan runs on stand-in records and reads no private row, so it may be published. It is a statement by
whoever attached it: the hash shows that it speaks of this very card (and the card, of these very weights), not that it
is true. Anyone can make it again with `understudy audit --attach`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy import codec, files
from understudy._version import __version__
from understudy.auditing.verdict import Audit  # noqa: TC001 - the codec reads the hint
from understudy.errors import ReleaseError
from understudy.release.release import ATTACHMENT, CARD, read_plain_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ATTACHMENT", "attach", "attached", "describe_audit"]

_FORMAT = 1
_LARGEST = 2**20


@dataclass(frozen=True, kw_only=True)
class _Attachment:
    """The content of the file.

    Args:
        format: version of this file.
        card_sha256: of the card that the audit speaks of.
        made_with: version of understudy.
        audit: what was found.
    """

    format: int = _FORMAT
    card_sha256: str
    made_with: str
    audit: Audit


def attach(folder: Path, audit: Audit) -> Path:
    """Write an audit into the folder of a release, replacing an earlier one.

    Raises:
        ReleaseError: the folder holds no release, or the disk refuses.
    """
    content = _Attachment(card_sha256=_card_hash(folder), made_with=__version__, audit=audit)
    path = folder / ATTACHMENT
    files.write_whole(path, codec.to_json(content), error=ReleaseError)
    return path


def attached(folder: Path) -> Audit | None:
    """The audit that a release carries, or None.

    Raises:
        ReleaseError: there is a file, but it is damaged, or speaks of another card.
    """
    path = folder / ATTACHMENT
    if not path.exists() and not path.is_symlink():
        return None
    try:
        text = read_plain_file(path, _LARGEST).decode()
    except UnicodeDecodeError as problem:
        raise ReleaseError(f"{path} is not text: {problem}.") from problem
    content = codec.from_json(_Attachment, text, error=ReleaseError)
    if content.format != _FORMAT:
        raise ReleaseError(f"{path} has format {content.format}; this version reads format {_FORMAT}.")
    if content.card_sha256 != _card_hash(folder):
        raise ReleaseError(f"{path} speaks of another card than {folder / CARD}: remove it, or audit again.")
    return content.audit


def describe_audit(audit: Audit) -> str:
    """Two sentences about an audit, for the certificate."""
    return (
        f"{audit.verdict.outcome.value}: {audit.verdict.says} The running code, attacked on stand-in records with "
        f"{audit.canaries} canaries in {audit.rounds} releases, has ε ≥ {audit.lower_bound:.4g} (claimed "
        f"{audit.claimed_epsilon:.4g}, confidence {100 * audit.confidence:g} %)."
    )


def _card_hash(folder: Path) -> str:
    return hashlib.sha256(read_plain_file(folder / CARD, 16 * 2**20)).hexdigest()
