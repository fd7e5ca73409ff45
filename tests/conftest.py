"""Shared fixtures: releases that many tests look at."""

from __future__ import annotations

import os

import pytest

os.environ["COLUMNS"] = "200"  # before anything makes a console: tables must not be wrapped in tests

from tiny import TINY_IMAGES, tiny_frame, tiny_images, tiny_plan
from understudy.release.release import Release


@pytest.fixture(scope="session")
def table_release() -> Release:
    """A private release of the tiny table."""
    from understudy.run.fit import fit

    return fit(tiny_frame(), tiny_plan())


@pytest.fixture(scope="session")
def image_release() -> Release:
    """A private release of the tiny images."""
    from understudy.run.fit import fit

    return fit(tiny_images(), tiny_plan(TINY_IMAGES))
