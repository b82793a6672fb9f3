"""Factors and shifts of the channels of float inputs, as a normalization has them: floats, before QUANTIZE.

An input of integers has one scale for all channels, which leaves few steps to those of small numbers. Behind its
normalization all of them are alike, and an operator of floats takes no longer there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jfuse.ir.graph import Atom, Eqn, Graph, Program, Var
from jfuse.ir.states import distinct
from jfuse.ir.types import DType
from jfuse.ir.walk import producers
from jfuse.lowering.peephole.arithmetic.affine import Affine
from jfuse.quantization.recipe import Recipe

FACTORS = "it scales the channels of an input to one range, and the input is quantized behind it"


def channel_factors(program: Program, recipe: Recipe) -> frozenset[Eqn]:
    """The equations between float inputs of signatures and the last factor or shift of their channels.

    None where the inputs come as integers, or where no operator may stay float.
    """
    if recipe.inputs is not DType.f32 or recipe.int8_only:
        return frozenset()
    return frozenset(eqn for s in distinct(program) for eqn in _factors(s.graph, len(s.input_names)))


def _factors(graph: Graph, count: int) -> Iterator[Eqn]:
    made_by, inputs = producers(graph), set(graph.inputs[:count])
    for eqn in graph.eqns:
        affine = Affine.of(eqn)
        if affine is not None and any(v is not None and v.size > 1 for v in (affine.scale, affine.shift)):
            yield from _from_input(eqn, made_by, inputs)


def _from_input(eqn: Eqn, made_by: Mapping[Var, Eqn], inputs: set[Var]) -> Iterator[Eqn]:
    """The equation with those before it, up to an input; none where others stand between."""
    chain: list[Eqn] = []
    before: Eqn | None = eqn
    while before is not None:
        chain.append(before)
        x = _read(before)
        if x in inputs:
            yield from chain
            return
        before = made_by.get(x) if isinstance(x, Var) else None


def _read(eqn: Eqn) -> Atom | None:
    """Return the operand that an equation scales, shifts or moves; None for other equations."""
    affine = Affine.of(eqn)
    if affine is not None:
        return affine.x
    return eqn.inputs[0] if eqn.op.moves is not None and len(eqn.outputs) == 1 else None
