"""Frozen dataclasses to plain dictionaries, TOML and JSON, and back, by their type hints alone.

The conversion is closed: a text can only ever become an instance of the class that was asked for, made of
the classes its fields name. Nothing is imported, looked up or called by a name that the text holds.
Supported fields: `bool`, `int`, `float`, `str`, `None`, `datetime`, enums (by value), `tuple[...]`,
`Mapping[str, ...]`, nested dataclasses, unions, and types that `read_by` was told how to read. Dataclasses
that share a union carry a class variable
`kind: ClassVar[str]`, which is written as the key `kind` and chooses between them.

Errors name the place, as in `critic.hidden[0]: expected int, got str 'wide'`.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import json
import math
import tomllib
import types
import typing
from typing import Any, TypeVar, overload

import tomli_w

from understudy.errors import SchemaError, UnderstudyError

__all__ = [
    "from_json",
    "from_plain",
    "from_toml",
    "plain_from_json",
    "read_by",
    "to_json",
    "to_plain",
    "to_toml",
]

T = TypeVar("T")
_Error = type[UnderstudyError]
_READERS: dict[object, collections.abc.Callable[[object, _Error], Any]] = {}
_SCALARS = (bool, int, float, str)


# --------------------------------------------------------------------------------------------- writing


def to_plain(value: object, *, omit_defaults: bool = False) -> dict[str, Any]:
    """Return the dataclass instance as a dictionary of plain values, in the order of its fields.

    Args:
        value: an instance of a supported dataclass.
        omit_defaults: leave out fields that hold their default, for texts that people read.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"expected a dataclass instance, got {type(value).__name__}")
    kind = getattr(type(value), "kind", None)
    plain: dict[str, Any] = {} if kind is None else {"kind": kind}
    for field in dataclasses.fields(value):
        if not field.init:
            continue
        item = getattr(value, field.name)
        if omit_defaults and _has_default(field) and item == _default(field):
            continue
        plain[field.name] = _write(item, omit_defaults)
    return plain


def _write(value: object, omit_defaults: bool) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, tuple | list):
        return [_write(item, omit_defaults) for item in value]
    if isinstance(value, collections.abc.Mapping):
        return {str(key): _write(item, omit_defaults) for key, item in value.items()}
    return to_plain(value, omit_defaults=omit_defaults)


def to_json(value: object) -> str:
    """Return the value as indented JSON. NaN and infinities are refused with ValueError."""
    return json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_toml(value: object, *, omit_defaults: bool = False) -> str:
    """Return the value as TOML.

    TOML has no null: a field that is None is left out, and refused (ValueError) unless that is its default.
    """
    _refuse_lost_none(value)
    return tomli_w.dumps(_without_none(to_plain(value, omit_defaults=omit_defaults)))


def _refuse_lost_none(value: object) -> None:
    if isinstance(value, tuple):
        for item in value:
            _refuse_lost_none(item)
    if not dataclasses.is_dataclass(value):
        return
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if item is None and _default(field) is not None:
            raise ValueError(f"{field.name} is None, which TOML cannot say unless it is the default")
        _refuse_lost_none(item)


def _without_none(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_none(item) for key, item in plain.items() if item is not None}
    if isinstance(plain, list):
        if any(item is None for item in plain):
            raise ValueError("a list with a missing item cannot be written as TOML, which has no null")
        return [_without_none(item) for item in plain]
    return plain


# --------------------------------------------------------------------------------------------- reading


@overload
def from_plain(cls: type[T], plain: object, *, error: _Error = ...) -> T: ...
@overload
def from_plain(cls: object, plain: object, *, error: _Error = ...) -> Any: ...
def from_plain(cls: object, plain: object, *, error: _Error = SchemaError) -> Any:
    """Build an instance of `cls` (a dataclass, or a union of dataclasses with a `kind`) from plain values.

    Args:
        cls: what to build.
        plain: dictionaries, lists and scalars, as `to_plain` writes them.
        error: the exception to raise when `plain` does not describe such a value.
    """
    return _read_whole(cls, plain, error)


