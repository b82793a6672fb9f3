"""Small rewrites among TFLite ops. A new file adds its line here; its rules run in this order."""

from jfuse.lowering.merge import activation, arithmetic, bias, cast, reshape, sink, slicing, transpose
from jfuse.lowering.merge.registry import MERGES, Merge, View, merges

__all__ = [
    "MERGES",
    "Merge",
    "View",
    "activation",
    "arithmetic",
    "bias",
    "cast",
    "merges",
    "reshape",
    "sink",
    "slicing",
    "transpose",
]
