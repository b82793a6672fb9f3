"""Channels between two products in like ranges: what one divides its results by, the next multiplies its weights with.

Source: "Data-Free Quantization Through Weight Equalization and Bias Correction" (Nagel et al., 2019)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Var
from jfuse.ir.sparse import SparseConst
from jfuse.ir.states import distinct
from jfuse.ir.types import DType
from jfuse.ir.walk import producers, use_counts
from jfuse.kernels.nn.activation import POSITIVELY_LINEAR
from jfuse.lowering.peephole.arithmetic.affine import Affine
from jfuse.quantization.recipe import Recipe
from jfuse.tflite.runtime.table import quantized_of

_WEIGHTS, _BIAS = 1, 2
_SWEEPS = 20  # over chains of products, whose factors depend on each other
_MOST = 2.0**10  # of a factor, as of channels that are nearly dead


@dataclass(frozen=True)
class _Pair:
    """Two products, and the axes of their weights along which the channels between them lie."""

    first: Eqn
    second: Eqn
    made: int
    read: int


def equalized(graph: Graph, is_wanted: Callable[[Eqn], bool]) -> tuple[Graph, int]:
    """The graph, bodies left alone, with the largest weights of both products alike for each channel between them.

    Products follow each other directly, with RELU or nothing between. The number is that of the pairs.
    """
    made_by, counts = producers(graph), use_counts(graph)
    chosen = {eqn for eqn in graph.eqns if _has_weights(eqn) and is_wanted(eqn)}
    pairs = []
    for second in (eqn for eqn in graph.eqns if eqn in chosen):
        x = second.inputs[0]
        first = made_by.get(x) if isinstance(x, Var) and counts[x] == 1 else None
        pair = None if first is None or first not in chosen else _pair(first, second)
        pairs += [pair] if pair is not None else []
    new = {eqn: (_array(eqn, _WEIGHTS), _array(eqn, _BIAS)) for p in pairs for eqn in (p.first, p.second)}
    for _ in range(_SWEEPS):
        for pair in pairs:
            (of_first, bias), (of_second, bias_of_second) = new[pair.first], new[pair.second]
            assert of_first is not None, "_has_weights"
            assert of_second is not None, "_has_weights"
            factor = _factors(_largest(of_first, pair.made), _largest(of_second, pair.read))
            new[pair.first] = of_first / _along(factor, of_first, pair.made), None if bias is None else bias / factor
            new[pair.second] = of_second * _along(factor, of_second, pair.read), bias_of_second
    eqns = tuple(_with(eqn, *new[eqn]) if eqn in new else eqn for eqn in graph.eqns)
    return (replace(graph, eqns=eqns), len(pairs)) if pairs else (graph, 0)


def _has_weights(eqn: Eqn) -> bool:
    """Whether an equation multiplies matrices or windows of images with finite constants, and adds such or nothing."""
    if eqn.op.product not in ("matrices", "windows") or "fused_activation_function" not in eqn.params:
        return False
    weights, *others = eqn.inputs[1:]
    is_plain = weights is not None and weights.type.rank == {"matrices": 2, "windows": 4}[eqn.op.product]
    return is_plain and all(map(_is_plain_constant, [weights, *(a for a in others if a is not None)]))


def _is_plain_constant(atom: Atom | None) -> bool:
    is_constant = isinstance(atom, Const) and not isinstance(atom, SparseConst) and atom.type.dtype is DType.f32
    return is_constant and bool(np.isfinite(atom.array).all())  # type: ignore[union-attr]


def _pair(first: Eqn, second: Eqn) -> _Pair | None:
    """None where something between is not linear, or the weights have other channels."""
    channels = first.outputs[0].type.shape[-1]
    of_first, of_second = first.inputs[_WEIGHTS], second.inputs[_WEIGHTS]
    assert of_first is not None, "_has_weights"
    assert of_second is not None, "_has_weights"
    made, read = _axis(first), _axis(second) if _is_by_channel(second) else of_second.type.rank - 1
    sizes = [of_first.type.shape[made], of_second.type.shape[read]]
    fits = sizes == [channels, channels] and first.params["fused_activation_function"] in POSITIVELY_LINEAR
    return _Pair(first, second, made, read) if fits else None


def _axis(eqn: Eqn) -> int:
    of = quantized_of(eqn.op).weights_at(_WEIGHTS)
    assert of is not None, "products have weights"
    return of.axis_of(eqn)


def _is_by_channel(eqn: Eqn) -> bool:
    """Whether each channel of the result is made of one channel of the operand."""
    return eqn.op.product == "windows" and _axis(eqn) != 0


def _array(eqn: Eqn, operand: int) -> np.ndarray | None:
    atom = eqn.inputs[operand] if operand < len(eqn.inputs) else None
    return atom.array.astype(np.float64) if isinstance(atom, Const) else None


def _largest(array: np.ndarray, axis: int) -> np.ndarray:
    largest: np.ndarray = np.abs(array).max(axis=tuple(i for i in range(array.ndim) if i != axis))
    return largest


def _factors(of_first: np.ndarray, of_second: np.ndarray) -> np.ndarray:
    """By which both have the same largest weight; 1 for a channel that one of them does not use."""
    is_used = (of_first > 0) & (of_second > 0)
    ratio = np.divide(of_first, of_second, out=np.ones_like(of_first), where=is_used)
    factors: np.ndarray = np.clip(np.sqrt(ratio), 1 / _MOST, _MOST)
    return factors


def _along(factor: np.ndarray, array: np.ndarray, axis: int) -> np.ndarray:
    shaped: np.ndarray = factor.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return shaped


def _with(eqn: Eqn, weights: np.ndarray | None, bias: np.ndarray | None) -> Eqn:
    operands = list(eqn.inputs)
    for place, array in ((_WEIGHTS, weights), (_BIAS, bias)):
        atom = operands[place] if place < len(operands) else None
        if isinstance(atom, Const) and array is not None:
            operands[place] = Const(array.astype(np.float32), atom.name)
    return replace(eqn, inputs=tuple(operands))


# Factors and shifts of the channels of float inputs and outputs, as a normalization has them: floats.
# An input of integers has one scale for all channels, which leaves few steps to those of small numbers. Behind its
# normalization all of them are alike, and an operator of floats takes no longer there. So it is with an output before
# its channels get sizes of their own, as boxes in pixels beside scores have.

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
