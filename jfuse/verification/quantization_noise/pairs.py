"""Matches the tensors of a quantized graph with those of the float graph, by operands, name and position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, producers
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.quantization.real_numbers.numbers import real_const
from jfuse.quantization.real_numbers.walker import RealGraph
from jfuse.tflite.names import equation_name

_MOST_ALIGNED = 2000  # equations without a name or known operands, above which an alignment takes long


def changes_type_alone(eqn: Eqn) -> bool:
    """Whether an equation is a QUANTIZE or DEQUANTIZE."""
    return bool(eqn.op.scales)


@dataclass
class Pairs:
    """The float value for each quantized value, and the float equation for each quantized equation.

    A float value may be a constant: that of weights behind a DEQUANTIZE. constants: the values of the quantized graph
    that are nothing but constants behind one.
    """

    values: dict[Var, Atom] = field(default_factory=dict)
    twins: dict[Eqn, Eqn] = field(default_factory=dict)
    constants: dict[Var, Const] = field(default_factory=dict)

    def float_of(self, atom: Atom | None) -> Atom | None:
        """The float value of an operand, where it is known."""
        return self.values.get(atom) if isinstance(atom, Var) else None


def run_twin(real: RealGraph, twin: Eqn, operands: Sequence[Atom | None]) -> tuple[Var, ...]:
    """Add a float equation on the values that its quantized one reads, but with its own constants; its results."""
    pairs = zip(twin.inputs, operands, strict=True)
    own = [theirs if theirs is None or isinstance(theirs, Const) else mine for theirs, mine in pairs]
    return real.run(twin, own)


def pair_graphs(quantized: Graph, floats: Graph, known: Iterable[tuple[Var, Var]]) -> Pairs:
    """The pairs of two graphs.   known: inputs that stand for each other; outputs do by their positions

    An equation is that of the other graph which applies the same op to the same values; of several the one of the same
    name or with the most similar weights. What has other operands is found by its name, which counts up to the first
    semicolon, then by its place between equations that were found. Where only the name is the same, the values are
    paired, and the equations are not.
    """
    found = _Pairing(quantized, floats, dict(known))
    found.forward()
    found.outputs()
    found.by_place()
    found.forward()
    return found.pairs


class _Pairing:
    def __init__(self, quantized: Graph, floats: Graph, known: Mapping[Var, Var]) -> None:
        self._quantized, self._floats = quantized, floats
        self.pairs = Pairs(dict(known))
        self._before: dict[Var, Atom] = {}  # of the float graph: behind a QUANTIZE or DEQUANTIZE
        self._taken: set[Eqn] = set()
        self._by_operands: dict[Hashable, list[Eqn]] = {}
        self._by_name: dict[Hashable, list[Eqn]] = {}
        self._last: dict[str, Eqn] = {}  # of those of one name
        for eqn in floats.eqns:
            if changes_type_alone(eqn) and eqn.inputs[0] is not None:
                self._before[eqn.outputs[0]] = self._root(eqn.inputs[0])
                continue
            operands = [None if a is None else self._root(a) for a in eqn.inputs]
            self._by_operands.setdefault(_key(eqn, operands), []).append(eqn)
            self._by_name.setdefault((_name(eqn), _token(eqn)), []).append(eqn)
            if len(eqn.outputs) == 1:
                self._last[_name(eqn)] = eqn

    def _root(self, atom: Atom) -> Atom:
        return self._before.get(atom, atom) if isinstance(atom, Var) else atom

    def forward(self) -> None:
        """Pair what has paired operands, or a name, in the order of the quantized graph."""
        rest = self._rest()
        names, alone = Counter((_name(e), _token(e)) for e in rest), Counter(map(_name, rest))
        for eqn in self._quantized.eqns:
            if changes_type_alone(eqn):
                self._pass_on(eqn)
            elif eqn not in self.pairs.twins:
                twin = self._with_operands(eqn) or self._with_name(eqn, names[_name(eqn), _token(eqn)])
                if twin is not None:
                    self._pair(eqn, twin)
                elif alone[_name(eqn)] == 1 and len(eqn.outputs) == 1:
                    self._pair_value(eqn)

    def _pair_value(self, eqn: Eqn) -> None:
        """Pair the result of an equation with that of the last one of its name, whatever this applies."""
        last = self._last.get(_name(eqn))
        if last is not None and last not in self._taken and _may_be(eqn.outputs, last.outputs):
            self.pairs.values.setdefault(eqn.outputs[0], last.outputs[0])

    def _rest(self) -> list[Eqn]:
        return [e for e in self._quantized.eqns if e not in self.pairs.twins and not changes_type_alone(e)]

    def _pass_on(self, eqn: Eqn) -> None:
        (given, *_), (result, *_) = eqn.inputs, eqn.outputs
        if isinstance(given, Const):
            self.pairs.constants[result] = given
        elif isinstance(given, Var) and given in self.pairs.constants:
            self.pairs.constants[result] = self.pairs.constants[given]
        elif isinstance(given, Var) and given in self.pairs.values:
            self.pairs.values.setdefault(result, self.pairs.values[given])

    def _pair(self, eqn: Eqn, twin: Eqn) -> None:
        self._taken.add(twin)
        self.pairs.twins[eqn] = twin
        for var, other in zip(eqn.outputs, twin.outputs, strict=True):
            self.pairs.values.setdefault(var, other)
        for mine, theirs in zip(eqn.inputs, twin.inputs, strict=True):
            if isinstance(mine, Var) and mine in self.pairs.constants and isinstance(theirs, Const):
                self.pairs.values[mine] = theirs

    def _with_operands(self, eqn: Eqn) -> Eqn | None:
        """The float equation of the same op on the same values."""
        operands: list[Atom | None] = []
        for atom in eqn.inputs:
            stands_for = self.pairs.constants.get(atom, atom) if isinstance(atom, Var) else atom
            known = self.pairs.values.get(stands_for) if isinstance(stands_for, Var) else stands_for
            if known is None and atom is not None:
                return None
            operands.append(None if known is None else self._root(known))
        alike = [e for e in self._by_operands.get(_key(eqn, operands), ()) if self._fits(eqn, e)]
        if len(alike) < 2:
            return next(iter(alike), None)
        named = [e for e in alike if _name(e) == _name(eqn)]
        return max(named or alike, key=lambda e: _likeness(self._weights(eqn), self._weights(e)))

    def _weights(self, eqn: Eqn) -> list[Const]:
        atoms = (self.pairs.constants.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs)
        return [a for a in atoms if isinstance(a, Const)]

    def _with_name(self, eqn: Eqn, count: int) -> Eqn | None:
        """The first float equation of the same op and name that is left, where both graphs have as many of these."""
        alike = [e for e in self._by_name.get((_name(eqn), _token(eqn)), ()) if e not in self._taken]
        return alike[0] if len(alike) == count and self._fits(eqn, alike[0]) else None

    def _fits(self, eqn: Eqn, other: Eqn) -> bool:
        if other in self._taken or _token(eqn) != _token(other) or not _may_be(eqn.outputs, other.outputs):
            return False
        return [*map(_counting, eqn.bodies)] == [*map(_counting, other.bodies)]

    def outputs(self) -> None:
        """Pair the outputs of the graphs, which stand for each other, and what they are made of."""
        made = producers(self._quantized)
        for mine, theirs in zip(self._quantized.outputs, self._floats.outputs, strict=False):
            while isinstance(mine, Var) and isinstance(theirs, Var) and mine not in self.pairs.values:
                self.pairs.values[mine] = theirs
                before = made.get(mine)
                mine = before.inputs[0] if before is not None and changes_type_alone(before) else None  # type: ignore[assignment]

    def by_place(self) -> None:
        """Pair equations of one op between others that are paired."""
        mine = self._rest()
        theirs = [e for e in self._floats.eqns if e not in self._taken and not changes_type_alone(e)]
        if not mine or not theirs or max(len(mine), len(theirs)) > _MOST_ALIGNED:
            return
        ours, others = list(self._tokens(self._quantized, mine, True)), list(self._tokens(self._floats, theirs, False))
        for a, b, size in SequenceMatcher(None, ours, others, autojunk=False).get_matching_blocks():
            for eqn, twin in zip(mine[a : a + size], theirs[b : b + size], strict=True):
                if self._fits(eqn, twin):
                    self._pair(eqn, twin)

    def _tokens(self, graph: Graph, wanted: Sequence[Eqn], is_quantized: bool) -> Iterator[Hashable]:
        """Describe each equation by its op, and by the last paired equation before it."""
        left, last = set(wanted), None
        for eqn in graph.eqns:
            if eqn in left:
                yield last, _token(eqn)
            elif not is_quantized and eqn in self._taken:
                last = eqn
            elif is_quantized and eqn in self.pairs.twins:
                last = self.pairs.twins[eqn]


def _name(eqn: Eqn) -> str:
    found = equation_name(eqn)
    return found if found.startswith(";") else found.partition(";")[0]


def _token(eqn: Eqn) -> Hashable:
    activation = eqn.params.get("fused_activation_function", "")
    return eqn.op.name, activation, len(eqn.inputs), len(eqn.outputs), len(eqn.bodies)


def _key(eqn: Eqn, operands: Sequence[Atom | None]) -> Hashable:
    return _token(eqn), tuple(_of_constant(a) if isinstance(a, Const) else a for a in operands)


def is_real(stored: TensorType) -> bool:
    """Whether the elements of a type are real numbers, or integers that stand for some."""
    return is_quantized(stored) or stored.dtype in (DType.f32, DType.f16)


def computes_with_integers(graph: Graph) -> bool:
    """Whether an equation makes integers that stand for real numbers, other than to change their type."""
    return any(is_quantized(v.type) for e in all_eqns(graph) if not changes_type_alone(e) for v in e.outputs)


def _counting(graph: Graph) -> list[int | None]:
    """How a body computes its integers and booleans from those that it takes: loops that count alike end alike."""
    formulas: dict[Atom | None, int] = {v: i for i, v in enumerate(graph.inputs) if not is_real(v.type)}

    def formula(atom: Atom | None) -> int | None:
        return hash(atom.digest) if isinstance(atom, Const) and not is_real(atom.type) else formulas.get(atom)

    for eqn in graph.eqns:
        read = tuple(map(formula, eqn.inputs))
        formulas |= {v: hash((eqn.op.name, i, read)) for i, v in enumerate(eqn.outputs) if not is_real(v.type)}
    return [formula(atom) for atom in graph.outputs]


def _of_constant(const: Const) -> Hashable:
    """Weights are alike by their shape, other constants, which say what is computed, by their elements."""
    is_number = const.type.dtype.is_float or const.quantization is not None
    return const.shape if is_number else (const.shape, const.digest)


def _may_be(mine: Sequence[Var], theirs: Sequence[Var]) -> bool:
    """Whether results may have the same shapes."""
    shapes = ((a.type.shape, b.type.shape) for a, b in zip(mine, theirs, strict=True))
    return all(
        len(a) == len(b) and all(not is_known(d) or not is_known(e) or d == e for d, e in zip(a, b, strict=True))
        for a, b in shapes
    )


def _likeness(mine: Sequence[Const], theirs: Sequence[Const]) -> float:
    """The cosine between constants: 1 for those that differ by a factor alone."""
    found = 0.0
    for a, b in zip(mine, theirs, strict=True):
        x, y = (np.asarray(real_const(c).array, np.float64).ravel() for c in (a, b))
        lengths = np.linalg.norm(x) * np.linalg.norm(y)
        found += float(x @ y / lengths) if x.shape == y.shape and lengths else 0.0
    return found
