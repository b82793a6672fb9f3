"""Single steps of a recurrence, whose states are inputs and results of the graph, as loops of one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import same
from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.trace import at_source, recording
from jfuse.ir.walk import is_same_type, live_eqns, producers, substitute_graph
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.lowering.recover.algebra.forms import Dependence
from jfuse.passes.simplify.dce import eliminate_dead_code

Read = Callable[[Eqn], Sequence[Any] | None]
"""Records the replacement of a scan in the active trace, and returns its results; None where it is no recurrence."""

_MOST_STATES = 2  # of one cell
_MOST = 12  # inputs and results that may be states
_MOST_TRIED = 64
_MOST_OUTPUTS = 16
_LARGEST = 400  # equations of a step


def recover_single_steps(graph: Graph, read: Read) -> Graph:
    """Replace the steps that lead from inputs to results of their type, as far as `read` takes them for a recurrence.

    Values in between stay where something else reads them.
    """
    if any(eqn.effects for eqn in graph.eqns):
        return graph  # what is moved to the front could change the order in which states are read and written
    taken: set[Var] = set()
    for states in _candidates(graph):
        if taken & (states.keys() | set(states.values())):
            continue
        for output in (None, *_outputs(graph, states)):
            step = _SingleStep.of(graph, states, output)
            changed = None if step is None else step.replaced(graph, read)
            if changed is not None:
                graph = eliminate_dead_code(changed)
                taken |= states.keys() | set(states.values())
                break
    return graph


def _outputs(graph: Graph, states: Mapping[Var, Var]) -> list[Var]:
    """List candidates for the output of a cell whose only state is affine in itself (SVDF), the farthest first."""
    ((state, after), *others) = states.items()
    dependence = Dependence(graph)
    if others or state not in dependence.of(after):
        return []
    behind = _inputs_behind(graph)
    candidates = [o for e in graph.eqns for o in e.outputs if state in behind[o] and o is not after]
    rows = (o for o in candidates if o.type.dtype.is_float and o.type.rank == 2)
    return list(islice((o for o in rows if same(o.type.shape[0], state.type.shape[0]) is True), _MOST_OUTPUTS))[::-1]


def _candidates(graph: Graph) -> Iterator[dict[Var, Var]]:
    """States that may be of one cell, inputs with the results that are their next values; cells of two states first."""
    behind = _inputs_behind(graph)
    inputs = [v for v in graph.inputs if v.type.dtype.is_float and v.type.rank > 0]
    results = [a for a in dict.fromkeys(graph.outputs) if isinstance(a, Var) and a not in inputs]
    inputs = [v for v in inputs if any(is_same_type(v.type, r.type) for r in results)][:_MOST]
    results = [r for r in results if any(is_same_type(v.type, r.type) for v in inputs)][:_MOST]
    tried = 0
    for count in range(_MOST_STATES, 0, -1):
        for states in combinations(inputs, count):
            for after in permutations(results, count):
                fits = all(is_same_type(s.type, a.type) for s, a in zip(states, after, strict=True))
                if fits and all(behind[a].issuperset(states) for a in after):
                    yield dict(zip(states, after, strict=True))
                    tried += 1
                    if tried == _MOST_TRIED:
                        return


def _inputs_behind(graph: Graph) -> dict[Var, frozenset[Var]]:
    """The inputs that each value is computed from in any way."""
    inputs_of: dict[Var, frozenset[Var]] = {v: frozenset([v]) for v in graph.inputs}
    for eqn in graph.eqns:
        behind = frozenset().union(*(inputs_of[a] for a in eqn.inputs if isinstance(a, Var)))
        inputs_of.update((out, behind) for out in eqn.outputs)
    return inputs_of


@dataclass(frozen=True)
class _SingleStep:
    """A step from `states` (input -> result) that reads `given` besides, and `others` by their shape.

    output: a value that is computed in the step as well.
    """

    output: Var | None
    states: Mapping[Var, Var]
    given: tuple[Var, ...]
    others: tuple[Var, ...]
    body: Graph

    @classmethod
    def of(cls, graph: Graph, states: Mapping[Var, Var], output: Var | None) -> _SingleStep | None:
        """The step; None where it is no short straight line over rows of one batch, or holds a recurrence."""
        after = [*states.values(), *([] if output is None else [output])]
        sources = _sources(graph, Dependence(graph), states, after)
        fresh = {v: Var(v.type) for v in sources}
        inside = substitute_graph(replace(graph, outputs=tuple(after)), fresh)
        eqns = live_eqns(inside, after)
        read = {a for e in eqns for a in e.inputs}
        others = tuple(v for v in graph.inputs if v in read and v not in states)
        batch = after[0].type.shape[0]
        alike = all(v.type.dtype.is_float and v.type.rank and same(v.type.shape[0], batch) is True for v in sources)
        straight = len(eqns) <= _LARGEST and not any(e.bodies or e.effects or e.op.updates for e in eqns)
        if not sources or not alike or not straight:
            return None
        inputs = (*others, *states, *(fresh[v] for v in sources))
        return cls(output, states, sources, others, Graph("step", inputs, eqns, tuple(after)))

    def replaced(self, graph: Graph, read: Read) -> Graph | None:
        """The graph with what `read` makes of a loop of this one step."""
        made = producers(graph)
        after = _results(self.body)
        before = live_eqns(replace(graph, outputs=self.given), self.given)
        with recording() as trace, at_source(made[after[0]].source):
            try:
                xs = [ops.expand_dims(v, np.int32(0)) for v in self.given]
                results = read(self._scan(xs))
                if results is not None and self.output is not None:
                    results = [*results[:-1], ops.squeeze(results[-1], squeeze_dims=(0,))]
            except JfuseError:
                return None
        if results is None:
            return None
        rest = [_without(e, after) for e in graph.eqns if e not in before]
        atoms = tuple(map(trace.atom, results))
        later = substitute_graph(replace(graph, eqns=tuple(rest)), dict(zip(after, atoms, strict=True)))
        return replace(later, eqns=(*before, *trace.eqns, *later.eqns))

    def _scan(self, xs: Sequence[Var]) -> Eqn:
        operands = (*self.others, *self.states, *xs)
        params = {"consts": len(self.others), "carries": len(self.states), "length": 1, "reverse": False}
        outputs = [Var(v.type) for v in self.states.values()]
        if self.output is not None:
            outputs.append(Var(replace(self.output.type, shape=(1, *self.output.type.shape))))
        return Eqn(scan, operands, tuple(outputs), params, self.body.eqns[-1].source, (self.body,))


def _results(body: Graph) -> list[Var]:
    """The results of a step, all of which are computed."""
    return [a for a in body.outputs if isinstance(a, Var)]


def _without(eqn: Eqn, replaced: Sequence[Var]) -> Eqn:
    """Give the equation new variables for results that are replaced."""
    if not any(out in replaced for out in eqn.outputs):
        return eqn
    return replace(eqn, outputs=tuple(Var(o.type) if o in replaced else o for o in eqn.outputs))


def _sources(graph: Graph, dependence: Dependence, states: Mapping[Var, Var], after: Sequence[Var]) -> tuple[Var, ...]:
    """List the step's inputs: values that the state-independent operands of the step depend on affinely."""
    moved: set[Var] = set(states)
    values: dict[Var, None] = {}
    live = live_eqns(graph, after)
    for eqn in live:
        if any(a in moved for a in eqn.inputs):
            moved.update(eqn.outputs)
    for eqn in live:
        if eqn.outputs[0] in moved:
            for atom in eqn.inputs:
                if isinstance(atom, Var) and atom not in moved and atom.type.dtype.is_float:
                    values.update(dict.fromkeys(dependence.of(atom)))
    return tuple(v for v in values if v not in states)
