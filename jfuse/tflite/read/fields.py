"""Fields of a file's tables as Python values, checked: indices, vectors of numbers, texts, options."""

from __future__ import annotations

from typing import Any

from jfuse.base.errors import BadFlatbuffer
from jfuse.tflite.schema import new_options


def checked_index(value: int, count: int, what: str, where: str | None = None) -> int:
    """The index, which must be one of so many."""
    if not 0 <= value < count:
        raise BadFlatbuffer(f"there is no such {what}", where=where, expected=f"below {count}", found=value)
    return int(value)


def integers(vector: Any) -> tuple[int, ...]:
    """The items of a vector; () for one that is absent."""
    return () if vector is None else tuple(vector.tolist()) if hasattr(vector, "tolist") else tuple(map(int, vector))


def floats(vector: Any) -> tuple[float, ...]:
    """The items of a vector; () for one that is absent."""
    return () if vector is None else tuple(float(v) for v in vector)


def text(value: Any, where: str | None = None) -> str:
    """A string; "" for one that is absent."""
    try:
        return value.decode() if isinstance(value, bytes) else value or ""
    except UnicodeDecodeError as error:
        raise BadFlatbuffer("a name is not UTF-8", where=where, found=value) from error


def options_of(builtin: str, operator: Any) -> Any:
    """The operator's option table; raises BadFlatbuffer where it is another op's."""
    union, number, _ = new_options(builtin)
    fields = (
        (operator.builtinOptionsType, operator.builtinOptions),
        (operator.builtinOptions2Type, operator.builtinOptions2),
    )
    (union_number, table), (other, _) = fields if union == 1 else reversed(fields)
    if union_number not in (0, number) or other != 0:
        raise BadFlatbuffer("an operator has the options of another op", expected=number, found=(union_number, other))
    return table
