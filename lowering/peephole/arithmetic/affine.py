"""Scales and shifts by constants, one for all or one for each channel: batch norms, biases, rescaled inputs.

They move into the weights and bias of the operator before or behind them. What is left of a scale with a shift on
images is one DEPTHWISE_CONV_2D of one pixel, which XNNPACK computes as such (its vmulcaddc), in one pass instead of two
(LiteRT 2.3.0: 0.8 of the time for 56 x 56 x 64 and 224 x 224 x 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.kernels import ops
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn, product
from jfuse.lowering.peephole.layout.transpose import known_permutation
from jfuse.lowering.peephole.pattern import form, one_of
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float, keeps_type
from jfuse.lowering.rules import need

# (x + t) * s is exact where x is near -t, x * s + t * s is not: the error grows with the shift beside results about 1.
_LARGEST_SHIFT = 16.0
_FARTHEST_IN_STEPS = 4.0
"""Normalized inputs are about 3 at most: a range from 0 to beyond such a shift has twice the steps."""
_MOST_NOISE = 2.0
"""How many times the noise of a channel may grow where its weights in few bits take in a factor: 3 dB."""
_SMALLEST = float(np.finfo(np.float32).tiny)
_ARITHMETIC = (ops.add, ops.sub, ops.mul, ops.div, ops.neg)


@dataclass(frozen=True)
class Affine:
    """x * scale + shift, then an activation. scale, shift: f32[] or f32[c] along the last axis of x; None for none."""

    x: Atom
    scale: np.ndarray | None
    shift: np.ndarray | None
    function: str = "NONE"

    @classmethod
    def of(cls, eqn: Eqn | None) -> Affine | None:
        """Read an equation as scale, shift and function of one operand of its result's type; None for others."""
        if eqn is None or not eqn.outputs or not is_plain_float(eqn.outputs[0]):
            return None
        scaled = _of_pixel(eqn) if eqn.op is ops.depthwise_conv_2d else _of_arithmetic(eqn)
        if scaled is None or not keeps_type(scaled.x.type, eqn.outputs[0].type):
            return None
        return scaled if all(v is None or np.isfinite(v).all() for v in (scaled.scale, scaled.shift)) else None

    def after(self, first: Affine) -> Affine | None:
        """This one of what `first` gives, which has no activation; None where that would lose digits."""
        shift = first.shift if self.scale is None or first.shift is None else _together(first.shift * self.scale)
        if self.scale is not None and shift is not None and np.abs(shift).max() > _LARGEST_SHIFT:
            return None
        scale = _either(first.scale, self.scale, np.multiply)
        if scale is not None and (not np.isfinite(scale).all() or _vanishes(scale, first.scale, self.scale)):
            return None
        return Affine(first.x, scale, _either(shift, self.shift, np.add), self.function)

    def is_scale(self) -> bool:
        """Whether there is no shift and no activation."""
        return self.scale is not None and self.shift is None and self.function == "NONE"


def _of_arithmetic(eqn: Eqn) -> Affine | None:
    if eqn.op is ops.neg:
        (x,) = eqn.inputs
        return None if x is None else Affine(x, np.array(-1, np.float32), None)
    if eqn.op not in _ARITHMETIC:
        return None
    x, y = eqn.inputs
    function = eqn.params["fused_activation_function"]
    first = isinstance(x, Const)
    source, const = (y, x) if first else (x, y)
    if source is None or not isinstance(const, Const) or isinstance(source, Const):
        return None
    value = along_last_axis(const, source)
    if value is None or (eqn.op is ops.div and first):
        return None
    if eqn.op in (ops.mul, ops.div):
        with np.errstate(all="ignore"):
            return Affine(source, value if eqn.op is ops.mul else 1 / value, None, function)
    shift = -value if eqn.op is ops.sub and not first else value
    return Affine(source, np.array(-1, np.float32) if eqn.op is ops.sub and first else None, shift, function)


def _of_pixel(eqn: Eqn) -> Affine | None:
    """A DEPTHWISE_CONV_2D of one pixel, that of each place."""
    x, weights, bias = eqn.inputs
    constant = isinstance(weights, Const) and (bias is None or isinstance(bias, Const))
    if x is None or not isinstance(weights, Const) or not constant or weights.array.shape[1:3] != (1, 1):
        return None
    if eqn.params["depth_multiplier"] != 1 or (eqn.params["stride_h"], eqn.params["stride_w"]) != (1, 1):
        return None
    shift = bias.array if isinstance(bias, Const) else None
    return Affine(x, weights.array.reshape(-1), shift, eqn.params["fused_activation_function"])


