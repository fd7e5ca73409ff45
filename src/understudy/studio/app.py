"""The studio as an application: its addresses behind the guards."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from understudy.errors import UnderstudyError
from understudy.serving.guard import Guard
from understudy.studio.access import Access
from understudy.studio.desk import Desk
from understudy.studio.finishing import Finishing
from understudy.studio.preparing import Preparing

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

__all__ = ["studio_app"]

_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})


def studio_app(root: Path, token: str | None = None) -> tuple[Guard, Desk, str]:
    """The application, what it holds, and the token that opens it once.

    Args:
        root: the folder that the curator opens.
        token: for tests; by default a secret one.
    """
    desk = Desk(root)
    secret = token or secrets.token_urlsafe(24)

    async def script(_request: Request) -> Response:
        return Response(desk.page.script, media_type="text/javascript")

    async def style(_request: Request) -> Response:
        return Response(desk.page.style, media_type="text/css")

    routes = [
        *Preparing(desk).routes(),
        *Finishing(desk).routes(),
        Route("/studio.js", script),
        Route("/style.css", style),
    ]
    app = Starlette(routes=routes, exception_handlers={UnderstudyError: desk.told})
    return Guard(Access(app, secret), hosts=_LOCAL, rate=None, at_once=64), desk, secret
