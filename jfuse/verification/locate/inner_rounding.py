"""The change of a graph's results if every intermediate value is rounded otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jfuse.ir.graph import Eqn, Signature, Var
from jfuse.proof.inputs import CallInputs
from jfuse.verification.locate.kernel_roundings import rounded_within
from jfuse.verification.locate.local_errors import compute, value_of
from jfuse.verification.locate.rounding import rounded_otherwise
from jfuse.verification.runners.node_values import Value
from jfuse.verification.subject import STATE


def rounded_results(
    signature: Signature, row: Sequence[CallInputs], seed: int | None, unit: float = 0.0
) -> dict[str, Value]:
    """The outputs and states after calls in a row from the initial states, equation by equation on XLA.

    seed: of the roundings; None for none. unit: of a coarser type that values are rounded to, as `unit_of` has it.
    Results that cannot be computed are None. Loops and branches count as one equation.
    """
    generator = None if seed is None else np.random.default_rng(seed)
    states: list[Value] = [s.initial.array for s in signature.states]
    names = [*signature.output_names, *(f"{STATE}{s.name}" for s in signature.states)]
    results: dict[str, Value] = {}
    for step in row:
        inputs = [np.asarray(step.inputs[name]) for name in signature.input_names]
        env: dict[Var, Value] = dict(zip(signature.graph.inputs, [*inputs, *states], strict=True))
        for eqn in signature.graph.eqns:
            env.update(zip(eqn.outputs, _results(eqn, env, generator, unit), strict=True))
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
