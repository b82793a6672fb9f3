"""Integer bodies against LiteRT and tflite-micro, in every bit: drawn shapes, scales and zero points, and extremes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np
import pytest

from jfuse.ir.graph import Const
from jfuse.kernels import ops
from jfuse.kernels.core.integer_types import Rounding
from jfuse.kernels.core.op import TflOp, builtin_ops
from tests.kernels.integer.oracles import drawn, file_of, in_runtime, need_runtime, on_xla, one, tensor
from tests.kernels.integer.rows import ROWS, Row

_FURTHER = frozenset({"LSTM in tflite-micro", "LSTM of one step"})  # quick, beside each op's first form


def _is_quick(name: str) -> bool:
    return " " not in name or name in _FURTHER


def _cases() -> Iterator[object]:
    """One graph of each op on the default path, and more in every rounding and of further forms, which are slow."""
    for name, row in ROWS.items():
        if _is_quick(name):
            yield pytest.param(row, row.roundings[0], 1, id=name)
        for rounding in row.roundings:
            yield pytest.param(row, rounding, row.many, id=f"{name}-{rounding}-many", marks=pytest.mark.slow)


@pytest.mark.parametrize(("row", "rounding", "count"), list(_cases()))
def test_equal_in_every_bit(row: Row, rounding: Rounding, count: int) -> None:
    need_runtime(rounding)
    rng = np.random.default_rng(count)
    for _ in range(count):
        graph = row.draw(rng)
        calls = drawn(rng, graph, row.states)
        wanted = in_runtime(file_of(graph, row.states), rounding, calls)
        found = on_xla(graph, rounding, calls, row.states)
        for call, other in zip(found, wanted, strict=True):
            for a, b in zip(call, other, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=str(graph))


@pytest.mark.parametrize("rounding", ["xnnpack", "reference"])
@pytest.mark.parametrize("op", [ops.add, ops.sub])
def test_sums_of_16_bits_round_by_their_place(op: TflOp, rounding: Rounding) -> None:
    """One element in 200,000 tells one rounding of the terms from two; LiteRT takes the last five by themselves."""
    shape, scales = (1, (1 << 20) + 5), (0.00032988391, 5.067679e-05, 0.00024484526)
    x, y, result = (tensor(*shape, dtype="i16", scale=scale) for scale in scales)
    graph = one(op, [x, y], result, fused_activation_function="NONE", pot_scale_int16=False)
    rng = np.random.default_rng(0)
    calls = [[rng.integers(-30000, 30000, shape).astype(np.int16) for _ in (x, y)]]
    ((wanted,),) = in_runtime(file_of(graph), rounding, calls)
    ((found,),) = on_xla(graph, rounding, calls)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 40])
def test_few_sums_of_16_bits_round_by_their_place(size: int) -> None:
    """The same pair at every place: its terms are a half of a step, or a little less."""
    x, y, result = (tensor(1, size, dtype="i16", scale=s) for s in (0.00032988391, 5.067679e-05, 0.00024484526))
    graph = one(ops.add, [x, y], result, fused_activation_function="NONE", pot_scale_int16=False)
    calls = [[np.full((1, size), number, np.int16) for number in (9113, -16802)]]
    ((wanted,),) = in_runtime(file_of(graph), "xnnpack", calls)
    ((found,),) = on_xla(graph, "xnnpack", calls)
    assert set(np.ravel(wanted[:, : size // 16 * 16])) <= {8801}
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rounding", get_args(Rounding))
@pytest.mark.parametrize("ratio", [301.5, 1 / 300.7])
def test_few_bytes_in_steps_of_another_size(rounding: Rounding, ratio: float) -> None:
    """XNNPACK leaves ratios of scales beyond 128 and 1/256 to LiteRT's own kernel."""
    need_runtime(rounding)
    x, result = tensor(1, 15, scale=0.01 * ratio, zero_point=-5), tensor(1, 15, scale=0.01, zero_point=7)
    graph = one(ops.quantize, [x], result)
    assert all(eqn.op.takes_integers(eqn, rounding) for eqn in graph.eqns)
    calls = [[np.arange(start, start + 15, dtype=np.int8)[None]] for start in range(-128, 113, 15)]
    wanted, found = in_runtime(file_of(graph), rounding, calls), on_xla(graph, rounding, calls)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rounding", get_args(Rounding))
