"""What all tests share: quiet libraries, two CPU devices, golden texts, one browser."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.browser import NAMES, Browser, chromium, started
from tests.memory import Keeper, share_contexts, without_collection

# TensorFlow and jax read these when they start, so they stand before any import of them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# TensorFlow turns oneDNN on where the processor has AVX-512. Its SOFTMAX refuses more than 5 axes, and its convolutions
# and batch norms give other shapes for empty batches: the oracle must be the same on every machine.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
# Two devices, so that sharding over devices is tested without a GPU. Code is made in one piece: dividing it among
# threads costs a third of the time of compiling, and there are as many workers as cores.
_FLAGS = ("--xla_force_host_platform_device_count=2", "--xla_cpu_parallel_codegen_split_count=1")
# Programs of the tests run once or twice, and half of the time of many tests would go into optimizing them. With
# --optimized they are compiled as users' are: CI runs the kernels and the verification so.
_HASTY_FLAGS = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):  # a flag that later versions do not know ends the process
    _HASTY_FLAGS.append("--xla_cpu_use_fusion_emitters=false")

# Where Python is told to write no bytecode, each of the many processes that the tests start would compile all of jfuse,
# and each worker would rewrite the assertions of all tests again. The folders are those that git ignores.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@dataclass(frozen=True)
class Golden:
    """The expected text of one test, in the folder `golden` beside it."""

    path: Path
    update: bool

    def check(self, value: object) -> None:
        """Compare `str(value)` with the file; with --update-golden write it."""
        text = f"{value}".rstrip("\n") + "\n"
        if self.update:
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(text, encoding="utf-8")
        if not self.path.exists():
            pytest.fail(f"no golden text {self.path}; write it with: pytest --update-golden")
        assert text == self.path.read_text(encoding="utf-8")


_KEEPER = Keeper()
_PEAKS: list[tuple[int, str]] = []
"""The most memory of each worker, in bytes, and the test that took it."""


def pytest_configure(config: pytest.Config) -> None:
    """Tell XLA how to compile, before it starts."""
    hasty = () if config.getoption("--optimized") else _HASTY_FLAGS
    os.environ["XLA_FLAGS"] = " ".join([*_FLAGS, *hasty, os.environ.get("XLA_FLAGS", "")]).strip()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A third of the time of collecting would go into searches for garbage."""
    with without_collection():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Large tests first, the others in their order."""
    items.sort(key=lambda item: item.get_closest_marker("large") is None)
    share_contexts()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Two workers run the suite side by side: each stays under 2 GB."""
    yield
    _KEEPER.free(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # of a worker of pytest-xdist
    if output is None:
        _PEAKS.append(_KEEPER.most)
    else:
        output["most"] = _KEEPER.most


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _PEAKS.append(getattr(node, "workeroutput", {}).get("most", (0, "no test")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    size, test = max(_PEAKS, default=(0, "no test"))
    terminalreporter.write_line(f"largest worker: {size // 10**6} MB, at {test}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing them")
    parser.addoption("--optimized", action="store_true", help="compile XLA's programs as those of users are")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The test's golden text: test_gelu[f32] has golden/gelu-f32.txt."""
    name = re.sub(r"[^\w.=,]+", "-", request.node.name.removeprefix("test_")).strip("-")
    return Golden(request.path.parent / "golden" / f"{name}.txt", request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One headless Chromium for all tests of pages; skips where the machine has none."""
    executable = chromium()
    if executable is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on PATH")
    with started(executable, tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome
