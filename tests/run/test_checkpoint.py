"""Checkpoints: runs that stop and go on, and files that are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from tiny import TINY_IMAGES, stop_after, tiny_images, tiny_plan
from understudy.door.door import Door
from understudy.errors import BudgetError, CheckpointError, Interrupted, LedgerError, PlanError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan
from understudy.privacy.budget import Budget
from understudy.privacy.composition import repetitions
from understudy.run.checkpoint import Checkpoints, load_checkpoint
from understudy.run.fit import fit, fit_in_stages, stages_of
from understudy.run.run import Progress

PLAN = tiny_plan(TINY_IMAGES, steps=12)


@pytest.mark.parametrize("stop", [1, 5, 11])
def test_a_seeded_run_that_was_stopped_ends_where_it_would_have_ended(tmp_path: Path, stop: int) -> None:
    """Interrupted and resumed, the seeded run gives the same weights bit by bit."""
    whole = fit(tiny_images(), PLAN, insecure_seed=5)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted, match=f"after {stop} of 12"):
        fit(tiny_images(), PLAN, insecure_seed=5, checkpoints=Checkpoints(path, 4), stop=stop_after(stop))
    resumed = fit(tiny_images(), PLAN, insecure_seed=5, checkpoints=Checkpoints(path, 4, resume=True))
    for name, value in whole.weights.items():
        assert np.array_equal(value, resumed.weights[name])
    assert resumed.card.label_weights == whole.card.label_weights


def test_a_checkpoint_gives_one_release(tmp_path: Path) -> None:
    """Though nobody named a ledger, a second run from a copy of the checkpoint, with noise of its own, is refused."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 100), stop=stop_after(3))
    blob = path.read_bytes()
    fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 100, resume=True))
    path.write_bytes(blob)
    with pytest.raises(LedgerError, match="closed"):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 100, resume=True))


def test_crashes_without_a_ledger_draw_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that crashes twice and goes on, no purpose is drawn more often than the plan charges."""
    drawn, original = Counter[str](), Door._drawn

    def noted(self: Door, purpose: str, *rest: Any) -> Any:
        drawn[purpose] += 1
        return original(self, purpose, *rest)

    monkeypatch.setattr(Door, "_drawn", noted)
    path, deaths = tmp_path / "run.checkpoint", [3, 7]

    def die(progress: Progress) -> None:
        if deaths and progress.done >= deaths[0]:
            raise KeyboardInterrupt

    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 4, resume), on_progress=die)
        del deaths[0]
    fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 4, resume=True))
    charged = {one.purpose: repetitions(one) for one in PLAN.charges}
    assert all(drawn[purpose] <= charged[purpose] for purpose in drawn), drawn
    with pytest.raises(PlanError, match="account"):
        next(fit_in_stages(tiny_images(), (PLAN,), checkpoints=Checkpoints(tmp_path / "other", 4)))


def test_published_numbers_are_not_drawn_again(tmp_path: Path) -> None:
    """The noisy histogram of the first part is the one of the release; a second draw would cost again."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 100), stop=stop_after(3))
    _, before = load_checkpoint(path)
    release = fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 100, resume=True))
    assert release.card.label_weights == tuple(before["run:label-weights"].tolist())


def test_a_checkpoint_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Working files are private."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 100), stop=stop_after(3))
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"{}", b"\xff" * 100])
def test_rubbish_is_not_resumed(tmp_path: Path, content: bytes) -> None:
    """A damaged checkpoint is refused with its name."""
    path = tmp_path / "run.checkpoint"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"run\.checkpoint"):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 4, resume=True))


def test_another_plan_and_another_seed_are_not_resumed(tmp_path: Path) -> None:
    """A checkpoint goes on only as what it was."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 4), stop=stop_after(3))
    with pytest.raises(CheckpointError, match="another plan"):
        fit(tiny_images(), tiny_plan(TINY_IMAGES, steps=13), checkpoints=Checkpoints(path, 4, resume=True))
    with pytest.raises(CheckpointError, match="seed"):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 4, resume=True), insecure_seed=1)


def test_there_must_be_a_checkpoint_to_resume(tmp_path: Path) -> None:
    """Resuming nothing says so."""
    with pytest.raises(CheckpointError, match="without --resume"):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(tmp_path / "none", 4, resume=True))


# --- with a ledger ------------------------------------------------------------------------------------------


def account(ledger: Ledger, every: int | None = 4) -> LedgerAccount:
    return LedgerAccount(ledger, "patients", every=every)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "ledger", create=True)
    assert PLAN.budget is not None
    book.register("patients", PLAN.budget)
    return book


def counted_steps(ledger: Ledger) -> int:
    return sum(entry.steps_charged for entry in ledger.statement("patients").entries)


def test_a_run_is_reserved_charged_and_closed(ledger: Ledger) -> None:
    """After a whole run the ledger holds its steps, and the card its head."""
    release = fit(tiny_images(), PLAN, account=account(ledger))
    assert counted_steps(ledger) == 12
    assert release.card.ledger_head == ledger.head().hash
    with pytest.raises(BudgetError, match="largest ε"):
        fit(tiny_images(), PLAN, account=account(ledger))


def test_an_interrupted_run_resumes_its_entry(ledger: Ledger, tmp_path: Path) -> None:
    """Stopping in order wastes no step, and the entry is taken up again."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(
            tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4), stop=stop_after(3)
        )
    fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4, resume=True))
    assert counted_steps(ledger) == 12
    assert len(ledger.statement("patients").entries) == 1


