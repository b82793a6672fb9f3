"""Partitions a graph between XLA and LiteRT: groups of equations that LiteRT computes become `Hosted` equations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import jfuse.kernels.integer.bodies  # noqa: F401 (registers them)
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.dims import symbols_of
from jfuse.ir.graph import Atom, Eqn, Graph, Op, Params, Program, Var
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns, by_bodies, users
from jfuse.kernels.core.integer_types import IntegerTypes, Rounding, is_quantized
from jfuse.kernels.core.op import depends_on_data
from jfuse.opaque_ops.custom_options import LITERT_OPS
from jfuse.opaque_ops.state_operands import keeps_state, state_operands
from jfuse.running.litert_op import Hosted
from jfuse.tflite.schema import BUILTIN_CODES

Integers: TypeAlias = Rounding | Literal["own"] | None
"""Who computes quantized integers: integer bodies in a rounding; LiteRT in host callbacks, where it is None."""


def hosted(graph: Graph, *, singly: bool = False, limits: Limits = DEFAULT_LIMITS, integers: Integers = "own") -> Graph:
    """The graph as it runs on arrays: what has an integer body with its scales, what has no kernel as `Hosted`.

    Neighbours of the latter, which LiteRT computes, become one, unless `singly`: then each equation stays one, at its
    place, with its results. integers: who computes quantized ones; "own" for what `integers_of` the graph says.
    """
    return _Rewrite(singly, limits, integers_of([graph]) if integers == "own" else integers).graph(graph, frozenset())


def integers_of(graphs: Iterable[Graph]) -> Rounding | None:
    """The rounding of integer bodies; None where LiteRT computes quantized integers.

    That of LiteRT's default path, else that of tflite-micro, where one has bodies for all: where a host callback
    computes a part, XNNPACK, which rounds otherwise, takes no part.
    """
    known = list(graphs)
    roundings: tuple[Rounding, ...] = ("xnnpack", "tflm")
    return next((r for r in roundings if without_body(known, r) is None), None)


def without_body(graphs: Iterable[Graph], rounding: Rounding) -> Eqn | None:
    """The first equation that LiteRT would compute, as no body of a rounding does; None where there is none.

    Custom operators do not count: they run in LiteRT with its default delegates, which have the kernels of some.
    """
    eqns = (eqn for graph in graphs for eqn in all_eqns(graph) if eqn.op.code is None)
    return next((eqn for eqn in eqns if needs_litert(eqn, rounding)), None)


def is_unknown(eqn: Eqn) -> bool:
    """Whether nothing here computes an equation, or one in its bodies: a custom operator that LiteRT does not know."""
    code = eqn.op.code
    if code is not None and code not in LITERT_OPS and not eqn.op.is_computed_here:
        return True
    return any(map(is_unknown, (e for body in eqn.bodies for e in body.eqns)))


def is_changed(eqn: Eqn) -> bool:
    """Whether `hosted` changes an equation: on arrays, which carry no scale, it would not compute what is meant."""
    inner = (e for body in eqn.bodies for e in all_eqns(body))
    return any(not _has_kernel(e) or _needs_scales(e) for e in (eqn, *inner))


def hosted_counts(graph: Graph) -> Counter[str]:
    """How many equations of each op LiteRT computes, as there is no kernel for them, of a graph that `hosted` gave."""
    inside = (eqn.op.graph for eqn in all_eqns(graph) if isinstance(eqn.op, Hosted))
    return Counter(eqn.op.name for inner in inside for eqn in all_eqns(inner) if not _has_kernel(eqn, None))


def needs_litert(
    eqn: Eqn, integers: Rounding | None = "xnnpack", known: MutableMapping[Graph, int] | None = None
) -> bool:
    """Whether LiteRT computes the equation: there is no kernel for it, or for one in a loop or branch of a file.

    Such a loop runs whole in LiteRT. Split, its turns would go back and forth, and the rounding of each turn would add
    up to another result. integers: who computes quantized ones. known: a cache over bodies, whether all is computed
    here.
    """
    if not eqn.bodies or eqn.op.is_kept:
        return not _has_kernel(eqn, integers)
    if eqn.op.builtin not in BUILTIN_CODES:
        return False

    def is_computed(graph: Graph, bodies: Sequence[int]) -> bool:
        return all(bodies) and all(_has_kernel(e, integers) for e in graph.eqns)

    known = {} if known is None else known
    return not all(by_bodies(body, is_computed, known) for body in eqn.bodies)


def _has_kernel(eqn: Eqn, integers: Rounding | None = "xnnpack") -> bool:
    """Whether what computes the equation is here: not for what the runtime alone has."""
    if eqn.op.code is not None:
        return eqn.op.is_computed_here
    if not eqn.op.is_kernel:
        return not eqn.op.is_kept
    if not _needs_scales(eqn):
        return True
    return has_integer_body(eqn, integers) and (integers is not None or eqn.op.scales == "out_of")


def _needs_scales(eqn: Eqn) -> bool:
    return eqn.op.is_kernel and any(map(is_quantized, _types(eqn))) and not _moves(eqn)


def _types(eqn: Eqn) -> Iterator[TensorType]:
    return (atom.type for atom in (*eqn.inputs, *eqn.outputs) if atom is not None)


def _moves(eqn: Eqn) -> bool:
    """Whether the results are elements of the operands as they are, in one scale: no kernel needs to know it then."""
    quantized = (t.quantization for t in _types(eqn) if is_quantized(t))
    keeps_elements = eqn.op.moves is not None or _reads_a_shape(eqn)
    return keeps_elements and len({(q.scale, q.zero_point, q.axis) for q in quantized if q is not None}) == 1


def _reads_a_shape(eqn: Eqn) -> bool:
    """Whether the results are plain numbers that follow from the operands' shapes alone."""
    only = all(eqn.op.operand_at(i).shape_only for i in range(len(eqn.inputs)))
    return only and not any(is_quantized(out.type) for out in eqn.outputs)


