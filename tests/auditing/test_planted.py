"""Twenty-one privacy bugs, planted one at a time: which are found by tests, which by `understudy audit`.

Prints the table of docs/audit.md. Takes about an hour of one core; `make test-slow` runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planted_bugs import BUGS

ROOT = Path(__file__).parents[2]
FIRST = list(BUGS)[:14]
"""Those of the table that a hostile reading made."""

TESTS = {
    "labeller": ["tests/synthesizers/embedding", "tests/synthesizers/test_contract.py"],
    "pairs": ["tests/synthesizers/marginals", "tests/synthesizers/test_contract.py"],
    "triples": ["tests/synthesizers/marginals", "tests/synthesizers/test_contract.py"],
    "piles": ["tests/synthesizers/marginals", "tests/synthesizers/test_contract.py"],
    "code": ["tests/synthesizers/codes", "tests/synthesizers/test_contract.py"],
    "root of m": ["tests/synthesizers/codes", "tests/synthesizers/test_contract.py"],
    "evaluation": ["tests/evaluation/test_released.py"],
    "criterion": ["tests/evaluation/test_criteria.py"],
    "resume": ["tests/run/test_checkpoint.py", "tests/auditing/test_rehearsal.py"],
    "exact number": ["tests/synthesizers/test_contract.py", "tests/auditing/test_rehearsal.py"],
    "noise key": ["tests/door"],
    "Box": ["tests/door"],
    "digits": ["tests/door"],
    "batches": ["tests/door", "tests/dpsgd/test_mutants.py"],
    "categor": ["tests/door/test_select.py", "tests/privacy/test_thresholds.py"],
    "record 0": ["tests/door", "tests/dpsgd/test_mutants.py"],
}
DPSGD = ["tests/dpsgd"]


def finished(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **paths, **environment},
        check=False,
        timeout=3000,
    )


def caught_by_tests(name: str) -> bool:
    files = next((files for part, files in TESTS.items() if part in name), DPSGD)
    known = [file for file in files if (ROOT / file).exists()]
    run = finished(
        "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "planted_bugs", *known, PLANTED_BUG=name
    )
    return run.returncode == 1


@pytest.mark.slow
@pytest.mark.timeout(20_000)
def test_every_planted_bug_is_found_and_most_by_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is missed by both instruments, and the audit alone finds at least 12 of the first 14."""
    rows = []
    with capsys.disabled():
        sys.stdout.write("\n| planted bug | tests | audit |\n|---|---|---|\n")
        for name in BUGS:
            audited = finished("tests/planted_bugs.py", name)
            assert audited.returncode in (0, 3), audited.stderr
            tests, audit = caught_by_tests(name), audited.stdout.strip() if audited.returncode == 3 else ""
            rows.append((name, tests, audit))
            sys.stdout.write(f"| {name} | {'caught' if tests else 'missed'} | {audit or 'missed'} |\n")
            sys.stdout.flush()
    assert all(tests or audit for _, tests, audit in rows)
    assert sum(bool(audit) for name, _, audit in rows if name in FIRST) >= 12


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("one noise key for all draws of a run", "shared-noise"),
        ("halves of Box and Muller equal", "repeated-noise"),
        ("only the first long code records weigh less", "code counts"),
        ("cells of piles chosen by exact counts", "little-noise"),
    ],
)
def test_an_audit_finds_what_it_once_passed(name: str, reading: str) -> None:
    """Reused or repeated noise, a bound for the first batch and exact choices fail by the reading for them."""
    audited = finished("tests/planted_bugs.py", name)
    assert audited.returncode == 3, audited.stderr
    assert reading in audited.stdout
