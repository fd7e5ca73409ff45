"""Pages from the first spending on: run, look, release and ledger."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from understudy.errors import StudioError
from understudy.serving.app import records_response
from understudy.serving.guard import REPORT_POLICY
from understudy.studio.access import Access
from understudy.studio.criteria import criteria_of, keep_criteria, with_criterion
from understudy.studio.desk import to
from understudy.studio.forms import publishing_from
from understudy.studio.jobs import State, Work
from understudy.studio.views import accounts, measured_view, offer_of, plan_view, report_page
from understudy.studio.work import audit_release, evaluate_release, fit_journey, publish_measures
from understudy.studio.workspace import Source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from understudy.studio.desk import Desk
    from understudy.studio.workspace import Journey

__all__ = ["Finishing"]

_MOST_ROWS = 10_000_000
_TICK = 0.3
"""Seconds between two looks at a job while a page waits for news."""


class Finishing:
    """Run, look, release and ledger.

    Args:
        desk: what all pages share.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        """Their addresses."""
        return [
            Route("/ledger", self.ledger),
            Route("/journey/{name}/run", self.run),
            Route("/journey/{name}/run", self.start, methods=["POST"]),
            Route("/journey/{name}/news", self.news),
            Route("/journey/{name}/look", self.look),
            Route("/journey/{name}/look", self.measure, methods=["POST"]),
            Route("/journey/{name}/criteria", self.criteria, methods=["POST"]),
            Route("/journey/{name}/release", self.release),
            Route("/journey/{name}/release.zip", self.folder),
            Route("/journey/{name}/sample", self.sample),
            Route("/journey/{name}/publish", self.publish, methods=["POST"]),
            Route("/journey/{name}/report/{which}", self.report),
        ]

    async def run(self, request: Request) -> Response:
        """What will be spent, and how far it is."""
        journey = self._desk.journey(request)
        view = await run_in_threadpool(plan_view, self._desk.workspace, journey, {})
        return self._desk.html(
            request,
            "run",
            journey=journey,
            view=view,
            job=self._desk.jobs.of(journey.name),
            stage=self._desk.stage(journey),
        )

    async def start(self, request: Request) -> Response:
        """Start, stop or resume; a second start of a running run does nothing."""
        form = await Access.form(request)
        journey = self._desk.journey(request)
        if form.get("action") == "stop":
            self._desk.jobs.stop(journey.name)
        elif self._desk.workspace.release(journey.name).exists():
            raise StudioError("this journey has its release; begin another one for another release.")
        else:
            self._desk.jobs.start(journey.name, Work.FIT, fit_journey)
        return to(f"/journey/{journey.name}/run")

    async def news(self, request: Request) -> Response:
        """The job's news as they come, until it ends."""
        name = self._desk.journey(request).name

        async def events() -> AsyncIterator[str]:
            last = None
            while True:
                job = self._desk.jobs.of(name)
                news = (
                    {"state": "none"}
                    if job is None
                    else {
                        "state": job.state.value,
                        "share": job.share,
                        "note": job.note,
                        "work": job.work.value,
                    }
                )
                if news != last:
                    last = news
                    yield f"data: {json.dumps(news)}\n\n"
                if job is None or job.state is not State.RUNNING or await request.is_disconnected():
                    return
                await asyncio.sleep(_TICK)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def look(self, request: Request) -> Response:
        """Samples, measures and the audit; internal numbers are marked as such."""
        journey = self._desk.journey(request)
        offer = await run_in_threadpool(offer_of, self._desk.workspace, journey)
        return self._desk.html(
            request,
            "look",
            journey=journey,
            offer=offer,
            measured=await run_in_threadpool(measured_view, self._desk.workspace, journey),
            criteria=criteria_of(self._desk.workspace, journey),
            job=self._desk.jobs.of(journey.name),
            listing=self._desk.workspace.listing(),
        )

    async def measure(self, request: Request) -> Response:
        """Start an evaluation or an audit."""
        form = await Access.form(request)
        journey = self._desk.journey(request)
        self._desk.release(journey)
        if form.get("action") == "audit":
            self._desk.jobs.start(journey.name, Work.AUDIT, audit_release)
        else:
            self._test_records(journey, str(form.get("test", "")))
            self._desk.jobs.start(journey.name, Work.EVALUATE, evaluate_release)
        return to(f"/journey/{journey.name}/look")

    def _test_records(self, journey: Journey, path: str) -> None:
        """Keep which real records were not trained on.

        Raises:
            StudioError: none are known.
        """
        if path.strip():
            self._desk.workspace.below(path.strip())
            journey = self._desk.workspace.save(journey, test=Source(path.strip()))
        if journey.test is None and not journey.source.known:
            raise StudioError("choose a file with real records that were not trained on.")

    async def criteria(self, request: Request) -> Response:
        """Add something that the release must be good enough for, or take it away again."""
        form = await Access.form(request)
        journey = self._desk.journey(request)
        known = criteria_of(self._desk.workspace, journey)
        if form.get("action") == "remove":
            known = tuple(one for one in known if one.name != form.get("criterion"))
        else:
            known = with_criterion(known, form, self._desk.release(journey).schema)
        keep_criteria(self._desk.workspace, journey, known)
        return to(f"/journey/{journey.name}/look#criteria")

    async def release(self, request: Request) -> Response:
        """The card in plain words, and everything to take away."""
        journey = self._desk.journey(request)
        offer = await run_in_threadpool(offer_of, self._desk.workspace, journey)
        return self._desk.html(
            request,
            "release",
            journey=journey,
            offer=offer,
            job=self._desk.jobs.of(journey.name),
            criteria=criteria_of(self._desk.workspace, journey),
            listing=self._desk.workspace.listing(),
            most=_MOST_ROWS,
        )

    async def publish(self, request: Request) -> Response:
        """Spend a budget of test records on numbers that may be published."""
        form = await Access.form(request)
        journey = self._desk.journey(request)
        self._desk.release(journey)
        wanted = publishing_from(form)
        self._test_records(journey, str(form.get("test", "")))
        self._desk.jobs.start(journey.name, Work.PUBLISH, publish_measures, wanted)
        return to(f"/journey/{journey.name}/release")

    async def folder(self, request: Request) -> Response:
        """The folder of the release as one file."""
        journey = self._desk.journey(request)
        self._desk.release(journey)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(self._desk.workspace.release(journey.name).iterdir()):
                if path.is_file():
                    archive.write(path, f"{journey.name}/{path.name}")
        headers = {"content-disposition": f'attachment; filename="{journey.name}.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)

    def sample(self, request: Request) -> Response:
        """Synthetic records; a plain function, so that other pages are answered meanwhile."""
        release = self._desk.release(self._desk.journey(request))
        return records_response(release, request.query_params, _MOST_ROWS)

    async def report(self, request: Request) -> Response:
        """The report: the internal one, or the one that may be published."""
        which = request.path_params["which"]
        if which not in ("internal", "public"):
            raise StudioError(f"there is no {which!r} report.")
        journey = self._desk.journey(request)
        page = await run_in_threadpool(report_page, self._desk.workspace, journey, public=which == "public")
        headers = {"content-security-policy": REPORT_POLICY}
        if request.query_params.get("download"):
            headers["content-disposition"] = f'attachment; filename="{journey.name}-{which}.html"'
        return HTMLResponse(page, headers=headers)

    async def ledger(self, request: Request) -> Response:
        """What every data set has spent and may still spend."""
        found = await run_in_threadpool(accounts, self._desk.workspace)
        return self._desk.html(request, "ledger", accounts=found)
