"""Studies: all five are well formed, and one goes from jobs to a page, also after an interruption."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from understudy.data import known
from understudy.errors import PlanError
from understudy.papers import runner
from understudy.papers.catalogue import FULL, PRINTED, QUICK, STUDIES, reproduce, study_of
from understudy.papers.effort import job_seconds, study_seconds
from understudy.papers.measuring import Value
from understudy.papers.outcomes import Outcome
from understudy.papers.runner import Stage, run_study
from understudy.papers.scale import Scale
from understudy.papers.study import Inception, Line, LossFigure, Study, Table
from understudy.papers.tables import FilledTable, Row, fill, over_seeds
from understudy.planning import Plan
from understudy.records.encode import encode
from understudy.run.pace import seconds_per_step
from understudy.synthesizers.gan.papers import small_images


@pytest.mark.parametrize("paper", sorted(STUDIES))
@pytest.mark.parametrize("scale", [QUICK, FULL, PRINTED], ids=lambda scale: scale.name)
def test_every_study_is_well_formed(paper: str, scale: Scale) -> None:
    """Tables and figures show only jobs that run and scores that those jobs measure."""
    study = study_of(paper, scale)
    assert study.paper == paper
    measured = {job.name: {score.name for score in job.scores} for job in study.jobs}
    for table in study.tables:
        if isinstance(table, Table):
            for line in table.lines:
                assert line.job is None or line.score.name in measured[line.job]
                job = next((one for one in study.jobs if one.name == line.job), None)
                assert line.stop is None or (job is not None and line.stop in job.stops)


RATE = 3.7e10
"""Operations per second of CPU time that steps of ppgan took on one busy core of a shared Xeon; those of dp-gan-basic,
dp-cgan and small-images were faster (4.0, 4.5 and 5.8e10)."""


class Operations(TorchDispatchMode):
    """Counts the floating-point operations of products and convolutions."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        self.total += 0 if count is None else count(*args, **(kwargs or {}), out_val=made)
        return made


@cache
def operations(plan: Plan) -> int:
    """Floating-point operations of one step, counted and not timed: a busy machine does not change them."""
    with Operations() as counter:
        seconds_per_step(plan)
    return counter.total // 5


def by_operations(plan: Plan) -> float:
    """Seconds of one step by its operations."""
    return operations(replace(plan, recipe=replace(plan.recipe, steps=1))) / RATE


def estimated(study: Study, seeds: int) -> float:
    """CPU seconds of a study by the operations of its steps."""
    return study_seconds(study, seeds, job_seconds(study, by_operations))


@pytest.mark.parametrize("paper", sorted(STUDIES))
@pytest.mark.parametrize(("scale", "seeds", "minutes"), [(QUICK, 1, 5), (FULL, 3, 60)], ids=("quick", "full"))
def test_a_study_fits_its_time(paper: str, scale: Scale, seeds: int, minutes: int) -> None:
    """By the estimate, two cores that are busy four fifths of the time finish within the promised minutes."""
    assert estimated(STUDIES[paper](scale), seeds) < 60 * minutes * 2 * 0.8


def test_the_estimate_counts_steps_seeds_and_sizes(tiny: Scale) -> None:
    """Twice the steps take twice the training, more seeds only repeat what is not run once, wider is slower."""
    study = STUDIES["small-images"](replace(tiny, long_steps=40_000))
    longer = STUDIES["small-images"](replace(tiny, long_steps=80_000))
    one, two, three = (estimated(what, seeds) for what, seeds in ((study, 1), (longer, 1), (study, 3)))
    assert 1.8 < two / one < 2.2
    assert 2.1 < three / one < 3.0  # the baseline has a quarter of the steps and runs once
    wide = replace(study, jobs=tuple(replace(job, recipe=small_images(capacity=32)) for job in study.jobs))
    assert estimated(wide, 1) > 1.3 * one  # twice the channels


