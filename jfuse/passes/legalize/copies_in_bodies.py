"""Keeps XNNPACK from copying across the border of its part of a loop's or a branch's body.

XNNPACK reshapes, concatenates and splits by copies. It skips a copy whose two ends have one address, and never makes
it again. When a batch grows, XNNPACK's memory moves, and it compares the new address of its own value with the last
address of LiteRT's. LiteRT frees the memory of a body after each run, so the two addresses may be equal by chance: the
copy is not made, and the call answers wrongly (LiteRT 2.3.0, xnnpack/src/operators/unary-elementwise-nc.c,
setup_unary_elementwise_nc). A copy with both ends on one side of the border is safe; others are made by LiteRT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import producers, users, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp
from jfuse.passes.context import Context
from jfuse.tflite.runtime.rows.xnnpack import MOST_AXES, copies, may_take, surely_takes

_TOO_MANY = MOST_AXES + 1
_BITS = {DType.f32: DType.i32, DType.i8: DType.u8, DType.u8: DType.i8}
_ROUNDS = 4
"""After so many, all copies of a body become LiteRT's: each that does may turn its neighbours' into ones across."""


def copies_in_bodies(graph: Graph, ctx: Context) -> Graph:
    """Let LiteRT make the copies across the border of XNNPACK's parts, in the bodies of a graph with open sizes."""
    if not ctx.target.has_xnnpack or all(is_known(d) for v in graph.inputs for d in v.type.shape):
        return graph
    done: dict[int, Graph] = {}

    def body(inner: Graph) -> Graph:
        if id(inner) not in done:  # equations that share a body go on sharing it
            done[id(inner)] = _made_by_litert(with_bodies(inner, body))
        return done[id(inner)]

    return with_bodies(graph, body)


def _made_by_litert(graph: Graph) -> Graph:
    """A body whose copies are XNNPACK's only where they surely do not cross."""
    eqns = tuple(e for eqn in graph.eqns for e in _without_flattening(eqn))
    for count in range(_ROUNDS + 1):
        border = _Border(replace(graph, eqns=eqns))
        across = {id(e): _in_litert(e) for e in eqns if copies(e) and (count == _ROUNDS or border.is_crossed(e))}
        if all(spelled is None for spelled in across.values()):
            break
        eqns = tuple(new for e in eqns for new in across.get(id(e)) or (e,))
    return graph if eqns == graph.eqns else replace(graph, eqns=eqns)


def _without_flattening(eqn: Eqn) -> Iterator[Eqn]:
    """A product without the RESHAPE that XNNPACK puts before it, where the file does not say that axes are kept."""
    rows, weights, *_ = eqn.inputs if eqn.op is ops.fully_connected else (None, None)
    if rows is None or weights is None or eqn.params["keep_num_dims"] or not may_take(eqn):
        yield eqn
        return
    if rows.type.rank != 2:
        shape = (eqn.outputs[0].type.shape[0], weights.type.shape[1])
        flat = Var(replace(rows.type, shape=shape))
        yield _eqn(ops.reshape, (rows, Const(np.array([-1, shape[1]], np.int32))), flat, eqn)
        rows = flat
    yield replace(eqn, inputs=(rows, *eqn.inputs[1:]), params={**eqn.params, "keep_num_dims": True})


