"""The sigmoid of tflite-micro: exp(x) for x below -9; exact enough for outputs near 1, but not for outputs of 1e-4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn, Graph, Program
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns, with_new_bodies
from jfuse.kernels import ops
from jfuse.kernels.core.operand import namespace
from jfuse.proof.inputs import CallInputs
from jfuse.quantization.real_numbers.numbers import Computed
from jfuse.verification.compare.wrong import WrongOutput, measured
from jfuse.verification.locate.inner_rounding import rounded_results

_BELOW = -9.0
"""Source: tflite/kernels/internal/reference/logistic.h. The error is at most exp(-18), 1.5e-8."""


@dataclass(frozen=True)
class MicroSigmoid:
    """Tells which differences of tflite-micro from a lowered program are its sigmoid of large negative numbers."""

    program: Program

    def excused(
        self, step: CallInputs, wrong: Sequence[WrongOutput], before: Sequence[CallInputs] = ()
    ) -> tuple[Sequence[WrongOutput], Sequence[str]]:
        """The wrong outputs of one call that remain, and a note on the others.

        Those others are, within their tolerance, the graph's with this sigmoid; and the reference's are the graph's.
        """
        signature = next(s for s in self.program.signatures if s.key == step.key)
        row = (*before, step) if signature.states else (step,)
        of_micro = [w for w in wrong if w.pair.endswith("/tflite-micro")]
        has_sigmoid = any(map(_is_sigmoid, all_eqns(signature.graph)))
        if not of_micro or not has_sigmoid or any(s.key != step.key for s in row):
            return wrong, ()
        exact = rounded_results(signature, row, None)
        as_micro = rounded_results(replace(signature, graph=_as_in_micro(signature.graph)), row, None)
        tiny = [
            w
            for w in of_micro
            if _agrees(w, w.found, as_micro.get(w.output)) and _agrees(w, w.wanted, exact.get(w.output))
        ]
        left = [w for w in wrong if w not in tiny]
        names = ", ".join(sorted({w.output for w in tiny}))
        note = f"{names} of {step.key!r}: tflite-micro takes exp(x) for the sigmoid of x below -9, off by up to 1.5e-8"
        return left, (note,) if tiny else ()


def _agrees(of: WrongOutput, side: np.ndarray, computed: np.ndarray | None) -> bool:
    if computed is None or computed.size != side.size:
        return False
    return measured(side, computed.reshape(side.shape).astype(side.dtype), of.tolerance).relative <= of.tolerance.value


def _is_sigmoid(eqn: Eqn) -> bool:
    return eqn.op is ops.logistic and eqn.outputs[0].type.dtype.is_float


def _as_in_micro(graph: Graph) -> Graph:
    """The graph with the sigmoid of tflite-micro, in bodies too."""
    eqns = (
        Eqn(_micro_sigmoid(e.outputs[0].type), e.inputs, e.outputs)
        if _is_sigmoid(e)
        else with_new_bodies(e, _as_in_micro)
        for e in graph.eqns
    )
    return replace(graph, eqns=tuple(eqns))


def _micro_sigmoid(of: TensorType) -> Computed:
    return Computed("computed.micro_sigmoid", (of,), _computed)


def _computed(x: Any) -> Any:
    xp = namespace(x)
    return xp.where(x < _BELOW, xp.exp(xp.minimum(x, 0)), 1 / (1 + xp.exp(-xp.maximum(x, _BELOW)))).astype(x.dtype)
