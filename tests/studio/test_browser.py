"""Whole journeys in a real browser, from the records to the release: a messy table with persons, digits, codes, and
a table by keyboard alone.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

import chromium
from understudy.studio.app import studio_app
from understudy.studio.desk import Desk

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium.executable() is None, reason="no Chromium on this machine: install it to run this"
    ),
]

LABELS = """[...document.querySelectorAll('input:not([type=hidden]),select,textarea')]
  .filter(one => !one.labels.length && !one.getAttribute('aria-label')).map(one => one.name)"""

CONTRAST = """(() => {
  const rgb = text => { const p = text.match(/[\\d.]+/g).map(Number); return p.length < 4 ? [...p, 1] : p; };
  const line = x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = c => { const v = c.slice(0, 3).map(x => line(x / 255));
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const ground = one => { for (let at = one; at; at = at.parentElement) {
    const c = rgb(getComputedStyle(at).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  const low = [];
  for (const one of document.querySelectorAll('main *, header *, nav *')) {
    const own = [...one.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const box = one.getBoundingClientRect();
    if (!own || !box.width || one.closest('svg,[disabled],.skip,.sr')) continue;
    const a = light(rgb(getComputedStyle(one).color)), b = light(ground(one));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(one.tagName + ' ' + one.textContent.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return low; })()"""

FILL = """(() => {
  const facts = %s;
  for (const column of document.querySelectorAll('[data-column]')) {
    const name = column.querySelector('h2').textContent;
    const use = column.querySelector('[id$="-use"]');
    if (!(name in facts)) { use.checked = false; continue; }
    for (const box of column.querySelectorAll('[id$="-confirmed"]')) box.checked = true;
    const kind = column.querySelector('[data-kind]');
    kind.value = facts[name].kind;
    kind.dispatchEvent(new Event('change'));
    const fields = column.querySelector('[data-for="' + facts[name].kind + '"]');
    for (const [key, value] of Object.entries(facts[name].fields))
      fields.querySelector('[name$="-' + key + '"]').value = value;
    if (facts[name].missing) column.querySelector('[id$="-missing"]').checked = true;
  }
  document.getElementById('spelling-confirmed').checked = true;
  document.getElementById('label').value = 'outcome';
  document.getElementById('person').value = 'patient';
  document.getElementById('max_rows_per_person').value = '3';
  document.querySelector('#facts-form button[type=submit]').click();
})()"""


@dataclass(frozen=True)
class Served:
    """A studio that is really served.

    Args:
        desk: what it holds.
        home: its address.
        start: the address that lets a browser in once.
    """

    desk: Desk
    home: str
    start: str

    def page(self, journey: str, page: str) -> str:
        return f"{self.home}/journey/{journey}/{page}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A studio on a folder with a messy table of several rows per patient, and events with codes."""
    messy(tmp_path / "visits.csv", 900, 0)
    messy(tmp_path / "later.csv", 300, 5000)
    events = [f"{k // 4},2020-01-0{1 + k % 9},C{(k * k) % 7}" for k in range(1200)]
    (tmp_path / "events.csv").write_text(
        "\n".join(["subject_id,time,code", *events]) + "\n", encoding="utf-8"
    )
    app, desk, token = studio_app(tmp_path)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    home = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield Served(desk, home, f"{home}/enter?token={token}")
    desk.jobs.close()
    server.should_exit = True
    thread.join(30)


def messy(path: Path, rows: int, first: int) -> None:
    lines = ["patient;age;ward;length;outcome"]
    for k in range(rows):
        age = "?" if k % 50 == 0 else str(20 + (7 * k) % 60)
        number = f"{(k % 13) / 2:.1f}".replace(".", ",")
        lines.append(f"p{first + k // 3};{age};{'abc'[k % 3]};{number};{'yes' if k % 4 else 'no'}")
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[chromium.Browser]:
    """A browser that, as is seen in the end, asked nobody but this machine."""
    with chromium.Browser(tmp_path / "profile") as opened:
        opened.screen(1280)
        yield opened
        assert opened.asked_for <= {"127.0.0.1", ""}, opened.asked_for


def checked(browser: chromium.Browser, served: Served, journey: str, width: int, *, dark: bool) -> None:
    """Nothing errs, overflows, is too faint or lacks a label on any page of a journey."""
    addresses = [served.page(journey, one) for one in ("data", "facts", "budget", "run", "look", "release")]
    for address in (*addresses, f"{served.home}/ledger", served.home):
        seen = browser.look(address, width, dark=dark)
        assert seen.problems == (), address
        assert seen.scroll_width <= width, address
        assert seen.broken_images == seen.empty_charts == 0, address
        assert browser.value(LABELS) == [], address
        assert browser.value(CONTRAST) == [], (address, dark)


def released(browser: chromium.Browser) -> None:
    """Spend, and wait for the release."""
    browser.press("document.querySelector('#job form button[type=submit]').click()")
    browser.until("document.body.innerText.includes('Released')", 600)


@pytest.mark.timeout(900)
def test_a_messy_table_becomes_a_release(browser: chromium.Browser, served: Served) -> None:
    """A curator who never saw a terminal gets from a file to a judged release, and nothing typed is lost on the way."""
    browser.go(served.start)
    browser.until("document.querySelector('[data-path=\"visits.csv\"]') !== null")
    browser.press(
        "document.querySelector('[data-path=\"visits.csv\"]').click();"
        "document.querySelector('main form button[type=submit]').click()"
    )
    browser.until("location.pathname.startsWith('/journey/visits')")
    browser.go(served.page("visits", "facts"))
    facts = {
        "age": {"kind": "integer", "fields": {"lower": "none", "upper": "120"}, "missing": True},
        "ward": {"kind": "categorical", "fields": {"categories": "a\nb\nc"}},
        "length": {"kind": "continuous", "fields": {"lower": "0", "upper": "50", "decimals": "1"}},
        "outcome": {"kind": "binary", "fields": {"values": "no\nyes"}},
    }
    browser.until("document.querySelector('[data-column]') !== null && document.readyState === 'complete'")
    browser.value(FILL % json.dumps(facts))
    browser.until("document.querySelector('.refused') !== null")
    assert "must be a number" in browser.value("document.querySelector('.refused').textContent")
    facts["age"]["fields"] = {"lower": "0", "upper": "120"}
    browser.press(FILL % json.dumps(facts))
    assert browser.value("location.pathname") == "/journey/visits/budget", browser.value(
        "document.body.innerText"
    )
    browser.value(
        "document.getElementById('rows').value = '300'; document.getElementById('delta').value = '1e-4';"
        "document.getElementById('steps').value = '60'; document.getElementById('epsilon').value = '3';"
        "document.getElementById('epsilon').dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.until("document.querySelector('#plan svg') !== null")
    plan = browser.value("document.getElementById('plan').innerText")
    assert all(word in plan for word in ("patient", "σ = ", "per class", "of the 3 that the data set"))
    browser.until("document.getElementById('time').textContent.includes('about')")
    browser.press("document.querySelector('#budget-form button[type=submit]').click()")
    released(browser)
    browser.go(served.page("visits", "look"))
    for name, kind, columns, limit in (
        ("wards", "cross-tab", "ward, outcome", "0.9"),
        ("ages", "means", "age, ward", "0.000001"),
    ):
        browser.press(
            f"document.getElementById('criterion').value = '{name}';"
            f"document.getElementById('criterion-kind').value = '{kind}';"
            f"document.getElementById('columns').value = '{columns}';"
            f"document.getElementById('limit').value = '{limit}';"
            "document.querySelector('#criteria details button').click()"
        )
    browser.press(
        "document.getElementById('test').value = 'later.csv'; document.querySelector('#job form button').click()"
    )
    browser.until("document.getElementById('measured') !== null", 300)
    assert "Good enough for wards, not for ages." in browser.value("document.body.innerText")
    checked(browser, served, "visits", 1280, dark=False)
    checked(browser, served, "visits", 400, dark=True)
    card = (served.desk.workspace.release("visits") / "card.json").read_text(encoding="utf-8")
    assert "p17" not in card


@pytest.mark.timeout(900)
def test_a_table_by_keyboard_alone(browser: chromium.Browser, served: Served) -> None:
    """Tab, Enter, Space and arrows suffice for a whole journey, and the focus can be seen everywhere on it."""
    browser.go(served.start)
    browser.tab_to("#kind-file")
    browser.keys("ArrowDown", "ArrowDown")
    browser.tab_to("#known")
    browser.keys("b", "r")
    assert browser.value("document.getElementById('known').value") == "breast-cancer"
    browser.tab_to("#name")
    browser.write("cancer")
    browser.follow("Enter")
    for link in ("/facts", "/budget"):
        browser.tab_to(f"main a[href$='{link}']")
        browser.follow("Enter")
    for field, text in (("epsilon", "3"), ("delta", "1e-4"), ("rows", "400"), ("steps", "60")):
        browser.tab_to(f"#{field}")
        browser.write(text)
    browser.follow("Enter")
    assert browser.value("location.pathname") == "/journey/cancer/run", browser.value(
        "document.body.innerText"
    )
    browser.tab_to("main button[type=submit]")
    browser.follow("Space")
    browser.until("document.body.innerText.includes('Released')", 600)
    browser.tab_to("main a[href$='/look']")
    browser.follow("Enter")
    browser.tab_to("main a[href$='/release']")
    browser.follow("Enter")
    assert "What is promised" in browser.value("document.body.innerText")
    browser.tab_to("form.ask button")
    checked(browser, served, "cancer", 400, dark=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_digits_become_a_release(browser: chromium.Browser, served: Served) -> None:
    """Images are shown as pictures, at any width and in the dark."""
    browser.go(served.start)
    browser.press(
        "document.getElementById('kind-known').click(); document.getElementById('known').value = 'digits';"
        "document.getElementById('name').value = 'digits';"
        "document.querySelector('main form button[type=submit]').click()"
    )
    browser.go(served.page("digits", "budget"))
    browser.press(
        "document.getElementById('epsilon').value = '3'; document.getElementById('rows').value = '1400';"
        "document.getElementById('steps').value = '3';"
        "document.querySelector('#budget-form button[type=submit]').click()"
    )
    released(browser)
    checked(browser, served, "digits", 400, dark=True)
    browser.look(served.page("digits", "look"), 1280)
    assert browser.value("document.querySelector('img.sheet').naturalWidth") > 0


@pytest.mark.timeout(900)
def test_codes_become_a_release(browser: chromium.Browser, served: Served) -> None:
    """Events with codes need nothing but the list of codes."""
    browser.go(served.start)
    browser.press(
        "document.querySelector('[data-path=\"events.csv\"]').click();"
        "document.querySelector('main form button[type=submit]').click()"
    )
    browser.go(served.page("events", "facts"))
    codes = "\\n".join(f"C{k}" for k in range(10))
    browser.press(
        f"document.getElementById('codes').value = '{codes}';"
        "document.querySelector('#facts-form button[type=submit]').click()"
    )
    browser.press(
        "document.getElementById('epsilon').value = '3'; document.getElementById('delta').value = '1e-4';"
        "document.getElementById('rows').value = '300'; document.getElementById('steps').value = '60';"
        "document.querySelector('#budget-form button[type=submit]').click()"
    )
    released(browser)
    checked(browser, served, "events", 1280, dark=True)
    assert "C1" in browser.look(served.page("events", "look"), 400).text
