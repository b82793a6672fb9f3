"""Integers throughout: parameters, what shares them, what stays float and why. The oracle is LiteRT on floats."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import if_, while_
from jfuse.model import Model
from jfuse.quantization.real_numbers.numbers import as_integers, as_real
from jfuse.quantization.recipe import QuantizeRule, Recipe
from tests.passes.quantize.models import (
    calibrated,
    drawn,
    eqns_of,
    in_litert,
    names_of,
    program_of,
    quantization,
    quantized,
    snr_db,
)
from tests.slow import slow_but

INT8 = Recipe.named("int8")
X = TensorType((2, 8, 8, 4), DType.f32)
ROWS = TensorType((3, 16), DType.f32)
CONV = {"padding": "SAME", "stride_w": 1, "stride_h": 1}


def _network(x: Any) -> Any:
    """A convolution, a depthwise one, a skip, a pool, gates and a classifier."""
    h = ops.conv_2d(x, drawn(8, 3, 3, 4), drawn(8), fused_activation_function="RELU", **CONV)
    y = ops.depthwise_conv_2d(h, drawn(1, 3, 3, 8), drawn(8), depth_multiplier=1, **CONV)
    y = ops.add(ops.mul(y, ops.logistic(h)), np.float32(0.5))
    y = ops.max_pool_2d(y, padding="VALID", stride_w=2, stride_h=2, filter_width=2, filter_height=2)
    rows = ops.reshape(y, np.array([2, 128], np.int32))
    return ops.tanh(ops.fully_connected(rows, drawn(6, 128, scale=0.02), drawn(6)))


NETWORK = program_of(_network, X)
CALLS = [{"x0": drawn(2, 8, 8, 4, seed=i)} for i in range(6)]


def _snr(model: Model, program: Program, calls: Any = CALLS) -> float:
    """The worse of LiteRT with its delegates and without."""
    wanted = np.stack(in_litert(quantized(program, None), calls, delegates=True))
    return min(snr_db(np.stack(in_litert(model, calls, delegates=d)), wanted) for d in (True, False))


def _of_rows(function: Callable[..., Any], calls: int = 4) -> tuple[Program, list[Any]]:
    return program_of(function, ROWS), [{"x0": drawn(3, 16, seed=i)} for i in range(calls)]


SLOW = pytest.mark.slow


@cache
def _network_in(recipe: str) -> Model:
    return calibrated(NETWORK, Recipe.named(recipe), CALLS)


@pytest.mark.parametrize(
    ("recipe", "at_least_db"),
    [("int8", 27), pytest.param("int16x8", 38, marks=SLOW), pytest.param("npu_symmetric", 25, marks=SLOW)],
)
def test_a_network_in_integers(recipe: str, at_least_db: float) -> None:
    model = _network_in(recipe)
    names = names_of(model.program)
    assert (names[0], names[-1]) == ("quantize", "dequantize")
    assert not {"quantize", "dequantize"} & set(names[1:-1])
    assert not any(q.reason for q in model.report.quantized)
    assert _snr(model, NETWORK) > at_least_db


def test_parameters_are_those_of_the_ranges_and_of_the_kernels() -> None:
    model = _network_in("int8")
    quantize, conv, *_ = eqns = eqns_of(model.program)
    x = np.stack([call["x0"] for call in CALLS])
    given = quantization(quantize.outputs[0])
    assert given.scale[0] == pytest.approx((x.max() - x.min()) / 255, rel=1e-6)
    assert given.zero_point[0] == round(-128 - x.min() / given.scale[0])
    weights, bias = conv.inputs[1], conv.inputs[2]
    assert (len(quantization(weights).scale), quantization(weights).axis) == (8, 0)
    np.testing.assert_allclose(quantization(bias).scale, given.scale[0] * np.array(quantization(weights).scale), 1e-6)
    assert bias.type.dtype is DType.i32  # type: ignore[union-attr]
    by_name = {e.op.name: quantization(e.outputs[0]) for e in eqns[1:-1]}
    assert (by_name["logistic"].scale, by_name["logistic"].zero_point) == ((1 / 256,), (-128,))
    assert (by_name["tanh"].scale, by_name["tanh"].zero_point) == ((1 / 128,), (0,))
    assert by_name["max_pool_2d"] == by_name["add"] == by_name["reshape"]


def test_values_that_are_nearly_zero_in_all_samples_run_in_litert() -> None:
    """A layer that is dead: LiteRT refused a RELU6 whose 6 is more than 2^31 of the result's steps."""

    def net(x: Any) -> Any:
        hidden = ops.fully_connected(x, drawn(64, 16, scale=1e-9), None, fused_activation_function="RELU6")
        return ops.fully_connected(hidden, drawn(16, 64), np.ones(16, np.float32))

    calls = [{"x0": drawn(3, 16, seed=i)} for i in range(2)]
    for found in in_litert(calibrated(program_of(net, ROWS), INT8, calls), calls, delegates=False):
        np.testing.assert_allclose(found, 1, atol=0.01)


