"""The forms of steps by family: how an op's operands and options are drawn. Every family adds to FORMS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.properties.choose import Chooser
from tests.properties.values import Step, Value

Form = Callable[[Chooser], Step]

# Roundings of the largest element that kernels of another spelling may differ by: a few for exp, log, tanh and the
# like; for sums those of the terms, whose order differs.
SPECIAL = 16.0
SUM = 16.0
PRODUCT = 32.0


def _named(name: str, call: Callable[..., Any], x: int, rounding: float = 0, **options: Any) -> Step:
    return Step(name, call, (x,), options, rounding)


# Elementwise

_EXACT: dict[str, Callable[..., Any]] = {
    "abs": tf.abs,
    "neg": tf.negative,
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "floor": tf.floor,
    "ceil": tf.math.ceil,
    "round": tf.round,
    "sign": tf.sign,
    "identity": tf.identity,
    "zeros_like": tf.zeros_like,
    "ones_like": tf.ones_like,
    "clip": lambda x: tf.clip_by_value(x, tf.cast(-1, x.dtype), tf.cast(1, x.dtype)),
    "maximum_0": lambda x: tf.maximum(x, tf.cast(0, x.dtype)),
    "minimum_6": lambda x: tf.minimum(x, tf.cast(6, x.dtype)),
}
_SPECIAL: dict[str, Callable[..., Any]] = {
    "sqrt": lambda x: tf.sqrt(tf.abs(x)),
    "rsqrt": lambda x: tf.math.rsqrt(tf.abs(x) + 0.5),
    "exp": lambda x: tf.exp(tf.minimum(x, 3.0)),
    "log": lambda x: tf.math.log(tf.abs(x) + 0.5),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "expm1": lambda x: tf.math.expm1(tf.minimum(x, 3.0)),
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "leaky_relu": lambda x: tf.nn.leaky_relu(x, 0.1),
    "gelu": tf.nn.gelu,
    "gelu_approximate": lambda x: tf.nn.gelu(x, approximate=True),
    "silu": tf.nn.silu,
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3.0) / 6.0,
    "erf": tf.math.erf,
    "sin": tf.sin,
    "cos": tf.cos,
    "square": tf.square,
    "reciprocal": lambda x: tf.math.reciprocal(tf.abs(x) + 0.5),
    "scaled": lambda x: x * 0.5 + 1.0,
    "halved": lambda x: x / 2.0,
    "cubed": lambda x: tf.pow(x, 3.0),
}


def exact_unary(c: Chooser) -> Step:
    """An elementwise op that rounds nothing."""
    name = c.one_of(*_EXACT)
    integers = name not in ("floor", "ceil", "round", "relu6")
    x = c.value(lambda v: v.is_float or (integers and v.dtype in (np.int32, np.int64, np.int8)))
    return _named(name, _EXACT[name], x)


def special_unary(c: Chooser) -> Step:
    """An elementwise function of floats."""
    name = c.one_of(*_SPECIAL)
    return _named(name, _SPECIAL[name], c.floats(), SPECIAL)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": tf.add,
    "subtract": tf.subtract,
    "multiply": tf.multiply,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "squared_difference": tf.math.squared_difference,
}
_BINARY_FLOAT: dict[str, Callable[..., Any]] = {
    "divide": lambda x, y: x / (tf.abs(y) + 0.5),
    "pow": lambda x, y: tf.pow(tf.abs(x) + 0.5, y),
    "atan2": lambda x, y: tf.atan2(x, tf.abs(y) + 0.5),
    "floordiv": lambda x, y: x // (tf.abs(y) + 0.5),
    "floormod": lambda x, y: tf.math.floormod(x, tf.abs(y) + 0.5),
}
_BINARY_INTEGER: dict[str, Callable[..., Any]] = {
    "floordiv": lambda x, y: x // (tf.abs(y) + 1),
    "floormod": lambda x, y: tf.math.floormod(x, tf.abs(y) + 1),
}
_COMPARE: dict[str, Callable[..., Any]] = {
    "less": tf.less,
    "less_equal": tf.less_equal,
    "greater": tf.greater,
    "greater_equal": tf.greater_equal,
    "equal": tf.equal,
    "not_equal": tf.not_equal,
}
_LOGICAL: dict[str, Callable[..., Any]] = {
    "logical_and": tf.logical_and,
    "logical_or": tf.logical_or,
    "logical_xor": tf.math.logical_xor,
}


def _pair(c: Chooser, name: str, call: Callable[..., Any], x: int, rounding: float) -> Step:
    y = c.partner(x)
    swapped = c.flag()
    if isinstance(y, int):
        return Step(name, call, (y, x) if swapped else (x, y), {}, rounding)

    def with_constant(x: Any, constant: np.ndarray) -> Any:
        return call(constant, x) if swapped else call(x, constant)

    return Step(f"{name}{'_from' if swapped else ''}", with_constant, (x,), {"constant": y}, rounding)


def binary(c: Chooser) -> Step:
    """Arithmetic with broadcasting."""
    name = c.one_of(*_BINARY)
    x = c.value(lambda v: v.dtype != np.bool_)
    exact = name in ("maximum", "minimum")
    return _pair(c, name, _BINARY[name], x, 0 if exact else 2)


def binary_float(c: Chooser) -> Step:
    """Arithmetic of floats alone."""
    name = c.one_of(*_BINARY_FLOAT)
    return _pair(c, name, _BINARY_FLOAT[name], c.value(lambda v: v.dtype == np.float32), SPECIAL)


def binary_integer(c: Chooser) -> Step:
    """Division of integers."""
    name = c.one_of(*_BINARY_INTEGER)
    return _pair(c, name, _BINARY_INTEGER[name], c.value(lambda v: v.dtype in (np.int32, np.int64)), 0)


def compare(c: Chooser) -> Step:
    """Comparisons."""
    name = c.one_of(*_COMPARE)
    return _pair(c, name, _COMPARE[name], c.value(lambda v: v.dtype != np.bool_), 0)


def logical(c: Chooser) -> Step:
    """Logic, negation too."""
    x = c.value(lambda v: v.dtype == np.bool_)
    if c.integer(0, 3) == 0:
        return _named("logical_not", tf.logical_not, x)
    name = c.one_of(*_LOGICAL)
    return _pair(c, name, _LOGICAL[name], x, 0)


def select(c: Chooser) -> Step:
    """tf.where with three operands."""
    condition = c.value(lambda v: v.dtype == np.bool_)
    x = c.value()
    y = c.partner(x)
    if isinstance(y, int):
        return Step("where", tf.where, (condition, x, y))
    return Step("where_else", lambda p, x, constant: tf.where(p, x, constant), (condition, x), {"constant": y})


def cast(c: Chooser) -> Step:
    """Casts among all types."""
    x = c.value()
    dtype = c.one_of(tf.float32, tf.float32, tf.int32, tf.int64, tf.bool, tf.float16, tf.int8)
    rounding = 1.0 if dtype == tf.float16 else 0.0
    return Step("cast", tf.cast, (x,), {"dtype": dtype}, rounding)


# Reductions

_REDUCE: dict[str, tuple[Callable[..., Any], float]] = {
    "reduce_sum": (tf.reduce_sum, SUM),
    "reduce_mean": (tf.reduce_mean, SUM),
    "reduce_max": (tf.reduce_max, 0),
    "reduce_min": (tf.reduce_min, 0),
    "reduce_prod": (tf.reduce_prod, SUM),
    "reduce_logsumexp": (tf.reduce_logsumexp, SPECIAL),
    "reduce_variance": (tf.math.reduce_variance, SUM),
    "reduce_std": (tf.math.reduce_std, SUM),
    "reduce_euclidean_norm": (tf.math.reduce_euclidean_norm, SUM),
}
_FLOAT_ONLY = ("reduce_mean", "reduce_logsumexp", "reduce_variance", "reduce_std", "reduce_euclidean_norm")


def _is_number(v: Value) -> bool:
    return v.dtype in (np.float32, np.int32, np.int64, np.float16)


def reduce(c: Chooser) -> Step:
    """Reductions over any axes."""
    name = c.one_of(*_REDUCE)
    call, rounding = _REDUCE[name]
    x = c.floats() if name in _FLOAT_ONLY else c.value(_is_number)
    return _named(name, call, x, rounding, axis=c.axes(c.pool[x].rank), keepdims=c.flag())


def reduce_bool(c: Chooser) -> Step:
    """All and any."""
    x = c.value(lambda v: v.dtype == np.bool_)
    call = c.one_of(tf.reduce_all, tf.reduce_any)
    return _named(call.__name__, call, x, axis=c.axes(c.pool[x].rank), keepdims=c.flag())


def arg_extremum(c: Chooser) -> Step:
    """Argmax and argmin."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype in (np.float32, np.int32))
    call = c.one_of(tf.argmax, tf.argmin)
    return Step(
        call.__name__,
        call,
        (x,),
        {"axis": c.axis(c.pool[x].rank), "output_type": c.one_of(tf.int32, tf.int64)},
    )


