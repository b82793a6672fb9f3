"""Inputs that are the shape of a transposed convolution's result, computed from its operands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import Dim, is_known, substitute_dim, symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph, Signature, Var
from jfuse.ir.walk import live_eqns
from jfuse.verification.subject import Arrays

_FIRST_TAG = 1_000_003  # no size is as large


@dataclass(frozen=True)
class NeededShape:
    """The value of one input, for sizes of the others that are drawn anew each time.

    name: of the input of the signature. places: for each element of the input the number of the convolution and
    the axis of its result; None for an element that none reads.
    """

    signature: Signature
    name: str
    places: tuple[tuple[int, int] | None, ...]

    def value(self, drawn: np.ndarray, inputs: Arrays) -> np.ndarray:
        """The input, of the dtype and shape of the one drawn before."""
        shapes = _wanted(self.signature, inputs)
        flat = drawn.reshape(-1).copy()
        for i, place in enumerate(self.places):
            if place is not None and place[0] < len(shapes):
                flat[i] = shapes[place[0]][place[1]]
        return flat.reshape(drawn.shape)


def needed_shapes(signature: Signature, drawn: Arrays, fixed: Collection[str]) -> dict[str, NeededShape]:
    """By name, the integer inputs whose elements are sizes of results of transposed convolutions."""
    numbers = [n for n, a in drawn.items() if n not in fixed and a.dtype.kind in "iu" and a.ndim <= 1 and a.size <= 5]
    if not numbers or not any(map(_is_transposed, signature.graph.eqns)):
        return {}
    tags = {n: _FIRST_TAG + 8 * k + np.arange(max(drawn[n].size, 1)) for k, n in enumerate(numbers)}
    tagged = {n: tags[n].reshape(a.shape).astype(a.dtype) if n in tags else a for n, a in drawn.items()}
    shapes = [_shape_of(signature, eqn, tagged) for eqn in _transposed(signature.graph)]
    places_by_input = {n: _places(tags[n][: drawn[n].size], shapes) for n in numbers}
    return {
        n: NeededShape(signature, n, places)
        for n, places in places_by_input.items()
        if any(p is not None for p in places)
    }


def _is_transposed(eqn: Eqn) -> bool:
    return eqn.op.product == "windows" and eqn.op.operand_at(0).decides_size


def _transposed(graph: Graph) -> Iterator[Eqn]:
    return (eqn for eqn in graph.eqns if _is_transposed(eqn))


def _shape_of(signature: Signature, eqn: Eqn, inputs: Arrays) -> list[int]:
    """The shape operand of a convolution, computed from the inputs; none if that fails."""
    shape, graph = eqn.inputs[0], signature.graph
    if not isinstance(shape, Var):
        return []
    args = [inputs.get(n) for n in signature.input_names]
    if any(a is None for a in args) or len(args) != len(graph.inputs):
        return []
    try:
        with jax.enable_x64(True):
            (shape_array,) = evaluate(Graph("shape", graph.inputs, live_eqns(graph, (shape,)), (shape,)), args)
    except (JfuseError, TypeError, ValueError, IndexError):  # what operators say against numbers that are no sizes
        return []
    return [int(n) for n in np.asarray(shape_array)]


def _places(tags: np.ndarray, shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, int] | None, ...]:
    """Where each element of an input stands. Rows and channels, which the file takes from elsewhere, are the ends."""
    for number, shape in enumerate(shapes):
        inner = [shape.index(t) if t in shape else None for t in tags.tolist()]
        read = [i for i, axis in enumerate(inner) if axis is not None]
        if not read:
            continue
        ends = dict.fromkeys(range(read[0]), 0) | dict.fromkeys(range(read[-1] + 1, len(inner)), len(shape) - 1)
        axes = [ends.get(i) if axis is None else axis for i, axis in enumerate(inner)]
        return tuple(None if axis is None else (number, axis) for axis in axes)
    return (None,) * len(tags)


def _wanted(signature: Signature, inputs: Arrays) -> list[list[int]]:
    """The shape of the result of each transposed convolution: of those that its operands allow the largest."""
    sizes: dict[str, Dim] = {}
    for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
        pairs = zip(var.type.shape, inputs[name].shape, strict=False)
        sizes.update({str(d): n for d, n in pairs if symbols_of(d) == {str(d)}})
    found = []
    for eqn in _transposed(signature.graph):
        weights, x = eqn.inputs[1:3]
        assert weights is not None, "no optional operand"
        assert x is not None, "no optional operand"
        image, kernel = ([substitute_dim(d, sizes) for d in a.type.shape] for a in (x, weights))
        if not all(map(is_known, (*image, *kernel))):
            break
        grown = _grown(list(map(int, image)), list(map(int, kernel)), eqn.params)
        found.append(grown)
        sizes.update({str(d): n for d, n in zip(eqn.outputs[0].type.shape, grown, strict=True) if not is_known(d)})
    return found


def _grown(shape: Sequence[int], weights: Sequence[int], params: Mapping[str, Any]) -> list[int]:
    rows, *inner, _ = shape
    axes = "dhw"[-len(inner) :]
    window, channels = (weights[1:3], weights[0]) if len(inner) == 2 else (weights[:3], weights[3])
    sizes = []
    for axis, size, extent in zip(axes, inner, window, strict=True):
        stride, dilation = params[f"stride_{axis}"], params.get(f"dilation_{axis}_factor", 1)
        reach = (extent - 1) * dilation + 1
        sizes.append(size * stride if params["padding"] == "SAME" else (size - 1) * stride + reach)
    return [rows, *sizes, channels]
