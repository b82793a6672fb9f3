"""Differences of two programs: signatures, equations and their options, types, constants, metadata."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from jfuse.differences.result import Finding
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.literals import format_const, format_value
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns

_PART = 2**20
Digest = Callable[[Const], str]


@dataclass
class ProgramDiff:
    """Collects the differences of two programs.   digest: identifies constants

    with_values: whether the arrays of constants are there, to say how far apart they are.
    """

    a: Program
    b: Program
    digest: Digest = lambda const: const.digest
    with_values: bool = True
    findings: list[Finding] = field(default_factory=list)
    matched: int = 0

    def run(self) -> None:
        """Compare everything."""
        ours, theirs = ({s.key: s for s in p.signatures} for p in (self.a, self.b))
        seen: set[tuple[int, int]] = set()
        for key in dict.fromkeys([*ours, *theirs]):
            if key not in ours or key not in theirs:
                self._say("signature", "", key if key in ours else "", key if key in theirs else "")
                continue
            one, other = ours[key], theirs[key]
            self._signature(one, other)
            if (id(one.graph), id(other.graph)) not in seen:  # signatures share graphs
                seen.add((id(one.graph), id(other.graph)))
                self._graph(one.graph, other.graph, key)
        self._facts()

    def operators(self) -> dict[str, tuple[int, int]]:
        """How many of each kind both have, where that differs."""
        one, other = (Counter(e.op.name for g in p.entries() for e in all_eqns(g)) for p in (self.a, self.b))
        return {op: (one[op], other[op]) for op in sorted({*one, *other}) if one[op] != other[op]}

    def _say(self, kind: str, where: str, a: str, b: str, largest: float | None = None) -> None:
        self.findings.append(Finding(kind, where, a, b, largest))

    def _signature(self, one: Signature, other: Signature) -> None:
        for kind, ours, theirs in (
            ("input", _named(one.input_names, one.graph.inputs), _named(other.input_names, other.graph.inputs)),
            ("output", _named(one.output_names, one.graph.outputs), _named(other.output_names, other.graph.outputs)),
            ("state", dict(map(_state, one.states)), dict(map(_state, other.states))),
        ):
            for name in dict.fromkeys([*ours, *theirs]):
                if ours.get(name) != theirs.get(name):
                    a, b = (f"{name}: {found[name]}" if name in found else "" for found in (ours, theirs))
                    self._say(kind, one.key, a, b)
            common = ours.keys() & theirs.keys()
            if kind != "state" and (order := [n for n in ours if n in common]) != [n for n in theirs if n in common]:
                self._say(kind, one.key, ", ".join(order), ", ".join(n for n in theirs if n in common))

    def _graph(self, one: Graph, other: Graph, where: str) -> None:
        """The equations of two graphs, and of their bodies."""
        pairs, left, right = matched(one.eqns, other.eqns)
        self.matched += len(pairs)
        for eqn in left:
            self._say("operator", _place(where, eqn), _short(eqn), "")
        for eqn in right:
            self._say("operator", _place(where, eqn), "", _short(eqn))
        values = (_values(one, (a for a, _ in pairs)), _values(other, (b for _, b in pairs)))
        positions = {id(eqn): number for number, eqn in enumerate(other.eqns)}
        moved = sum(positions[id(b)] > positions[id(c)] for (_, b), (_, c) in pairwise(pairs))
        if moved and not left and not right:
            self._say("order", where, f"{len(pairs)} operators", f"the same, {moved} of them before their predecessor")
        for ours, theirs in pairs:
            self._eqn(ours, theirs, _place(where, ours), values)
        for number, (ours_, theirs_) in enumerate(zip(one.outputs, other.outputs, strict=False)):
            self._operand(f"{where}: result {number}", ours_, theirs_, values)

    def _eqn(self, one: Eqn, other: Eqn, where: str, values: tuple[_Values, _Values]) -> None:
        for number, (x, y) in enumerate(zip(one.outputs, other.outputs, strict=False)):
            self._types(where if len(one.outputs) == 1 else f"{where}, result {number}", x.type, y.type)
        for name in dict.fromkeys([*one.params, *other.params]):
            texts = [format_value(eqn.params[name]) if name in eqn.params else "" for eqn in (one, other)]
            if texts[0] != texts[1]:
                a, b = (f"{name}={text}" if text else "" for text in texts)
                self._say("option", where, a, b)
        if one.version != other.version and None not in (one.version, other.version):
            self._say("option", where, f"version {one.version}", f"version {other.version}")
        if len(one.inputs) != len(other.inputs):
            self._say("operand", where, f"{len(one.inputs)} operands", f"{len(other.inputs)} operands")
        for number, (m, n) in enumerate(zip(one.inputs, other.inputs, strict=False)):
            self._operand(f"{where}, operand {number}", m, n, values)
        for first, second in zip(one.bodies, other.bodies, strict=False):
            self._graph(first, second, where)

    def _operand(self, where: str, a: Atom | None, b: Atom | None, values: tuple[_Values, _Values]) -> None:
        if isinstance(a, Const) and isinstance(b, Const):
            self._constants(where, a, b)
        elif isinstance(a, Var) and isinstance(b, Var):
            if values[0].get(a) != values[1].get(b):
                self._say("operand", where, _told(values[0], a), _told(values[1], b))
        elif a is not b:
            self._say("operand", where, _kind(a), _kind(b))

    def _types(self, where: str, a: TensorType, b: TensorType) -> None:
        ours, theirs = replace(a, quantization=None), replace(b, quantization=None)
        if str(ours) != str(theirs):
            self._say("type", where, str(ours), str(theirs))
        if a.quantization != b.quantization:
            self._say("quantization", where, _numbers(a.quantization), _numbers(b.quantization))

    def _constants(self, where: str, a: Const, b: Const) -> None:
        if a is b:
            return
        if a.type.quantization != b.type.quantization:
            self._say("quantization", where, _numbers(a.type.quantization), _numbers(b.type.quantization))
        if self.digest(a) != self.digest(b) or a.shape != b.shape or a.dtype != b.dtype:
            largest = _largest(a.array, b.array) if self.with_values else None
            self._say("constant", where, format_const(a), format_const(b), largest)

    def _facts(self) -> None:
        one, other = self.a.facts, self.b.facts
        if one.description != other.description:
            self._say("metadata", "description", one.description or "jfuse", other.description or "jfuse")
        ours, theirs = dict(one.metadata), dict(other.metadata)
        for name in dict.fromkeys([*ours, *theirs]):
            if name in ours and name in theirs:
                if self.digest(ours[name]) != self.digest(theirs[name]):
                    a, b = (f"{c.array.size} bytes, {self.digest(c)}" for c in (ours[name], theirs[name]))
                    self._say("metadata", name, a, b)
            else:
                a, b = (f"{side[name].array.size} bytes" if name in side else "" for side in (ours, theirs))
                self._say("metadata", name, a, b)


_Values = Mapping[Var, object]
"""Identity of each value, equal for counterparts: an input's index, or the indices of a pair's result."""


def _values(graph: Graph, eqns: Iterable[Eqn]) -> _Values:
    found: dict[Var, object] = {var: ("input", number) for number, var in enumerate(graph.inputs)}
    for number, eqn in enumerate(eqns):
        found |= {var: ("result", number, place, eqn.op.name) for place, var in enumerate(eqn.outputs)}
    return found


def _told(values: _Values, var: Var) -> str:
    match values.get(var):
        case ("input", number):
            return f"input {number}"
        case ("result", number, place, op):
            return f"result {place} of {op}, the {number}. with a counterpart"
    return f"{var.type} of an operator without a counterpart"


def _named(names: Iterable[str], atoms: Iterable[Atom]) -> dict[str, str]:
    return {name: str(atom.type) for name, atom in zip(names, atoms, strict=False)}


def _state(state: State) -> tuple[str, str]:
    return state.name, f"{state.initial.type} in a {state.home}"


def _place(where: str, eqn: Eqn) -> str:
    parts = (*eqn.source.stack, eqn.source.node) if eqn.source.node else eqn.source.stack
    name = "/".join(parts) or next((v.name for v in eqn.outputs if v.name), "")
    return f"{where}: {eqn.op.name}" + (f" at {name}" if name else "")


def _short(eqn: Eqn) -> str:
    return f"{eqn.op.name} to {', '.join(str(v.type) for v in eqn.outputs)}"


def _kind(atom: Atom | None) -> str:
    return "omitted" if atom is None else f"{'a constant' if isinstance(atom, Const) else 'computed'}, {atom.type}"


def _numbers(quantization: Quantization | None) -> str:
    return "none" if quantization is None else str(quantization)


def _largest(a: np.ndarray, b: np.ndarray) -> float | None:
    """max|a - b|, None if undefined; in chunks, as both may be as large as memory."""
    if a.shape != b.shape or not a.size or a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None
    one, other = a.reshape(-1), b.reshape(-1)
    parts = [slice(start, start + _PART) for start in range(0, one.size, _PART)]
    with np.errstate(invalid="ignore", over="ignore"):
        return float(max(np.max(np.abs(one[p].astype(np.float64) - other[p].astype(np.float64))) for p in parts))


# Which equations of two graphs are counterparts, in linear time.

Pairs = list[tuple[Eqn, Eqn]]


def matched(a: Sequence[Eqn], b: Sequence[Eqn]) -> tuple[Pairs, list[Eqn], list[Eqn]]:
    """The pairs in the order of A, then the unmatched equations of each.

    Two equations of one op are counterparts where they have the same source and name; of those that are left, where
    types and options are the same; of those again, in their order. With several of one kind the first goes with the
    first. Equations of different ops are never counterparts.
    """
    partner: dict[int, Eqn] = {}
    left_a, left_b = list(a), list(b)
    for key in (_by_name, _by_form, _by_op):
        left_a, left_b = _round(left_a, left_b, key, partner)
    return [(eqn, partner[id(eqn)]) for eqn in a if id(eqn) in partner], left_a, left_b


def _round(
    a: Sequence[Eqn], b: Sequence[Eqn], key: Callable[[Eqn], Hashable], partner: dict[int, Eqn]
) -> tuple[list[Eqn], list[Eqn]]:
    waiting: dict[Hashable, list[Eqn]] = defaultdict(list)
    for eqn in reversed(b):
        waiting[key(eqn)].append(eqn)
    taken = set()
    for eqn in a:
        if others := waiting.get(key(eqn)):
            partner[id(eqn)] = other = others.pop()
            taken.add(id(other))
    return [eqn for eqn in a if id(eqn) not in partner], [eqn for eqn in b if id(eqn) not in taken]


def _by_name(eqn: Eqn) -> Hashable:
    source = "/".join((*eqn.source.stack, eqn.source.node))
    return eqn.op.name, source, tuple(v.name for v in eqn.outputs)


def _by_form(eqn: Eqn) -> Hashable:
    types = [*(None if atom is None else str(atom.type) for atom in eqn.inputs), *(str(v.type) for v in eqn.outputs)]
    return eqn.op.name, tuple(types), str(sorted((k, str(v)) for k, v in eqn.params.items()))


def _by_op(eqn: Eqn) -> Hashable:
    return eqn.op.name