@SLOW
def test_symmetric_activations_have_no_zero_point() -> None:
    free = [e for e in eqns_of(_network_in("npu_symmetric").program)[:-1] if e.op.name != "logistic"]
    assert {quantization(e.outputs[0]).zero_point for e in free} == {(0,)}


BOUNDARIES = [(recipe, dtype) for recipe in ("int8", "int16x8") for dtype in ("int8", "uint8", "int16")]
"""Recipes, and types of inputs and outputs; the recipe's own type or another one."""


@pytest.mark.parametrize(
    ("recipe", "dtype"), slow_but({("int8", "uint8"), ("int16x8", "int8")}.__contains__, BOUNDARIES)
)
def test_inputs_and_outputs_of_integers(recipe: str, dtype: str) -> None:
    program, calls = _of_rows(lambda x: ops.relu(ops.fully_connected(x, drawn(8, 16), None)))
    model = calibrated(program, Recipe.named(recipe, inputs=dtype, outputs=dtype), calls)
    (signature,) = model.program.signatures
    x, y = signature.graph.inputs[0].type, signature.graph.outputs[0].type
    assert (x.dtype.numpy.name, y.dtype.numpy.name) == (dtype, dtype)
    if recipe == "int8" and dtype != "int16":
        assert quantization(signature.graph.outputs[0]).zero_point == ({"int8": -128, "uint8": 0}[dtype],)
    (found,) = in_litert(model, [{"x0": as_integers(calls[0]["x0"], x)}], delegates=True)
    (wanted,) = in_litert(quantized(program, None), calls[:1], delegates=True)
    assert snr_db(as_real(found, y.quantization), wanted) > (40 if (recipe, dtype) == ("int16x8", "int16") else 28)


def test_what_has_no_kernel_stays_float_or_is_refused() -> None:
    program, calls = _of_rows(lambda x: ops.fully_connected(ops.sin(ops.mul(x, np.float32(2))), drawn(8, 16), None))
    model = calibrated(program, INT8, calls)
    names = ["quantize", "mul", "dequantize", "sin", "quantize", "fully_connected", "dequantize"]
    assert names_of(model.program) == names
    (line,) = [q for q in model.report.quantized if q.form == "float"]
    assert (line.op, line.reason) == ("sin", "the runtime has no kernel for i8")
    assert _snr(model, program, calls) > 25
    with pytest.raises(LowerError, match=r"1 operators have no kernel of integers(.|\n)*sin at(.|\n)*int8_only=False"):
        calibrated(program, Recipe.named("micro"), calls)


def test_what_only_moves_between_floats_stays_float() -> None:
    program, calls = _of_rows(lambda x: ops.sin(ops.reshape(ops.cos(x), np.array([6, 8], np.int32))))
    assert names_of(calibrated(program, INT8, calls).program) == ["cos", "reshape", "sin"]


