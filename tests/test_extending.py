"""The synthesizer of docs/extending.md is what the page says: it keeps the contract, fits and draws."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import understudy
from understudy.schema import Categorical, TableSchema
from understudy.synthesizers.contract import check_synthesizer

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text("utf-8")
SCHEMA = TableSchema(tuple(Categorical(name, ("a", "b", "c")) for name in ("one", "two", "three")))


def test_the_synthesizer_of_the_page_keeps_the_contract_and_draws(monkeypatch: object) -> None:
    """Whoever copies the page has a private synthesizer that passes every clause."""
    code = max(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), key=len)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # type: ignore[attr-defined]
    exec(compile(code, "extending.md", "exec"), module.__dict__)
    check_synthesizer(module.RECIPE, SCHEMA)
    plan = understudy.plan(SCHEMA, epsilon=3.0, delta=1e-3, rows=60, recipe=module.RECIPE)
    import pandas as pd

    frame = pd.DataFrame({"one": ["a", "b", "c"] * 20, "two": ["a", "b", "c"] * 20, "three": ["c"] * 60})
    assert len(understudy.fit(frame, plan).sample(50)) == 50
