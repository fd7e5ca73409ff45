"""Analysts need no torch: tables and codes are drawn, served, asked and inspected without it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import understudy
from test_golden import CODES, tiny_codes
from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_images
from understudy.release.release import Release

ROOT = Path(__file__).parent.parent.parent
HEAVY = ("torch", "sklearn", "matplotlib")
"""What `understudy-light` does not install."""

_WITHOUT = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"refused: {{name}}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def light(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that has nothing heavy."""
    command = [sys.executable, "-c", _WITHOUT + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release of each kind."""
    root = tmp_path_factory.mktemp("releases")
    cases = {
        "table": (TINY_TABLE, tiny_frame(200), 20),
        "codes": (CODES, tiny_codes(), 20),
        "images": (TINY_IMAGES, tiny_images(200), 2),
    }
    for name, (schema, data, steps) in cases.items():
        plan = understudy.plan(schema, epsilon=3.0, delta=1e-3, rows=200, steps=steps)
        understudy.fit(data, plan, out=root / name)
    return {name: root / name for name in cases}


_COMMANDS = """
from understudy.cli import program
from typer.testing import CliRunner
release, kind, out = sys.argv[1:]
run = lambda *words: CliRunner().invoke(program(words), words)
found = [run("inspect", release), run("sample", release, "--rows", "500", "--seed", "3", "--out", out)]
if kind == "table":
    found.append(run("statistics", release))
for one in found:
    assert one.exit_code == 0, (one.output, one.exception)
from starlette.testclient import TestClient
from understudy.release.release import Release
from understudy.serving import release_app
served = TestClient(release_app(Release.load(release)))
asked = ["/statistics?what=outcome"] if kind == "table" else []
for path in ("/", "/report", "/sample?rows=5", "/openapi.json", *asked):
    assert served.get(path).status_code == 200, path
assert not {"torch", "sklearn", "matplotlib"} & set(sys.modules)
"""


@pytest.mark.parametrize("kind", ["table", "codes"])
def test_tables_and_codes_need_nothing_heavy(folders: dict[str, Path], kind: str, tmp_path: Path) -> None:
    """Commands and pages of analysts work without torch, and the same seed gives the same records bit by bit."""
    pytest.importorskip("starlette")
    out = tmp_path / "synthetic.parquet"
    done = light(_COMMANDS, str(folders[kind]), kind, str(out))
    assert done.returncode == 0, done.stderr
    expected = Release.load(folders[kind]).sample(500, seed=3)
    assert isinstance(expected, pd.DataFrame)
    path = tmp_path / "expected.parquet"
    expected.to_parquet(path)
    pd.testing.assert_frame_equal(pd.read_parquet(out), pd.read_parquet(path), check_exact=True)


def test_a_network_says_what_to_install(folders: dict[str, Path]) -> None:
    """Images are made by a network: without torch the command says which package has it."""
    code = "from understudy.cli import main; sys.argv[0] = 'understudy'; main()"
    done = light(code, "sample", str(folders["images"]), "--rows", "3", "--out", "x.npz")
    assert done.returncode == 1
    assert "pip install understudy" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_light_package_is_the_same_package_with_less() -> None:
    """Both packages are built from one source and one version, and ask for the same versions of what both need."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    less = tomllib.loads((ROOT / "light" / "pyproject.toml").read_text("utf-8"))
    names = {"torch": "torch", "sklearn": "scikit-learn", "matplotlib": "matplotlib"}
    left = [one for one in whole["dependencies"] if not one.startswith(tuple(names.values()))]
    assert less["project"]["dependencies"] == left
    assert less["project"]["optional-dependencies"]["serve"] == whole["optional-dependencies"]["studio"]
    assert less["tool"]["hatch"]["version"]["path"] == "../src/understudy/_version.py"
