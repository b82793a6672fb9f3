"""The inverse of the error function and of the normal distribution, which TFLite lacks.

Both are polynomials of w = -log(1 - x**2), fitted to their values by weighted least squares: of w itself up to 5, which
is |x| < 0.9966, beyond of 1 / (sqrt(w) + 0.25), where the function grows almost as sqrt(w).
"""

from __future__ import annotations

import math

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.special import polynomial
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.query import one_like, scalar
from jfuse.lowering.rules import lowers

_SPLIT = 5.0
# erfinv(x) / x by powers of w - 2.5 (9e-8 of each value) and erfinv(x) / (x * (sqrt(w) + 0.25)) by powers of
# 1 / (sqrt(w) + 0.25) - _TAIL_CENTRE (1e-7, down to the smallest float).
_BULK = (
    2.853478980e-08,
    3.437270590e-07,
    -3.528859546e-06,
    -4.396781256e-06,
    2.186021939e-04,
    -1.253707515e-03,
    -4.177707747e-03,
    2.466407261e-01,
    1.501409422e00,
)
_TAIL_CENTRE = 0.24896769780023306
_TAIL = (
    2.651495711e04,
    6.020878253e02,
    -2.552444340e03,
    -2.006107211e02,
    8.445186232e01,
    1.850473633e01,
    5.122503493e-01,
    7.841116440e-01,
    1.288253952e-01,
    -4.474700238e-01,
    8.973379019e-01,
)


@lowers("Erfinv")
@in_f32
def lower_erfinv(x: Array) -> Array:
    """The inverse of the error function.   x: f[...] in [-1, 1] -> f[...]; relative error 5e-7"""
    one = one_like(x)
    return ops.mul(x, _growth(ops.mul(ops.sub(one, x), ops.add(one, x))))


@lowers("Ndtri")
@in_f32
def lower_ndtri(p: Array) -> Array:
    """The value below which a normal variable lies with probability p: sqrt(2) * erfinv(2 * p - 1).

    p: f[...] in [0, 1] -> f[...]; relative error 1e-6 of values beyond 1e-3, where p is not rounded to 1/2
    """
    one = one_like(p)
    rest = ops.mul(ops.mul(p, scalar(4, p)), ops.sub(one, p))  # 1 - x**2, exact where p is small
    x = ops.sub(ops.add(p, p), one)
    return ops.mul(ops.mul(x, scalar(math.sqrt(2), p)), _growth(rest))


def _growth(rest: Array) -> Array:
    """erfinv(x) / x.   rest: f[...], 1 - x**2 -> f[...]"""
    w = ops.neg(ops.log(rest))
    bulk = polynomial(ops.sub(w, scalar(_SPLIT / 2, w)), _BULK)
    root = ops.add(ops.sqrt(w), scalar(0.25, w))
    inverse = ops.sub(ops.div(one_like(w), root), scalar(_TAIL_CENTRE, w))
    tail = ops.mul(root, polynomial(inverse, _TAIL))
    return ops.select_v2(ops.less(w, scalar(_SPLIT, w)), bulk, tail)
