"""Spellings of ops in other ops: for targets and number types whose kernels lack them. A new file adds its name here.

A spelling is a function of an equation and its operands; `registry.py` has the cases.
"""

from jfuse.lowering.spellings import elementwise, moves, recurrences, reductions
from jfuse.lowering.spellings.registry import Spelling, respelled, spelling_of, spellings_of

__all__ = (
    "Spelling",
    "elementwise",
    "moves",
    "recurrences",
    "reductions",
    "respelled",
    "spelling_of",
    "spellings_of",
)
