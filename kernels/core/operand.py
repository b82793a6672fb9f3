"""The annotations of operands in an op's signature: arrays, static values (`Static`), shapes (`ShapeOnly`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Operand, Role

Array: TypeAlias = Any
"""A NumPy array, a jax array or tracer, or a Var: what an op is called with decides what it does."""

Static: TypeAlias = Annotated[Any, "static"]
"""An operand that the body gets by value: an int, or nested tuples of ints and symbolic dimensions."""

ShapeOnly: TypeAlias = Annotated[Any, "shape_only"]
"""An operand that is read for its shape alone (SHAPE, RANK)."""

Measure: TypeAlias = Annotated[Any, "measure"]
"""An operand that the body gets as it is, and whose value decides the size of the result (RANGE)."""

Axes: TypeAlias = Annotated[Any, "static", "axes"]
"""A static operand: axes of the first operand."""

Sizes: TypeAlias = Annotated[Any, "static", "sizes"]
"""A static operand: sizes of the result, or factors of sizes."""

Paddings: TypeAlias = Annotated[Any, "static", "paddings"]
"""A static operand: the elements that each axis gets before and after its own."""

Divisor: TypeAlias = Annotated[Any, "divisor"]
"""An operand that must not be 0 in integers."""

Amount: TypeAlias = Annotated[Any, "amount"]
"""An exponent or a number of bits: small integers."""

Segments: TypeAlias = Annotated[Any, "segments"]
"""Numbers of segments, below the count that the next operand is."""


class Placeholder:
    """An operand that is no value, as in patterns: an op called on it gives what `applied` makes of the call."""

    # No abstract class: every call of an op asks whether its operands are of this class, and that is slow of one.
    applied: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


def namespace(*operands: Array) -> ModuleType:
    """NumPy where every operand is a NumPy value (constants, shapes), jax.numpy otherwise."""
    return np if all(isinstance(o, np.ndarray | np.generic | int | float | bool) for o in operands) else jnp


def declared_operand(parameter: inspect.Parameter, hint: Any) -> Operand:
    """The operand that a parameter of a body declares. hint: its annotation, evaluated, with the marks."""
    return Operand(
        parameter.name,
        static=_is_marked(hint, "static"),
        shape_only=_is_marked(hint, "shape_only"),
        measure=_is_marked(hint, "measure"),
        optional=parameter.default is None or type(None) in get_args(hint),
        variadic=parameter.kind is parameter.VAR_POSITIONAL,
        role=next((role for role in get_args(Role) if _is_marked(hint, role)), ""),
    )


def _is_marked(hint: Any, mark: str) -> bool:
    return any(get_origin(h) is Annotated and mark in get_args(h)[1:] for h in (hint, *get_args(hint)))
