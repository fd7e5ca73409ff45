from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.codec import from_json, from_plain, from_toml, to_json, to_plain, to_toml
from understudy.errors import BudgetError, PlanError, RecipeError, SchemaError
from understudy.privacy.budget import Adjacency, Budget


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Circle:
    kind: ClassVar[str] = "circle"
    radius: float


@dataclass(frozen=True)
class Square:
    kind: ClassVar[str] = "square"
    side: int
    turned: bool = False

    def __post_init__(self) -> None:
        if self.side < 0:
            raise PlanError(f"side must not be negative, got {self.side}")
        if self.side > 1000:
            raise ValueError("side is too long")


@dataclass(frozen=True)
class Drawing:
    title: str
    shapes: tuple[Circle | Square, ...] = ()
    colour: Colour = Colour.RED
    frame: Square | None = None
    corner: tuple[int, int] = (0, 0)
    limit: int | float | str = 1
    extras: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    made: dt.datetime | None = None


_SHAPES = st.one_of(
    st.builds(Circle, st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(Square, st.integers(0, 1000), st.booleans()),
)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_DRAWINGS = st.builds(
    Drawing,
    title=_TEXT,
    shapes=st.lists(_SHAPES, max_size=4).map(tuple),
    colour=st.sampled_from(Colour),
    frame=st.none() | st.builds(Square, st.integers(0, 9)),
    corner=st.tuples(st.integers(-5, 5), st.integers(-5, 5)),
    limit=st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    extras=st.dictionaries(_TEXT, st.lists(st.integers(-9, 9), max_size=2).map(tuple), max_size=2),
    made=st.none() | st.datetimes(),
)


@settings(deadline=None)
@given(_DRAWINGS, st.booleans())
def test_round_trip(drawing: Drawing, omit: bool) -> None:
    """Every value comes back equal through dictionaries, JSON and TOML, with or without its defaults."""
    assert from_plain(Drawing, to_plain(drawing, omit_defaults=omit)) == drawing
    assert from_json(Drawing, to_json(drawing)) == drawing
    assert from_toml(Drawing, to_toml(drawing, omit_defaults=omit)) == drawing


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"title": "a", "size": 1}, r"^size: unknown key; known here: title, shapes"),
        ({}, r"^title: this key is missing; Drawing needs it"),
        ({"title": 3}, r"^title: expected str, got int 3"),
        ({"title": None}, r"^title: expected str, got NoneType"),
        ({"title": "a", "shapes": 3}, r"^shapes: expected a list, got int 3"),
        (
            {"title": "a", "shapes": [{"kind": "circle", "radius": "x"}]},
            r"^shapes\[0\]\.radius: expected float",
        ),
        (
            {"title": "a", "shapes": [{"kind": "circle", "radius": True}]},
            r"^shapes\[0\]\.radius: expected float",
        ),
        (
            {"title": "a", "shapes": [{"kind": "square", "side": 1.0}]},
            r"^shapes\[0\]\.side: expected int, got float",
        ),
        (
            {"title": "a", "shapes": [{"kind": "square", "side": True}]},
            r"^shapes\[0\]\.side: expected int, got bool",
        ),
        (
            {"title": "a", "shapes": [{"kind": "os.system"}]},
            r"^shapes\[0\]\.kind: expected one of 'circle', 'square'",
        ),
        ({"title": "a", "shapes": [{"radius": 1.0}]}, r"^shapes\[0\]\.kind: .* but the key is missing"),
        ({"title": "a", "shapes": [[]]}, r"^shapes\[0\]: expected Circle or Square, got list"),
        (
            {"title": "a", "frame": {"kind": "circle", "side": 1}},
            r"^frame\.kind: expected 'square', got 'circle'",
        ),
        ({"title": "a", "frame": 1}, r"^frame: expected a table that describes Square, got int 1"),
        ({"title": "a", "colour": "green"}, r"^colour: expected one of 'red', 'blue', got str 'green'"),
        ({"title": "a", "corner": [1]}, r"^corner: expected a list of 2 items, got 1"),
        ({"title": "a", "corner": [1, "b"]}, r"^corner\[1\]: expected int, got str 'b'"),
        ({"title": "a", "extras": {"k": ["x"]}}, r"^extras\.k\[0\]: expected int"),
        ({"title": "a", "extras": []}, r"^extras: expected a table"),
        ({"title": "a", "made": "yesterday"}, r"^made: expected a date"),
        ({"title": "a", "limit": []}, r"^limit: expected int or float or str, got list"),
        ([], r"^expected a table that describes Drawing, got list"),
    ],
)
def test_errors_name_the_place(plain: object, message: str) -> None:
    """A wrong description is refused with the path of the key, what was expected and what was seen."""
    with pytest.raises(RecipeError, match=message):
        from_plain(Drawing, plain, error=RecipeError)


