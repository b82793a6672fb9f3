"""Fourier transforms, and spectra of audio: RFFT2D for lengths that are powers of 2, else products with sines.

Of an open length the matrices are computed at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Const
from jfuse.ir.trace import producer
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.ops.math.complex_numbers import parts, whole
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, size_tensor
from jfuse.lowering.rules import lowers

# Fourier transforms over axes of open length: products with sines and cosines that are computed at run time.

Parts = tuple[Array, Array | None]
"""Real and imaginary part; None where that is 0."""


def open_spectrum(x: Parts, length: Dim, bins: Dim, *, inverse: bool) -> Parts:
    """The first bins of a transform of all elements of the last axis.   x: f32[...,length] -> f32[...,bins]"""
    real, imaginary = x
    cos, sin = _open_waves(length, bins, length, real)
    if inverse:
        count = ops.cast(size_tensor(length, [real]), out_data_type=DType.f32)
        cos, sin = ops.div(cos, count), ops.neg(ops.div(sin, count))
    of_real = _by_matrix(real, cos), ops.neg(_by_matrix(real, sin))
    if imaginary is None:
        return of_real
    return ops.add(of_real[0], _by_matrix(imaginary, sin)), ops.add(of_real[1], _by_matrix(imaginary, cos))


def open_real_signal(x: Parts, length: Dim) -> Array:
    """Signals of that length from the first half of their spectra.   x: f32[...,length//2+1] -> f32[...,length]"""
    real, imaginary = x
    bins = length // 2 + 1
    cos, sin = _open_waves(bins, length, length, real)
    numbers, count = counted(bins, real), size_tensor(length, [real])
    # Every bin but the first stands for its mirror image too, except for the middle one of an even length.
    is_first = ops.equal(numbers, np.int32(0))
    is_middle = ops.equal(ops.mul(numbers, np.int32(2)), count)
    alone = ops.cast(ops.logical_or(is_first, is_middle), out_data_type=DType.f32)
    counts = ops.div(ops.sub(np.float32(2), alone), ops.cast(count, out_data_type=DType.f32))
    signal = _by_matrix(ops.mul(real, counts), cos)
    return signal if imaginary is None else ops.sub(signal, _by_matrix(ops.mul(imaginary, counts), sin))


def _open_waves(rows: Dim, columns: Dim, length: Dim, like: Array) -> tuple[Array, Array]:
    """cos and sin of 2 pi i k / length.   f32[rows,columns]

    Angles are reduced to one turn in integers: i k overflows i32 where the matrix itself has 2^31 elements.
    """
    places = ops.mul(ops.expand_dims(counted(rows, like), np.int32(1)), counted(columns, like))
    size = size_tensor(length, [like])
    turns = ops.cast(ops.floor_mod(places, size), out_data_type=DType.f32)
    angles = ops.mul(turns, ops.div(np.float32(2 * np.pi), ops.cast(size, out_data_type=DType.f32)))
    return ops.cos(angles), ops.sin(angles)


def _by_matrix(x: Array, matrix: Array) -> Array:
    """The products of the last axis; a vector is a row there."""
    if rank(x) > 1:
        return matrix_product(x, matrix, False, False)
    row = matrix_product(ops.expand_dims(x, np.int32(0)), matrix, False, False)
    return ops.squeeze(row, squeeze_dims=(0,))


_LARGEST = 2**22  # elements of the matrix of one part: all parts together are 64 MiB in the file at most


@lowers("RFFT")
def lower_rfft(x: Array, fft_length: Array) -> Array:
    """The spectra of real signals, without the mirrored half.   f32[...,n] -> c64[...,length//2+1]"""
    (length,) = _lengths(x, fft_length)
    if not _is_power(length):
        return _joined(_spectrum((_unpadded(x, length), None), length, length // 2 + 1))
    line = ops.expand_dims(_unpadded(x, length), np.asarray(rank(x) - 1, np.int32))
    spectra = ops.rfft2d(line, np.array([1, length], np.int32))
    return ops.squeeze(spectra, squeeze_dims=(rank(x) - 1,))


@lowers("RFFT2D")
def lower_rfft2d(x: Array, fft_length: Array) -> Array:
    """The spectra over the last two axes.   f32[...,h,w] -> c64[...,lengths[0],lengths[1]//2+1]"""
    height, width = _lengths(x, fft_length)
    if _is_power(width) and (height == 1 or _is_power(height)):
        return ops.rfft2d(x, np.array([height, width], np.int32))
    return _joined(_turned(_spectrum(_turned(_spectrum((x, None), width, width // 2 + 1)), height, height)))


@lowers("IRFFT")
def lower_irfft(x: Array, fft_length: Array) -> Array:
    """Real signals from their spectra.   c64[...,length//2+1] -> f32[...,length]"""
    (length,) = _lengths(x, fft_length)
    return _real_signal(parts(x), length)


@lowers("IRFFT2D")
def lower_irfft2d(x: Array, fft_length: Array) -> Array:
    """Real images from their spectra.   c64[...,lengths[0],lengths[1]//2+1] -> f32[...,*lengths]"""
    height, width = _lengths(x, fft_length)
    return _real_signal(_turned(_spectrum(_turned(parts(x)), height, height, inverse=True)), width)


@lowers("FFT")
def lower_fft(x: Array) -> Array:
    """The spectra along the last axis.   c64[...,n] -> c64[...,n]"""
    return _joined(_along_last(parts(x), inverse=False))


@lowers("IFFT")
def lower_ifft(x: Array) -> Array:
    """Signals from their spectra along the last axis.   c64[...,n] -> c64[...,n]"""
    return _joined(_along_last(parts(x), inverse=True))


@lowers("FFT2D")
def lower_fft2d(x: Array) -> Array:
    """The spectra along the last two axes.   c64[...,h,w] -> c64[...,h,w]"""
    return _joined(_turned(_along_last(_turned(_along_last(parts(x), inverse=False)), inverse=False)))


@lowers("IFFT2D")
def lower_ifft2d(x: Array) -> Array:
    """Signals from their spectra along the last two axes.   c64[...,h,w] -> c64[...,h,w]"""
    return _joined(_turned(_along_last(_turned(_along_last(parts(x), inverse=True)), inverse=True)))


def _needs_f32(x: Array) -> None:
    if dtype(x) not in (DType.f32, DType.c64):
        raise LowerError(
            f"a Fourier transform of {type_of(x)}",
            expected="f32 or complex64",
            remedy="cast the operand",
        )


def _lengths(x: Array, fft_length: Array) -> tuple[Dim, ...]:
    _needs_f32(x)
    return tuple(int(d) if is_known(d) else d for d in static(fft_length, "fft_length"))


def _unpadded(x: Array, length: Dim) -> Array:
    """x before the zeros that TensorFlow fills signals up with, where the transform of that length implies them."""
    eqn = producer(x)
    if (
        eqn is None
        or eqn.op is not ops.pad
        or not is_known(x.shape[-1])
        or not is_known(length)
        or x.shape[-1] > length
    ):
        return x
    amounts = eqn.inputs[1]
    is_behind = isinstance(amounts, Const) and not amounts.ravel()[:-1].any()
    return eqn.inputs[0] if is_behind else x


def _is_power(length: Dim) -> bool:
    """Whether RFFT2D takes the length."""
    return is_known(length) and length >= 2 and length & (length - 1) == 0


def _along_last(x: Parts, *, inverse: bool) -> Parts:
    _needs_f32(x[0])
    length = x[0].shape[-1]
    return _spectrum(x, length, length, inverse=inverse)


def _joined(x: Parts) -> Array:
    real, imaginary = x
    return whole(real, ops.zeros_like(real) if imaginary is None else imaginary)


def _turned(x: Parts) -> Parts:
    """The last two axes exchanged."""
    order = list(range(rank(x[0])))
    order[-2:] = order[-1], order[-2]
    real, imaginary = (None if p is None else ops.transpose(p, np.array(order, np.int32)) for p in x)
    return real, imaginary


def _spectrum(x: Parts, length: Dim, bins: Dim, *, inverse: bool = False) -> Parts:
    """The first bins of a transform of that length along the last axis, as one product."""
    if not is_known(length):
        _need_all(x[0], length)
        return open_spectrum(x, length, bins, inverse=inverse)
    size = _size(x[0], length)
    cos, sin = _waves(size, bins, length)
    if inverse:
        cos, sin = cos / length, -sin / length
    matrix = np.concatenate([cos, -sin], axis=1)
    if x[1] is not None:
        matrix = np.concatenate([matrix, np.concatenate([sin, cos], axis=1)])
    both = _times(x, size, matrix)
    real, imaginary = ops.split(np.asarray(rank(both) - 1, np.int32), both, num_splits=2)
    return real, imaginary


def _real_signal(x: Parts, length: Dim) -> Array:
    """Signals of that length from the first half of their spectra, as one product."""
    if not is_known(length):
        _need_all(x[0], length // 2 + 1)
        return open_real_signal(x, length)
    size = _size(x[0], length // 2 + 1)
    cos, sin = _waves(size, length, length)
    # Every bin but the first stands for its mirror image too, except for the middle one of an even length.
    counts = np.where((np.arange(size) == 0) | (2 * np.arange(size) == length), 1, 2)[:, None] / length
    matrix = np.concatenate([counts * cos, -counts * sin]) if x[1] is not None else counts * cos
    return _times(x, size, matrix)


def _waves(rows: int, columns: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    if rows * columns > _LARGEST:
        raise LowerError(
            f"a Fourier transform as a matrix of {rows} by {columns}",
            expected=f"at most {_LARGEST} elements",
            remedy="transform real signals with tf.signal.rfft and a length that is a power of 2",
        )
    angles = 2 * np.pi / length * (np.outer(np.arange(rows), np.arange(columns)) % length)
    return np.cos(angles), np.sin(angles)


def _size(x: Array, most: int) -> int:
    """How many elements of the last axis count: the others are cut off. TensorFlow refuses an open axis with less."""
    return min(int(x.shape[-1]), most) if is_known(x.shape[-1]) else most


def _need_all(x: Array, size: Dim) -> None:
    """Raise LowerError unless a transform of an open length is one of all elements."""
    if same(x.shape[-1], size) is not True:
        raise LowerError(
            "a Fourier transform over a length that is known only at run time, and is not that of its operand",
            expected=f"an axis of {size} elements",
            found=str(type_of(x)),
            remedy="leave fft_length out, or fix it",
        )


def _times(x: Parts, size: int, matrix: np.ndarray) -> Array:
    both: list[Any] = [_cut(p, size) for p in x if p is not None]
    joined = both[0] if len(both) == 1 else ops.concatenation(*both, axis=rank(both[0]) - 1)
    product = matrix_product(joined, matrix.astype(np.float32), False, False)
    return product if rank(joined) > 1 else ops.reshape(product, matrix.shape[1:])  # a vector is a row there


def _cut(x: Array, size: int) -> Array:
    if same(x.shape[-1], size) is True:
        return x
    ends = (np.array([0] * (rank(x) - 1) + [v], np.int32) for v in (0, size))
    others = (1 << (rank(x) - 1)) - 1
    return ops.strided_slice(x, *ends, np.ones(rank(x), np.int32), begin_mask=others, end_mask=others)


# Spectrograms and cepstra as TensorFlow's audio ops make them.

_FLOOR = np.float32(1e-12)  # of filter bank energies, before the logarithm


@lowers("AudioSpectrogram")
def lower_audio_spectrogram(x: Array, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Array:
    """The spectra of frames under a Hann window.   f32[samples,channels] -> f32[channels,frames,bins]

    Source: tensorflow/core/kernels/spectrogram.cc
    """
    samples = x.shape[0]
    if not is_known(samples):
        raise LowerError("a spectrogram of a length that is known only at run time", found=str(type_of(x)))
    length = 1 << (window_size - 1).bit_length()
    count = 1 + (int(samples) - window_size) // stride if samples >= window_size else 0
    places = np.arange(count, dtype=np.int32)[:, None] * np.int32(stride) + np.arange(window_size, dtype=np.int32)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)).astype(np.float32)
    frames = ops.mul(ops.gather(ops.transpose(x, (1, 0)), places, axis=1), window)
    line = ops.expand_dims(frames, np.int32(2))
    spectra = ops.squeeze(ops.rfft2d(line, np.array([1, length], np.int32)), squeeze_dims=(2,))
    if magnitude_squared:
        return ops.add(ops.square(ops.real(spectra)), ops.square(ops.imag(spectra)))
    return ops.complex_abs(spectra)


@lowers("Mfcc")
def lower_mfcc(
    spectrogram: Array,
    sample_rate: Array,
    *,
    upper_frequency_limit: float = 4000,
    lower_frequency_limit: float = 20,
    filterbank_channel_count: int = 40,
    dct_coefficient_count: int = 13,
) -> Array:
    """Cepstra of squared spectra.   f32[channels,frames,bins] -> f32[channels,frames,coefficients]

    Source: tensorflow/core/kernels/mfcc.cc
    """
    if not is_constant(sample_rate) or not is_known(spectrogram.shape[2]):
        raise LowerError(
            "the filters of Mfcc depend on the sample rate and the number of bins",
            expected="a constant sample rate and a fixed number of bins",
            found=str(type_of(spectrogram)),
        )
    limits = lower_frequency_limit, upper_frequency_limit
    filters = mel_filters(int(spectrogram.shape[2]), float(sample_rate), filterbank_channel_count, *limits)
    energies = matrix_product(ops.sqrt(spectrogram), filters, False, False)
    cosines = _cosines(filterbank_channel_count, dct_coefficient_count)
    return matrix_product(ops.log(ops.maximum(energies, _FLOOR)), cosines, False, False)


def mel_filters(bins: int, sample_rate: float, channels: int, low: float, high: float) -> np.ndarray:
    """How much of each bin each channel gets: triangles over the mel scale, without the bin of frequency 0.

    f32[bins,channels]   Source: tensorflow/core/kernels/mfcc_mel_filterbank.cc
    """
    spacing = 0.5 * sample_rate / (bins - 1)
    edges = _mel(low) + (_mel(high) - _mel(low)) / (channels + 1) * np.arange(channels + 2)
    mels = _mel(np.arange(bins) * spacing)
    is_used = (np.arange(bins) >= int(1.5 + low / spacing)) & (np.arange(bins) <= int(high / spacing))
    band = np.clip(np.searchsorted(edges[1:-1], mels, side="left"), 0, channels)  # between edges[band] and the next
    falling = (edges[band + 1] - mels) / (edges[band + 1] - edges[band])
    filters = np.zeros((bins, channels + 2))
    filters[np.arange(bins), band] = falling * is_used
    filters[np.arange(bins), band + 1] = (1 - falling) * is_used
    return filters[:, 1:-1].astype(np.float32)


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


def _cosines(size: int, count: int) -> np.ndarray:
    """The cosine transform.   f32[size,count]"""
    angles = np.outer(np.arange(size) + 0.5, np.arange(count)) * np.pi / size
    return np.asarray(np.sqrt(2.0 / size) * np.cos(angles), np.float32)
