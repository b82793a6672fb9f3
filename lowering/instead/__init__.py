"""Other spellings of builtins, for targets without them. A new file adds its line here.

A spelling is a function of an equation that gives its results in other ops; `legalize_target` takes the first one of
which the target has every operator.
"""

from jfuse.lowering.instead import (
    axes,
    bidirectional,
    booleans,
    elementwise,
    indexing,
    joining,
    reductions,
    slicing,
    tile,
    updating,
    zeros,
)
from jfuse.lowering.instead.registry import Spelling, instead_of, spellings_of

__all__ = (
    "Spelling",
    "axes",
    "bidirectional",
    "booleans",
    "elementwise",
    "indexing",
    "instead_of",
    "joining",
    "reductions",
    "slicing",
    "spellings_of",
    "tile",
    "updating",
    "zeros",
)
