"""Cost of a program: products, bytes and measured time by operator, type and layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from jfuse.base.errors import JfuseError, need_choice
from jfuse.base.json_form import JsonFormat
from jfuse.ir.dims import is_known, substitute_dim, symbols_in
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Signature, Var
from jfuse.ir.types import TensorType
from jfuse.kernels.control import if_, scan, while_
from jfuse.kernels.core.products import products_of
from jfuse.passes.options import COST_ORDERS, CostOrder
from jfuse.passes.states.layers import layer_of
from jfuse.programs.operator_times import operator_times
from jfuse.tflite.names import equation_name
from jfuse.tflite.tensor_data import packed_size


@dataclass(frozen=True)
class OperatorCost:
    """One operator, or several together.   name: of its first result; layer: the scope of the source around it

    macs: products that are added up, those of bodies included. weight_bytes: of the constants that it reads, as the
    file holds them; activation_bytes: of its results. us: the median of measured calls, None where none was measured,
    with the reason.
    """

    op: str
    name: str
    layer: str
    macs: int
    weight_bytes: int
    activation_bytes: int
    us: float | None = None
    reason: str = ""
    count: int = 1

    def plus(self, other: OperatorCost) -> OperatorCost:
        """Both together."""
        times = [us for us in (self.us, other.us) if us is not None]
        return replace(
            self,
            macs=self.macs + other.macs,
            weight_bytes=self.weight_bytes + other.weight_bytes,
            activation_bytes=self.activation_bytes + other.activation_bytes,
            us=sum(times) if times else None,
            count=self.count + other.count,
        )


@dataclass(frozen=True)
class ProgramCost:
    """Cost of one call of a signature.   sizes: the numbers assumed for its open sizes

    weight_bytes: of all constants, each once. arena_bytes: of the values that live at once, an estimate of LiteRT's
    arena. assumed_one_turn: the loops whose turns are not known, which count once.
    """

    signature: str
    sizes: Mapping[str, int]
    operators: tuple[OperatorCost, ...]
    weight_bytes: int
    arena_bytes: int
    assumed_one_turn: tuple[str, ...] = ()
    json_also: ClassVar = {name: name for name in ("macs", "us", "by_type", "by_layer")}

    @property
    def macs(self) -> int:
        """All products that are added up."""
        return sum(row.macs for row in self.operators)

    @property
    def us(self) -> float | None:
        """The sum of the measured times, each operator run alone; None where none was measured."""
        times = [row.us for row in self.operators if row.us is not None]
        return sum(times) if times else None

    def by_type(self) -> tuple[OperatorCost, ...]:
        """The totals of each kind of operator."""
        return _totals((replace(row, name="", layer="") for row in self.operators), lambda row: row.op)

    def by_layer(self) -> tuple[OperatorCost, ...]:
        """The totals of each layer or scope of the source; its name is `layer`."""
        return _totals((replace(row, name="", op="") for row in self.operators), lambda row: row.layer)

    def sorted(self, by: CostOrder = "macs") -> tuple[OperatorCost, ...]:
        """The operators with the most expensive first, or as they stand in the graph."""
        return in_order(self.operators, by)

    def lines(self) -> Iterator[str]:
        """The totals, a line for each operator, and the assumptions."""
        sizes = "".join(f", {name} = {size}" for name, size in self.sizes.items())
        time = "" if self.us is None else f", {self.us:,.1f} us in operators run alone"
        yield (
            f"{self.signature}{sizes}: {self.macs:,} MACs, {self.weight_bytes:,} bytes of weights, "
            f"an arena of about {self.arena_bytes:,} bytes{time}"
        )
        for row in self.operators:
            measured = "" if row.us is None else f"  {row.us:10,.1f} us"
            numbers = f"{row.macs:>14,} {row.weight_bytes:>12,} {row.activation_bytes:>12,}"
            yield f"  {row.op:<28} {numbers}{measured}  {row.name}"
        if self.assumed_one_turn:
            yield f"  one turn is counted of loops of unknown length: {', '.join(self.assumed_one_turn)}"

    def to_json(self) -> dict[str, Any]:
        """Everything, as dicts, lists, texts and numbers."""
        return FORMAT.content(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True)
class FileCost:
    """Costs of all signatures of a file."""

    signatures: tuple[ProgramCost, ...]


FORMAT = JsonFormat("jfuse.cost", 1, ProgramCost | FileCost)


def in_order(rows: Sequence[OperatorCost], by: CostOrder) -> tuple[OperatorCost, ...]:
    """Rows with the most expensive first, or as they are."""
    need_choice("by", by, COST_ORDERS)
    keys = {
        "macs": lambda row: row.macs,
        "weights": lambda row: row.weight_bytes,
        "activations": lambda row: row.activation_bytes,
        "time": lambda row: row.us or 0.0,
    }
    return tuple(rows) if by == "graph" else tuple(sorted(rows, key=keys[by], reverse=True))


def _totals(rows: Any, key: Any) -> tuple[OperatorCost, ...]:
    totals: dict[str, OperatorCost] = {}
    for row in rows:
        totals[key(row)] = totals[key(row)].plus(row) if key(row) in totals else row
    return in_order(tuple(totals.values()), "macs")


def cost_of(
    signature: Signature,
    sizes: Mapping[str, int] | None = None,
    data: bytes | None = None,
    on_operator: Callable[[int, int], None] = lambda done, total: None,
) -> ProgramCost:
    """Compute the cost of one call of a signature.

    sizes: for open sizes, by name; 1 for others. data: the file of the program, whose operators are measured; None to
    measure nothing. on_operator: called with the number of measured operators, and of all.
    """
    graph = signature.graph
    named = {name: (sizes or {}).get(name, 1) for name in sorted(symbols_in(tuple(v.type.shape for v in graph.inputs)))}
    unknown = sorted((sizes or {}).keys() - named.keys())
    if unknown:
        names = ", ".join(map(repr, named)) or "none, as all sizes are known"
        raise JfuseError("sizes= names no open size", expected=names, found=", ".join(map(repr, unknown)))
    counting = _Counting(named)
    rows = [counting.row(eqn) for eqn in graph.eqns]
    if data is not None:
        types = [counting.known(var.type) for var in graph.inputs]
        inputs = {
            name: np.zeros([int(d) for d in t.shape], t.dtype.numpy)
            for name, t in zip(signature.input_names, types, strict=False)
        }
        times = operator_times(data, signature.key, inputs, on_operator=on_operator)
        rows = [replace(row, us=t.us, reason=t.reason) for row, t in zip(rows, times, strict=True)]
    atoms = [a for eqn in graph.all_eqns() for a in eqn.inputs if isinstance(a, Const)]
    weights = sum({c.digest: _stored(c) for c in atoms}.values())
    return ProgramCost(signature.key, named, tuple(rows), weights, counting.arena(graph), tuple(counting.unknown))


class _Counting:
    """The costs of equations for some sizes; data-dependent sizes count as 1."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self.unknown: list[str] = []

    def known(self, of: TensorType) -> TensorType:
        """A type with a number for each size."""
        return replace(of, shape=tuple(map(self._size, of.shape)))

    def _size(self, dim: Any) -> int:
        found = substitute_dim(dim, self._sizes)
        return int(found) if is_known(found) else int(substitute_dim(found, dict.fromkeys(symbols_in((found,)), 1)))

    def row(self, eqn: Eqn) -> OperatorCost:
        """One equation, with its bodies."""
        consts = {id(a.array): _stored(a) for e in _all(eqn) for a in e.inputs if isinstance(a, Const)}
        return OperatorCost(
            str(eqn.op.builtin or eqn.op.name),
            equation_name(eqn),
            layer_of(eqn.source, ()).removeprefix("scope ").strip("'"),
            self._products(eqn),
            sum(consts.values()),
            sum(self._bytes(v) for v in eqn.outputs),
        )

    def _products(self, eqn: Eqn) -> int:
        inputs = [None if a is None else self.known(a.type) for a in eqn.inputs]
        own = 0 if eqn.bodies else products_of(eqn, inputs, [self.known(v.type) for v in eqn.outputs])
        bodies = [sum(map(self._products, body.eqns)) for body in eqn.bodies]
        if eqn.op is scan:
            return own + self._size(eqn.params["length"]) * sum(bodies)
        if eqn.op is while_ and any(bodies):
            self.unknown.append(equation_name(eqn))
        return own + (max(bodies, default=0) if eqn.op is if_ else sum(bodies))

    def _bytes(self, var: Var) -> int:
        known = self.known(var.type)
        return int(known.size) * known.dtype.numpy.itemsize

    def arena(self, graph: Graph) -> int:
        """Of a graph, and of the bodies of its equations, which each have one of their own."""
        own = {v: self._bytes(v) for v in (*graph.inputs, *(v for e in graph.eqns for v in e.outputs))}
        return arena_bytes(graph, own) + sum(self.arena(body) for eqn in graph.eqns for body in eqn.bodies)


