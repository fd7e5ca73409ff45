"""The whole journey in a real browser: a messy table with persons, from the file to the release."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import chromium
from understudy.studio.app import studio_app

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
  document.getElementById('label').value = 'outcome';
  document.getElementById('person').value = 'patient';
  document.getElementById('max_rows_per_person').value = '3';
  document.querySelector('#facts-form button[type=submit]').click();
})()"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """A studio that is really served, on a messy table with several rows per patient."""
    lines = ["patient;age;ward;length;outcome"]
    for k in range(900):
        age = "?" if k % 50 == 0 else str(20 + (7 * k) % 60)
        lines.append(
            f"p{k // 3};{age};{'abc'[k % 3]};{(k % 13) / 2:.1f}".replace(".", ",")
            + f";{'yes' if k % 4 else 'no'}"
        )
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="latin-1")
    app, studio, token = studio_app(tmp_path)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/enter?token={token}", studio
    studio.jobs.close()
    server.should_exit = True
    thread.join(30)


@pytest.mark.timeout(900)
def test_a_messy_table_becomes_a_release(address: Any, tmp_path: Path) -> None:
    """A curator who never saw a terminal gets from a file to a release; no page errs, hides a label or is too faint."""
    start, studio = address
    home = start.split("/enter")[0]
    with chromium.Browser(tmp_path / "profile") as browser:
        browser.screen(1280)
        browser.go(start)
        browser.press(
            "document.getElementById('name').value = 'visits';"
            "document.querySelector('[data-path=\"visits.csv\"]').click();"
            "document.querySelector('main form button[type=submit]').click()"
        )
        browser.go(f"{home}/journey/visits/facts")
        facts = {
            "age": {"kind": "integer", "fields": {"lower": "0", "upper": "120"}, "missing": True},
            "ward": {"kind": "categorical", "fields": {"categories": "a\nb\nc"}},
            "length": {"kind": "continuous", "fields": {"lower": "0", "upper": "50", "decimals": "1"}},
            "outcome": {"kind": "binary", "fields": {"values": "no\nyes"}},
        }
        browser.press(FILL % json.dumps(facts))
        assert browser.value("location.pathname") == "/journey/visits/budget", browser.value(
            "document.body.innerText"
        )
        browser.value(
            "document.getElementById('rows').value = '300'; document.getElementById('delta').value = '1e-4';"
            "document.getElementById('epsilon').value = '3';"
            "document.getElementById('epsilon').dispatchEvent(new Event('input', {bubbles: true}))"
        )
        browser.until("document.querySelector('#plan svg') !== null")
        assert "patient" in browser.value("document.getElementById('plan').innerText")
        browser.press("document.querySelector('#budget-form button[type=submit]').click()")
        browser.press("document.querySelector('main form button[type=submit]').click()")
        browser.until("document.body.innerText.includes('Released')", 600)
        for width, dark in ((1280, False), (400, True)):
            for page in ("data", "facts", "budget", "run", "look", "release"):
                seen = browser.look(f"{home}/journey/visits/{page}", width, dark=dark)
                assert seen.problems == (), page
                assert seen.scroll_width <= width, page
                assert seen.broken_images == 0, page
                assert browser.value(LABELS) == [], page
                assert browser.value(CONTRAST) == [], (page, dark)
            seen = browser.look(f"{home}/ledger", width, dark=dark)
            assert seen.problems == ()
            assert "visits" in seen.text
    assert studio.workspace.release("visits").exists()
    card = (studio.workspace.release("visits") / "card.json").read_text(encoding="utf-8")
    assert "p17" not in card
