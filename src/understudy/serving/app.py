"""`understudy serve`: what a release is, what it makes, and as many records as the limits allow."""

from __future__ import annotations

import codecs
import json
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from understudy import codec
from understudy._version import __version__
from understudy.errors import UnderstudyError
from understudy.records.written import text_encoding
from understudy.release.sampling import sample_chunks
from understudy.release.statistics import COVERS, all_queries, statistics
from understudy.release.write import csv_pieces, json_pieces, write_records
from understudy.reporting.content import cell_text, gather
from understudy.reporting.render import example_rows, report
from understudy.schema import schema_to_toml
from understudy.serving.guard import REPORT_POLICY, Guard, Rate
from understudy.serving.openapi import described
from understudy.serving.wanted import Wanted, query_from, wanted_from, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from understudy.auditing.verdict import Audit
    from understudy.evaluation.result import Evaluation
    from understudy.release.release import Release

__all__ = ["Limits", "records_response", "release_app"]

_FOLDER = files("understudy.serving")
_MEDIA = {
    "csv": "text/csv",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "npz": "application/octet-stream",
    "png": "image/png",
}


@dataclass(frozen=True)
class Limits:
    """What one visitor may ask.

    Args:
        rows: records of one download.
        per_minute: requests of one client per minute.
        at_once: requests that are answered at the same time.
    """

    rows: int = 1_000_000
    per_minute: int = 120
    at_once: int = 8


def release_app(
    release: Release,
    *,
    evaluation: Evaluation | None = None,
    audit: Audit | None = None,
    limits: Limits | None = None,
    hosts: frozenset[str] = frozenset(),
) -> Guard:
    """An ASGI application that shows one release, read-only.

    It holds the release in memory and touches no file afterwards but temporary ones of its own; it keeps nothing about
    its visitors but a count of their requests in the last minute.

    Args:
        release: what is offered.
        evaluation: published measures; internal ones are left out.
        audit: what the audit found.
        limits: what one visitor may ask.
        hosts: names under which it may be asked; empty for any, as behind a proxy that checks them.
    """
    allowed = limits or Limits()
    offer = _Offer(release, evaluation, audit, allowed)
    routes = [
        Route("/", offer.front),
        Route("/report", offer.report),
        Route("/sample", offer.sample),
        Route("/statistics", offer.statistics),
        Route("/api/statistics", offer.api_statistics),
        Route("/api/card", offer.card),
        Route("/api/schema", offer.schema),
        Route("/openapi.json", offer.openapi),
        Route("/style.css", offer.style),
    ]
    app = Starlette(routes=routes, exception_handlers={UnderstudyError: _told})
    return Guard(app, hosts=hosts, rate=Rate(allowed.per_minute), at_once=allowed.at_once)


def _told(request: Request, problem: Exception) -> Response:
    """An error for people, in the form the visitor asked for."""
    if request.url.path.startswith("/api/") or "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"error": str(problem)}, status_code=400)
    return PlainTextResponse(f"{problem}\n", status_code=400)


class _Offer:
    """The answers about one release."""

    def __init__(
        self, release: Release, evaluation: Evaluation | None, audit: Audit | None, limits: Limits
    ) -> None:
        self._release, self._limits = release, limits
        content = gather(release, evaluation, audit, public=True)
        self._environment = jinja2.Environment(
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            loader=jinja2.FunctionLoader(
                lambda name: _FOLDER.joinpath(f"{name}.html.jinja").read_text("utf-8")
            ),
        )
        self._front = self._page(
            "release",
            content=content,
            rows=example_rows(content),
            schema=release.schema,
            most=limits.rows,
            action="sample",
            asked=all_queries(release),
            groups=[one.name for one in getattr(release.schema, "columns", ()) if hasattr(one, "values")],
        )
        self._report = report(release, evaluation=evaluation, audit=audit, public=True)
        self._card = codec.to_plain(release.card)

    def _page(self, name: str, **values: Any) -> str:
        return self._environment.get_template(name).render(version=__version__, **values)

    async def front(self, _request: Request) -> Response:
        return HTMLResponse(self._front)

    async def report(self, _request: Request) -> Response:
        return HTMLResponse(self._report, headers={"content-security-policy": REPORT_POLICY})

    async def card(self, _request: Request) -> Response:
        return JSONResponse(self._card)

    async def schema(self, _request: Request) -> Response:
        return PlainTextResponse(schema_to_toml(self._release.schema), media_type="application/toml")

    async def openapi(self, _request: Request) -> Response:
        return JSONResponse(described(self._release, self._limits.rows))

    async def style(self, _request: Request) -> Response:
        text = files("understudy.reporting").joinpath("style.css").read_text("utf-8")
        return PlainTextResponse(
            text + _FOLDER.joinpath("release.css").read_text("utf-8"), media_type="text/css"
        )

    def statistics(self, request: Request) -> Response:
        """The answer to one query, as a page; a plain function, so that it runs beside other requests."""
        query, table = self._answer(request)
        cells = [["missing" if one is None else cell_text(one) for one in row] for row in table.to_numpy()]
        page = self._page("statistics", query=query, names=list(table.columns), cells=cells, covers=COVERS)
        return HTMLResponse(page)

    def api_statistics(self, request: Request) -> Response:
        """The same for programs."""
        query, table = self._answer(request)
        told = {"query": query, "answer": json.loads(table.to_json(orient="records")), "intervals": COVERS}
        return JSONResponse(told)

    def _answer(self, request: Request) -> tuple[str, pd.DataFrame]:
        query, given = query_from(request.query_params), request.query_params.get("count")
        return query, statistics(self._release, query, rows=None if not given else whole(given, "count"))

    def sample(self, request: Request) -> Response:
        """Records; a plain function, so that it runs beside the other visitors' requests."""
        return records_response(self._release, request.query_params, self._limits.rows)


def records_response(release: Release, query: QueryParams, most: int) -> Response:
    """Synthetic records as a download, streamed or from a temporary file.

    Args:
        release: where they are drawn.
        query: of the address; see `wanted_from`.
        most: records that may be asked for.
    """
    wanted = wanted_from(query, release.schema, most)
    chunks = sample_chunks(
        release,
        wanted.rows,
        label=wanted.label,
        counts=wanted.counts,
        given=wanted.given,
        balance=wanted.balance,
        seed=wanted.seed,
    )
    media = _MEDIA[wanted.form]
    headers = {"content-disposition": f'attachment; filename="synthetic.{wanted.form}"'}
    if wanted.form in ("csv", "json"):
        return StreamingResponse(_encoded(chunks, wanted, release), media_type=media, headers=headers)
    folder = tempfile.TemporaryDirectory(prefix="understudy-")
    try:
        path = Path(folder.name) / f"synthetic.{wanted.form}"
        write_records(chunks, path, schema=release.schema)
    except BaseException:
        folder.cleanup()
        raise
    shown = {} if wanted.form == "png" else headers
    return FileResponse(path, media_type=media, headers=shown, background=BackgroundTask(folder.cleanup))


def _encoded(chunks: Iterator[Any], wanted: Wanted, release: Release) -> Iterator[bytes]:
    if wanted.form == "json":
        return (piece.encode() for piece in json_pieces(chunks))
    # One encoder for the whole file: encodings such as UTF-16 mark its beginning once.
    encoder = codecs.getincrementalencoder(text_encoding(release.schema))()
    return (encoder.encode(piece) for piece in csv_pieces(chunks, release.schema))