class _Rewrite:
    def __init__(self, singly: bool, limits: Limits, integers: Rounding | None) -> None:
        self._singly = singly
        self._integers = integers
        self._limits = limits
        self._bodies: dict[tuple[int, frozenset[str]], Graph] = {}
        self._computed: dict[Graph, int] = {}

    def graph(self, graph: Graph, outer: frozenset[str]) -> Graph:
        """outer: the symbols whose sizes the graphs around this one tell."""
        sizes = outer | _axes(graph.inputs)
        readers, results = users(graph), {atom for atom in graph.outputs if isinstance(atom, Var)}
        eqns: list[Eqn] = []
        for group in self._groups(graph):
            eqn = group[0]
            if self._needs_litert(eqn):
                eqn = _hosted(group, _read_after(group, readers, results), sizes, self._limits)
            elif _needs_scales(eqn) and has_integer_body(eqn, self._integers):
                eqn = on_integers(eqn, self._integers)
            elif eqn.bodies:
                eqn = replace(eqn, bodies=tuple(self._body(body, sizes) for body in eqn.bodies))
            eqns.append(eqn)
            sizes |= _axes(eqn.outputs)
        return replace(graph, eqns=tuple(eqns))

    def _body(self, body: Graph, sizes: frozenset[str]) -> Graph:
        key = (id(body), sizes)
        if key not in self._bodies:
            self._bodies[key] = self.graph(body, sizes)
        return self._bodies[key]

    def _groups(self, graph: Graph) -> Iterator[list[Eqn]]:
        """Each equation alone, or those that LiteRT computes in a row, with what only moves integers between them."""
        group: list[Eqn] = []
        moves: list[Eqn] = []
        for eqn in graph.eqns:
            if group and self._joins(eqn) and not self._singly:
                if self._needs_litert(eqn):
                    group, moves = [*group, *moves, eqn], []
                else:
                    moves.append(eqn)
                continue
            yield from filter(None, (group, *([move] for move in moves)))
            starts = self._needs_litert(eqn) and not keeps_state(eqn) and eqn.op.code is None
            group, moves = [eqn] if starts else [], []
            if not starts:
                yield [eqn]
        yield from filter(None, (group, *([move] for move in moves)))

    def _joins(self, eqn: Eqn) -> bool:
        """Whether an equation can stand in one file with those before it that LiteRT computes."""
        if eqn.bodies or eqn.effects or keeps_state(eqn) or depends_on_data(eqn) or eqn.op.code is not None:
            return False
        return self._needs_litert(eqn) or all(is_quantized(var.type) for var in eqn.outputs)

    def _needs_litert(self, eqn: Eqn) -> bool:
        return needs_litert(eqn, self._integers, self._computed)


