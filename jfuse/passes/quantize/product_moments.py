"""Moments of the operands of constant weights: they correct mean errors, and guide rounding weight by weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn, Var
from jfuse.passes.quantize.forms import EqnForm, facts, operands_of, weight_consts
from jfuse.quantization.moments import Moments
from jfuse.quantization.real_numbers.numbers import as_real
from jfuse.quantization.recipe import IN_TURN, QuantizeRule
from jfuse.quantization.statistics import Observed, Statistics
from jfuse.tflite.runtime.quantized import IntegerLstm

_MOST_TERMS = 4608  # of which squares are kept: those of a 3x3 window over 512 channels, 85 MB
_MEANS, _SQUARES = "means", "squares"


@dataclass(frozen=True)
class ConstantProduct:
    """Constant weights that an equation multiplies one of its operands with.

    operand: its position. place: that of the weights. bias: that of a constant which is added to the product; None
    without one. axis: of the weights, along which each index gives results of its own. terms: how many numbers there
    are in a row of the operand; in the channels of an image.
    """

    eqn: Eqn
    operand: int
    place: int
    bias: int | None
    axis: int
    terms: int

    @property
    def weights(self) -> Const:
        """The weights."""
        return _const(self.eqn, self.place)

    @property
    def is_image(self) -> bool:
        """Whether windows of an image are multiplied."""
        return bool(self.eqn.op.product == "windows")

    @property
    def means(self) -> tuple[Observed, Moments]:
        """The moments for its mean error; the gates of an LSTM share them, over all steps."""
        return Observed(self.eqn.outputs[0], _MEANS), Moments(self.operand, self.terms, squares=False)

    @property
    def squares(self) -> tuple[Observed, Moments] | None:
        """The moments to round its weights in turn; None unless each result reads all terms of one row."""
        shape = self.weights.array.shape
        terms = self.weights.array[0].size if shape[0] else 0
        if self.axis != 0 or not 0 < terms <= _MOST_TERMS or (self.is_image and shape[-1] != self.terms):
            return None
        if facts(self.eqn).recurrence is not None:  # the other weights of which read what no operand is
            return None
        is_pixel = terms == self.terms and self.eqn.params.get("stride_w", 1) == self.eqn.params.get("stride_h", 1) == 1
        windows = None if is_pixel else self._windows
        return Observed(self.eqn.outputs[0], _SQUARES), Moments(self.operand, terms, squares=True, windows=windows)

    def _windows(self, x: Any) -> Any:
        """The rows of the operand, which are its product with the unit matrix."""
        shape = self.weights.array.shape[1:]
        terms = int(np.prod(shape))
        unit = jnp.reshape(jnp.eye(terms, dtype=jnp.float32), (terms, *shape))
        params = {**self.eqn.params, "fused_activation_function": "NONE"}
        (rows,) = self.eqn.op.run([x, unit, *(None for _ in self.eqn.inputs[2:])], params, ())
        return jnp.reshape(rows, (-1, terms))


def _const(eqn: Eqn, place: int) -> Const:
    atom = eqn.inputs[place]
    assert isinstance(atom, Const), "weights of a product are constants"
    return atom


def products_of(eqn: Eqn) -> Iterator[ConstantProduct]:
    """The products of an equation with constant weights: of an LSTM, those of its gates with its input."""
    recurrence = facts(eqn).recurrence
    if isinstance(recurrence, IntegerLstm):
        yield from _gates(eqn, recurrence)
    elif eqn.op.product in ("matrices", "windows") and "fused_activation_function" in eqn.params:
        yield from _plain(eqn)


def _plain(eqn: Eqn) -> Iterator[ConstantProduct]:
    roles = operands_of(eqn)
    if roles.activations[:1] != (0,) or [w.operand for w in roles.weights] != [1] or not isinstance(eqn.inputs[0], Var):
        return
    (of,) = roles.weights
    terms = _const(eqn, 1).array.shape[-1] if eqn.op.product == "matrices" else eqn.inputs[0].type.shape[-1]
    if is_known(terms) and terms:
        yield ConstantProduct(eqn, 0, 1, _bias(eqn, roles.bias), of.axis_of(eqn), int(terms))


def _gates(eqn: Eqn, recurrence: IntegerLstm) -> Iterator[ConstantProduct]:
    """Those to which a bias is added: behind a layer norm it is not added to the product."""
    for gate in recurrence.gates:
        weights = eqn.inputs[gate.weights]
        if isinstance(weights, Const) and eqn.inputs[gate.norm] is None:
            terms = weights.array.shape[-1]
            yield ConstantProduct(eqn, recurrence.data, gate.weights, _bias(eqn, gate.bias), 0, terms)


def _bias(eqn: Eqn, place: int | None) -> int | None:
    return None if place is None or not isinstance(eqn.inputs[place], Const) else place


def wanted_moments(forms: Mapping[Eqn, EqnForm]) -> dict[Observed, Moments]:
    """List the moments that calibration records for rules that correct biases or round weights in turn."""
    means = [p.means for p, rule in _products(forms) if rule.bias_correction and p.bias is not None]
    return dict([*means, *(p.squares for p in _in_turn(forms) if p.squares is not None)])


def _products(forms: Mapping[Eqn, EqnForm]) -> Iterator[tuple[ConstantProduct, QuantizeRule]]:
    """The products whose weights are to be in few bits."""
    for eqn, form in forms.items():
        for product in products_of(eqn) if form.kind in ("weights", "integer") else ():
            yield product, form.rule


def _in_turn(forms: Mapping[Eqn, EqnForm]) -> Iterator[ConstantProduct]:
    return (product for product, rule in _products(forms) if rule.weight_algorithm == IN_TURN)


@dataclass(frozen=True)
class ProductMoments:
    """The moments of the operands of a program's products.

    statistics: of the calibration; None without one. of_weights: the moments of the rows that each constant multiplies,
    by its id, over all equations that read it, f64[terms + 1, terms + 1]; only for constants that are rounded in turn.
    """

    statistics: Statistics | None = None
    of_weights: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, forms: Mapping[Eqn, EqnForm], statistics: Statistics) -> ProductMoments:
        """Those of a program whose equations have these forms."""
        by_weights: dict[int, np.ndarray] = {}
        for product in _in_turn(forms):
            moments = None if product.squares is None else statistics.record(product.squares[0]).moments
            if moments is not None and moments[-1, -1] > 0:
                by_weights[id(product.weights)] = by_weights.get(id(product.weights), np.float64(0)) + moments
        return cls(statistics, by_weights)

    def not_in_turn(self, forms: Mapping[Eqn, EqnForm]) -> Iterator[Eqn]:
        """The equations whose weights a rule wants rounded in turn, and of whose operand calibration has no squares."""
        for eqn, form in forms.items():
            is_in_turn = form.kind in ("weights", "integer") and form.rule.weight_algorithm == IN_TURN
            consts = (const for _, const in weight_consts(eqn, form.rule)) if is_in_turn else ()
            if any(id(const) not in self.of_weights for const in consts):
                yield eqn

    def corrected(self, product: ConstantProduct, rounded: Const) -> Const | None:
        """Subtract from the bias of a product the mean error that its quantized weights cause.

        rounded: these weights. Returns the bias unchanged where calibration has no mean; None without a bias.
        """
        if product.bias is None:
            return None
        bias, error = _const(product.eqn, product.bias), self._mean_error(product, rounded)
        return bias if error is None else Const((bias.array - error).astype(np.float32), bias.name)

    def _mean_error(self, product: ConstantProduct, rounded: Const) -> np.ndarray | None:
        """f64[outputs]; as if the operand were the same everywhere in an image, without zeros around it."""
        means = self._means(product.means[0])
        if means is None:
            return None
        errors = as_real(rounded.array, rounded.quantization).astype(np.float64) - product.weights.array
        if not product.is_image:
            return np.asarray(errors @ means)
        if product.axis == 0:
            summed = errors.sum(axis=tuple(range(1, errors.ndim - 1)))
            return np.asarray(summed @ means) if summed.shape[-1] == len(means) else None
        if errors.shape[0] != 1 or product.axis != 3:
            return None
        summed = errors.sum(axis=(0, 1, 2))  # each channel by itself
        return np.asarray(summed * np.repeat(means, len(summed) // len(means)))

    def _means(self, what: Observed) -> np.ndarray | None:
        """The mean of each term of the rows that a product reads, f64[terms]; None where calibration does not know."""
        if self.statistics is None or self.statistics.untrusted:
            return None
        moments = self.statistics.record(what).moments
        return None if moments is None or not moments[0, -1] > 0 else np.asarray(moments[0, :-1] / moments[0, -1])
