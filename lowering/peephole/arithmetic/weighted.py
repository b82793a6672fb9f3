"""`WeightedEqn`: one view of all operators with weights and a bias, which knows their operands and channel axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from jfuse.ir.contents import give_back
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Op
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp
from jfuse.kernels.nn.windows import same_padding
from jfuse.lowering.peephole.pattern import form
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float


@dataclass(frozen=True)
class _Axes:
    """Axes of the weights. results, inputs: the channels of the result and of x; one axis where each is by itself.

    windows: those that slide over x, where zeros around it are not counted in.
    """

    results: int
    inputs: int
    windows: tuple[int, ...] | None = ()


_AXES: Mapping[Op, _Axes] = {
    ops.fully_connected: _Axes(0, 1),
    ops.conv_2d: _Axes(0, 3, (1, 2)),
    ops.depthwise_conv_2d: _Axes(3, 3, (1, 2)),
    ops.conv_3d: _Axes(4, 3, (0, 1, 2)),
    ops.transpose_conv: _Axes(0, 3, None),
    ops.conv_3d_transpose: _Axes(3, 4, None),
}
# Of x, the weights and the bias among the operands.
_PLACES = {op: tuple(cast(TflOp, op).operand_index(name) for name in ("x", "weights", "bias")) for op in _AXES}
_DIRECTIONS = ("d", "h", "w")  # of windows, as options spell them


@dataclass(frozen=True)
class WeightedEqn:
    """An equation with weights, none of it quantized."""

    eqn: Eqn
    axes: _Axes

    @classmethod
    def of(cls, eqn: Eqn | None) -> WeightedEqn | None:
        """The equation as a product, if it is one of plain floats."""
        axes = None if eqn is None else _AXES.get(eqn.op)
        if eqn is None or axes is None or not is_plain_float(eqn.outputs[0]):
            return None
        product = cls(eqn, axes)
        return product if product.weights is not None and is_plain_float(product.weights) else None

    @property
    def x(self) -> Atom | None:
        """The operand that the weights multiply."""
        return self.eqn.inputs[_PLACES[self.eqn.op][0]]

    @property
    def weights(self) -> Atom | None:
        """The operand that holds the weights; None where the equation omits it."""
        return self.eqn.inputs[_PLACES[self.eqn.op][1]]

    @property
    def bias(self) -> Atom | None:
        """The bias; None where the operator has none."""
        place = _PLACES[self.eqn.op][2]
        return self.eqn.inputs[place] if place < len(self.eqn.inputs) else None  # optional ones may be left out

    @property
    def function(self) -> str:
        """The activation that the product's operator applies, as the schema calls it."""
        return str(self.eqn.params["fused_activation_function"])

    @property
    def channels(self) -> Any:
        """The size of the last axis of the result."""
        return self.eqn.outputs[0].type.shape[-1]

    def may_scale(self, view: GraphView) -> bool:
        """Whether weights and bias are constants, and nothing else would keep the weights in the file as they are."""
        return self.may_shift() and isinstance(self.weights, Const) and view.readers(self.weights) == 1

    def may_shift(self) -> bool:
        """Whether the bias is a constant, or there is none."""
        return self.bias is None or isinstance(self.bias, Const)

    def with_result(self, scale: np.ndarray | None, shift: np.ndarray | None, function: str) -> Any:
        """The product with each channel of its result scaled, then shifted. scale, shift: f32[channels] or None."""
        bias: Any = self.bias
        weights: Any = self.weights
        if scale is not None:
            weights = _constant(weights) * _along(scale, self.axes.results, 2 + len(self._spatial()))
            bias = None if bias is None else bias * scale
        if shift is not None:
            bias = shift if bias is None else bias + shift
        return self.with_weights(weights, bias, fused_activation_function=function)

    def with_input(self, x: Atom, scale: np.ndarray | None, shift: np.ndarray | None, **options: Any) -> Any:
        """The product with x as operand instead of x * scale + shift; None where the channels do not fit.

        scale, shift: f32[] or f32[n], n a divisor of the channels that the weights count.
        """
        weights: Any = _constant(self.weights)
        bias: Any = self.bias
        if shift is not None:
            along = self._per_input(shift)
            if along is None:
                return None
            others = tuple(a for a in range(weights.ndim) if a != self.axes.results)
            added = np.sum(weights.astype(np.float64) * along, axis=others).astype(weights.dtype)
            bias = added if bias is None else bias + added
        if scale is not None:
            along = self._per_input(scale)
            if along is None:
                return None
            weights = weights * along
        return self.with_weights(weights, bias, x=x, **options)

    def noise_of(self, scale: np.ndarray, *, is_level: bool) -> float:
        """How many times the noise of a channel grows, for weights in few bits, if they take in a scale of x.

        One scale for each channel of the result rounds all of its weights. The worst channel counts.
        scale: as in `with_input`. is_level: whether x has channels of one size, as behind a norm; else x * scale has.
        """
        along = None if self.axes.inputs == self.axes.results else self._per_input(scale)
        if along is None or scale.size == 1:
            return 1.0
        weights = np.abs(_constant(self.weights).array.astype(np.float64))
        factors = np.broadcast_to(np.abs(along.astype(np.float64)), weights.shape)
        rows = [np.moveaxis(a, self.axes.results, 0).reshape(self.channels, -1) for a in (weights, factors)]
        weights, factors = rows
        counted = weights * factors > 0
        sizes = np.where(counted, 1.0, 0.0) if is_level else np.divide(1.0, factors**2, where=counted, out=0 * factors)
        after = (weights * factors).max(1) ** 2 * sizes.sum(1)
        before = weights.max(1) ** 2 * (sizes * factors**2).sum(1)
        return float(np.divide(after, before, where=before > 0, out=np.ones_like(before)).max(initial=1.0))

    def with_weights(self, weights: Any, bias: Any, x: Atom | None = None, **options: Any) -> Any:
        """The product once more with other weights; None where they are no numbers any more."""
        if isinstance(weights, np.ndarray):
            give_back(_constant(self.weights).array)  # which were read whole, and are replaced
        if not all(np.isfinite(a).all() for a in (weights, bias) if isinstance(a, np.ndarray)):
            return None
        new = {"x": self.x if x is None else x, "weights": weights, "bias": bias}
        inputs = tuple(new.get(o.name, a) for o, a in zip(self._op.operands, self.eqn.inputs, strict=True))
        return again(self.eqn, inputs=inputs, **options)

    def is_unpadded(self) -> bool:
        """Whether every element of the result is made of elements of x alone."""
        if self.axes.windows is None:
            return False
        params = self.eqn.params
        if params.get("padding", "VALID") == "VALID":
            return True
        return all(_is_whole(*window) for window in self.windows())

    def windows(self) -> list[tuple[Any, int, int, int]]:
        """Along each axis over which they slide: the size of x, the window, the stride and the dilation."""
        axes = self.axes.windows or ()
        if self.x is None or self.weights is None:
            return []
        names = _DIRECTIONS[-len(axes) :] if axes else ()
        return [
            (
                self.x.type.shape[1 + i],
                self.weights.type.shape[axis],
                self.eqn.params[f"stride_{name}"],
                self.eqn.params[f"dilation_{name}_factor"],
            )
            for i, (axis, name) in enumerate(zip(axes, names, strict=True))
        ]

    def _per_input(self, values: np.ndarray) -> np.ndarray | None:
        """Values for each channel of x, in a shape that broadcasts over the weights."""
        weights, axes = _constant(self.weights), self.axes
        size, rank = weights.shape[axes.inputs], weights.ndim
        if values.size == 1:
            return values.reshape(())
        if axes.inputs == axes.results:  # each channel of x makes neighbouring channels of the result
            fits = size % values.size == 0
            return _along(np.repeat(values, size // values.size), axes.inputs, rank) if fits else None
        if self.eqn.op is ops.fully_connected:  # rows of weights go over several positions of x
            return np.tile(values, size // values.size) if size % values.size == 0 else None
        if values.size == size:
            return _along(values, axes.inputs, rank)
        if self.eqn.op is not ops.conv_2d or values.size % size:
            return None
        groups = values.reshape(-1, size)
        return np.repeat(groups, weights.shape[0] // len(groups), axis=0)[:, None, None, :]

    def _spatial(self) -> tuple[int, ...]:
        return () if self.eqn.op is ops.fully_connected else (0,) * (self.eqn.outputs[0].type.rank - 2)

    @property
    def _op(self) -> TflOp:
        return cast(TflOp, self.eqn.op)


product = form(WeightedEqn.of, *(cast(TflOp, op) for op in _AXES))


def _constant(atom: Atom | None) -> Const:
    assert isinstance(atom, Const)
    return atom


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


def _is_whole(size: Any, window: int, stride: int, dilation: int) -> bool:
    """Whether SAME adds nothing."""
    if window == 1:
        return True
    return is_known(size) and same_padding(size, window, stride, dilation) == (0, 0)