def test_a_study_that_shows_what_it_does_not_run_is_refused(tiny: Scale) -> None:
    """A misspelt job in a table is found when the study is built, not after hours of training."""
    study = STUDIES["dp-cgan"](tiny)
    wrong = Table("x", "x", (Line("x", "nobody", Inception()),))
    with pytest.raises(PlanError, match="nobody"):
        replace(study, tables=(wrong,))


def test_losses_are_shown_of_runs_that_keep_them(tmp_path: Path, tiny: Scale) -> None:
    """A private run keeps them only where the job says so: it is seeded, on public data, and marked NOT PRIVATE."""
    study = STUDIES["ppgan"](tiny)
    with pytest.raises(PlanError, match="no losses"):
        replace(study, jobs=tuple(replace(job, losses=False) for job in study.jobs))
    assert all("NOT PRIVATE" in one.title for one in study.figures if isinstance(one, LossFigure))
    private = next(job for job in study.jobs if job.name.startswith("ppgan-") and job.losses)
    jobs = tuple(
        replace(private, name=name, steps=7, losses=losses)
        for name, losses in (("kept", True), ("silent", False))
    )
    kept, silent = run_study(replace(study, jobs=jobs, tables=(), figures=()), tmp_path)
    assert [point.step for point in kept.losses] == [5, 6, 7]  # the generator's turn comes at the fifth step
    assert silent.losses == ()
    assert kept.values == silent.values  # looking changes nothing


def test_fingerprints_tell_settings_and_seeds_apart(tiny: Scale) -> None:
    """A result is reused only for the very same job and seed."""
    job = STUDIES["dp-cgan"](tiny).jobs[2]
    prints = {job.fingerprint(0), job.fingerprint(1), replace(job, steps=4).fingerprint(0)}
    assert job.recipe is not None
    prints.add(replace(job, recipe=replace(job.recipe, batch=7)).fingerprint(0))
    assert len(prints) == 4
    assert job.fingerprint(0) == replace(job).fingerprint(0)


class PowerCutError(Exception):
    """Stands for a power cut."""


def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path, tiny: Scale) -> None:
    """Finished runs are skipped and unchanged, a half-written or foreign file is run again."""
    study = STUDIES["dp-cgan"](tiny)

    def cut(stage: Stage) -> None:
        if stage.number == 3:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        run_study(study, tmp_path, on_progress=cut)
    kept = sorted((tmp_path / "runs").glob("*.json"))
    assert [path.name for path in kept] == ["cgan-0.json", "real-0.json"]
    before = (tmp_path / "runs" / "real-0.json").read_bytes()
    (tmp_path / "runs" / "cgan-0.json").write_text('{"job": "cgan"')
    stages: list[Stage] = []
    outcomes = run_study(study, tmp_path, on_progress=stages.append)
    assert [outcome.job for outcome in outcomes] == [job.name for job in study.jobs]
    assert (tmp_path / "runs" / "real-0.json").read_bytes() == before
    assert {stage.name for stage in stages if stage.skipped} == {"real-0"}
    assert {stage.total for stage in stages} == {6}
    again = run_study(study, tmp_path)
    assert again == outcomes


def test_processes_change_nothing(tmp_path: Path, tiny: Scale) -> None:
    """A process of its own gives the very numbers of this one, and the run is told to its end."""
    study = STUDIES["dp-cgan"](tiny)
    some = replace(study, jobs=study.jobs[2:3], tables=(), figures=())
    stages: list[Stage] = []
    together = run_study(some, tmp_path / "two", workers=2, on_progress=stages.append)
    alone = run_study(some, tmp_path / "one")
    assert [replace(one, seconds=0) for one in together] == [replace(one, seconds=0) for one in alone]
    assert {stage.number for stage in stages if stage.share == 1} == {1}


