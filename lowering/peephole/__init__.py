"""Peephole rules: small rewrites among TFLite ops. A new file adds its line here; its rules run in this order.

A rule is a pattern (pattern.py), conditions with names, and a replacement (registry.py); `why_not` says which condition
refused an equation.
"""

from collections.abc import Callable, Mapping

from jfuse.ir.graph import Eqn, Graph, Op
from jfuse.lowering.peephole.arithmetic import (
    activation,
    affine,
    arithmetic,
    cast,
    channel_moves,
    normalizations,
    product,
    shared_scales,
    spelled_activations,
    uniform_constants,
)
from jfuse.lowering.peephole.fusion import attention, bidirectional, pad, strides
from jfuse.lowering.peephole.layout import (
    broadcast,
    layout_regions,
    reshape,
    sink_transpose,
    sizes,
    slicing,
    transpose,
)
from jfuse.lowering.peephole.registry import PeepholeRule, Rule, rules_of
from jfuse.lowering.peephole.view import GraphView

PEEPHOLE_RULES: Mapping[Op, tuple[Rule, ...]] = rules_of(
    (
        activation,
        reshape,
        transpose,
        affine,
        arithmetic,
        attention,
        sink_transpose,
        bidirectional,
        broadcast,
        cast,
        channel_moves,
        normalizations,
        pad,
        product,
        layout_regions,
        shared_scales,
        sizes,
        slicing,
        spelled_activations,
        strides,
        uniform_constants,
    )
)
"""The rules by the op of the last equation, in the order in which they are tried."""

GRAPH_REWRITES: tuple[Callable[[Graph, Callable[[Eqn], bool]], Graph], ...] = (
    bidirectional.pair_directions,
    lambda graph, rounds_weights: layout_regions.fewest_moves(graph),
    lambda graph, rounds_weights: normalizations.shared_differences(graph),
    shared_scales.affine_before_products,
)
"""Rewrites of what no single equation ends, tried once no rule applies any more. They return the same graph where they
find nothing. They know which equations will have their weights in few bits."""

__all__ = ["GRAPH_REWRITES", "PEEPHOLE_RULES", "GraphView", "PeepholeRule"]
