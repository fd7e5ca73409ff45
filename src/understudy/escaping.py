"""Text that others wrote (cards, file names, categories), made harmless where it is shown.

A terminal obeys escape sequences, Markdown obeys tags and brackets, and a spreadsheet computes what begins like a
formula. Each function here changes only the characters that its medium would obey.
"""

from __future__ import annotations

import re

__all__ = ["for_markdown", "for_spreadsheet", "for_terminal"]

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and line feed, marks that reverse the direction of text, and halves of characters."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def for_terminal(text: str) -> str:
    r"""The text with control characters spelled out, such as \x1b for escape."""
    return _CONTROL.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def for_markdown(text: str) -> str:
    """The text as one line of Markdown that shows it: no tag, link, emphasis, code or table cell begins in it."""
    line = " ".join(for_terminal(text).split("\n")).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", line)


def for_spreadsheet(cell: str) -> str:
    """The cell with an apostrophe before it if a spreadsheet would compute it; numbers stay as they are."""
    if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
