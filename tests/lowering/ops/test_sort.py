"""What rows cannot say of lowering/ops/array/sort.py."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from jfuse.lowering.ops.array.sort import lower_old_top_k

X = np.array([[1, 3, 3, 2], [0, -1, 4, 4]], np.float32)


def test_the_first_form_of_top_k_has_its_number_as_an_attribute() -> None:
    """TensorFlow 2 has no kernel of it any more."""
    found, places = lower_old_top_k(X, k=3)
    wanted = tf.math.top_k(X, 3)
    np.testing.assert_array_equal(found, wanted.values)
    np.testing.assert_array_equal(places, wanted.indices)
