"""The report: what it says, what a public page leaves out, and that it needs nothing from outside."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from tiny import tiny_frame
from understudy.evaluation import Learner, evaluate
from understudy.planning import plan
from understudy.privacy.attacks import true_positive_rate
from understudy.release.readme import model_card
from understudy.reporting import Format, report
from understudy.reporting.render import _code_list
from understudy.run.fit import fit
from understudy.schema import Continuous, Datetime, TableSchema, TimeUnit

if TYPE_CHECKING:
    from understudy.evaluation import Evaluation
    from understudy.release.release import Release

SECRETS = ("0.123456789", "0.123", "secret measure")


class Outside(HTMLParser):
    """Collects every reference to something outside the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Scripts, and links or sources that are neither anchors nor data."""
        if tag in ("script", "iframe", "object", "embed"):
            self.found.append(tag)
        for name, value in attrs:
            inside = (value or "").startswith(("#", "data:"))
            if (name in ("src", "href", "srcset", "action") and not inside) or name.startswith("on"):
                self.found.append(f"{tag} {name}={value}")


@pytest.mark.parametrize("kind", ["table_release", "image_release", "code_release"])
@pytest.mark.parametrize("public", [False, True])
def test_pages_are_self_contained(
    kind: str, public: bool, whole_evaluation: Evaluation, audit_result: Any, request: pytest.FixtureRequest
) -> None:
    """No script, no network reference, no style from elsewhere, for every kind of release."""
    release: Release = request.getfixturevalue(kind)
    page = report(release, evaluation=whole_evaluation, audit=audit_result, public=public)
    outside = Outside()
    outside.feed(page)
    assert outside.found == []
    assert "@import" not in page
    assert not re.search(r"url\((?!data:)", page)
    assert page.count("<h1>") == 1


def test_the_promise_says_what_the_accountant_says(table_release: Release) -> None:
    """ε, δ and the attacker's power in the page are those of the charges."""
    page = report(table_release)
    card = table_release.card
    assert card.plan.spent is not None
    assert f"{card.plan.spent.epsilon:.4f}" in page
    assert "0.001" in page
    power = true_positive_rate(card.plan.charges, 0.01)
    assert f"at most {100 * power:.1f} in 100" in page


@pytest.mark.parametrize(("kind", "unit"), [("table", "row"), ("image", "image"), ("code", "record")])
def test_every_text_names_the_unit_that_is_protected(
    kind: str, unit: str, request: pytest.FixtureRequest
) -> None:
    """Pages and the README of a release promise what holds for a row, not for a person, who may have several."""
    release: Release = request.getfixturevalue(f"{kind}_release")
    for text in (model_card(release.card), *(report(release, format=form) for form in Format)):
        words = " ".join(text.split())
        assert f"any one {unit} " in words
        assert f"What is protected is one {unit}: whoever is in the data with several" in words
        assert "person" not in words


def test_public_pages_leave_out_internal_numbers(
    table_release: Release, whole_evaluation: Evaluation, audit_result: Any
) -> None:
    """No internal value, chart of real rows or neighbour reaches a public page in any format."""
    for form in Format:
        page = report(
            table_release, evaluation=whole_evaluation, audit=audit_result, public=True, format=form
        )
        assert not any(secret in page for secret in SECRETS), form
        assert "validity" in page
        assert "Internal, not for publication" not in page
        assert "a rather long town name" not in page


def test_public_pages_of_neighbouring_rows_are_equal(table_release: Release) -> None:
    """One test row and one training row more change not one character of a public page: nothing counts them."""
    pages = []
    for more in (0, 1):
        found = evaluate(
            table_release,
            tiny_frame(90 + more, seed=1),
            reference=tiny_frame(130 + more, seed=2),
            seeds=(0,),
            learners=(Learner.LOGISTIC_REGRESSION,),
            workers=1,
        )
        pages.append(
            [
                _without_ids(report(table_release, evaluation=found, public=True, format=form))
                for form in Format
            ]
        )
        internal = report(table_release, evaluation=found)
        assert f"{130 + more} synthetic and {90 + more} real test rows" in internal
    assert pages[0] == pages[1]
    assert all("validity" in page for page in pages[0])


def _without_ids(page: str) -> str:
    """The page without the running numbers of its charts, which count all charts of the process."""
    return re.sub(r"\b[td]\d+\b", "", page)


