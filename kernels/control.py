"""Ops with bodies: WHILE and IF of TFLite, and the forms that passes resolve: scan and composite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.errors import TypeMismatch
from jfuse.ir.dims import same
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Graph, Params, Var
from jfuse.ir.trace import active_trace, mismatch
from jfuse.ir.types import DType, TensorType

Infer = Callable[[Sequence[Any], Params, Sequence[Graph]], tuple[TensorType, ...]]
Run = Callable[[Sequence[Any], Params, Sequence[Graph]], tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class BodyOp:
    """An op whose equations carry graphs. `builtin` is its TFLite name, None where a pass must resolve it first."""

    name: str
    builtin: str | None
    infer_types: Infer
    compute: Run
    switch: str | None = None

    def __call__(self, operands: Sequence[Any], bodies: Sequence[Graph], **params: Any) -> tuple[Any, ...]:
        """The results of the op on operands and bodies: a tuple always."""
        return self.run(operands, params, bodies)

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The result types; raises TypeMismatch where operands and bodies do not fit together."""
        try:
            return self.infer_types([None if i is None else i.type for i in inputs], params, bodies)
        except TypeMismatch as error:
            raise mismatch(self, inputs, params, error) from error  # type: ignore[arg-type]

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The results for arrays; for Vars an equation is recorded."""
        if not any(isinstance(i, Var) for i in inputs):
            return self.compute(inputs, params, bodies)
        trace = active_trace()
        atoms = [i if isinstance(i, Var | Const) or i is None else trace.constant(np.asarray(i)) for i in inputs]
        resolved = [a if a is None or not trace.sizes else Var(trace.resolve(a.type)) for a in atoms]
        return trace.append(self, atoms, self.infer(resolved, params, bodies), params, bodies)


def _expect(found: Sequence[TensorType], wanted: Sequence[TensorType], what: str) -> None:
    if len(found) != len(wanted):
        raise TypeMismatch(f"{what}: {len(found)} values for {len(wanted)}")
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        fits = f.dtype is w.dtype and f.rank == w.rank and all(same(a, b) for a, b in zip(f.shape, w.shape, strict=True))
        if not fits:
            raise TypeMismatch(f"{what} {i}: {f} for {w}")


def _types(atoms: Sequence[Var | Const]) -> list[TensorType]:
    return [a.type for a in atoms]


def _while_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    cond, body = bodies
    _expect(inputs, _types(body.inputs), "operand")
    _expect(_types(cond.inputs), _types(body.inputs), "condition input")
    _expect(_types(body.outputs), _types(body.inputs), "carried value")
    (flag,) = cond.outputs
    if flag.type.dtype is not DType.bool or any(same(d, 1) is not True for d in flag.type.shape):
        raise TypeMismatch(f"the condition gives {flag.type}, not one bool")
    return tuple(_types(body.outputs))


def _while_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    cond, body = bodies
    if not any(isinstance(i, jax.core.Tracer) for i in inputs):
        carried = tuple(inputs)
        while bool(np.asarray(evaluate(cond, carried)[0]).reshape(())):
            carried = evaluate(body, carried)
        return carried
    with jax.enable_x64(True):
        start = tuple(jnp.asarray(i) for i in inputs)
        return jax.lax.while_loop(
            lambda c: jnp.reshape(evaluate(cond, c)[0], ()),
            lambda c: tuple(jnp.asarray(o) for o in evaluate(body, c)),
            start,
        )


def _if_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    then, other = bodies
    if inputs[0].dtype is not DType.bool:
        raise TypeMismatch(f"the condition is {inputs[0]}, not one bool")
    for branch in bodies:
        _expect(inputs[1:], _types(branch.inputs), "operand")
    _expect(_types(other.outputs), _types(then.outputs), "branch result")
    return tuple(_types(then.outputs))


def _if_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    then, other = bodies
    flag, *operands = inputs
    if not isinstance(flag, jax.core.Tracer):
        return evaluate(then if bool(np.asarray(flag).reshape(())) else other, operands)

    def branch(graph: Graph) -> Callable[..., tuple[Any, ...]]:
        return lambda *args: tuple(jnp.asarray(o) for o in evaluate(graph, args))

    with jax.enable_x64(True):
        return jax.lax.cond(jnp.reshape(flag, ()), branch(then), branch(other), *(jnp.asarray(o) for o in operands))


def scan_parts(inputs: Sequence[Any], params: Params) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """The operands of a scan (or the inputs of its body) as constants, carries and step inputs."""
    consts, carries = params["consts"], params["carries"]
    return inputs[:consts], inputs[consts : consts + carries], inputs[consts + carries :]


def _scan_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    (body,) = bodies
    consts, carries, xs = scan_parts(inputs, params)
    length = params["length"]
    for x in xs:
        if same(x.shape[0], length) is not True:
            raise TypeMismatch(f"a step input of {x} for {length} steps")
    steps = [TensorType(x.shape[1:], x.dtype) for x in xs]
    _expect([*consts, *carries, *steps], _types(body.inputs), "operand")
    results = _types(body.outputs)
    _expect(results[: len(carries)], carries, "carried value")
    stacked = [TensorType((length, *y.shape), y.dtype) for y in results[len(carries) :]]
    return (*carries, *stacked)


def _scan_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    (body,) = bodies
    consts, carries, xs = scan_parts(inputs, params)
    count = len(carries)

    def step(carry: tuple[Any, ...], x: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        results = tuple(jnp.asarray(r) for r in evaluate(body, (*consts, *carry, *x)))
        return results[:count], results[count:]

    with jax.enable_x64(True):
        start = tuple(jnp.asarray(c) for c in carries)
        steps = tuple(jnp.asarray(x) for x in xs)
        length = None if xs else params["length"]
        final, stacked = jax.lax.scan(step, start, steps, length=length, reverse=params["reverse"])
    return (*final, *stacked)


def _composite_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    (body,) = bodies
    _expect(inputs, _types(body.inputs), "operand")
    return tuple(_types(body.outputs))


def _composite_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    return evaluate(bodies[0], inputs)


while_ = BodyOp("while", "WHILE", _while_types, _while_run, switch="compare")
"""Bodies (cond, body): carried values through `body` for as long as `cond` gives true.   Source: tflite/kernels/while.cc"""

if_ = BodyOp("if", "IF", _if_types, _if_run, switch="select")
"""Operands (flag, *values), bodies (then, else).   Source: tflite/kernels/if.cc"""

scan = BodyOp("scan", None, _scan_types, _scan_run)
"""jax's scan: operands (*consts, *carries, *xs), one body (consts, carries, x) -> (carries, y), stacked along axis 0.

Parameters: consts, carries (counts), length (a dimension), reverse (bool)."""

composite = BodyOp("composite", None, _composite_types, _composite_run)
"""A function that keeps its boundary. Parameters: name, arguments (names of the operands), attributes."""
