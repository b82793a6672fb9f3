"""Complex numbers: TFLite has their parts and absolute value, and no operator that makes them of two parts."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.trace import producer, trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, is_constant, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers

WHOLE = "jfuse.complex"
"""The name of composites that make complex numbers."""

_LAYOUT = (ops.squeeze, ops.reshape, ops.transpose, ops.strided_slice, ops.expand_dims)


def whole(real: Array, imaginary: Array) -> Array:
    """The complex number of two parts: a composite, which passes/complex_parts removes where it can.

    real, imaginary: f32[...], of one shape -> c64[...]
    """
    if is_constant(real) and is_constant(imaginary):
        return np.asarray(real + np.array(1j, np.result_type(real.dtype, np.complex64)) * imaginary)
    if dtype(real) is not DType.f32:
        raise LowerError(
            f"complex numbers of {dtype(real).value}", expected="complex64", remedy="cast the operands to float32"
        )
    parts = [real, imaginary]
    body = trace_graph(_spelled, [type_of(part) for part in parts], name="body")
    return ops.composite(parts, [body], name=WHOLE, arguments=("real", "imaginary"), attributes=())[0]


def parts(x: Array) -> tuple[Array, Array | None]:
    """The real and imaginary part; None for an imaginary part that is 0, where real numbers were cast."""
    eqn = producer(x)
    if eqn is not None and eqn.op is ops.cast and eqn.inputs[0] is not None and eqn.inputs[0].type.dtype is DType.f32:
        return eqn.inputs[0], None
    return ops.real(x), ops.imag(x)


def _spelled(real: Array, imaginary: Array) -> Array:
    """The spectrum of (a, -b, 0, 0) is a + bi at its first place beyond 0, without rounding."""
    pairs = ops.pack(real, ops.neg(imaginary), axis=len(real.shape))
    spectra = ops.rfft2d(ops.reshape(pairs, np.array([-1, 1, 2], np.int32)), np.array([1, 4], np.int32))
    ends = (np.array(v, np.int32) for v in ([0, 0, 1], [0, 1, 2], [1, 1, 1]))
    line = ops.strided_slice(spectra, *ends, begin_mask=1, end_mask=1, shrink_axis_mask=6)
    return shaped(line, type_of(real).shape, real)


@lowers("Complex")
def lower_complex(real: Array, imag: Array) -> Array:
    """a + bi.   f32[...], f32[...], broadcast -> c64[...]"""
    if type_of(real).shape != type_of(imag).shape:
        real, imag = ops.add(real, ops.zeros_like(imag)), ops.add(imag, ops.zeros_like(real))
    return whole(real, imag)


@lowers("Real")
def lower_real(x: Array, *, Tout: DType = DType.f32) -> Array:
    """REAL."""
    return ops.real(x)


@lowers("Imag")
def lower_imag(x: Array, *, Tout: DType = DType.f32) -> Array:
    """IMAG."""
    return ops.imag(x)


@lowers("ComplexAbs")
def lower_complex_abs(x: Array, *, Tout: DType = DType.f32) -> Array:
    """COMPLEX_ABS."""
    return ops.complex_abs(x)


@lowers("Conj")
def lower_conj(x: Array) -> Array:
    """The imaginary part negated."""
    return whole(ops.real(x), ops.neg(ops.imag(x)))


@lowers("Angle")
def lower_angle(x: Array, *, Tout: DType = DType.f32) -> Array:
    """ATAN2 of the parts, from -pi to pi."""
    imaginary = ops.imag(x)
    if _is_spectrum(x):  # whose real bins have an imaginary part of -0.0 in the runtime, an angle of -pi
        zero = scalar(0, imaginary)
        imaginary = ops.select_v2(ops.equal(imaginary, zero), zero, imaginary)
    return ops.atan2(imaginary, ops.real(x))


def _is_spectrum(x: Array) -> bool:
    """Whether RFFT2D made x, with another shape perhaps."""
    eqn = producer(x)
    while eqn is not None and eqn.op in _LAYOUT:
        eqn = producer(eqn.inputs[0])
    return eqn is not None and eqn.op is ops.rfft2d
