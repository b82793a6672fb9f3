"""Weights in few bits: which kernels take them as they are, where DEQUANTIZE stands, and how near the answers are.

The oracle is LiteRT on the float file; bounds of the SNR are those that the bits allow: about 6 dB a bit, less the
head room of a normal distribution below its largest of some thousand numbers (11 dB), less the bits of inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Const, Eqn, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.passes.quantize.arrays import weights_in
from jfuse.passes.quantize.forms import ONE_SCALE
from jfuse.quantization.recipe import QuantizeRule, Recipe
from tests.passes.quantize.models import drawn, eqns_of, in_litert, mlp, names_of, program_of, quantized, snr_db

X = TensorType((5, 32), DType.f32)
MLP = program_of(mlp, X)
CALLS = [{"x0": drawn(5, 32, scale=s, seed=i)} for i, s in enumerate((1, 4, 1, 2, 1, 3))]


def _weights(eqn: Eqn) -> tuple[str, int]:
    """Type and number of scales of the weights of FULLY_CONNECTED."""
    t = eqn.inputs[1].type  # type: ignore[union-attr]
    q = t.quantization
    return t.dtype.value, 0 if q is None else len(q.scale) or len(q.block_scale)


@pytest.mark.parametrize(
    ("recipe", "at_least_db"),
    [("float16", 65), ("dynamic", 32), ("int8_weights", 38), ("int4_weights", 16), ("int4_blocks", 17)],
)
def test_answers_are_as_near_as_the_bits_allow(recipe: str, at_least_db: float) -> None:
    wanted = np.stack(in_litert(quantized(MLP, None), CALLS, delegates=True))
    model = quantized(MLP, Recipe.named(recipe))
    for delegates in (True, False):
        found = np.stack(in_litert(model, CALLS, delegates=delegates))
        assert snr_db(found, wanted) > at_least_db
    assert snr_db(np.roll(found, 1, axis=1), wanted) < 5  # the test sees wrong rows
    assert len(model.to_bytes()) < 0.75 * len(quantized(MLP, None).to_bytes())


def test_dynamic_hands_integers_to_the_kernel() -> None:
    model = quantized(MLP, Recipe.named("dynamic"))
    first, second, last = eqns_of(model.program)
    assert _weights(first) == ("i8", 64)
    assert _weights(second) == ("i8", 48)
    assert _weights(last) == ("f32", 0)  # 768 elements
    assert first.params["asymmetric_quantize_inputs"] is True
    assert last.params["asymmetric_quantize_inputs"] is False
    integer, floats = sorted(model.report.quantized, key=lambda line: -line.count)
    assert str(integer) == "2 fully_connected: i8 weights"
    assert (floats.form, floats.reason) == ("float", "its weights have fewer than 1024 elements")


def test_weights_only_stand_behind_dequantize() -> None:
    names = names_of(quantized(MLP, Recipe.named("int8_weights")).program)
    assert names == ["dequantize", "fully_connected", "dequantize", "fully_connected", "fully_connected"]
    halves = eqns_of(quantized(MLP, Recipe.named("float16")).program)
    of_halves = [e.inputs[0].type for e in halves if e.op.name == "dequantize"]  # type: ignore[union-attr]
    assert [str(t) for t in of_halves] == ["f16[64,32]", "f16[48,64]", "f16[16,48]"]


def test_weights_of_one_element_for_each_channel_stay_float() -> None:
    """A norm before an activation: its scales would take more bytes, and the kernel would round what it reads."""
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "depth_multiplier": 1, "dilation_w_factor": 1}
    options |= {"dilation_h_factor": 1, "fused_activation_function": "RELU"}

    def norm(size: int) -> Any:
        weights = drawn(1, size, size, 2048)
        return lambda x: ops.depthwise_conv_2d(x, weights, drawn(2048), **options)

    kinds = {}
    for size in (1, 3):
        model = quantized(program_of(norm(size), TensorType((1, 4, 4, 2048), DType.f32)), Recipe.named("dynamic"))
        kinds[size] = [(q.form, q.reason) for q in model.report.quantized]
    assert kinds == {1: [("float", "its weights have one element for each channel")], 3: [("i8 weights", "")]}


def test_rules_choose_by_name_and_kind_and_granularity() -> None:
    recipe = Recipe((QuantizeRule("dynamic", op="FULLY_CONNECTED", granularity="tensor"),))
    first, *_ = eqns_of(quantized(MLP, recipe).program)
    assert _weights(first) == ("i8", 1)
    assert names_of(quantized(MLP, Recipe((QuantizeRule("dynamic", op="CONV_2D"),))).program) == ["fully_connected"] * 3
    blocks = Recipe((QuantizeRule("dynamic", weight_bits=4, granularity="block", block_size=32),))
    assert _weights(eqns_of(quantized(MLP, blocks).program)[1]) == ("i4", 96)


def test_rows_that_blocks_do_not_divide_have_a_scale_for_each_channel() -> None:
    recipe = Recipe((QuantizeRule("dynamic", weight_bits=4, granularity="block", block_size=64, min_elements=0),))
    first, second, last = eqns_of(quantized(MLP, recipe).program)
    assert [_weights(e) for e in (first, second, last)] == [("i4", 64), ("i4", 48), ("i4", 16)]
    assert second.inputs[1].type.quantization.block_size == 64  # type: ignore[union-attr]
    assert first.inputs[1].type.quantization.block_size == 0  # type: ignore[union-attr]


def test_a_table_is_read_in_integers() -> None:
    ids = TensorType((3,), DType.i32)
    rows = drawn(40, 32)
    program = program_of(lambda i: ops.mul(ops.gather(rows, i, axis=0, batch_dims=0), np.float32(2)), ids)
    model = quantized(program, Recipe.named("dynamic"))
    assert names_of(model.program) == ["gather", "dequantize", "mul"]
    assert [(q.form, q.reason) for q in model.report.quantized] == [("i8 weights", ONE_SCALE)]
    for delegates in (True, False):
        (found,) = in_litert(model, [{"x0": np.array([3, 39, 0], np.int32)}], delegates=delegates)
        np.testing.assert_allclose(found, 2 * rows[[3, 39, 0]], atol=np.abs(rows).max() / 127 * 1.001)


def test_weights_of_loops_are_quantized_once_for_all_that_share_them() -> None:
    shared = drawn(32, 32, scale=0.1)

    def loop(n: Any, x: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            return ops.add(i, np.int32(1)), ops.fully_connected(h, shared, None)

        types = [TensorType((), DType.i32), X]
        bodies = (
            program_of(lambda i, h: ops.less(i, np.int32(3)), *types).signatures[0].graph,
            program_of(body, *types).signatures[0].graph,
        )
        return ops.fully_connected(while_([n, x], bodies)[1], shared, None)

    program = program_of(loop, TensorType((), DType.i32), X)
    model = quantized(program, Recipe.named("dynamic"))
    weights = {e.inputs[1] for e in eqns_of(model.program) if e.op.name == "fully_connected"}
    assert len(weights) == 1
    assert str(next(iter(weights)).type).startswith("i8[32,32]")  # type: ignore[union-attr]
    calls = [{"x0": np.array(0, np.int32), "x1": drawn(5, 32)}] * 3
    wanted = in_litert(quantized(program, None), calls, delegates=True)
    assert snr_db(np.stack(in_litert(model, calls, delegates=True)), np.stack(wanted)) > 25


def test_weights_without_numbers_stay_float_and_are_named() -> None:
    broken = drawn(64, 32)
    broken[3, 4] = np.inf
    program = program_of(lambda x: ops.fully_connected(x, broken, None), X)
    model = quantized(program, Recipe.named("dynamic"))
    assert names_of(model.program) == ["fully_connected"]
    assert "its weights hold NaNs or infinities" in str(model.report.quantized[0])
    large = program_of(lambda x: ops.fully_connected(x, drawn(64, 32, scale=1e6), None), X)
    assert names_of(quantized(large, Recipe.named("float16")).program) == ["fully_connected"]


def test_channels_of_zeros_and_the_scale_of_least_error() -> None:
    array = drawn(3, 500)
    array[1] = 0
    array[2, 0] = 40  # one weight far from all others
    plain, fitted = (
        weights_in(Const(array), QuantizeRule("dynamic", weight_bits=4, weight_algorithm=a), "channel")
        for a in ("minmax", "mse")
    )
    assert plain.quantization is not None
    assert fitted.quantization is not None
    assert all(0 < s < np.inf for s in plain.quantization.scale)
    assert not plain.array[1].any()

    def error(const: Const) -> float:
        scale = np.array(const.quantization.scale)[:, None]  # type: ignore[union-attr]
        return float(np.square(const.array.astype(np.float32) * scale - array).sum())

    assert error(fitted) < error(plain)


def test_an_integer_recipe_asks_for_calibration() -> None:
    with pytest.raises(Exception, match=r"calibration=(.|\n)*random"):
        quantized(MLP, Recipe.named("int8"))


def test_variables_of_a_graph_are_not_taken_for_weights() -> None:
    program = program_of(lambda x, w: ops.fully_connected(x, w, None), X, TensorType((64, 32), DType.f32))
    model = quantized(program, Recipe.named("dynamic"))
    (eqn,) = eqns_of(model.program)
    assert isinstance(eqn.inputs[1], Var)
