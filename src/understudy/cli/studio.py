"""`understudy studio`: the whole journey in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.console import err, say
from understudy.cli.serve import need_server, run_server

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
        if browser:
            webbrowser.open(address)
        try:
            run_server(app, listener=listener)
        finally:
            studio.jobs.close()
