"""What the studio's forms say, read into values; whatever cannot be read is told by the name of its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.errors import StudioError
from understudy.privacy.budget import Budget
from understudy.studio.workspace import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Publishing", "numbers_from", "publishing_from", "source_from"]


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
    """ε, δ, account, rows, steps and recipe as they were typed; what is left empty is left out or unset."""
    found: dict[str, Any] = {
        name: _number(given, name)
        for name in ("epsilon", "delta", "total")
        if str(given.get(name, "")).strip()
    }
    if str(given.get("account", "")).strip():
        found["dataset"] = str(given["account"]).strip()
    for name in ("rows", "steps"):
        if name in given:
            text = str(given[name]).strip().replace(",", "")
            if text and not (text.isascii() and text.isdigit() and len(text) <= 12):
                raise StudioError(f"the number of {name} must be a whole number, got {text[:40]!r}.")
            found[name] = int(text) if text else None
    if "recipe" in given:
        found["recipe"] = str(given["recipe"]) or None
    return found


@dataclass(frozen=True)
class Publishing:
    """An evaluation to be published.

    Args:
        dataset: the account of the test records.
        total: the ε that they may ever spend, if they have no account yet.
        budget: what this evaluation spends.
        verdicts: whether the verdicts on the criteria are published instead of measures.
    """

    dataset: str
    total: float
    budget: Budget
    verdicts: bool


def publishing_from(form: Mapping[str, Any]) -> Publishing:
    """What is to be published, and at which cost."""
    dataset = str(form.get("account", "")).strip()
    if not dataset:
        raise StudioError("name the account of the test records in the ledger.")
    budget = Budget(_number(form, "epsilon"), _number(form, "delta"))
    return Publishing(dataset, _number(form, "total"), budget, form.get("what") == "verdicts")


def _number(form: Mapping[str, Any], name: str) -> float:
    text = str(form.get(name, "")).strip()
    try:
        return float(text)
    except ValueError as problem:
        raise StudioError(f"{name} must be a number, got {text[:40]!r}.") from problem
