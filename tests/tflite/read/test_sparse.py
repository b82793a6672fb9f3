"""Sparse constants: kept as the file has them, dense where their values are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Const, Eqn, Graph, Program, Source, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.sparse import SparseConst, Sparsity
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, signature
from tests.tflite.read.round_trip import answers, round_trip

RNG = np.random.default_rng(8)
ROWS, COLUMNS, BLOCK = 6, 16, 4


def index(values: Any, dtype: Any = np.int32) -> Const:
    return Const(np.array(values, dtype))


def compressed(kept: np.ndarray, dtype: Any = np.int32) -> tuple[Const, Const]:
    """The segments and indices of a matrix that tells what is there."""
    return index([0, *np.cumsum(kept.sum(1))], dtype), index(np.nonzero(kept)[1], dtype)


def dense(kept: np.ndarray, values: np.ndarray) -> np.ndarray:
    found = np.zeros(kept.shape, np.float32)
    found[kept] = values
    return found


def by_rows(dtype: Any = np.int32) -> tuple[SparseConst, np.ndarray]:
    kept = RNG.random((ROWS, COLUMNS)) < 0.2
    kept[2] = False
    values = RNG.normal(size=int(kept.sum())).astype(np.float32)
    sparsity = Sparsity((0, 1), (), (ROWS, compressed(kept, dtype)))
    return SparseConst(values, kept.shape, sparsity, "w"), dense(kept, values)


def by_columns() -> tuple[SparseConst, np.ndarray]:
    kept = RNG.random((ROWS, COLUMNS)) < 0.3
    values = RNG.normal(size=int(kept.sum())).astype(np.float32)
    sparsity = Sparsity((1, 0), (), (COLUMNS, compressed(kept.T)))
    return SparseConst(values, kept.shape, sparsity, "w"), dense(kept.T, values).T


def in_blocks() -> tuple[SparseConst, np.ndarray]:
    """Blocks of one row and four columns: what FULLY_CONNECTED has a kernel for."""
    kept = RNG.random((ROWS, COLUMNS // BLOCK)) < 0.5
    values = RNG.normal(size=int(kept.sum()) * BLOCK).astype(np.float32)
    sparsity = Sparsity((0, 1, 2), (1,), (ROWS, compressed(kept, np.uint8), BLOCK))
    return SparseConst(values, (ROWS, COLUMNS), sparsity, "w"), dense(np.repeat(kept, BLOCK, axis=1), values)


def squares() -> tuple[SparseConst, np.ndarray]:
    """Blocks of two rows and four columns, whose columns come first."""
    kept = RNG.random((ROWS // 2, COLUMNS // BLOCK)) < 0.5
    blocks = RNG.normal(size=(int(kept.sum()), BLOCK, 2)).astype(np.float32)
    sparsity = Sparsity((0, 1, 3, 2), (0, 1), (ROWS // 2, compressed(kept, np.uint16), BLOCK, 2))
    found = np.zeros((ROWS // 2, COLUMNS // BLOCK, 2, BLOCK), np.float32)
    found[kept] = blocks.transpose(0, 2, 1)
    return SparseConst(blocks.ravel(), (ROWS, COLUMNS), sparsity, "w"), found.transpose(0, 2, 1, 3).reshape(
        ROWS, COLUMNS
    )


ALL = [by_rows, by_columns, in_blocks, squares]


def product(weights: Const) -> Program:
    x, y = Var(f32(2, COLUMNS), "x"), Var(f32(2, ROWS), "y")
    params = ops.fully_connected.bind_options({})
    eqn = Eqn(ops.fully_connected, (x, weights, Const(np.zeros(ROWS, np.float32), "b")), (y,), params, Source("y"))
    return Program((signature(Graph("main", (x,), (eqn,), (y,))),))


def weights_of(program: Program) -> Const:
    found = program.signatures[0].graph.eqns[0].inputs[1]
    assert isinstance(found, Const)
    return found


@pytest.mark.parametrize("make", ALL)
def test_the_dense_array(make: Callable[[], tuple[SparseConst, np.ndarray]]) -> None:
    const, wanted = make()
    data = to_bytes(product(const))
    loaded = weights_of(load_tflite(data))
    assert isinstance(loaded, SparseConst)
    assert "array" not in vars(loaded), "made only when it is asked for"
    assert np.array_equal(loaded.array, wanted)
    assert loaded.type == f32(ROWS, COLUMNS)
    assert to_bytes(load_tflite(data)) == data
    assert str(load_tflite(data)) == str(product(const))


def test_the_runtime_reads_what_was_written() -> None:
    const, wanted = in_blocks()
    program = round_trip(to_bytes(product(const)))
    found, right = answers(to_bytes(program)), answers(to_bytes(product(Const(wanted, "w"))))
    for f, r in zip(found, right, strict=True):
        np.testing.assert_allclose(f, r, rtol=1e-6, atol=1e-6)  # sums of 16 products in another order


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.uint8])
def test_the_width_of_indices_is_kept(dtype: Any) -> None:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(load_tflite(to_bytes(product(by_rows(dtype)[0])))), 0)
    tensor = next(t for t in model.subgraphs[0].tensors if t.name == b"w")
    assert tensor.sparsity.dimMetadata[1].arrayIndices.values.dtype == dtype


def test_quantized_and_sparse_at_once() -> None:
    const, _ = by_rows()
    stored = np.arange(1, const.stored.size + 1, dtype=np.int8)
    quantization = Quantization((0.1,), (0,))
    source = product(SparseConst(stored, const.shape, const.sparsity, "w", quantization))
    loaded = weights_of(load_tflite(to_bytes(source)))
    assert loaded.type == TensorType((ROWS, COLUMNS), DType.i8, quantization)
    assert loaded.array[loaded.array != 0].tolist() == stored.tolist()  # by rows, as they are stored
    assert str(load_tflite(to_bytes(source))) == str(source)


def set_level(number: int, field: str, value: Any) -> Callable[[Any], None]:
    return lambda s: setattr(s.dimMetadata[number], field, value)


def set_vector(field: str, values: list[int]) -> Callable[[Any], None]:
    return lambda s: setattr(getattr(s.dimMetadata[1], field), "values", np.array(values, np.int32))


BROKEN: dict[str, Callable[[Any], object]] = {
    "order": lambda s: setattr(s, "traversalOrder", np.array([0, 0], np.int32)),
    "negative order": lambda s: setattr(s, "traversalOrder", np.array([0, -1], np.int32)),
    "blocks": lambda s: setattr(s, "blockMap", np.array([5], np.int32)),
    "no levels": lambda s: setattr(s, "dimMetadata", None),
    "many levels": lambda s: s.dimMetadata.extend(s.dimMetadata * 3),
    "format": set_level(0, "format", 7),
    "dense size": set_level(0, "denseSize", ROWS + 1),
    "huge": set_level(0, "denseSize", 2**31 - 1),
    "no segments": set_level(1, "arraySegments", None),
    "few segments": set_vector("arraySegments", [0, 1]),
    "segments that fall": set_vector("arraySegments", [0, 4, 2, 5, 5, 5, 5]),
    "segments beyond the indices": set_vector("arraySegments", [0, 0, 0, 0, 0, 0, 10**6]),
    "segments that repeat": set_vector("arraySegments", [0, 5, 0, 5, 5, 5, 5]),
    "negative index": set_vector("arrayIndices", [-1] * 40),
    "index": set_vector("arrayIndices", [COLUMNS] * 40),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit(name: str) -> None:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(product(by_rows()[0])), 0)
    tensor = next(t for t in model.subgraphs[0].tensors if t.name == b"w")
    BROKEN[name](tensor.sparsity)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    with pytest.raises(BadFlatbuffer, match=r"sparse tensor(.|\n)* at the bytes, .*subgraph 0 tensor 1 'w'"):
        load_tflite(bytes(builder.Output()))
