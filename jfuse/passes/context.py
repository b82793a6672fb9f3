"""`Context`: the rules, options and report that the passes of one conversion share, and the passes that others run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from jfuse.ir.graph import Const, Eqn, Graph, Program
from jfuse.lowering.rules import DEFAULT, RuleSet
from jfuse.passes.options import Forms, OnStage, Pipeline
from jfuse.quantization.moments import Moments
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.statistics import Observed, Statistics
from jfuse.records.conversion import LoopForm, Report
from jfuse.tflite.names import equation_name
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.target import Target


@dataclass(frozen=True)
class Lowered:
    """A graph in operators of a file, and the form that each of its loops would take."""

    graph: Graph
    loops: Sequence[LoopForm] = ()


@dataclass(frozen=True)
class SubPasses:
    """Passes that other passes run on parts of a graph. `jfuse.passes.pipeline`, which orders passes, says which.

    recover: finds composites in the body of a composite that is opened; single_steps: single steps, too. simplify: the
    step of a loop, before it is measured and repeated; done: what became of the bodies that it was asked for before.
    as_lowered: what the passes after `fuse` make of a graph, for judging a fusion; compact: with loops of one step each
    turn, whatever form they take later, which is quick. in_loops: scans that were made late as loops of the file.
    last_steps: scans with the state that they end with where the last of its collected values was read.
    The defaults leave a graph as it is: nothing comes after a pass that runs by itself.
    """

    recover: Callable[[Graph, Context, bool], Graph] = lambda graph, ctx, single_steps: graph
    simplify: Callable[[Graph, Context, dict[Graph, Graph]], Graph] = lambda graph, ctx, done: graph
    as_lowered: Callable[[Graph, Context, bool], Lowered] = lambda graph, ctx, compact: Lowered(graph)
    in_loops: Callable[[Graph, Context], Graph] = lambda graph, ctx: graph
    last_steps: Callable[[Graph], Graph] = lambda graph: graph


Calibrate: TypeAlias = Callable[
    [Program, Sequence[Observed], Sequence[Observed], Mapping[Observed, Moments]], Statistics
]
"""Calibrates a program on representative data: the values to watch, those of them that need histograms, and the
moments of products' operands."""


@dataclass
class Context:
    """Rules, options and report of one conversion. `on_stage` is called with the name of each stage as it starts.

    target: what the file is for. variables: the names of the source's variables, which are paths of layers.
    sub: what passes run on parts of a graph.
    recipe: how to quantize; None for not at all. calibrate: finds ranges for it. halves: whether the source keeps
    constants in f16: so does what stays float. whiles: of a file that is quantized the sources of its WHILE operators,
    which stay WHILE unless an option asks for another form; what was written step by step stays so. None for other
    sources.
    """

    rules: RuleSet = field(default_factory=lambda: DEFAULT)
    report: Report = field(default_factory=Report)
    forms: Forms = field(default_factory=Forms)
    pipeline: Pipeline = field(default_factory=Pipeline)
    target: Target = field(default_factory=lambda: target_named("litert"))
    on_stage: OnStage = lambda stage: None
    variables: Sequence[str] = ()
    sub: SubPasses = SubPasses()
    recipe: Recipe | None = None
    calibrate: Calibrate | None = None
    halves: bool = False
    whiles: frozenset[str] | None = None

    def rounds_weights(self, eqn: Eqn) -> bool:
        """Whether the recipe keeps constant weights of an equation in 8 bits or fewer."""
        if self.recipe is None:
            return False
        rule = self.recipe.rule_for(equation_name(eqn), str(eqn.op.builtin))
        largest = max((a.array.size for a in eqn.inputs if isinstance(a, Const)), default=0)
        return rule.mode not in ("float", "float16") and largest >= rule.min_elements


@dataclass(frozen=True)
class Attempt:
    """A program that was quantized in one way, and the report of that."""

    program: Program
    report: Report
