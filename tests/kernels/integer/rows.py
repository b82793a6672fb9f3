"""One row for each op with an integer body: how to draw a graph of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.integer_types import Rounding, scale_of, zero_point_of
from tests.corpus.quantized import apply
from tests.kernels.integer.oracles import constant, graph_of, one, tensor

Draw = Callable[[np.random.Generator], Graph]
ALL: tuple[Rounding, ...] = ("xnnpack", "arm64", "reference", "tflm")
LITERT: tuple[Rounding, ...] = ("xnnpack", "arm64", "reference")


@dataclass(frozen=True)
class Row:
    """draw: a graph of one equation. roundings: those whose runtime has the op. many: graphs of the slow test.

    states: how many of the last inputs and outputs an operator keeps.
    """

    draw: Draw
    roundings: tuple[Rounding, ...] = ALL
    many: int = 2
    states: int = 0


def ratio(rng: np.random.Generator, least: float, greatest: float) -> float:
    """A number whose logarithm is drawn evenly."""
    return float(np.exp(rng.uniform(np.log(least), np.log(greatest))))


def zero_point(rng: np.random.Generator) -> int:
    """A zero point of i8, often at an end."""
    return int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))


def activation(rng: np.random.Generator) -> str:
    """A fused activation."""
    return str(rng.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]))


def bytes_of(rng: np.random.Generator, *shape: int, dtype: DType = DType.i8) -> np.ndarray:
    """Weights: i8[shape] without -128, or i4[shape] without -8."""
    most = 7 if dtype is DType.i4 else 127
    return rng.integers(-most, most + 1, shape).astype(dtype.numpy)


def bias_of(rng: np.random.Generator, size: int, scales: Any) -> Const | None:
    """Large and small numbers, or none."""
    if rng.random() < 0.2:
        return None
    return constant(rng.integers(-20000, 20000, size).astype(np.int32), scales)


def weight_scales(rng: np.random.Generator, size: int, *, channels: bool) -> Any:
    """One scale, or one for each channel."""
    return np.array([ratio(rng, 1e-3, 0.1) for _ in range(size if channels else 1)], np.float32)


def _wide_bias(rng: np.random.Generator, size: int, scales: Any) -> Const | None:
    """As `bias_of`, of 64 bits."""
    if rng.random() < 0.2:
        return None
    return constant(rng.integers(-3000000, 3000000, size), scales)


def _fully_connected(
    rng: np.random.Generator, dtype: str = "i8", weights: DType = DType.i8, *, biased: bool = True
) -> Graph:
    rows, terms, units = (int(rng.integers(1, n)) for n in ((9, 1200, 9) if biased else (64, 1200, 64)))
    x = tensor(rows, terms, dtype=dtype, scale=ratio(rng, 1e-3, 1), zero_point=_zero(rng, dtype))
    scales = weight_scales(rng, units, channels=rng.random() < 0.5)
    step = float(x.type.quantization.scale[0]) * float(scales.mean())  # type: ignore[union-attr]
    y_scale = step * ratio(rng, 0.5, 100 * terms)
    y = tensor(rows, units, dtype=dtype, scale=y_scale, zero_point=_zero(rng, dtype))
    draw = bias_of if dtype == "i8" else _wide_bias
    bias = draw(rng, units, x.type.quantization.scale[0] * scales) if biased else None  # type: ignore[union-attr]
    operands = (x, constant(bytes_of(rng, units, terms, dtype=weights), scales), bias)
    bias_type = DType.f32 if biased else [DType.f32, DType.i64][int(rng.integers(2))]  # which sums it asks for
    options = {"fused_activation_function": activation(rng), "quantized_bias_type": bias_type}
    return one(ops.fully_connected, operands, y, **options)


def _elementwise(op: Any, greatest: float, dtype: str = "i8", least: float = 2e-3) -> Draw:
    def draw(rng: np.random.Generator) -> Graph:
        shape = tuple(int(n) for n in rng.integers(1, 9, 3))
        y = tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-3, 1), zero_point=_zero(rng, dtype))
        of = float(y.type.quantization.scale[0])  # type: ignore[union-attr]
        first = tensor(*shape, dtype=dtype, scale=of * ratio(rng, least, greatest), zero_point=_zero(rng, dtype))
        scale = of * ratio(rng, least, greatest) if op is not ops.mul else ratio(rng, 0.01, 1)
        if rng.random() < 0.3:
            shape = shape[-1:]
        second: Any = tensor(*shape, dtype=dtype, scale=scale, zero_point=_zero(rng, dtype))
        if rng.random() < 0.3:
            numbers = np.iinfo(second.type.dtype.numpy)
            drawn = rng.integers(numbers.min, numbers.max, shape, endpoint=True).astype(numbers.dtype)
            second = constant(drawn, scale, _zero(rng, dtype))
        operands = (first, second) if rng.random() < 0.5 else (second, first)
        return one(op, operands, y, fused_activation_function=activation(rng))

    return draw


def _quantize(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 20, 2))
    dtype = str(rng.choice(["i8", "i16"]))
    x = tensor(*shape, dtype="f32")
    return one(ops.quantize, (x,), tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-4, 1), zero_point=_zero(rng, dtype)))


def _requantize(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 20, 2))
    found, wanted = str(rng.choice(["i8", "i16"])), str(rng.choice(["i8", "i16"]))
    if (found, wanted) == ("i8", "i16"):
        found = "i16"
    step = ratio(rng, 1e-3, 1)
    scale = step * (ratio(rng, 0.01, 100) if found == "i8" else ratio(rng, 1e-3, 2))
    x = tensor(*shape, dtype=found, scale=scale, zero_point=_zero(rng, found))
    return one(ops.quantize, (x,), tensor(*shape, dtype=wanted, scale=step, zero_point=_zero(rng, wanted)))


def _dequantize(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 20, 2))
    dtype = str(rng.choice(["i8", "i16"]))
    x = tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-4, 1), zero_point=_zero(rng, dtype))
    return one(ops.dequantize, (x,), tensor(*shape, dtype="f32"))


def _zero(rng: np.random.Generator, dtype: str) -> int:
    return zero_point(rng) if dtype == "i8" else 0


def _window(rng: np.random.Generator) -> dict[str, Any]:
    padding = str(rng.choice(["SAME", "VALID"]))
    return {"padding": padding, "stride_w": int(rng.integers(1, 4)), "stride_h": int(rng.integers(1, 4))}


def _convolution(rng: np.random.Generator, *, depthwise: bool, dtype: str = "i8") -> Graph:
    batch, height, width, inputs, outputs = (int(n) for n in rng.integers(1, (3, 12, 12, 12, 12)))
    window = (int(rng.integers(1, min(5, height) + 1)), int(rng.integers(1, min(5, width) + 1)))
    many = int(rng.integers(1, 4))
    shape = (1, *window, inputs * many) if depthwise else (outputs, *window, inputs)
    channels, axis = (inputs * many, 3) if depthwise else (outputs, 0)
    of: dict[str, Any] = {"dtype": dtype, "zero_point": _zero(rng, dtype)}
    x = tensor(batch, height, width, inputs, scale=ratio(rng, 1e-3, 1), **of)
    scales = weight_scales(rng, channels, channels=rng.random() < 0.7)
    options = {**_window(rng), "fused_activation_function": activation(rng)}
    options |= {"depth_multiplier": many} if depthwise else {}
    if options["stride_w"] == options["stride_h"] == 1:
        options |= {"dilation_w_factor": 1 + (width > 2 * window[1]), "dilation_h_factor": 1 + (height > 2 * window[0])}
    op = ops.depthwise_conv_2d if depthwise else ops.conv_2d
    bias_type = np.int32 if dtype == "i8" else np.int64
    bias = constant(rng.integers(-20000, 20000, channels).astype(bias_type), scale_of(x.type) * scales)
    filters = constant(bytes_of(rng, *shape), scales, axis=axis)
    y_shape = _result_shape(op, (x, filters), options)
    scale = float(scale_of(x.type)) * float(scales.mean()) * ratio(rng, 2, 100 * int(np.prod(shape)) // channels)
    y = tensor(*y_shape, dtype=dtype, scale=scale, zero_point=_zero(rng, dtype))
    return one(op, (x, filters, bias), y, **options)


def _transpose_conv(rng: np.random.Generator, dtype: str = "i8") -> Graph:
    batch, height, width, inputs, outputs = (int(n) for n in rng.integers(1, (3, 7, 7, 12, 12)))
    strides = rng.integers(1, 4, 2)
    window = np.maximum(rng.integers(1, 5, 2), strides)  # XNNPACK rounds in two ways where weights leave gaps
    options: dict[str, Any] = {
        "padding": str(rng.choice(["SAME", "VALID"])),
        "fused_activation_function": activation(rng),
    }
    options |= {"stride_h": int(strides[0]), "stride_w": int(strides[1])}
    shape = [batch, *(int(n) for n in np.array([height, width]) * strides), outputs]
    if options["padding"] == "VALID":
        shape[1:3] = [int(n) for n in (np.array([height, width]) - 1) * strides + window]
    x = tensor(batch, height, width, inputs, dtype=dtype, scale=ratio(rng, 1e-3, 1), zero_point=_zero(rng, dtype))
    scales = weight_scales(rng, outputs, channels=rng.random() < 0.7)
    filters = constant(bytes_of(rng, outputs, *(int(n) for n in window), inputs), scales)
    bias_type = np.int32 if dtype == "i8" else np.int64
    bias = constant(rng.integers(-20000, 20000, outputs).astype(bias_type), scale_of(x.type) * scales)
    scale = float(scale_of(x.type)) * float(scales.mean()) * ratio(rng, 2, 100 * int(window.prod()) * inputs)
    y = tensor(*shape, dtype=dtype, scale=scale, zero_point=_zero(rng, dtype))
    operands = (Const(np.array(shape, np.int32)), filters, x, bias if rng.random() < 0.8 else None)
    return one(ops.transpose_conv, operands, y, **options)


def _resize(rng: np.random.Generator, op: Any) -> Graph:
    batch, height, width, channels = (int(n) for n in rng.integers(1, (3, 12, 12, 20)))
    sizes = [int(n) for n in rng.integers(1, 30, 2)]
    of: dict[str, Any] = {"scale": ratio(rng, 1e-3, 0.2), "zero_point": zero_point(rng)}
    ways: tuple[dict[str, bool], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})
    x, y = tensor(batch, height, width, channels, **of), tensor(batch, *sizes, channels, **of)
    return one(op, (x, Const(np.array(sizes, np.int32))), y, **ways[int(rng.integers(3))])


def _comparison(rng: np.random.Generator, op: Any) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 9, 3))
    scale = ratio(rng, 1e-3, 0.9)
    x = tensor(*shape, scale=scale, zero_point=zero_point(rng))
    y = tensor(*shape, scale=float(rng.choice([scale, ratio(rng, 1e-3, 0.9)])), zero_point=zero_point(rng))
    return one(op, (x, y), Var(TensorType(shape, DType.bool)))


def _result_shape(op: Any, operands: tuple[Any, ...], options: dict[str, Any]) -> list[int]:
    """The shape that the op has on floats."""
    floats = [TensorType(o.type.shape, DType.f32) for o in operands]
    floats += [None] * (len(op.operands) - len(floats))  # type: ignore[list-item]
    return [int(d) for d in op.type_rule(*floats, **op.bind_options(options)).shape]


def _pool(rng: np.random.Generator, op: Any, dtype: str = "i8") -> Graph:
    batch, height, width, channels = (int(n) for n in rng.integers(1, (3, 12, 12, 20)))
    sizes = {"filter_height": int(rng.integers(1, height + 1)), "filter_width": int(rng.integers(1, width + 1))}
    options = {**_window(rng), **sizes, "fused_activation_function": activation(rng)}
    of: dict[str, Any] = {"dtype": dtype, "scale": ratio(rng, 1e-3, 0.2), "zero_point": _zero(rng, dtype)}
    x = tensor(batch, height, width, channels, **of)
    return one(op, (x,), tensor(*_result_shape(op, (x,), options), **of), **options)


def _unary(
    rng: np.random.Generator, op: Any, *, fixed: tuple[float, int] | None = None, dtype: str = "i8", **options: Any
) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 30, 2))
    x = tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-3, 0.5), zero_point=_zero(rng, dtype))
    scale, zero = fixed or (float(scale_of(x.type)) * ratio(rng, 0.05, 20), _zero(rng, dtype))
    return one(op, (x,), tensor(*shape, dtype=dtype, scale=scale, zero_point=zero), **options)


def _of_words(rng: np.random.Generator, op: Any, **options: Any) -> Graph:
    """In 16 bits: the scale is often a power of two, or near one, for which kernels have functions of their own."""
    shape = tuple(int(n) for n in rng.integers(1, 30, 2))
    near = 2.0 ** (int(rng.choice([-12, -11, -10])) + rng.choice([-1, 1]) * rng.choice([2e-4, 9e-4, 1.2e-3]))
    scale = float(rng.choice([2.0**-12, 2.0**-11, near, 2.0 ** int(rng.integers(-15, -6)), ratio(rng, 1e-5, 1e-2)]))
    x, y = (tensor(*shape, dtype="i16", scale=s) for s in (scale, 2.0**-15))
    return one(op, (x,), y, **options)


def _batch_matmul(rng: np.random.Generator, *, transposed: bool, dtype: str = "i8") -> Graph:
    batch, rows, terms, columns = (int(n) for n in rng.integers(1, (4, 9, 400, 9)))
    adj_x, adj_y = (transposed and bool(rng.random() < 0.6) for _ in range(2))
    scales = [ratio(rng, 1e-3, 0.1) for _ in range(2)]
    shapes = [(terms, rows) if adj_x else (rows, terms), (columns, terms) if adj_y else (terms, columns)]
    of: list[dict[str, Any]] = [{"dtype": dtype, "scale": s, "zero_point": _zero(rng, dtype)} for s in scales]
    x, y = (tensor(batch, *n, **given) for n, given in zip(shapes, of, strict=True))
    scale = float(np.prod(scales)) * ratio(rng, 1, 100 * terms)
    result = tensor(batch, rows, columns, dtype=dtype, scale=scale, zero_point=_zero(rng, dtype))
    return one(ops.batch_matmul, (x, y), result, adj_x=adj_x, adj_y=adj_y)


def _leaky_relu(rng: np.random.Generator, dtype: str = "i8") -> Graph:
    return _unary(rng, ops.leaky_relu, dtype=dtype, alpha=ratio(rng, 0.1, 2))


def _reduction(rng: np.random.Generator, op: Any, *, same: bool, dtype: str = "i8") -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 8, 4))
    axes = sorted(int(a) for a in rng.choice(4, int(rng.integers(1, 4)), replace=False))
    x = tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-3, 0.5), zero_point=_zero(rng, dtype))
    kept = [n for i, n in enumerate(shape) if i not in axes]
    scale = float(scale_of(x.type)) * (1 if same else ratio(rng, 0.1, 20))
    y = tensor(*kept, dtype=dtype, scale=scale, zero_point=zero_point_of(x.type) if same else _zero(rng, dtype))
    return one(op, (x, Const(np.array(axes, np.int32))), y)


def _same(rng: np.random.Generator, op: Any) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 8, 3))
    of: dict[str, Any] = {"scale": ratio(rng, 1e-3, 0.5), "zero_point": zero_point(rng)}
    return one(op, (tensor(*shape, **of), tensor(*shape[1:], **of)), tensor(*shape, **of))


def _abs(rng: np.random.Generator, dtype: str) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 30, 2))
    x = tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-3, 0.5), zero_point=_zero(rng, dtype))
    scale = float(scale_of(x.type)) * float(rng.choice([1, ratio(rng, 0.1, 10)]))
    return one(ops.abs_, (x,), tensor(*shape, dtype=dtype, scale=scale, zero_point=_zero(rng, dtype)))


def _select(rng: np.random.Generator, op: Any) -> Graph:
    """Of rows, by a number for each; SELECT by one for each element."""
    rows, columns = (int(n) for n in rng.integers(1, 30, 2))
    of: dict[str, Any] = {"dtype": str(rng.choice(["i8", "i16"])), "scale": ratio(rng, 1e-3, 0.5)}
    condition = Const(rng.random((rows, columns if op is ops.select else 1)) < 0.5)
    return one(op, (condition, *(tensor(rows, columns, **of) for _ in range(2))), tensor(rows, columns, **of))


def _squared_difference(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 9, 3))
    x, y = (tensor(*s, scale=ratio(rng, 1e-2, 0.5), zero_point=zero_point(rng)) for s in (shape, shape[1:]))
    most = max(float(scale_of(t.type)) for t in (x, y)) ** 2
    result = tensor(*shape, scale=most * ratio(rng, 1e-2, 300), zero_point=zero_point(rng))
    return one(ops.squared_difference, (x, y), result)


def _root(rng: np.random.Generator, op: Any, power: float) -> Graph:
    """Of what cannot be negative, as the kernels end an invoke otherwise."""
    shape = tuple(int(n) for n in rng.integers(1, 30, 2))
    x = tensor(*shape, scale=ratio(rng, 1e-4, 1), zero_point=-128)
    greatest = (float(scale_of(x.type)) * (255 if power > 0 else 1)) ** power
    y = tensor(*shape, scale=greatest / 255 * ratio(rng, 0.1, 2), zero_point=int(rng.choice([-128, zero_point(rng)])))
    return one(op, (x,), y)


def _pad(rng: np.random.Generator) -> Graph:
    shape, around = rng.integers(1, 8, 3), rng.integers(0, 3, (3, 2)).astype(np.int32)
    of: dict[str, Any] = {"scale": ratio(rng, 1e-3, 0.5), "zero_point": zero_point(rng)}
    return one(ops.pad, (tensor(*map(int, shape), **of), Const(around)), tensor(*map(int, shape + around.sum(1)), **of))


def _prelu(rng: np.random.Generator) -> Graph:
    x = tensor(2, 3, 4, 8, scale=ratio(rng, 1e-3, 0.5), zero_point=zero_point(rng))
    alpha = constant(bytes_of(rng, 1, 1, 8), ratio(rng, 1e-3, 0.02), zero_point(rng))
    return one(
        ops.prelu,
        (x, alpha),
        tensor(2, 3, 4, 8, scale=float(scale_of(x.type)) * ratio(rng, 0.2, 5), zero_point=zero_point(rng)),
    )


def _softmax(rng: np.random.Generator) -> Graph:
    return _unary(rng, ops.softmax, fixed=(1 / 256, -128), beta=ratio(rng, 0.2, 3))


def _lstm(
    rng: np.random.Generator,
    *,
    norm: bool = False,
    peephole: bool = False,
    projected: bool = False,
    single: bool = False,
) -> Graph:
    batch, steps, inputs, units = (int(n) for n in rng.integers(1, (4, 6, 9, 40)))  # arm64 takes 16 units together
    outputs = int(rng.integers(1, units + 1)) if projected else units
    major, coupled = rng.random() < 0.5, rng.random() < 0.3
    leading = (batch,) if single else (steps, batch) if major else (batch, steps)
    x = tensor(*leading, inputs, scale=ratio(rng, 0.005, 0.1), zero_point=zero_point(rng))
    hidden = tensor(0, scale=ratio(rng, 0.003, 0.01), zero_point=zero_point(rng))
    of_h: dict[str, Any] = {"scale": ratio(rng, 0.003, 0.02), "zero_point": zero_point(rng)}
    if not projected:
        of_h = {"scale": scale_of(hidden.type), "zero_point": zero_point_of(hidden.type)}
    h, after_h, y = (tensor(*shape, outputs, **of_h) for shape in ((batch,), (batch,), leading))
    power = 2.0 ** int(rng.integers(-15, -8))
    c, after_c = (tensor(batch, units, dtype="i16", scale=power) for _ in range(2))
    gates = [i for i in range(4) if not (coupled and i == 0)]

    def each(array: Callable[[], Const]) -> list[Const | None]:
        return [array() if i in gates else None for i in range(4)]

    def of_units(dtype: Any, most: int, least: float, greatest: float) -> Const:
        return constant(rng.integers(-most, most + 1, units).astype(dtype), ratio(rng, least, greatest))

    weights = [
        *each(lambda: constant(bytes_of(rng, units, inputs), ratio(rng, 0.002, 0.02))),
        *each(lambda: constant(bytes_of(rng, units, outputs), ratio(rng, 0.002, 0.02))),
    ]
    peepholes = [of_units(np.int16, 32767, 1e-5, 1e-4) if peephole and i in gates else None for i in (0, 1, 3)]
    biases = each(lambda: of_units(np.int32, 9000, 1e-5, 1e-4))
    projection: list[Const | None] = [None, None]
    if projected:
        projection[0] = constant(bytes_of(rng, outputs, units), ratio(rng, 0.002, 0.02))
    if projected and rng.random() < 0.7:
        projection[1] = constant(rng.integers(-9000, 9000, outputs).astype(np.int32), 1e-4)
    norms = each(lambda: of_units(np.int16, 32767, 1e-5, 1e-4)) if norm else [None] * 4
    options: dict[str, Any] = {"cell_clip": float(rng.choice([0, 0.6])), "proj_clip": float(rng.choice([0, 0.4]))}
    if not single:
        options["time_major"] = major
    operands = (x, *weights, *peepholes, *biases, *projection, h, c, *norms)
    eqn = apply(ops.lstm if single else ops.unidirectional_sequence_lstm, operands, y, after_h, after_c, **options)
    between = [tensor(0, dtype="i16", scale=ratio(rng, 1e-4, 1e-3)) for _ in range(4)]
    return graph_of(replace(eqn, intermediates=(*between, hidden)))


def _micro_lstm(rng: np.random.Generator, *, dtype: Literal["i8", "i16"]) -> Graph:
    """An LSTM as tflite-micro takes it."""
    batch, steps, inputs, units = (int(n) for n in rng.integers(1, (4, 6, 9, 20)))
    is_wide, major = dtype == "i16", rng.random() < 0.5
    leading = (steps, batch) if major else (batch, steps)
    least = 2.0**-16 if is_wide else 2.0**-8
    zeros = [0 if is_wide else zero_point(rng) for _ in range(2)]
    x = tensor(*leading, inputs, dtype=dtype, scale=ratio(rng, least, 30 * least), zero_point=zeros[0])
    of_h: dict[str, Any] = {"scale": ratio(rng, least, 4 * least), "zero_point": zeros[1]}
    h, after_h, y = (tensor(*shape, units, dtype=dtype, **of_h) for shape in ((batch,), (batch,), leading))
    power = 2.0 ** int(rng.integers(-15, -8))
    c, after_c = (tensor(batch, units, dtype="i16", scale=power) for _ in range(2))
    columns = [inputs] * 4 + [units] * 4
    weights = [constant(bytes_of(rng, units, n), ratio(rng, 0.002, 0.02)) for n in columns]
    bias = np.int64 if is_wide else np.int32
    biases = [constant(rng.integers(-9000, 9000, units).astype(bias), ratio(rng, 1e-5, 1e-4)) for _ in range(4)]
    operands = (x, *weights, *[None] * 3, *biases, None, None, h, c, *[None] * 4)
    options = {"cell_clip": float(rng.choice([0, 0.6])), "proj_clip": 0.0, "time_major": major}
    eqn = apply(ops.unidirectional_sequence_lstm, operands, y, after_h, after_c, **options)
    between = [tensor(0, dtype="i16", scale=2.0**-12) for _ in range(4)]
    return graph_of(replace(eqn, intermediates=(*between, tensor(0, dtype=dtype, **of_h))))


def _svdf(rng: np.random.Generator) -> Graph:
    batch, inputs, units, rank, memory = (int(n) for n in rng.integers(1, (4, 40, 9, 4, 12)))
    filters = units * rank
    x = tensor(batch, inputs, scale=ratio(rng, 0.005, 0.1), zero_point=zero_point(rng))
    features = constant(bytes_of(rng, filters, inputs), ratio(rng, 0.002, 0.02))
    times = constant(rng.integers(-512, 513, (filters, memory)).astype(np.int16), ratio(rng, 1e-4, 1e-2))
    step = float(scale_of(x.type)) * features.type.quantization.scale[0]  # type: ignore[union-attr]
    of_state: dict[str, Any] = {"dtype": "i16", "scale": step * ratio(rng, 0.01, 10)}
    state, after = (tensor(batch, filters * memory, **of_state) for _ in range(2))
    product = of_state["scale"] * times.type.quantization.scale[0]  # type: ignore[union-attr]
    y = tensor(batch, units, scale=product * ratio(rng, 100, 1e6), zero_point=zero_point(rng))
    bias = constant(rng.integers(-200000, 200000, units).astype(np.int32), product)
    operands = (x, features, times, bias, state)
    return graph_of(apply(ops.svdf, operands, y, after, rank=rank, fused_activation_function="RELU"))


ROWS: dict[str, Row] = {
    "ABS": Row(partial(_abs, dtype="i8")),
    "ABS in 16 bits": Row(partial(_abs, dtype="i16")),
    "ADD": Row(_elementwise(ops.add, 100)),
    "ADD in 16 bits": Row(_elementwise(ops.add, 4000, "i16", 1e-6)),
    "BATCH_MATMUL": Row(partial(_batch_matmul, transposed=False)),
    "BATCH_MATMUL in 16 bits": Row(partial(_batch_matmul, transposed=False, dtype="i16")),
    "AVERAGE_POOL_2D in 16 bits": Row(partial(_pool, op=ops.average_pool_2d, dtype="i16")),
    "MAX_POOL_2D in 16 bits": Row(partial(_pool, op=ops.max_pool_2d, dtype="i16")),
    "MEAN in 16 bits": Row(partial(_reduction, op=ops.mean, same=False, dtype="i16")),
    "BATCH_MATMUL of transposed operands": Row(partial(_batch_matmul, transposed=True), LITERT),
    "MUL in 16 bits": Row(_elementwise(ops.mul, 4, "i16", 1e-6)),
    "SUB in 16 bits": Row(_elementwise(ops.sub, 4000, "i16", 1e-6)),
    "LOGISTIC in 16 bits": Row(partial(_of_words, op=ops.logistic)),
    "TANH in 16 bits": Row(partial(_of_words, op=ops.tanh)),
    "SOFTMAX in 16 bits": Row(partial(_of_words, op=ops.softmax, beta=1.0)),
    "AVERAGE_POOL_2D": Row(partial(_pool, op=ops.average_pool_2d)),
    "CONV_2D": Row(partial(_convolution, depthwise=False)),
    "DEPTHWISE_CONV_2D": Row(partial(_convolution, depthwise=True)),
    "FULLY_CONNECTED of int4": Row(partial(_fully_connected, weights=DType.i4), LITERT),
    "CONV_2D in 16 bits": Row(partial(_convolution, depthwise=False, dtype="i16")),
    "DEPTHWISE_CONV_2D in 16 bits": Row(partial(_convolution, depthwise=True, dtype="i16")),
    "FULLY_CONNECTED in 16 bits": Row(partial(_fully_connected, dtype="i16")),
    "FULLY_CONNECTED in 16 bits without a bias": Row(partial(_fully_connected, dtype="i16", biased=False)),
    "DEQUANTIZE": Row(_dequantize),
    "FULLY_CONNECTED": Row(_fully_connected),
    "ELU": Row(partial(_unary, op=ops.elu), ("xnnpack", "arm64", "tflm")),
    "EXP": Row(partial(_unary, op=ops.exp), LITERT),
    "GELU": Row(partial(_unary, op=ops.gelu, approximate=False), LITERT),
    "GELU by TANH": Row(partial(_unary, op=ops.gelu, approximate=True), LITERT),
    "HARD_SWISH": Row(partial(_unary, op=ops.hard_swish)),
    "LEAKY_RELU": Row(_leaky_relu),
    "LEAKY_RELU in 16 bits": Row(partial(_leaky_relu, dtype="i16")),
    "RELU in 16 bits": Row(partial(_unary, op=ops.relu, dtype="i16")),
    "LOG": Row(partial(_unary, op=ops.log), LITERT),
    "LOGISTIC": Row(partial(_unary, op=ops.logistic, fixed=(1 / 256, -128))),
    "LSTM": Row(_lstm, LITERT, many=1, states=2),
    "LSTM of one step": Row(partial(_lstm, single=True), LITERT, many=1, states=2),
    "LSTM with a norm": Row(partial(_lstm, norm=True), LITERT, many=1, states=2),
    "LSTM with peepholes": Row(partial(_lstm, peephole=True), LITERT, many=1, states=2),
    "LSTM with a projection": Row(partial(_lstm, projected=True), LITERT, many=1, states=2),
    "LSTM in tflite-micro": Row(partial(_micro_lstm, dtype="i8"), ("tflm",), many=3, states=2),
    "LSTM in tflite-micro, 16 bits": Row(partial(_micro_lstm, dtype="i16"), ("tflm",), many=3, states=2),
    "MAX_POOL_2D": Row(partial(_pool, op=ops.max_pool_2d)),
    "MAXIMUM": Row(partial(_same, op=ops.maximum)),
    "MEAN": Row(partial(_reduction, op=ops.mean, same=False), many=20),
    "MINIMUM": Row(partial(_same, op=ops.minimum)),
    "MUL": Row(_elementwise(ops.mul, 4)),
    "QUANTIZE": Row(_quantize),
    "QUANTIZE of integers": Row(_requantize),
    "PAD": Row(_pad),
    "PRELU": Row(_prelu, LITERT),
    "RESIZE_BILINEAR": Row(partial(_resize, op=ops.resize_bilinear), many=6),
    "RESIZE_NEAREST_NEIGHBOR": Row(partial(_resize, op=ops.resize_nearest_neighbor)),
    "TRANSPOSE_CONV": Row(_transpose_conv),
    "TRANSPOSE_CONV in 16 bits": Row(partial(_transpose_conv, dtype="i16")),
    "EQUAL": Row(partial(_comparison, op=ops.equal)),
    "GREATER": Row(partial(_comparison, op=ops.greater)),
    "GREATER_EQUAL": Row(partial(_comparison, op=ops.greater_equal)),
    "LESS": Row(partial(_comparison, op=ops.less)),
    "LESS_EQUAL": Row(partial(_comparison, op=ops.less_equal)),
    "NOT_EQUAL": Row(partial(_comparison, op=ops.not_equal)),
    "REDUCE_MAX": Row(partial(_reduction, op=ops.reduce_max, same=True)),
    "REDUCE_MIN": Row(partial(_reduction, op=ops.reduce_min, same=True)),
    "RSQRT": Row(partial(_root, op=ops.rsqrt, power=-0.5)),
    "SQRT": Row(partial(_root, op=ops.sqrt, power=0.5), LITERT),
    "SELECT": Row(partial(_select, op=ops.select), LITERT),
    "SELECT_V2": Row(partial(_select, op=ops.select_v2)),
    "SQUARED_DIFFERENCE": Row(_squared_difference),
    "RELU": Row(partial(_unary, op=ops.relu)),
    "RELU6": Row(partial(_unary, op=ops.relu6)),
    "RELU6 in 16 bits": Row(partial(_unary, op=ops.relu6, dtype="i16"), LITERT),
    "RELU_N1_TO_1": Row(partial(_unary, op=ops.relu_n1_to_1), LITERT),
    "RELU_0_TO_1": Row(partial(_unary, op=ops.relu_0_to_1), LITERT),
    "SOFTMAX": Row(_softmax),
    "TANH": Row(partial(_unary, op=ops.tanh, fixed=(1 / 128, 0))),
    "SUM": Row(partial(_reduction, op=ops.sum_, same=False), ("xnnpack", "arm64", "tflm")),
    "SVDF": Row(_svdf, many=6, states=1),
    "SUB": Row(_elementwise(ops.sub, 100)),
}