def test_a_curve_is_one_run_with_stops(tmp_path: Path, tiny: Scale) -> None:
    """Every point has the score and the ε of a run that ends there, at a fraction of the steps."""
    study = STUDIES["small-images"](replace(tiny, rows=None))
    curve = next(job for job in study.jobs if job.stops)
    shorter = replace(curve, name="short", steps=curve.stops[0], stops=())
    bare = replace(study, jobs=(curve, shorter), tables=(), figures=())
    whole, short = run_study(bare, tmp_path)
    assert [point.steps for point in whole.points] == [1, 2]
    assert (whole.points[0].epsilon, whole.points[0].values) == (short.epsilon, short.values)
    ends = [point.epsilon for point in (*whole.points, whole)]
    assert ends == sorted(ends)
    assert len(set(ends)) == 3
    line = Line("x", curve.name, curve.scores[0], stop=2)
    row = fill(replace(bare, tables=(Table("t", "t", (line,)),)), [whole])[0].rows[0]
    assert (row.ours, row.our_epsilon) == (whole.points[1].values[row.measure].value, whole.points[1].epsilon)
    with pytest.raises(PlanError, match="stops"):
        replace(curve, stops=(4,))


def test_a_run_that_was_cut_off_goes_on_and_ends_as_if_it_had_not_been(
    tmp_path: Path, tiny: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its checkpoint: the same scores, points and losses, and nothing of it is left lying about."""
    monkeypatch.setattr(runner, "KEPT_EVERY", 2)
    study = STUDIES["small-images"](replace(tiny, curve_updates=2))
    curve = next(job for job in study.jobs if job.stops)
    bare = replace(study, jobs=(curve,), tables=(), figures=())
    (whole,) = run_study(bare, tmp_path / "whole")

    def cut(stage: Stage) -> None:
        if stage.number and stage.share > 0.7:  # between the second stop, at half of the steps, and the end
            raise PowerCutError

    with pytest.raises(PowerCutError):
        run_study(bare, tmp_path / "cut", on_progress=cut)
    names = {path.suffix for path in (tmp_path / "cut" / "runs").iterdir()}
    assert {".begun", ".checkpoint"} <= names
    assert ".json" not in names
    (resumed,) = run_study(bare, tmp_path / "cut")
    assert replace(resumed, seconds=0) == replace(whole, seconds=0)
    assert {path.suffix for path in (tmp_path / "cut" / "runs").iterdir()} == {".json", ".npz"}


def test_one_job_alone_is_run_and_shown(tmp_path: Path, tiny: Scale) -> None:
    """A page shows what is finished; a name that is no job is refused with those that are."""
    printed = replace(tiny, printed=True)
    page = reproduce("dp-cgan", printed, tmp_path, jobs=["dp-cgan-code"])
    assert [path.name for path in (tmp_path / "runs").glob("*.json")] == ["dp-cgan-code-0.json"]
    assert "dp-cgan-code, seed 0" in page.read_text()
    with pytest.raises(PlanError, match="no job 'nobody'"):
        reproduce("dp-cgan", printed, tmp_path, jobs=["nobody"])


def test_public_rows_are_drawn_at_random_and_kept_out_of_the_private_ones(
    tmp_path: Path, tiny: Scale
) -> None:
    """The last rows of MNIST are by few writers; every run of a study has the same split."""
    job = next(one for one in STUDIES["dp-gan"](replace(tiny, rows=None)).jobs if one.name == "dp-gan")
    private, public, material = runner._parts(job, tmp_path)
    assert public is not None
    every = known("digits").train.images.pixels
    assert len(private) + len(public) == len(every)
    last = every[-len(public) :]
    assert not np.array_equal(public.images.pixels, last)
    sums = [one.images.pixels.astype(np.int64).sum() for one in (private, public)]
    assert sum(sums) == every.astype(np.int64).sum()
    assert material.public is not None
    assert np.array_equal(material.public.x, encode(public, material.schema).x)


def test_a_changed_job_is_run_again(tmp_path: Path, tiny: Scale) -> None:
    """A result of other settings under the same name does not pass for the new one."""
    study = STUDIES["dp-cgan"](tiny)
    only = replace(study, jobs=study.jobs[:1], tables=(), figures=())
    first = run_study(only, tmp_path)
    changed = replace(only, jobs=(replace(only.jobs[0], drawn=150),))
    second = run_study(changed, tmp_path)
    assert first[0].fingerprint != second[0].fingerprint


def test_reproduce_writes_tables_figures_and_a_page(tmp_path: Path, tiny: Scale) -> None:
    """The paper's value, the claimed ε, the certified ε and ours with its interval stand side by side."""
    page = reproduce("dp-cgan", tiny, tmp_path, seeds=2)
    table = json.loads((tmp_path / "tables" / "table-1.json").read_text())
    row = next(r for r in table["rows"] if r["setting"] == "dp-cgan" and "logistic" in r["measure"])
    assert (row["paper"], row["claimed_epsilon"], row["runs"]) == (0.8757, 9.6, 2)
    assert row["certified_epsilon"] == pytest.approx(8.165, abs=1e-2)
    assert row["our_epsilon"] <= 9.6
    assert row["low"] <= row["ours"] <= row["high"]
    with (tmp_path / "tables" / "table-1.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(table["rows"]) == 12
    assert "| dp-cgan-basic |" in (tmp_path / "tables" / "table-1.md").read_text()
    for suffix in ("svg", "png"):
        assert (tmp_path / "figures" / f"figure-2-dp-cgan.{suffix}").stat().st_size > 1000
    text = page.read_text()
    assert "<table>" in text
    assert "http" not in text.replace("http://www.w3.org", "")


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["dp-cgan-tf2", "dp-gan", "ppgan", "small-images"])
def test_the_other_studies_reach_their_page(paper: str, tmp_path: Path, tiny: Scale) -> None:
    """Every job, score, table and figure of the study works on tiny data."""
    assert reproduce(paper, tiny, tmp_path).is_file()


def test_the_interval_over_seeds_holds_both_kinds_of_spread() -> None:
    """Equal runs keep the width of one run; differing runs widen it."""
    same = over_seeds([Value(0.5, 0.4, 0.6, 0.1), Value(0.5, 0.4, 0.6, 0.1)])
    assert (same.low, same.high, same.floor) == (pytest.approx(0.4), pytest.approx(0.6), pytest.approx(0.1))
    apart = over_seeds([Value(0.4, 0.3, 0.5), Value(0.6, 0.5, 0.7)])
    assert apart.low is not None
    assert apart.low < 0.3
    inside = over_seeds([Value(0.1, 0.0, 0.2), Value(0.9, 0.8, 1.0)], (0.0, 1.0))
    assert (inside.low, inside.high) == (0.0, 1.0)  # no accuracy is below nought
    assert over_seeds([Value(0.99, 0.97, 1.01)], (-1.0, 1.0)).high == 1.0
    single = over_seeds([Value(0.5, 0.4, 0.6)])
    assert (single.low, single.high) == (0.4, 0.6)


def test_a_line_without_a_run_shows_the_paper_alone(tiny: Scale) -> None:
    """Where a data set cannot be had there is no value of ours, and the remark says why."""
    study = STUDIES["dp-cgan"](tiny)
    line = Line("LSUN", None, Inception(), 4.16, remark="cannot be had here")
    filled = fill(replace(study, tables=(Table("t", "t", (line,)),)), [])
    assert filled[0].rows[0].ours is None
    text = filled[0].markdown()
    assert "Measure: inception score, 10 splits. Remark: cannot be had here." in text
    assert "| setting | paper |" in text  # columns without anything are left out
    assert "| LSUN | 4.16 |" in text


def test_a_table_is_valid_json_and_csv_with_missing_numbers() -> None:
    """None is null in JSON and empty in CSV."""
    row = Row("a", "b", None, None, None, None, 0.5, None, None, None, 1)
    table = FilledTable("t", "T", (row,))
    assert json.loads(table.json())["rows"][0]["paper"] is None
    assert next(csv.DictReader(table.csv().splitlines()))["paper"] == ""


def test_outcomes_survive_their_file() -> None:
    """What is read back from disk equals what was written."""
    from understudy.codec import from_json, to_json

    outcome = Outcome("j", 1, "f", None, 3, 1.15, 0.2, {"m": Value(0.5, None, None, 0.1)})
    assert from_json(Outcome, to_json(outcome)) == outcome
