"""Ops with bodies: WHILE and IF of TFLite, and the forms that passes resolve: scan and composite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, is_known, same, substitute_value, symbol, symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Params, Var, arrays_of
from jfuse.ir.registry import register_op
from jfuse.ir.trace import Trace, active_trace, is_tracing, mismatch
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import rename_dims
from jfuse.kernels.core.deadline import FIRST_TURNS, Deadline, active_deadline

Infer = Callable[[Sequence[Any], Params, Sequence[Graph]], tuple[TensorType, ...]]
Run = Callable[[Sequence[Any], Params, Sequence[Graph]], tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class BodyOp(Op):
    """An op whose equations carry graphs. `builtin` is its TFLite name, None where a pass must resolve it first.

    parameters: in the order in which they print, `...` where there is no default.
    differ: whether an equation's branches, or steps, give results of different sizes; jax cannot trace it then.
    """

    name: str = field()
    builtin: str | None = field()
    infer_types: Infer
    compute: Run
    parameters: Mapping[str, Any] = field(default_factory=dict)
    switch: str | None = None
    differ: Callable[[Eqn], bool] = lambda eqn: False

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The parameters with their defaults, `...` for those that have none."""
        return self.parameters

    def varies(self, eqn: Eqn) -> bool:
        """Whether an equation's branches, or steps, give results of different sizes."""
        return self.differ(eqn)

    def __call__(self, operands: Sequence[Any], bodies: Sequence[Graph], **params: Any) -> tuple[Any, ...]:
        """The results of the op on operands and bodies: a tuple always."""
        all_params = {**self.defaults, **params}
        missing = [name for name, value in all_params.items() if value is ...]
        if missing:
            raise TypeMismatch(f"{self.name} needs the parameters {missing}")
        return self.run(operands, all_params, bodies)

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The result types; raises TypeMismatch where operands and bodies do not fit together."""
        try:
            return self.infer_types([None if i is None else i.type for i in inputs], params, bodies)
        except Exception as error:  # a wrong number of operands or bodies, a parameter that is missing or none
            raise mismatch(self, inputs, params, error) from error

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The results for arrays; for Vars an equation is recorded."""
        is_recorded = any(isinstance(i, Var) for i in inputs) or (is_tracing() and _draw(bodies))
        return self.record(inputs, params, bodies) if is_recorded else self.compute(arrays_of(inputs), params, bodies)

    def record(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Var, ...]:
        """The results of an equation of the active trace, whatever the operands are."""
        trace = active_trace()
        atoms = trace.operands(inputs)
        types = self.infer(atoms, params, bodies) if not trace.sizes else self._resolved(trace, atoms, params, bodies)
        return trace.append(self, atoms, types, params, bodies)

    def _resolved(
        self, trace: Trace, atoms: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]
    ) -> tuple[TensorType, ...]:
        # The trace puts the equalities of sizes in when it ends; until then they count for the types only.
        operands = [None if a is None else Var(trace.resolve(a.type)) for a in atoms]
        resolved = [rename_dims(body, trace.sizes) for body in bodies]
        return self.infer(operands, substitute_value(params, trace.sizes), resolved)


def _draw(bodies: Sequence[Graph]) -> bool:
    """Whether bodies have random numbers, which are others in each call."""
    return any(eqn.op.draws or _draw(eqn.bodies) for body in bodies for eqn in body.eqns)


def _expect(actual: Sequence[TensorType], wanted: Sequence[TensorType], what: str) -> None:
    if len(actual) != len(wanted):
        raise TypeMismatch(f"{what}: {len(actual)} values for {len(wanted)}")
    for i, (f, w) in enumerate(zip(actual, wanted, strict=True)):
        alike = f.dtype is w.dtype and f.rank == w.rank
        if not alike or not all(same(a, b) for a, b in zip(f.shape, w.shape, strict=True)):
            raise TypeMismatch(f"{what} {i}: {f} for {w}")


def _types(atoms: Sequence[Var | Const]) -> list[TensorType]:
    return [a.type for a in atoms]


def _either(types: Sequence[TensorType], others: Sequence[TensorType], what: str) -> tuple[TensorType, ...]:
    """The types of values that are of one or of the other type: a size on which these differ is known at run time."""
    if len(types) != len(others):
        raise TypeMismatch(f"{what}: {len(types)} values for {len(others)}")
    for i, (f, o) in enumerate(zip(types, others, strict=True)):
        if f.dtype is not o.dtype or f.rank != o.rank:
            raise TypeMismatch(f"{what} {i}: {f} for {o}")
    dims = [[_one_of(d, e) for d, e in zip(f.shape, o.shape, strict=True)] for f, o in zip(types, others, strict=True)]
    return tuple(replace(f, shape=tuple(shape)) for shape, f in zip(dims, types, strict=True))


