"""Failures of many rows in one test: every row runs, and one assertion at the end names those that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Failures:
    """What failed so far, by name."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Keep an error of the block under this name; the test goes on behind the block."""
        try:
            yield
        except Exception as error:  # whatever a row runs into belongs in the list
            self.messages.append(f"{name}: {type(error).__name__}: {error}")

    def check(self) -> None:
        """Fail with every name and its error."""
        assert not self.messages, f"{len(self.messages)} failed:\n\n" + "\n\n".join(self.messages)
