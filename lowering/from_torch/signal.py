"""Fourier transforms, and complex numbers as pairs."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.indexing import lower_unfold
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import lower_constant_pad, lower_slice_, lower_stack, lower_transpose, to_last
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rules import DEFAULT, lowers_torch


def _factor(norm: str | None, size: int, forward: bool) -> float:
    """Return the divisor of a transform."""
    if norm == "ortho":
        return float(np.sqrt(size))
    return float(size) if (norm == "forward") is forward and norm is not None else 1.0


def _sized(x: Array, n: int | None, axis: int) -> tuple[Array, int]:
    """x with n elements along an axis, cut off or zeros at the end."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise LowerError("a Fourier transform of an open size", found=str(size), remedy="fix the size of the axis")
    length = size if n is None else n
    if length < size:
        return lower_slice_(x, axis, 0, length), length
    last = lower_constant_pad(x, [0, 0] * (rank(x) - 1 - axis % rank(x)) + [0, length - size]) if length > size else x
    return last, length


@lowers_torch("aten.fft_rfft")
def lower_rfft(x: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """RFFT over an axis."""
    signal, size = _sized(x, n, dim)
    factor = _factor(norm, size, True)
    signal = signal if factor == 1.0 else ops.mul(signal, scalar(1 / factor, signal))
    return to_last(signal, dim, lambda v: DEFAULT.lowers["RFFT"](v, np.array([size], np.int32)))


@lowers_torch("aten.fft_irfft")
def lower_irfft(x: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """IRFFT over an axis."""
    count = x.shape[dim]
    if not isinstance(count, int):
        raise LowerError("a Fourier transform of an open size", found=str(count), remedy="fix the size of the axis")
    size = 2 * (count - 1) if n is None else n
    signal = to_last(x, dim, lambda v: DEFAULT.lowers["IRFFT"](v, np.array([size], np.int32)))
    factor = {None: 1.0, "backward": 1.0, "forward": 1 / size, "ortho": 1 / np.sqrt(size)}[norm]
    return signal if factor == 1.0 else ops.mul(signal, scalar(1 / factor, signal))


@lowers_torch("aten.stft")
def lower_stft(
    x: Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Array:
    """RFFT of frames under a window.   x: f[b, t] or f[t] -> c[b, n_fft / 2 + 1, frames]"""
    if onesided is False or align_to_window:
        raise LowerError("a transform of both sides", remedy="onesided=True")
    frames = lower_unfold(x, -1, n_fft, n_fft // 4 if hop_length is None else hop_length)
    if window is not None or win_length not in (None, n_fft):
        length = n_fft if win_length is None else win_length
        weights = np.ones(length, dtype(x).numpy) if window is None else window
        left = (n_fft - length) // 2
        frames = ops.mul(frames, lower_constant_pad(as_type(weights, dtype(x)), [left, n_fft - length - left]))
    spectrum = lower_transpose(DEFAULT.lowers["RFFT"](frames, np.array([n_fft], np.int32)), -1, -2)
    if normalized:
        raise LowerError("a normalized transform", remedy="divide by the root of n_fft afterwards")
    return spectrum if return_complex else lower_view_as_real(spectrum)


@lowers_torch("aten.view_as_real")
def lower_view_as_real(x: Array) -> Array:
    """The real and imaginary parts along a new last axis."""
    return lower_stack([ops.real(x), ops.imag(x)], -1)


@lowers_torch("aten.view_as_complex", "aten.view_as_complex_copy")
def lower_view_as_complex(x: Array) -> Array:
    """The pairs of the last axis as complex numbers."""
    real, imaginary = ops.unpack(x, axis=rank(x) - 1)
    return DEFAULT.lowers["Complex"](real, imaginary)


@lowers_torch("aten.complex")
def lower_complex(real: Array, imaginary: Array) -> Array:
    """Complex numbers of their parts."""
    return DEFAULT.lowers["Complex"](real, imaginary)
