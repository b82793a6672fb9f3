"""Small rewrites among TFLite ops. A new file adds its line here; its rules run in this order."""

from collections.abc import Callable

from jfuse.ir.graph import Graph
from jfuse.lowering.merge import (
    activation,
    affine,
    arithmetic,
    attention,
    bidirectional,
    broadcast,
    cast,
    dilation,
    moves,
    normal,
    pad,
    product,
    regions,
    reshape,
    reverse,
    shared,
    sink,
    slicing,
    spelled,
    strides,
    transpose,
    uniform,
)
from jfuse.lowering.merge.registry import MERGES, Merge, View, merges

GRAPH_MERGES: tuple[Callable[[Graph], Graph], ...] = (
    bidirectional.pair_directions,
    regions.fewest_moves,
    normal.shared_differences,
    shared.affine_before_products,
)
"""Rewrites of what no single equation ends, tried once no rule applies any more. They return the same graph where they
find nothing."""

__all__ = [
    "GRAPH_MERGES",
    "MERGES",
    "Merge",
    "View",
    "activation",
    "affine",
    "arithmetic",
    "attention",
    "bidirectional",
    "broadcast",
    "cast",
    "dilation",
    "merges",
    "moves",
    "normal",
    "pad",
    "product",
    "regions",
    "reshape",
    "reverse",
    "shared",
    "sink",
    "slicing",
    "spelled",
    "strides",
    "transpose",
    "uniform",
]