def test_errors_of_the_value_itself_keep_their_type_and_gain_the_place() -> None:
    """What a constructor refuses is reported with its place; a ValueError becomes the asked-for error."""
    with pytest.raises(PlanError, match=r"^frame: side must not be negative, got -1"):
        from_plain(Drawing, {"title": "a", "frame": {"side": -1}})
    with pytest.raises(SchemaError, match=r"^frame: side is too long"):
        from_plain(Drawing, {"title": "a", "frame": {"side": 1001}})


def test_union_at_the_top() -> None:
    """A union of tagged classes can be read directly."""
    assert from_plain(Circle | Square, {"kind": "square", "side": 2}) == Square(2)
    assert from_toml(Circle | Square, 'kind = "circle"\nradius = 1') == Circle(1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"radius": NaN}', "NaN is not a finite number"),
        ('{"radius": -Infinity}', "-Infinity is not a finite number"),
        ('{"radius": 1e999}', "1e999 is not a finite number"),
        ('{"radius": 1, "radius": 2}', "the key 'radius' occurs twice"),
        ('{"radius": 1' + "0" * 400 + "}", "fits in 64 bits"),
        ('{"radius": ' + "[" * 200_000, "not valid JSON"),
        ('{"radius": ', "not valid JSON"),
        ("", "not valid JSON"),
    ],
)
def test_hostile_json_is_refused(text: str, message: str) -> None:
    """Numbers that are not finite, repeated keys, endless nesting and broken text give one typed error."""
    with pytest.raises(SchemaError, match=message):
        from_json(Circle, text)


def test_not_finite_numbers_are_not_written_as_json() -> None:
    """JSON has no NaN and no infinity, so writing one fails instead of writing a text nobody can read."""
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json(Circle(number))


def test_broken_toml_is_refused() -> None:
    """A TOML syntax error is reported as the asked-for error with its line."""
    with pytest.raises(RecipeError, match=r"not valid TOML.*line 1"):
        from_toml(Circle, "radius = \n", error=RecipeError)


def test_unsupported_types_are_errors_of_the_programmer() -> None:
    """A field that the closed table does not know cannot be read or written by accident."""

    @dataclass(frozen=True)
    class Odd:
        thing: complex = 1j

    with pytest.raises(TypeError, match="expected a dataclass instance, got complex"):
        to_plain(Odd())
    with pytest.raises(TypeError):
        from_plain(Odd, {"thing": 1})
    with pytest.raises(TypeError):
        to_plain(Odd)


def test_a_value_of_another_room() -> None:
    """The budget, whose rules live elsewhere, passes through and keeps its own error."""
    budget = Budget(1.0, 1e-5, Adjacency.REPLACE_ONE)
    assert from_toml(Budget, to_toml(budget)) == budget
    with pytest.raises(BudgetError, match="epsilon must be a positive"):
        from_toml(Budget, "epsilon = -1\ndelta = 1e-5")


def test_none_inside_a_list_cannot_become_toml() -> None:
    """TOML has no null, so a hole in a list is refused instead of shifting its neighbours."""

    @dataclass(frozen=True)
    class Holes:
        items: tuple[int | None, ...]

    with pytest.raises(ValueError, match="no null"):
        to_toml(Holes((1, None)))


def test_none_that_toml_would_lose_is_refused() -> None:
    """A None that would come back as another default is refused when it is written."""

    @dataclass(frozen=True)
    class Width:
        decimals: int | None = 2

    @dataclass(frozen=True)
    class Page:
        widths: tuple[Width, ...]

    with pytest.raises(ValueError, match="decimals is None"):
        to_toml(Page((Width(None),)))
