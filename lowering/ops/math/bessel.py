"""Modified Bessel functions of the first kind, of orders 0 and 1, which TFLite lacks.

Times exp(-|x|) they are polynomials, interpolated at Chebyshev's points: over |x| up to 8, and beyond over 1 / |x| and
divided by the root of |x|.
"""

from __future__ import annotations

from collections.abc import Sequence

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.special import need_f32, polynomial
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.query import one_like, scalar
from jfuse.lowering.rules import lowers

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
    """exp(-|x|) * I0(x).   x: f32|f16|bf16[...] -> the same type; relative error 5e-7"""
    need_f32("bessel_i0e", x)
    size = ops.abs_(x)
    return _near_or_far(size, _near(size, _NEAR_0), _far(size, _FAR_0))


@lowers("BesselI1e")
@in_f32
def lower_bessel_i1e(x: Array) -> Array:
    """exp(-|x|) * I1(x).   x: f32|f16|bf16[...] -> the same type; relative error 8e-7"""
    need_f32("bessel_i1e", x)
    size = ops.abs_(x)
    return _near_or_far(size, ops.mul(x, _near(size, _NEAR_1)), ops.mul(ops.sign(x), _far(size, _FAR_1)))


@lowers("BesselI0")
@in_f32
def lower_bessel_i0(x: Array) -> Array:
    """I0(x).   x: f32|f16|bf16[...] -> the same type"""
    return ops.mul(ops.exp(ops.abs_(x)), lower_bessel_i0e(x))


@lowers("BesselI1")
@in_f32
def lower_bessel_i1(x: Array) -> Array:
    """I1(x).   x: f32|f16|bf16[...] -> the same type"""
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
