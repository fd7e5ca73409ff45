"""A served release: what an analyst gets, and what nobody gets."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

from understudy.evaluation import Better, Evaluation, Group, Measure
from understudy.release.release import Release
from understudy.schema import schema_from_toml
from understudy.serving import Limits, release_app
from understudy.serving.guard import HEADERS, Rate, plain_host


def client(release: Release, **options: Any) -> TestClient:
    options.setdefault("hosts", frozenset({"testserver"}))
    return TestClient(release_app(release, **options), raise_server_exceptions=False)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_tables_come_in_every_form(table_release: Release, form: str) -> None:
    """The same seed gives the same rows as `sample`, in each kind of file."""
    answer = client(table_release).get("/sample", params={"rows": 5000, "seed": 3, "format": form})
    assert answer.status_code == 200
    assert f"synthetic.{form}" in answer.headers["content-disposition"]
    stream = io.BytesIO(answer.content)
    read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[form]
    found = read(stream)  # type: ignore[operator]
    expected = table_release.sample(5000, seed=3)
    assert isinstance(expected, pd.DataFrame)
    assert list(found.columns) == list(expected.columns)
    assert len(found) == 5000
    for name in expected.select_dtypes("number"):
        np.testing.assert_allclose(found[name].to_numpy(float), expected[name].to_numpy(float), rtol=1e-6)


def test_images_come_as_arrays_and_as_a_picture(image_release: Release) -> None:
    """An .npz holds pixels and labels, and a .png is a picture."""
    served = client(image_release)
    archive = np.load(io.BytesIO(served.get("/sample?rows=12&seed=1").content))
    assert archive["images"].shape[0] == 12
    picture = served.get("/sample?rows=12&seed=1&format=png")
    assert picture.headers["content-type"] == "image/png"
    assert picture.content.startswith(b"\x89PNG")


def test_one_class_and_counts(image_release: Release) -> None:
    """A visitor can choose classes as in `sample`."""
    served = client(image_release)
    classes = image_release.schema.label_classes
    assert classes is not None
    one = np.load(io.BytesIO(served.get("/sample", params={"rows": 7, "label": classes[1]}).content))
    assert set(one["labels"].tolist()) == {1}
    counts = {"counts": f"{classes[0]}=2,{classes[1]}=3"}
    some = np.load(io.BytesIO(served.get("/sample", params=counts).content))
    assert some["labels"].tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "query",
    [
        "rows=0",
        "rows=101",
        "rows=-5",
        "rows=1e9",
        "rows=٣",
        "rows=" + "9" * 400,
        "format=npz",
        "format=../../etc/passwd",
        "seed=abc",
        "label=no-such-class",
        "counts=a",
        "counts=a=1000000000000",
        "given=town",
        "given=colour=red",
        "given=town=north",
        "balance=colour",
        "path=/etc/passwd",
    ],
)
def test_wrong_requests_are_answered_with_a_sentence(table_release: Release, query: str) -> None:
    """Nothing a visitor can write in an address ends in a traceback or in more records than allowed."""
    answer = client(table_release, limits=Limits(rows=100)).get(f"/sample?{query}")
    assert answer.status_code == 400
    assert answer.text.strip().endswith(".")
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "path", ["/../card.json", "/%2e%2e/card.json", "/static/../../x", "/api/../../etc/passwd"]
)
def test_no_path_of_a_request_touches_a_file(table_release: Release, path: str) -> None:
    """Only the listed addresses exist."""
    assert client(table_release).get(path).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "testserver.evil.example", "evil.example:80", ""])
def test_foreign_host_names_are_refused(table_release: Release, host: str) -> None:
    """A page that makes its own name point here gets nothing (DNS rebinding)."""
    assert client(table_release).get("/", headers={"host": host}).status_code == 421


def test_host_names_are_read_without_port_and_case() -> None:
    """Ports and capitals do not hide or forge a name."""
    assert [plain_host(h) for h in ("LocalHost:80", "[::1]:8", "a.b", "a:1:2")] == [
        "localhost",
        "[::1]",
        "a.b",
        "a",
    ]


def test_every_answer_has_the_headers(table_release: Release) -> None:
    """Pages, streams, errors and refusals all forbid foreign content and framing."""
    served = client(table_release)
    for path, host in (
        ("/", "testserver"),
        ("/sample?rows=3", "testserver"),
        ("/x", "testserver"),
        ("/", "y"),
    ):
        answer = served.get(path, headers={"host": host})
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (path, name)
    assert "frame-ancestors 'none'" in served.get("/report").headers["content-security-policy"]


def test_too_many_requests_are_refused_and_forgiven() -> None:
    """A client has so many requests per minute, and gets them back with time; others are not affected."""
    now = [0.0]
    rate = Rate(3, lambda: now[0])
    assert [rate.allows("a") for _ in range(4)] == [True, True, True, False]
    assert rate.allows("b")
    now[0] = 20.0
    assert [rate.allows("a") for _ in range(2)] == [True, False]


def test_limits_answer_with_429_and_503(table_release: Release) -> None:
    """The two limits speak HTTP."""
    served = client(table_release, limits=Limits(per_minute=2))
    assert [served.get("/api/schema").status_code for _ in range(3)] == [200, 200, 429]
    assert client(table_release, limits=Limits(at_once=0)).get("/").status_code == 503


def test_card_schema_and_description(table_release: Release) -> None:
    """Programs get the card, the schema and an OpenAPI description that names the classes."""
    served = client(table_release)
    assert served.get("/api/card").json()["plan"]["budget"]["epsilon"] > 0
    assert schema_from_toml(served.get("/api/schema").text) == table_release.schema
    described = served.get("/openapi.json").json()
    assert described["openapi"].startswith("3.")
    names = [one["name"] for one in described["paths"]["/sample"]["get"]["parameters"]]
    assert "rows" in names
    json.dumps(described, allow_nan=False)


def test_internal_measures_are_not_shown(table_release: Release) -> None:
    """An evaluation that reads private rows does not reach any address."""
    secret = Measure("secret", 0.123456789, Better.LOWER, Group.FIDELITY, 0.1, 0.2, 0.05, 0.9)
    served = client(table_release, evaluation=Evaluation((secret,), 1000, 500, 0))
    for path in ("/", "/report", "/api/card", "/openapi.json"):
        assert "0.12345" not in served.get(path).text
        assert "0.123" not in served.get(path).text


def test_a_visitor_cannot_change_anything(table_release: Release) -> None:
    """Only reading is offered."""
    served = client(table_release)
    for method in ("post", "put", "delete", "patch"):
        assert getattr(served, method)("/sample").status_code == 405
