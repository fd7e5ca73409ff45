"""The notebooks in `examples/` run from top to bottom in a kernel, and are kept without outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
RUN = """
import sys, nbformat
from nbclient import NotebookClient
NotebookClient(nbformat.read(sys.argv[1], as_version=4), timeout=300, kernel_name="python3").execute()
"""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """Whoever opens the notebook and runs all cells gets no error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    environment |= {
        "IPYTHONDIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_notebooks_are_kept_without_outputs() -> None:
    """A difference between two versions of a notebook is one of its text, and no output can hold a record."""
    assert len(NOTEBOOKS) == 3
    for notebook in NOTEBOOKS:
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
            assert not cell.get("outputs"), notebook.name
            assert cell.get("execution_count") is None, notebook.name
