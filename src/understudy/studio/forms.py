"""What the studio's forms say, read into values; whatever cannot be read is told by the name of its field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.errors import StudioError
from understudy.studio.workspace import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["numbers_from", "source_from"]


def source_from(form: Mapping[str, Any]) -> Source:
    """Where the records of a new journey are."""

    def text(name: str) -> str:
        return str(form.get(name, "")).strip()

    match text("kind"):
        case "database":
            if not text("address") or not text("query"):
                raise StudioError("a database needs an address and a query.")
            return Source(text("address"), text("query"))
        case "known":
            return Source(text("known"), known=True)
        case _:
            if not text("path"):
                raise StudioError("choose a file or a folder of records.")
            return Source(text("path"))


def numbers_from(given: Mapping[str, Any]) -> dict[str, Any]:
    """ε, δ, rows and recipe as they were typed; what is left empty is left out or unset."""
    found: dict[str, Any] = {}
    for name in ("epsilon", "delta", "total"):
        text = str(given.get(name, "")).strip()
        if text:
            try:
                found[name] = float(text)
            except ValueError as problem:
                raise StudioError(f"{name} must be a number, got {text[:40]!r}.") from problem
    if "rows" in given:
        text = str(given["rows"]).strip().replace(",", "")
        if text and not text.isdigit():
            raise StudioError(f"the number of rows must be a whole number, got {text[:40]!r}.")
        found["rows"] = int(text) if text else None
    if "recipe" in given:
        found["recipe"] = str(given["recipe"]) or None
    return found
