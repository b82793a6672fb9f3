"""Numbers and names that users give: a wrong one is an error that names its option, before anything is computed."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError, shown

LARGEST = 2**63 - 1
"""The largest count or size that system calls take."""
LARGEST_SIZE = 2**31 - 1
"""Of a dimension, and of anything else that a file states in 32 bits."""


def whole(name: str, value: object, least: int = 0, most: int = LARGEST) -> int:
    """The value of an option as an int; raises JfuseError for anything but a whole number from `least` to `most`.

    Numbers of NumPy are taken, truth values and texts are not.
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most:
        return int(value)
    wanted = f"a whole number from {least:,}" + ("" if most == LARGEST else f" to {most:,}")
    raise JfuseError(f"{name} takes another number", expected=wanted, found=shown(value))


def real(name: str, value: object, *, positive: bool = False, most: float = sys.float_info.max) -> float:
    """The value of an option as a float; raises JfuseError for anything but a number from 0 to `most`.

    positive: 0 is none of them.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        number = _as_float(value)
        if 0 <= number <= most and (number or not positive):
            return number
    kind = "a number" if math.isinf(most) else "a finite number"
    wanted = f"{kind} {'above' if positive else 'from'} 0" + (f" to {most:g}" if most < sys.float_info.max else "")
    raise JfuseError(f"{name} takes another number", expected=wanted, found=shown(value))


def names_of(option: str, value: object) -> tuple[str, ...] | None:
    """The names in an option, None for none; raises JfuseError for one name alone, and for anything else."""
    if value is None:
        return None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        found = tuple(value)
        if all(isinstance(name, str) for name in found):
            return found
    remedy = f"[{value!r}]" if isinstance(value, str) else None
    raise JfuseError(f"{option} takes a sequence of names", found=shown(value), remedy=remedy)


def need_truth(option: str, value: object) -> None:
    """Raise JfuseError for anything but True and False: the text "no" would count as True."""
    of_numpy = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    if not isinstance(value, bool) and not of_numpy:  # importing NumPy would slow the command line's help down
        raise JfuseError(f"{option} is True or False", found=shown(value))


def need_function(option: str, value: object) -> None:
    """Raise JfuseError unless the value can be called."""
    if not callable(value):
        raise JfuseError(f"{option} takes a function", found=shown(value))


def need_mapping(option: str, value: object, expected: str) -> None:
    """Raise JfuseError for anything but a mapping.   expected: an example, for the message"""
    if not isinstance(value, Mapping):
        raise JfuseError(f"{option} takes a mapping", expected=expected, found=shown(value))


def several(option: str, value: object, of: str) -> tuple[Any, ...]:
    """The values of an option that takes several; raises JfuseError if it is not iterable."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(value)
    raise JfuseError(f"{option} takes several {of}", expected=f"a sequence of {of}", found=shown(value))


def path_of(option: str, value: object) -> Path:
    """The path in an option; raises JfuseError for other types.   option: its name in the message"""
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise JfuseError(f"{option} is no path", found=shown(value))


def _as_float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
