"""Devices: a command that starts a Python with LiteRT elsewhere, and jfuse's worker sent through its standard input.

Nothing is installed there. Python reads one line interactively, which holds the worker's sources, and answers with a
line that says what the device is. From then on both ends speak `Messages` over the standard streams.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import shlex
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError, shown

SOURCES = Path(__file__).parent.with_name("litert_worker")
_INTERACTIVE = "-qiu"  # else Python reads its standard input to the end before it runs a line of it
_MODULES = ("messages", "tallies")  # in the order in which they import each other
_NAMED = 200  # characters of what a device says of itself
_SHELL = re.compile(r"-[a-z]*c")
_START = """
import importlib, json, os, platform, sys, types
def about():
    def read(path):
        try:
            with open(path, errors="replace") as file:
                return file.read()
        except OSError:
            return ""
    def version(name):
        try:
            from importlib.metadata import version
            return version(name)
        except Exception:
            return "of an unknown version"
    lines = [line.partition(":") for line in read("/proc/cpuinfo").splitlines()]
    known = {name.strip(): value.strip() for name, _, value in lines}
    processor = read("/proc/device-tree/model").strip("\\0\\n") or known.get("model name") or known.get("Hardware")
    return {
        "name": platform.node(), "machine": platform.machine(), "system": platform.platform(),
        "processor": processor or platform.processor(), "python": platform.python_version(),
        "litert": version("ai-edge-litert"), "numpy": version("numpy"),
    }
def load(name):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(sources[name], name + ".py of jfuse", "exec"), module.__dict__)
    return module
try:
    if sys.version_info < (3, 10):
        raise ImportError("Python is " + platform.python_version() + ", and LiteRT's needs 3.10")
    for name in sources:
        main = load(name)
    said = about()
except BaseException as error:
    said = {"error": type(error).__name__ + ": " + str(error), "missing": getattr(error, "name", None) or ""}
os.write(1, (marker + json.dumps(said) + "\\n").encode())
if "error" in said:
    os._exit(1)
main.there(runtime)
"""


@dataclass(frozen=True)
class Device:
    """A command that starts a Python elsewhere, which has ai-edge-litert.   command: as a shell reads it"""

    command: str

    def __post_init__(self) -> None:
        if not isinstance(self.command, str) or not self.command.strip():
            raise JfuseError("device= is a command that starts a Python", found=shown(self.command), remedy=_REMEDY)
        self.words()

    def words(self) -> list[str]:
        """The words of the command with the option that lets Python read line by line.

        Where the last word is itself a command, as that of `sh -c`, the option goes to its end.
        """
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise JfuseError(f"no shell reads the device's command {self.command!r}", found=str(error)) from error
        is_command = len(words) > 1 and (
            _SHELL.fullmatch(words[-2]) is not None or (" " in words[-1] and not Path(words[-1]).exists())
        )
        return [*words[:-1], f"{words[-1]} {_INTERACTIVE}"] if is_command else [*words, _INTERACTIVE]

    def failed(self, runtime: str, found: str, remedy: str = "") -> JfuseError:
        """The error of a device on which a runtime does not start."""
        message = f"{runtime} does not start on the device {self.command!r}"
        return JfuseError(message, expected=_EXPECTED, found=found, remedy=remedy or _REMEDY)


_EXPECTED = "a Python with ai-edge-litert"
_REMEDY = (
    'a command that ends with a Python 3.10 or later that has ai-edge-litert, as device="ssh pi@host python3": jfuse '
    f"adds {_INTERACTIVE} to it, and speaks through its standard streams"
)


@dataclass(frozen=True)
class AboutDevice:
    """A device's description of itself.   versions: of Python and the packages that matter"""

    name: str
    processor: str
    machine: str
    system: str
    versions: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        parts = dict.fromkeys(filter(None, (self.processor, self.machine, self.system)))
        return f"{self.name} ({', '.join(parts)}; {versions})"


class FirstLine:
    """The line that starts the worker, and the line in which it answers."""

    def __init__(self, runtime: str) -> None:
        marker = secrets.token_hex(8)
        names = (*_MODULES, runtime, "__main__")
        sources = {name: (SOURCES / f"{name}.py").read_text(encoding="utf-8") for name in names}
        sources["jfuse_worker"] = sources.pop("__main__")  # under the name `__main__` it would begin by itself
        text = f"marker, runtime, sources = {marker!r}, {runtime!r}, {sources!r}\n{_START}"
        packed = base64.b64encode(zlib.compress(text.encode())).decode()
        self.line = f"exec(__import__('zlib').decompress(__import__('base64').b64decode('{packed}')))\n".encode()
        self._marker = marker.encode()

    def answer(self, said: bytes | bytearray) -> Mapping[str, Any] | None:
        """Find a device's answer in all that it printed; None before its line has come."""
        line, end, _ = said.partition(self._marker)[2].partition(b"\n")
        if not end:
            return None
        decoded = json.loads(line)
        return decoded if isinstance(decoded, dict) else {"error": "another answer"}


def as_line(*texts: str) -> str:
    """Texts of a device in one line, without what would change a terminal."""
    return "".join(c for c in " ".join(" ".join(texts).split()) if c.isprintable())


def about(device: Device, runtime: str, answer: Mapping[str, Any]) -> AboutDevice:
    """Read the device's description from its answer. Raises JfuseError where the runtime's worker does not start."""
    said = {str(key): as_line(str(value))[:_NAMED] for key, value in answer.items()}
    if "error" in said:
        missing = said.get("missing", "")
        remedy = ""
        if missing.startswith("ai_edge_litert."):
            remedy = "a later ai-edge-litert on the device: pip install -U ai-edge-litert"
        elif missing:
            remedy = "install it on the device: pip install ai-edge-litert"
        raise device.failed(runtime, said["error"], remedy)
    versions = {"ai-edge-litert": said["litert"], "Python": said["python"], "NumPy": said["numpy"]}
    return AboutDevice(said["name"] or "a device", said["processor"], said["machine"], said["system"], versions)
