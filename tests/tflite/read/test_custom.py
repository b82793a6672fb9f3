"""Custom operators of files: kept byte for byte by load, text and save."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import jfuse
from jfuse.base.errors import BadFlatbuffer, LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import SymbolNames
from jfuse.ir.graph import Program
from jfuse.ir.parser import parse_program
from jfuse.ir.trace import active_trace, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.compare.read_back import reads_back
from tests.opaque_ops.test_custom_options import custom
from tests.tflite.programs import f32, signature

DATA = bytes(range(256))


def program(code: str = "Odd Näme%/x:y", options: bytes = DATA, version: int = 3) -> Program:
    """x -> a custom operator with an omitted and a constant operand and two results, then operators of TFLite."""
    names = SymbolNames()
    batch = names.fresh("B")

    def main(x: Any) -> Any:
        types = (f32(batch, 2), TensorType((names.fresh("N"),), DType.string))
        op = CustomOp(code, types)
        constant = active_trace().constant(np.arange(3, dtype=np.int64))
        y, words = active_trace().append(op, [ops.neg(x), None, constant, None], types, {**op.defaults, **given})
        return ops.add(x, y), words

    given = {"options": options, "version": version}
    return Program((signature(trace_graph(main, [f32(batch, 2)], names=names)),))


def changed(change: Any) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(program()), 0)
    change(model)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("options", [DATA, b""])
@pytest.mark.parametrize("code", ["Odd Näme%/x:y", "Plain", "aeon.xyz::Foo"])
def test_a_file_is_saved_as_it_was_loaded(code: str, options: bytes) -> None:
    given = program(code, options)
    data = to_bytes(given)
    loaded = load_tflite(data)
    check_graph(loaded.signatures[0].graph)
    reads_back(given, data)
    assert to_bytes(loaded) == data
    text = str(loaded)
    assert to_bytes(parse_program(text)) == data
    assert str(parse_program(text)) == text
    op = loaded.signatures[0].graph.eqns[1].op
    assert isinstance(op, CustomOp)
    assert op.code == code


def test_what_the_file_holds() -> None:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(program()), 0)
    operator = model.subgraphs[0].operators[1]
    code = model.operatorCodes[operator.opcodeIndex]
    assert (code.builtinCode, code.deprecatedBuiltinCode, code.version) == (32, 32, 3)
    assert code.customCode.decode() == "Odd Näme%/x:y"
    assert bytes(operator.customOptions) == DATA
    assert list(operator.inputs[[1, 3]]) == [-1, -1]
    results = [model.subgraphs[0].tensors[i] for i in operator.outputs]
    assert [list(t.shapeSignature) for t in results] == [[-1, 2], [-1]]


def test_one_name_in_two_versions_is_two_codes() -> None:
    both = Program((*program("A", version=1).signatures, *program("A", version=2).signatures))
    keyed = Program(tuple(signature(s.graph, f"key{i}") for i, s in enumerate(both.signatures)))
    assert [row[:2] for row in custom(to_bytes(keyed))] == [("A", 1), ("A", 2)]


def test_files_of_the_official_converter_are_kept() -> None:
    function = tf.function(
        lambda x: tf.raw_ops.StringSplitV2(input=x, sep=",", maxsplit=-1),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    data = bytes(converter.convert())
    model = jfuse.Model(load_tflite(data))
    assert custom(model.to_bytes()) == custom(data)
    found = model(np.array([b"a,b", b"c"], object))  # TensorFlow runs the node that the operator carries
    assert [v.tolist() for v in found.values()] == [[[0, 0], [0, 1], [1, 0]], [b"a", b"b", b"c"], [2, 2]]


def test_the_runtime_alone_knows_other_kernels() -> None:
    with pytest.raises(LowerError, match=r"LiteRT cannot run custom\.Plain(.|\n)*nresolved custom op"):
        jfuse.Model(program("Plain"))(np.zeros((1, 2), np.float32))


def test_results_without_a_rank_stay_so() -> None:
    def change(model: Any) -> None:
        result = model.subgraphs[0].tensors[model.subgraphs[0].operators[1].outputs[0]]
        result.shape, result.shapeSignature, result.hasRank = None, None, False
        result = model.subgraphs[0].tensors[model.subgraphs[0].operators[2].outputs[0]]
        result.shape, result.shapeSignature, result.hasRank = None, None, False

    loaded = load_tflite(changed(change))
    graph = loaded.signatures[0].graph
    assert [str(graph.eqns[i].outputs[0].type) for i in (1, 2)] == ["f32[*]", "f32[*]"]
    check_graph(graph)
    assert str(parse_program(str(loaded))) == str(loaded) == str(load_tflite(to_bytes(loaded)))


def test_options_behind_the_flatbuffer() -> None:
    def change(model: Any) -> None:
        operator = model.subgraphs[0].operators[1]
        operator.customOptions = None
        operator.largeCustomOptionsOffset, operator.largeCustomOptionsSize = place, 4

    place = 1 << 20
    data = changed(change)
    with pytest.raises(BadFlatbuffer, match="options of a custom operator lie beyond the end"):
        load_tflite(data)
    loaded = load_tflite(data.ljust(place, b"\0") + b"abcd")
    assert loaded.signatures[0].graph.eqns[1].params["options"] == b"abcd"
