"""The medical part of ppgan: code vectors as which occur and as how often, through training and scoring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy.data import Dataset, Records
from understudy.papers import runner
from understudy.papers.catalogue import STUDIES
from understudy.papers.measuring import CODE_MEASURES
from understudy.papers.runner import run_study
from understudy.papers.scale import Scale
from understudy.papers.tables import fill
from understudy.schema import CodeSchema

CODES = ("250", "401", "428", "V27")
RATES = (0.8, 0.5, 0.2, 0.05)


def people(rows: int, most: int, seed: int) -> Records:
    source = np.random.default_rng(seed)
    counts = source.poisson(RATES, (rows, len(CODES))).clip(0, most).astype(np.uint8)
    return Records(pd.DataFrame(counts, columns=list(CODES)))


def a_code_set(name: str) -> Dataset:
    most = {"present": 1, "counted": 9}[name]
    return Dataset(name, people(120, most, 0), people(80, most, 1), CodeSchema(CODES, max_count=most))


@pytest.fixture
def coded(tiny: Scale, monkeypatch: pytest.MonkeyPatch) -> Scale:
    """A scale whose codes are made up here."""
    monkeypatch.setattr(runner, "known", a_code_set)
    return replace(tiny, codes="present", code_counts="counted")


def test_codes_are_trained_and_scored_as_present_and_as_counts(coded: Scale, tmp_path: Path) -> None:
    """Without noise, by the paper and by our own recipe: six jobs end in a table; private ones fit their budget."""
    study = STUDIES["ppgan"](coded)
    jobs = tuple(job for job in study.jobs if job.dataset in {"present", "counted"})
    systems = ("wgan", "10", "understudy")
    assert [job.name for job in jobs] == [f"{kind}-{one}" for kind in ("codes", "counts") for one in systems]
    table = next(table for table in study.tables if table.name == "codes")
    only = replace(study, jobs=jobs, tables=(table,), figures=())
    outcomes = run_study(only, tmp_path)
    for job, outcome in zip(jobs, outcomes, strict=True):
        assert set(outcome.values) == {score.name for score in job.scores}
        assert (outcome.epsilon is None) == (job.epsilon is None)
        assert outcome.epsilon is None or outcome.epsilon <= 10.0
    rows = fill(only, outcomes)[0].rows
    assert len(rows) == 12
    assert {row.setting.split(",")[0] for row in rows} == {"codes", "counts"}


def test_counts_are_counted_and_presence_is_not() -> None:
    """Twice as many of the same codes: equal as presence, one code apart as a mean count."""
    once, twice = np.array([[1, 0], [1, 0]]), np.array([[2, 0], [2, 0]])
    present, counted = CODE_MEASURES["prevalence error"], CODE_MEASURES["error of mean counts"]
    assert (present[1], counted[1]) == (False, True)
    assert counted[0](once, twice) == pytest.approx(0.5)
    assert present[0](once > 0, twice > 0) == 0.0
