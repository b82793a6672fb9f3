"""One headless Chromium for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reports.browser import NAMES, Browser, chromium, started


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser; skips where the machine has none."""
    executable = chromium()
    if executable is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on PATH")
    with started(executable, tmp_path_factory.mktemp("profile")) as found:
        yield found