def test_internal_pages_carry_the_banner_and_the_numbers(
    table_release: Release, whole_evaluation: Evaluation
) -> None:
    """Without --public the banner is there, and so is everything that was measured."""
    for form in (Format.HTML, Format.MARKDOWN):
        page = report(table_release, evaluation=whole_evaluation, format=form)
        assert "Internal, not for publication" in page
        assert "secret measure" in page
    plain = json.loads(report(table_release, evaluation=whole_evaluation, format=Format.JSON))
    assert plain["public"] is False
    assert plain["evaluation"]["measures"][6]["value"] == pytest.approx(0.123456789)


def test_a_release_without_guarantee_says_so_first(table_release: Release) -> None:
    """A baseline is announced as not private, with its reason, and makes no promise."""
    card = dataclasses.replace(table_release.card, warnings=("it was trained with a seed.",))
    page = report(dataclasses.replace(table_release, card=card))
    assert "NOT PRIVATE: it was trained with a seed." in page
    assert "no privacy guarantee" in page
    assert "differentially private</span>" not in page
    assert "Attacker's power" not in page


def test_hostile_names_stay_text(table_release: Release, whole_evaluation: Evaluation) -> None:
    """Names from schemas, evaluations and audits cannot become markup."""
    hostile = "<img src=x onerror=alert(1)>"
    bad = dataclasses.replace(
        whole_evaluation,
        measures=(dataclasses.replace(whole_evaluation.measures[0], name=hostile, explanation=hostile),),
        marginals=(
            dataclasses.replace(whole_evaluation.marginals[1], column=hostile, labels=(hostile,) * 30),
        ),
        notes=(hostile,),
    )
    page = report(table_release, evaluation=bad)
    assert hostile not in page
    outside = Outside()
    outside.feed(page)
    assert outside.found == []
    assert "<img src=x" not in report(table_release, evaluation=bad, format=Format.MARKDOWN)


def test_sections_follow_what_is_there(
    image_release: Release, code_release: Release, whole_evaluation: Evaluation, audit_result: Any
) -> None:
    """Pictures for images, code lists for codes, an audit section only with an audit."""
    page = report(image_release, evaluation=whole_evaluation)
    assert page.count("data:image/png") == 2
    assert 'id="audit"' not in page
    codes = report(code_release, audit=audit_result)
    assert "codes of one synthetic record" in codes
    assert 'id="audit"' in codes
    assert "every reading agrees" in codes
    assert "99.99 % confidence" in codes  # never rounded up to certainty
    assert 'id="utility"' not in codes


def test_a_record_with_very_many_codes_does_not_fill_the_page() -> None:
    """A generator that says yes to everything shows a few codes and how many more, not pages of them."""
    named = [f"c{number}" for number in range(100)]
    assert _code_list(named).endswith("c23 … and 76 more")
    assert _code_list(named[:2]) == "c0, c1"
    assert _code_list([]) == "(none)"


def test_examples_show_moments_at_their_resolution() -> None:
    """Days have no hours, missing values are a dash, and large numbers are not rounded to four places."""
    schema = TableSchema(
        (
            Datetime("day", dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
            Datetime("hour", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 9), TimeUnit.HOUR, missing=True),
            Continuous("paid", 10_000.0, 99_999.0, decimals=2),
        )
    )
    rows = pd.DataFrame(
        {"day": ["2024-02-03"] * 60, "hour": ["2024-01-02 05:00", None] * 30, "paid": 54_321.25}
    )
    release = fit(rows, plan(schema, epsilon=5.0, delta=1e-3, rows=60, steps=3))
    page, text = (report(release, format=one) for one in (Format.HTML, Format.MARKDOWN))
    assert re.search(r"<td[^>]*>2024-\d\d-\d\d</td>", page)
    text = text.split("## Synthetic records")[1].split("##")[0]
    assert "00:00:00" not in text
    assert re.search(r"2024-01-\d\d \d\d:00\b", text)
    assert not re.search(r"\| (nan|NaT|None) \|", text)
    assert "| – |" in text
    assert not re.search(r"\d\.\d+e\+", text)


def test_the_page_can_be_made_again(table_release: Release) -> None:
    """The command names recipe, budget and rows, and the same release gives the same records."""
    page = report(table_release, format=Format.JSON)
    assert "--recipe dp-cgan --epsilon 2 --delta 0.001 --rows 64 --steps 3" in json.loads(page)["command"]
    assert page == report(table_release, format=Format.JSON)
