"""Equations that LiteRT computes: which they are, what they give alone, in a row, in programs, samples and loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import flatbuffers
import jax
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import jfuse
from jfuse.base.errors import JfuseError, LowerError
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, Source, State, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.opaque_ops.custom_options import map_options
from jfuse.opaque_ops.opaque_op import OpaqueOp
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.running.partition import hosted
from jfuse.running.runner import run_equation
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.corpus.quantized import apply, bias, floats, integers, plain, weights
from tests.corpus.whole_file import WholeFile
from tests.kernels.integer.oracles import file_of, in_runtime

B = symbol("B")
X = np.random.default_rng(0).integers(-128, 128, (3, 8)).astype(np.int8)


def chain(batch: Any = B) -> Graph:
    """i8[B,8] -> i8[B*5], i8[B,5]: a product, what it is at length 1, their sum, and the sum as a vector."""
    x, product = integers(batch, 8, zero_point=3), integers(batch, 5, scale=0.1, zero_point=-2)
    squashed, total = integers(batch, 5, scale=1 / 128), integers(batch, 5, scale=0.02)
    eqns = (
        apply(ops.fully_connected, (x, weights(5, 8), bias(5, 0.0005)), product),
        apply(ops.l2_normalization, (product,), squashed),
        apply(ops.add, (squashed, product), total),
        apply(ops.reshape, (total, Const(np.array([-1], np.int32))), flat := integers(batch * 5, scale=0.02)),
    )
    return Graph("main", (x,), eqns, (flat, squashed))


def model_of(graph: Graph) -> Model:
    names = tuple(f"x{i}" for i in range(len(graph.inputs))), tuple(f"y{i}" for i in range(len(graph.outputs)))
    return Model(Program((Signature("serving_default", graph, *names),)))


def litert(graph: Graph, *arrays: np.ndarray) -> list[np.ndarray]:
    """The whole graph in LiteRT."""
    model = model_of(graph)
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    outputs = model.signature().output_names
    return list(WholeFile(to_bytes(model.program)).run("serving_default", inputs, outputs).values())


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def test_neighbours_run_in_one_file() -> None:
    assert names(hosted(chain())) == ["litert.fully_connected+l2_normalization+add", "reshape"]
    assert names(hosted(chain(), singly=True)) == [
        "litert.fully_connected", "litert.l2_normalization", "litert.add", "reshape",
    ]  # fmt: skip


def test_the_runner_tells() -> None:
    runner = model_of(chain()).runner()
    assert runner.hosted == {"fully_connected": 1, "l2_normalization": 1, "add": 1}
    assert runner.untraceable is None
    assert str(runner) == (
        "LiteRT computes what has no kernel for its types, through a host callback: fully_connected (1), "
        "l2_normalization (1), add (1)"
    )


@pytest.mark.parametrize("batch", [1, 3])
def test_as_one_program_and_one_by_one(batch: int) -> None:
    wanted = litert(chain(), X[:batch])
    assert all(map(np.array_equal, model_of(chain())(X[:batch]).values(), wanted))
    seen: list[Eqn] = []
    graph = chain()
    found = evaluate(hosted(graph, singly=True), [X[:batch]], lambda eqn, _: seen.append(eqn))
    assert all(map(np.array_equal, found, wanted))
    assert [eqn.outputs for eqn in seen] == [eqn.outputs for eqn in graph.eqns]


def test_one_equation_by_itself() -> None:
    graph = chain(3)
    product, squash = graph.eqns[:2]
    (found,) = run_equation(product, [X, *(a.array for a in product.inputs if isinstance(a, Const))], {})
    (again,) = run_equation(squash, [found], {})
    assert np.array_equal(again, litert(graph, X)[1])


def test_samples_by_vmap() -> None:
    samples = np.stack([X, X[::-1], -1 - X])
    flat, squashed = jax.jit(jax.vmap(model_of(chain(3)).jax()))(samples)
    wanted = [litert(chain(3), sample) for sample in samples]
    assert np.array_equal(flat, np.stack([w[0] for w in wanted]))
    assert np.array_equal(squashed, np.stack([w[1] for w in wanted]))


def test_scalars_stay_scalars() -> None:
    x, row, size = integers(), integers(8), integers(zero_point=-128)
    place = Var(TensorType((), DType.i64))
    eqns = (
        apply(ops.abs_, (x,), size),
        apply(ops.arg_max, (row, Const(np.array(0, np.int32))), place, output_type=DType.i64),
    )
    model = model_of(Graph("main", (x, row), eqns, (size, place)))
    singles = [litert(model.signature().graph, x[0], x) for x in X]
    for found, wanted in zip((model(x[0], x) for x in X), singles, strict=True):
        assert [(v.shape, int(v)) for v in found.values()] == [((), int(w)) for w in wanted]
    sizes, places = jax.jit(jax.vmap(model.jax()))(X[:, 0], X)
    assert sizes.tolist() == [int(w[0]) for w in singles]
    assert places.tolist() == [int(w[1]) for w in singles]


def test_what_vmap_leaves_alone_is_not_copied() -> None:
    x, y = integers(2, 8), integers(2, 8)
    graph = Graph("main", (x, y), (apply(ops.add, (x, y), z := integers(2, 8, scale=0.06)),), (z,))
    (found,) = jax.vmap(model_of(graph).jax(), in_axes=(0, None))(np.stack([X[:2], X[1:]]), X[:2])
    assert np.array_equal(found, np.stack([litert(graph, rows, X[:2])[0] for rows in (X[:2], X[1:])]))


def test_results_of_64_bits_whatever_the_setting() -> None:
    x = integers(2, 8)
    found = Var(TensorType((2,), DType.i64))
    eqn = apply(ops.arg_max, (x, Const(np.array(1, np.int32))), found, output_type=DType.i64)
    graph = Graph("main", (x,), (eqn,), (found,))
    (result,) = jax.jit(model_of(graph).jax())(X[:2])
    assert result.dtype == np.int64
    assert np.array_equal(result, litert(graph, X[:2])[0])


def test_moves_and_dequantize_need_no_callback() -> None:
    x = integers(2, 8, zero_point=7)
    turned, real = integers(8, 2, zero_point=7), floats(8, 2)
    turn = apply(ops.transpose, (x, Const(np.array([1, 0], np.int32))), turned)
    graph = Graph("main", (x,), (turn, apply(ops.dequantize, (turned,), real)), (real,))
    runner = model_of(graph).runner()
    assert (runner.hosted, str(runner)) == ({}, "one program")
    assert np.array_equal(model_of(graph)(X[:2]), in_runtime(file_of(graph), "xnnpack", [[X[:2]]])[0][0])


def test_a_concatenation_that_changes_scales_is_no_move() -> None:
    u8 = DType.u8
    parts = integers(2, 3, dtype=u8, scale=0.02), integers(2, 5, dtype=u8, scale=0.05)
    eqn = apply(ops.concatenation, parts, joined := integers(2, 8, dtype=u8, scale=0.05), axis=1)
    assert model_of(Graph("main", parts, (eqn,), (joined,))).runner().hosted == {"concatenation": 1}


def test_a_loop_with_integers_inside_runs_whole() -> None:
    def types() -> tuple[Var, Var]:
        return Var(TensorType((), DType.i32)), floats(3, 8)

    (i, x), flag = types(), Var(TensorType((), DType.bool))
    less = Graph("less", (i, x), (apply(ops.less, (i, Const(np.array(4, np.int32))), flag),), (flag,))
    i, x = types()
    after, y, z = Var(i.type), floats(3, 8), floats(3, 8)
    eqns = (
        apply(ops.add, (i, Const(np.array(1, np.int32))), after),
        apply(ops.fully_connected, (x, weights(8, 8), plain(8)), y),
        apply(ops.tanh, (y,), z),
    )
    body = Graph("body", (i, x), eqns, (after, z))
    x, (turns, result) = floats(3, 8), types()
    loop = Eqn(ops.while_, (Const(np.array(0, np.int32)), x), (turns, result), {}, bodies=(less, body))
    graph = Graph("main", (x,), (loop,), (result,))
    model = model_of(graph)
    assert model.runner().hosted == {"fully_connected": 1}
    assert names(hosted(graph)) == ["litert.while"]
    given = X.astype(np.float32) / 50
    assert np.array_equal(model(given), litert(graph, given)[0])


def test_states_are_operands_and_results() -> None:
    state, after, x, y = floats(2, 48), floats(2, 48), floats(2, 5), floats(2, 4)
    eqn = apply(ops.svdf, (x, weights(8, 5), weights(8, 6), None, state), y, after, rank=2)
    graph = Graph("main", (x, state), (eqn,), (y, after))
    function = model_of(graph).jax()
    whole = WholeFile(to_bytes(_with_state(graph)))
    held = np.zeros((2, 48), np.float32)
    for seed in range(3):
        given = np.random.default_rng(seed).normal(size=(2, 5)).astype(np.float32)
        found, held = function(given, held)
        assert np.array_equal(found, whole.run("serving_default", {"x0": given}, ["y0"])["y0"])


def _with_state(graph: Graph) -> Program:
    (signature,) = model_of(graph).program.signatures
    kept = State("memory", Const(np.zeros((2, 48), np.float32)), "tensor")
    return Program((replace(signature, input_names=("x0",), output_names=("y0",), states=(kept,)),))


def test_custom_operators_of_the_runtime() -> None:
    boxes, scores = floats(1, 6, 4), floats(1, 6, 3)
    results = floats(1, 4, 4), floats(1, 4), floats(1, 4), floats(1)
    options = {"max_detections": 4, "max_classes_per_detection": 1, "num_classes": 2, "use_regular_nms": False}
    scales = {f"{side}_scale": 10.0 for side in "xyhw"}
    thresholds = {"nms_score_threshold": 0.1, "nms_iou_threshold": 0.5}
    params = {"options": map_options({**options, **scales, **thresholds}), "version": 1}
    op = CustomOp("TFLite_Detection_PostProcess", tuple(var.type for var in results))
    anchors = Const(np.random.default_rng(0).uniform(0.2, 0.8, (6, 4)).astype(np.float32))
    graph = Graph("main", (boxes, scores), (Eqn(op, (boxes, scores, anchors), results, params),), results)
    rng = np.random.default_rng(0)
    given = [rng.uniform(-1, 1, (1, 6, 4)).astype(np.float32), rng.random((1, 6, 3)).astype(np.float32)]
    model = model_of(graph)
    assert model.runner().hosted == {"custom.TFLite_Detection_PostProcess": 1}
    assert all(map(np.array_equal, model(*given).values(), litert(graph, *given)))


def test_builtins_that_the_runtime_alone_knows() -> None:
    x, y, z = floats(2, 3), floats(2, 3), floats(2, 3)
    graph = Graph("main", (x, y), (Eqn(OpaqueOp("STABLEHLO_ADD", (z.type,)), (x, y), (z,), {"options": b""}),), (z,))
    model, ones = model_of(graph), np.ones((2, 3), np.float32)
    assert model.runner().hosted == {"opaque.stablehlo_add": 1}
    assert np.array_equal(model(ones, 2 * ones), 3 * ones)


def test_what_litert_refuses_is_an_error_with_the_place() -> None:
    x, y = floats(2, 3), floats(2, 3)
    eqn = Eqn(CustomOp("Nobody", (y.type,)), (x,), (y,), {"options": b"", "version": 1}, Source("layer/node"))
    model = model_of(Graph("main", (x,), (eqn,), (y,)))
    with pytest.raises(LowerError, match=r"LiteRT cannot run custom.Nobody.* at layer/node") as failure:
        model(np.zeros((2, 3), np.float32))
    assert "unresolved custom op: Nobody" in str(failure.value)


def test_operands_that_litert_refuses() -> None:
    ids, y = Var(TensorType((2,), DType.i32)), floats(2, 6)
    eqn = replace(apply(ops.embedding_lookup, (ids, weights(9, 6)), y), source=Source("layer/lookup"))
    model = model_of(Graph("main", (ids,), (eqn,), (y,)))
    assert model(np.array([1, 8], np.int32)).shape == (2, 6)
    with pytest.raises(JfuseError, match=r"LiteRT does not run this at layer/lookup") as failure:
        model(np.array([1, 9], np.int32))
    assert "index out of bounds" in str(failure.value)


def test_equal_equations_share_an_interpreter() -> None:
    graph = load_tflite(to_bytes(model_of(chain()).program)).signatures[0].graph
    op = hosted(graph).eqns[0].op
    again = hosted(chain()).eqns[0].op
    one, other, wide = (o._call([(n, 8)]) for o, n in ((op, 3), (again, 3), (op, 5)))  # type: ignore[attr-defined]
    assert one is other
    assert one is not wide


def test_quantized_files_verify_exactly_and_say_how() -> None:
    data = to_bytes(model_of(chain()).program)
    found = jfuse.verify(data, data)
    assert {d.error for d in found.differences} == {0.0}
    assert any("LiteRT computes what has no kernel" in note for note in found.notes)
    assert any("LiteRT ran without XNNPACK" in note for note in found.notes)


def test_files_without_signatures_can_be_called() -> None:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(model_of(chain()).program), 0)
    model.signatureDefs = []
    builder = flatbuffers.Builder(2**12)
    builder.Finish(model.Pack(builder), b"TFL3")
    data = bytes(builder.Output())
    assert {d.error for d in jfuse.verify(data, data).differences} == {0.0}


def test_a_loaded_file_tells_how_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(to_bytes(model_of(chain()).program))
    (note,) = jfuse.load(path).report.notes
    assert note.endswith("fully_connected (1), l2_normalization (1), add (1)")