class _Border:
    """Which values are XNNPACK's own, and which are LiteRT's, as far as one can say."""

    def __init__(self, graph: Graph) -> None:
        self._outputs = frozenset(graph.outputs)
        self._makers, self._readers = producers(graph), users(graph)
        self._surely = {id(e): surely_takes(e) for e in graph.eqns}
        self._parts: dict[int, tuple[int, int]] = {}
        for eqn in graph.eqns:
            self._parts[id(eqn)] = self._part(eqn)

    def is_crossed(self, copy: Eqn) -> bool:
        """Whether one end of a copy may be XNNPACK's own value and the other one of LiteRT's."""
        ends = [a for a in (*copy.inputs, *copy.outputs) if isinstance(a, Var)]
        if not any(isinstance(a, Var) for a in copy.inputs):
            return False
        return not (all(self._is_inside(v, copy) for v in ends) or all(map(self._is_outside, ends)))

    def _part(self, eqn: Eqn) -> tuple[int, int]:
        """The first and the last turn in which an operator may run.

        LiteRT runs operators in turns: all of XNNPACK's that can run, then all others that can.
        """
        first = last = 0
        for atom in eqn.inputs:
            maker = self._makers.get(atom) if isinstance(atom, Var) else None
            if maker is not None:
                changes, (earliest, latest) = self._changes(maker, eqn), self._parts[id(maker)]
                first = max(first, earliest + (changes is True))
                last = max(last, latest + (changes is not False))
        return first, last

    def _changes(self, maker: Eqn, reader: Eqn) -> bool | None:
        """Whether of two operators XNNPACK takes one only; None where one cannot say."""
        sides = [True if self._surely[id(e)] else None if may_take(e) else False for e in (maker, reader)]
        return None if None in sides else sides[0] is not sides[1]

    def _is_inside(self, value: Var, copy: Eqn) -> bool:
        """Whether a value surely stays in XNNPACK's part."""
        maker = self._makers.get(value)
        if maker is None or value in self._outputs or not self._readers.get(value):
            return False
        first, last = self._parts[id(copy)]
        ends = (maker, *self._readers[value])
        return first == last and all(self._surely[id(e)] and self._parts[id(e)] == (first, last) for e in ends)

    def _is_outside(self, value: Var) -> bool:
        """Whether LiteRT surely reads or makes a value."""
        maker = self._makers.get(value)
        if maker is None or value in self._outputs or not may_take(maker):
            return True
        return any(not may_take(e) for e in self._readers.get(value, ()))


def _in_litert(eqn: Eqn) -> tuple[Eqn, ...] | None:
    """A copy as operators that XNNPACK does not take, or takes without copies; None where there are none.

    It takes no integers of 32 bits or without scales, and no RESHAPE of more than six axes.
    """
    (result, *_), x = eqn.outputs, eqn.inputs[0]
    if eqn.op is ops.split:
        return _slices(eqn)
    if eqn.op is ops.concatenation:
        return tuple(_on_bits(eqn))
    if x is None or not _has_shape(result.type):
        return None
    long = Var(replace(result.type, shape=(1,) * (_TOO_MANY - result.type.rank) + result.type.shape))
    return _reshape(x, long, eqn), _reshape(long, result, eqn)


def _slices(eqn: Eqn) -> tuple[Eqn, ...] | None:
    """The parts of a SPLIT one by one, which XNNPACK takes too and never leaves out."""
    axis, x = eqn.inputs
    if (
        not isinstance(axis, Const)
        or x is None
        or not is_known(size := eqn.outputs[0].type.shape[int(axis.array.flat[0])])
    ):
        return None
    place, rank = int(axis.array.flat[0]) % x.type.rank, x.type.rank
    masks = sum(1 << k for k in range(rank) if k != place)
    slices = []
    for number, part in enumerate(eqn.outputs):
        ends = [
            Const(np.array([n * int(size) * (k == place) for k in range(rank)], np.int32)) for n in (number, number + 1)
        ]
        operands = (x, *ends, Const(np.ones(rank, np.int32)))
        slices.append(_eqn(ops.strided_slice, operands, part, eqn, begin_mask=masks, end_mask=masks))
    return tuple(slices)


def _on_bits(eqn: Eqn) -> Iterator[Eqn]:
    """A CONCATENATION of numbers of another type with their bits, without scales."""
    bits = tuple(
        Var(TensorType(a.type.shape, _BITS[a.type.dtype])) for a in (*eqn.inputs, *eqn.outputs) if a is not None
    )
    for atom, var in zip(eqn.inputs, bits, strict=False):
        yield _eqn(ops.bitcast, (atom,), var, eqn, out_data_type=var.type.dtype)
    yield replace(eqn, inputs=bits[:-1], outputs=bits[-1:])
    yield _eqn(ops.bitcast, bits[-1:], eqn.outputs[0], eqn, out_data_type=eqn.outputs[0].type.dtype)


def _has_shape(t: TensorType) -> bool:
    """Whether a constant can say the sizes of a tensor."""
    return sum(not is_known(d) for d in t.shape) <= 1


def _reshape(atom: Atom, result: Var, eqn: Eqn) -> Eqn:
    sizes = [int(d) if is_known(d) else -1 for d in result.type.shape]
    return _eqn(ops.reshape, (atom, Const(np.array(sizes, np.int32))), result, eqn)


def _eqn(op: TflOp, inputs: tuple[Atom | None, ...], result: Var, eqn: Eqn, **options: object) -> Eqn:
    return Eqn(op, inputs, (result,), op.bind_options(options), eqn.source)