@overload
def from_json(cls: type[T], text: str, *, error: _Error = ...) -> T: ...
@overload
def from_json(cls: object, text: str, *, error: _Error = ...) -> Any: ...
def from_json(cls: object, text: str, *, error: _Error = SchemaError) -> Any:
    """Build an instance of `cls` from JSON; what is refused is said at `plain_from_json`."""
    return _read_whole(cls, plain_from_json(text, error=error), error)


def plain_from_json(text: str | bytes, *, error: _Error = SchemaError) -> Any:
    """Dictionaries, lists and scalars from JSON; NaN, infinities, repeated keys and half characters are refused."""
    try:
        text.encode() if isinstance(text, str) else text.decode()
        return json.loads(
            text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as cause:
        raise error(f"this is not valid JSON: {cause}") from cause


@overload
def from_toml(cls: type[T], text: str, *, error: _Error = ...) -> T: ...
@overload
def from_toml(cls: object, text: str, *, error: _Error = ...) -> Any: ...
def from_toml(cls: object, text: str, *, error: _Error = SchemaError) -> Any:
    """Build an instance of `cls` from TOML."""
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as cause:
        raise error(f"this is not valid TOML: {cause}") from cause
    return _read_whole(cls, plain, error)


def read_by(hint: object, reader: collections.abc.Callable[[object, _Error], Any]) -> None:
    """Let fields of an open type, such as a protocol, be read by a function that knows the classes it may stand for."""
    _READERS[hint] = reader


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        repeated = collections.Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {repeated!r} occurs twice")
    for key in plain:
        key.encode()  # ValueError for half a character, which an escape can make
    return plain


def _read_whole(cls: object, plain: object, error: _Error) -> Any:
    try:
        return _read(cls, plain, "", error)
    except RecursionError as cause:
        raise error("values are nested too deeply to be what was asked for.") from cause


def _read(hint: Any, plain: Any, path: str, error: _Error) -> Any:  # noqa: PLR0911 - one case for each kind
    origin = typing.get_origin(hint)
    if isinstance(hint, type) and hint in _READERS:
        return _read_open(hint, plain, path, error)
    if origin in (typing.Union, types.UnionType):
        return _read_union(typing.get_args(hint), plain, path, error)
    if origin is tuple:
        return _read_tuple(typing.get_args(hint), plain, path, error)
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(plain, dict):
            raise _mismatch("a table", plain, path, error)
        item = typing.get_args(hint)[1]
        return {key: _read(item, value, _join(path, key), error) for key, value in plain.items()}
    if dataclasses.is_dataclass(hint):
        return _read_dataclass(typing.cast("type", hint), plain, path, error)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _read_enum(hint, plain, path, error)
    return _read_scalar(hint, plain, path, error)


def _read_open(hint: type, plain: Any, path: str, error: _Error) -> Any:
    try:
        return _READERS[hint](plain, error)
    except UnderstudyError as cause:
        raise type(cause)(f"{_place(path)}{cause}") from cause


def _read_scalar(hint: Any, plain: Any, path: str, error: _Error) -> Any:
    if hint is float and isinstance(plain, int) and not isinstance(plain, bool):
        try:
            return float(plain)
        except OverflowError:
            raise _mismatch("a number that fits in 64 bits", "a huge integer", path, error) from None
    if hint in (dt.datetime, dt.date):
        return _read_time(hint, plain, path, error)
    if hint not in (*_SCALARS, types.NoneType):
        raise TypeError(f"the codec does not support fields of type {hint!r} (at {path or 'the top'})")
    if type(plain) is not hint:
        raise _mismatch(hint.__name__, plain, path, error)
    if hint is str and not _is_unicode(plain):
        raise _mismatch("whole Unicode characters", plain, path, error)
    if hint is int and abs(plain) >= 2**63:
        raise _mismatch("a whole number that fits in 64 bits", "a huge integer", path, error)
    return plain


def _is_unicode(text: str) -> bool:
    """Whether the text has a UTF-8 form; half a character (a lone surrogate) has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_time(hint: type[dt.date], plain: Any, path: str, error: _Error) -> dt.date:
    try:
        if isinstance(plain, dt.date):
            plain = plain.isoformat()
        return hint.fromisoformat(plain)
    except (TypeError, ValueError):
        raise _mismatch("a date such as 2024-12-31 or 2024-12-31T23:59:59", plain, path, error) from None


def _read_enum(hint: type[enum.Enum], plain: Any, path: str, error: _Error) -> enum.Enum:
    for member in hint:
        if type(member.value) is type(plain) and member.value == plain:
            return member
    raise _mismatch("one of " + ", ".join(repr(member.value) for member in hint), plain, path, error)


def _read_tuple(args: tuple[Any, ...], plain: Any, path: str, error: _Error) -> tuple[Any, ...]:
    if not isinstance(plain, list | tuple):
        raise _mismatch("a list", plain, path, error)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(
            _read(args[0], item, f"{path}[{_called(item, i)}]", error) for i, item in enumerate(plain)
        )
    if len(plain) != len(args):
        raise error(f"{_place(path)}expected a list of {len(args)} items, got {len(plain)}")
    return tuple(
        _read(hint, item, f"{path}[{i}]", error)
        for i, (hint, item) in enumerate(zip(args, plain, strict=True))
    )


def _called(item: Any, position: int) -> str:
    """How an error calls an item of a list: by its name if it has one, else by its position."""
    name = item.get("name") if isinstance(item, dict) else None
    return repr(name) if isinstance(name, str) and name else str(position)


def _read_union(args: tuple[Any, ...], plain: Any, path: str, error: _Error) -> Any:
    if plain is None and types.NoneType in args:
        return None
    args = tuple(arg for arg in args if arg is not types.NoneType)
    if len(args) == 1:
        return _read(args[0], plain, path, error)
    kinds: dict[str, Any] = {
        arg.kind: arg for arg in args if dataclasses.is_dataclass(arg) and hasattr(arg, "kind")
    }
    if kinds and isinstance(plain, dict):
        kind = plain.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            seen = f"got {kind!r}" if "kind" in plain else "but the key is missing"
            raise error(f"{_place(_join(path, 'kind'))}expected one of {', '.join(map(repr, kinds))}, {seen}")
        return _read_dataclass(kinds[kind], plain, path, error)
    for arg in args:
        try:
            return _read(arg, plain, path, error)
        except error:
            continue
    raise _mismatch(" or ".join(map(_type_name, args)), plain, path, error)


def _type_name(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " or ".join(repr(member.value) for member in hint)
    if typing.get_origin(hint) is tuple:
        return "a list"
    return str(getattr(hint, "__name__", hint))


def _read_dataclass(cls: type, plain: Any, path: str, error: _Error) -> Any:
    if not isinstance(plain, dict):
        raise _mismatch(f"a table that describes {cls.__name__}", plain, path, error)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    kind = getattr(cls, "kind", None)
    if kind is not None and plain.get("kind", kind) != kind:
        raise error(f"{_place(_join(path, 'kind'))}expected {kind!r}, got {plain['kind']!r}")
    known = [*fields, "kind"] if kind is not None else list(fields)
    for key in plain:
        if key not in known:
            raise error(f"{_place(_join(path, str(key)))}unknown key; known here: {', '.join(known)}")
    for name, field in fields.items():
        if name not in plain and not _has_default(field):
            raise error(f"{_place(_join(path, name))}this key is missing; {cls.__name__} needs it")
    hints = _hints(cls)
    arguments = {
        name: _read(hints[name], plain[name], _join(path, name), error) for name in fields if name in plain
    }
    return _construct(cls, arguments, path, error)


def _construct(cls: type, arguments: dict[str, Any], path: str, error: _Error) -> Any:
    try:
        return cls(**arguments)
    except UnderstudyError as cause:
        kind = type(cause) if isinstance(cause, error) or error is SchemaError else error
        raise kind(f"{_place(path)}{cause}") from cause
    except ValueError as cause:
        raise error(f"{_place(path)}{cause}") from cause


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _place(path: str) -> str:
    return f"{path}: " if path else ""


def _mismatch(expected: str, plain: Any, path: str, error: _Error) -> UnderstudyError:
    shown = repr(plain)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return error(f"{_place(path)}expected {expected}, got {type(plain).__name__} {shown}")