@pytest.mark.parametrize("scales", [(1 / 255, 1 / 128, 2 / 255), (1 / 128, 0.05, 0.025)])
def test_products_of_bytes_in_the_middle_between_two_steps(rounding: Rounding, scales: tuple[float, ...]) -> None:
    """Gates times activations: one in a hundred is a half, which XNNPACK rounds to even, and up on arm64."""
    need_runtime(rounding)
    x, y, result = (
        tensor(64, 256, scale=scale, zero_point=zero) for scale, zero in zip(scales, (3, -7, 5), strict=True)
    )
    graph = one(ops.mul, [x, y], result, fused_activation_function="NONE")
    every = np.tile(np.arange(-128, 128, dtype=np.int8), (64, 1))
    calls = [[every, np.random.default_rng(0).integers(-128, 128, (64, 256)).astype(np.int8)]]
    ((wanted,),) = in_runtime(file_of(graph), rounding, calls)
    ((found,),) = on_xla(graph, rounding, calls)
    np.testing.assert_array_equal(found, wanted)


def test_products_in_tflite_micro_have_their_scale_in_64_bits() -> None:
    """One in 20,000 is another with LiteRT's scale, which is a product in 32 bits."""
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    shape, scales = (1, 120_000), (1 / 32768, 1 / 32768, 6.2e-5)
    x, y, result = (tensor(*shape, dtype="i16", scale=scale) for scale in scales)
    graph, rng = one(ops.mul, [x, y], result, fused_activation_function="NONE"), np.random.default_rng(0)
    calls = [[rng.integers(-30000, 30000, shape).astype(np.int16) for _ in (x, y)]]
    ((wanted,),) = in_runtime(file_of(graph), "tflm", calls)
    ((found,),) = on_xla(graph, "tflm", calls)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rounding", get_args(Rounding))
def test_means_of_16_bits_have_their_scale_in_the_kernels_bits(rounding: Rounding) -> None:
    """One in some 4,000 tells a ratio of scales in f64 from one in f32."""
    need_runtime(rounding)
    shape, (scale, of_mean) = (1, 1 << 14, 1, 8), (3.0782196e-06, 2.1587968e-07)
    x, result = tensor(*shape, dtype="i16", scale=scale), tensor(*shape[:3], 1, dtype="i16", scale=of_mean)
    graph = one(ops.mean, [x, Const(np.array([3], np.int32))], result, keep_dims=True)
    calls = [[np.random.default_rng(0).integers(-2000, 4000, shape).astype(np.int16)]]
    ((wanted,),) = in_runtime(file_of(graph), rounding, calls)
    ((found,),) = on_xla(graph, rounding, calls)
    np.testing.assert_array_equal(found, wanted)


def test_every_body_has_a_quick_row() -> None:
    graphs = [row.draw(np.random.default_rng(0)) for name, row in ROWS.items() if _is_quick(name)]
    with_bodies = {name for name, op in builtin_ops().items() if op.integer_body is not None}
    assert {str(eqn.op.builtin) for graph in graphs for eqn in graph.eqns} == with_bodies


def test_every_rounding_is_tried() -> None:
    assert {r for row in ROWS.values() for r in row.roundings} == set(get_args(Rounding))


@pytest.mark.parametrize(
    ("name", "rounding"),
    [("LSTM of one step", "tflm"), ("LSTM with a norm", "tflm"), ("SUM", "reference")],
)
def test_what_no_body_computes(name: str, rounding: Rounding) -> None:
    graph = ROWS[name].draw(np.random.default_rng(0))
    assert all(not eqn.op.takes_integers(eqn, rounding) for eqn in graph.eqns)
    assert any(eqn.op.takes_integers(eqn, "xnnpack") for eqn in graph.eqns)
