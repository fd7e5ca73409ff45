"""An audit in the folder of a release: bound to its card, shown by inspect and report, refused when it is another's."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tiny import tiny_frame, tiny_plan
from understudy.auditing.attachment import ATTACHMENT, attach, attached
from understudy.auditing.verdict import Audit, Outcome, Reading, judge
from understudy.cli import app
from understudy.errors import ReleaseError
from understudy.release.release import Release
from understudy.run.fit import fit

FOUND = Audit(
    subject="dp-cgan",
    claimed_epsilon=2.0,
    delta=1e-5,
    confidence=0.9999,
    canaries=240,
    rounds=568,
    readings=(Reading("multiplier", Outcome.PASS, 1.0, 0.9, 1.1, 1.0, "so it is.", 1.75),),
    verdict=judge(()),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of three steps."""
    return fit(tiny_frame(), tiny_plan()).save(tmp_path_factory.mktemp("made") / "release")


@pytest.fixture
def folder(made, tmp_path):
    """A copy of the release that a test may change."""
    return Release.load(made).save(tmp_path / "release")


def run(*arguments):
    """One command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_attached_audit_comes_back_and_the_release_stays_valid(folder):
    """What was attached is read again, an earlier one is replaced, and the release loads as before."""
    assert attached(folder) is None
    attach(folder, FOUND)
    path = attach(folder, FOUND)
    assert path == folder / ATTACHMENT
    assert attached(folder) == FOUND
    assert Release.load(folder).card == Release.load(folder).card
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        ATTACHMENT,
        "card.json",
        "generator.safetensors",
    ]


def test_audit_of_another_card_is_refused(folder):
    """An audit whose hash is not that of the card beside it is an error, and so is a damaged one."""
    path = attach(folder, FOUND)
    plain = json.loads(path.read_text())
    path.write_text(json.dumps(plain | {"card_sha256": "0" * 64}))
    with pytest.raises(ReleaseError, match="another card"):
        attached(folder)
    path.write_text(json.dumps(plain | {"format": 2}))
    with pytest.raises(ReleaseError, match="format"):
        attached(folder)
    path.write_bytes(b"\xff{")
    with pytest.raises(ReleaseError):
        attached(folder)
    path.unlink()
    path.symlink_to(folder / "card.json")
    with pytest.raises(ReleaseError):
        attached(folder)


def test_inspect_and_report_show_the_attached_audit(folder):
    """Both commands print the verdict and the proved ε without being told of the file."""
    attach(folder, FOUND)
    shown = run("inspect", folder)
    assert shown.exit_code == 0, shown.output
    assert "PASS" in shown.output
    assert "1.75" in shown.output
    page = folder.parent / "page.md"
    assert run("report", folder, "--public", "--out", page).exit_code == 0
    assert "Proved ε ≥ 1.75" in page.read_text()


@pytest.mark.slow
def test_command_audits_the_plan_of_a_release_and_attaches(folder):
    """`audit --attach` reads the plan from the card, and what it found is beside the card afterwards."""
    done = run("audit", "--attach", folder, "--seed", 0, "--json")
    assert done.exit_code == 0, done.output
    found = attached(folder)
    assert found is not None
    assert found.claimed_epsilon == Release.load(folder).card.plan.spent.epsilon
