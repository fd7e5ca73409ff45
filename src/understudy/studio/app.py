"""The studio's addresses: forms in, the library's verbs in the middle, pages out."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import zipfile
from typing import TYPE_CHECKING, Any

import tomli_w
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from understudy import files
from understudy.data import known_names
from understudy.errors import StudioError, UnderstudyError
from understudy.release.release import Release
from understudy.serving.app import records_response
from understudy.serving.guard import Guard
from understudy.studio import facts as facts_form
from understudy.studio.access import Access
from understudy.studio.drafting import first_rows, first_schema, left_out
from understudy.studio.forms import numbers_from, source_from
from understudy.studio.jobs import Jobs, State, Work
from understudy.studio.render import Renderer
from understudy.studio.views import accounts, offer_of, plan_view, report_page
from understudy.studio.work import audit_release, evaluate_release, fit_journey
from understudy.studio.workspace import Journey, Source, Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from starlette.requests import Request

    Handler = Callable[[Request], Awaitable[Response]]

__all__ = ["Studio", "studio_app"]

_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
_MOST_ROWS = 10_000_000
_TICK = 0.3
"""Seconds between two looks at a job while a page waits for news."""


def studio_app(root: Path, token: str | None = None) -> tuple[Guard, Studio, str]:
    """The application, what it holds, and the token that opens it once.

    Args:
        root: the folder that the curator opens.
        token: for tests; by default a secret one.
    """
    studio = Studio(root)
    secret = token or secrets.token_urlsafe(24)
    app = Starlette(routes=studio.routes(), exception_handlers={UnderstudyError: studio.told})
    return Guard(Access(app, secret), hosts=_LOCAL, rate=None, at_once=64), studio, secret


class Studio:
    """Everything that the pages need.

    Args:
        root: the folder that the curator opened.
    """

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        self.jobs = Jobs(self.workspace.root)
        self._page = Renderer()

    def routes(self) -> list[Route]:
        """All addresses."""
        return [
            Route("/", self.home),
            Route("/new", self.create, methods=["POST"]),
            Route("/browse", self.browse),
            Route("/ledger", self.ledger),
            Route("/journey/{name}/data", self.data),
            Route("/journey/{name}/preview", self.preview, methods=["POST"]),
            Route("/journey/{name}/facts", self.facts),
            Route("/journey/{name}/facts", self.save_facts, methods=["POST"]),
            Route("/journey/{name}/schema", self.save_schema, methods=["POST"]),
            Route("/journey/{name}/budget", self.budget),
            Route("/journey/{name}/budget", self.save_budget, methods=["POST"]),
            Route("/journey/{name}/plan", self.plan),
            Route("/journey/{name}/run", self.run),
            Route("/journey/{name}/run", self.start, methods=["POST"]),
            Route("/journey/{name}/news", self.news),
            Route("/journey/{name}/look", self.look),
            Route("/journey/{name}/look", self.measure, methods=["POST"]),
            Route("/journey/{name}/release", self.release),
            Route("/journey/{name}/release.zip", self.folder),
            Route("/journey/{name}/sample", self.sample),
            Route("/journey/{name}/report/{which}", self.report),
            Route("/studio.js", self.script),
            Route("/style.css", self.style),
        ]

    # ------------------------------------------------------------ beginning

    async def home(self, request: Request) -> Response:
        """All journeys, and a form for a new one."""
        journeys = [(one, self._stage(one)) for one in self.workspace.journeys()]
        return self._html(
            request,
            "home",
            journeys=journeys,
            known=known_names(),
            listing=self.workspace.listing(),
            root=str(self.workspace.root),
        )

    async def browse(self, request: Request) -> Response:
        """What lies in a folder below the opened one."""
        path = request.query_params.get("path", "")
        listed = [
            {"name": one.name, "path": one.path, "folder": one.folder} for one in self.workspace.listing(path)
        ]
        return JSONResponse({"path": path, "entries": listed})

    async def create(self, request: Request) -> Response:
        """Begin a journey."""
        form = await Access.form(request)
        name, source = str(form.get("name", "")).strip(), source_from(form)
        journey = self.workspace.create(name, source)
        try:
            text, guessed = await run_in_threadpool(first_schema, self.workspace, journey)
        except BaseException:
            self._forget(journey)
            raise
        self._write_schema(journey, text)
        self.workspace.save(journey, unconfirmed=guessed)
        return _to(f"/journey/{name}/data")

    def _forget(self, journey: Journey) -> None:
        folder = self.workspace.folder(journey.name)
        (folder / "journey.json").unlink(missing_ok=True)
        folder.rmdir()

    async def data(self, request: Request) -> Response:
        """Where the records come from."""
        return self._html(request, "data", journey=self._journey(request), rows=None)

    async def preview(self, request: Request) -> Response:
        """PRIVATE: the first rows, on this one answer, after the curator said that they may be seen here."""
        form = await Access.form(request)
        journey = self._journey(request)
        if form.get("may-see") is None:
            raise StudioError("say first that whoever looks at this screen may see the records.")
        rows = await run_in_threadpool(first_rows, self.workspace, journey)
        return self._html(request, "data", journey=journey, rows=rows, asked=True)

    # ------------------------------------------------------------ facts

    async def facts(self, request: Request) -> Response:
        """The schema as a form, with its text beside it."""
        journey = self._journey(request)
        text = self._schema_text(journey)
        facts = facts_form.facts_of(text)
        ignored = await run_in_threadpool(left_out, self.workspace, journey, facts)
        return self._html(
            request,
            "facts",
            journey=journey,
            text=text,
            facts=facts,
            left=facts_form.left_to_fill(facts, journey.unconfirmed),
            fields=facts_form.FIELDS,
            kinds=facts_form.KINDS,
            units=facts_form.UNITS,
            shown=facts_form.shown,
            ignored=ignored,
        )

    async def save_facts(self, request: Request) -> Response:
        """Take the form of a table."""
        form = await Access.form(request)
        journey = self._changeable(request)
        before = facts_form.facts_of(self._schema_text(journey))
        filled = {key: value for key, value in form.items() if isinstance(value, str)}
        after = facts_form.changed(before, filled)
        self._write_schema(journey, tomli_w.dumps(after))
        names = [column.get("name") for column in before.get("columns", ())]
        still = tuple(
            name
            for name in journey.unconfirmed
            if f"{names.index(name)}-use" in filled and f"{names.index(name)}-confirmed" not in filled
        )
        self.workspace.save(journey, unconfirmed=still)
        left = facts_form.left_to_fill(after, still)
        return _to(f"/journey/{journey.name}/{'budget' if left.complete else 'facts'}")

    async def save_schema(self, request: Request) -> Response:
        """Take the text of a schema, whatever it was before."""
        form = await Access.form(request)
        journey = self._changeable(request)
        text = str(form.get("text", "")).replace("\r\n", "\n")
        facts = facts_form.facts_of(text)
        self._write_schema(journey, text)
        names = {column.get("name") for column in facts.get("columns", ())}
        confirmed = form.get("confirmed") is not None
        self.workspace.save(
            journey,
            unconfirmed=() if confirmed else tuple(one for one in journey.unconfirmed if one in names),
        )
        return _to(f"/journey/{journey.name}/facts")

    # ------------------------------------------------------------ budget

    async def budget(self, request: Request) -> Response:
        """Numbers to choose, and the plan that they give."""
        journey = self._journey(request)
        left = facts_form.left_to_fill(facts_form.facts_of(self._schema_text(journey)), journey.unconfirmed)
        return self._html(request, "budget", journey=journey, left=left, recipes=self._recipes(journey))

    async def plan(self, request: Request) -> Response:
        """The plan for the numbers in the address; nothing touches data."""
        journey = self._journey(request)
        numbers = numbers_from(request.query_params)
        view = await run_in_threadpool(plan_view, self.workspace, journey, numbers)
        return HTMLResponse(self._page("plan", view=view, form_key=""))

    async def save_budget(self, request: Request) -> Response:
        """Keep the numbers; what was promised once in the ledger stays."""
        form = await Access.form(request)
        journey = self._changeable(request)
        self.workspace.save(journey, **numbers_from({key: str(value) for key, value in form.items()}))
        return _to(f"/journey/{journey.name}/run")

    # ------------------------------------------------------------ running

    async def run(self, request: Request) -> Response:
        """What will be spent, and how far it is."""
        journey = self._journey(request)
        view = await run_in_threadpool(plan_view, self.workspace, journey, {})
        return self._html(
            request,
            "run",
            journey=journey,
            view=view,
            job=self.jobs.of(journey.name),
            stage=self._stage(journey),
        )

    async def start(self, request: Request) -> Response:
        """Start, stop or resume; a second start of a running run does nothing."""
        form = await Access.form(request)
        journey = self._journey(request)
        if form.get("action") == "stop":
            self.jobs.stop(journey.name)
        elif self.workspace.release(journey.name).exists():
            raise StudioError("this journey has its release; begin another one for another release.")
        else:
            self.jobs.start(journey.name, Work.FIT, fit_journey)
        return _to(f"/journey/{journey.name}/run")

    async def news(self, request: Request) -> Response:
        """The job's news as they come, until it ends."""
        name = self._journey(request).name

        async def events() -> AsyncIterator[str]:
            last = None
            while True:
                job = self.jobs.of(name)
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

    # ------------------------------------------------------------ looking

    async def look(self, request: Request) -> Response:
        """Samples, measures and the audit; internal numbers are marked as such."""
        journey = self._journey(request)
        offer = await run_in_threadpool(offer_of, self.workspace, journey)
        return self._html(
            request,
            "look",
            journey=journey,
            offer=offer,
            job=self.jobs.of(journey.name),
            listing=self.workspace.listing(),
        )

    async def measure(self, request: Request) -> Response:
        """Start an evaluation or an audit."""
        form = await Access.form(request)
        journey = self._journey(request)
        self._loaded(journey)
        if form.get("action") == "audit":
            self.jobs.start(journey.name, Work.AUDIT, audit_release)
        else:
            path = str(form.get("test", "")).strip()
            if path:
                self.workspace.below(path)
                journey = self.workspace.save(journey, test=Source(path))
            if journey.test is None and not journey.source.known:
                raise StudioError("choose a file with real records that were not trained on.")
            self.jobs.start(journey.name, Work.EVALUATE, evaluate_release)
        return _to(f"/journey/{journey.name}/look")

    async def release(self, request: Request) -> Response:
        """The card in plain words, and everything to take away."""
        journey = self._journey(request)
        offer = await run_in_threadpool(offer_of, self.workspace, journey)
        return self._html(request, "release", journey=journey, offer=offer)

    async def folder(self, request: Request) -> Response:
        """The folder of the release as one file."""
        journey = self._journey(request)
        self._loaded(journey)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(self.workspace.release(journey.name).iterdir()):
                if path.is_file():
                    archive.write(path, f"{journey.name}/{path.name}")
        headers = {"content-disposition": f'attachment; filename="{journey.name}.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)

    def sample(self, request: Request) -> Response:
        """Synthetic records; a plain function, so that other pages are answered meanwhile."""
        release = self._loaded(self._journey(request))
        return records_response(release, request.query_params, _MOST_ROWS)

    async def report(self, request: Request) -> Response:
        """The report: the internal one, or the one that may be published."""
        which = request.path_params["which"]
        if which not in ("internal", "public"):
            raise StudioError(f"there is no {which!r} report.")
        journey = self._journey(request)
        page = await run_in_threadpool(report_page, self.workspace, journey, public=which == "public")
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
        headers = {"content-security-policy": policy}
        if request.query_params.get("download"):
            headers["content-disposition"] = f'attachment; filename="{journey.name}-{which}.html"'
        return HTMLResponse(page, headers=headers)

    async def ledger(self, request: Request) -> Response:
        """What every data set has spent and may still spend."""
        found = await run_in_threadpool(accounts, self.workspace)
        return self._html(request, "ledger", accounts=found)

    # ------------------------------------------------------------ inside

    async def script(self, _request: Request) -> Response:
        """Our own few lines of JavaScript."""
        return Response(self._page.script, media_type="text/javascript")

    async def style(self, _request: Request) -> Response:
        """The style of the report, and what the studio adds."""
        return Response(self._page.style, media_type="text/css")

    async def told(self, request: Request, problem: Exception) -> Response:
        """An error for people, as a page."""
        if request.url.path.endswith(("/plan", "/browse")):
            return HTMLResponse(self._page("problem", problem=str(problem), form_key=""), status_code=400)
        page = self._page("error", problem=str(problem), back=_back(request), form_key="")
        return HTMLResponse(page, status_code=400)

    def _html(self, request: Request, name: str, **values: Any) -> Response:
        return HTMLResponse(self._page(name, form_key=request.scope["form_key"], **values))

    def _journey(self, request: Request) -> Journey:
        return self.workspace.journey(request.path_params["name"])

    def _changeable(self, request: Request) -> Journey:
        """The journey, if nothing was spent on it yet."""
        journey = self._journey(request)
        if self._stage(journey) != "planned":
            raise StudioError(
                "this journey has begun to spend; begin another one for other facts or numbers."
            )
        return journey

    def _stage(self, journey: Journey) -> str:
        job = self.jobs.of(journey.name)
        if self.workspace.release(journey.name).exists():
            return "released"
        if job is not None and job.state is State.RUNNING:
            return "running"
        checkpoint = self.workspace.folder(journey.name) / "release.checkpoint"
        return "interrupted" if checkpoint.exists() else "planned"

    def _loaded(self, journey: Journey) -> Release:
        path = self.workspace.release(journey.name)
        if not path.exists():
            raise StudioError("there is no release yet: run it first.")
        return Release.load(path)

    def _schema_text(self, journey: Journey) -> str:
        return files.read_text(self.workspace.folder(journey.name) / "schema.toml", error=StudioError)

    def _write_schema(self, journey: Journey, text: str) -> None:
        files.write_whole(self.workspace.folder(journey.name) / "schema.toml", text, error=StudioError)

    def _recipes(self, journey: Journey) -> list[tuple[str, str]]:
        from understudy.schema import load_schema
        from understudy.synthesizers.registry import RECIPES

        try:
            schema = load_schema(self.workspace.folder(journey.name) / "schema.toml")
        except UnderstudyError:
            return []
        return [(one.name, one.summary) for one in RECIPES.values() if one.refuses(schema) is None]


def _to(path: str) -> Response:
    return RedirectResponse(path, status_code=303)


def _back(request: Request) -> str:
    """The page from which a form came, as far as the address itself tells."""
    name = request.path_params.get("name")
    last = request.url.path.rsplit("/", 1)[-1]
    pages = {"schema": "facts", "preview": "data"}
    return (
        f"/journey/{name}/{pages.get(last, last)}"
        if isinstance(name, str) and request.method == "POST"
        else "/"
    )
