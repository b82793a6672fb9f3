"""Two recurrences over one sequence, one of them backwards, are one bidirectional op.

Neither of the two reads the other, so this is a rule on the graph and not on an equation. The op takes 0.9 to 1.02 of
the time of the two (LiteRT 2.3.0, one thread, six sizes of each kind, [t,b,i]), and needs no REVERSE_V2. [b,t,i] of
several sequences is slower than two transposes, for one op as for two (up to 9 times: 64 sequences, 8 units), so it
becomes [t,b,i]. Results that stand side by side stay a CONCATENATION: merge_outputs is no faster, and for LSTM [b,t,i]
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn, Graph, Op, Var
from jfuse.ir.trace import at_source, recording
from jfuse.ir.walk import producers, substitute
from jfuse.kernels.array import array
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.kernels.fused import bidirectional, lstm, rnn
from jfuse.lowering.peephole.layout.sink_transpose import SWAP, TransposedOperand

_MATRIX = 6  # a place with recurrent weights that every LSTM has
_OUTPUT = 8  # a place with weights of the output gate
_NORMS = slice(20, 24)


@dataclass(frozen=True)
class _Kind:
    """How two ops of one kind become one. weights, states: their places among the operands of one direction."""

    op: TflOp
    weights: slice
    states: slice
    interleaved: bool  # the states of a direction stand behind its weights, and not all at the end
    fits: Callable[[Eqn, Eqn], bool]

    def operands(self, forward: Eqn, backward: Eqn) -> list[Atom | None]:
        """The operands of the bidirectional op, without the sequence."""
        weights, states = (
            [list(e.inputs[place]) for e in (forward, backward)] for place in (self.weights, self.states)
        )
        if self.interleaved:
            return [*weights[0], *states[0], *weights[1], *states[1]]
        return [*weights[0], *weights[1], *states[0], *states[1]]


def _fits_lstm(forward: Eqn, backward: Eqn) -> bool:
    """The bidirectional op has matrices only, no layer norm, and one size for both directions."""
    weights = [e.inputs[_MATRIX] for e in (forward, backward)]
    shapes = [w.type.shape for w in weights if w is not None]
    sizes_agree = len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) == 2
    sizes_agree = sizes_agree and all(same(d, e) is True for d, e in zip(*shapes, strict=True))
    return sizes_agree and all(norm is None for e in (forward, backward) for norm in e.inputs[_NORMS])


def _fits_rnn(forward: Eqn, backward: Eqn) -> bool:
    return True


_KINDS: Mapping[Op, _Kind] = {
    lstm.unidirectional_sequence_lstm: _Kind(
        bidirectional.bidirectional_sequence_lstm, slice(1, 18), slice(18, 20), False, _fits_lstm
    ),
    rnn.unidirectional_sequence_rnn: _Kind(
        bidirectional.bidirectional_sequence_rnn, slice(1, 4), slice(4, 5), True, _fits_rnn
    ),
}


@dataclass(frozen=True)
class _Reading:
    """How a recurrence reads its sequence: the tensor, its permutation, and the axes that are reversed."""

    base: Var
    perm: tuple[int, ...]
    backwards: frozenset[int]
    axis: int

    def is_opposite(self, other: _Reading) -> bool:
        """Whether both read the same sequence, from opposite ends."""
        same_sequence = (self.base, self.perm, self.axis) == (other.base, other.perm, other.axis)
        return same_sequence and self.backwards ^ other.backwards == {self.axis}


def pair_directions(graph: Graph, rounds_weights: Callable[[Eqn], bool] = lambda eqn: False) -> Graph:
    """The graph with each pair of opposite recurrences over one sequence as one op; the same object without any.

    rounds_weights: whether the weights of an equation will be in few bits.
    """
    while (pair := _first_pair(graph, rounds_weights)) is not None:
        paired = _paired(graph, *pair)
        if paired is None:
            break
        graph = paired
    return graph


def _first_pair(graph: Graph, rounds_weights: Callable[[Eqn], bool]) -> tuple[Eqn, Eqn] | None:
    """A forward and a backward recurrence that can be one op."""
    candidates = [e for e in graph.eqns if e.op in _KINDS and not (rounds_weights(e) and _is_wrong_in_few_bits(e))]
    if len(candidates) < 2:
        return None
    made_by = producers(graph)
    readings = [(eqn, reading) for eqn in candidates if (reading := _reading(eqn, made_by)) is not None]
    for i, (eqn, reading) in enumerate(readings):
        for other, opposite in readings[i + 1 :]:
            if reading.is_opposite(opposite) and _fit(graph, eqn, other):
                return (other, eqn) if reading.axis in reading.backwards else (eqn, other)
    return None


def _is_wrong_in_few_bits(eqn: Eqn) -> bool:
    """Whether the op of both directions would be BIDIRECTIONAL_SEQUENCE_RNN with the steps first.

    With weights of 8 bits it starts from the states that it ends with (LiteRT 2.3.0).
    """
    x = eqn.inputs[0]
    is_single = x is not None and same(x.type.shape[0], 1) is True
    is_rnn = _KINDS[eqn.op].op is bidirectional.bidirectional_sequence_rnn
    return is_rnn and (bool(eqn.params["time_major"]) or not is_single)


def _fit(graph: Graph, first: Eqn, second: Eqn) -> bool:
    shared = first.op is second.op and dict(first.params) == dict(second.params)
    return shared and _KINDS[first.op].fits(first, second) and _between(graph, first, second) is not None


def _turned_axes(eqn: Eqn | None) -> Any:
    """The axes that a REVERSE_V2 turns round; None for other ops, and where data decides them."""
    is_reverse = eqn is not None and eqn.op is array.reverse_v2 and eqn.inputs[1] is not None
    return static_value(eqn.inputs[1]) if is_reverse and eqn is not None else None


def _reading(eqn: Eqn, made_by: Mapping[Var, Eqn]) -> _Reading | None:
    atom = eqn.inputs[0]
    perm: tuple[int, ...] = (0, 1, 2)
    backwards: frozenset[int] = frozenset()
    while True:
        before = made_by.get(atom) if isinstance(atom, Var) else None
        if (turned := _turned_axes(before)) is not None and before is not None:
            axes = axes_from_front(turned, 3)
            backwards ^= {axis for axis in axes}
            atom = before.inputs[0]
        elif (transposed := TransposedOperand.of(before)) is not None and len(transposed.perm) == 3:
            # From here on axes are those of the tensor that was transposed.
            atom = transposed.x
            perm = tuple(transposed.perm[a] for a in perm)
            backwards = frozenset(transposed.perm[a] for a in backwards)
        else:
            break
    time = perm[0 if eqn.params["time_major"] else 1]
    return _Reading(atom, perm, backwards, time) if isinstance(atom, Var) else None


def _between(graph: Graph, first: Eqn, second: Eqn) -> set[Eqn] | None:
    """Collect the equations that `second` needs after `first`; None where one reads `first` or has an effect."""
    start, end = graph.eqns.index(first), graph.eqns.index(second)
    needed = {a for a in second.inputs if isinstance(a, Var)}
    between = set()
    for eqn in reversed(graph.eqns[start + 1 : end]):
        if needed.intersection(eqn.outputs):
            if eqn.effects:
                return None
            between.add(eqn)
            needed.update(a for a in eqn.inputs if isinstance(a, Var))
    return None if needed.intersection(first.outputs) else between


def _paired(graph: Graph, forward: Eqn, backward: Eqn) -> Graph | None:
    """The graph with both recurrences as one op at the place of the first."""
    first, second = sorted((forward, backward), key=graph.eqns.index)
    start, end = graph.eqns.index(first), graph.eqns.index(second)
    moved = _between(graph, first, second) or set()
    made = list(_recorded(forward, backward))
    if not made:
        return None
    middle = graph.eqns[start + 1 : end]
    eqns = (
        *graph.eqns[:start],
        *(e for e in middle if e in moved),
        *made,
        *(e for e in middle if e not in moved),
        *graph.eqns[end + 1 :],
    )
    return replace(graph, eqns=eqns)


def _recorded(forward: Eqn, backward: Eqn) -> Iterator[Eqn]:
    """The equations that give the results of both; none where their types are not surely the same."""
    x = forward.inputs[0]
    assert x is not None, "a recurrence has an input"
    kind = _KINDS[forward.op]
    operands = kind.operands(forward, backward)
    with recording() as trace, at_source(forward.source):
        results = _results(kind, forward, x, operands)
        if trace.sizes:
            return
    old = (*forward.outputs, *backward.outputs)
    if any(o.type != n.type for o, n in zip(old, results, strict=True)):
        return
    renamed = dict(zip(results, old, strict=True))
    for eqn in trace.eqns:
        outputs = tuple(renamed.get(out, out) for out in eqn.outputs)
        yield replace(substitute(eqn, renamed), outputs=outputs)


def _results(kind: _Kind, forward: Eqn, x: Atom, operands: Sequence[Any]) -> list[Var]:
    """Record the op of both recurrences: y and states forward, then backward, first step first."""
    time_major = forward.params["time_major"]
    turned = not time_major and same(x.type.shape[0], 1) is not True
    swap = np.array(SWAP, np.int32)
    options = {name: forward.params[name] for name in kind.op.options if name in forward.params}
    read = array.transpose(x, swap) if turned else x
    y, z, *states = kind.op(read, *operands, **{**options, "time_major": time_major or turned})
    y, z = (array.transpose(v, swap) if turned else v for v in (y, z))
    z = array.reverse_v2(z, np.array([0 if time_major else 1], np.int32))
    half = len(states) // 2
    return [y, *states[:half], z, *states[half:]]
