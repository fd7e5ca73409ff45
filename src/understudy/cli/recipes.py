"""`understudy recipes`: the systems side by side, and one of them as TOML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from understudy.cli.console import out, print_json

if TYPE_CHECKING:
    from understudy.synthesizers.protocol import Recipe

__all__ = ["app"]

_WIDE = 150
"""Columns that a terminal must have to show every fact in a column of its own."""

app = typer.Typer(help="The recipes that come with the package, side by side.", invoke_without_command=True)


@app.callback(invoke_without_command=True)
def list_recipes(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Print all recipes side by side.

    `understudy recipes show NAME` prints one as TOML: copy it, change a line, and pass the file to
    `understudy fit --recipe my.toml`.
    """
    if context.invoked_subcommand is not None:
        return
    from understudy.codec import to_plain
    from understudy.synthesizers.registry import RECIPES

    if as_json:
        print_json([to_plain(recipe) for recipe in RECIPES.values()])
        return
    facts = [_facts(recipe) for recipe in RECIPES.values()]
    out.print(_wide(facts) if out.width >= _WIDE else _narrow(facts))


def _facts(recipe: Recipe) -> dict[str, str]:
    """What tells a recipe from others, by heading."""
    from understudy.codec import to_plain

    plain = to_plain(recipe)
    asked = recipe.releases(None, 1)
    return {
        "name": recipe.name,
        "kind": recipe.kind,
        "objective": _kind(plain, "objective"),
        "networks": f"{_kind(plain, 'generator')} / {_kind(plain, 'critic')}",
        "clipping": _kind(plain, "clipping"),
        "batch": str(plain.get("batch", "–")),
        "steps": "from budget" if recipe.steps is None else f"{recipe.steps:,}",
        "σ": f"{plain['noise_multiplier']:g}" if plain.get("noise_multiplier") else "from budget",
        "asks for": ", ".join(one.purpose for one in asked),
        "summary": recipe.summary,
    }


def _kind(plain: dict[str, Any], part: str) -> str:
    """The kind of a part of a recipe, or a dash where it has none."""
    value = plain.get(part)
    return str(value.get("kind", "own")) if isinstance(value, dict) else "–"


def _wide(facts: list[dict[str, str]]) -> Table:
    """One column for each fact."""
    table = Table(*facts[0], title="recipes")
    for one in facts:
        table.add_row(*one.values())
    return table


def _narrow(facts: list[dict[str, str]]) -> Table:
    """All facts of a recipe below its summary, for ordinary terminals."""
    table = Table("name", "what it is", title="recipes", show_lines=True)
    for one in facts:
        told = " · ".join(f"{name} {value}" for name, value in one.items() if name not in ("name", "summary"))
        table.add_row(one["name"], Text.assemble(one["summary"], "\n", (told, "dim")))
    table.columns[0].no_wrap = True
    return table


@app.command("show")
def show_recipe(name: Annotated[str, typer.Argument(help="Name of a recipe, or a TOML file.")]) -> None:
    """Print one recipe as TOML, to be copied and changed.

    Example: `understudy recipes show dp-cgan > my.toml`
    """
    from understudy.synthesizers.registry import find_recipe, recipe_to_toml

    typer.echo(recipe_to_toml(find_recipe(name)), nl=False)
