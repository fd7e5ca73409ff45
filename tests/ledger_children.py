"""Python processes that know the package and its ledger, for tests that kill them or let them race."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that knows the package and the names that all scripts need."""
    head = """
        import os, sys, time
        from understudy.errors import UnderstudyError
        from understudy.privacy.budget import Budget
        from understudy.ledger.ledger import Ledger
        from understudy.privacy.mechanisms import Charge, SubsampledGaussian
        from understudy.ledger.meter import Meter
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a child; returns its exit code and what it printed."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err
