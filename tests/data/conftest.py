"""A database server that several tests of readers use."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _as_server() -> dict[str, Any]:
    """PostgreSQL refuses to run as root; Debian's package brings a user for it."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A server of our own on a socket in a temporary folder, with a password; its address."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) if os.name == "posix" else []
    if not found:
        pytest.skip("PostgreSQL is not installed here (Debian: apt-get install postgresql)")
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        if os.geteuid() == 0:
            pytest.skip("running as root without a user postgres to start a server as")
    binaries, folder = found[-1].parent, Path(tempfile.mkdtemp(prefix="understudy-pg-"))
    run: dict[str, Any] = {"capture_output": True, **_as_server()}
    try:
        secret = folder / "secret"
        secret.write_text("correct horse")
        if os.geteuid() == 0:
            for path in (folder, secret):
                shutil.chown(path, "postgres", "postgres")
        data = folder / "data"
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "curator", "-A", "scram-sha-256", f"--pwfile={secret}"],
            check=True,
            **run,
        )
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        subprocess.run(
            [binaries / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start"],
            check=True,
            **run,
        )
        try:
            yield f"postgresql://curator:correct%20horse@/postgres?host={folder}"
        finally:
            subprocess.run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"], check=True, **run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