@SLOW
def test_a_narrow_value_is_quantized_anew_for_a_wide_neighbour() -> None:
    def function(x: Any) -> Any:
        narrow = ops.mul(x, np.float32(0.01))
        return ops.add(ops.concatenation(narrow, x, axis=1), ops.concatenation(narrow, narrow, axis=1))

    program, calls = _of_rows(function)
    model = calibrated(program, INT8, calls)
    assert names_of(model.program).count("quantize") == 2
    joined = [e for e in eqns_of(model.program) if e.op.name == "concatenation"]
    for eqn in joined:
        assert {quantization(a) for a in eqn.inputs} == {quantization(eqn.outputs[0])}


@SLOW
def test_padding_that_stands_for_infinity_leaves_the_range_alone() -> None:
    lowest = np.float32(np.finfo(np.float32).min)

    def function(x: Any) -> Any:
        padded = ops.padv2(x, np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), lowest)
        return ops.max_pool_2d(padded, padding="VALID", stride_w=1, stride_h=1, filter_width=3, filter_height=3)

    program = program_of(lambda x: ops.mul(function(ops.add(x, np.float32(1))), np.float32(2)), X)
    assert _snr(calibrated(program, INT8, CALLS), program) > 35


@SLOW
def test_a_bias_that_its_type_cannot_hold_enlarges_the_scale_of_the_weights() -> None:
    weights, bias = drawn(8, 16), drawn(8)
    weights[3] *= 1e-8
    bias[3] = 40
    program, calls = _of_rows(lambda x: ops.fully_connected(x, weights, bias))
    model = calibrated(program, INT8, calls)
    assert np.abs(eqns_of(model.program)[1].inputs[2].array).max() < 2**31 - 1  # type: ignore[union-attr]
    assert _snr(model, program, calls) > 40


FEATURES = np.array([1e5, 1e-2, 1e-2, 1e-2] * 4, np.float32)
PRODUCTS = {
    "FULLY_CONNECTED": lambda x: ops.fully_connected(x, drawn(8, 16) / FEATURES, drawn(8)),
    "CONV_2D": lambda x: ops.conv_2d(_places(x), drawn(8, 1, 1, 16) / FEATURES, drawn(8), **CONV),
    "TRANSPOSE_CONV": lambda x: ops.transpose_conv(
        [3, 1, 1, 8], drawn(8, 1, 1, 16) / FEATURES, _places(x), None, padding="SAME", stride_w=1, stride_h=1
    ),
    "DEPTHWISE_CONV_2D": lambda x: ops.depthwise_conv_2d(
        _places(x), drawn(1, 3, 3, 16) / FEATURES, drawn(16), depth_multiplier=1, **CONV
    ),
}


def _places(x: Any) -> Any:
    return ops.reshape(x, np.array([3, 1, 1, 16], np.int32))


@pytest.mark.parametrize("recipe", ["int8", "int16x8"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_steps_far_larger_than_those_of_the_result_stay_float(name: str, recipe: str) -> None:
    """XNNPACK refuses to allocate what would be multiplied by 256 and more."""
    program, calls = program_of(PRODUCTS[name], ROWS), [{"x0": drawn(3, 16, seed=i) * FEATURES} for i in range(4)]
    model = calibrated(program, Recipe.named(recipe), calls)
    assert any("ranges so unlike" in line.reason for line in model.report.quantized)
    assert _snr(model, program, calls) > 100


def test_products_with_steps_a_little_larger_than_those_of_the_result_are_integers() -> None:
    features = np.array([10, 1, 1, 1] * 4, np.float32)
    program = program_of(lambda x: ops.fully_connected(x, drawn(8, 16) / features, drawn(8)), ROWS)
    model = calibrated(program, INT8, [{"x0": drawn(3, 16, seed=i) * features} for i in range(4)])
    assert "i8 activations" in {line.form for line in model.report.quantized if line.op == "fully_connected"}


@SLOW
@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.add(ops.mul(x, np.float32(0)), np.float32(0)),
        lambda x: ops.fully_connected(x, np.zeros((8, 16), np.float32), np.full(8, 3, np.float32)),
        lambda x: ops.sub(ops.add(x, np.float32(1e4)), np.float32(1e4)),
        lambda x: ops.add(ops.mul(x, np.float32(1e-20)), ops.mul(x, np.float32(1e-30))),
    ],
)
def test_zeros_constants_and_numbers_far_apart_survive(function: Callable[..., Any]) -> None:
    program, calls = _of_rows(function)
    for delegates in (True, False):
        found = in_litert(calibrated(program, INT8, calls), calls, delegates=delegates)
        wanted = in_litert(quantized(program, None), calls, delegates=delegates)
        assert np.abs(np.stack(found) - np.stack(wanted)).max() <= max(0.02 * np.abs(wanted).max(), 1e2)


