"""Variables and tables of a .tflite file where they stay resources: operators with an effect, in the file's order.

So are files read in which a variable is used within a loop or a branch, or begins with a value that is computed.
"""

from __future__ import annotations

from jfuse.ir.graph import Eqn
from jfuse.tflite.read.states import ON_VARIABLES
from jfuse.tflite.read.tables import ON_TABLES

ON_RESOURCES = ON_VARIABLES | ON_TABLES | {"HASHTABLE_FIND", "HASHTABLE_SIZE"}
"""Builtins that make, read or change a resource."""

_EFFECT = "resources"
_HANDLES = frozenset({"VAR_HANDLE", "HASHTABLE"})


def effects_of(eqn: Eqn) -> tuple[str, ...]:
    """The effect of an equation that works on resources, or one of whose bodies does."""
    builtin = eqn.op.builtin
    works = builtin in ON_RESOURCES - _HANDLES
    return (_EFFECT,) if works or any(inner.effects for body in eqn.bodies for inner in body.eqns) else ()