def _all(eqn: Eqn) -> Iterator[Eqn]:
    yield eqn
    for body in eqn.bodies:
        yield from body.all_eqns()


def _stored(const: Const) -> int:
    return packed_size(const.stored, const.type.dtype)


# How much memory the values of a graph take, where each has a place as long as something reads it.

_ALIGNMENT = 64  # tflite/util.h, kDefaultTensorAlignment


def arena_bytes(graph: Graph, sizes: Mapping[Var, int]) -> int:
    """The bytes of an arena for the values of a graph, planned greedily by size as LiteRT's planner does.

    sizes: the bytes of each value; of those in bodies each graph has its own arena. Operators that work in place or
    need memory of their own are not known here, so that the real arena is a little smaller or larger.
    Algorithm: greedy by size (Pisarchyk and Lee, 2020). Invariant: no two values that live at once overlap.
    """
    spans = _spans(graph)
    placed: list[tuple[int, int, Var]] = []  # begin, end, value
    for var in sorted(spans, key=lambda v: (-sizes[v], spans[v])):
        first, last = spans[var]
        taken = sorted((b, e) for b, e, other in placed if spans[other][0] <= last and first <= spans[other][1])
        place = 0
        for begin, end in taken:
            if place + sizes[var] <= begin:
                break
            place = max(place, end)
        placed.append((place, place + _aligned(sizes[var]), var))
    return max((end for _, end, _ in placed), default=0)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _spans(graph: Graph) -> dict[Var, tuple[int, int]]:
    """When each value begins, and when it is read last: numbers of equations; results live to the end."""
    end = len(graph.eqns)
    first = {var: 0 for var in graph.inputs} | {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
    last = dict(first)
    reads: Sequence[tuple[int, Atom | None]] = [
        *((i, atom) for i, eqn in enumerate(graph.eqns) for atom in eqn.inputs),
        *((end, atom) for atom in (*graph.outputs, *graph.inputs)),
    ]
    for i, atom in reads:
        if isinstance(atom, Var):
            last[atom] = i
    return {var: (begin, last[var]) for var, begin in first.items()}
