"""Tutorials and how-to pages do what they say: their files are written, their commands typed, their Python run."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from walking import walk

DOCS = Path(__file__).parent.parent / "docs"
HOW_TO = sorted(page for page in (DOCS / "how-to").glob("*.md") if page.name != "index.md")


def test_the_tutorial_of_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of pictures becomes a release, and its samples a folder of pictures and a sheet to look at."""
    walk((DOCS / "tutorials" / "images.md").read_text("utf-8"), tmp_path, monkeypatch)
    assert (tmp_path / "look.png").stat().st_size > 1000
    assert len(list((tmp_path / "synthetic").glob("*/*.png"))) == 200


def test_the_tutorial_of_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes keep company in the synthetic registry as the page says, and a code that nobody has stays away."""
    session = walk((DOCS / "tutorials" / "codes.md").read_text("utf-8"), tmp_path, monkeypatch)
    patients, diabetic = session["patients"], session["diabetic"]
    assert abs(patients["I10"].mean() - 0.34) < 0.03
    assert abs(diabetic["I10"].mean() - 0.60) < 0.2
    assert patients["E66"].mean() < 0.01


def test_the_tutorial_of_a_statistics_office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of Parquet files, two processes and a cache give a release whose rules hold in every row."""
    import pandas as pd

    walk((DOCS / "tutorials" / "statistics-office.md").read_text("utf-8"), tmp_path, monkeypatch)
    rows = pd.read_parquet(tmp_path / "public-use.parquet")
    assert (rows.loc[rows["status"] == "child", "income"] == 0).all()
    assert list((tmp_path / "scratch").iterdir()) == []


PAPER = (DOCS / "tutorials" / "paper.md").read_text("utf-8")


def test_the_tutorial_of_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certified ε of the printed setting is the one on the page, and a small GAN of the paper makes digits."""
    walk(PAPER.replace("--steps 600", "--steps 60"), tmp_path, monkeypatch, left_out="reproduce")
    assert (tmp_path / "gan.png").exists()


@pytest.mark.slow
@pytest.mark.data
def test_all_of_the_tutorial_of_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims are recomputed as the page prints them, and the thyroid table is made with its three lines."""
    walk(PAPER, tmp_path, monkeypatch)
    table = (tmp_path / "thyroid" / "tables" / "table-2.md").read_text("utf-8")
    assert "the paper's 0.9746 comes from real rows" in table


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the first page of the how-to pages leaves behind."""
    folder = tmp_path_factory.mktemp("visits")
    with pytest.MonkeyPatch.context() as patch:
        walk((DOCS / "how-to" / "index.md").read_text("utf-8"), folder, patch)
    return folder


class StandInForMlflow(ModuleType):
    """What a run logs by the names that the recipe uses; anything else is an error."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.logged: dict[str, object] = {}

    @contextlib.contextmanager
    def start_run(self, run_name: str) -> Iterator[None]:
        yield

    def log_params(self, params: dict[str, object]) -> None:
        self.logged |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        allowed = re.compile(r"[\w\-. :/]+")  # MLflow's own rule for the name of a metric
        for name, value in metrics.items():
            assert allowed.fullmatch(name), name
            assert math.isfinite(value)
        self.logged |= metrics

    def set_tags(self, tags: dict[str, object]) -> None:
        self.logged |= tags

    def log_artifacts(self, local_dir: str, artifact_path: str) -> None:
        self.logged |= {artifact_path: sorted(path.name for path in Path(local_dir).iterdir())}


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page(page: Path, visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows the page after the first one gets what it says."""
    mlflow = StandInForMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    shutil.copytree(visits, tmp_path / "here")
    walk(page.read_text("utf-8"), tmp_path / "here", monkeypatch)
    if page.stem == "python":
        assert mlflow.logged["private"] is True
        assert 0 < mlflow.logged["certified_epsilon"] <= mlflow.logged["epsilon"] == 1
        assert "card.json" in mlflow.logged["release"]


def test_the_odds_of_the_concepts_page() -> None:
    """Every cell of the table of odds is e^ε times the odds before, as a chance."""
    rows = re.findall(
        r"^\| (1 in [\d,]+|an even bet) \|(.+)\|$", (DOCS / "concepts.md").read_text("utf-8"), re.M
    )
    assert len(rows) == 3
    for before, cells in rows:
        prior = 0.5 if before == "an even bet" else 1 / int(before[5:].replace(",", ""))
        for epsilon, cell in zip((0.1, 0.5, 1, 3, 5, 10), cells.split("|"), strict=True):
            odds = prior / (1 - prior) * math.exp(epsilon)
            assert cell.strip() == f"{_two_digits(100 * odds / (1 + odds))} %", (before, epsilon)


def _two_digits(share: float) -> str:
    return f"{share:.2f}" if share < 1 else f"{share:.1f}" if share < 9.95 else f"{share:.0f}"


def test_the_questions_of_the_tables_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every condition, completion and query on the page of tables is answered by a release with such columns."""
    import numpy as np
    import pandas as pd

    import understudy
    from understudy.schema import Categorical, Integer, save_schema

    chance = np.random.default_rng(0)
    values = {
        "sex": ("f", "m"),
        "ward": ("a", "b"),
        "town": ("bern", "bonn", "rome"),
        "outcome": ("well", "ill"),
    }
    rows = pd.DataFrame({name: chance.choice(list(allowed), 2000) for name, allowed in values.items()})
    rows["age"] = chance.integers(0, 100, 2000)
    rows.loc[::5, "ward"] = None
    columns = [Categorical(name, allowed, missing=name == "ward") for name, allowed in values.items()]
    schema = understudy.TableSchema((*columns, Integer("age", 0, 120)), label="outcome")
    understudy.fit(rows, schema, epsilon=3, rows=2000, steps=30, out=tmp_path / "release")
    save_schema(schema, tmp_path / "patients.toml")
    for name in ("patients.csv", "last-year.csv"):
        rows.to_csv(tmp_path / name, index=False)
    (tmp_path / "partial.csv").write_text("sex,age\nf,40\nm,\n", encoding="utf-8")
    walk((DOCS / "tables.md").read_text("utf-8"), tmp_path, monkeypatch)
    assert len(pd.read_csv(tmp_path / "whole.csv")) == 2
    assert {"ward", "outcome", "estimate"} <= set(pd.read_csv(tmp_path / "rates.csv"))
