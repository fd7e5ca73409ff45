"""`understudy studio`: the whole journey in a browser."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err, say
from understudy.cli.serve import need_server, run_server

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["studio_command"]


def studio_command(
    folder: Annotated[
        Path, typer.Argument(help="The folder that holds the data; nothing outside of it is read.")
    ] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Make a release in the browser: data, facts, budget, run, look, release, ledger.

    It listens on this machine only, lets one browser in by an address that works once, and sends nothing anywhere.

    Examples:
        understudy studio

        understudy studio hospital-data --port 8322 --no-browser
    """
    need_server()
    import socket
    import webbrowser

    from understudy.studio.app import studio_app

    app, studio, token = studio_app(folder)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/enter?token={token}"
        err.print(
            f"the studio for {studio.workspace.root}; stop with Ctrl-C. Open this address, which works once:"
        )
        say(address)
        with _door_mat(address) as page:
            if browser:
                webbrowser.open(page.as_uri())
            try:
                run_server(app, listener=listener)
            finally:
                studio.jobs.close()


@contextmanager
def _door_mat(address: str) -> Iterator[Path]:
    """A page that only this user can read and that leads to the address: a command line could be read by everybody."""
    with tempfile.TemporaryDirectory(prefix="understudy-studio-") as folder:
        page = Path(folder) / "studio.html"
        page.touch(mode=0o600)
        page.write_text(f'<meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
        yield page