def test_truth_values_become_integers_without_floats() -> None:
    """A CAST of them, which has no kernel of integers, as in a mean over the steps of a mask."""

    def call(x: Any) -> Any:
        return ops.mul(x, ops.cast(ops.greater(x, np.float32(0.3)), out_data_type=DType.f32))

    program, calls = _of_rows(call)
    model = calibrated(program, INT8, calls)
    assert "cast" not in names_of(model.program)
    assert _snr(model, program, calls) > 30


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_has_a_spelling_where_no_kernel_of_sixteen_bits_is(approximate: bool) -> None:
    program, calls = _of_rows(lambda x: ops.gelu(x, approximate=approximate))
    model = calibrated(program, Recipe.named("int16x8"), calls)
    assert "gelu" not in names_of(model.program)
    assert _snr(model, program, calls) > 60


COMPARED = {
    "with a number": lambda x: ops.greater(x, np.float32(0.3)),
    "of other scales": lambda x: ops.less(ops.tanh(x), ops.mul(x, np.float32(3))),
    "equal": lambda x: ops.equal(ops.relu(x), np.float32(0)),
}


@pytest.mark.parametrize("compare", COMPARED.values(), ids=COMPARED)
def test_words_are_compared_in_one_scale(compare: Callable[..., Any]) -> None:
    """LiteRT compares i16 as they are, whatever their scales."""
    program, calls = _of_rows(lambda x: compare(ops.mul(x, np.float32(0.9))))
    model = calibrated(program, Recipe.named("int16x8"), calls)
    last = eqns_of(model.program)[-1]
    assert {a.type.dtype for a in last.inputs} == {DType.i16}  # type: ignore[union-attr]
    for delegates in (True, False):
        found = in_litert(model, calls, delegates=delegates)
        wanted = in_litert(quantized(program, None), calls, delegates=delegates)
        assert np.mean(np.stack(found) == np.stack(wanted)) > 0.99


SPELLED: dict[str, Callable[..., Any]] = {
    "ELU": lambda x: ops.elu(ops.mul(x, np.float32(2))),
    "PRELU": lambda x: ops.prelu(x, drawn(16)),
    "RELU_0_TO_1": ops.relu_0_to_1,
    "RELU_N1_TO_1": ops.relu_n1_to_1,
    "SUM": lambda x: ops.sum_(x, np.array([-1], np.int32)),
}


SPELLED |= {
    "DEPTH_TO_SPACE": lambda x: ops.depth_to_space(ops.reshape(x, np.array([1, 3, 4, 4], np.int32)), block_size=2),
    "SPACE_TO_DEPTH": lambda x: ops.space_to_depth(ops.reshape(x, np.array([1, 4, 6, 2], np.int32)), block_size=2),
}


@pytest.mark.parametrize("name", SPELLED)
def test_what_has_no_kernel_of_sixteen_bits_is_spelled_in_those_that_have(name: str) -> None:
    program, calls = _of_rows(lambda x: SPELLED[name](ops.mul(x, np.float32(0.9))))
    model = calibrated(program, Recipe.named("int16x8"), calls)
    assert name not in {eqn.op.builtin for eqn in eqns_of(model.program)}
    assert names_of(model.program).count("dequantize") == 1
    assert _snr(model, program, calls) > 70


