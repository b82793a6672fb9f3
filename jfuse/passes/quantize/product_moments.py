"""What products of constant weights read, as calibration saw it: for the mean of their errors, and to round in turn."""

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
from jfuse.quantization.real_numbers import as_real
from jfuse.quantization.recipe import IN_TURN, QuantizeRule
from jfuse.quantization.statistics import Observed, Statistics
from jfuse.tflite.runtime.quantized import GateOperands, IntegerLstm

_MOST_TERMS = 4608  # of which squares are kept: those of a 3x3 window over 512 channels, 85 MB
_MEANS, _SQUARES = "means", "squares"


@dataclass(frozen=True)
class _Product:
    """An equation whose first operand is multiplied with constant weights.

    terms: how many numbers there are in a row of the operand; in the channels of an image.
    """

    eqn: Eqn
    weights: Const
    axis: int
    terms: int

    @property
    def is_image(self) -> bool:
        """Whether windows of an image are multiplied."""
        return bool(self.eqn.op.product == "windows")

    @property
    def means(self) -> tuple[Observed, Moments]:
        """What is kept for the mean of its errors."""
        return Observed(self.eqn.outputs[0], _MEANS), Moments(0, self._rows, self.terms, squares=False)

    @property
    def squares(self) -> tuple[Observed, Moments] | None:
        """What is kept to round its weights in turn; None where each result does not read all of one row's terms."""
        shape = self.weights.array.shape
        terms = self.weights.array[0].size if shape[0] else 0
        if self.axis != 0 or not 0 < terms <= _MOST_TERMS or (self.is_image and shape[-1] != self.terms):
            return None
        is_pixel = terms == self.terms and self.eqn.params.get("stride_w", 1) == self.eqn.params.get("stride_h", 1) == 1
        rows = self._rows if is_pixel else self._windows
        return Observed(self.eqn.outputs[0], _SQUARES), Moments(0, rows, terms, squares=True)

    def _rows(self, x: Any) -> Any:
        return x.reshape((-1, self.terms))

    def _windows(self, x: Any) -> Any:
        """The rows of the operand, which are its product with the unit matrix."""
        shape = self.weights.array.shape[1:]
        terms = int(np.prod(shape))
        unit = jnp.reshape(jnp.eye(terms, dtype=jnp.float32), (terms, *shape))
        params = {**self.eqn.params, "fused_activation_function": "NONE"}
        (found,) = self.eqn.op.run([x, unit, *(None for _ in self.eqn.inputs[2:])], params, ())
        return jnp.reshape(found, (-1, terms))


def _product(eqn: Eqn) -> _Product | None:
    if eqn.op.product not in ("matrices", "windows") or "fused_activation_function" not in eqn.params:
        return None
    roles = operands_of(eqn)
    if roles.activations[:1] != (0,) or [w.operand for w in roles.weights] != [1] or not isinstance(eqn.inputs[0], Var):
        return None
    (of,) = roles.weights
    weights, x = eqn.inputs[1], eqn.inputs[0].type
    assert isinstance(weights, Const), "weights of `operands_of` are constants"
    terms = weights.array.shape[-1] if eqn.op.product == "matrices" else x.shape[-1]
    return _Product(eqn, weights, of.axis_of(eqn), int(terms)) if is_known(terms) and terms else None


def wanted_moments(forms: Mapping[Eqn, EqnForm]) -> dict[Observed, Moments]:
    """What calibration is to keep for the rules of equations that correct biases, or round weights in turn."""
    means = [product.means for product, rule in _products(forms) if rule.bias_correction and _has_bias(product.eqn)]
    means += [_means_of_gates(eqn) for eqn, form in forms.items() if _is_in_few_bits(form) and any(gates_of(eqn))]
    return dict([*means, *(product.squares for product in _in_turn(forms) if product.squares is not None)])


def _is_in_few_bits(form: EqnForm) -> bool:
    return form.kind in ("weights", "integer") and form.rule.bias_correction


def gates_of(eqn: Eqn) -> Iterator[GateOperands]:
    """The gates of an LSTM whose bias is added to what the weights of its inputs make: none of other operators."""
    recurrence = facts(eqn).recurrence
    for gate in recurrence.gates if isinstance(recurrence, IntegerLstm) else ():
        is_product = isinstance(eqn.inputs[gate.weights], Const) and isinstance(eqn.inputs[gate.bias], Const)
        if is_product and eqn.inputs[gate.norm] is None:
            yield gate