def along_last_axis(const: Const, x: Atom) -> np.ndarray | None:
    """A constant that is broadcast with x as a scalar or a vector along the last axis; None for all others."""
    array = const.array
    if array.size == 1:
        return array.reshape(())
    last = x.type.shape[-1] if x.type.rank else 1
    fits = array.shape[-1:] == (array.size,) and same(last, array.size) is True
    return array.reshape(-1) if fits else None


affine = form(Affine.of, *_ARITHMETIC, ops.depthwise_conv_2d)


@peephole(
    lambda: affine(product().named("before")).named("then"),
    lambda: affine(one_of(ops.reshape, ops.transpose)(product().named("before"), ...).named("move")).named("then"),
)
def affine_after_product(match: Match, before: WeightedEqn, then: Affine, move: Eqn | None = None) -> Any:
    """ADD(MUL(CONV_2D(x, w, b), s), t) = CONV_2D(x, w * s, b * s + t), also where a RESHAPE stands between them."""
    need(move is None or _commutes(move, then), "channels_stay")
    need(is_known(before.channels), "known_channels")
    need(before.may_shift(), "constant_bias")
    need(then.scale is None or before.may_scale(match.view), "own_weights")
    function = given(_function(before.function, then), "activation_after_scale")
    scale, shift = (None if v is None else np.broadcast_to(v, before.channels) for v in (then.scale, then.shift))
    merged = given(before.with_result(scale, shift, function), "finite_weights")
    return merged if move is None else again(move, inputs=(merged, *move.inputs[1:]))


def _function(inner: str, then: Affine) -> str | None:
    """The activation of affine(inner(z)) as one of affine(z): RELU lets positive scales through."""
    if inner == "NONE":
        return then.function
    positive = then.shift is None and then.scale is not None and bool((then.scale > 0).all())
    return "RELU" if inner == "RELU" and positive and then.function in ("NONE", "RELU") else None


def _commutes(eqn: Eqn, affine: Affine) -> bool:
    """Whether a RESHAPE or TRANSPOSE can as well follow what is done to each channel."""
    if all(v is None or v.ndim == 0 for v in (affine.scale, affine.shift)):
        return True
    x, result = eqn.inputs[0], eqn.outputs[0]
    if x is None or not x.type.rank or not result.type.rank:
        return False
    if eqn.op is ops.transpose:
        order = known_permutation(eqn)
        return order is not None and order[-1] == x.type.rank - 1
    return same(x.type.shape[-1], result.type.shape[-1]) is True


@peephole(lambda: product(affine().named("first")).named("then"))
def affine_before_product(match: Match, first: Affine, then: WeightedEqn) -> Any:
    """CONV_2D(MUL(x, s), w, b) = CONV_2D(x, w * s, b); a shift only where no zeros stand around what is shifted."""
    need(then.may_scale(match.view), "own_weights")
    need(fits_before(first, then), "shift_without_padding")
    need(keeps_precision(first, then, match.view), "precise_weights")
    return given(then.with_input(first.x, first.scale, first.shift), "finite_weights")


def fits_before(affine: Affine, product: WeightedEqn) -> bool:
    """Whether a product may take in what is done to its operand: a shift only where no zeros stand around that."""
    if affine.function != "NONE" or (affine.shift is not None and not product.is_unpadded()):
        return False
    return affine.shift is None or bool(np.abs(affine.shift).max() <= _LARGEST_SHIFT)


def keeps_precision(affine: Affine, product: WeightedEqn, view: GraphView) -> bool:
    """Whether a product may take in what is done to its operand if its weights are to be kept in few bits."""
    if not view.rounds_weights(product.eqn):
        return True
    before = view.producer(affine.x)
    if before is None and affine.shift is not None and np.abs(affine.shift).max() > _FARTHEST_IN_STEPS:
        return False
    return affine.scale is None or product.noise_of(affine.scale, is_level=_is_norm(before)) <= _MOST_NOISE


def _is_norm(eqn: Eqn | None) -> bool:
    """Whether an equation scales rows by what is computed of each, as a layer norm before its own factors."""
    if eqn is None or eqn.op is not ops.mul:
        return False
    return any(isinstance(a, Var) and a.type.rank and same(a.type.shape[-1], 1) is True for a in eqn.inputs)


