"""Recurrences that TFLite has no op for, by the names that they are known under, for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from jfuse.base.errors import JfuseError, NotFused
from jfuse.ir.graph import Atom, Op, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.recover.algebra.activations import activation_of, sigmoid_of
from jfuse.lowering.recover.algebra.expressions import Activation, Clamp, Expr, Leaf, Opaque, divided, parts, terms_of
from jfuse.lowering.recover.algebra.forms import row_size
from jfuse.lowering.recover.algebra.linear import LinearRow, linear_rows
from jfuse.lowering.recover.algebra.view import BodyView
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.rules import recovers

_NEAR = 10  # a name is worth more than where another cell differs
_CONVOLVED = 4  # rank of states that are images
_STABILIZED = 3  # states of an sLSTM at least: c, n and m; h as well
_PAIR, _NESTED = 2, 4  # states of a NAS cell, and activations in a row: LSTMs and GRUs have two
_ACTIVATIONS = frozenset({ops.tanh, ops.logistic, ops.relu})
_OF_MAXIMUM = frozenset({ops.maximum, ops.add, ops.sub, ops.neg})


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
    linear = _linear(step)
    if linear is not None:
        yield linear
    yield from _by_operators(step)


def _linear(step: Step) -> str | None:
    """The name of a recurrence h' = a h + b, element by element; None where a or b depends on the states."""
    carries, free = step.carries, [v for v in step.body.inputs if v not in step.carries]
    kinds = {(v.type.dtype, v.type.shape) for v in carries}
    if len(kinds) != 1 or not (carries[0].type.dtype.is_float or carries[0].type.dtype is DType.c64):
        return None
    rows: list[LinearRow] = []

    def values(*args: Any) -> list[Any]:
        given = dict(zip(free, args, strict=True))
        rows.extend(linear_rows(step.next_carries, step.body, carries, given) or ())
        return [f.value for row in rows for f in row.factors.values()]

    try:
        graph = trace_graph(values, [Var(v.type, value=v.value) for v in free])
    except JfuseError:
        return None
    if not rows:
        return None
    varying = any(isinstance(a, Var) for a in graph.outputs)
    states = "" if len(carries) == 1 else f", {len(carries)} states that read each other"
    factor = "a computed from data" if varying else "a constant"
    return f"a linear recurrence h' = a*h + b, {factor}, states of {carries[0].type}{states}"


def _by_operators(step: Step) -> Iterator[str]:
    """The names of cells that are known by the operators between their states."""
    depth: dict[Atom | None, int] = {v: 0 for v in step.carries if v.type.dtype.is_float}
    states = len(depth)
    kinds: set[Op] = set()
    for eqn in step.body.eqns:
        depths = [depth[a] for a in eqn.inputs if a in depth]
        if depths:
            kinds.add(eqn.op)
            depth.update(dict.fromkeys(eqn.outputs, max(depths) + (eqn.op in _ACTIVATIONS)))
    if states == 1 and ops.maximum in kinds and kinds <= _OF_MAXIMUM:
        yield "a running maximum h' = max(h + a, b), such as the stabilizer of an mLSTM or of RWKV"
    if states >= _STABILIZED and {ops.maximum, ops.exp, ops.div} <= kinds:
        yield f"exponential gates, a normalizer and a running maximum in {states} states (sLSTM)"
    if states == _PAIR and max(depth[a] for a in step.next_carries if a in depth) >= _NESTED:
        yield f"activations of activations, {_NESTED} or more in a row, in two states (a NAS cell or the like)"


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
