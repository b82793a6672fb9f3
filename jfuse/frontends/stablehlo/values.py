"""Values while StableHLO is read: arrays, and sizes that follow from the shapes of inputs, which stay numbers."""

from __future__ import annotations

import re
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from jfuse.base.errors import ImportFailed

_OTHER: dict[str, Any] = {
    "i1": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
_NOT_OF_NUMPY = frozenset(map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)))
_KINDS = {"i": "int", "si": "int", "ui": "uint", "f": "float"}


def dtype_of(element: Any) -> np.dtype[Any]:
    """The NumPy type of an element type; raises ImportFailed where there is none."""
    text = str(element)
    if text in _OTHER:
        other: np.dtype[Any] = np.dtype(_OTHER[text])
        return other
    match = re.fullmatch(r"(i|si|ui|f)(8|16|32|64)", text)
    if match is None:
        raise ImportFailed("StableHLO has a type that TFLite lacks", found=text)
    return np.dtype(f"{_KINDS[match[1]]}{match[2]}")


def result_type(op: Any, number: int = 0) -> tuple[list[int], np.dtype[Any]]:
    """The sizes of a result, negative where they are open, and its NumPy type."""
    stated = ir.RankedTensorType(op.results[number].type)
    sizes = [-1 if stated.is_dynamic_dim(i) else stated.get_dim_size(i) for i in range(stated.rank)]
    return sizes, dtype_of(stated.element_type)


def is_sizes(value: Any) -> bool:
    """Whether a value is sizes: an array of numbers and open sizes, which jax does not compute on."""
    return isinstance(value, np.ndarray) and value.dtype == object


_LARGEST_SHAPE = 16  # elements of what may be a shape


def are_sizes(values: Any) -> bool:
    """Whether sizes are computed from these: each of them is sizes, or known integers, few enough for a shape."""
    are_arrays = (isinstance(v, np.ndarray) and v.dtype.kind in "iuO" and v.size <= _LARGEST_SHAPE for v in values)
    return all(are_arrays)


def as_sizes(value: Any) -> list[Any]:
    """The sizes that a vector holds; raises ImportFailed where they are computed from data."""
    if not isinstance(value, np.ndarray):
        raise ImportFailed("StableHLO has a shape that is computed from data", remedy="give it fixed sizes")
    return [d if is_sizes(value) and not isinstance(d, int) else int(d) for d in value.ravel().tolist()]


def as_array(value: Any, kind: Any = np.int32) -> Any:
    """A value as jax computes on it."""
    if not is_sizes(value):
        return value
    flat = [jnp.asarray(d).astype(kind).reshape(1) for d in value.ravel().tolist()]
    return lax.concatenate(flat, 0).reshape(value.shape) if flat else np.zeros(value.shape, kind)


def constant(attribute: Any) -> np.ndarray:
    """The array of a constant's attribute."""
    stated = ir.RankedTensorType(attribute.type)
    kind, shape = dtype_of(stated.element_type), tuple(stated.shape)
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        splat: Any = attribute.get_splat_value()
        value = splat.value
        return np.full(shape, value, kind)
    if isinstance(attribute, ir.DenseResourceElementsAttr):
        raise ImportFailed("StableHLO has weights in another place than itself", found=str(attribute)[:80])
    if kind == np.bool_:
        return np.array(list(attribute), kind).reshape(shape)
    if kind in _NOT_OF_NUMPY:
        return np.array(list(attribute), np.float32).astype(kind).reshape(shape)
    return np.array(attribute).astype(kind).reshape(shape)


def complex_constant(op: Any) -> np.ndarray:
    """The complex array of a constant from its text, as MLIR's bindings hand over no such elements.

    The text has all bytes in one string, or two numbers for each element, or for all of them; a number that decimals
    do not say is its bits.
    """
    shape, kind = result_type(op)
    (text,) = re.findall(r"dense<(.*)>\s*:", str(op), re.DOTALL)
    if text.startswith('"0x'):
        values = np.frombuffer(bytes.fromhex(text[3:-1]), kind)
    else:
        part = np.empty(0, kind).real.dtype
        bits = np.dtype(f"u{part.itemsize}")
        parts = [
            np.array(int(word, 16), bits).view(part) if word.startswith("0x") else part.type(word)
            for word in re.findall(r"[^\s(),\[\]]+", text)
        ]
        values = np.array(parts, part).view(kind)
    return np.full(shape, values[0]) if values.size == 1 else values.reshape(shape)
