"""A quantized program imitated in floats, with a switch for each operator: rounded as its integers are, or float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import large_constants, with_constants
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Signature, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace
from jfuse.passes.quantize.forms import follows
from jfuse.quantization.computed import Computed, storing, telling
from jfuse.quantization.real_numbers import real_const, real_type
from jfuse.running.over_samples import OverSamples, samples_at_once
from jfuse.running.runner import untraceable
from jfuse.tflite.names import equation_name
from jfuse.verification.quantization_noise.pairs import Pairs, changes_type_alone, pair_graphs


@dataclass(frozen=True)
class Operator:
    """What a rule of a recipe can tell apart: the operators of one name in the source and one builtin.

    count: how many they are. bytes: what their weights and results take more in floats.
    """

    name: str
    builtin: str
    count: int = 1
    bytes: int = 0

    def __str__(self) -> str:
        return f"{self.builtin} at {self.name}"


class Simulated:
    """One signature of a quantized program beside the float one, on samples: its outputs for any choice of operators.

    operators: those that can be left float. Integers are imitated: operands and results are rounded to their steps, and
    what is between is computed in floats, so that answers differ from the runtime's by a step now and then.
    Raises JfuseError where jax cannot trace the program.
    """

    def __init__(self, quantized: Signature, floats: Signature, calls: Sequence[Mapping[str, np.ndarray]]) -> None:
        known = list(zip(quantized.graph.inputs, floats.graph.inputs, strict=True))
        building = _Building(pair_graphs(quantized.graph, floats.graph, known))
        graph = building.graph(quantized.graph, floats.graph)
        reason = untraceable(graph)
        if reason is not None:
            raise JfuseError("the operators to be left float cannot be searched for", found=reason)
        self.operators = [Operator(*key, len(eqns), sum(map(_bytes, eqns))) for key, eqns in building.switched.items()]
        self._names = quantized.output_names
        arrays, count = large_constants(graph), len(graph.inputs)
        call = with_constants(graph, arrays)
        most = samples_at_once(graph, jax.default_backend())
        self._run = OverSamples(lambda weights, *args: call(weights, args[:count]), [arrays], most=most, quick=True)
        self._inputs = [np.stack([c[name] for c in calls]) for name in floats.input_names]

    def outputs(self, left: Sequence[Sequence[bool]]) -> list[dict[str, np.ndarray]]:
        """The outputs for each choice, calls along a new first axis.   left: bool[choices, operators], for floats"""
        chosen, calls = np.asarray(left, bool), len(self._inputs[0])
        switches = np.repeat(chosen, calls, axis=0)
        found = self._run([switches, *(np.tile(a, (len(chosen), *[1] * (a.ndim - 1))) for a in self._inputs)])
        parts = [np.split(np.asarray(array), len(chosen)) for array in found]
        return [dict(zip(self._names, arrays, strict=False)) for arrays in zip(*parts, strict=True)]


@dataclass
class _Building:
    pairs: Pairs
    switched: dict[tuple[str, str], list[Eqn]] = field(default_factory=dict)
    eqns: list[Eqn] = field(default_factory=list)
    values: dict[Var, Atom] = field(default_factory=dict)
    switches: Var = field(default_factory=lambda: Var(TensorType((symbol("operators"),), DType.bool)))

    def graph(self, quantized: Graph, floats: Graph) -> Graph:
        """The graph: which operators are left float, bool[operators], and the inputs -> the outputs."""
        self.values = dict(zip(quantized.inputs, floats.inputs, strict=True))
        for eqn in quantized.eqns:
            self._add(eqn)
        outputs = tuple(self._value(a) for a in quantized.outputs)
        inputs = (self.switches, *floats.inputs)
        return Graph("simulated", inputs, tuple(self.eqns), tuple(o for o in outputs if o is not None))

    def _value(self, atom: Atom | None) -> Atom | None:
        if isinstance(atom, Const):
            return real_const(atom)
        if atom in self.pairs.constants and atom not in self.values:
            return real_const(self.pairs.constants[atom])
        return None if atom is None else self.values[atom]

    def _add(self, eqn: Eqn) -> None:
        twin = self.pairs.twins.get(eqn)
        if changes_type_alone(eqn):
            if eqn.outputs[0] not in self.pairs.constants:
                value = self._value(eqn.inputs[0])
                assert value is not None, "an operand"
                self.values[eqn.outputs[0]] = value
            return
        if eqn.bodies and twin is None:
            raise JfuseError(
                "the operators to be left float cannot be searched for", found=f"{eqn.op.name} in integers"
            )
        floats = self._run(twin or eqn, eqn, [self._value(a) for a in eqn.inputs])
        is_switched = any(map(_is_quantized, (*eqn.inputs, *eqn.outputs))) or self._has_weights(eqn)
        if eqn.bodies or follows(twin or eqn) or not is_switched:
            self.values.update(zip(eqn.outputs, floats, strict=True))
            return
        rounded = self._run(eqn, eqn, [self._rounded(self._value(a), a) for a in eqn.inputs])
        key = (equation_name(twin or eqn), str(eqn.op.builtin))
        self.switched.setdefault(key, []).append(twin or eqn)
        for var, left, value in zip(eqn.outputs, floats, rounded, strict=True):
            self.values[var] = self._choice(key, left, self._rounded(value, var))

    def _has_weights(self, eqn: Eqn) -> bool:
        return any(a in self.pairs.constants for a in eqn.inputs if isinstance(a, Var))

    def _run(self, op: Eqn, eqn: Eqn, operands: Sequence[Atom | None]) -> tuple[Var, ...]:
        """The results in floats of a quantized equation, or of its twin with that one's constants."""
        given = operands
        if op is not eqn:
            given = [
                theirs if theirs is None or isinstance(theirs, Const) else mine
                for theirs, mine in zip(op.inputs, operands, strict=True)
            ]
        results = tuple(Var(real_type(v.type)) for v in op.outputs)
        self.eqns.append(replace(op, inputs=tuple(given), outputs=results, intermediates=(), version=None))
        return results

    def _rounded(self, value: Atom | None, like: Atom | None) -> Atom | None:
        """A value in the steps of a type."""
        if not isinstance(value, Var) or like is None or not is_quantized(like.type):
            return value
        steps, told = Var(like.type), Var(real_type(like.type))
        self.eqns += [Eqn(storing(like.type), (value,), (steps,)), Eqn(telling(like.type), (steps,), (told,))]
        return told

    def _choice(self, key: tuple[str, str], left: Var, rounded: Atom | None) -> Atom:
        assert isinstance(rounded, Var), "a result"
        found = Var(left.type)
        place = list(self.switched).index(key)
        self.eqns.append(Eqn(_choosing(left.type, place), (self.switches, left, rounded), (found,)))
        return found


def _is_quantized(atom: Atom | None) -> bool:
    return atom is not None and is_quantized(atom.type)


def _choosing(result: TensorType, place: int) -> Computed:
    """Switches, the float value, the rounded one -> that which the switch at a place says."""

    def choose(switches: Any, left: Any, rounded: Any) -> Any:
        return namespace(switches, left, rounded).where(switches[place], left, rounded)

    return Computed("noise.choose", (result,), choose)


def _bytes(eqn: Eqn) -> int:
    """What an equation's weights and results take more in floats than in bytes, for one sample."""
    weights = sum(a.array.size for a in eqn.inputs if isinstance(a, Const) and a.type.dtype.is_float)
    shapes = ([int(d) for d in v.type.shape if isinstance(d, int)] for v in eqn.outputs)
    return 3 * int(weights + sum(np.prod(shape, dtype=np.int64) for shape in shapes))
