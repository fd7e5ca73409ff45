"""Cards, evaluations and recipes made to confuse: a typed refusal, never a traceback in what comes after."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from understudy.codec import from_json
from understudy.errors import BudgetError, EvaluationError, ReleaseError, SchemaError, UnderstudyError
from understudy.evaluation import Evaluation
from understudy.privacy.accounting import spent
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian
from understudy.release.release import Release
from understudy.reporting.content import gather
from understudy.reporting.markdown import as_markdown
from understudy.reporting.render import _html
from understudy.schema import Categorical


@pytest.fixture
def folder(table_release: Release, tmp_path: Path) -> Path:
    return table_release.save(tmp_path / "release")


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the card as somebody would who wants to be believed: the weights keep their hash."""
    card = json.loads((folder / "card.json").read_text("utf-8"))
    change(card)
    (folder / "card.json").write_text(json.dumps(card), "utf-8")


@pytest.mark.parametrize(
    "weights",
    [[float("nan"), 1], [-1, 2], [0, 0], [float("inf"), 1], [1e308, 1e308], [0.5, 0.3, 0.2], [1], []],
    ids=str,
)
def test_label_weights_that_are_none_are_refused(folder: Path, weights: list[float]) -> None:
    """Weights that nothing can be drawn by are refused when the release is loaded, not when it is sampled."""
    rewrite(folder, lambda card: card.update(label_weights=weights))
    with pytest.raises(ReleaseError):
        Release.load(folder)


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), -1.0])
def test_a_spent_epsilon_that_is_no_cost_is_refused(folder: Path, epsilon: float) -> None:
    """NaN, an infinite and a negative ε are not printed as a promise."""
    rewrite(folder, lambda card: card["plan"]["spent"].update(epsilon=epsilon))
    with pytest.raises(UnderstudyError):
        Release.load(folder)


def test_a_key_that_occurs_twice_is_refused(folder: Path) -> None:
    """One reader could believe the first value and another the last."""
    text = (folder / "card.json").read_text("utf-8")
    (folder / "card.json").write_text('{"format": 1, ' + text.lstrip()[1:], "utf-8")
    with pytest.raises(ReleaseError, match="occurs twice"):
        Release.load(folder)


@pytest.mark.parametrize("where", ["value", "key"])
def test_half_a_character_is_refused(folder: Path, where: str) -> None:
    """A lone surrogate, which no file or terminal can hold, is refused before anything prints it."""
    rewrite(
        folder,
        lambda card: card.update(warnings=["\ud800"]) if where == "value" else card.update({"\ud800": 1}),
    )
    with pytest.raises(ReleaseError):
        Release.load(folder)


@pytest.mark.parametrize("count", [10**30, 10**400])
def test_whole_numbers_that_fit_nowhere_are_refused(folder: Path, count: int) -> None:
    """A number of steps or rows beyond 64 bits is refused by the codec."""
    rewrite(folder, lambda card: card["plan"].update(rows=count))
    with pytest.raises(ReleaseError, match="64 bits"):
        Release.load(folder)


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianRelease(1e-9),
        GaussianRelease(1e-300),
        GaussianRelease(1.0, 2**62),
        SubsampledGaussian(0.5, 1e-9, 10),
        SubsampledGaussian(1e-300, 1e-200, 2**62),
        SubsampledGaussian(0.5, 1e-300, 1),
        SubsampledGaussian(0.01, 1.0, 10**9),
        SubsampledGaussian(0.01, 1e300, 5),
    ],
    ids=str,
)
def test_absurd_mechanisms_cost_much_or_are_refused(mechanism: Any) -> None:
    """Noise or counts beyond all measure give a huge ε or a BudgetError, not an overflow."""
    with contextlib.suppress(BudgetError):
        assert spent((Charge("x", mechanism),), 1e-5).epsilon >= 0


def test_weights_longer_than_the_generator_are_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file of gibibytes is refused by its length, whatever the card says of it."""
    path = folder / "generator.safetensors"
    with path.open("r+b") as file:
        file.truncate(2**32)
    with pytest.raises(ReleaseError, match="damaged or replaced"):
        Release.load(folder)
    rewrite(folder, lambda card: card["files"][0].update(bytes=2**32))
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(Path(path).name) or real(path, *rest))
    with pytest.raises(ReleaseError, match="more than"):
        Release.load(folder)
    assert opened == ["card.json"]


EVALUATION = {
    "measures": [
        {
            "name": "tree: accuracy",
            "value": 0.5,
            "better": "higher",
            "group": "utility",
            "low": 0.4,
            "high": 0.6,
        },
        {"name": "distance", "value": 0.5, "better": "lower", "group": "fidelity"},
    ],
    "synthetic_rows": 3,
    "test_rows": 4,
    "seed": 0,
    "marginals": [
        {"column": "a", "labels": ["x", "y"], "real": [0.5, 0.5], "synthetic": [0.4, 0.6], "ordered": True}
    ],
    "correlations": {"columns": ["a"], "real": [[1.0]], "synthetic": [[1.0]]},
    "pictures": {"height": 1, "width": 2, "channels": 1, "synthetic": [[1, 2]], "nearest": [[3, 4]]},
    "notes": ["a note"],
}
SPICE = [None, float("nan"), 1e308, -1, 10**400, "\ud800", [], [[]], {}, [1, "x"], 1e-300]


def places(plain: Any) -> list[tuple[Any, ...]]:
    """The path of every value inside."""
    if not isinstance(plain, dict | list):
        return [()]
    items = plain.items() if isinstance(plain, dict) else enumerate(plain)
    return [()] + [(key, *rest) for key, item in items for rest in places(item)]


@pytest.mark.parametrize("place", [place for place in places(EVALUATION) if place], ids=str)
def test_an_evaluation_is_refused_or_can_be_shown(table_release: Release, place: tuple[Any, ...]) -> None:
    """Whatever stands in the place of one value: an EvaluationError, or pages can be made of it."""
    shown = gather(table_release, None, None, public=False)
    for spice in SPICE:
        hurt = json.loads(json.dumps(EVALUATION))
        inner = hurt
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = spice
        try:
            found = Evaluation.from_json(json.dumps(hurt))
        except EvaluationError:
            continue
        content = replace(shown, evaluation=found)
        assert _html(content)
        assert as_markdown(content)
        assert found.table()


def test_the_evaluation_itself_can_be_read() -> None:
    """The starting point of the test above is whole, and null means an unknown number."""
    plain = json.loads(json.dumps(EVALUATION))
    plain["measures"][0]["value"] = None
    found = Evaluation.from_json(json.dumps(plain))
    assert found["tree: accuracy"].value != found["tree: accuracy"].value
    assert Evaluation.from_json(found.to_json()).marginals == found.marginals


def test_many_repeated_keys_are_found_quickly() -> None:
    """Finding a repeated key takes one look at each, so 200,000 keys take no minutes."""
    text = "{" + ",".join(f'"k{number}": 1' for number in range(200_000)) + ', "k7": 1}'
    with pytest.raises(SchemaError, match="k7"):
        from_json(Categorical, text)
