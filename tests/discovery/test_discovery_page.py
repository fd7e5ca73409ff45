"""The page about discovery shows what the package prints, and its example is a schema."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from understudy.schema import open_columns, schema_from_toml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "discovery.md").read_text("utf-8")


def test_every_figure_of_the_page_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python examples print exactly what the page shows."""
    monkeypatch.chdir(ROOT)
    (text,) = re.findall(r"```python\n(.*?)```\n", PAGE, re.DOTALL)
    test = doctest.DocTestParser().get_doctest(text, {}, "discovery.md", "discovery.md", 0)
    assert len(test.examples) >= 5
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.failed == 0, "".join(said)


def test_the_example_leaves_two_columns_open() -> None:
    """What the page shows can be copied and read."""
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert [column.name for column in open_columns(schema_from_toml(text))] == ["income", "ward"]
