"""Files written by jfuse itself: quantized operators that the official converter seldom or never makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.sparse import SparseConst, Sparsity
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp, new_states
from jfuse.opaque_ops.opaque_op import OpaqueOp
from jfuse.tflite.write.file import to_bytes
from tests.corpus.file import File

UNITS = 8
_PADDED = {"padding": "SAME", "stride_w": 1, "stride_h": 1}


def integers(*shape: int, dtype: DType = DType.i8, scale: float = 0.05, zero_point: int = 0) -> Var:
    """A tensor of quantized integers."""
    return Var(TensorType(shape, dtype, Quantization((scale,), (zero_point,))))


def floats(*shape: int) -> Var:
    """A tensor of floats."""
    return Var(TensorType(shape, DType.f32))


def weights(*shape: int, dtype: DType = DType.i8, scale: float | Sequence[float] = 0.01, axis: int = 0) -> Const:
    """Drawn integers, the same for the same shape: with one scale, or one for each index of the axis."""
    limit = {DType.i4: 7, DType.i8: 127, DType.u8: 127, DType.i16: 500}[dtype]
    drawn = np.random.default_rng(shape).integers(-limit, limit + 1, shape)
    scales = (scale,) if isinstance(scale, float) else tuple(scale)
    zero_point = 128 if dtype is DType.u8 else 0
    array = (drawn + zero_point).astype(dtype.numpy)
    return Const(array, quantization=Quantization(scales, (zero_point,) * len(scales), axis))


def plain(*shape: int, scale: float = 1.0) -> Const:
    """Drawn floats."""
    return Const(np.random.default_rng(shape).normal(0, scale, shape).astype(np.float32))


def bias(size: int, scale: float) -> Const:
    """Drawn integers of 32 bits."""
    drawn = np.random.default_rng(size).integers(-900, 900, size).astype(np.int32)
    return Const(drawn, quantization=Quantization((scale,), (0,)))


def apply(op: TflOp, operands: Sequence[Atom | None], *results: Var, **options: Any) -> Eqn:
    """One equation; operands that are left out at the end are none."""
    given = (*operands, *[None] * (len(op.operands) - len(operands)))
    return Eqn(op, given if not op.operands[-1].variadic else tuple(operands), results, op.bind_options(options))


def file_of(name: str, *eqns: Eqn, states: Sequence[tuple[Var, Var]] = (), hosted: bool = True) -> File:
    """The file of some equations: what they read is its inputs, the results of the last one its outputs.

    states: tensors that an equation reads and the results that they become, kept from call to call.
    """
    made = [var for eqn in eqns for var in eqn.outputs]
    kept = [before for before, _ in states]
    read = dict.fromkeys(a for e in eqns for a in e.inputs if isinstance(a, Var) and a not in (*made, *kept))
    after = [result for _, result in states]
    last = eqns[-1]
    outputs = [var for i, var in enumerate(last.outputs) if i not in new_states(last).values()]
    graph = Graph("main", (*read, *kept), eqns, (*outputs, *after))
    names = tuple(f"x{i}" for i in range(len(read))), tuple(f"y{i}" for i in range(len(outputs)))
    held = tuple(State(f"s{i}", Const(_zeros(before)), "tensor") for i, before in enumerate(kept))
    return File(name, partial(to_bytes, Program((Signature("serving_default", graph, *names, held),))), hosted=hosted)


def _zeros(var: Var) -> np.ndarray:
    return np.zeros([int(d) for d in var.type.shape], var.type.dtype.numpy)


def _unsigned() -> Iterator[File]:
    """The first way of quantizing: u8 throughout."""
    u8 = partial(integers, dtype=DType.u8, zero_point=120)
    x, y = u8(1, 5, 5, 4), u8(1, 5, 5, 6, scale=0.1)
    filters = weights(6, 3, 3, 4, dtype=DType.u8)
    yield file_of("conv_2d-u8", apply(ops.conv_2d, (x, filters, bias(6, 0.0005)), y, **_PADDED))
    x, y = u8(3, 8), u8(3, 5, scale=0.1)
    rows = weights(5, 8, dtype=DType.u8)
    yield file_of("fully_connected-u8", apply(ops.fully_connected, (x, rows, bias(5, 0.0005)), y))
    yield file_of("add-u8", apply(ops.add, (u8(2, 3), u8(2, 3, scale=0.02)), u8(2, 3, scale=0.06)))
    yield file_of("average_pool_2d-u8", apply(
        ops.average_pool_2d, (u8(1, 4, 4, 2),), u8(1, 2, 2, 2),
        padding="VALID", stride_w=2, stride_h=2, filter_width=2, filter_height=2,
    ))  # fmt: skip
    yield file_of("logistic-u8", apply(ops.logistic, (u8(2, 9),), u8(2, 9, scale=1 / 256, zero_point=0)))
    parts = (u8(2, 3), u8(2, 3, scale=0.08))
    yield file_of("concatenation-u8-rescaled", apply(ops.concatenation, parts, u8(2, 6, scale=0.09), axis=1))


def _scales() -> Iterator[File]:
    """Between scales and types."""
    types = {DType.i8: 0.05, DType.u8: 0.05, DType.i16: 0.001}
    for found, scale in types.items():
        x = integers(3, 7, dtype=found, scale=scale, zero_point=5 if found is not DType.i16 else 0)
        yield file_of(f"dequantize-{found.value}", apply(ops.dequantize, (x,), floats(3, 7)), hosted=False)
        for wanted, step in types.items():
            y = integers(3, 7, dtype=wanted, scale=step * 1.7, zero_point=-3 if wanted is DType.i8 else 0)
            if {found, wanted} != {DType.u8, DType.i16} and (found, wanted) != (DType.u8, DType.u8):
                yield file_of(f"quantize-{found.value}-{wanted.value}", apply(ops.quantize, (x,), y))
        yield file_of(f"quantize-f32-{found.value}", apply(ops.quantize, (floats(3, 7),), x))
    scales = np.linspace(0.01, 0.02, 5).tolist()
    by_row, by_column = weights(5, 8, scale=scales), weights(8, 5, scale=scales, axis=1)
    for name, const in {"rows": by_row, "columns": by_column}.items():
        eqn = apply(ops.dequantize, (const,), y := floats(*const.array.shape))
        shape = const.array.shape
        yield file_of(f"dequantize-{name}", eqn, apply(ops.add, (y, floats(*shape)), floats(*shape)), hosted=False)


def _hybrid() -> Iterator[File]:
    """Floats with integer weights."""
    x = floats(3, 8)
    scales = np.linspace(0.01, 0.02, 5).tolist()
    dense = ops.fully_connected
    yield file_of("fully_connected-hybrid", apply(dense, (x, weights(5, 8), plain(5)), floats(3, 5)))
    for name, const in {"asymmetric": weights(5, 8), "channels": weights(5, 8, scale=scales)}.items():
        eqn = apply(dense, (x, const, plain(5)), floats(3, 5), asymmetric_quantize_inputs=True)
        yield file_of(f"fully_connected-hybrid-{name}", eqn)
    yield file_of("fully_connected-hybrid-i4", apply(dense, (x, weights(6, 8, dtype=DType.i4)), floats(3, 6)))
    image, filters = floats(1, 5, 5, 4), weights(6, 3, 3, 4, scale=np.linspace(0.01, 0.02, 6).tolist())
    yield file_of("conv_2d-hybrid", apply(ops.conv_2d, (image, filters, plain(6)), floats(1, 5, 5, 6), **_PADDED))
    ids = Var(TensorType((4,), DType.i32))
    yield file_of("embedding_lookup-hybrid", apply(ops.embedding_lookup, (ids, weights(9, 6)), floats(4, 6)))
    yield file_of("batch_matmul-hybrid", apply(ops.batch_matmul, (floats(2, 3, 8), weights(2, 8, 5)), floats(2, 3, 5)))


def _integer() -> Iterator[File]:
    """Integers throughout, with weights of 4 bits, and in loops and branches."""
    x, y = integers(3, 8, zero_point=3), integers(3, 6, scale=0.1)
    rows = weights(6, 8, dtype=DType.i4, scale=0.1)
    yield file_of("fully_connected-i8-i4", apply(ops.fully_connected, (x, rows, bias(6, 0.005)), y))
    image, filters = integers(1, 5, 5, 4), weights(6, 3, 3, 4, dtype=DType.i4, scale=[0.1] * 6)
    result = integers(1, 5, 5, 6, scale=0.2)
    yield file_of("conv_2d-i8-i4", apply(ops.conv_2d, (image, filters, bias(6, 0.005)), result, **_PADDED))
    flag, x, result = Var(TensorType((), DType.bool)), integers(2, 5), integers(2, 5)
    bodies = []
    for op in (ops.add, ops.sub):
        left, out = integers(2, 5), integers(2, 5)
        bodies.append(Graph(op.name, (left,), (apply(op, (left, weights(2, 5, scale=0.02)), out),), (out,)))
    yield file_of("if-i8", Eqn(ops.if_, (flag, x), (result,), {}, bodies=tuple(bodies)))


def _recurrent() -> Iterator[File]:
    """Fused recurrent operators with integer weights, which keep their states."""
    gates = [weights(UNITS, n, scale=0.01) for n in (5, 5, 5, 5, UNITS, UNITS, UNITS, UNITS)]
    biases = [plain(UNITS, scale=0.1) for _ in range(4)]
    for op, shape, result in (
        (ops.unidirectional_sequence_lstm, (2, 4, 5), (2, 4, UNITS)),
        (ops.lstm, (2, 5), (2, UNITS)),
    ):
        for asymmetric in (False, True):
            h, c, h1, c1 = (floats(2, UNITS) for _ in range(4))
            operands = (floats(*shape), *gates, None, None, None, *biases, None, None, h, c)
            options: dict[str, Any] = {"asymmetric_quantize_inputs": asymmetric, "fused_activation_function": "TANH"}
            eqn = apply(op, operands, floats(*result), h1, c1, **options)
            name = f"{op.name}-hybrid{'-asymmetric' if asymmetric else ''}"
            yield file_of(name, eqn, states=((h, h1), (c, c1)))
    for op, shape, result in (
        (ops.unidirectional_sequence_rnn, (2, 4, 5), (2, 4, UNITS)),
        (ops.rnn, (2, 5), (2, UNITS)),
    ):
        h, h1 = floats(2, UNITS), floats(2, UNITS)
        operands = (floats(*shape), gates[0], gates[4], biases[0], h)
        eqn = apply(op, operands, floats(*result), h1, fused_activation_function="TANH")
        yield file_of(f"{op.name}-hybrid", eqn, states=((h, h1),))
    s, s1 = floats(2, 6 * 8), floats(2, 6 * 8)
    operands = (floats(2, 5), weights(8, 5), weights(8, 6), None, s)
    yield file_of("svdf-hybrid", apply(ops.svdf, operands, floats(2, 4), s1, rank=2), states=((s, s1),))
    s, s1 = (integers(2, 6 * 8, dtype=DType.i16, scale=0.001) for _ in range(2))
    time = weights(8, 6, dtype=DType.i16, scale=0.001)
    operands = (integers(2, 5), weights(8, 5), time, bias(4, 1e-6), s)
    filters: dict[str, Any] = {"rank": 2, "fused_activation_function": "RELU"}
    eqn = apply(ops.svdf, operands, integers(2, 4, zero_point=-128), s1, **filters)
    yield file_of("svdf-i8", eqn, states=((s, s1),))


def _sparse() -> Iterator[File]:
    """Weights in blocks of one row and four columns, a part of which is there: read as they are, or unpacked."""
    rows, columns, block = 6, 16, 4
    kept = np.random.default_rng(0).random((rows, columns // block)) < 0.5
    segments = np.array([0, *np.cumsum(kept.sum(1))], np.uint8)
    level = (Const(segments), Const(np.nonzero(kept)[1].astype(np.uint8)))
    stored = plain(int(kept.sum()) * block).array
    const = SparseConst(stored, (rows, columns), Sparsity((0, 1, 2), (1,), (rows, level, block)))
    result = floats(3, rows)
    eqn = apply(ops.fully_connected, (floats(3, columns), const, plain(rows)), result)
    yield file_of("fully_connected-sparse", eqn, hosted=False)
    unpacked = floats(rows, columns)
    unpack = Eqn(OpaqueOp("DENSIFY", (unpacked.type,)), (const,), (unpacked,), {"options": b""})
    yield file_of("densify", unpack, apply(ops.fully_connected, (floats(3, columns), unpacked, plain(rows)), result))


FILES = (*_unsigned(), *_scales(), *_hybrid(), *_integer(), *_recurrent(), *_sparse())
