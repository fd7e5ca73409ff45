from __future__ import annotations

import re
from pathlib import Path

import pytest

from understudy.schema import schema_from_toml

PAGE = Path(__file__).parent.parent / "docs" / "schema.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_of_the_page_is_a_schema(text: str) -> None:
    """What the documentation shows can be copied and read."""
    assert schema_from_toml(text).kind in text


def test_the_page_shows_all_kinds() -> None:
    """One example for each kind of schema, how files are written, and persons with several records."""
    assert [schema_from_toml(text).kind for text in EXAMPLES] == [
        "table",
        "table",
        "images",
        "codes",
        "table",
        "codes",
    ]
