"""Spectrograms and cepstra as TensorFlow's audio ops make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.rule_tools.query import is_constant, type_of
from jfuse.lowering.rules import lowers

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
