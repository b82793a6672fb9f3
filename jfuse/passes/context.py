"""What the passes of one conversion share: rules, options, the report, and passes that they run on parts of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jfuse.ir.graph import Graph
from jfuse.lowering.rules import DEFAULT, RuleSet
from jfuse.report import LoopForm, Report

Attributes: TypeAlias = Mapping[str, Any]
CustomOptions: TypeAlias = Attributes | bytes | bool | Callable[[Attributes], Attributes | bytes | None] | None
"""The options of a custom operator: the node's attributes (None, True), others, bytes, or what makes them of those."""


@dataclass(frozen=True)
class Lowered:
    """A graph in operators of a file, and the form that each of its loops would take."""

    graph: Graph
    loops: Sequence[LoopForm] = ()


@dataclass(frozen=True)
class SubPasses:
    """Passes that other passes run on parts of a graph. `jfuse.passes.pipeline`, which orders passes, says which.

    recover: finds composites in the body of a composite that is opened; single_steps: single steps, too. simplify: the
    step of a loop, before it is measured and repeated. as_lowered: what the passes after `fuse` make of a graph, for
    judging a fusion; compact: with loops of one step a turn, whatever form they take later, which is quick.
    The defaults leave a graph as it is: nothing comes after a pass that runs by itself.
    """

    recover: Callable[[Graph, Context, bool], Graph] = lambda graph, ctx, single_steps: graph
    simplify: Callable[[Graph], Graph] = lambda graph: graph
    as_lowered: Callable[[Graph, Context, bool], Lowered] = lambda graph, ctx, compact: Lowered(graph)


@dataclass
class Context:
    """Rules, options and report of one conversion. `on_stage` is told the name of each stage as it starts.

    state, padding, loop, prefer, select_tf_ops, custom_ops: as `jfuse.lower` has them. variables: the names of the
    source's variables, which are paths of layers. sub: what passes run on parts of a graph.
    """

    rules: RuleSet = field(default_factory=lambda: DEFAULT)
    report: Report = field(default_factory=Report)
    recover: bool = True
    state: str = "source"
    padding: str | None = None
    loop: str = "auto"
    prefer: str = "fused"
    on_stage: Callable[[str], None] = lambda stage: None
    variables: Sequence[str] = ()
    select_tf_ops: bool = False
    custom_ops: Mapping[str, CustomOptions] = field(default_factory=dict)
    sub: SubPasses = SubPasses()
