"""Choices among NaNs: where an ARG_MAX or a comparison meets a NaN, every runtime takes another element."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Signature, Var
from jfuse.ir.walk import live_eqns
from jfuse.running.runner import Runner
from jfuse.verification.compare.ties import chooses
from jfuse.verification.subject import Arrays


def chooses_among_nans(signature: Signature, inputs: Arrays, outputs: Iterable[str]) -> bool:
    """Whether a choice that one of the outputs depends on has a NaN among its operands, in a first call."""
    graph, names = signature.graph, set(outputs)
    live = live_eqns(graph, [a for n, a in zip(signature.output_names, graph.outputs, strict=False) if n in names])
    chosen = [a for e in live if chooses(e) for a in e.inputs if isinstance(a, Var) and a.type.dtype.is_float]
    if signature.states or not chosen:
        return False
    before = replace(graph, eqns=live, outputs=tuple(dict.fromkeys(chosen)))
    try:
        values = Runner(before, quick=True)([inputs[name] for name in signature.input_names])
    except JfuseError:  # what the graph holds cannot be run by itself
        return False
    return any(bool(np.isnan(value).any()) for value in values)
