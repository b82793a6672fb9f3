"""Finds tensors that are a broadcast constant, as most initial states are where the batch is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Var
from jfuse.kernels.core.op import static_value

Known = Mapping[Var, np.ndarray]


def broadcast_constants(graph: Graph, given: Known = MappingProxyType({})) -> dict[Var, np.ndarray]:
    """For each Var that holds a constant broadcast to its shape, that constant: zeros of any shape give a scalar 0.

    given: what is known of inputs of the graph.
    """
    known = dict(given)
    for eqn in graph.eqns:
        if _has_one_result(eqn):
            constant = broadcast_result(eqn, known)
            if constant is not None:
                known[eqn.outputs[0]] = constant
    return known


def constant_behind(var: Var, producer: Callable[[Var], Eqn | None]) -> np.ndarray | None:
    """The constant that a Var holds, broadcast to its shape, by the equations that lead to it alone.

    producer: gives the equation that makes a Var.
    """
    known: dict[Var, np.ndarray] = {}
    seen: set[Var] = set()
    pending = [var]
    while pending:
        eqn = producer(pending[-1])
        if eqn is None or not _has_one_result(eqn) or not _spreads(eqn.op):
            seen.add(pending.pop())
            continue
        before = [a for a in eqn.inputs if isinstance(a, Var) and a not in seen]
        if before and pending[-1] not in seen:
            seen.add(pending[-1])
            pending += before
            continue
        constant = broadcast_result(eqn, known)
        if constant is not None:
            known[pending[-1]] = constant
        seen.add(pending.pop())
    return known.get(var)


def _has_one_result(eqn: Eqn) -> bool:
    return eqn.op.is_kernel and len(eqn.outputs) == 1 and not eqn.effects


def _spreads(op: Op) -> bool:
    """Whether broadcast constants may give one: what `broadcast_result` knows."""
    by_name = op.builtin in ("ZEROS_LIKE", "BROADCAST_TO", "FILL", "TILE")
    return by_name or op.elementwise or op.linear == "joint" or op.moves in ("renames", "permutes")


def constant_of(atom: Atom, known: Known) -> np.ndarray | None:
    """A constant that broadcasts to the value of `atom`, where there is one."""
    return atom.array if isinstance(atom, Const) else known.get(atom)


def cancels(eqn: Eqn) -> bool:
    """Whether the result is x - x of integers with a scale, which is zero; of floats, NaN - NaN is not."""
    same = eqn.op.builtin == "SUB" and eqn.inputs[0] is eqn.inputs[1]
    return same and eqn.outputs[0].type.quantization is not None


def unbroadcast(atom: Atom, producers: Mapping[Var, Eqn]) -> Atom:
    """The tensor that `atom` repeats by broadcasting to a shape, or `atom` itself."""
    while isinstance(atom, Var):
        eqn = producers.get(atom)
        if eqn is None or not eqn.op.is_kernel:
            break
        source = eqn.inputs[1 if eqn.op.builtin == "FILL" else 0]
        if not isinstance(source, Var):
            break
        spread = eqn.op.builtin in ("BROADCAST_TO", "FILL") or (
            eqn.op.builtin == "TILE" and _only_broadcasts(eqn, source.type.shape)
        )
        if not spread:
            break
        atom = source
    return atom


def broadcast_result(eqn: Eqn, known: Known) -> np.ndarray | None:
    """The constant that broadcasts to the only result of a kernel, from those that its operands are."""
    op = eqn.op
    if op.builtin == "ZEROS_LIKE":
        return np.zeros((), eqn.outputs[0].type.dtype.numpy)
    operands = _data_operands(eqn, op, known)
    if not operands or any(o is None for o in operands):
        return None
    if op.linear == "joint" and not any(o.any() for o in operands if o is not None):
        return np.zeros((), eqn.outputs[0].type.dtype.numpy)
    if op.builtin in ("BROADCAST_TO", "FILL"):
        return operands[0]
    if op.moves in ("renames", "permutes") and operands[0] is not None and operands[0].size == 1:
        return operands[0].reshape(())
    if op.builtin == "TILE":
        return operands[0] if operands[0] is not None and _only_broadcasts(eqn, operands[0].shape) else None
    # What is done to each element by itself can as well be done before broadcasting.
    return _computed(eqn, op, operands) if op.elementwise else None


def _data_operands(eqn: Eqn, op: Op, known: Known) -> list[np.ndarray | None]:
    data = [a for i, a in enumerate(eqn.inputs) if a is not None and not op.operand_at(i).static]
    if any(op.operand_at(i).shape_only for i in range(len(eqn.inputs))):
        return []
    return [constant_of(a, known) for a in data]


def _computed(eqn: Eqn, op: Op, operands: Sequence[Any]) -> np.ndarray | None:
    if len(operands) != len(eqn.inputs):
        return None
    try:
        (result,) = op.run(operands, eqn.params, ())
    except JfuseError:
        return None
    return np.asarray(result)


def _only_broadcasts(tile: Eqn, shape: Sequence[Any]) -> bool:
    """Whether tiling what broadcasts from `shape` repeats it only along axes where it has one element."""
    multiples = static_value(tile.inputs[1]) if tile.inputs[1] is not None else None
    if not isinstance(multiples, tuple):
        return False
    sizes = (1,) * (len(multiples) - len(shape)) + tuple(shape)
    return all((is_known(d) and d == 1) or same(m, 1) for d, m in zip(sizes, multiples, strict=True))
