"""Constants and parameters as text that reads back exactly."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const
from jfuse.ir.quantization import PRINTED_IN_FULL
from jfuse.ir.sparse import SparseConst
from jfuse.ir.types import DType

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_ESCAPE = r"""\\(?:[\\'"nrt]|x[0-9a-f]{2})"""  # those that repr writes
BYTES = re.compile(rf"""b'(?:(?!['\\])[ -~]|{_ESCAPE})*'|b"(?:(?!["\\])[ -~]|{_ESCAPE})*\"""")

_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")
_WORDS: Mapping[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    **{dtype.value: dtype for dtype in DType},
}
_BARE = (DType.f32, DType.i32, DType.bool)  # scalars of these types print without their type
_PARTS = {DType.c64: DType.f32, DType.c128: DType.f64}


def format_value(value: Any) -> str:
    """A parameter as a literal; `<name of the class>`, which does not read back, for what has no literal."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, DType):
        return value.value
    if value is None or isinstance(value, bool | int | float | bytes):
        return repr(value)
    if isinstance(value, tuple | list):
        return "(" + ",".join(map(format_value, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{format_value(k)}:{format_value(v)}" for k, v in value.items()) + "}"
    return format_dim(value) if not is_known(value) else f"<{type(value).__name__}>"


def format_dim(dim: Any) -> str:
    """A symbolic dimension as a parameter; `dim(f32)` where the bare symbol would read as something else."""
    text = str(dim).replace(" ", "")
    return f"dim({text})" if text in _WORDS else text


def parse_word(word: str) -> Any:
    """The int, float, word or DType that `word` denotes, or `...` where it denotes none of them (a dimension)."""
    if word in _WORDS:
        return _WORDS[word]
    match = _NUMBER.fullmatch(word)
    if match is None:
        return ...
    return float(word) if match[1] or match[2] else int(word)


def format_known(value: np.ndarray) -> str:
    """The known value of a Var as nested tuples."""
    return format_value(value.tolist())


def format_const(const: Const) -> str:
    """A constant: bare (`0.5`, `7`, `True`), with its type (`i64[2](1 2)`), or by its digest (`const<…>`)."""
    if isinstance(const, SparseConst):
        return _format_sparse(const)
    array, dtype = const.array, const.type.dtype
    if array.size > PRINTED_IN_FULL:
        return f"const<{const.type} {_size_bytes(array)}B {const.digest}>"
    elements = [_format_element(item, dtype) for item in _flat(array, dtype)]
    # nan and inf could be names of variables, so they never stand alone.
    bare = array.ndim == 0 and dtype in _BARE and const.quantization is None
    if bare and elements[0].lstrip("-")[:3] not in ("nan", "inf"):
        return elements[0]
    return f"{const.type}({' '.join(elements)})"


def _format_sparse(const: SparseConst) -> str:
    """`sparse<f32[8,8] order=(0,1) blocks=() values=f32[3](1.0 2.0 3.0) 8 i32[9](…):u8[3](…)>`."""
    sparsity = const.sparsity
    parts = [f"order={format_value(sparsity.order)}", f"blocks={format_value(sparsity.blocks)}"]
    parts.append(f"values={format_const(Const(const.stored))}")
    for level in sparsity.levels:
        parts.append(str(level) if isinstance(level, int) else ":".join(map(format_const, level)))
    return f"sparse<{const.type} {' '.join(parts)}>"


def parse_elements(words: Iterable[str], dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The array of printed elements; raises ValueError where one is not of the dtype or their number does not fit."""
    items = [_parse_element(word, dtype) for word in words]
    if dtype is DType.string or dtype is DType.bool or dtype.is_integer:
        return np.array(items, dtype.numpy).reshape(shape)
    # By bytes: a NaN would lose its payload on the way through a Python float.
    return np.frombuffer(b"".join(item.tobytes() for item in items), dtype.numpy).reshape(shape)


def parse_bytes(text: str) -> bytes:
    """The value of a bytes literal."""
    value: bytes = ast.literal_eval(text)
    return value


def _flat(array: np.ndarray, dtype: DType) -> Iterable[Any]:
    # A complex number prints as two: its parts, so that signed zeros and NaNs survive.
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(_PARTS[dtype].numpy) if dtype in _PARTS else flat


def _size_bytes(array: np.ndarray) -> int:
    return sum(len(item) for item in array.ravel()) if array.dtype == object else array.nbytes


def _format_element(item: Any, dtype: DType) -> str:
    if dtype is DType.string:
        return repr(bytes(item))
    if dtype is DType.bool:
        return str(bool(item))
    return str(int(item)) if dtype.is_integer else _format_float(item)


def _format_float(item: Any) -> str:
    """The shortest text that gives the same bits; other NaNs than the usual one show theirs (`nan:7fc00001`)."""
    if np.isnan(item):
        usual = item.tobytes() == type(item)(np.nan).tobytes()
        return "nan" if usual else f"nan:{int.from_bytes(item.tobytes(), 'little'):x}"
    text = str(item) if isinstance(item, np.floating) else repr(float(item))
    # Read as f64 and rounded again, a shortest text may miss by one bit; all digits never do.
    return text if type(item)(float(text)) == item else repr(float(item))


def _parse_element(word: str, dtype: DType) -> Any:
    if dtype is DType.string:
        if not BYTES.fullmatch(word):
            raise ValueError(f"{word} is not a bytes literal")
        return parse_bytes(word)
    if dtype is DType.bool:
        if word not in ("True", "False"):
            raise ValueError(f"{word} is not True or False")
        return word == "True"
    if dtype.is_integer:
        return int(word)
    numpy = _PARTS.get(dtype, dtype).numpy
    if word.startswith("nan:"):
        return np.frombuffer(int(word[4:], 16).to_bytes(numpy.itemsize, "little"), numpy)[0]
    return numpy.type(float(word))
