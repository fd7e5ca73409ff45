"""Who may use the studio: whoever has the address that was printed once, in one browser, and no page elsewhere."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from understudy.errors import StudioError

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Access"]

_COOKIE = "understudy-studio"
_FIELD = "form-key"


class Access:
    """Lets in who shows the token once, and knows them by a cookie from then on.

    The token stands in the address that is opened first and is used up by it. Everything that changes something is a
    form, and carries a key that only pages of this session know.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token
        self._session: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._answer(request)
        if answer is not None:
            await answer(scope, receive, send)
            return
        scope["form_key"] = self.form_key()
        await self._app(scope, receive, send)

    def _answer(self, request: Request) -> Response | None:
        """What to answer instead of the page, or None if the visitor may pass."""
        if self._known(request):
            if request.url.path == "/enter":
                return RedirectResponse("/", status_code=303)
            return None if request.method in ("GET", "HEAD") or _same_site(request) else _refusal()
        if request.url.path == "/style.css":
            return None
        shown = request.query_params.get("token", "")
        if (
            request.url.path == "/enter"
            and self._session is None
            and hmac.compare_digest(shown.encode(), self._token.encode())
        ):
            self._session = secrets.token_urlsafe(32)
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(_cookie(request), self._session, httponly=True, samesite="strict", path="/")
            return answer
        return _refusal()

    def _known(self, request: Request) -> bool:
        shown = request.cookies.get(_cookie(request), "")
        return self._session is not None and hmac.compare_digest(shown.encode(), self._session.encode())

    def form_key(self) -> str:
        """What forms of this session carry."""
        return hmac.new((self._session or "").encode(), b"form", "sha256").hexdigest()

    @staticmethod
    async def form(request: Request) -> FormData:
        """The form that was sent, if it came from a page of this session.

        Raises:
            StudioError: it did not.
        """
        sent = await request.form(max_files=0, max_fields=20_000, max_part_size=16 * 2**20)
        key = sent.get(_FIELD)
        if not isinstance(key, str) or not hmac.compare_digest(
            key.encode(), request.scope["form_key"].encode()
        ):
            raise StudioError(
                "this form is not from a page of this studio, or from an earlier one: reload it."
            )
        return sent


def _cookie(request: Request) -> str:
    """The cookie's name, with the port: browsers share cookies between all ports of a machine, and studios do not."""
    return f"{_COOKIE}-{request.url.port or 80}"


def _same_site(request: Request) -> bool:
    """Whether a browser says, as far as it says anything, that the form came from our own page."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _refusal() -> Response:
    return PlainTextResponse(
        "Open the studio by the address that `understudy studio` printed; it works once, in one browser. "
        "Start the studio again for a new one.\n",
        status_code=403,
    )
