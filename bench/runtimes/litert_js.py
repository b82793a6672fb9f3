"""Files in LiteRT.js: the page of examples/browser in a headless Chromium, which gets files and arrays.

npm ci --prefix examples/browser        # installs LiteRT.js; Chromium must be on PATH
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import numpy as np

from jfuse.base.errors import JfuseError
from tests.browser import NAMES, Browser, chromium

PAGE = Path(__file__).parents[2] / "examples" / "browser"
_PACKAGE = PAGE / "node_modules" / "@litertjs" / "core" / "package.json"


def version() -> str:
    """That of the installed package; empty where there is none."""
    return str(json.loads(_PACKAGE.read_text())["version"]) if _PACKAGE.is_file() else ""


def why_missing() -> str:
    """Why no file can run in the browser here; empty where it can."""
    if chromium() is None:
        return f"no Chromium: none of {', '.join(NAMES)} is on PATH"
    return "" if version() else "no LiteRT.js: npm ci --prefix examples/browser"


class LiteRtJs:
    """The page in a tab, over a server of its own."""

    def __init__(self, browser: Browser) -> None:
        self._file = b""
        self._number = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._tab = browser.open(f"http://127.0.0.1:{self._server.server_port}/index.html", logs=True)

    def served(self) -> bytes:
        """The file that the page asks for."""
        return self._file

    def load(self, data: bytes) -> None:
        """Load a file. Raises JfuseError where LiteRT.js refuses it."""
        self._file = data
        self._number += 1
        self._asked(f"window.loaded = await load('/model.tflite?{self._number}')")

    def call(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of one call by name, flat; states that are inputs and outputs go on from call to call."""
        given = json.dumps({name: np.ravel(array).tolist() for name, array in inputs.items()})
        made = "{ kind: y.constructor.name.slice(0, -5).toLowerCase(), values: [...y] }"
        answer = self._asked(
            f"const found = Object.entries(await loaded.call({given}));"
            f"return Object.fromEntries(found.map(([name, y]) => [name, {made}]))"
        )
        return {name: np.array(y["values"], _DTYPES.get(y["kind"], y["kind"])) for name, y in answer.items()}

    def show(self) -> None:
        """Let the page show its answers to random inputs."""
        self._asked(f"await show('/model.tflite?{self._number}')")

    def text(self, selector: str) -> str:
        """The text of an element of the page."""
        (text,) = self._tab.texts(selector)
        return text

    def _asked(self, script: str) -> Any:
        """Run the body of an asynchronous function in the page, and give its result."""
        told = self._tab.value(
            f"(async () => {{ {script} }})().then((value) => ({{ value }}), (error) => ({{ error: String(error) }}))"
        )
        if "error" in told:
            raise JfuseError("LiteRT.js does not run the file", found=str(told["error"]))
        return told.get("value")

    def close(self) -> None:
        """Close the tab, and end the server."""
        self._tab.close()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_DTYPES = {"float32": np.float32, "int32": np.int32, "uint8": np.uint8}


class _Handler(SimpleHTTPRequestHandler):
    """Serves the folder of the page, and the file under the name model.tflite."""

    def __init__(self, of: LiteRtJs, *arguments: Any) -> None:
        self._of = of
        super().__init__(*arguments, directory=os.fspath(PAGE))

    def do_GET(self) -> None:
        """Answer a request."""
        if not self.path.startswith("/model.tflite"):
            return super().do_GET()
        data = self._of.served()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""