@SLOW
def test_roots_of_what_could_be_negative_stay_float() -> None:
    program, calls = _of_rows(lambda x: ops.sqrt(ops.add(ops.mul(x, x), np.float32(1))))
    assert "dequantize" == names_of(calibrated(program, INT8, calls).program)[-1]
    assert _snr(calibrated(program, INT8, calls), program, calls) > 30
    shared, calls = _of_rows(lambda x: ops.sqrt(ops.abs_(x)))
    refused = calibrated(shared, Recipe.named("int16x8"), calls)
    assert {q.op: q.form for q in refused.report.quantized}["sqrt"] == "float"


@SLOW
def test_rules_mix_eight_and_sixteen_bits_and_float() -> None:
    recipe = Recipe(
        (
            QuantizeRule("integer"),
            QuantizeRule("integer", op="TANH", activation_bits=16),
            QuantizeRule("float", op="MUL"),
        )
    )
    program, calls = _of_rows(lambda x: ops.mul(ops.tanh(ops.fully_connected(x, drawn(8, 16), None)), np.float32(3)))
    model = calibrated(program, recipe, calls)
    assert names_of(model.program) == ["quantize", "fully_connected", "quantize", "tanh", "dequantize", "mul"]
    assert [str(e.outputs[0].type.dtype.value) for e in eqns_of(model.program)] == [
        "i8",
        "i8",
        "i16",
        "i16",
        "f32",
        "f32",
    ]
    assert _snr(model, program, calls) > 28


def test_a_branch_that_no_sample_takes_stays_float_and_says_so() -> None:
    def graph(function: Callable[..., Any]) -> Any:
        return program_of(function, ROWS).signatures[0].graph

    weights = drawn(16, 16)
    bodies = (
        graph(lambda x: ops.fully_connected(x, weights, None)),
        graph(lambda x: ops.fully_connected(x, -weights, None)),
    )
    program = program_of(lambda c, x: if_([c, x], bodies)[0], TensorType((), DType.bool), ROWS)
    calls = [{"x0": np.array(True), "x1": drawn(3, 16, seed=i)} for i in range(3)]
    model = calibrated(program, INT8, calls)
    taken, other = eqns_of(model.program)[0].bodies
    assert [e.op.name for e in taken.eqns] == ["quantize", "fully_connected", "dequantize"]
    assert [e.op.name for e in other.eqns] == ["fully_connected"]
    assert "no calibration call computed it" in " ".join(map(str, model.report.quantized))
    assert _snr(model, program, calls) > 28


@SLOW
def test_a_loop_computes_in_integers_inside() -> None:
    weights = drawn(16, 16, scale=0.2)

    def body(i: Any, h: Any) -> Any:
        return ops.add(i, np.int32(1)), ops.tanh(ops.fully_connected(h, weights, None))

    types = [TensorType((), DType.i32), ROWS]
    graphs = (
        program_of(lambda i, h: ops.less(i, np.int32(3)), *types).signatures[0].graph,
        program_of(body, *types).signatures[0].graph,
    )
    program = program_of(lambda n, x: while_([n, x], graphs)[1], *types)
    calls = [{"x0": np.array(0, np.int32), "x1": drawn(3, 16, seed=i)} for i in range(4)]
    model = calibrated(program, INT8, calls)
    assert "fully_connected: i8 activations" in " ".join(map(str, model.report.quantized))
    assert _snr(model, program, calls) > 25


@SLOW
def test_infinities_in_calibration_and_in_weights_are_named() -> None:
    program, calls = _of_rows(lambda x: ops.fully_connected(ops.log(ops.relu(x)), drawn(8, 16), None))
    model = calibrated(program, INT8, calls)
    assert any("infinities" in note for note in model.report.notes)
    broken = drawn(8, 16)
    broken[0, 0] = np.nan
    program, calls = _of_rows(lambda x: ops.fully_connected(x, broken, None))
    kept = calibrated(program, INT8, calls)
    assert "holds NaNs or infinities" in str(kept.report.quantized[0])


