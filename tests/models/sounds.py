"""What stands before a network that hears: spectrograms by tf.signal, by Keras, by TensorFlow's audio ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

RATE, BANDS = 8000, 12


def log_mel(x: Any) -> Any:
    """The logarithm of mel bands.   f32[b,samples] -> f32[b,frames,BANDS]"""
    spectra = tf.abs(tf.signal.stft(x, 48, 24, 64))
    return tf.math.log(
        tf.tensordot(spectra, tf.signal.linear_to_mel_weight_matrix(BANDS, 33, RATE, 80.0, 3800.0), 1) + 1e-3
    )


def odd_spectra(x: Any) -> Any:
    """Spectra over a length that is no power of 2."""
    return tf.abs(tf.signal.stft(x, 50, 25, 50))


def cepstra(x: Any) -> Any:
    """The cosine transform of log mel bands."""
    return tf.signal.mfccs_from_log_mel_spectrograms(log_mel(x))[..., :8]


def denoised(x: Any) -> Any:
    """A gate on spectra, and back to samples with the phase of the input."""
    spectra = tf.signal.stft(x, 64, 32)
    size = tf.abs(spectra)
    angle = tf.math.angle(spectra)
    gated = tf.cast(size * tf.sigmoid(size - 1), tf.complex64) * tf.complex(tf.cos(angle), tf.sin(angle))
    return tf.signal.inverse_stft(gated, 64, 32, window_fn=tf.signal.inverse_stft_window_fn(32))


def round_trip(x: Any) -> Any:
    """To spectra and back."""
    window = tf.signal.inverse_stft_window_fn(32)
    return tf.signal.inverse_stft(tf.signal.stft(x, 64, 32), 64, 32, window_fn=window)


def griffin_lim(x: Any) -> Any:
    """Samples whose spectra have the sizes of those of the input, in two rounds."""
    window = tf.signal.inverse_stft_window_fn(16)
    size = tf.abs(tf.signal.stft(x, 32, 16))
    phase = tf.cast(tf.ones_like(size), tf.complex64)
    for _ in range(2):
        samples = tf.signal.inverse_stft(tf.cast(size, tf.complex64) * phase, 32, 16, window_fn=window)
        spectra = tf.signal.stft(samples, 32, 16)
        phase = spectra / tf.cast(tf.maximum(1e-6, tf.abs(spectra)), tf.complex64)
    return tf.signal.inverse_stft(tf.cast(size, tf.complex64) * phase, 32, 16, window_fn=window)


def speech_commands(x: Any) -> Any:
    """The features of TensorFlow's speech commands example.   f32[samples,1] -> f32[1,frames,10]"""
    spectra = tf.raw_ops.AudioSpectrogram(input=x, window_size=60, stride=30, magnitude_squared=True)
    return tf.raw_ops.Mfcc(
        spectrogram=spectra, sample_rate=RATE, upper_frequency_limit=3800.0, filterbank_channel_count=BANDS,
        dct_coefficient_count=10,
    )  # fmt: skip


def function(call: Callable[[Any], Any], *shape: int | None) -> Any:
    """A tf.function of samples."""
    return tf.function(call, input_signature=[tf.TensorSpec(shape, name="x")], autograph=False)


def mel_layer(batch: int | None) -> Any:
    """Keras's layer."""
    x = keras.Input((400,), batch_size=batch)
    layer = keras.layers.MelSpectrogram(
        fft_length=64, sequence_stride=32, num_mel_bins=BANDS, sampling_rate=RATE, max_freq=3800
    )
    return keras.Model(x, layer(x))


def stft_layer(batch: int | None) -> Any:
    """Keras's layer, which is convolutions."""
    x = keras.Input((400, 1), batch_size=batch)
    layer = keras.layers.STFTSpectrogram(mode="log", frame_length=64, frame_step=32, fft_length=64)
    return keras.Model(x, layer(x))
