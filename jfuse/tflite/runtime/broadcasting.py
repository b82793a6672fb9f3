"""Broadcasting in the runtime's kernels: most do it up to 8 axes; some do not, and answer wrongly where it is needed.

Measured on LiteRT 2.3.0 with and without its default delegates. Beyond 8 axes most kernels end the process.
"""

from __future__ import annotations

from jfuse.ir.dims import Shape, same
from jfuse.ir.graph import Eqn
from jfuse.tflite.runtime.table import limits_of


def lacks_broadcasting(eqn: Eqn) -> str | None:
    """Explain why an elementwise kernel cannot take operands of different shapes; None where it can."""
    if not eqn.op.elementwise:
        return None
    shapes = [a.type.shape for a in eqn.inputs if a is not None]
    if all(is_same_shape(shape, shapes[0]) for shape in shapes):
        return None
    limits = limits_of(eqn.op.builtin)
    if limits is None:
        return None  # `unsupported` refuses it whatever its shapes
    if not limits.broadcasts:
        return "the runtime's kernel does not broadcast"
    if max(map(len, shapes)) > limits.broadcasts:
        return f"the runtime's kernel broadcasts {limits.broadcasts} axes at most"
    return None


def is_same_shape(shape: Shape, other: Shape) -> bool:
    """Whether two shapes are surely the same, whatever the sizes at run time."""
    return len(shape) == len(other) and all(same(d, e) is True for d, e in zip(shape, other, strict=True))
