"""Fake quantization and casts to integers in a graph: between two steps either is right, as a rounding decides.

Beyond the type of a cast any integer is right: C++ leaves it open, and TensorFlow gives several within one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.case_distinctions import makes_integers
from jfuse.proof.plain_integers import ends_of_type
from jfuse.running.runner import Runner

_NODES = ("FakeQuantWithMinMax", "fake_quantize_per_")  # as TensorFlow's and PyTorch's nodes of it begin
_ROUNDINGS = 8  # in which the same step may be spelled otherwise: its number times its width, from the least one on


@dataclass(frozen=True)
class StepFunction:
    """Equations that round one operand to steps: the greater it is, the greater each element of the result.

    of_node: the node of the source that they are.
    """

    operand: Var
    eqns: tuple[Eqn, ...]
    result: Var
    of_node: str

    def may_give(self, operand: np.ndarray, result: np.ndarray, slack: float) -> bool:
        """Whether the result is that of the operand with each element moved by at most a slack."""
        run = Runner(Graph("steps", (self.operand,), self.eqns, (self.result,)), quick=True)
        (low,), (high,) = (run([(operand + by).astype(operand.dtype)]) for by in (-slack, slack))
        if result.shape != low.shape:
            return False
        if result.dtype.kind in "iu":
            return bool(((low <= result) & (result <= high) | self.leaves_open(operand, slack)).all())
        rounding = _ROUNDINGS * np.finfo(result.dtype).eps * np.abs(result).max(initial=0.0)
        return bool(((low - rounding <= result) & (result <= high + rounding)).all())

    def leaves_open(self, operand: np.ndarray, slack: float) -> np.ndarray:
        """The elements for which no result is wrong: numbers beyond the integers that they are cast to, and NaN."""
        if not self.result.type.dtype.is_integer:
            return np.zeros(operand.shape, bool)
        (least, end), wide = ends_of_type(self.result.type), operand.astype(np.float64)
        return ~((wide - slack > least - 1.0) & (wide + slack < end))


def step_functions(graph: Graph) -> Iterator[StepFunction]:
    """The fake quantizations of a graph (FAKE_QUANT, or the arithmetic of a node), and its casts to integers."""
    nodes: dict[str, list[Eqn]] = {}
    for eqn in graph.eqns:
        names = (eqn.source.op, eqn.source.node.rpartition("/")[2])  # files have names of nodes alone
        is_of_node = any(node in name for node in _NODES for name in names)
        if makes_integers(eqn):
            nodes[f"cast {id(eqn)}"] = [eqn]
        elif eqn.op is ops.fake_quant or is_of_node:
            nodes.setdefault(str(eqn.source) or f"equation {id(eqn)}", []).append(eqn)
    for eqns in nodes.values():
        made = {v for e in eqns for v in e.outputs}
        read = {a for e in eqns for a in e.inputs if isinstance(a, Var)} - made
        if len(read) == 1 and len(eqns[-1].outputs) == 1 and not any(e.bodies for e in eqns):
            yield StepFunction(read.pop(), tuple(eqns), eqns[-1].outputs[0], eqns[-1].source.node)


def by_result(graph: Graph) -> Mapping[Var, StepFunction]:
    """The step functions by their results."""
    return {steps.result: steps for steps in step_functions(graph)}
