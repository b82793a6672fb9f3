"""The rank of an input that the source leaves open, from the nodes that read it: a MatMul takes matrices only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jfuse.tf_nodes.attributes import (
    Library,
    data_inputs,
    decode_attr,
    decode_shape,
    operands_before_arguments,
    split_reference,
)

_RANKS: Sequence[tuple[str, Mapping[int, int]]] = (
    ("MatMul SparseTensorDenseMatMul", {0: 2, 1: 2}),
    ("Conv2D DepthwiseConv2dNative Dilation2D", {0: 4, 1: 4}),
    ("MaxPool AvgPool LRN DepthToSpace SpaceToDepth CropAndResize", {0: 4}),
    ("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea", {0: 4, 1: 1}),
    ("Conv3D", {0: 5, 1: 5}),
    ("MaxPool3D AvgPool3D", {0: 5}),
    ("Conv2DBackpropInput", {0: 1, 1: 4, 2: 4}),
    ("NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5", {0: 2, 1: 1, 2: 0}),
    ("Range LinSpace", {0: 0, 1: 0, 2: 0}),
    ("RandomUniform RandomStandardNormal TruncatedNormal", {0: 1}),
    ("StatelessRandomUniform StatelessRandomNormal StatelessRandomUniformV2", {0: 1, 1: 1}),
    ("StatelessRandomNormalV2", {0: 1, 1: 1}),
    ("Reshape Tile BroadcastTo Transpose", {1: 1}),
    ("Fill", {0: 1, 1: 0}),
    ("OneHot", {1: 0, 2: 0, 3: 0}),
    ("TopKV2 Multinomial Cumsum Cumprod ExpandDims ArgMax ArgMin", {1: 0}),
    ("MatrixBandPart", {1: 0, 2: 0}),
    ("Pad", {1: 2}),
    ("PadV2", {1: 2, 2: 0}),
    ("MirrorPad", {1: 2}),
    ("Slice", {1: 1, 2: 1}),
    ("BiasAdd", {1: 1}),
    ("SparseToDense", {1: 1}),
    ("ReverseSequence", {1: 1}),
    ("SegmentSum", {1: 1}),
    ("Bincount", {1: 0}),
    ("TensorListReserve", {1: 0}),
    ("RFFT RFFT2D", {1: 1}),
)
"""The ranks that ops take, by the place of the operand."""
_BY_PLACE = {op: ranks for ops, ranks in _RANKS for op in ops.split()}
_LEAST: Mapping[str, Mapping[int, int]] = {
    "MatrixBandPart": {0: 2},
    **{f"Matrix{name}": {0: 2} for name in ("DiagPart", "DiagPartV2", "DiagPartV3", "Inverse", "Determinant")},
    **{op: {0: 2, 1: 2} for op in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")},
    **{op: {0: 2} for op in "Cholesky RFFT2D FFT2D".split()},
}
"""The least ranks that ops take which take several, by the place of the operand; of all others it is 1."""
_SAME = frozenset(
    "Identity Cast Relu Relu6 Elu Selu LeakyRelu Sigmoid Tanh Softplus Softsign Exp Log Log1p Expm1 Neg Abs Sign "
    "Square Sqrt Rsqrt Sin Cos Tan Erf Floor Ceil Round Rint Reciprocal Softmax LogSoftmax ZerosLike OnesLike "
    "StopGradient PreventGradient CheckNumerics IsNan IsInf IsFinite LogicalNot Cumsum ReverseV2 Roll".split()
)
"""Ops whose result has the rank of their first operand."""
_MORE: Mapping[str, int] = {"Pack": 1, "ExpandDims": 1}
"""Ops whose result has more axes than their first operand, by how many."""
_BOTH = frozenset({"BiasAdd", "Transpose", "Pad", "PadV2", "MirrorPad", "Slice", "Tile"})
"""As `_SAME`, which ask something of other operands besides."""


@dataclass
class InputRanks:
    """Infer the ranks of inputs from the nodes of a graph and of the functions that it calls."""

    library: Library
    by_place: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: _BY_PLACE)
    _known: dict[tuple[str, int], frozenset[int]] = field(default_factory=dict)

    def of(self, nodes: Sequence[Any], name: str) -> frozenset[int]:
        """The ranks that the readers of an input ask for, each its own: empty where none says anything."""
        by_name = {n.name: n for n in nodes}
        readers: defaultdict[str, list[tuple[Any, int]]] = defaultdict(list)
        for node in nodes:
            for position, reference in enumerate(data_inputs(node)):
                readers[split_reference(reference)[0]].append((node, position))
        ranks: set[int] = set()
        seen, waiting = {name}, [(name, 0)]  # with how many axes more than the input has
        while waiting:
            value, more = waiting.pop()
            for node, position in readers[value]:
                ranks.update(rank - more for rank in self._asked(node, position, by_name))
                passes = position == 0 and (node.op in _SAME or node.op in _BOTH)
                grows = node.op in _MORE and (position == 0 or node.op == "Pack")
                if (passes or grows) and node.name not in seen:
                    seen.add(node.name)
                    waiting.append((node.name, more + _MORE.get(node.op, 0)))
        return frozenset(ranks)

    def _asked(self, node: Any, place: int, by_name: Mapping[str, Any]) -> Iterator[int]:
        rank = self.by_place.get(node.op, {}).get(place)
        if rank is not None:
            yield rank
        by_others = _BY_OTHERS.get(node.op)
        if by_others is not None:
            yield from by_others(node, place, [_value(by_name, r) for r in data_inputs(node)])
        for function, argument in self._called(node, place):
            yield from self._of_argument(function, argument)

    def _called(self, node: Any, place: int) -> Iterator[tuple[str, int]]:
        """The functions that a node hands its operand on to, with the number of the argument."""
        if node.op in self.library.functions:
            yield node.op, place
        offset = operands_before_arguments(node.op)
        for key in _FUNCTIONS.get(node.op, ()):
            if place >= offset:
                yield node.attr[key].func.name, place - offset

    def _of_argument(self, function: str, argument: int) -> frozenset[int]:
        key = function, argument
        if key not in self._known:
            self._known[key] = frozenset()  # of a function that calls itself
            body = self.library.functions[function]
            self._known[key] = self.of(body.node_def, body.signature.input_arg[argument].name)
        return self._known[key]


def least_rank(library: Library, nodes: Sequence[Any], name: str) -> int:
    """The least rank, from 1 on, that all readers of an input take, where they take several."""
    return max(InputRanks(library, _LEAST).of(nodes, name), default=1)


_FUNCTIONS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), ("f",)),
    **dict.fromkeys(("While", "StatelessWhile"), ("cond", "body")),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
    "For": ("body",),
}
"""The functions of a node, by attribute."""


def _value(by_name: Mapping[str, Any], reference: str) -> np.ndarray | None:
    """The array of a constant."""
    node = by_name.get(split_reference(reference)[0])
    return decode_attr(node.attr["value"]) if node is not None and node.op == "Const" else None


_Told = Callable[[Any, int, Sequence[np.ndarray | None]], Iterable[int]]


def _entries(node: Any, place: int, values: Sequence[np.ndarray | None]) -> Iterator[int]:
    """One entry of the second operand for each axis of the first."""
    if place == 0 and values[1] is not None:
        yield len(values[1])


def _joined(node: Any, place: int, values: Sequence[np.ndarray | None]) -> Iterator[int]:
    """All that is joined has one rank."""
    if place < len(values) - 1:
        yield from {v.ndim for v in values[:-1] if v is not None}


def _packed(node: Any, place: int, values: Sequence[np.ndarray | None]) -> Iterator[int]:
    """All that is packed has one rank."""
    yield from {v.ndim for v in values if v is not None}


def _labels(node: Any, place: int, values: Sequence[np.ndarray | None]) -> Iterator[int]:
    """The letters of an operand of Einsum."""
    labels = decode_attr(node.attr["equation"]).split("->")[0].split(",")[place]
    if "..." not in labels:
        yield len(labels)


def _stated(node: Any, place: int, values: Sequence[np.ndarray | None]) -> Iterator[int]:
    """EnsureShape says the shape."""
    shape = decode_shape(node.attr["shape"].shape)
    if shape is not None:
        yield len(shape)


_BY_OTHERS: Mapping[str, _Told] = {
    **dict.fromkeys(("Transpose", "Pad", "PadV2", "MirrorPad", "Slice", "Tile"), _entries),
    "ConcatV2": _joined,
    "Pack": _packed,
    "Einsum": _labels,
    "EnsureShape": _stated,
}
"""Ranks that follow from attributes, or from constants among the other operands."""
