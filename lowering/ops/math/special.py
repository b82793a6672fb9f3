"""The error function and its complement, gamma and Bessel functions, which TFLite lacks.

Each becomes a composite with a spelling of forty ops or fewer, so that whoever recognises a GELU meets one equation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jfuse.ir.graph import Var
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.query import one_like, scalar, type_of
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
    """The error function.   x: f32|f64|f16|bf16[...] -> its type; relative error 3e-7 in NumPy's f32."""
    return _as_composite("jfuse.erf", rational_erf, x)


@lowers("Erfc")
@in_f32
def lower_erfc(x: Array) -> Array:
    """1 - erf(x), without cancellation.   x: f32|f64|f16|bf16[...] -> its type; relative error 5e-7 in NumPy's f32."""
    return _as_composite("jfuse.erfc", _erfc, x)


def _as_composite(name: str, spelling: Callable[[Array], Array], x: Array) -> Array:
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


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial by Horner's rule, the highest power first.   x: f[...] -> f[...]"""
    first, *others = coefficients
    result: Array = scalar(first, x)
    for coefficient in others:
        result = ops.add(ops.mul(x, result), scalar(coefficient, x))
    return result


# Modified Bessel functions of the first kind, of orders 0 and 1, which TFLite lacks.
# Times exp(-|x|) they are polynomials, interpolated at Chebyshev's points: over |x| up to 8, and beyond over 1 / |x|
# and divided by the root of |x|.

_FAR = 8.0
# Over |x| / 4 - 1, to 1e-8.
_NEAR_0 = (
    -8.1797258e-04,
    1.9783087e-03,
    -8.9916232e-04,
    1.2403794e-03,
    -7.7663329e-03,
    1.4507778e-02,
    -1.9090664e-02,
    2.8625285e-02,
    -4.3194879e-02,
    5.7325888e-02,
    -6.9500066e-02,
    7.9167061e-02,
    -8.4967420e-02,
    8.7354042e-02,
    -8.9043289e-02,
    9.4515227e-02,
    -1.1300433e-01,
    2.0700192e-01,
)
_NEAR_1 = (  # divided by x
    -1.1931582e-04,
    3.0702964e-04,
    -2.2115372e-04,
    4.1297782e-04,
    -1.6662367e-03,
    3.3589299e-03,
    -5.4573984e-03,
    9.3695028e-03,
    -1.5598490e-02,
    2.3761660e-02,
    -3.3666011e-02,
    4.4659685e-02,
    -5.5280562e-02,
    6.3768864e-02,
    -6.8482585e-02,
    6.8057545e-02,
    -6.1124340e-02,
    4.4687711e-02,
)
# Over 16 / |x| - 1, to 2e-8.
_FAR_0 = (3.5476199e-07, 1.6390399e-06, 1.1122156e-05, 1.3615616e-04, 3.3605532e-03, 4.0217650e-01)
_FAR_1 = (-4.1209137e-07, -2.0096372e-06, -1.5015275e-05, -2.1916827e-04, -9.7495783e-03, 3.8939846e-01)


@lowers("BesselI0e")
@in_f32
def lower_bessel_i0e(x: Array) -> Array:
    """exp(-|x|) * I0(x).   x: f32|f64|f16|bf16[...] -> the same type; relative error 5e-7"""
    size = ops.abs_(x)
    return _near_or_far(size, _near(size, _NEAR_0), _far(size, _FAR_0))


@lowers("BesselI1e")
@in_f32
def lower_bessel_i1e(x: Array) -> Array:
    """exp(-|x|) * I1(x).   x: f32|f64|f16|bf16[...] -> the same type; relative error 8e-7"""
    size = ops.abs_(x)
    return _near_or_far(size, ops.mul(x, _near(size, _NEAR_1)), ops.mul(ops.sign(x), _far(size, _FAR_1)))


@lowers("BesselI0")
@in_f32
def lower_bessel_i0(x: Array) -> Array:
    """I0(x).   x: f32|f64|f16|bf16[...] -> the same type"""
    return ops.mul(ops.exp(ops.abs_(x)), lower_bessel_i0e(x))


@lowers("BesselI1")
@in_f32
def lower_bessel_i1(x: Array) -> Array:
    """I1(x).   x: f32|f64|f16|bf16[...] -> the same type"""
    return ops.mul(ops.exp(ops.abs_(x)), lower_bessel_i1e(x))


def _near_or_far(size: Array, near: Array, far: Array) -> Array:
    return ops.select_v2(ops.less_equal(size, scalar(_FAR, size)), near, far)


def _near(size: Array, coefficients: Sequence[float]) -> Array:
    place = ops.sub(ops.mul(ops.minimum(size, scalar(_FAR, size)), scalar(2 / _FAR, size)), one_like(size))
    return polynomial(place, coefficients)