@SLOW
def test_integers_that_a_file_holds_already_stay() -> None:
    model = _network_in("int8")
    for again in (quantized(model.program, INT8), calibrated(model.program, INT8, CALLS)):
        assert names_of(again.program) == names_of(model.program)


@SLOW
@pytest.mark.parametrize(
    "masked",
    [
        lambda x, m: ops.select_v2(m > 0, x, np.float32(-1e9)),
        lambda x, m: ops.add(x, np.where(m > 0, np.float32(0), np.float32(-1e9))),
    ],
)
def test_a_mask_leaves_the_logits_their_steps(masked: Callable[..., Any]) -> None:
    mask = np.tri(8, dtype=np.float32)
    square = TensorType((3, 8, 8), DType.f32)
    program = program_of(lambda x: ops.softmax(masked(ops.mul(x, np.float32(1.5)), mask), beta=1.0), square)
    calls = [{"x0": drawn(3, 8, 8, seed=i)} for i in range(4)]
    assert _snr(calibrated(program, INT8, calls), program, calls) > 30
    found = in_litert(calibrated(program, INT8, calls), calls, delegates=True)
    assert not np.stack(found)[..., mask == 0].any()


@SLOW
def test_a_far_number_that_no_softmax_reads_keeps_its_range() -> None:
    program, calls = _of_rows(
        lambda x: ops.add(ops.mul(x, np.float32(0.1)), np.linspace(-1e6, 0, 16, dtype=np.float32))
    )
    assert _snr(calibrated(program, INT8, calls), program, calls) > 40


@pytest.mark.parametrize(
    "bounded",
    [lambda x: ops.minimum(x, np.float32(1e6)), lambda x: ops.maximum(np.float32(-1e6), x)],
    ids=["minimum", "maximum"],
)
@pytest.mark.parametrize("recipe", ["int8", "int16x8", "npu_symmetric"])
def test_a_bound_that_is_never_reached_takes_no_steps(bounded: Callable[..., Any], recipe: str) -> None:
    program, calls = _of_rows(lambda x: ops.tanh(bounded(ops.mul(x, np.float32(1.5)))))
    assert _snr(calibrated(program, Recipe.named(recipe), calls), program, calls) > 30


def test_a_bound_that_is_reached_cuts_off() -> None:
    program, calls = _of_rows(lambda x: ops.minimum(ops.mul(x, np.float32(1.5)), np.float32(0.5)))
    model = calibrated(program, INT8, calls)
    assert _snr(model, program, calls) > 30
    assert np.stack(in_litert(model, calls, delegates=True)).max() == pytest.approx(0.5, abs=0.02)


def test_what_has_no_elements_needs_no_range() -> None:
    """Keras splits the weights of a GRU, and what is left is empty: nothing calibrates it."""

    def parts(x: Any) -> Any:
        first, second, _ = ops.split_v(ops.tanh(x), np.array([8, 8, 0], np.int32), np.int32(1))
        return ops.mul(first, second)

    program, calls = _of_rows(parts)
    model = calibrated(program, Recipe.named("micro"), calls)
    assert not [q for q in model.report.quantized if q.reason]


@pytest.mark.parametrize(("is_read", "products"), [(False, 2), (True, 3)], ids=["the product alone", "others, too"])
def test_scales_that_spellings_leave_are_in_the_weights_behind_them(is_read: bool, products: int) -> None:
    """HARD_SWISH in 16 bits ends with a product with 0.5, which weights can have."""

    def swish(x: Any) -> Any:
        y = ops.hard_swish(x)
        found = ops.fully_connected(y, drawn(4, 16), drawn(4))
        return (found, ops.tanh(y)) if is_read else found

    program, calls = _of_rows(swish)
    result = calibrated(program, Recipe.named("int16x8"), calls)
    assert names_of(result.program).count("mul") == products
    assert "hard_swish" not in names_of(result.program)
    assert _snr(result, program, calls) > 45  # weights of 8 bits
