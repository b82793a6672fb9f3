"""Finds integer inputs that are plain numbers (pixels, counters, deltas): they are drawn over their whole type."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from jfuse.ir.graph import Eqn, Graph, Op, Signature, Var
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.proof.index_ranges import entries_of
from jfuse.proof.ranges import drawn_ranges

_NEAR = (100, 10)
"""How far from 0 integers of 16 bits and more are in the first calls: beside large ones a small error is hidden."""
_ENDS = 0.125  # of the numbers of a whole type


def plain_integers(graph: Graph) -> frozenset[Var]:
    """The integer inputs whose values are only computed with, compared, moved, added up or made floats.

    Not those that may be ids, sizes, axes or numbers of steps, by themselves or after any computation, nor those that
    nothing reads: whoever reads them elsewhere may need small ones.
    """
    origins: dict[Var, frozenset[Var]] = {v: frozenset((v,)) for v in graph.inputs if v.type.dtype.is_integer}
    read, others = set[Var](), set(drawn_ranges(graph))
    for eqn in graph.eqns:
        if eqn.op is ops.shape:
            continue
        read_from = frozenset[Var]()
        for place, atom in enumerate(eqn.inputs):
            if isinstance(atom, Var) and atom in origins:
                read_from |= origins[atom]
                if eqn.bodies or not _takes_numbers(eqn, place, atom):
                    others |= origins[atom]
        read |= read_from
        origins |= dict.fromkeys(eqn.outputs, read_from) if read_from else {}
    read |= {a for a in graph.outputs if isinstance(a, Var) and a in origins}
    return frozenset(read & frozenset(graph.inputs) - others)


def _takes_numbers(eqn: Eqn, place: int, operand: Var) -> bool:
    """Whether an operand may be any number of its type.

    Floats may not where they are cast to integers again, nor beneath a sine: kernels answer anything to large ones.
    """
    if operand.type.dtype.is_float:
        return eqn.op not in (ops.sin, ops.cos) and not (eqn.op is ops.cast and eqn.outputs[0].type.dtype.is_integer)
    if not operand.type.dtype.is_integer:
        return True
    if eqn.op.operand_at(place).role in ("divisor", "amount"):
        return False
    # Kernels differ in what becomes of means and products of large integers.
    reduces = _has_axes(eqn.op) and eqn.op not in (ops.mean, ops.reduce_prod)
    return eqn.op.elementwise or operand in entries_of(eqn) or (reduces and place == 0)


def _has_axes(op: Op) -> bool:
    return any(operand.role == "axes" for operand in op.operands)


def with_whole_integers(
    signature: Signature, drawn: Mapping[str, np.ndarray], number: int, seed: int
) -> dict[str, np.ndarray]:
    """The inputs with plain integers over their whole types.   number: of the call, which says how large they are"""
    plain = plain_integers(signature.graph)
    generator = np.random.default_rng((seed, number))
    types = dict(zip(signature.input_names, signature.graph.inputs, strict=False))
    return {
        name: _integers(generator, types[name].type, array.shape, number)
        if name in types and types[name] in plain
        else array
        for name, array in drawn.items()
    }


def ends_of_type(of: TensorType) -> tuple[int, int]:
    """The least integer of a type, and the one after the greatest."""
    limits = ml_dtypes.iinfo(of.dtype.numpy)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max) + 1


def _integers(generator: np.random.Generator, of: TensorType, shape: tuple[int, ...], number: int) -> np.ndarray:
    """Integers near 0, or over the whole type: as likely of each size as of each number, and some at the ends."""
    least, end = ends_of_type(of)
    wide = np.uint64 if least == 0 else np.int64
    is_small = end - least <= 2**8
    if not is_small and number % 3 < len(_NEAR):
        near = _NEAR[number % 3]
        return generator.integers(max(least, -near), near, shape).astype(of.dtype.numpy)
    drawn = generator.integers(least, end - 1, shape, wide, endpoint=True)
    if not is_small:
        bits = generator.integers(0, max(1, (end - 1).bit_length() - 1), shape)
        drawn = np.where(generator.random(shape) < 0.5, drawn, drawn >> bits.astype(wide))
    ends = generator.choice(np.array([least, end - 1], wide), shape)
    return np.asarray(np.where(generator.random(shape) < _ENDS, ends, drawn)).astype(of.dtype.numpy)
