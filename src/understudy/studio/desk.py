"""What all pages of the studio share: the opened folder, the jobs, and how pages and problems are shown."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse, Response

from understudy import files
from understudy.errors import StudioError
from understudy.release.release import Release
from understudy.studio.jobs import Jobs, State
from understudy.studio.render import Renderer
from understudy.studio.workspace import Journey, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

__all__ = ["Desk", "Stage", "to"]


class Stage(enum.Enum):
    """How far a journey is."""

    PLANNED = "planned"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    RELEASED = "released"


class Desk:
    """The opened folder with its journeys, and what their pages are made with.

    Args:
        root: the folder that the curator opened.
    """

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        self.jobs = Jobs(self.workspace.root)
        self.page = Renderer()

    def html(self, request: Request, name: str, **values: Any) -> Response:
        """A page with the key of the session in its forms."""
        return HTMLResponse(self.page(name, form_key=request.scope["form_key"], **values))

    async def told(self, request: Request, problem: Exception) -> Response:
        """An error for people, as a page."""
        if request.url.path.endswith(("/plan", "/time", "/browse")):
            return HTMLResponse(self.page("problem", problem=str(problem)), status_code=400)
        page = self.page("error", problem=str(problem), back=_back(request))
        return HTMLResponse(page, status_code=400)

    def journey(self, request: Request) -> Journey:
        """The journey that the address names."""
        return self.workspace.journey(request.path_params["name"])

    def changeable(self, request: Request) -> Journey:
        """The same, if nothing was spent on it yet."""
        journey = self.journey(request)
        if self.stage(journey) is not Stage.PLANNED:
            raise StudioError(
                "this journey has begun to spend; begin another one for other facts or numbers."
            )
        return journey

    def stage(self, journey: Journey) -> Stage:
        """How far a journey is."""
        job = self.jobs.of(journey.name)
        if self.workspace.release(journey.name).exists():
            return Stage.RELEASED
        if job is not None and job.state is State.RUNNING:
            return Stage.RUNNING
        return Stage.INTERRUPTED if self.workspace.checkpoint(journey.name).exists() else Stage.PLANNED

    def release(self, journey: Journey) -> Release:
        """The release of a journey.

        Raises:
            StudioError: there is none yet.
        """
        path = self.workspace.release(journey.name)
        if not path.exists():
            raise StudioError("there is no release yet: run it first.")
        return Release.load(path)

    def schema_text(self, journey: Journey) -> str:
        """The schema as it stands, complete or not."""
        return files.read_text(self.workspace.schema(journey.name), error=StudioError)

    def write_schema(self, journey: Journey, text: str) -> None:
        """Keep another schema."""
        files.write_whole(self.workspace.schema(journey.name), text, error=StudioError)


def to(path: str) -> Response:
    """Send the browser to another page after a form."""
    return RedirectResponse(path, status_code=303)


_PAGES = {"schema": "facts", "preview": "data", "criteria": "look", "publish": "release"}
"""Addresses of forms that are not called like the page they stand on."""


def _back(request: Request) -> str:
    """The page from which a form came, as far as the address itself tells."""
    name = request.path_params.get("name")
    if not isinstance(name, str) or request.method != "POST":
        return "/"
    last = request.url.path.rsplit("/", 1)[-1]
    return f"/journey/{name}/{_PAGES.get(last, last)}"