def _means_of_gates(eqn: Eqn) -> tuple[Observed, Moments]:
    """What is kept for the mean of the errors of an LSTM's gates: its inputs, of all steps alike."""
    recurrence = facts(eqn).recurrence
    assert isinstance(recurrence, IntegerLstm), "`gates_of` has some"
    weights = eqn.inputs[next(gates_of(eqn)).weights]
    assert isinstance(weights, Const), "one of `gates_of`"
    terms = weights.array.shape[-1]
    rows = Moments(recurrence.data, lambda x: x.reshape((-1, terms)), terms, squares=False)
    return Observed(eqn.outputs[0], _MEANS), rows


def _products(forms: Mapping[Eqn, EqnForm]) -> Iterator[tuple[_Product, QuantizeRule]]:
    """The products whose weights are to be in few bits."""
    for eqn, form in forms.items():
        product = _product(eqn) if form.kind in ("weights", "integer") else None
        if product is not None:
            yield product, form.rule


def _in_turn(forms: Mapping[Eqn, EqnForm]) -> Iterator[_Product]:
    return (product for product, rule in _products(forms) if rule.weight_algorithm == IN_TURN)


def _has_bias(eqn: Eqn) -> bool:
    place = operands_of(eqn).bias
    return place is not None and isinstance(eqn.inputs[place], Const)


@dataclass(frozen=True)
class ProductMoments:
    """What the products of a program read.

    statistics: of the calibration; None without one. of_weights: of the rows that each constant is multiplied with, by
    its id, over all equations that read it: f64[terms + 1, terms + 1]; of those alone that are rounded in turn.
    """

    statistics: Statistics | None = None
    of_weights: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, forms: Mapping[Eqn, EqnForm], statistics: Statistics) -> ProductMoments:
        """Those of a program whose equations have these forms."""
        found: dict[int, np.ndarray] = {}
        for product in _in_turn(forms):
            moments = None if product.squares is None else statistics.record(product.squares[0]).moments
            if moments is not None and moments[-1, -1] > 0:
                found[id(product.weights)] = found.get(id(product.weights), np.float64(0)) + moments
        return cls(statistics, found)

    def not_in_turn(self, forms: Mapping[Eqn, EqnForm]) -> Iterator[Eqn]:
        """The equations whose weights a rule wants rounded in turn, and of whose operand calibration has no squares."""
        for eqn, form in forms.items():
            wanted = form.kind in ("weights", "integer") and form.rule.weight_algorithm == IN_TURN
            consts = (const for _, const in weight_consts(eqn, form.rule)) if wanted else ()
            if any(id(const) not in self.of_weights for const in consts):
                yield eqn

    def corrected(self, eqn: Eqn, bias: Const, given: Const) -> Const:
        """The bias of a product without what its results are off by on average for its weights in few bits.

        given: these weights. The bias as it is where calibration does not know.
        """
        error = self._mean_error(eqn, given)
        return bias if error is None else Const((bias.array - error).astype(np.float32), bias.name)

    def corrected_gate(self, eqn: Eqn, gate: GateOperands, given: Const) -> Const:
        """The bias of a gate without what its weights of the inputs, in few bits, add on average.   given: these

        The kernels have one scale for a matrix, so that much of inputs with a mean, as logarithms of energies, is lost.
        """
        weights, bias = eqn.inputs[gate.weights], eqn.inputs[gate.bias]
        assert isinstance(weights, Const), "one of `gates_of`"
        assert isinstance(bias, Const), "one of `gates_of`"
        means = self._means(_means_of_gates(eqn)[0])
        if means is None:
            return bias
        error = (as_real(given.array, given.quantization).astype(np.float64) - weights.array) @ means
        return Const((bias.array - error).astype(np.float32), bias.name)

    def _means(self, what: Observed) -> np.ndarray | None:
        """The mean of each term of the rows that a product reads, f64[terms]; None where calibration does not know."""
        if self.statistics is None or self.statistics.untrusted:
            return None
        found = self.statistics.record(what).moments
        return None if found is None or not found[0, -1] > 0 else np.asarray(found[0, :-1] / found[0, -1])

    def _mean_error(self, eqn: Eqn, given: Const) -> np.ndarray | None:
        """f64[outputs]; as if the operand were the same everywhere in an image, without zeros around it."""
        product = _product(eqn)
        means = None if product is None else self._means(product.means[0])
        if product is None or means is None:
            return None
        errors = as_real(given.array, given.quantization).astype(np.float64) - product.weights.array
        if not product.is_image:
            return np.asarray(errors @ means)
        if product.axis == 0:
            summed = errors.sum(axis=tuple(range(1, errors.ndim - 1)))
            return np.asarray(summed @ means) if summed.shape[-1] == len(means) else None
        if errors.shape[0] != 1 or product.axis != 3:
            return None
        summed = errors.sum(axis=(0, 1, 2))  # each channel by itself
        return np.asarray(summed * np.repeat(means, len(summed) // len(means)))
