"""A journey that is run: reserve, progress, stop, resume, look, take away; by processes of its own."""

from __future__ import annotations

import io
import time
import zipfile
from typing import Any

import pytest

from understudy.errors import StudioError
from understudy.evaluation import Better, Evaluation, Group, Measure
from understudy.ledger.ledger import Ledger
from understudy.release.release import Release
from understudy.schema import load_schema
from understudy.studio.app import studio_app
from understudy.studio.jobs import Jobs, State, Work, single_writer


def waited(visitor: Any, studio: Any, name: str, seconds: float = 300.0) -> Any:
    """The job of a journey once it is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job = studio.jobs.of(name)
        if job is not None and job.state is not State.RUNNING:
            return job
        time.sleep(0.2)
    raise TimeoutError(name)


def known_journey(visitor: Any, studio: Any, name: str = "flowers", steps: str = "60") -> None:
    visitor.fill("/new", name=name, kind="known", known="iris")
    page = f"/journey/{name}/budget"
    answer = visitor.fill(
        page, page, epsilon="2", delta="1e-3", total="3", rows="100", recipe="", steps=steps
    )
    assert answer.url.path == f"/journey/{name}/run", answer.text


def test_a_known_set_becomes_a_release_on_record(opened: Any) -> None:
    """One click spends the budget in the ledger, and what comes out loads, draws and can be taken away."""
    visitor, studio = opened
    known_journey(visitor, studio)
    run = "/journey/flowers/run"
    visitor.fill(run, run, action="start")
    visitor.fill(run, run, action="start")  # a second click does nothing
    job = waited(visitor, studio, "flowers")
    assert job.state is State.DONE, job.note
    folder = studio.workspace.release("flowers")
    assert Release.load(folder).card.private
    with Ledger(studio.workspace.ledger) as ledger:
        assert len(ledger.statement("flowers").entries) == 1
    assert not (studio.workspace.folder("flowers") / "release.checkpoint").exists()
    assert visitor.get("/journey/flowers/sample?rows=20").text.count("\n") == 21
    archive = zipfile.ZipFile(io.BytesIO(visitor.get("/journey/flowers/release.zip").content))
    assert {"flowers/card.json", "flowers/generator.safetensors"} <= set(archive.namelist())
    for page in ("look", "release", "run", "facts", "data"):
        assert visitor.get(f"/journey/flowers/{page}").status_code == 200
    assert "Internal" in visitor.get("/journey/flowers/report/internal").text
    assert "flowers" in visitor.get("/ledger").text
    refused = visitor.fill(
        "/journey/flowers/budget", run.replace("run", "release").replace("release", "look"), epsilon="9"
    )
    assert refused.status_code == 400, "what is released cannot be planned anew"
    news = visitor.get("/journey/flowers/news").text
    assert '"state": "done"' in news


def test_a_stopped_run_goes_on_in_another_studio(opened: Any) -> None:
    """Stop keeps the state; a studio that is started later on the same folder goes on, and nothing is paid twice."""
    visitor, desk = opened
    known_journey(visitor, desk, steps="4000")
    run = "/journey/flowers/run"
    visitor.fill(run, run, action="start")
    end = time.monotonic() + 120
    while "step" not in desk.jobs.of("flowers").note and time.monotonic() < end:
        time.sleep(0.05)
    assert "It runs" in visitor.get(run).text
    visitor.fill(run, run, action="stop")
    assert waited(visitor, desk, "flowers").state is State.STOPPED
    app, later, _ = studio_app(desk.workspace.root, "later")
    again = type(visitor)(app, base_url="http://127.0.0.1")
    again.get("/enter?token=later")
    assert "Interrupted" in again.get(run).text
    again.fill(run, run, action="start")
    job = waited(again, later, "flowers")
    assert job.state is State.DONE, job.note
    with Ledger(desk.workspace.ledger) as ledger:
        assert len(ledger.statement("flowers").entries) == 1
    later.jobs.close()


def test_a_published_evaluation_is_charged_and_shown(opened: Any) -> None:
    """What is published has an account of its own and stands on the public pages; what was measured does not."""
    visitor, desk = opened
    known_journey(visitor, desk)
    run, page = "/journey/flowers/run", "/journey/flowers/release"
    visitor.fill(run, run, action="start")
    assert waited(visitor, desk, "flowers").state is State.DONE
    secret = Measure("secret", 0.1234567, Better.LOWER, Group.FIDELITY)
    desk.workspace.measured("flowers").write_text(
        Evaluation((secret,), 10, 10, 0).to_json(), encoding="utf-8"
    )
    numbers = {"epsilon": "0.5", "delta": "1e-3", "account": "flowers-test", "total": "1", "what": "measures"}
    visitor.fill("/journey/flowers/publish", page, **numbers)
    job = waited(visitor, desk, "flowers")
    assert job.state is State.DONE, job.note
    for shown in (page, "/journey/flowers/report/public"):
        text = visitor.get(shown).text
        assert "published logistic regression" in text
        assert "0.123" not in text
    assert "0.123" in visitor.get("/journey/flowers/report/internal").text
    with Ledger(desk.workspace.ledger) as ledger:
        assert ledger.statement("flowers-test").spent.epsilon == pytest.approx(0.5, abs=0.01)
    assert "flowers-test" in visitor.get("/ledger").text


def test_a_budget_that_is_spent_is_refused_in_words(opened: Any) -> None:
    """A run that costs more than the data set may ever spend fails before anything is drawn, and says why."""
    visitor, studio = opened
    known_journey(visitor, studio)
    page = "/journey/flowers/budget"
    visitor.fill(page, page, epsilon="2", delta="1e-3", total="0.5", rows="100", recipe="")
    visitor.fill("/journey/flowers/run", "/journey/flowers/run", action="start")
    job = waited(visitor, studio, "flowers")
    assert job.state is State.FAILED
    assert "budget" in job.note
    assert not studio.workspace.release("flowers").exists()


def test_one_writer_per_journey(tmp_path: Any) -> None:
    """A second studio on the same folder cannot run the same journey."""
    with single_writer(tmp_path), pytest.raises(StudioError, match="another studio"), single_writer(tmp_path):
        pass
    with single_writer(tmp_path):
        pass


def _waits(root: Any, name: str, say: Any, asked: Any) -> None:
    from understudy.errors import Interrupted

    while not asked():
        say(share=0.5, note="waiting")
        time.sleep(0.05)
    raise Interrupted("stopped as asked.")


def _dies(root: Any, name: str, say: Any, asked: Any) -> None:
    import os

    os._exit(9)


def test_jobs_stop_in_order_and_deaths_are_noticed(tmp_path: Any) -> None:
    """A stop reaches the process; a process that vanishes is not waited for."""
    jobs = Jobs(tmp_path)
    assert jobs.start("a", Work.FIT, _waits)
    assert not jobs.start("a", Work.FIT, _waits)
    end = time.monotonic() + 120
    while jobs.of("a").note != "waiting" and time.monotonic() < end:
        time.sleep(0.05)
    jobs.stop("a")
    assert waited(None, type("S", (), {"jobs": jobs}), "a").state is State.STOPPED
    jobs.start("b", Work.FIT, _dies)
    assert waited(None, type("S", (), {"jobs": jobs}), "b").state is State.FAILED
    jobs.close()


def test_the_schema_that_is_published_is_the_one_on_the_page(opened: Any) -> None:
    """What the release carries is what the curator saw as text."""
    visitor, studio = opened
    known_journey(visitor, studio)
    text = studio.schema_text(studio.workspace.journey("flowers"))
    path = studio.workspace.folder("flowers") / "schema.toml"
    assert path.read_text(encoding="utf-8") == text
    assert load_schema(path).label_classes
