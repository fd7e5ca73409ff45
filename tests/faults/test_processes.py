"""Real processes on this machine: started by us and by torchrun, refused, killed, and taken up again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tiny import TINY_TABLE, tiny_frame
from understudy.cli.running import OWN_DATASET, beside
from understudy.codec import to_json
from understudy.ledger.ledger import Ledger
from understudy.planning import plan
from understudy.release.release import Release
from understudy.schema import save_schema

ROOT = Path(__file__).parents[2]
STEPS = 400
LONG = 240.0
"""Seconds after which a process that should have ended is said to hang; far more than a busy machine needs."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whole and in shards, its schema, a plan of many private steps and one of counts."""
    folder = tmp_path_factory.mktemp("inputs")
    tiny_frame(64).to_csv(folder / "table.csv", index=False)
    for rank in range(2):
        tiny_frame(32, seed=rank).to_csv(folder / f"shard-{rank}.csv", index=False)
    save_schema(TINY_TABLE, folder / "schema.toml")
    common = {"epsilon": 3.0, "delta": 1e-3, "rows": 64}
    steps = plan(TINY_TABLE, recipe="dp-cgan", batch=8, steps=STEPS, **common)  # type: ignore[arg-type]
    kills = plan(TINY_TABLE, recipe="dp-cgan", batch=8, steps=80, **common)  # type: ignore[arg-type]
    counts = plan(TINY_TABLE, recipe="understudy", steps=20, **common)  # type: ignore[arg-type]
    (folder / "steps.json").write_text(to_json(steps))
    (folder / "kills.json").write_text(to_json(kills))
    (folder / "counts.json").write_text(to_json(counts))
    return folder


def started(*words: object, **variables: str) -> subprocess.Popen[str]:
    paths = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        env={**os.environ, **paths, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what was said on standard error."""
    _, said = process.communicate(timeout=LONG)
    return process.returncode, " ".join(said.split())


def fitting(inputs: Path, out: Path, name: str, *more: object, data: str = "table.csv") -> Sequence[object]:
    plan_file = inputs / f"{name}.json"
    return (
        "understudy",
        "fit",
        inputs / data,
        "--plan",
        plan_file,
        "--out",
        out,
        "--checkpoint-every",
        50,
        *more,
    )


def charged(out: Path) -> list[int]:
    with Ledger(beside(out, "ledger")) as book:
        return [entry.steps_charged for entry in book.statement(OWN_DATASET).entries]


def test_torchrun_starts_three(inputs: Path, tmp_path: Path) -> None:
    """Whatever sets the variables of torchrun starts a run of several processes, which leaves one release."""
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", 3, "-m")
    code, said = ended(started(*launcher, *fitting(inputs, tmp_path / "release", "counts")))
    assert code == 0, said
    assert Release.load(tmp_path / "release").card.private
    assert said.count("released to") == 1


def test_each_process_may_have_a_shard_of_its_own(inputs: Path, tmp_path: Path) -> None:
    """Shards are named by the number of the process; two with the same one are refused, and nothing is charged."""
    own, out = ("--processes", 2, "--own-shards"), tmp_path / "release"
    code, said = ended(started(*fitting(inputs, out, "counts", *own, data="shard-{rank}.csv")))
    assert code == 0, said
    assert Release.load(out).card.private
    code, said = ended(started(*fitting(inputs, tmp_path / "twice", "counts", *own, data="shard-0.csv")))
    assert code == 1
    assert said.count("error:") == 1
    assert "processes 0 and 1 were given the same shard" in said
    assert not list(tmp_path.glob("twice*"))


def test_processes_that_disagree_about_their_number_are_refused(inputs: Path, tmp_path: Path) -> None:
    """Two sizes of the world, or one number twice: both processes stop before anything is charged."""
    for one, other in ((("0", "2"), ("1", "3")), (("0", "3"), ("1", "2"))):
        store = tmp_path / f"store-{one[1]}"
        both = [
            started(
                *fitting(inputs, tmp_path / "release", "counts", "--wait", 2),
                RANK=rank,
                WORLD_SIZE=size,
                UNDERSTUDY_STORE=str(store),
            )
            for rank, size in (one, other)
        ]
        for process in both:
            code, said = ended(process)
            assert code == 1
            assert "the processes of this run differ" in said or "cannot reach the others" in said
    assert not list(tmp_path.glob("release*"))


def kill_one(inputs: Path, out: Path, rank: int, size: int, pause: float) -> str:
    """Start a run, kill one of its processes with SIGKILL once steps are taken, and see all others end."""
    first = started(*fitting(inputs, out, "steps", "--processes", size))
    family: list[psutil.Process] = []
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline and first.poll() is None:
        family = psutil.Process(first.pid).children()
        if beside(out, "checkpoint").exists() and len(family) == size - 1:
            break
        time.sleep(0.02)
    time.sleep(pause)
    victim = first.pid if rank == 0 else sorted(one.pid for one in family)[rank - 1]
    os.kill(victim, signal.SIGKILL)
    _, said = first.communicate(timeout=LONG)
    _, alive = psutil.wait_procs(family, timeout=LONG)
    assert not alive, "a process outlives the others"
    assert first.returncode in (-signal.SIGKILL, 1), said
    return " ".join(said.split())


def goes_on(inputs: Path, out: Path, *more: object) -> None:
    """The run is taken up, ends, and every planned step is on record once."""
    before = charged(out)
    code, said = ended(started(*fitting(inputs, out, "steps", "--resume", *more)))
    assert code == 0, said
    assert charged(out) == [STEPS]
    assert before[0] <= STEPS
    assert Release.load(out).card.private
    assert not beside(out, "checkpoint").exists()


def test_a_killed_process_stops_all_and_the_run_goes_on_alone(inputs: Path, tmp_path: Path) -> None:
    """Without process 1 the first says what happened and stops; one process takes the rest of the steps."""
    out = tmp_path / "release"
    said = kill_one(inputs, out, rank=1, size=2, pause=0.2)
    assert "process 0 of 2 has lost another one" in said
    assert not out.exists()
    assert 0 < charged(out)[0] <= STEPS
    goes_on(inputs, out)


def test_a_killed_first_process_ends_all_and_the_run_goes_on_with_three(inputs: Path, tmp_path: Path) -> None:
    """Without the first process nothing is drawn any more; three processes take the rest of the steps."""
    out = tmp_path / "release"
    kill_one(inputs, out, rank=0, size=2, pause=0.2)
    assert not out.exists()
    goes_on(inputs, out, "--processes", 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rank", [0, 1])
def test_kills_at_random_moments(inputs: Path, tmp_path: Path, rank: int) -> None:
    """Twenty kills of one process at random moments: never a hang, never an uncharged draw, and the run goes on."""
    driver = Path(__file__).with_name("ranks_driver.py")
    done = subprocess.run(
        [sys.executable, driver, inputs, tmp_path, str(rank), "20"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
