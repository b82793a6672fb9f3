"""The registry of readers of StableHLO's operators: a function of the operator and its operands for each name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

DIRECT = "convert the jax function itself: jfuse.convert(function, specs)"
"""The remedy for StableHLO that cannot be read."""


class ModuleReader(Protocol):
    """Methods of the module reader that rules use."""

    def region(self, region: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of an operator's region, within the values around it."""

    def call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function of the module."""

    def value(self, value: Any) -> Any:
        """Result of an earlier operator."""

    def on_numbers(self, region: Any, numbers: Sequence[Any]) -> list[Any]:
        """The results of a region for numbers, computed now."""


Read = Callable[..., Any]
READERS: dict[str, Read] = {}


def reads(*names: str) -> Callable[[Read], Read]:
    """Registers the reader of operators of these names: (reader, operator, *operands) -> a result or a list of them."""

    def register(function: Read) -> Read:
        for name in names:
            assert name not in READERS, f"two functions read {name}"
            READERS[name] = function
        return function

    return register
