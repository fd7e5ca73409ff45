"""`understudy recipes`: the systems side by side, and one of them as TOML."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from understudy.cli.console import out, print_json

__all__ = ["app"]

app = typer.Typer(
    help="The private GANs that come with the package, side by side.", invoke_without_command=True
)


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
    from understudy.recipes import RECIPES

    if as_json:
        print_json([to_plain(recipe) for recipe in RECIPES.values()])
        return
    table = Table(title="recipes")
    for heading in (
        "name",
        "objective",
        "networks",
        "labels",
        "clipping",
        "batch",
        "σ",
        "critic steps",
        "summary",
    ):
        table.add_column(heading, overflow="fold")
    for recipe in RECIPES.values():
        plain = to_plain(recipe)
        table.add_row(
            recipe.name,
            plain["objective"]["kind"] if recipe.has_critic else "private statistic",
            f"{plain['generator']['kind']} / {plain['critic']['kind'] if recipe.has_critic else 'none'}",
            plain["labels"]["kind"] if recipe.conditional else "none",
            plain["clipping"]["kind"] if recipe.has_critic else "unit norm",
            str(recipe.batch),
            "from budget" if recipe.noise_multiplier is None else f"{recipe.noise_multiplier:g}",
            str(plain["turns"].get("count", plain["turns"]["kind"])) if recipe.has_critic else "0",
            recipe.summary,
        )
    out.print(table)


@app.command("show")
def show_recipe(name: Annotated[str, typer.Argument(help="Name of a recipe, or a TOML file.")]) -> None:
    """Print one recipe as TOML, to be copied and changed.

    Example: `understudy recipes show dp-cgan > my.toml`
    """
    from understudy.recipes import find_recipe, recipe_to_toml

    typer.echo(recipe_to_toml(find_recipe(name)), nl=False)
