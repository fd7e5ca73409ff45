"""A few lines of the DevTools protocol over a pipe, so that tests can look at pages in a real browser."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_PATIENCE = 120
"""Seconds without a word from Chromium after which a test gives up."""

_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " "), "ArrowDown": (40, "")}
"""Virtual key codes, and what a key writes."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def executable() -> str | None:
    """Where Chromium is, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@dataclass(frozen=True)
class Look:
    """What a page looked like at one width."""

    scroll_width: int
    charts: int
    empty_charts: int
    images: int
    broken_images: int
    problems: tuple[str, ...]
    text: str


@dataclass
class Browser:
    """A headless Chromium that is closed with the `with` block."""

    profile: Path
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _events: list[dict[str, Any]] = field(default_factory=list)
    asked_for: set[str] = field(default_factory=set)
    """Hosts that pages asked for something since the browser was opened."""

    def __enter__(self) -> Browser:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [
            str(executable()),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.profile}",
        ]

        def wire() -> None:
            # Chromium reads commands from descriptor 3 and answers on 4; first move ours out of the way.
            source, sink = (fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in (to_browser, from_browser))
            os.dup2(source, 3)
            os.dup2(sink, 4)

        self._process = subprocess.Popen(
            command,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,  # noqa: PLW1509 - no threads are running here
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self._ask("Page.setLifecycleEventsEnabled", enabled=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._write)
        os.close(self._read)

    _session: str | None = None

    def look(self, page: Path | str, width: int, *, dark: bool = False, picture: Path | None = None) -> Look:
        """Open the page at a width and report what is seen."""
        self.screen(width, dark=dark)
        self.go(page if isinstance(page, str) else page.as_uri())
        return self.seen(width, picture)

    def screen(self, width: int, *, dark: bool = False) -> None:
        """Choose width and colours of the pages to come."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=scheme)

    def go(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self._events.clear()
        opened = self._ask("Page.navigate", url=address)
        self._frame = opened["frameId"]
        while opened["loaderId"] not in self._loads():
            self._events.append(self._receive())
        self._loader = opened["loaderId"]

    def loaded(self) -> None:
        """Wait for another page than the last one to be loaded."""
        while not (others := [one for one in self._loads() if one != self._loader]):
            self._events.append(self._receive())
        self._loader = others[-1]

    def _loads(self) -> list[str]:
        """Which pages said that they are loaded; not those in frames of a page."""
        told = [one["params"] for one in self._events if one["method"] == "Page.lifecycleEvent"]
        return [one["loaderId"] for one in told if one["name"] == "load" and one["frameId"] == self._frame]

    def press(self, script: str) -> None:
        """Do something in the page that leads to another page, and wait for that."""
        self._events.clear()
        self._ask("Runtime.evaluate", expression=script, userGesture=True)
        self.loaded()

    def until(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true in the page, which may be loaded again meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.value(expression):
                    return
            except RuntimeError:  # the page is being replaced
                pass
            time.sleep(0.2)
        shown = self.value("location.href + ' ' + document.body.innerText")
        raise TimeoutError(f"{expression} is not true of {shown[:1000]}")

    def seen(self, width: int, picture: Path | None = None) -> Look:
        """What the page looks like now."""
        seen = self.value(
            """(() => ({
              scroll: document.documentElement.scrollWidth,
              charts: document.querySelectorAll('svg.chart').length,
              empty: [...document.querySelectorAll('svg.chart')].filter(s => s.getBoundingClientRect().height < 20
                || !s.querySelector('title').textContent).length,
              images: document.images.length,
              broken: [...document.images].filter(i => !i.naturalWidth || !i.alt).length,
              height: document.documentElement.scrollHeight,
              text: document.body.innerText}))()"""
        )
        if picture is not None:
            self._picture(picture, width, seen["height"])
        return Look(
            seen["scroll"],
            seen["charts"],
            seen["empty"],
            seen["images"],
            seen["broken"],
            self._problems(),
            seen["text"],
        )

    def _problems(self) -> tuple[str, ...]:
        found = []
        for event in self._events:
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in (
                "error",
                "warning",
            ):
                found.append(event["params"]["entry"]["text"])
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(json.dumps(event["params"])[:200])
        return tuple(found)

    def _picture(self, path: Path, width: int, height: int) -> None:
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def keys(self, *names: str) -> None:
        """Press keys one after another: Tab, Enter, Space, ArrowDown, or a letter."""
        for name in names:
            code, text = _KEYS.get(name, (0, name))
            key = " " if name == "Space" else name
            event = {"key": key, "code": name, "windowsVirtualKeyCode": code or ord(name.upper())}
            self._ask("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self._ask("Input.dispatchKeyEvent", type="keyUp", **event)

    def tab_to(self, selector: str) -> None:
        """Press Tab until something has the focus, which must be visible there."""
        for _ in range(200):
            self.keys("Tab")
            if self.value(f"document.activeElement.matches({json.dumps(selector)})"):
                assert self.value("getComputedStyle(document.activeElement).outlineStyle") != "none", selector
                return
        raise AssertionError(f"no Tab reaches {selector}")

    def write(self, text: str) -> None:
        """Replace what stands in the focused field, as by typing."""
        self._ask("Runtime.evaluate", expression="document.activeElement.select()")
        self._ask("Input.insertText", text=text)

    def follow(self, *names: str) -> None:
        """Press keys that lead to another page, and wait for that."""
        self._events.clear()
        self.keys(*names)
        self.loaded()

    def value(self, expression: str) -> Any:
        return self._ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self._events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], _PATIENCE)[0]:
                raise TimeoutError("Chromium says nothing")
            part = os.read(self._read, 1 << 16)
            if not part:
                raise RuntimeError("Chromium closed the pipe")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "Network.requestWillBeSent":
            self.asked_for.add(urlsplit(message["params"]["request"]["url"]).hostname or "")
        return message
