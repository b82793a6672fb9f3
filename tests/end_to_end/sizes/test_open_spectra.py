"""Fourier transforms over axes of open length, in LiteRT at even and odd lengths, against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.slow import slow_but

_COMPLEX = tf.complex64
# f32 sums of up to 5 terms that cancel, with cosines that are computed in f32.
_SUMS = 2e-5


def there_and_back(x: Any) -> Any:
    return tf.signal.irfft(tf.signal.rfft(tf.concat([x, -2 * x], 1)))


SPECTRA: dict[str, Callable[[Any], Any]] = {
    "rfft": lambda x: tf.abs(tf.signal.rfft(x)),
    "rfft2d": lambda x: tf.abs(tf.signal.rfft2d(x)),
    "back": there_and_back,
    "fft": lambda x: tf.math.real(tf.signal.fft(tf.complex(x, x * 2))),
    "ifft2d": lambda x: tf.math.imag(tf.signal.ifft2d(tf.complex(x, x * 2))),
    "to length 6": lambda x: tf.abs(tf.signal.rfft(x, [6])),
    "to length 8": lambda x: tf.abs(tf.signal.rfft(x, [8])),
}


@pytest.mark.parametrize("name", slow_but(lambda name: name in ("rfft", "back"), SPECTRA))
def test_an_open_length(name: str) -> None:
    spec = tf.TensorSpec([None, None], name="x")
    check_invokes(jfuse.convert(tf.function(SPECTRA[name], input_signature=[spec], autograph=False)), tolerance=_SUMS)


def test_a_vector() -> None:
    function = tf.function(lambda x: tf.abs(tf.signal.rfft(x)), input_signature=[tf.TensorSpec([None], name="x")])
    check_invokes(jfuse.convert(function), tolerance=_SUMS)


def test_spectra_of_two_signals() -> None:
    """Their lengths are taken to be equal, as those of the halves must be."""
    specs = [tf.TensorSpec([2, None], name="x"), tf.TensorSpec([2, None], name="y")]
    function = tf.function(lambda x, y: tf.abs(tf.signal.rfft(x) * tf.signal.rfft(y)), input_signature=specs)
    assert jfuse.convert(function).report.assumptions == ["N1 = N"]