def cumulative(c: Chooser) -> Step:
    """Cumulative sums."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype in (np.float32, np.int32, np.int64))
    axis = c.axis(c.pool[x].rank)
    return _named("cumsum", tf.cumsum, x, SUM, axis=axis, exclusive=c.flag(), reverse=c.flag())


def softmax(c: Chooser) -> Step:
    """Softmax and its logarithm along any axis."""
    x = c.floats(1)
    call = c.one_of(tf.nn.softmax, tf.nn.softmax, tf.nn.log_softmax)
    return _named(call.__name__, call, x, SPECIAL, axis=c.axis(c.pool[x].rank))


def normalize(c: Chooser) -> Step:
    """L2 normalisation, and a layer norm written out."""
    x = c.floats(1)
    axis = c.axis(c.pool[x].rank)
    if c.flag():
        return _named("l2_normalize", tf.nn.l2_normalize, x, SPECIAL, axis=axis)
    return _named("layer_norm", _layer_norm, x, PRODUCT, axis=axis)


def _layer_norm(x: Any, axis: int) -> Any:
    mean, variance = tf.nn.moments(x, [axis], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 0.1)


FORMS: tuple[Form, ...] = (
    exact_unary,
    special_unary,
    binary,
    binary,
    binary_float,
    binary_integer,
    compare,
    logical,
    select,
    cast,
    reduce,
    reduce,
    reduce_bool,
    arg_extremum,
    cumulative,
    softmax,
    normalize,
)
