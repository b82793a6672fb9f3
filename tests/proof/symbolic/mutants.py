"""Mutants of fused operators: each differs from its operator for some input, state or length.

They are made from the replacement of a pair by one change: to a constant, to an option, to which value goes where, or
to the order of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from tests.proof.symbolic.pairs import PAIRS

_ACTIVATIONS = ("TANH", "RELU", "RELU6", "RELU_N1_TO_1")
_LIMITS = (1000.0, 100.0, 10.0, 5.0, 3.0, 1.9999, 0.499)

Change = Callable[[np.ndarray], np.ndarray]


def _nudged(array: np.ndarray) -> np.ndarray:
    """One element a little larger."""
    changed = array.copy()
    changed.reshape(-1)[-1] += np.float32(1e-3)
    return changed


_CHANGES: dict[str, Change] = {
    "negated": lambda a: -a,
    "zeroed": lambda a: np.zeros_like(a),
    "nudged": _nudged,
    "rolled": lambda a: np.roll(a, 1, axis=0),
    "reversed": lambda a: np.ascontiguousarray(a[::-1]),
    "transposed": lambda a: np.ascontiguousarray(a.T) if a.ndim == 2 and a.shape[0] == a.shape[1] else a,
    "scaled": lambda a: a * np.float32(1.00001),
}


def mutants() -> Iterator[tuple[str, str]]:
    """The pair and the name of each mutant."""
    for pair in _MUTATED:
        yield from ((pair, name) for name in _by_name(pair))


def in_turn() -> Iterator[tuple[str, str]]:
    """Each mutant of an operator; changes that the plain LSTM has, too, only of one variant of it each, in turn."""
    plain = list(_by_name(_PLAIN))
    variants = [pair for pair in _MUTATED if pair.startswith(f"{_PLAIN}-")]
    with_change = {name: [pair for pair in variants if name in _by_name(pair)] for name in plain}
    chosen = {name: pairs[i % len(pairs)] for i, (name, pairs) in enumerate(with_change.items()) if pairs}
    yield from ((p, name) for p, name in mutants() if p not in variants or chosen.get(name, p) == p)


def mutant(pair: str, name: str) -> Graph:
    """The replacement of a pair with the change of that name."""
    return _by_name(pair)[name]


@cache
def _by_name(pair: str) -> dict[str, Graph]:
    return dict(_of(PAIRS[pair]().replacement))


_PLAIN = "lstm"
_MUTATED = (
    _PLAIN,
    "lstm-clipped",
    "lstm-coupled",
    "lstm-peepholes",
    "lstm-projected",
    "lstm-normed",
    "lstm-relu6",
    "rnn",
    "rnn-closed",
    "rnn-bidirectional",
    "svdf",
)


def _of(graph: Graph) -> Iterator[tuple[str, Graph]]:
    (eqn,) = graph.eqns
    yield from _with_other_constants(graph, eqn)
    yield from _with_other_options(graph, eqn)
    yield from _wired_otherwise(graph, eqn)
    yield from _at_other_steps(graph)
    yield from _late(graph)


def _with(graph: Graph, eqn: Eqn) -> Graph:
    return replace(graph, eqns=(eqn,))


def _with_other_constants(graph: Graph, eqn: Eqn) -> Iterator[tuple[str, Graph]]:
    places = [i for i, a in enumerate(eqn.inputs) if isinstance(a, Const) and a.array.dtype == np.float32]
    for place in places:
        array = eqn.inputs[place].array  # type: ignore[union-attr]
        for name, change in _CHANGES.items():
            changed = change(array)
            if not np.array_equal(changed, array):
                yield f"operand {place} {name}", _with(graph, _put(eqn, {place: changed}))
    for one, other in combinations(places, 2):
        a, b = (eqn.inputs[i].array for i in (one, other))  # type: ignore[union-attr]
        if a.shape == b.shape and not np.array_equal(a, b):
            yield f"operands {one} and {other} exchanged", _with(graph, _put(eqn, {one: b, other: a}))


def _put(eqn: Eqn, arrays: dict[int, np.ndarray]) -> Eqn:
    inputs = tuple(Const(arrays[i].astype(np.float32)) if i in arrays else a for i, a in enumerate(eqn.inputs))
    return replace(eqn, inputs=inputs)


def _with_other_options(graph: Graph, eqn: Eqn) -> Iterator[tuple[str, Graph]]:
    for activation in _ACTIVATIONS:
        if "fused_activation_function" in eqn.params and eqn.params["fused_activation_function"] != activation:
            params = {**eqn.params, "fused_activation_function": activation}
            yield f"activation {activation}", _with(graph, replace(eqn, params=params))
    for option in ("cell_clip", "proj_clip"):
        for limit in _LIMITS if option == "cell_clip" or _is_projected(eqn) else ():
            if option in eqn.params:
                yield f"{option} {limit:g}", _with(graph, replace(eqn, params={**eqn.params, option: limit}))
        if eqn.params.get(option):
            yield f"no {option}", _with(graph, replace(eqn, params={**eqn.params, option: 0.0}))


def _is_projected(eqn: Eqn) -> bool:
    return "proj_clip" in eqn.params and eqn.inputs[16] is not None


def _wired_otherwise(graph: Graph, eqn: Eqn) -> Iterator[tuple[str, Graph]]:
    for one, other in combinations(range(len(graph.inputs)), 2):
        a, b = graph.inputs[one], graph.inputs[other]
        if a.type == b.type:
            exchange = {a: b, b: a}
            inputs = tuple(exchange.get(i, i) for i in eqn.inputs)  # type: ignore[arg-type]
            yield f"inputs {one} and {other} exchanged", _with(graph, replace(eqn, inputs=inputs))
    for one, other in combinations(range(len(graph.outputs)), 2):
        if graph.outputs[one].type == graph.outputs[other].type:
            outputs = list(graph.outputs)
            outputs[one], outputs[other] = outputs[other], outputs[one]
            yield f"results {one} and {other} exchanged", replace(graph, outputs=tuple(outputs))


def _around(graph: Graph, before: Callable[[Any], Any], after: Callable[[Any], Any]) -> Graph:
    """The graph with each operand and each result changed, where the change is for their shape."""
    return trace_graph(
        lambda *args: tuple(map(after, evaluate(graph, tuple(map(before, args))))), [v.type for v in graph.inputs]
    )


def _on_rank(rank: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: change(x) if x.ndim == rank else x


def _at_other_steps(graph: Graph) -> Iterator[tuple[str, Graph]]:
    ranks = {v.type.rank for v in graph.inputs}
    minus = ops.neg
    for rank in sorted(ranks):
        yield f"operands of rank {rank} negated", _around(graph, _on_rank(rank, minus), lambda y: y)
        yield f"operands of rank {rank} and rows turned", _around(graph, _on_rank(rank, _turned(-2)), lambda y: y)
        yield f"operands of rank {rank} and columns turned", _around(graph, _on_rank(rank, _turned(-1)), lambda y: y)
        yield f"operands of rank {rank} clipped", _around(graph, _on_rank(rank, _clipped(1000.0)), lambda y: y)
        yield f"operands of rank {rank} rounded", _around(graph, _on_rank(rank, _coarse), lambda y: y)
    for rank in sorted({a.type.rank for a in graph.outputs}):
        yield f"results of rank {rank} negated", _around(graph, lambda x: x, _on_rank(rank, minus))
        yield f"results of rank {rank} and rows turned", _around(graph, lambda x: x, _on_rank(rank, _turned(-2)))
        yield f"results of rank {rank} and columns turned", _around(graph, lambda x: x, _on_rank(rank, _turned(-1)))
        yield f"results of rank {rank} clipped", _around(graph, lambda x: x, _on_rank(rank, _clipped(0.25)))
    if 3 in ranks:
        yield "steps turned around", _around(graph, _on_rank(3, _turned(0)), lambda y: y)
        yield "steps of results turned around", _around(graph, lambda x: x, _on_rank(3, _turned(0)))
        both = _around(graph, _on_rank(3, _turned(0)), _on_rank(3, _turned(0)))
        yield "steps turned around before and after", both


def _late(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """What differs after many steps, in many rows, or where a value is no number."""
    for rank in sorted({a.type.rank for a in graph.outputs}):
        yield f"late: rank {rank} without NaN", _around(graph, lambda x: x, _on_rank(rank, _without_nan))
        sizes = next(a.type.shape for a in graph.outputs if a.type.rank == rank)
        for axis, limit in product(range(rank - 1), (20.0, 100.0, 300.0)):
            if not is_known(sizes[axis]):
                change = _on_rank(rank, _from_place(axis, limit))
                yield f"late: rank {rank} from {limit:g} on along {axis}", _around(graph, lambda x: x, change)


def _without_nan(x: Any) -> Any:
    return ops.select_v2(ops.equal(x, x), x, ops.zeros_like(x))


def _from_place(axis: int, limit: float) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        ones = ops.add(ops.mul(x, np.float32(0)), np.float32(1))
        is_late = ops.greater(ops.cumsum(ones, np.int32(axis)), np.float32(limit))
        return ops.select_v2(is_late, ops.mul(x, np.float32(0.5)), x)

    return change


def _turned(axis: int) -> Callable[[Any], Any]:
    return lambda x: ops.reverse_v2(x, np.array([axis % x.ndim], np.int32))


def _clipped(limit: float) -> Callable[[Any], Any]:
    return lambda x: ops.minimum(x, np.float32(limit))


def _coarse(x: Any) -> Any:
    return ops.cast(ops.cast(x, out_data_type=DType.f16), out_data_type=DType.f32)