def _one_of(d: Dim, e: Dim) -> Dim:
    if same(d, e):
        return d
    return active_trace().names.fresh("N") if is_tracing() else symbol("N")


def _branches_differ(eqn: Eqn) -> bool:
    return _differ(*(_types(body.outputs) for body in eqn.bodies))


def _steps_differ(eqn: Eqn) -> bool:
    return _differ(_types(eqn.bodies[1].inputs), _types(eqn.bodies[1].outputs))


def _differ(types: Sequence[TensorType], others: Sequence[TensorType]) -> bool:
    return any(
        not same(d, e) for f, o in zip(types, others, strict=True) for d, e in zip(f.shape, o.shape, strict=True)
    )


def _while_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    cond, body = bodies
    carried = _types(body.inputs)
    _expect(_types(cond.inputs), carried, "condition input")
    known = frozenset(name for t in inputs for d in t.shape for name in symbols_of(d))
    _expect(inputs, _filled(carried, inputs, known), "operand")
    _expect(_types(body.outputs), _filled(carried, _types(body.outputs), known), "carried value")
    (flag,) = cond.outputs
    if flag.type.dtype is not DType.bool or any(same(d, 1) is not True for d in flag.type.shape):
        raise TypeMismatch(f"the condition gives {flag.type}, not one bool")
    return _either(inputs, _types(body.outputs), "carried value")


def _filled(carried: Sequence[TensorType], outer: Sequence[TensorType], known: Collection[str]) -> Sequence[TensorType]:
    """The types that a body carries, with the given sizes where one may change from step to step.

    Such a size is a symbol of the body alone. known: the symbols that are not.
    """
    if len(carried) != len(outer) or any(c.rank != g.rank for c, g in zip(carried, outer, strict=True)):
        return carried
    size = partial(_size, known)
    return [replace(c, shape=tuple(map(size, c.shape, g.shape))) for c, g in zip(carried, outer, strict=True)]


def _size(known: Collection[str], carried: Dim, outer: Dim) -> Dim:
    names = symbols_of(carried)
    return outer if names == {str(carried)} and not names & set(known) else carried


def _while_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    cond, body = bodies
    carried = tuple(inputs)
    deadline = active_deadline()
    # On concrete values a plain loop: it takes any body. Weights may be tracers although no operand is one; then the
    # first traced value turns what is left of the loop over to jax.
    while not _traced(carried):
        flag = evaluate(cond, carried)[0]
        if _traced([flag]):
            break
        if not bool(np.asarray(flag).reshape(())):
            return carried
        if deadline is not None:
            deadline.need_time(body.name)
        carried = evaluate(body, carried)
    if deadline is not None:
        return _while_until(deadline, cond, body, carried)
    with jax.enable_x64(True):
        final: tuple[Any, ...] = jax.lax.while_loop(
            lambda c: jnp.reshape(evaluate(cond, _with_known(cond, c))[0], ()),
            lambda c: _as_jax(evaluate(body, _with_known(body, c))),
            _as_jax(carried),
        )
    return final


def _with_known(graph: Graph, carried: Sequence[Any]) -> Sequence[Any]:
    """The carried values, as arrays where they are the same in every step: a size that is counted to must be known."""
    return [
        a if v.value is None or not all(map(is_known, v.value.ravel())) else v.value.astype(v.type.dtype.numpy)
        for v, a in zip(graph.inputs, carried, strict=True)
    ]


def _while_until(deadline: Deadline, cond: Graph, body: Graph, carried: Sequence[Any]) -> tuple[Any, ...]:
    """jax's loop with two more carried values: whether the time is over, and the turns until the host is asked again.

    A loop that the deadline ends gives what it has by then; whoever runs it asks the deadline afterwards.
    """
    ask = deadline.asker(body.name)
    answer_types = (jax.ShapeDtypeStruct((), np.bool_), jax.ShapeDtypeStruct((), np.int32))

    def step(c: tuple[Any, ...]) -> tuple[Any, ...]:
        _, left, span, *values = c
        stop, left, span = jax.lax.cond(
            left <= 1,
            lambda: _asked(jax.pure_callback(ask, answer_types, span)),
            lambda: (jnp.asarray(False), left - 1, span),
        )
        return (stop, left, span, *_as_jax(evaluate(body, _with_known(body, values))))

    with jax.enable_x64(True):
        first = jnp.asarray(FIRST_TURNS, jnp.int32)
        start = (jnp.asarray(False), first, first, *_as_jax(carried))
        final = jax.lax.while_loop(
            lambda c: ~c[0] & jnp.reshape(evaluate(cond, _with_known(cond, c[3:]))[0], ()), step, start
        )
    return tuple(final[3:])


