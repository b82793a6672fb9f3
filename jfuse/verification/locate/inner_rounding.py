"""The change of a graph's results if every intermediate value is rounded otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jfuse.ir.graph import Eqn, Op, Signature, Var
from jfuse.kernels import ops
from jfuse.proof.inputs import CallInputs
from jfuse.verification.locate.local_errors import compute, value_of
from jfuse.verification.locate.rounding import rounded_otherwise
from jfuse.verification.runners.node_values import Value
from jfuse.verification.subject import STATE

Settled = Callable[[tuple[int, int], Eqn, Sequence[Value]], Sequence[Value]]
"""(number of the call, number of the equation), the equation, its results -> results to go on with."""


def rounded_results(
    signature: Signature,
    row: Sequence[CallInputs],
    seed: int | None,
    unit: float = 0.0,
    settled: Settled = lambda _, eqn, results: results,
) -> dict[str, Value]:
    """The outputs and states after calls in a row from the initial states, equation by equation on XLA.

    seed: of the roundings; None for none. unit: of a coarser type that values are rounded to, as `unit_of` has it.
    Results that cannot be computed are None. Loops and branches count as one equation.
    """
    generator = None if seed is None else np.random.default_rng(seed)
    states: list[Value] = [s.initial.array for s in signature.states]
    names = [*signature.output_names, *(f"{STATE}{s.name}" for s in signature.states)]
    results: dict[str, Value] = {}
    for call, step in enumerate(row):
        inputs = [np.asarray(step.inputs[name]) for name in signature.input_names]
        env: dict[Var, Value] = dict(zip(signature.graph.inputs, [*inputs, *states], strict=True))
        for number, eqn in enumerate(signature.graph.eqns):
            results_of_eqn = settled((call, number), eqn, _results(eqn, env, generator, unit))
            env.update(zip(eqn.outputs, results_of_eqn, strict=True))
        results = dict(zip(names, (value_of(a, env) for a in signature.graph.outputs), strict=True))
        states = [results[f"{STATE}{s.name}"] for s in signature.states]
    return results


def _results(eqn: Eqn, env: Mapping[Var, Value], generator: np.random.Generator | None, unit: float) -> Sequence[Value]:
    operands = [value_of(a, env) for a in eqn.inputs]
    if generator is None:
        return compute(eqn, operands, env)
    with np.errstate(all="ignore"):
        within = rounded_within(eqn, operands, generator)
    if within is not None:
        return (within,)
    return [r if r is None else rounded_otherwise(r, generator, unit) for r in compute(eqn, operands, env)]


# Error bounds for roundings inside a kernel, where LiteRT computes in steps that the graph does not show.

_Rounded = Callable[[np.ndarray, Mapping[str, Any], np.random.Generator], np.ndarray]


def rounded_within(eqn: Eqn, operands: Sequence[Value], generator: np.random.Generator) -> np.ndarray | None:
    """The result with each value inside the kernel rounded otherwise; None if the kernel has no such steps."""
    rule = _STEPS.get(eqn.op)
    first = operands[0] if operands else None
    return None if rule is None or first is None else rule(first, eqn.params, generator)


def _local_response(x: np.ndarray, params: Mapping[str, Any], generator: np.random.Generator) -> np.ndarray:
    """The window of squares moves along the channels: one is added and one taken away, and their roundings add up.

    Source: tflite/kernels/internal/optimized/optimized_ops.h, LocalResponseNormalization.
    """

    def rounded(value: np.ndarray) -> np.ndarray:
        return rounded_otherwise(value.astype(x.dtype), generator)

    width, channels = 2 * params["radius"], x.shape[-1]
    squares = np.pad(
        rounded(x * x * x.dtype.type(params["alpha"])), [(0, 0)] * (x.ndim - 1) + [(params["radius"],) * 2]
    )
    total = np.zeros(x.shape[:-1], x.dtype)
    bases = np.zeros_like(x)
    for i in range(width + channels):
        total = rounded(total + squares[..., i])
        if i >= width:
            bases[..., i - width] = rounded(total + x.dtype.type(params["bias"]))
            total = rounded(total - squares[..., i - width])
    return rounded(x * rounded(bases ** -x.dtype.type(params["beta"])))


def _gelu(x: np.ndarray, params: Mapping[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Below 0 what is left of 1 and a function near -1 has the rounding errors of 1.

    Source: tflite/kernels/internal/reference/gelu.h; XNNPACK's (LiteRT 2.3.0) errs by up to 2.6e-7 at -4.
    """

    def rounded(value: Any) -> np.ndarray:
        return rounded_otherwise(np.asarray(value).astype(x.dtype), generator)

    wide = x.astype(np.float64)
    if params.get("approximate"):
        share = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    else:
        share = np.asarray(jax.scipy.special.erf(x / np.sqrt(x.dtype.type(2))))
    return rounded(x * rounded(1 + rounded(share)) / 2)


def _elu(x: np.ndarray, params: Mapping[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Near 0 TensorFlow subtracts 1 from a power near 1.   Source: tensorflow/core/kernels/relu_op_functor.h, Elu"""
    powers = rounded_otherwise(np.exp(np.minimum(x, 0)), generator)
    return rounded_otherwise(np.where(x > 0, x, powers - 1).astype(x.dtype), generator)


def _log_softmax(x: np.ndarray, params: Mapping[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Near 0 two almost equal numbers are subtracted: a logit, and the largest one plus the logarithm of the sum.

    XLA on CPUs may compute a logit once for the sum and once for the difference, rounded in two ways.
    Source: tflite/kernels/internal/optimized/optimized_ops.h, LogSoftmax.
    """
    largest = x.max(axis=-1, keepdims=True, initial=-np.inf)
    total = rounded_otherwise(np.exp(x - largest).sum(axis=-1, keepdims=True), generator)
    return rounded_otherwise(rounded_otherwise(x, generator) - largest - np.log(total), generator)


_STEPS: dict[Op, _Rounded] = {
    ops.local_response_normalization: _local_response,
    ops.gelu: _gelu,
    ops.elu: _elu,
    ops.log_softmax: _log_softmax,
}
