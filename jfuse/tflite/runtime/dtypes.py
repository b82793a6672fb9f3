"""The element types that the runtime's kernels take for tensors without quantization.

Measured on LiteRT 2.3.0, one operator at a time; what is listed runs with its default delegates and without them, so
f16 is not where XNNPACK alone has it. A kernel does not always refuse what it
does not take: i8 sums of i8 are taken for quantized with a scale of 0 (SUM, MUL answer 0) or end the process (ADD,
EQUAL). An op of jfuse whose row does not say what the kernel takes is refused.
"""

from __future__ import annotations

from jfuse.ir.graph import Atom, Eqn
from jfuse.ir.types import DType
from jfuse.tflite.runtime.broadcasting import lacks_broadcasting
from jfuse.tflite.runtime.row import KernelLimits
from jfuse.tflite.runtime.table import limits_of

_NO_ROW = "no row of jfuse/tflite/runtime/rows says what the runtime's kernel of {} takes"


def taken(builtin: str) -> tuple[frozenset[DType] | None, frozenset[DType] | None]:
    """The types that a builtin's kernel takes of the first result and of the first operand; None for every type."""
    limits = limits_of(builtin)
    return (None, None) if limits is None else (limits.result, limits.operand)


def refused(eqn: Eqn) -> Atom | None:
    """The operand or result of a builtin's equation whose type no kernel takes, if there is one."""
    limits = limits_of(eqn.op.builtin)
    atoms = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    if limits is None or any(a.type.quantization is not None for a in atoms):
        return None  # what the table is about is plain numbers
    if _is_text_of_another_rank(atoms[0], limits):
        return atoms[0]
    for types, sides in ((limits.operand, eqn.inputs[:1]), (limits.result, eqn.outputs[:1])):
        for atom in sides:
            if atom is not None and types is not None and atom.type.dtype not in types:
                return atom
    return None


def unsupported(eqn: Eqn) -> str | None:
    """Explain why no kernel takes the types of a builtin's equation; None where one does."""
    limits = limits_of(eqn.op.builtin)
    if limits is None:
        return _NO_ROW.format(eqn.op.builtin) if eqn.op.is_kernel else None
    atom = refused(eqn)
    if atom is None:
        return lacks_broadcasting(eqn)
    if _is_text_of_another_rank(atom, limits):
        return f"the runtime's kernel takes vectors of strings, not {atom.type}"
    types = (limits.operand if atom is eqn.inputs[0] else None) or limits.result or frozenset()
    return f"the runtime's kernel takes {', '.join(d.value for d in DType if d in types)}, not {atom.type}"


def _is_text_of_another_rank(atom: Atom, limits: KernelLimits) -> bool:
    return atom.type.dtype is DType.string and limits.string_rank not in (None, atom.type.rank)