def _asked(reply: Sequence[Any]) -> tuple[Any, Any, Any]:
    stop, span = reply
    return stop, span, span


def _if_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    then, other = bodies
    if inputs[0].dtype is not DType.bool:
        raise TypeMismatch(f"the condition is {inputs[0]}, not one bool")
    for branch in bodies:
        _expect(inputs[1:], _types(branch.inputs), "operand")
    return _either(_types(then.outputs), _types(other.outputs), "branch result")


def _if_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    then, other = bodies
    flag, *operands = inputs
    if not isinstance(flag, jax.core.Tracer):
        return evaluate(then if bool(np.asarray(flag).reshape(())) else other, operands)

    def branch(graph: Graph) -> Callable[..., tuple[Any, ...]]:
        return lambda *args: _as_jax(evaluate(graph, args))

    with jax.enable_x64(True):
        results: tuple[Any, ...] = jax.lax.cond(jnp.reshape(flag, ()), branch(then), branch(other), *_as_jax(operands))
    return results


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
        results = _as_jax(evaluate(body, (*consts, *carry, *x)))
        return results[:count], results[count:]

    length = None if xs else params["length"]
    with jax.enable_x64(True):
        final, stacked = jax.lax.scan(step, _as_jax(carries), _as_jax(xs), length=length, reverse=params["reverse"])
    results = (*final, *stacked)
    on_numpy = all(isinstance(i, np.ndarray) for i in inputs) and not _traced(results)
    return tuple(np.asarray(r) for r in results) if on_numpy else results


def _composite_types(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
    (body,) = bodies
    _expect(inputs, _types(body.inputs), "operand")
    return tuple(_types(body.outputs))


EXACT: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"jfuse.erf": jax.scipy.special.erf, "jfuse.erfc": jax.scipy.special.erfc}
)
"""By name of a composite, the jax function that its body approximates: what it computes outside of TFLite. A proof
compares with what the functions are, not with how the file spells them."""


def _composite_run(inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
    exact = EXACT.get(params["name"])
    if exact is not None and not any(isinstance(i, Var) for i in inputs):
        with jax.enable_x64(True):
            return (exact(*map(jnp.asarray, inputs)),)
    return evaluate(bodies[0], inputs)


def _traced(values: Sequence[Any]) -> bool:
    return any(isinstance(v, jax.core.Tracer) for v in values)


def _as_jax(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(jnp.asarray(v) for v in values)


while_ = register_op(BodyOp("while", "WHILE", _while_types, _while_run, switch="compare", differ=_steps_differ))
"""Bodies (cond, body): carried values through `body` while `cond` gives true.   Source: tflite/kernels/while.cc"""

if_ = register_op(BodyOp("if", "IF", _if_types, _if_run, switch="select", differ=_branches_differ))
"""Operands (flag, *values), bodies (then, else).   Source: tflite/kernels/if.cc"""

scan = register_op(
    BodyOp("scan", None, _scan_types, _scan_run, {"consts": ..., "carries": ..., "length": ..., "reverse": False})
)
"""jax's scan: operands (*consts, *carries, *xs), one body (consts, carries, x) -> (carries, y), stacked along axis 0.

Parameters: consts, carries (counts), length (a dimension), reverse (bool)."""

stablehlo_composite = register_op(
    BodyOp(
        "stablehlo_composite",
        "STABLEHLO_COMPOSITE",
        _composite_types,
        lambda inputs, params, bodies: evaluate(bodies[0], inputs),
        {"name": ..., "composite_attributes": None, "version": 0},
    )
)
"""A function of a name that accelerators know, and its body for all others. Parameters: name, composite_attributes (a
flexbuffer's map as bytes, or None), version of the function.   Source: tflite/kernels/stablehlo_composite.cc"""

composite = register_op(
    BodyOp("composite", None, _composite_types, _composite_run, {"name": ..., "arguments": (), "attributes": ()})
)
"""A function that keeps its boundary. Parameters: name, arguments (names of the operands), attributes (pairs)."""
