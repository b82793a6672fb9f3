"""Factors and shifts of the channels of float inputs and outputs, as a normalization has them: floats.

An input of integers has one scale for all channels, which leaves few steps to those of small numbers. Behind its
normalization all of them are alike, and an operator of floats takes no longer there. So it is with an output before
its channels get sizes of their own, as boxes in pixels beside scores have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from jfuse.ir.graph import Atom, Eqn, Graph, Program, Var
from jfuse.ir.states import distinct
from jfuse.ir.types import DType
from jfuse.ir.walk import producers, use_counts
from jfuse.lowering.peephole.arithmetic.affine import Affine
from jfuse.quantization.recipe import Recipe

_OF_INPUT = "it scales the channels of an input to one range, and the input is quantized behind it"
_OF_OUTPUT = "it scales the channels of an output to ranges of their own, and floats are made of integers before it"


def channel_factors(program: Program, recipe: Recipe) -> Mapping[Eqn, str]:
    """The equations between float inputs of signatures and the last factor or shift of their channels, and why.

    So those from the first such factor to a float output, or from the first factor of all channels behind a join. None
    where inputs or outputs are integers, or where no operator may stay float.
    """
    found: dict[Eqn, str] = {}
    for signature in () if recipe.int8_only else distinct(program):
        graph = signature.graph
        if recipe.outputs is DType.f32:
            found |= dict.fromkeys(_to_outputs(graph, len(signature.output_names)), _OF_OUTPUT)
        if recipe.inputs is DType.f32:
            found |= dict.fromkeys(_from_inputs(graph, len(signature.input_names)), _OF_INPUT)
    return found


def _from_inputs(graph: Graph, count: int) -> Iterator[Eqn]:
    made_by, given = producers(graph), set(graph.inputs[:count])
    for eqn in graph.eqns:
        chain = _chain(eqn, made_by) if _is_of_channels(eqn) else []
        if chain and _read(chain[-1]) in given:
            yield from chain


def _to_outputs(graph: Graph, count: int) -> Iterator[Eqn]:
    made_by, uses = producers(graph), use_counts(graph)
    for output in graph.outputs[:count]:
        last = made_by.get(output) if isinstance(output, Var) else None
        behind = [] if last is None else _chain(last, made_by)
        chain = list(takewhile(lambda e: uses[e.outputs[0]] == 1 and e.op.moves != "joins", behind))
        x = _read(chain[-1]) if chain else None
        is_joined = isinstance(x, Var) and x in made_by and made_by[x].op.moves == "joins"
        scales = [i for i, e in enumerate(chain) if (Affine.of(e) is not None if is_joined else _is_of_channels(e))]
        yield from chain[: max(scales, default=-1) + 1]


def _is_of_channels(eqn: Eqn) -> bool:
    """Whether an equation has a factor or a shift for each channel."""
    affine = Affine.of(eqn)
    return affine is not None and any(v is not None and v.size > 1 for v in (affine.scale, affine.shift))


def _chain(eqn: Eqn, made_by: Mapping[Var, Eqn]) -> list[Eqn]:
    """The equation with those before it that scale, shift or move, the nearest first."""
    chain: list[Eqn] = []
    before: Eqn | None = eqn
    while before is not None and (x := _read(before)) is not None:
        chain.append(before)
        before = made_by.get(x) if isinstance(x, Var) else None
    return chain


def _read(eqn: Eqn) -> Atom | None:
    """Return the operand that an equation scales, shifts or moves; None for other equations."""
    affine = Affine.of(eqn)
    if affine is not None:
        return affine.x
    return eqn.inputs[0] if eqn.op.moves is not None and len(eqn.outputs) == 1 else None
