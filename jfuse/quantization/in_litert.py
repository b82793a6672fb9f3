"""Values that LiteRT computes, in processes that keep statistics alone: on a CPU, where XLA would compile for longer.

The float graph is a file whose outputs are the observed values. Its convolutions are faster than XLA's on a
CPU, and it needs no compilation; XLA sees values inside loops, branches and fused recurrences, on every device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import known_size
from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.ir.walk import rename_dims
from jfuse.kernels.core.op import depends_on_data
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.quantization.instrument import ObservedSlot
from jfuse.quantization.moments import Moments
from jfuse.quantization.statistics import Observed, Record
from jfuse.quantization.tallies import Spread
from jfuse.running.litert_worker.tallies import TallyRequest
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.over_samples import numbers_computed
from jfuse.running.partition import is_changed
from jfuse.running.worker import Refused
from jfuse.tflite.schema import BUILTIN_CODES
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes

_BYTES = 2**26
"""Limit for the values of one sample, which a process holds; beyond it XLA observes the larger ones."""

_STARTED_FOR = 2**27
_COMPILED_FOR = 2**23
_LOOKED_FOR = 2**11
"""Numbers that XLA computes in the time in which processes start, or in which it compiles an operator, quickly or not,
or in which one of the processes looks at a value. LiteRT computes numbers in half of the time.

Measured on two cores, on dense layers, an encoder of text, a U-Net and a MobileNetV2, with 32 and 1,000 samples.
"""


def is_sooner(graph: Graph, samples: int, sizes: Mapping[str, int]) -> bool:
    """Whether LiteRT computes so many samples sooner than XLA, compilation included."""
    values, numbers = sum(len(eqn.outputs) for eqn in graph.eqns), numbers_computed(graph, sizes)
    return _STARTED_FOR + samples * (numbers // 2 + _LOOKED_FOR * values) < _COMPILED_FOR * values + samples * numbers


class LiteRtLooks:
    """A signature as a file in LiteRT, and the tallies of its values.   slots: one or more"""

    def __init__(self, signature: Signature, slots: Sequence[ObservedSlot], sizes: Mapping[str, int]) -> None:
        graph = signature.graph
        seen = dict.fromkeys(_value(slot, graph) for slot in slots)
        made = [var for var in seen if var not in graph.inputs]
        indices = {var: i for i, var in enumerate((*graph.inputs, *made))}
        self._file = to_bytes(_program(rename_dims(replace(graph, outputs=tuple(made)), sizes)))
        order = {var: i for i, var in enumerate(seen)}
        self._spreads = {s.what: order[s.what.var] for s in slots if isinstance(s.tally, Spread)}
        self._counted = [s.what for s in slots if isinstance(s.tally, Spread) and s.tally.is_total]
        operands = {s.what: (_value(s, graph), s.tally.terms) for s in slots if isinstance(s.tally, Moments)}
        self._summed = {what: (order[var], terms) for what, (var, terms) in operands.items()}
        self._rows = {what: known_size(var.type.shape, sizes) // terms for what, (var, terms) in operands.items()}
        self._looks = TallyRequest(
            tuple(indices[var] for var in seen),
            tuple(order[what.var] for what in self._counted),
            tuple(dict.fromkeys(self._summed.values())),
        )
        self._workers = LiteRtWorkers(self._file)
        self._works = True

    @classmethod
    def of(cls, signature: Signature, slots: Sequence[ObservedSlot], sizes: Mapping[str, int]) -> LiteRtLooks | None:
        """None if XLA must do it: for values in bodies and fused operators, states, data-dependent sizes."""
        graph = signature.graph
        if signature.states or signature.exposed or not slots or not all(map(_is_plain, graph.eqns)):
            return None
        own = {*graph.inputs, *(var for eqn in graph.eqns for var in eqn.outputs)}
        if not all(_is_outside(slot, own) for slot in slots):
            return None
        if sum(4 * known_size(v.type.shape, sizes) for v in own) > _BYTES:
            return None
        try:
            return cls(signature, slots, sizes)
        except JfuseError:  # an operator, or a form of it, that no file has
            return None

    def run(self, arrays: Sequence[np.ndarray]) -> Mapping[Observed, Record] | None:
        """Observe one call for each sample; None if LiteRT fails, or an operand is not finite."""
        if not self._works:
            return None
        try:
            seen = self._workers.look(arrays, self._looks)
        except (JfuseError, Refused):
            self._works = False
            return None
        if any(seen.others[:, place].any() for place, _ in self._looks.summed):
            return None
        counts = dict(zip(self._counted, seen.counts, strict=True))
        records = {
            what: Record.of_calls(-seen.ends[:, i, 0], seen.ends[:, i, 1], seen.others[:, i], counts.get(what))
            for what, i in self._spreads.items()
        }
        sums = dict(zip(self._looks.summed, seen.sums, strict=True))
        for what, of in self._summed.items():
            records[what] = Record(moments=np.append(sums[of], self._rows[what] * len(arrays[0]))[None])
        return records

    def close(self) -> None:
        """End the processes."""
        self._workers.close()


def _is_plain(eqn: Eqn) -> bool:
    """Whether LiteRT computes an equation as the kernel here does: of floats, alike in each call, of known sizes."""
    if not eqn.op.is_kernel or eqn.op.draws or eqn.bodies or eqn.effects or eqn.op.builtin not in BUILTIN_CODES:
        return False
    return not (is_changed(eqn) or keeps_state(eqn) or depends_on_data(eqn))


def _is_outside(slot: ObservedSlot, own: set[Var]) -> bool:
    """Whether a value is one of the graph's own, and its tally follows from its extremes, bins or sum."""
    if slot.what.var not in own:
        return False
    tally = slot.tally
    return not tally.squares and tally.windows is None if isinstance(tally, Moments) else not slot.what.part


def _value(slot: ObservedSlot, graph: Graph) -> Var:
    """The observed value: of a product, the operand."""
    if not isinstance(slot.tally, Moments):
        return slot.what.var
    operands = (eqn.inputs for eqn in graph.eqns if eqn.outputs[0] is slot.what.var)
    operand = next(operands)[slot.tally.operand]
    assert isinstance(operand, Var), "constants are not observed"
    return operand


def _program(graph: Graph) -> Program:
    graph = prepare_outputs(graph)
    inputs, outputs = (
        tuple(f"{w}_{i}" for i in range(len(of))) for w, of in (("input", graph.inputs), ("output", graph.outputs))
    )
    return Program((Signature("call", graph, inputs, outputs),))
