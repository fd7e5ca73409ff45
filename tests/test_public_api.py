"""The public face: what `import understudy` offers."""

from __future__ import annotations

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
