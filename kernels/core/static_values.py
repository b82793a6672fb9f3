"""Static values of operands while equations are recorded: numbers that follow from shapes, fresh symbols for others."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, symbol
from jfuse.ir.graph import Atom, Var
from jfuse.ir.trace import active_trace, is_tracing, producer

_MOST_SIZES = 1024  # LiteRT's tensors have 8 dimensions at most, TensorFlow's 254


def static_value(x: Any) -> Any:
    """The value of a Const or array, or the known one of a Var: an int or nested tuples; None where it is open."""
    array = x.value if isinstance(x, Var) else np.asarray(x)
    return None if array is None else as_static(array)


def as_static(value: Any) -> Any:
    """An array as a number or nested tuples; other values as they are."""
    return _tuples(value.tolist()) if isinstance(value, np.ndarray | np.generic | jax.Array) else value


def fresh_size() -> Dim:
    """A symbol for a size that data decides: a name of the active trace."""
    return active_trace().names.fresh("N") if is_tracing() else symbol("N")


def sizes_in_any_order(count: int, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """`count` sizes out of a shape, by axes that data decides: fresh symbols, or the one size that all have."""
    alike = len({str(d) for d in shape}) == 1
    return tuple(shape[0] if alike else fresh_size() for _ in range(count))


def named_sizes(atom: Atom) -> Any:
    """Sizes that are computed at run time, as a static value: each unknown size is a fresh symbol.

    None where it is open how many there are. Raises TypeMismatch where there are more than any tensor has.
    """
    if not atom.type.is_static:
        return None
    if static_value(atom) is None and prod(map(int, atom.type.shape)) > _MOST_SIZES:
        raise TypeMismatch(
            "an operand that states sizes, computed at run time, has too many numbers",
            expected=f"at most {_MOST_SIZES}",
            found=str(atom.type),
        )
    return _named(known_entries(atom))


def _named(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_named, value))
    return fresh_size() if value is None else value


def known_entries(atom: Atom) -> Any:
    """The value of an operand whose shape is known, with None for each unknown number."""
    value = static_value(atom)
    if value is not None:
        return value
    packed = _packed(atom)
    return _nothing(atom.type.shape) if packed is None else tuple(map(known_entries, packed))


def _nothing(shape: Sequence[int]) -> Any:
    return tuple(_nothing(shape[1:]) for _ in range(shape[0])) if shape else None


def _packed(atom: Atom) -> list[Atom] | None:
    """List the operands of the PACK that made a tensor along its first axis, through casts; None for other ops."""
    eqn = producer(atom)
    if eqn is None:
        return None
    if eqn.op.name == "cast" and eqn.inputs[0] is not None:
        return _packed(eqn.inputs[0])
    packs = eqn.op.name == "pack" and eqn.params["axis"] % atom.type.rank == 0
    return [a for a in eqn.inputs if a is not None] if packs else None


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
