"""What attacks share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def python_interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt: what runs tests side by side may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
