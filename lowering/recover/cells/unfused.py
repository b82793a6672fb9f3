"""Recurrences that TFLite has no op for, by the names that they are known under, for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from jfuse.base.errors import NotFused
from jfuse.ir.graph import Var
from jfuse.lowering.recover.algebra.activations import activation_of, sigmoid_of
from jfuse.lowering.recover.algebra.expressions import Activation, Clamp, Expr, Leaf, Opaque, divided, parts, terms_of
from jfuse.lowering.recover.algebra.forms import row_size
from jfuse.lowering.recover.algebra.view import BodyView
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.rules import recovers

_NEAR = 10  # a name is worth more than where another cell differs
_CONVOLVED = 4  # rank of states that are images


@recovers("jfuse.gru")
def recover_gru(step: Step) -> NoReturn:
    """Refuse GRUs and similar cells by name: TFLite has no op for them."""
    cell = next(_names(step), None)
    if cell is None:
        raise NotFused("not_gru", want="h' = sigmoid(z)*h + (1 - sigmoid(z))*act(g)", near=-2)
    raise NotFused("no_builtin_op", want="a cell that TFLite has", got=cell, near=_NEAR)


def _names(step: Step) -> Iterator[str]:
    images = [v for v in step.carries if v.type.dtype.is_float and v.type.rank >= _CONVOLVED]
    if images:
        name = "ConvLSTM or a like" if len(images) > 1 else "a convolutional recurrence"
        yield f"{name} with states of {', '.join(str(v.type) for v in images)}"
    after = dict(zip(step.carries, step.next_carries, strict=True))
    for h in step.carries:
        if h.type.dtype.is_float and h.type.rank == 2:
            cell = _gated(step.view, step.view.read(after[h]), h)
            if cell is not None:
                yield cell


def _gated(view: BodyView, expr: Expr, h: Var) -> str | None:
    """The name of a state that one gate moves from its old value to a new one."""
    state = view.reader.read(h)
    old, new = divided(terms_of(expr), state)
    keep = sigmoid_of(old)
    for factor in dict.fromkeys(f for monomial in new for f, _ in monomial):
        rest, others = divided(new, factor)
        admit = None if others else sigmoid_of(rest)
        if keep and admit and keep.operand == admit.operand and keep.scale == -admit.scale:
            return f"{_kind(view, factor, state)}, {row_size(h.type)} units, {_activation(factor)}, sigmoid"
    return None


def _activation(expr: Expr) -> str:
    activation = activation_of(expr)
    if activation is not None:
        return activation.function.lower()
    return expr.function if isinstance(expr, Activation) else "linear" if isinstance(expr, Leaf) else "custom"


def _kind(view: BodyView, new: Expr, state: Expr) -> str:
    operand = new.operand if isinstance(new, Activation | Clamp) else new
    if isinstance(operand, Leaf):
        reads = state.var in view.behind(operand) if isinstance(state, Leaf) else False
        return "minimal gated unit" if reads else "a gate on a value of the input alone (SRU, QRNN)"
    if any(_is_gated(monomial) for monomial in terms_of(operand)):
        return "GRU, reset_after=True"
    inner = [e.var for e in _opaque(operand)]
    sources = {s for var in inner for s in view.dependence.of(var)}
    resets = [s for s in sources if any((state, 1) in m and _is_gated(m) for m in terms_of(view.read(s)))]
    return "GRU, reset_after=False" if resets else "a gated unit"


def _is_gated(monomial: frozenset[tuple[Expr, int]]) -> bool:
    sigmoids = [f for f, _ in monomial if isinstance(f, Activation) and f.function == "sigmoid"]
    return len(monomial) == 2 and len(sigmoids) == 1


def _opaque(expr: Expr) -> Iterator[Opaque]:
    if isinstance(expr, Opaque):
        yield expr
    for part in parts(expr):
        yield from _opaque(part)
