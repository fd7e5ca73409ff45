"""Reports in a real browser: no error, no sideways scroll, every chart drawn, wide and narrow, light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import chromium
from understudy.reporting import report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from understudy.evaluation import Evaluation


pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium.executable() is None, reason="no Chromium on this machine: install it to run this"
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One headless Chromium for all pages."""
    with chromium.Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("kind", ["table_release", "image_release", "code_release"])
def test_pages_open_cleanly(
    kind: str,
    width: int,
    browser: Any,
    whole_evaluation: Evaluation,
    audit_result: Any,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """No console message, no horizontal scroll, charts and pictures present with words for them."""
    page = tmp_path / "report.html"
    page.write_text(
        report(request.getfixturevalue(kind), evaluation=whole_evaluation, audit=audit_result),
        encoding="utf-8",
    )
    for dark in (False, True):
        seen = browser.look(page, width, dark=dark)
        assert seen.problems == ()
        assert seen.scroll_width <= width
        assert seen.charts == 1 + 2 + 2 + 3
        assert seen.empty_charts == 0
        assert seen.images == (2 if kind == "image_release" else 1)
        assert seen.broken_images == 0
        assert "What is promised" in seen.text


def test_the_browser_check_can_fail(browser: Any, tmp_path: Path) -> None:
    """A page with a script error, a wide box and a broken picture is caught."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<div style='width:3000px'>x</div><img src='data:image/png;base64,AA' alt='x'><script>nothing()</script>"
    )
    seen = browser.look(page, 400)
    assert seen.problems
    assert seen.scroll_width > 400
    assert seen.broken_images == 1
