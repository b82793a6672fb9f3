"""A headless Chromium, driven over its DevTools protocol by two pipes: no driver, no port, no network."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --disable-extensions --hide-scrollbars "
    "--force-color-profile=srgb --remote-debugging-pipe"
).split()
_PATIENCE_S = 30
# In a process of its own, as a fork of this one warns wherever jax has started its threads.
_PLACE_PIPES = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for place, pipe in enumerate(pipes, 3):
    os.dup2(pipe, place)
    os.close(pipe)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    """The browser that this machine has, if any."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with an empty profile. Messages are JSON that ends with a zero byte, on file descriptors 3 and 4."""

    def __init__(self, executable: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [executable, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _PLACE_PIPES, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers = itertools.count(1)
        self._pending = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        """The result of one command; what else arrives meanwhile goes to `events`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select([self._read], [], [], _PATIENCE_S)
            data = os.read(self._read, 1 << 16) if ready else b""
            assert data, "the browser says nothing"
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(
        self, page: Path | str, *, width: int = 1440, height: int = 900, dark: bool = False, logs: bool = False
    ) -> Tab:
        """A new tab with a page in it, loaded.   page: a file, or an address; logs: it may print while it loads"""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        tab.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        tab.until("document.readyState === 'complete' && document.body.dataset.ready === 'true'", logs=logs)
        return tab

    def close(self) -> None:
        """End the browser."""
        os.close(self._write)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)


class Tab:
    """One page: what it shows, and what it did."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command to this tab."""
        return self._browser.call(method, self._session, **params)

    def value(self, script: str) -> Any:
        """What an expression gives, as JSON; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, condition: str, *, logs: bool = False) -> None:
        """Wait for an expression to be true.   logs: whether the page may print meanwhile"""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.value(condition):
            assert logs or not self.complaints, self.complaints
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.02)

    def drawn(self) -> None:
        """Wait until the page, whose tab must be the last one opened, has drawn what it was last asked for."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def box(self, element: str) -> tuple[float, float, float, float]:
        """Where the element that a script gives stands in the window: x, y, width, height."""
        x, y, width, height = self.value(
            f"(({{x, y, width, height}}) => [x, y, width, height])(({element}).getBoundingClientRect())"
        )
        return x, y, width, height

    def choose(self, selector: str, value: str) -> None:
        """Choose from a list."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{element}.value = {json.dumps(value)}, {element}.dispatchEvent(new Event('change'))")
        self.drawn()

    def click(self, selector: str) -> None:
        """Click with the mouse on the middle of the first element that matches, scrolled to where it can be seen."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{element}.scrollIntoView({{ block: 'nearest' }})")
        x, y, width, height = self.box(element)
        self.click_at(x + width / 2, y + height / 2)

    def click_at(self, x: float, y: float) -> None:
        """Click with the mouse on a point of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.drawn()

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)
        self.drawn()

    def press(self, key: str, code: int) -> None:
        """Press a key; code: its number in the protocol (Enter is 13)."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)
        self.drawn()

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that match."""
        found: list[str] = self.value(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
        )
        return found

    def screenshot(self, file: Path) -> None:
        """Write what is to be seen as a PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _events(self, *methods: str) -> Iterator[dict[str, Any]]:
        for event in self._browser.events:
            if event.get("sessionId") == self._session and event.get("method") in methods:
                yield event["params"]

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        return [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        """Errors, refusals of the page's policy and console output."""
        return [
            str(event)
            for event in self._events("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        ]

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)


@contextmanager
def started(executable: str, profile: Path) -> Iterator[Browser]:
    """A browser that ends with the block."""
    browser = Browser(executable, profile)
    try:
        yield browser
    finally:
        browser.close()
