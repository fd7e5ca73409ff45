"""The public face: what `import understudy` offers."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import understudy

VERBS = ("evaluate", "plan", "fit", "sample")


def test_all_is_sorted_and_importable() -> None:
    """Every advertised name exists, and the list is in order so that a missing one is seen."""
    assert understudy.__all__ == sorted(understudy.__all__)
    for name in understudy.__all__:
        assert getattr(understudy, name) is not None


def test_verbs_stay_functions_after_their_modules_are_loaded() -> None:
    """No submodule shadows a verb of the same name."""
    import understudy.planning
    import understudy.release.sampling
    import understudy.run.fit

    for verb in VERBS:
        assert callable(getattr(understudy, verb))


def test_unknown_names_are_refused() -> None:
    """A typing error is an AttributeError that names it."""
    with pytest.raises(AttributeError, match="trian"):
        _ = understudy.trian


@pytest.mark.parametrize(
    "module", ["understudy.planning", "understudy.synthesizers.registry", "understudy.cli", "understudy.data"]
)
def test_planning_does_not_load_torch(module: str) -> None:
    """Planning and reading stay fast because nothing on the way imports torch."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_line_starts_light() -> None:
    """`understudy --help` must not wait for numerical libraries that the command does not need."""
    heavy = ("torch", "scipy", "pandas", "sklearn", "matplotlib", "dp_accounting")
    look = f"print([name for name in {heavy} if name in sys.modules])"
    code = f"import sys; sys.path[:0] = {sys.path!r}; import understudy.cli; {look}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


HEAVY = (
    "torch",
    "pandas",
    "pyarrow",
    "numpy",
    "scipy",
    "sklearn",
    "dp_accounting",
    "rich.markdown",
    "rich.progress",
)


def loaded_by(*words: str) -> list[str]:
    """The heavy libraries, and the commands, that are loaded when these words have been obeyed."""
    look = f"[n for n in {HEAVY} if n in sys.modules] + [n for n in sys.modules if n.startswith('understudy.cli.')]"
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; sys.argv[1:] = {list(words)!r}\n"
        f"from understudy.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\nprint({look})"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = ast.literal_eval(result.stdout.splitlines()[-1])
    assert isinstance(found, list)
    return found


def test_a_command_loads_itself_and_no_other() -> None:
    """Who asks for the help of `schema` waits for no numerical library and for no other command."""
    loaded = loaded_by("schema", "--help")
    assert not set(loaded) & set(HEAVY) - {"rich.markdown"}  # typer lays its own help out with it
    assert "understudy.cli.schema" in loaded
    assert not {f"understudy.cli.{name}" for name in ("fit", "audit", "sweep", "evaluate", "ledger")} & set(
        loaded
    )


def test_planning_loads_the_accountants_and_nothing_that_reads_or_trains() -> None:
    """`plan` needs scipy for its accountants; torch, pandas and pyarrow are for those who fit."""
    loaded = loaded_by("plan", "--rows", "1000", "--epsilon", "1")
    assert "dp_accounting" in loaded
    assert not {"torch", "pandas", "pyarrow", "sklearn", "rich.markdown", "rich.progress"} & set(loaded)
    assert "understudy.cli.fit" not in loaded


def test_the_whole_program_is_there_for_whoever_asks() -> None:
    """Help, a wrong name and the shell's completion see every command."""
    from understudy.cli import app, program

    names = [one.name for one in (*app.registered_commands, *app.registered_groups)]
    assert {"plan", "fit", "schema", "audit"} <= set(names)
    assert len(names) == len(set(names)) >= 12
    everything = program(["no-such-command"])
    assert [one.name for one in everything.registered_commands] == [
        one.name for one in app.registered_commands
    ]
    (only,) = program(["plan"]).registered_commands
    assert only.name == "plan"
