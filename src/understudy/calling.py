"""Calls from Python: a wrong one gets one sentence that says what was wrong and what a right one looks like."""

from __future__ import annotations

import difflib
import functools
import inspect
import numbers
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from understudy.errors import CallError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["explained", "number", "whole"]

P = ParamSpec("P")
R = TypeVar("R")


def explained(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function answer arguments that it does not have, or lacks, with a sentence and a right call.

    Args:
        example: a right call.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            signature = inspect.signature(function)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as problem:
                name = function.__name__
                raise CallError(
                    f"{name}: {problem}{_meant(signature, kwargs)}. Call it as {example}."
                ) from None
            return function(*args, **kwargs)

        return called

    return decorated


def _meant(signature: inspect.Signature, given: dict[str, object]) -> str:
    """The argument that a misspelled one is most like, as a question."""
    for name in given:
        if name not in signature.parameters:
            begun = [known for known in signature.parameters if known.startswith(name)]
            near = begun or difflib.get_close_matches(name, signature.parameters, n=1, cutoff=0.4)
            return f" (did you mean {near[0]!r}?)" if near else ""
    return ""


def number(name: str, value: object) -> float:
    """The argument as a float; CallError for what is no number, such as a text."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise CallError(f"{name} must be a number, as in {name}=1; got {_shown(value)}.")
    return float(value)


def whole(name: str, value: object) -> int:
    """The argument as an int: 1000, 1e3 or a whole number of numpy; CallError for anything else."""
    if not isinstance(value, bool):
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real) and float(value).is_integer():
            return int(float(value))
    raise CallError(f"{name} must be a whole number, as in {name}=1000; got {_shown(value)}.")


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | float | int | bool) or value is None else ""
    return f"{type(value).__name__} {text[:40]}".strip()