def _far(size: Array, coefficients: Sequence[float]) -> Array:
    size = ops.maximum(size, scalar(_FAR, size))
    place = ops.sub(ops.div(scalar(2 * _FAR, size), size), one_like(size))
    return ops.mul(polynomial(place, coefficients), ops.rsqrt(size))


# The logarithm of the gamma function and its derivative, which TFLite lacks, to f32's last digits.

# lgamma(x) / ((x - 1) * (x - 2)) over x - 2 from -1 to 1: interpolated at Chebyshev's points, to 7e-9.
_NEAR_TWO = (
    1.8091516e-05,
    -3.8580478e-05,
    2.3881601e-05,
    -5.2839725e-05,
    1.9173969e-04,
    -4.2515414e-04,
    9.1259449e-04,
    -2.1022423e-03,
    4.9989959e-03,
    -1.2384944e-02,
    3.2964990e-02,
    -1.0031728e-01,
    4.2278433e-01,
)
# Stirling's series over 1 / x squared: B(2n) / (2n * (2n - 1)), and of the derivative B(2n) / 2n.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_STIRLING_DERIVED = (1 / 240, -1 / 252, 1 / 120, -1 / 12)
_SHIFT = 6  # from there on the derivative's series is right to 1e-9


@lowers("Lgamma")
@in_f32
def lower_lgamma(x: Array) -> Array:
    """log(|gamma(x)|).   x: f32|f64|f16|bf16[...] -> the same type; 1e-6 of the larger of 1 and the value

    A polynomial from 1 to 3, Stirling's series beyond, one step of the recurrence below 1, a reflection below 0.
    """
    zero, one = scalar(0, x), one_like(x)
    is_negative = ops.less(x, zero)
    size = ops.select_v2(is_negative, ops.sub(one, x), x)
    is_small = ops.less(size, one)
    shifted = ops.select_v2(is_small, ops.add(size, one), size)
    value = ops.select_v2(ops.less(shifted, scalar(3, x)), _near_two(shifted), _stirling(shifted))
    value = ops.select_v2(is_small, ops.sub(value, ops.log(size)), value)
    sine, _ = _sine_and_cosine(x)
    reflected = ops.sub(scalar(math.log(math.pi), x), ops.add(ops.log(ops.abs_(sine)), value))
    return ops.select_v2(is_negative, reflected, value)


def _near_two(x: Array) -> Array:
    from_two = ops.minimum(ops.sub(x, scalar(2, x)), one_like(x))
    return ops.mul(ops.mul(ops.add(from_two, one_like(x)), from_two), polynomial(from_two, _NEAR_TWO))


def _stirling(x: Array) -> Array:
    """(x - 1/2) * (log(x) - 1) + log(2 * pi) / 2 - 1/2 + series / x.   x: f32[...], 3 or more"""
    inverse = ops.div(one_like(x), ops.maximum(x, scalar(3, x)))
    series = ops.mul(polynomial(ops.mul(inverse, inverse), _STIRLING), inverse)
    main = ops.mul(ops.sub(x, scalar(0.5, x)), ops.sub(ops.log(x), one_like(x)))
    return ops.add(main, ops.add(series, scalar(0.5 * math.log(2 * math.pi) - 0.5, x)))


def _sine_and_cosine(x: Array) -> tuple[Array, Array]:
    """sin and cos of pi * x, up to a sign that they share, from x less the nearest integer."""
    angle = ops.mul(ops.sub(x, ops.round_(x)), scalar(math.pi, x))
    return ops.sin(angle), ops.cos(angle)


@lowers("Digamma")
@in_f32
def lower_digamma(x: Array) -> Array:
    """The derivative of log(gamma(x)).   x: f32|f64|f16|bf16[...] -> the same type; 1e-6 of the value or of 1

    An asymptotic series six steps of the recurrence further, a reflection up to 0.
    """
    is_negative = ops.less_equal(x, scalar(0, x))
    size = ops.select_v2(is_negative, ops.sub(one_like(x), x), x)
    far = ops.add(size, scalar(_SHIFT, x))
    inverse = ops.div(one_like(x), far)
    square = ops.mul(inverse, inverse)
    value = ops.sub(ops.log(far), ops.mul(inverse, scalar(0.5, x)))
    value = ops.add(value, ops.mul(polynomial(square, _STIRLING_DERIVED), square))
    for step in range(_SHIFT):
        value = ops.sub(value, ops.div(one_like(x), ops.add(size, scalar(step, x)) if step else size))
    sine, cosine = _sine_and_cosine(x)
    reflected = ops.sub(value, ops.div(ops.mul(cosine, scalar(math.pi, x)), sine))
    return ops.select_v2(is_negative, reflected, value)