def test_steps_lost_in_a_crash_are_not_drawn_again(ledger: Ledger, tmp_path: Path) -> None:
    """A crash after six charged steps and a checkpoint at four leaves six steps, not eight."""

    class CrashError(Exception):
        pass

    path = tmp_path / "run.checkpoint"
    seen: list[int] = []

    def crash(progress: object) -> None:
        seen.append(1)
        if len(seen) == 6:
            raise CrashError

    with pytest.raises(CrashError):
        fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4), on_progress=crash)
    charged = counted_steps(ledger)
    assert charged >= 6
    seen.clear()
    fit(
        tiny_images(),
        PLAN,
        account=account(ledger),
        checkpoints=Checkpoints(path, 4, resume=True),
        on_progress=lambda _: seen.append(1),
    )
    assert len(seen) == 12 - charged


def test_an_old_checkpoint_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """A checkpoint that is older than the ledger says does not go on."""
    path, old = tmp_path / "run.checkpoint", tmp_path / "old"
    with pytest.raises(Interrupted):
        fit(
            tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4), stop=stop_after(2)
        )
    old.write_bytes(path.read_bytes())
    with pytest.raises(Interrupted):
        fit(
            tiny_images(),
            PLAN,
            account=account(ledger),
            checkpoints=Checkpoints(path, 4, resume=True),
            stop=stop_after(3),
        )
    with pytest.raises(CheckpointError, match="not the newest"):
        fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(old, 4, resume=True))


def test_a_finished_entry_cannot_go_on(ledger: Ledger, tmp_path: Path) -> None:
    """The checkpoint of a finished run buys nothing."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(
            tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4), stop=stop_after(2)
        )
    blob = path.read_bytes()
    fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4, resume=True))
    path.write_bytes(blob)
    with pytest.raises((LedgerError, CheckpointError)):
        fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 4, resume=True))


def test_a_crash_between_closing_and_saving_loses_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """The account was closed but the release not yet saved: resuming hands out the very same release, once charged."""
    path = tmp_path / "run.checkpoint"
    lost = fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 5))
    again = fit(tiny_images(), PLAN, account=account(ledger), checkpoints=Checkpoints(path, 5, resume=True))
    assert all(np.array_equal(lost.weights[name], again.weights[name]) for name in lost.weights)
    assert again.card == lost.card
    assert counted_steps(ledger) == 12
    assert len(ledger.statement("patients").entries) == 1


def test_the_budget_of_the_data_set_counts_not_that_of_the_run(tmp_path: Path) -> None:
    """A data set with a smaller budget than the plan refuses it before a row is read."""
    with Ledger(tmp_path / "small", create=True) as book:
        book.register("patients", Budget(0.5, 1e-3))
        with pytest.raises(BudgetError, match="largest ε"):
            fit("/nowhere.csv", PLAN, account=account(book))


def test_plans_are_values(tmp_path: Path) -> None:
    """The plan inside a checkpoint is the plan of the run."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(tiny_images(), PLAN, checkpoints=Checkpoints(path, 4), stop=stop_after(1))
    state, _ = load_checkpoint(path)
    assert isinstance(state.plan, Plan)
    assert state.plan == PLAN


def test_stages_are_charged_as_one_run_and_go_on_after_a_stop(ledger: Ledger, tmp_path: Path) -> None:
    """The account pays for the longest stage once; a resumed run leaves out what lies behind and closes the entry."""
    plans, path, asked = stages_of(PLAN, [2, 8]), tmp_path / "run.checkpoint", Event()
    begun = fit_in_stages(
        tiny_images(), plans, account=account(ledger), checkpoints=Checkpoints(path, 4), stop=asked.is_set
    )
    assert next(begun).card.plan == plans[0]
    asked.set()  # the run stops at the end of a group of charged steps, of which none crosses step 4
    with pytest.raises(Interrupted):
        next(begun)
    kept = Checkpoints(path, 4, resume=True)
    later = list(fit_in_stages(tiny_images(), plans, account=account(ledger), checkpoints=kept))
    assert [one.card.plan.steps for one in later] == [8, 12]
    assert later[0].card.ledger_head is None
    assert later[1].card.ledger_head == ledger.head().hash
    assert counted_steps(ledger) == 12
    assert len(ledger.statement("patients").entries) == 1