@peephole(lambda: product(ops.pad(affine().named("first"), ...).named("pad")).named("then"))
def scale_before_pad(match: Match, first: Affine, pad: Eqn, then: WeightedEqn) -> Any:
    """CONV_2D(PAD(MUL(x, s)), w) = CONV_2D(PAD(x), w * s)."""
    need(then.may_scale(match.view), "own_weights")
    need(first.is_scale(), "scale_alone")
    need(_commutes_with_pad(pad, first), "channels_not_padded")
    need(keeps_precision(first, then, match.view), "precise_weights")
    return given(then.with_input(again(pad, inputs=(first.x, *pad.inputs[1:])), first.scale, None), "finite_weights")


def _commutes_with_pad(pad: Eqn, affine: Affine) -> bool:
    amounts = pad.inputs[1]
    scalar = affine.scale is not None and affine.scale.ndim == 0
    return scalar or (isinstance(amounts, Const) and not amounts.array[-1].any())


@peephole(lambda y: product(ops.mul(affine().named("first"), y).named("gate")).named("then"))
def scale_before_gate(match: Match, first: Affine, gate: Eqn, y: Atom, then: WeightedEqn) -> Any:
    """CONV_2D(MUL(MUL(x, s), y), w) = CONV_2D(MUL(x, y), w * s), as hard sigmoids gate what a convolution reads."""
    need(then.may_scale(match.view), "own_weights")
    need(Affine.of(gate) is None, "computed_gate")
    need(first.is_scale(), "scale_alone")
    assert first.scale is not None
    channels = gate.outputs[0].type.shape[-1:]
    need(first.scale.ndim == 0 or same(first.x.type.shape[-1], *channels) is True, "channels_stay")
    need(keeps_precision(first, then, match.view), "precise_weights")
    inputs = (y, first.x) if gate.inputs[0] is y else (first.x, y)
    return given(then.with_input(again(gate, inputs=inputs), first.scale, None), "finite_weights")


@peephole(lambda: affine(affine().named("first")).named("second"))
def affine_chain(match: Match, first: Affine, second: Affine) -> Any:
    """MUL(MUL(x, s), t) = MUL(x, s * t); a scale and a shift of images are one DEPTHWISE_CONV_2D of one pixel.

    Not ADD(ADD(x, s), t), by which log1p and others find out what rounding took off, nor scales before a comparison:
    of 2,000 boxes that end at 1.0 another rounding puts 240 beyond the image, where TensorFlow has 76 beyond it.
    """
    need(not match.view.is_compared(match.result), "not_compared")
    need(first.function == "NONE", "no_activation_between")
    need(first.scale is not None or second.scale is not None, "some_scale")
    chain = given(second.after(first), "digits_kept")
    need(chain.scale is not None, "some_scale")
    if chain.shift is None:
        return ops.mul(chain.x, chain.scale, fused_activation_function=chain.function)
    return _pixel(chain)


def _pixel(chain: Affine) -> Any:
    assert chain.scale is not None
    assert chain.shift is not None
    need(chain.x.type.rank == 4 and isinstance(chain.x, Var), "images")
    channels = chain.x.type.shape[-1]
    need(is_known(channels), "known_channels")
    # Scalars are a third of the work: 174 µs against 548 for 224 x 224 x 3.
    need(chain.scale.ndim and chain.shift.ndim, "scale_and_shift_of_channels")
    return ops.depthwise_conv_2d(
        chain.x,
        np.broadcast_to(chain.scale, channels).reshape(1, 1, 1, channels),
        np.broadcast_to(chain.shift, channels),
        padding="VALID",
        stride_w=1,
        stride_h=1,
        depth_multiplier=1,
        fused_activation_function=chain.function,
    )


def _either(x: np.ndarray | None, y: np.ndarray | None, both: Any) -> np.ndarray | None:
    return y if x is None else x if y is None else _together(both(x, y))


def _together(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def _vanishes(product: np.ndarray, *factors: np.ndarray | None) -> bool:
    """Whether a product of constants is too small for f32 where none of them is 0."""
    small = np.abs(product) < _SMALLEST
    zero = np.zeros((), bool)
    for factor in factors:
        zero = zero | (factor == 0) if factor is not None else zero
    return bool((small & ~zero).any())
