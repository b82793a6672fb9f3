"""Ops by printed name: filled by the modules that declare ops, read where text becomes a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from jfuse.base.errors import RuleError
from jfuse.ir.graph import Op
from jfuse.ir.types import TensorType

MakeOp: TypeAlias = Callable[[str, tuple[TensorType, ...]], Op]
"""Makes an op from its printed name and the result types that the text states."""


OpT = TypeVar("OpT", bound=Op)

_OPS: dict[str, Op] = {}
_FAMILIES: dict[str, MakeOp] = {}


def register_op(op: OpT) -> OpT:
    """Make an op known by its name; raises RuleError where the name is taken. Returns the op."""
    if op.name in _OPS:
        raise RuleError(f"two ops are named {op.name!r}", remedy="give the second one another name")
    _OPS[op.name] = op
    return op


def register_family(prefix: str, make: MakeOp) -> None:
    """Names that start with `prefix` denote ops that `make` creates, one for each equation (`tf.Erf`)."""
    if prefix in _FAMILIES:
        raise RuleError(f"two families of ops start with {prefix!r}")
    _FAMILIES[prefix] = make


def find_op(name: str, types: Sequence[TensorType] = ()) -> Op | None:
    """The op of that name, None where there is none. types: the results that it is to have, for families."""
    if name in _OPS:
        return _OPS[name]
    make = next((make for prefix, make in _FAMILIES.items() if name.startswith(prefix)), None)
    return None if make is None else make(name, tuple(types))
