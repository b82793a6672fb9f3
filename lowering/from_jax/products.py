"""dot_general, by the rule for Einsum."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import as_dtype
from jfuse.lowering.rule_tools.query import dtype, rank
from jfuse.lowering.rules import DEFAULT, lowers_jax

Axes = Sequence[int]


@lowers_jax("dot_general")
def lower_dot_general(
    x: Array,
    y: Array,
    *,
    dimension_numbers: tuple[tuple[Axes, Axes], tuple[Axes, Axes]],
    preferred_element_type: Any = None,
) -> Array:
    """Products summed over the contracting axes; the result has the batch axes, the rest of x, the rest of y."""
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    names = iter(ascii_letters)
    x_labels = [next(names) for _ in range(rank(x))]
    y_labels = [""] * rank(y)
    for i, j in (*zip(x_sum, y_sum, strict=True), *zip(x_batch, y_batch, strict=True)):
        y_labels[j] = x_labels[i]
    y_labels = [label or next(names) for label in y_labels]
    result = [x_labels[i] for i in x_batch]
    result += [label for i, label in enumerate(x_labels) if i not in (*x_sum, *x_batch)]
    result += [label for j, label in enumerate(y_labels) if j not in (*y_sum, *y_batch)]
    equation = f"{''.join(x_labels)},{''.join(y_labels)}->{''.join(result)}"
    result_type = None if preferred_element_type is None else DType.of(np.dtype(preferred_element_type))
    # jax leaves a product of a real and a complex operand to the type that it asks for; wider sums do not overflow.
    if dtype(x) is not dtype(y) or (result_type is not None and result_type.numpy.itemsize > dtype(x).numpy.itemsize):
        common = result_type or DType.of(np.result_type(dtype(x).numpy, dtype(y).numpy))
        x, y = as_dtype(x, common), as_dtype(y, common)
    product = DEFAULT.lowers["Einsum"](x, y, equation=equation)
    return product if result_type is None else as_dtype(product, result_type)
