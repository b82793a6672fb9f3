"""Loops that carry complex numbers, read or collect them, as loops over their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jfuse.ir.graph import Atom, Eqn, Graph
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.control import scan, while_
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.complex_numbers import whole
from jfuse.passes.rewrite import inline

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


def _is_complex(atom: Atom | None) -> bool:
    return atom is not None and atom.type.dtype is DType.c64


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
