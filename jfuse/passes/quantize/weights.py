"""Constant weights in few bits: where the kernel takes them, else with DEQUANTIZE before or behind."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Protocol

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Source, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.passes.quantize.arrays import weights_in
from jfuse.passes.quantize.forms import facts, weight_consts
from jfuse.passes.quantize.product_moments import ProductMoments, products_of
from jfuse.quantization.recipe import IN_TURN, QuantizeRule
from jfuse.tflite.runtime.quantized import Granularity, Hybrid, WeightOperand

_UNKNOWN = ProductMoments()
ASYMMETRIC = "asymmetric_quantize_inputs"
"""The option by which a kernel with integer weights takes a zero point for its float operands: one bit more for ranges
that are not symmetric, as behind RELU."""


class Growing(Protocol):
    """A graph to which equations are appended."""

    eqns: list[Eqn]

    def dequantized(self, key: Const, const: Const, source: Source) -> Var:
        """The float numbers of a constant in another type, made once in the graph."""


class WeightsInFewBits:
    """The constants of a program in few bits, each made once: equations of several graphs may share weights."""

    def __init__(self, moments: ProductMoments = _UNKNOWN) -> None:
        self._moments = moments
        self._made: dict[tuple[int, Hashable], tuple[Const, Const]] = {}

    def kept(self, const: Const, key: Hashable, make: Callable[[], Const]) -> Const:
        """Return the result of `make` for a constant, cached by key."""
        place = (id(const), key)
        if place not in self._made:
            self._made[place] = (const, make())  # the constant stays alive as long as its id stands for it
        return self._made[place][1]

    def integers(self, eqn: Eqn, weights: WeightOperand, rule: QuantizeRule, least: np.ndarray | None) -> Const:
        """The weights of an equation that computes in integers.   least: scales, as `weights_in` has them"""
        granularity: Granularity = (
            "channel" if weights.integer_per_channel and rule.granularity != "tensor" else "tensor"
        )
        return self._in(eqn, weights, rule, granularity, least)

    def corrected(self, eqn: Eqn, rule: QuantizeRule, weights: int, bias: int | None, rounded: Const) -> Atom | None:
        """The bias of an equation as its rule wants it; None without one.

        weights, bias: the operands that make and that hold it, by position. rounded: the weights in few bits
        """
        products = (p for p in products_of(eqn) if (p.place, p.bias) == (weights, bias)) if rule.bias_correction else ()
        corrected = (self._moments.corrected(product, rounded) for product in products)
        return next(corrected, None if bias is None else eqn.inputs[bias])

    def put(self, graph: Growing, eqn: Eqn, rule: QuantizeRule) -> None:
        """Append an equation with its weights in few bits."""
        operands, params, moved = list(eqn.inputs), dict(eqn.params), None
        for weights, const in weight_consts(eqn, rule):
            way = _way(eqn, weights, const, rule)
            if way is None and not needs_dequantize(eqn, weights, const, rule):
                operands[weights.operand] = moved = self._in(eqn, weights, rule, "tensor", None)
                continue
            if way is not None:
                operands[weights.operand] = small = self._in(eqn, weights, rule, way.granularity, None)
                params |= {ASYMMETRIC: True} if ASYMMETRIC in params and facts(eqn).asymmetric else {}
            else:
                small = self._in(eqn, weights, rule, "tensor" if rule.granularity == "tensor" else "channel", None)
                operands[weights.operand] = graph.dequantized(const, small, eqn.source)
            for product in products_of(eqn):
                if product.place == weights.operand and product.bias is not None:
                    operands[product.bias] = self.corrected(eqn, rule, product.place, product.bias, small)
        changed = replace(eqn, inputs=tuple(operands), params=params)
        graph.eqns.extend([changed] if moved is None else _dequantized_behind(changed, moved))

    def _in(
        self, eqn: Eqn, weights: WeightOperand, rule: QuantizeRule, granularity: Granularity, least: np.ndarray | None
    ) -> Const:
        const, axis = eqn.inputs[weights.operand], weights.axis_of(eqn)
        assert isinstance(const, Const), "weights"
        moments = self._moments.of_weights.get(id(const)) if rule.weight_algorithm == IN_TURN else None
        how = rule.weights, granularity, axis, rule.block_size, rule.weight_algorithm
        return self.kept(
            const,
            (*how, None if least is None else least.tobytes()),
            lambda: weights_in(const, rule, granularity, axis=axis, least_scale=least, moments=moments),
        )


def needs_dequantize(eqn: Eqn, weights: WeightOperand, const: Const, rule: QuantizeRule) -> bool:
    """Whether DEQUANTIZE stands before an equation, as its kernel takes the weights as floats only."""
    return _way(eqn, weights, const, rule) is None and not (weights.moved and rule.weights is DType.i8)


def _way(eqn: Eqn, weights: WeightOperand, const: Const, rule: QuantizeRule) -> Hybrid | None:
    """How the kernel takes the integers beside float operands, as finely scaled as the rule asks; None where not."""
    if rule.mode != "dynamic":
        return None
    order: tuple[Granularity, ...] = ("block", "channel", "tensor")
    granularities = order[order.index(rule.granularity) :]
    ways = {w.granularity: w for w in weights.hybrid if w.dtype is rule.weights and _fits(eqn, w, const, rule)}
    return next((ways[granularity] for granularity in granularities if granularity in ways), None)


def _fits(eqn: Eqn, way: Hybrid, const: Const, rule: QuantizeRule) -> bool:
    if way.needs is not None and not way.needs(eqn):
        return False
    row = const.array.shape[-1] if const.array.ndim else 1
    return row % way.row_multiple == 0 and (way.granularity != "block" or row % rule.block_size == 0)


def _dequantized_behind(eqn: Eqn, table: Const) -> tuple[Eqn, Eqn]:
    """An equation that hands on elements of a table of integers, and what makes numbers of them."""
    (result,) = eqn.outputs
    taken = Var(replace(result.type, dtype=table.type.dtype, quantization=table.quantization))
    return replace(eqn, outputs=(taken,)), Eqn(ops.dequantize, (taken,), (result,), {}, eqn.source)