def _axes(variables: Sequence[Var]) -> frozenset[str]:
    """The symbols that are an axis by themselves."""
    return frozenset(str(d) for var in variables for d in var.type.shape if symbols_of(d) == {str(d)})


def _read_after(group: Sequence[Eqn], readers: Mapping[Var, Sequence[Eqn]], results: Container[Var]) -> tuple[Var, ...]:
    """The results of a group that others read; all of them where it is one equation."""
    made = tuple(var for eqn in group for var in eqn.outputs)
    if len(group) == 1:
        return made
    inner = {id(eqn) for eqn in group}
    return tuple(v for v in made if v in results or any(id(e) not in inner for e in readers.get(v, ())))


def _hosted(group: Sequence[Eqn], results: tuple[Var, ...], sizes: frozenset[str], limits: Limits) -> Eqn:
    """One equation in place of a group. sizes: the symbols that a run can tell."""
    before = _state_operands(group[0])
    eqns = [replace(group[0], inputs=tuple(before.get(i, a) for i, a in enumerate(group[0].inputs))), *group[1:]]
    made = {var for eqn in eqns for var in eqn.outputs}
    read = list(dict.fromkeys(a for eqn in eqns for a in eqn.inputs if isinstance(a, Var) and a not in made))
    operand_of = {var: group[0].inputs[i] for i, var in before.items()}
    after = _state_results(group[0])
    states = {read.index(var): results.index(after[i]) for i, var in before.items()}
    op = Hosted(Graph("litert", tuple(read), tuple(eqns), results), states, limits)
    shapes = tuple(var.type.shape for var in results)
    are_known = {name for shape in shapes for dim in shape for name in symbols_of(dim)} <= sizes
    are_known = are_known and all(var.type.ranked for var in results)
    operands = tuple(operand_of.get(var, var) for var in read)
    return Eqn(op, operands, results, {"shapes": shapes} if are_known else {}, group[0].source)


def _state_results(eqn: Eqn) -> dict[int, Var]:
    """For each operand that the equation updates in place, by position, the result that it becomes."""
    return {operand: eqn.outputs[result] for operand, result in state_operands(eqn).items()}


def _state_operands(eqn: Eqn) -> dict[int, Var]:
    """An input for each of them: the value before may be a constant, or be read by others too."""
    atoms = {i: eqn.inputs[i] for i in _state_results(eqn)}
    return {i: Var(atom.type) for i, atom in atoms.items() if atom is not None}


def with_delegates(program: Program) -> bool:
    """Whether a file is run with default delegates: not where the host callback computes a part of the graph on XLA.

    XNNPACK rounds quantized integers otherwise than the operators' own kernels, by one step.
    """
    return integers_of(program.graphs()) is not None


# Equations on quantized integers as ops that know the scales of their operands, which arrays do not carry.


@dataclass(frozen=True)
class OnIntegers(Op):
    """An op that computes with its integer body."""

    op: Op
    types: IntegerTypes

    @property
    def name(self) -> str:
        """The name of the op that computes, unchanged."""
        return self.op.name

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The quantized types that the equation states for its results."""
        return self.types.outputs

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The quantized results, computed of integers by the op's integer body."""
        return self.op.run_integers(self.types, inputs, params)


def has_integer_body(eqn: Eqn, rounding: Rounding | None) -> bool:
    """Whether the equation's op has an integer body for its types and options, in a rounding."""
    return eqn.op.takes_integers(eqn, rounding)


def on_integers(eqn: Eqn, rounding: Rounding | None) -> Eqn:
    """The equation with the scales in its op."""
    return replace(eqn, op=OnIntegers(eqn.op, IntegerTypes.of(eqn, rounding)))
