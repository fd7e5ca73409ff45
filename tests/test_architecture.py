"""The walls of the house: who may reach whom, checked on the import graph of the source, through all rooms between."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "understudy"

LEVELS = [
    {"errors", "_version", "codec", "files", "escaping", "calling", "notebook"},
    {"schema"},
    {"records"},
    {"privacy"},
    {"ledger", "door"},
    {"dpsgd", "discovery"},
    {"synthesizers"},
    {"planning", "certificate", "data"},
    {"release"},
    {"run"},
    {"evaluation", "tuning"},
    {"auditing", "reporting"},
    {"serving"},
    {"studio"},
    {"papers", "cli", "__init__", "__main__"},
]
"""Rooms, lowest first; a room may import rooms of its own level and below."""

NEVER_REACHES = {
    "schema": {"torch", "understudy.data", "understudy.door"},
    "records": {"torch", "understudy.data", "understudy.door"},
    "privacy": {"torch", "understudy.door", "understudy.data", "understudy.synthesizers"},
    "door": {"understudy.data", "understudy.synthesizers"},
    "dpsgd": {"understudy.data", "understudy.synthesizers"},
    "discovery": {"understudy.data", "understudy.synthesizers"},
    "synthesizers": {"understudy.data", "understudy.run"},
    "planning": {"understudy.data", "understudy.door.noise"},
    "data": {"torch"},
    "release": {"understudy.data"},
    "reporting": {"understudy.data"},
    "serving": {"understudy.data", "understudy.run", "understudy.door.noise"},
}
"""What a room must not reach, not even through others, not even late, inside a function."""

STARTS_WITHOUT = {
    "planning": {"torch"},
    "synthesizers.registry": {"torch"},
    "release": {"torch"},
    "serving": {"torch", "sklearn", "matplotlib"},
    "cli": {"torch", "pandas", "understudy.data.read"},
}
"""What must not be loaded when a module is imported, not even through others; a function may load it later."""


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def imports_of(code: str, *, late: bool = True) -> set[str]:
    """Every module that the code imports at run time; imports for types are left out.

    Args:
        code: of a module.
        late: whether imports inside functions count too.
    """
    tree = ast.parse(code)
    left_out = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        or (not late and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def level_of(module: str) -> int:
    head = module.split(".", maxsplit=1)[0]
    for level, rooms in enumerate(LEVELS):
        if head in rooms:
            return level
    raise AssertionError(f"{module} has no place in LEVELS; add it to the map and to docs/design.md")


def path_of(name: str) -> Path | None:
    path = SOURCE / Path(*name.split("."))
    for found in (path.with_suffix(".py"), path / "__init__.py"):
        if found.exists():
            return found
    return None


@cache
def own_imports(name: str, late: bool) -> frozenset[str]:
    path = path_of(name)
    assert path is not None
    return frozenset(imports_of(path.read_text(encoding="utf-8"), late=late))


def reached(module: str, code: str, *, late: bool) -> dict[str, str]:
    """Everything that a module reaches through other modules of the package, each with the way to it."""
    ways: dict[str, str] = {}
    waiting = [(module, imports_of(code, late=late))]
    while waiting:
        here, imported = waiting.pop()
        for name in sorted(imported):
            if name in ways:
                continue
            ways[name] = f"{ways.get('understudy.' + here, here)} → {name}"
            inner = name.removeprefix("understudy.")
            if name.startswith("understudy.") and path_of(inner) is not None:
                waiting.append((inner, set(own_imports(inner, late))))
    return ways


def in_room(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def violations(module: str, code: str) -> list[str]:
    """What in the code breaks a wall or points upwards."""
    problems = []
    for walls, late in ((NEVER_REACHES, True), (STARTS_WITHOUT, False)):
        for room, forbidden in walls.items():
            if in_room(module, room):
                problems += [
                    f"{module} must not reach {name}: {way}"
                    for name, way in reached(module, code, late=late).items()
                    for wall in forbidden
                    if in_room(name, wall)
                ]
    for imported in imports_of(code):
        target = imported.removeprefix("understudy.")
        if imported.startswith("understudy.") and path_of(target) and level_of(target) > level_of(module):
            problems.append(f"{module} imports {imported}, which stands above it")
    return problems + inner_violations(module, code)


def inner_violations(module: str, code: str) -> list[str]:
    """Inner walls: who sees private records, and who adds noise."""
    problems, imported = [], imports_of(code, late=True)
    last = module.rsplit(".", maxsplit=1)[-1]
    named = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    sees_records = "understudy.door.query.Batch" in imported or "Batch" in named
    queries = last == "queries" or module in ("dpsgd.step", "dpsgd.plain", "auditing.production")
    if sees_records and not (
        in_room(module, "door") or in_room(module, "cli") or in_room(module, "auditing") or queries
    ):
        problems.append(f"{module} sees a batch of private records; only queries do")
    calls = {node.attr for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)}
    if "perturb" in calls and not (in_room(module, "door") or in_room(module, "auditing")):
        problems.append(f"{module} adds noise; only the door does")
    if last == "recipe" and "torch" in imports_of(code, late=False):
        problems.append(f"{module} imports torch; a recipe is a value")
    kinds = ("GanRecipe", "EmbeddingRecipe", "MarginalsRecipe", "CodesRecipe")
    generic = (
        "planning",
        "certificate",
        "run",
        "release",
        "tuning",
        "auditing",
        "evaluation",
        "reporting",
        "cli",
    )
    if any(in_room(module, room) for room in generic) and any(kind in code for kind in kinds):
        problems.append(f"{module} names a kind of recipe; it must know the protocol only")
    return problems


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=module_name)
def test_imports_point_down_and_respect_walls(path: Path) -> None:
    """No module reaches a room above it or behind a wall, directly or through others."""
    assert violations(module_name(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("privacy.accounting", "import torch"),
        ("ledger.ledger", "def f():\n    from understudy.data import read"),
        ("release.sampling", "from understudy.data.records import Records"),
        ("release.release", "import understudy.cli"),
        ("dpsgd.step", "from understudy.synthesizers.gan.fit import GanFitter"),
        ("schema", "from understudy.planning import plan"),
        ("reporting.render", "import understudy.data"),
        ("reporting.curves", "from understudy.run.fit import fit"),
        ("planning", "import torch.nn"),
        ("planning", "from understudy.synthesizers.gan.fit import GanFitter"),
        ("synthesizers.marginals.fit", "from understudy.door.query import Batch"),
        ("synthesizers.codes.model", "def f(batch: Batch) -> None: ..."),
        ("synthesizers.codes.fit", "noise.perturb([sums], 1.0, 1.0)"),
        ("synthesizers.gan.recipe", "import torch"),
        ("run.fit", "isinstance(plan.recipe, GanRecipe)"),
    ],
)
def test_a_planted_violation_is_found(module: str, code: str) -> None:
    """The checker itself can fail: each planted import is reported."""
    assert violations(module, code)


def test_importing_for_types_only_is_allowed() -> None:
    """A name that only the type checker sees is no dependency."""
    assert violations("privacy.accounting", "if TYPE_CHECKING:\n    import torch") == []


@pytest.mark.parametrize(
    "path",
    sorted([*(SOURCE / "papers").glob("*.py"), *(ROOT / "examples").glob("*.py")]),
    ids=lambda p: p.stem,
)
def test_papers_and_examples_use_what_users_have(path: Path) -> None:
    """Reproductions and examples import nothing from the command line, the door or the ledger."""
    hidden = ("understudy.cli", "understudy.door", "understudy.ledger", "understudy.run.run")
    imported = imports_of(path.read_text(encoding="utf-8"))
    assert [name for name in imported if any(in_room(name, room) for room in hidden)] == []
