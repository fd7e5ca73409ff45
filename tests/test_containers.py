"""The container files as text: who runs, what can be written, and what reaches the network."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")


def test_the_image_does_not_run_as_root() -> None:
    """The last stage names a user before its entry point."""
    last = DOCKERFILE.split("FROM ")[-1]
    assert last.index("USER understudy") < last.index("ENTRYPOINT")
    assert "slim" in last.splitlines()[0]


def test_services_write_nowhere_but_in_their_volumes() -> None:
    """Roots are read-only, no capability is kept, and the curator's records have no network."""
    services = re.split(
        r"^  (?=\w+:$)", COMPOSE.split("services:\n")[1].split("\nvolumes:\n")[0], flags=re.M
    )[1:]
    assert [service.split(":")[0] for service in services] == ["curator", "analyst"]
    for service in services:
        assert "read_only: true" in service
        assert "cap_drop: [ALL]" in service
        assert "no-new-privileges:true" in service
    assert "network_mode: none" in services[0]
    assert "127.0.0.1:8321:8321" in services[1]
    assert "/release:ro" in services[1]
    assert "ledgers:/ledgers" in services[0]


def test_the_extras_of_the_image_exist() -> None:
    """What the image installs is what the package offers."""
    wanted = re.search(r"/src\[([a-z,]+)\]", DOCKERFILE)
    assert wanted is not None
    offered = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]")[1]
    )
    for extra in wanted[1].split(","):
        assert re.search(rf"^{extra} = ", offered, flags=re.M), extra


def test_no_record_beside_the_dockerfile_reaches_a_layer() -> None:
    """What is copied is listed; a folder of data is not on the list."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == {
        "src",
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "LICENSE",
    }
