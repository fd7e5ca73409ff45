"""`understudy serve`: offer one release to analysts, in a browser and over HTTP."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.console import err, warn_not_private

__all__ = ["need_server", "run_server", "serve_command"]

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""The names of this machine for itself."""


def serve_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")] = 8321,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name under which visitors may ask; may be repeated. This machine's own always may."
        ),
    ] = None,
    evaluation: Annotated[
        Path | None,
        typer.Option(help="File written by `understudy evaluate --out`; internal numbers are left out."),
    ] = None,
    most_rows: Annotated[int, typer.Option(min=1, help="Records of one download.")] = 1_000_000,
    per_minute: Annotated[int, typer.Option(min=1, help="Requests of one client per minute.")] = 120,
    at_once: Annotated[int, typer.Option(min=1, help="Requests that are answered at the same time.")] = 8,
) -> None:
    """Offer one release, read-only: what it is, records by class, downloads, and the same as an HTTP API.

    It reads the release once and nothing else, keeps no state, and can stand behind a proxy that adds TLS.

    Examples:
        understudy serve release/

        understudy serve release/ --host 0.0.0.0 --name synthetic.example.org --per-minute 30
    """
    from understudy.auditing.attachment import attached
    from understudy.errors import EvaluationError
    from understudy.evaluation import Evaluation
    from understudy.files import read_text
    from understudy.release.release import Release

    need_server()
    from understudy.serving import Limits, release_app

    loaded = Release.load(release)
    if not loaded.card.private:
        warn_not_private(loaded.card.warnings)
    found = None if evaluation is None else Evaluation.from_json(read_text(evaluation, error=EvaluationError))
    app = release_app(
        loaded,
        evaluation=found,
        audit=attached(release),
        limits=Limits(most_rows, per_minute, at_once),
        hosts=LOCAL | {host} | frozenset(one.lower() for one in name or ()),
    )
    err.print(f"serving {release} at http://{host}:{port}/ (stop with Ctrl-C)")
    run_server(app, host=host, port=port)


def need_server() -> None:
    """Say what to install if the web server is not there."""
    from understudy.errors import UnderstudyError

    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as problem:
        raise UnderstudyError(
            "this needs a web server: install it with `pip install 'understudy[studio]'`."
        ) from problem


def run_server(
    app: Any, *, host: str = "127.0.0.1", port: int = 0, listener: socket.socket | None = None
) -> None:
    """Answer requests until interrupted; addresses of requests are not logged, since they hold what was asked.

    Args:
        app: an ASGI application.
        host: address to listen at.
        port: port to listen at.
        listener: a socket that is bound already, instead of the two.
    """
    import uvicorn

    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, server_header=False
    )
    uvicorn.Server(config).run(None if listener is None else [listener])
