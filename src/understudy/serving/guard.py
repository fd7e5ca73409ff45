"""What stands before every request: known hosts, limits, and headers that forbid a page to do anything else.

Written against the ASGI protocol itself, so that it covers answers that are streamed.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "REPORT_POLICY", "Guard", "Rate", "plain_host"]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
"""On every answer: nothing from elsewhere, nothing framed, nothing guessed, nothing kept."""

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The content policy of a report, which carries its own style and no script, and states the same itself."""

_log = logging.getLogger(__name__)

_CLIENTS = 10_000
"""How many clients are remembered for their rate; the longest unseen is forgotten."""


@dataclass
class Rate:
    """At most so many requests per minute and client, in bursts of as many.

    Args:
        per_minute: how many.
        clock: seconds that only grow.
    """

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def allows(self, client: str) -> bool:
        """Whether this client may ask once more now."""
        now = self.clock()
        left, seen = self._left.pop(client, (float(self.per_minute), now))
        left = min(float(self.per_minute), left + (now - seen) * self.per_minute / 60)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        while len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return allowed


def plain_host(header: str) -> str:
    """The name in a Host header without its port, in lower case; brackets of an IPv6 address stay."""
    name = header.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


class Guard:
    """Refuses foreign host names and too many requests, and puts the headers on every answer.

    A page elsewhere can make a name of its own point to this machine (DNS rebinding); its requests then carry that
    name, and are refused. An error that nobody foresaw is logged without its words, which may quote a cell: by its
    kind, and the line of code that it comes from.

    Args:
        app: what is guarded.
        hosts: the names under which it may be asked; an empty set allows every name.
        rate: requests per minute and client; None for no limit.
        at_once: requests that are answered at the same time.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], rate: Rate | None, at_once: int) -> None:
        self._app, self._hosts, self._rate, self._free = app, hosts, rate, at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        ended = False

        async def with_headers(message: Message) -> None:
            nonlocal ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, with_headers)
            return
        self._free -= 1
        failed = False
        try:
            await self._app(scope, receive, with_headers)
        except Exception as problem:  # noqa: BLE001 - whatever it is, its words stay here
            failed = True
            where = traceback.extract_tb(problem.__traceback__)[-1]
            _log.error("an error of ours: %s at %s:%s", type(problem).__name__, where.filename, where.lineno)
        finally:
            self._free += 1
        if failed and not ended:
            raise ConnectionAbortedError("an answer broke off.")

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        host = plain_host(Headers(scope=scope).get("host", ""))
        if self._hosts and host not in self._hosts:
            return PlainTextResponse("This host name is not served here.\n", status_code=421)
        client = scope.get("client") or ("unknown", 0)
        if self._rate is not None and not self._rate.allows(str(client[0])):
            later = {"retry-after": "60"}
            return PlainTextResponse(
                "Too many requests; try again in a minute.\n", status_code=429, headers=later
            )
        if self._free <= 0:
            later = {"retry-after": "5"}
            return PlainTextResponse(
                "Too many requests at once; try again soon.\n", status_code=503, headers=later
            )
        return None
