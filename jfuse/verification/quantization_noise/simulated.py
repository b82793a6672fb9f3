"""A quantized program imitated in floats, with a switch for each operator: rounded as its integers are, or float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Signature, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace
from jfuse.passes.quantize.forms import follows
from jfuse.quantization.real_numbers.numbers import Computed, dequantized_from, quantized_as
from jfuse.quantization.real_numbers.walker import Exact, RealGraph
from jfuse.running.over_samples import OverSamples, samples_at_once
from jfuse.running.runner import untraceable
from jfuse.tflite.names import equation_name
from jfuse.verification.quantization_noise.pairs import Pairs, pair_graphs, run_twin


@dataclass(frozen=True)
class Operator:
    """The operators of one name in the source and one builtin, which a rule of a recipe can name.

    count: how many they are. bytes: how much larger their weights and results are in floats.
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
        known = zip(quantized.graph.inputs, floats.graph.inputs, strict=True)
        policy = _Switched(pair_graphs(quantized.graph, floats.graph, known))
        graph = policy.graph(quantized.graph, floats.graph)
        reason = untraceable(graph)
        if reason is not None:
            raise JfuseError("the operators to be left float cannot be searched for", found=reason)
        self.operators = [Operator(*key, len(eqns), sum(map(_bytes, eqns))) for key, eqns in policy.switched.items()]
        self._names = quantized.output_names
        self._run = OverSamples.of_graph(graph, most=samples_at_once(graph, jax.default_backend()), quick=True)
        self._inputs = [np.stack([c[name] for c in calls]) for name in floats.input_names]

    def outputs(self, left: Sequence[Sequence[bool]]) -> list[dict[str, np.ndarray]]:
        """The outputs for each choice, calls along a new first axis.   left: bool[choices, operators], for floats"""
        chosen, calls = np.asarray(left, bool), len(self._inputs[0])
        switches = np.repeat(chosen, calls, axis=0)
        found = self._run([switches, *(np.tile(a, (len(chosen), *[1] * (a.ndim - 1))) for a in self._inputs)])
        parts = [np.split(np.asarray(array), len(chosen)) for array in found]
        return [dict(zip(self._names, arrays, strict=False)) for arrays in zip(*parts, strict=True)]


@dataclass
class _Switched(Exact):
    """Computes each operator twice, in floats and with rounded operands and results, and chooses by its switch."""

    pairs: Pairs
    switched: dict[tuple[str, str], list[Eqn]] = field(default_factory=dict)
    switches: Var = field(default_factory=lambda: Var(TensorType((symbol("operators"),), DType.bool)))

    def graph(self, quantized: Graph, floats: Graph) -> Graph:
        """The graph: which operators are left float, bool[operators], and the inputs -> the outputs."""
        real = RealGraph(self, dict(zip(quantized.inputs, floats.inputs, strict=True)))
        for eqn in quantized.eqns:
            real.add(eqn)
        outputs = tuple(o for o in map(real.value, quantized.outputs) if o is not None)
        return Graph("simulated", (self.switches, *floats.inputs), tuple(real.eqns), outputs)

    def results(self, real: RealGraph, eqn: Eqn, operands: Sequence[Atom | None]) -> Sequence[Atom]:
        twin = self.pairs.twins.get(eqn)
        if eqn.bodies and twin is None:
            raise JfuseError(
                "the operators to be left float cannot be searched for", found=f"{eqn.op.name} in integers"
            )
        exact = real.run(eqn, operands) if twin is None else run_twin(real, twin, operands)
        source = twin or eqn
        if eqn.bodies or follows(source) or not self._is_rounded(eqn):
            return exact
        rounded = real.run(eqn, [_rounded(real, value, a) for value, a in zip(operands, eqn.inputs, strict=True)])
        key = (equation_name(source), str(eqn.op.builtin))
        self.switched.setdefault(key, []).append(source)
        number = list(self.switched).index(key)
        ends = [_rounded(real, value, var) for value, var in zip(rounded, eqn.outputs, strict=True)]
        return [
            real.apply(_choosing(left.type, number), self.switches, left, end)
            for left, end in zip(exact, ends, strict=True)
            if end is not None
        ]

    def _is_rounded(self, eqn: Eqn) -> bool:
        """Whether an operand or a result is in integers, or weights come from behind a DEQUANTIZE."""
        atoms = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
        return any(is_quantized(a.type) or a in self.pairs.constants for a in atoms)


def _rounded(real: RealGraph, value: Atom | None, like: Atom | None) -> Atom | None:
    """A value in the steps of a type."""
    if not isinstance(value, Var) or like is None or not is_quantized(like.type):
        return value
    return real.apply(dequantized_from(like.type), real.apply(quantized_as(like.type), value))


def _choosing(result: TensorType, number: int) -> Computed:
    """Switches, the float value, the rounded one -> the one that the switch of this number chooses."""

    def choose(switches: Any, left: Any, rounded: Any) -> Any:
        return namespace(switches, left, rounded).where(switches[number], left, rounded)

    return Computed("noise.choose", (result,), choose)


def _bytes(eqn: Eqn) -> int:
    """How much larger the weights and results of an equation are in floats than in bytes, for one sample."""
    weights = sum(a.array.size for a in eqn.inputs if isinstance(a, Const) and a.type.dtype.is_float)
    shapes = ([int(d) for d in v.type.shape if isinstance(d, int)] for v in eqn.outputs)
    return 3 * int(weights + sum(np.prod(shape, dtype=np.int64) for shape in shapes))
