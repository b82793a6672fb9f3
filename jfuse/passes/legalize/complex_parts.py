"""Complex numbers by their parts, where the runtime has no operator for them or the parts are at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jfuse.ir.graph import Atom, Eqn, Graph, Op
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan, while_
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.complex_numbers import WHOLE, whole
from jfuse.passes.rewrite import Rewriting, inline
from jfuse.tflite.runtime.dtypes import unsupported

# Loops that carry complex numbers, read or collect them, as loops over their real and imaginary parts.

Pair = tuple[Array, Array]
"""Real and imaginary part, f32."""


def is_loop(eqn: Eqn) -> bool:
    """Whether an equation is a loop with complex operands or results."""
    return eqn.op in (scan, while_) and any(_is_complex(a) for a in (*eqn.inputs, *eqn.outputs))


def carried_by_parts(eqn: Eqn, inside: Callable[[Graph], Graph], pair: Callable[[Atom], Pair]) -> Sequence[Array]:
    """Record the loop with two f32 values for each complex one; TFLite stacks no complex numbers. Return its results.

    inside: what becomes of each body, where complex numbers are made of the parts that go in.
    pair: the parts of an operand.
    """
    operands = [a for a in eqn.inputs if a is not None]
    bodies = [inside(_body_by_parts(body)) for body in eqn.bodies]
    params = dict(eqn.params)
    if eqn.op is scan:
        consts, carries = params["consts"], params["carries"]
        params["consts"] = _width(operands[:consts])
        params["carries"] = _width(operands[consts : consts + carries])
    results = iter(eqn.op.run([as_atom(v) for v in _apart(operands, pair)], params, bodies))
    return _together(eqn.outputs, results)


def _width(atoms: Sequence[Atom]) -> int:
    """The number of values that represent these."""
    return sum(1 + _is_complex(a) for a in atoms)


def _apart(atoms: Sequence[Atom], pair: Callable[[Atom], Pair]) -> list[Any]:
    return [part for a in atoms for part in (pair(a) if _is_complex(a) else (a,))]


def _together(like: Sequence[Atom], values: Iterator[Array]) -> list[Array]:
    """The values, those of two parts as complex numbers. like: which of them are complex."""
    return [whole(next(values), next(values)) if _is_complex(a) else next(values) for a in like]


def _body_by_parts(body: Graph) -> Graph:
    """The body, with two inputs for each complex one and two outputs."""

    def run(*values: Array) -> list[Array]:
        joined = [as_atom(v) for v in _together(body.inputs, iter(values))]
        return _apart(inline(body, joined), lambda a: (ops.real(a), ops.imag(a)))

    types = [t for a in body.inputs for t in ([replace(a.type, dtype=DType.f32)] * 2 if _is_complex(a) else [a.type])]
    return trace_graph(run, types, body.name)


Parts = tuple[Array, Array | None]
"""Real and imaginary part; None where that is 0."""


_RULES: dict[Op, Callable[..., Parts | Array]] = {}


def _rule(op: Op) -> Callable[[Callable[..., Parts | Array]], Callable[..., Any]]:
    """Register the decorated function: a complex result as its parts, or a real one, from the parts of operands."""
    return lambda function: _RULES.setdefault(op, function)


def complex_parts(graph: Graph) -> Graph:
    """Let operators on c64 that the runtime lacks, or whose operands are made of parts, work on the parts."""
    rewriting = Rewriting(with_bodies(graph, complex_parts))

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if is_loop(eqn):
            return carried_by_parts(eqn, complex_parts, lambda a: _pair(_operand(rewriting, a)))
        if not eqn.op.is_kernel or not any(_is_complex(a) for a in eqn.inputs):
            return None
        if not unsupported(eqn) and not any(_origin(rewriting, a) for a in eqn.inputs):
            return None
        return _by_parts(eqn.op, eqn, [_operand(rewriting, a) for a in eqn.inputs])

    return rewriting.run(visit)


def _is_complex(atom: Atom | None) -> bool:
    return atom is not None and atom.type.dtype is DType.c64


def _origin(rewriting: Rewriting, atom: Atom | None) -> Parts | None:
    """Return the real and imaginary parts that a complex number was made from; None where unknown."""
    eqn = rewriting.producer(atom) if _is_complex(atom) else None
    if eqn is not None and eqn.op is composite and eqn.params["name"] == WHOLE:
        real, imaginary = eqn.inputs
        return real, imaginary
    if eqn is not None and eqn.op is ops.cast and eqn.inputs[0] is not None and eqn.inputs[0].type.dtype is DType.f32:
        return eqn.inputs[0], None
    return None


def _operand(rewriting: Rewriting, atom: Atom | None) -> Any:
    """The parts of a complex number, what else there is as it is."""
    if not _is_complex(atom):
        return atom
    return _origin(rewriting, atom) or (ops.real(atom), ops.imag(atom))


def _pair(x: Parts) -> tuple[Array, Array]:
    return x[0], _imaginary(x)


def _by_parts(op: Op, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any] | None:
    if op in _RULES:
        result = _RULES[op](*operands)
        return [_joined(result) if isinstance(result, tuple) else result]
    if not all(map(_is_complex, eqn.outputs)):
        return None

    def run(*arguments: Array) -> Sequence[Array]:
        return op.run(arguments, eqn.params, ())

    if op.linear == "each" and len(operands) > 1 and not any(o is not None for o in operands[2:]):
        return [_joined(_product(lambda x, y: run(x, y, *operands[2:])[0], *operands[:2]))]
    if op.linear not in ("joint", "first"):
        return None
    real = run(*(o[0] if isinstance(o, tuple) else o for o in operands))
    imaginary = run(*(_imaginary(o) if isinstance(o, tuple) else o for o in operands))
    return [whole(r, i) for r, i in zip(real, imaginary, strict=True)]


@_rule(ops.imag)
def _imaginary(x: Parts) -> Array:
    return ops.zeros_like(x[0]) if x[1] is None else x[1]


def _joined(x: Parts) -> Array:
    return whole(*_pair(x))


def _product(multiply: Callable[[Array, Array], Array], x: Parts, y: Parts) -> Parts:
    (a, b), (c, d) = x, y
    real = multiply(a, c) if b is None or d is None else ops.sub(multiply(a, c), multiply(b, d))
    if b is None:
        return real, None if d is None else multiply(a, d)
    return real, multiply(b, c) if d is None else ops.add(multiply(a, d), multiply(b, c))


@_rule(ops.div)
def _quotient(x: Parts, y: Parts) -> Parts:
    """x / y. The square of y leaves f32 beyond 1e19 and below 1e-19."""
    c, d = y
    if d is None:
        return ops.div(x[0], c), None if x[1] is None else ops.div(x[1], c)
    real, imaginary = _product(ops.mul, x, (c, ops.neg(d)))
    size = ops.add(ops.square(c), ops.square(d))
    return ops.div(real, size), ops.div(_imaginary((real, imaginary)), size)


@_rule(ops.exp)
def _power(x: Parts) -> Parts:
    size = ops.exp(x[0])
    return (size, None) if x[1] is None else (ops.mul(size, ops.cos(x[1])), ops.mul(size, ops.sin(x[1])))


@_rule(ops.complex_abs)
def _size(x: Parts) -> Array:
    """The absolute value. Squares leave f32 beyond 1e19 and below 1e-19."""
    return ops.abs_(x[0]) if x[1] is None else ops.sqrt(ops.add(ops.square(x[0]), ops.square(x[1])))


@_rule(ops.real)
def _real(x: Parts) -> Array:
    return x[0]


@_rule(ops.square)
def _square(x: Parts) -> Parts:
    return _product(ops.mul, x, x)
