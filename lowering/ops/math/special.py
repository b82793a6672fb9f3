"""The error function and its complement, which TFLite lacks.

Each becomes a composite with a spelling of forty ops or fewer, so that whoever recognises a GELU meets one equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.query import dtype, one_like, scalar, type_of
from jfuse.lowering.rules import lowers

# Rational approximation of erf on [-c, c], beyond which it rounds to 1: xla/hlo/builder/lib/math.cc, ErfImpl32.
_ERF_BOUND = 3.7439211627767994
_ERF_NUMERATOR = (
    0.00022905065861350646,
    0.0034082910107109506,
    0.050955695062380861,
    0.18520832239976145,
    1.128379143519084,
)
_ERF_DENOMINATOR = (
    -1.1791602954361697e-7,
    0.000023547966471313185,
    0.0010179625278914885,
    0.014070470171167667,
    0.11098505178285362,
    0.49746925110067538,
    1.0,
)
# erfc(x) = t * exp(-x * x + polynomial(t)) with t = 1 / (1 + x / 2), to 1.2e-7 of each value for x >= 0:
# Press et al., Numerical Recipes, section 6.2.
_ERFC_EXPONENT = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)
_GRID = 16.0  # multiples of 1/16 have squares that f32 holds exactly, so that exp(-x * x) keeps its last digits


@lowers("Erf")
@in_f32
def lower_erf(x: Array) -> Array:
    """The error function.   x: f32|f16|bf16[...] -> the same type; relative error 3e-7 in NumPy's f32."""
    return _as_composite("jfuse.erf", rational_erf, x)


@lowers("Erfc")
@in_f32
def lower_erfc(x: Array) -> Array:
    """1 - erf(x), without cancellation.   x: f32|f16|bf16[...] -> the same type; relative error 5e-7 in NumPy's f32."""
    return _as_composite("jfuse.erfc", _erfc, x)


def _as_composite(name: str, spelling: Callable[[Array], Array], x: Array) -> Array:
    need_f32(name.removeprefix("jfuse."), x)
    if not isinstance(x, Var):
        return spelling(x)
    body = trace_graph(spelling, [type_of(x)], name="body")
    return ops.composite([x], [body], name=name, arguments=("x",), attributes=())[0]


def rational_erf(x: Array) -> Array:
    """The error function in plain ops.   x: f32[...] -> f32[...]"""
    clipped = ops.minimum(ops.maximum(x, scalar(-_ERF_BOUND, x)), scalar(_ERF_BOUND, x))
    squared = ops.mul(clipped, clipped)
    numerator = ops.mul(clipped, polynomial(squared, _ERF_NUMERATOR))
    return ops.div(numerator, polynomial(squared, _ERF_DENOMINATOR))


def _erfc(x: Array) -> Array:
    size = ops.abs_(x)
    t = ops.div(one_like(x), ops.add(ops.mul(size, scalar(0.5, x)), one_like(x)))
    coarse = ops.mul(ops.round_(ops.mul(size, scalar(_GRID, x))), scalar(1 / _GRID, x))
    rest = ops.mul(ops.sub(size, coarse), ops.add(size, coarse))  # size squared - coarse squared
    powers = ops.mul(ops.exp(ops.neg(ops.mul(coarse, coarse))), ops.exp(ops.sub(polynomial(t, _ERFC_EXPONENT), rest)))
    tail = ops.mul(t, powers)
    return ops.select_v2(ops.less(x, scalar(0, x)), ops.sub(scalar(2, x), tail), tail)


def need_f32(name: str, x: Array) -> None:
    """Raise LowerError where a function that is spelled to f32's digits is asked of another type."""
    if dtype(x) is not DType.f32:
        raise LowerError(
            f"{name} of {type_of(x)}",
            expected="f32, for which TFLite's ops can spell it to the last digits",
            found=dtype(x).value,
            remedy="cast the operand to float32",
        )


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial by Horner's rule, the highest power first.   x: f[...] -> f[...]"""
    first, *others = coefficients
    result: Array = scalar(first, x)
    for coefficient in others:
        result = ops.add(ops.mul(x, result), scalar(coefficient, x))
    return result
