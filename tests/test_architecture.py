"""The walls of the house: who may import whom, checked on the import graph of the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "understudy"

LEVELS = [
    {"errors", "_version"},
    {"codec", "escaping", "files"},
    {"schema"},
    {"records"},
    {"privacy"},
    {"dpsgd.clipping", "dpsgd.objectives", "dpsgd.conditioning"},
    {"recipes"},
    {"charges", "planning"},
    {"ledger"},
    {"door"},
    {"dpsgd"},
    {"synthesizers"},
    {"data"},
    {"release"},
    {"run"},
    {"evaluation"},
    {"tuning"},
    {"audit"},
    {"report"},
    {"papers"},
    {"cli"},
    {"__init__", "__main__"},
]
"""Rooms, lowest first; a room may import rooms of its own level and below."""

FORBIDDEN = {
    "privacy": {"torch", "understudy.door", "understudy.dpsgd", "understudy.data", "understudy.synthesizers"},
    "schema": {"torch"},
    "recipes": {"torch", "understudy.data"},
    "charges": {"torch", "understudy.data"},
    "planning": {"torch", "understudy.data"},
    "records": {"torch", "understudy.data"},
    "data": {"torch"},
    "dpsgd": {"understudy.data", "understudy.synthesizers"},
    "synthesizers": {"understudy.data"},
    "release": {"understudy.data"},
    "report": {"understudy.data"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def imports_of(code: str) -> set[str]:
    """Every module that the code imports at run time, also inside functions; imports for types are left out."""
    tree = ast.parse(code)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def level_of(module: str) -> int:
    for depth in range(module.count(".") + 1, 0, -1):
        head = ".".join(module.split(".")[:depth])
        for level, rooms in enumerate(LEVELS):
            if head in rooms:
                return level
    raise AssertionError(f"{module} has no place in LEVELS; add it to the map and to docs/design.md")


def is_module(name: str) -> bool:
    path = SOURCE / Path(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def violations(module: str, code: str) -> list[str]:
    """What in the code breaks a wall or points upwards."""
    problems = []
    for imported in imports_of(code):
        for room, walls in FORBIDDEN.items():
            if module == room or module.startswith(f"{room}."):
                problems += [
                    f"{module} must not import {imported}"
                    for wall in walls
                    if imported == wall or imported.startswith(f"{wall}.")
                ]
        target = imported.removeprefix("understudy.")
        if imported.startswith("understudy.") and is_module(target) and level_of(target) > level_of(module):
            problems.append(f"{module} imports {imported}, which stands above it")
    return problems


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=module_name)
def test_imports_point_down_and_respect_walls(path: Path) -> None:
    """No module reaches a room above it or behind a wall."""
    assert violations(module_name(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("privacy.accounting", "import torch"),
        ("ledger.ledger", "def f():\n    from understudy.data import read"),
        ("release.sampling", "from understudy.data.records import Records"),
        ("release.release", "import understudy.cli"),
        ("dpsgd.mechanism", "from understudy.synthesizers.gan.fit import Trainer"),
        ("schema", "from understudy.planning import plan"),
        ("report.render", "import understudy.data"),
        ("planning", "import torch.nn"),
    ],
)
def test_a_planted_violation_is_found(module: str, code: str) -> None:
    """The checker itself can fail: each planted import is reported."""
    assert violations(module, code)


def test_importing_for_types_only_is_allowed() -> None:
    """A name that only the type checker sees is no dependency."""
    assert violations("privacy.ledger", "if TYPE_CHECKING:\n    import torch") == []
