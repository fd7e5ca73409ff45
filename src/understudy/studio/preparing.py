"""Pages before anything is spent: data, facts and budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tomli_w
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from understudy.data import known_names
from understudy.data.typical import identifies
from understudy.errors import StudioError, UnderstudyError
from understudy.studio import facts as facts_form
from understudy.studio.access import Access
from understudy.studio.desk import to
from understudy.studio.drafting import first_rows, first_schema, left_out
from understudy.studio.forms import numbers_from, source_from
from understudy.studio.views import accounts, plan_view, time_view

if TYPE_CHECKING:
    from starlette.requests import Request

    from understudy.studio.desk import Desk
    from understudy.studio.workspace import Journey

__all__ = ["Preparing"]


class Preparing:
    """Home, data, facts and budget.

    Args:
        desk: what all pages share.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        """Their addresses."""
        return [
            Route("/", self.home),
            Route("/new", self.create, methods=["POST"]),
            Route("/browse", self.browse),
            Route("/journey/{name}/data", self.data),
            Route("/journey/{name}/preview", self.preview, methods=["POST"]),
            Route("/journey/{name}/facts", self.facts),
            Route("/journey/{name}/facts", self.save_facts, methods=["POST"]),
            Route("/journey/{name}/schema", self.save_schema, methods=["POST"]),
            Route("/journey/{name}/budget", self.budget),
            Route("/journey/{name}/budget", self.save_budget, methods=["POST"]),
            Route("/journey/{name}/plan", self.plan),
            Route("/journey/{name}/time", self.time),
        ]

    async def home(self, request: Request) -> Response:
        """All journeys, and a form for a new one."""
        journeys = [(one, self._desk.stage(one)) for one in self._desk.workspace.journeys()]
        return self._desk.html(
            request,
            "home",
            journeys=journeys,
            known=known_names(),
            listing=self._desk.workspace.listing(),
            root=str(self._desk.workspace.root),
        )

    async def browse(self, request: Request) -> Response:
        """What lies in a folder below the opened one."""
        path = request.query_params.get("path", "")
        listed = [
            {"name": one.name, "path": one.path, "folder": one.folder}
            for one in self._desk.workspace.listing(path)
        ]
        return JSONResponse({"path": path, "entries": listed})

    async def create(self, request: Request) -> Response:
        """Begin a journey."""
        form = await Access.form(request)
        name, source = str(form.get("name", "")).strip(), source_from(form)
        journey = self._desk.workspace.create(name, source)
        try:
            draft = await run_in_threadpool(first_schema, self._desk.workspace, journey)
        except BaseException:
            self._forget(journey)
            raise
        self._desk.write_schema(journey, draft.text)
        self._desk.workspace.save(
            journey, unconfirmed=draft.guessed, spelling_unconfirmed=draft.spelling_guessed
        )
        return to(f"/journey/{name}/data")

    def _forget(self, journey: Journey) -> None:
        folder = self._desk.workspace.folder(journey.name)
        (folder / "journey.json").unlink(missing_ok=True)
        folder.rmdir()

    async def data(self, request: Request) -> Response:
        """Where the records come from."""
        return self._desk.html(request, "data", journey=self._desk.journey(request), rows=None)

    async def preview(self, request: Request) -> Response:
        """PRIVATE: the first rows, on this one answer, after the curator said that they may be seen here."""
        form = await Access.form(request)
        journey = self._desk.journey(request)
        if form.get("may-see") is None:
            raise StudioError("say first that whoever looks at this screen may see the records.")
        rows = await run_in_threadpool(first_rows, self._desk.workspace, journey)
        return self._desk.html(request, "data", journey=journey, rows=rows, asked=True)

    async def facts(self, request: Request) -> Response:
        """The schema as a form, with its text beside it."""
        journey = self._desk.journey(request)
        text = self._desk.schema_text(journey)
        facts = facts_form.facts_of(text)
        ignored = await run_in_threadpool(left_out, self._desk.workspace, journey, facts)
        return self._desk.html(
            request,
            "facts",
            journey=journey,
            text=text,
            facts=facts,
            left=facts_form.left_to_fill(facts, journey),
            fields=facts_form.FIELDS,
            kinds=facts_form.KINDS,
            units=facts_form.UNITS,
            plain_fields=facts_form.PLAIN_FIELDS.get(facts.get("kind", ""), ()),
            marks=facts_form.marks_of(facts),
            orders=facts_form.orders_of(facts),
            shown=facts_form.shown,
            discovered=[
                f"{one.get('name')}: {key}"
                for one in facts.get("columns", ())
                for key, value in one.items()
                if value == facts_form.DISCOVER and key != "name"
            ],
            ignored=ignored,
            likely_person=next((name for name in ignored if identifies(name)), None),
        )

    async def save_facts(self, request: Request) -> Response:
        """Take the form."""
        form = await Access.form(request)
        journey = self._desk.changeable(request)
        before = facts_form.facts_of(self._desk.schema_text(journey))
        filled = {key: value for key, value in form.items() if isinstance(value, str)}
        change = facts_form.changed if before.get("kind") == "table" else facts_form.changed_plain
        after = change(before, filled)
        self._desk.write_schema(journey, tomli_w.dumps(after))
        names = [column.get("name") for column in before.get("columns", ())]
        still = tuple(
            name
            for name in journey.unconfirmed
            if f"{names.index(name)}-use" in filled and f"{names.index(name)}-confirmed" not in filled
        )
        spelling = journey.spelling_unconfirmed and "spelling-confirmed" not in filled
        journey = self._desk.workspace.save(journey, unconfirmed=still, spelling_unconfirmed=spelling)
        left = facts_form.left_to_fill(after, journey)
        return to(f"/journey/{journey.name}/{'budget' if left.complete else 'facts'}")

    async def save_schema(self, request: Request) -> Response:
        """Take the text of a schema, whatever it was before."""
        form = await Access.form(request)
        journey = self._desk.changeable(request)
        text = str(form.get("text", "")).replace("\r\n", "\n")
        facts = facts_form.facts_of(text)
        self._desk.write_schema(journey, text)
        names = {column.get("name") for column in facts.get("columns", ())}
        confirmed = form.get("confirmed") is not None
        self._desk.workspace.save(
            journey,
            unconfirmed=() if confirmed else tuple(one for one in journey.unconfirmed if one in names),
            spelling_unconfirmed=journey.spelling_unconfirmed and not confirmed,
        )
        return to(f"/journey/{journey.name}/facts")

    async def budget(self, request: Request) -> Response:
        """Numbers to choose, and the plan that they give."""
        journey = self._desk.journey(request)
        facts = facts_form.facts_of(self._desk.schema_text(journey))
        left = facts_form.left_to_fill(facts, journey)
        return self._desk.html(
            request,
            "budget",
            journey=journey,
            left=left,
            recipes=self._recipes(journey),
            many=facts_form.many_of(facts),
            accounts=await run_in_threadpool(accounts, self._desk.workspace),
        )

    async def plan(self, request: Request) -> Response:
        """The plan for the numbers in the address; nothing touches data."""
        journey = self._desk.journey(request)
        numbers = numbers_from(request.query_params)
        view = await run_in_threadpool(plan_view, self._desk.workspace, journey, numbers)
        return HTMLResponse(self._desk.page("plan", view=view))

    async def time(self, request: Request) -> Response:
        """How long the plan for these numbers takes here, by a trial on stand-in records."""
        journey = self._desk.journey(request)
        numbers = numbers_from(request.query_params)
        words = await run_in_threadpool(time_view, self._desk.workspace, journey, numbers)
        return HTMLResponse(self._desk.page("time", words=words))

    async def save_budget(self, request: Request) -> Response:
        """Keep the numbers; what was promised once in the ledger stays."""
        form = await Access.form(request)
        journey = self._desk.changeable(request)
        self._desk.workspace.save(journey, **numbers_from({key: str(value) for key, value in form.items()}))
        return to(f"/journey/{journey.name}/run")

    def _recipes(self, journey: Journey) -> list[tuple[str, str]]:
        from understudy.schema import load_schema
        from understudy.synthesizers.registry import RECIPES

        try:
            schema = load_schema(self._desk.workspace.schema(journey.name))
        except UnderstudyError:
            return []
        return [(one.name, one.summary) for one in RECIPES.values() if one.refuses(schema) is None]
