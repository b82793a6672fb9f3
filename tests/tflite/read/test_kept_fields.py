"""Fields of a file that no kernel looks at are kept as well: debug metadata, and what variants hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.check import check_graph
from jfuse.ir.parser import parse_program
from jfuse.ir.trace import active_trace, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.passes.context import Context
from jfuse.passes.pipeline import run_pipeline
from jfuse.records.conversion import Report
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import dense, f32, i32, loop, program
from tests.tflite.read.round_trip import round_trip
from tests.tflite.read.test_whole import changed, read


def test_debug_metadata_and_the_places_in_it() -> None:
    def change(model: Any) -> None:
        buffer = schema.BufferT()
        buffer.data = np.arange(64, dtype=np.uint8)
        model.metadata.append(schema.MetadataT("debug_metadata", len(model.buffers)))
        model.buffers.append(buffer)
        for i, subgraph in enumerate(model.subgraphs):
            subgraph.debugMetadataIndex = 2 - i
            for j, operator in enumerate(subgraph.operators):
                operator.debugMetadataIndex = j - 1

    def places(data: bytes) -> Any:
        return [(s.debugMetadataIndex, [o.debugMetadataIndex for o in s.operators]) for s in read(data).subgraphs]

    data = changed(loop(), change)
    program = round_trip(data)
    assert places(to_bytes(program)) == places(data)
    assert {place for _, found in places(data) for place in found} >= {-1, 0, 1}
    graph = program.signatures[0].graph
    assert [graph.debug, *(body.debug for eqn in graph.eqns for body in eqn.bodies)][:2] == [2, 1]
    assert ") ^2 {" in str(program)
    report = Report()
    lowered = run_pipeline(program, Context(report=report))
    written = read(to_bytes(lowered))
    assert all(m.name != b"debug_metadata" for m in written.metadata)
    assert {-1} == {p for index, found in places(to_bytes(lowered)) for p in (index, *found)}
    assert "the file's debug metadata is left out" in report.notes[0]


@pytest.mark.parametrize("where", ["subgraph 0", r"subgraph 0 operator 0 \(FULLY_CONNECTED\)"])
def test_places_in_debug_metadata_that_cannot_be(where: str) -> None:
    def change(model: Any) -> None:
        table = model.subgraphs[0]
        (table.operators[0] if "operator" in where else table).debugMetadataIndex = -2

    with pytest.raises(BadFlatbuffer, match=rf"no such debug metadata at .*{where}\n(.|\n)*found     -2"):
        load_tflite(changed(dense(), change))


def lists(*held: tuple[int, Any, bool]) -> bytes:
    """A custom operator makes a list, which a loop hands on and another custom operator reads."""
    types = (TensorType((), DType.variant),)

    def main(x: Any) -> Any:
        made = CustomOp("Make", types)
        (items,) = active_trace().append(made, [x], types, made.defaults)
        cond = trace_graph(lambda i, v: ops.less(i, 5), [i32(), types[0]], "cond")
        body = trace_graph(lambda i, v: (ops.add(i, 1), v), [i32(), types[0]], "body")
        _, items = ops.while_([np.int32(0), items], [cond, body])
        taken = CustomOp("Take", (f32(2),))
        return active_trace().append(taken, [items], taken.types, taken.defaults)

    def change(model: Any) -> None:
        for subgraph in model.subgraphs:
            for tensor in subgraph.tensors:
                if tensor.type == schema.TensorType.VARIANT:
                    tensor.variantTensors = [held_type(*h) for h in held]

    return changed(program(main, f32(2)), change)


def held_type(dtype: int, shape: Any, has_rank: bool) -> Any:
    table = schema.VariantSubTypeT()
    table.type, table.hasRank = dtype, has_rank
    table.shape = None if shape is None else np.array(shape, np.int32)
    return table


def test_what_variants_hold() -> None:
    given = [(schema.TensorType.FLOAT32, (-1, 3), True), (2, None, False), (schema.TensorType.INT8, (), True)]
    data = lists(*given)
    program = load_tflite(data)
    for graph in program.graphs():
        check_graph(graph)
    assert ": variant[]{f32[?,3] i32[*] i8[]}" in str(program)
    assert str(parse_program(str(program))) == str(program)
    for written in (to_bytes(program), to_bytes(parse_program(str(program)))):
        tables = [t.variantTensors for s in read(written).subgraphs for t in s.tensors if t.type == 14]
        assert len(tables) == len([t for s in read(data).subgraphs for t in s.tensors if t.type == 14]) > 3
        for table in tables:
            assert [(h.type, h.hasRank) for h in table] == [(dtype, ranked) for dtype, _, ranked in given]
            assert [() if h.shape is None else tuple(h.shape) for h in table] == [(-1, 3), (), ()]
    assert to_bytes(load_tflite(to_bytes(program))) == to_bytes(program)


@pytest.mark.parametrize("held", [(99, (2,), True), (0, (-2,), True), (0, [1] * 65, True)])
def test_variants_that_hold_what_cannot_be(held: tuple[int, Any, bool]) -> None:
    with pytest.raises(BadFlatbuffer, match=r"a variant holds tensors of an impossible type at .*tensor"):
        load_tflite(lists(held))


def test_what_only_variants_hold() -> None:
    def change(model: Any) -> None:
        model.subgraphs[0].tensors[0].variantTensors = [held_type(0, (2,), True)]

    with pytest.raises(BadFlatbuffer, match=r"a tensor that is no variant holds tensors at .*tensor 0 'x0'"):
        load_tflite(changed(dense(), change))
