"""Which operators run on an Ethos-U, by their sizes and options; the oracle is Arm's compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Const, Eqn, Program, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.running.ethos import has_ethos, placed
from jfuse.tflite.targets.catalog import target_named
from tests.passes.quantize.models import drawn, program_of
from tests.tflite.programs import f32

Places = tuple[bool, bool]
BOTH, U85, NONE = (True, True), (False, True), (False, False)
"""On the NPU of Ethos-U55, and of Ethos-U85."""


def i32(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)


def resized(size: tuple[int, int], op: Any = ops.resize_bilinear, **options: bool) -> Callable[[Any], Any]:
    return lambda x: op(x, i32(*size), **options)


def mean(*axes: int) -> Callable[[Any], Any]:
    return lambda x: ops.mean(x, i32(*axes), keep_dims=True)


def arg_max(axis: int, dtype: DType = DType.i32) -> Callable[[Any], Any]:
    return lambda x: ops.arg_max(x, np.int32(axis), output_type=dtype)


def strided(*strides: int) -> Callable[[Any], Any]:
    return lambda x: ops.strided_slice(x, i32(*[0] * len(strides)), i32(*x.shape), i32(*strides))


def upsampled(size: tuple[int, int], stride: tuple[int, int], padding: str) -> Callable[[Any], Any]:
    weights = drawn(3, 3, 3, 2, scale=0.3)
    options = {"padding": padding, "stride_h": stride[0], "stride_w": stride[1]}
    return lambda x: ops.transpose_conv(i32(x.shape[0], *size, 3), weights, x, None, **options)


def pooled(stride: int, padding: str, window: int = 2, op: Any = ops.max_pool_2d) -> Callable[[Any], Any]:
    sizes = {"filter_height": window, "filter_width": window, "stride_h": stride, "stride_w": stride}
    return lambda x: op(x, padding=padding, **sizes)


NEAREST = ops.resize_nearest_neighbor
IMAGE = (1, 3, 4, 2)
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], Places]] = {
    "reversed": (lambda x: ops.reverse_v2(x, i32(1)), [(1, 5, 4)], U85),
    "doubled": (resized((6, 8)), [IMAGE], BOTH),
    "doubled between centres": (resized((6, 8), half_pixel_centers=True), [IMAGE], BOTH),
    "doubled between corners": (resized((5, 7), align_corners=True), [IMAGE], BOTH),
    "four times": (resized((12, 16)), [IMAGE], BOTH),
    "four times between centres": (resized((12, 16), half_pixel_centers=True), [IMAGE], U85),
    "16 times": (resized((48, 64)), [IMAGE], U85),
    "three times": (resized((9, 12)), [IMAGE], NONE),
    "height alone": (resized((6, 4)), [IMAGE], U85),
    "a line": (resized((1, 8)), [(1, 1, 4, 2)], BOTH),
    "from one pixel": (resized((5, 7)), [(1, 1, 1, 2)], BOTH),
    "nearest, three times": (resized((9, 12), NEAREST), [IMAGE], U85),
    "nearest, eight times": (resized((24, 32), NEAREST), [IMAGE], BOTH),
    "nearest, two images": (resized((6, 8), NEAREST), [(2, 3, 4, 2)], U85),
    "mean of an image": (mean(1, 2), [(1, 4, 5, 3)], BOTH),
    "mean of two images": (mean(1, 2), [(2, 4, 5, 3)], NONE),
    "mean of two sequences": (mean(1), [(2, 5, 3)], BOTH),
    "mean of channels": (mean(2), [(2, 5, 3)], NONE),
    "mean of one row's channels": (mean(2), [(1, 5, 3)], BOTH),
    "mean of many": (mean(1), [(1, 4100, 2)], NONE),
    "largest of few": (arg_max(1), [(1, 10)], BOTH),
    "largest in 64 bits": (arg_max(1, DType.i64), [(1, 10)], BOTH),
    "largest of many": (arg_max(1), [(2, 128)], U85),
    "largest of a row": (arg_max(1), [(2, 3, 4)], U85),
    "every second step": (strided(1, 2, 1), [(1, 9, 4)], BOTH),
    "every second channel": (strided(1, 1, 2), [(1, 9, 4)], NONE),
    "every second image": (strided(2, 1, 1, 1), [(2, 9, 5, 4)], NONE),
    "rows of a table": (lambda x: ops.gather(x, i32(1, 0, 2), axis=0), [(6, 8)], U85),
    "columns of a table": (lambda x: ops.gather(x, i32(1, 0, 2), axis=1), [(6, 8)], NONE),
    "upsampled": (upsampled((8, 10), (2, 2), "SAME"), [(1, 4, 5, 2)], BOTH),
    "upsampled, unpadded": (upsampled((9, 11), (2, 2), "VALID"), [(1, 4, 5, 2)], BOTH),
    "upsampled height": (upsampled((8, 5), (2, 1), "SAME"), [(1, 4, 5, 2)], U85),
    "upsampled less": (upsampled((7, 10), (2, 2), "SAME"), [(1, 4, 5, 2)], NONE),
    "pooled far apart": (pooled(4, "VALID"), [(1, 17, 17, 2)], BOTH),
    "padded pools far apart": (pooled(4, "SAME"), [(1, 17, 17, 2)], U85),
    "large padded averages": (pooled(1, "SAME", 9, ops.average_pool_2d), [(1, 17, 17, 2)], NONE),
    "scores of large images": (lambda x: ops.softmax(x, beta=1.0), [(1, 300, 300, 2)], NONE),
    "a number without an axis": (lambda x, y: ops.mul(x, y), [(3,), ()], NONE),
}


def made(name: str) -> tuple[Program, bytes]:
    """The case in int8, and its file."""
    function, shapes, _ = CASES[name]
    program = program_of(function, *(f32(*s) for s in shapes))
    calls = [{f"x{i}": drawn(*s, seed=seed) for i, s in enumerate(shapes)} for seed in range(2)]
    recipe = jfuse.Recipe.named("int8", inputs="int8", outputs="int8")
    lite = jfuse.lower(jfuse.Model(program), quantize=recipe, calibration=calls)
    return lite.program, lite.to_bytes()


@pytest.mark.parametrize("name", CASES)
def test_what_keeps_an_operator_from_the_npu(name: str) -> None:
    (eqn,) = all_eqns(made(name)[0].signatures[0].graph)
    found = tuple(target_named(npu).why_on_cpu(eqn) is None for npu in ("ethos-u55", "ethos-u85"))
    assert found == CASES[name][2], [target_named(npu).why_on_cpu(eqn) for npu in ("ethos-u55", "ethos-u85")]


@pytest.mark.slow
@pytest.mark.skipif(not has_ethos(), reason="the compiler is not installed")
@pytest.mark.parametrize("name", CASES)
def test_arms_compiler_says_the_same(name: str) -> None:
    _, data = made(name)

    def is_placed(npu: str) -> bool:
        try:
            return not placed(data, npu).cpu
        except jfuse.VerifyFailed:  # for two resized images it ends in an error
            return False

    assert (is_placed("ethos-u55"), is_placed("ethos-u85")) == CASES[name][2]


@dataclass(frozen=True)
class Typed:
    """An operator of types that recipes do not write, and what keeps it from the NPU."""

    op: Any
    operands: tuple[TensorType | Const, ...]
    result: TensorType
    reason: str


def i8(*shape: int, scales: int = 1) -> TensorType:
    return TensorType(shape, DType.i8, Quantization((0.5,) * scales, (0,) * scales, 0))


TYPED = [
    Typed(ops.add, (TensorType((2, 3), DType.i32),) * 2, TensorType((2, 3), DType.i32), "integers with a scale"),
    Typed(ops.relu, (i8(2, 3, scales=2),), i8(2, 3, scales=2), "one scale for each tensor"),
    Typed(ops.maximum, (i8(2, 3), i8(2, 3)), TensorType((2, 3), DType.i8, Quantization((0.25,), (0,))), "the scale of"),
    Typed(
        ops.fully_connected,
        (i8(2, 3), TensorType((4, 3), DType.i4, Quantization((0.5,), (0,)))),
        i8(2, 4),
        "weights of 8 bits, not i4",
    ),
    Typed(ops.reshape, (i8(2, 3), TensorType((2,), DType.i32)), i8(3, 2), "computed at run time"),
]


@pytest.mark.parametrize("case", TYPED, ids=lambda c: c.reason)
def test_what_types_keep_an_operator_from_the_npu(case: Typed) -> None:
    operands = tuple(o if isinstance(o, Const) else Var(o) for o in case.operands)
    eqn = Eqn(case.op, operands, (Var(case.result),))
    for npu in ("ethos-u55", "ethos-u65", "ethos-u85"):
        reason = target_named(npu).why_on_cpu(eqn)
        assert reason is not None
        assert case.reason in reason


def test_floats_are_not_integers_yet() -> None:
    """Another form is looked for before a model is quantized: by sizes and options, not by types."""
    program = program_of(lambda x: ops.resize_bilinear(x, i32(6, 8)), f32(*IMAGE))
    (eqn,) = program.signatures[0].graph.eqns
    assert target_named("ethos-u55").why_another_form(eqn) is None
    three = program_of(lambda x: ops.resize_bilinear(x, i32(9, 12)), f32(*IMAGE)).signatures[0].graph.eqns[-1]
    assert "3 times" in str(target_named("ethos-u55").why_another_form(three))


def test_a_reversed_sequence_goes_by_parts_where_the_npu_has_no_such_operator() -> None:
    program = program_of(lambda x: ops.reverse_v2(x, i32(1)), f32(1, 5, 4))
    made = {
        npu: [e.op.name for e in jfuse.lower(jfuse.Model(program), target=npu).program.signatures[0].graph.eqns]
        for npu in ("ethos-u55", "ethos-u85")
    }
    assert made == {"ethos-u55": ["unpack", "pack"], "ethos-u85": ["reverse_v2"]}
    long = program_of(lambda x: ops.reverse_v2(x, i32(1)), f32(1, 500, 4))
    assert [e.op.name for e in jfuse.lower(jfuse.Model(long), target="ethos-u55").program.signatures[0].graph.eqns] == [
        "reverse_v2"
    ]
