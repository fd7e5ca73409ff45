"""A batch that does not fit in memory is taken in pieces: same result, same bill, and a plain word if nothing helps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on the address space is a matter of Linux")
def test_too_large_a_batch_is_taken_in_pieces(tmp_path: Path) -> None:
    """With a real limit on memory the step retries its own draw, equals the step at once, and is charged once."""
    root = HERE.parent.parent
    done = subprocess.run(
        [sys.executable, str(HERE / "memory_driver.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root / 'tests'}",
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert 1 <= told["pieces"] < 3000, "the limit was not felt"
    assert told["error"] < 1e-9, "the pieces do not add up to the step at once"
    assert told["taken"] == 2, "a retry was counted as a step"
    assert 1 <= len(told["log"]) <= told["taken"], "said once per change, not once per try"
    assert f"fakes now go through the critic in pieces of {told['fakes']} rows" in told["log"][-1]
    assert "smaller batch" in told["refusal"]
    assert 1 <= len(told["fit_log"]) <= 3, "the fit did not feel the limit, or spoke more than once per step"
    assert told["status"] == "spent"
    assert told["charged"] == 3
