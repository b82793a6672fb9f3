"""Open sizes that broadcasting needs to be equal, where one of them has a limit: min(12, N) beside N."""

from __future__ import annotations

from collections.abc import Sequence

from jfuse.ir.dims import Dim, is_known, limits, same
from jfuse.ir.graph import Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor


def agreeing(*operands: Array) -> tuple[Array, ...]:
    """The operands of an op that broadcasts, each with the sizes that the others say it must have.

    `table[:n]` has min(12, n) rows, and with n rows of something else the op is right for n up to 12 alone: TensorFlow
    refuses more, and so does the RESHAPE here; `other[:, :n]`, of min(m, n) rows, is right where m is n or more.
    (Symbols are equated by the op itself.)
    """
    if sum(isinstance(x, Var) for x in operands) < 2:
        return operands
    return tuple(_agreeing(x, operands) for x in operands)


def fitted(x: Array, shape: Sequence[Dim], *sources: Array) -> Array:
    """x, which is broadcast to `shape`, with the sizes that this says it must have. `sources` as for `shape_tensor`."""
    if not isinstance(x, Var) or len(x.shape) > len(shape):
        return x
    wanted = shape[len(shape) - len(x.shape) :]
    return _of_sizes(x, [_unlimited(d, [e]) for d, e in zip(x.shape, wanted, strict=True)], [x, *sources])


def _agreeing(x: Array, operands: Sequence[Array]) -> Array:
    if not isinstance(x, Var):
        return x
    axes = range(-len(x.shape), 0)
    sizes = [_unlimited(x.shape[a], [y.shape[a] for y in operands if len(y.shape) >= -a]) for a in axes]
    return _of_sizes(x, sizes, operands)


def _of_sizes(x: Var, sizes: Sequence[Dim], sources: Sequence[Array]) -> Array:
    """x with these sizes, which it has at run time or the model is wrong there."""
    if all(d is e for d, e in zip(sizes, x.shape, strict=True)):
        return x
    return ops.reshape(x, shape_tensor(sizes, sources))


def _unlimited(dim: Dim, others: Sequence[Dim]) -> Dim:
    """The one of other sizes at the same place that `dim` is but for a limit; `dim` where none is."""
    parts = limits(dim, "min")
    if any(is_known(p) and p < 2 for p in parts):  # an axis that broadcasts
        return dim
    return next((d for d in others if any(same(d, p) and not is_known(d) for p in parts)), dim)
