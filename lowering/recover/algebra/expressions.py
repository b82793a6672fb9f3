"""Expression trees of the values of a loop body, element by element; their terms, and activations in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from jfuse.base.errors import NotFused
from jfuse.ir.graph import Op, Var
from jfuse.kernels import ops

_MOST_TERMS = 64
_ENDLESS = float("inf")
_SCALES = (1.0, 2.0, 0.5, -1.0, -2.0, -0.5)
_GRID = np.linspace(-6, 6, 49)
_FUNCTIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda t: 1 / (1 + np.exp(-t)),
    "tanh": np.tanh,
}


@dataclass(frozen=True)
class Leaf:
    """Elements of a value that is taken as it is: `index` are places in the flattened tensor, as bytes of i64.

    number: counts leaves as they are met, so that texts come out the same on every run.
    """

    var: Var
    index: bytes
    number: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Number:
    """A constant that all elements share, as a float."""

    value: float


@dataclass(frozen=True)
class Vector:
    """A constant for each element, as bytes of f64."""

    values: bytes


@dataclass(frozen=True)
class Sum:
    """A sum of terms, each with a coefficient."""

    terms: tuple[tuple[float, Expr], ...]


@dataclass(frozen=True)
class Product:
    """A product of expressions."""

    factors: tuple[Expr, ...]


@dataclass(frozen=True)
class Apply:
    """An elementwise op that is neither a sum nor a product."""

    op: Op
    params: tuple[tuple[str, Any], ...]
    operands: tuple[Expr, ...]


@dataclass(frozen=True)
class Opaque:
    """A value that is not elementwise in anything simpler."""

    op: Op
    var: Var
    index: bytes
    number: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Activation:
    """sigmoid(scale * operand) or tanh(scale * operand), however it is spelled."""

    function: str
    scale: float
    operand: Expr


@dataclass(frozen=True)
class Clamp:
    """The operand within [low, high], however it is spelled. `spelled`: the applications of ops that say so."""

    low: float
    high: float
    operand: Expr
    spelled: tuple[Apply, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Norm:
    """The leaf's rows with mean 0 and variance 1 (`epsilon` added to it), times `scale`, plus `shift`: bytes of f64.

    var: the value that computes it.
    """

    leaf: Leaf
    scale: bytes
    shift: bytes
    epsilon: float
    var: Var


Expr: TypeAlias = Leaf | Number | Vector | Sum | Product | Apply | Opaque | Activation | Clamp | Norm
Monomial: TypeAlias = frozenset[tuple[Expr, int]]
Terms: TypeAlias = dict[Monomial, float]


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions right below one: its terms, factors or operand."""
    if isinstance(expr, Sum):
        return tuple(term for _, term in expr.terms)
    if isinstance(expr, Product):
        return expr.factors
    if isinstance(expr, Apply):
        return expr.operands
    return (expr.operand,) if isinstance(expr, Activation | Clamp) else ()


def ends(expr: Expr) -> Iterator[Expr]:
    """The expressions that nothing is below of."""
    below = parts(expr)
    if not below:
        yield expr
    for part in below:
        yield from ends(part)


def clamps(expr: Expr) -> Iterator[Clamp]:
    """The clamps in an expression, at any depth."""
    if isinstance(expr, Clamp):
        yield expr
    for part in parts(expr):
        yield from clamps(part)


def canonical(expr: Expr) -> Expr:
    """The expression with each part that is an activation or a clamp as an Activation or Clamp, however it is spelled.

    Clamps are read from structure. Activations are known by their values, so only parts without case distinctions are.
    """
    return _clamp(expr) or _activation(expr) or _rebuilt(expr, canonical)


def divided(terms: Terms, factor: Expr) -> tuple[Terms, Terms]:
    """The terms that have a factor exactly once, without it; and the others."""
    having = {m: v for m, v in terms.items() if (factor, 1) in m}
    others = {m: v for m, v in terms.items() if m not in having}
    return {m - {(factor, 1)}: v for m, v in having.items()}, others


def scaled_leaf(expr: Expr) -> tuple[float, Leaf | None]:
    """The factor and the leaf of an expression that is a multiple of one."""
    terms = terms_of(expr)
    if len(terms) == 1:
        ((monomial, factor),) = terms.items()
        leaves = [f for f, n in monomial if n == 1 and isinstance(f, Leaf)]
        if len(monomial) == len(leaves) == 1:
            return factor, leaves[0]
    return 0.0, None


def expression(terms: Terms) -> Expr:
    """The terms as a sum of products."""
    return Sum(tuple((v, _product([f for f, n in m for _ in range(n)])) for m, v in terms.items()))


def _product(factors: list[Expr]) -> Expr:
    return factors[0] if len(factors) == 1 else Product(tuple(factors)) if factors else Number(1.0)


def terms_of(expr: Expr) -> Terms:
    """The expression multiplied out: products of factors, each with its coefficient."""
    if isinstance(expr, Number):
        return {frozenset(): expr.value} if expr.value else {}
    if isinstance(expr, Sum):
        return _added((coefficient, terms_of(term)) for coefficient, term in expr.terms)
    if isinstance(expr, Product):
        return reduce(_multiplied, (terms_of(f) for f in expr.factors), {frozenset(): 1.0})
    return {frozenset({(expr, 1)}): 1.0}


def text_of(terms: Terms) -> str:
    """The terms in a line, leaves as letters in the order in which they occur."""
    letters: dict[Expr, str] = {}

    def text(expr: Expr) -> str:
        if isinstance(expr, Activation):
            scale = "" if expr.scale == 1 else f"{expr.scale:g}*"
            inner = (
                text(expr.operand) if not isinstance(expr.operand, Sum | Product) else text_of(terms_of(expr.operand))
            )
            return f"{expr.function}({scale}{inner})"
        if isinstance(expr, Clamp):
            return f"clip({text_of(terms_of(expr.operand))}, {expr.low:g}, {expr.high:g})"
        if isinstance(expr, Norm):
            return f"norm({text(expr.leaf)})"
        if isinstance(expr, Apply):
            return f"{expr.op.name}({', '.join(text_of(terms_of(o)) for o in expr.operands)})"
        if isinstance(expr, Opaque):
            return f"{expr.op.name}(…)"
        return letters.setdefault(expr, "abdegijklmnpqrstuvwxyz"[len(letters) % 22])

    def line(monomial: Monomial, coefficient: float) -> str:
        factors = [text(f) + (f"^{n}" if n > 1 else "") for f, n in sorted(monomial, key=_order)]
        shown = [] if coefficient == 1 and factors else [f"{coefficient:g}"]
        return "*".join([*shown, *factors])

    return " + ".join(line(m, c) for m, c in terms.items()) or "0"


def _order(factor: tuple[Expr, int]) -> tuple[bool, list[int]]:
    """Activations first, each kind in the order in which its leaves were met."""
    expr = factor[0]
    return not parts(expr), [end.number for end in ends(expr) if isinstance(end, Leaf | Opaque)]


def _rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    if isinstance(expr, Sum):
        return Sum(tuple((coefficient, change(term)) for coefficient, term in expr.terms))
    if isinstance(expr, Product):
        return Product(tuple(change(f) for f in expr.factors))
    if isinstance(expr, Apply):
        return Apply(expr.op, expr.params, tuple(change(o) for o in expr.operands))
    return expr


# Clamps


_BOUNDS = {ops.relu: (0.0, _ENDLESS), ops.relu6: (0.0, 6.0), ops.relu_n1_to_1: (-1.0, 1.0)}
_GREATER = {ops.greater: True, ops.greater_equal: True, ops.less: False, ops.less_equal: False}


def _clamp(expr: Expr) -> Clamp | None:
    """Bounds that are put around one operand, one by one: each narrows what is there, or replaces it."""
    bounds = _bounds(expr)
    if bounds is None:
        return None
    low, high, operand, spelled = bounds
    inner = _clamp(operand)
    if inner is None:
        return Clamp(low, high, canonical(operand), spelled)
    least, most = (min(max(bound, low), high) for bound in (inner.low, inner.high))
    return Clamp(least, most, inner.operand, (*spelled, *inner.spelled))


def _bounds(expr: Expr) -> tuple[float, float, Expr, tuple[Apply, ...]] | None:
    if not isinstance(expr, Apply):
        return None
    if expr.op in _BOUNDS:
        return (*_BOUNDS[expr.op], expr.operands[0], (expr,))
    if expr.op in (ops.maximum, ops.minimum):
        numbers = [o.value for o in expr.operands if isinstance(o, Number)]
        others = [o for o in expr.operands if not isinstance(o, Number)]
        if len(numbers) == len(others) == 1:
            return (*_half(numbers[0], expr.op is ops.maximum), others[0], (expr,))
    return _chosen(expr) if expr.op in (ops.select, ops.select_v2) else None


def _chosen(expr: Apply) -> tuple[float, float, Expr, tuple[Apply, ...]] | None:
    """`a if a > k else k` and its like."""
    condition, first, second = expr.operands
    if not isinstance(condition, Apply) or condition.op not in _GREATER:
        return None
    left, right = condition.operands
    is_greater = _GREATER[condition.op]
    if isinstance(left, Number):
        left, right, is_greater = right, left, not is_greater
    if not isinstance(right, Number) or {first, second} != {left, right}:
        return None
    return (*_half(right.value, is_greater is (first == left)), left, (expr, condition))


def _half(bound: float, is_least: bool) -> tuple[float, float]:
    return (bound, _ENDLESS) if is_least else (-_ENDLESS, bound)


# Activations


def _activation(expr: Expr) -> Activation | None:
    """The known function that an expression is of one of its parts, by its values."""
    for argument in _arguments(expr):
        if _is_analytic(expr, argument):
            activation = _known_function(expr, argument)
            if activation is not None:
                return activation
    return None


def _arguments(expr: Expr) -> list[Expr]:
    """List the parts that an expression may be a function of, the innermost first."""
    arguments: list[Expr] = []
    below = _varying(expr)
    while len(below) == 1:
        (part,) = below
        arguments.append(part)
        below = _varying(part)
    leaves = {end for end in ends(expr) if not isinstance(end, Number)}
    if len(leaves) == 1 and parts(expr) and not leaves & set(arguments):
        arguments.append(leaves.pop())
    return arguments[::-1]


def _varying(expr: Expr) -> set[Expr]:
    return {part for part in parts(expr) if not isinstance(part, Number)}


def _is_analytic(expr: Expr, argument: Expr) -> bool:
    """Whether an expression reaches its argument without a case distinction."""
    if expr == argument:
        return True
    told_apart = isinstance(expr, Apply) and expr.op.switch is not None
    return not told_apart and not isinstance(expr, Clamp) and all(_is_analytic(p, argument) for p in parts(expr))


def _known_function(expr: Expr, argument: Expr) -> Activation | None:
    with np.errstate(all="ignore"):
        values = _values(expr, argument, _GRID)
        for name, function in _FUNCTIONS.items():
            for scale in _SCALES:
                # 1e-6: constants such as 1/6 are rounded to f32 in the source; other activations differ by 1e-2.
                if np.allclose(values, function(scale * _GRID), rtol=0, atol=1e-6):
                    return Activation(name, scale, canonical(argument))
    return None


def _values(expr: Expr, argument: Expr, t: np.ndarray) -> np.ndarray:
    if expr == argument:
        return t
    if isinstance(expr, Number):
        return np.full_like(t, expr.value)
    if isinstance(expr, Sum):
        return sum((coefficient * _values(term, argument, t) for coefficient, term in expr.terms), np.zeros_like(t))
    if isinstance(expr, Product):
        return reduce(np.multiply, (_values(f, argument, t) for f in expr.factors), np.ones_like(t))
    if isinstance(expr, Activation):
        return _FUNCTIONS[expr.function](expr.scale * _values(expr.operand, argument, t))
    if isinstance(expr, Apply):
        (result,) = expr.op.run([_values(o, argument, t) for o in expr.operands], dict(expr.params), ())
        return np.asarray(result)
    raise AssertionError(f"{expr} is below an expression of another leaf")


def _added(parts_: Iterator[tuple[float, Terms]]) -> Terms:
    total: Terms = {}
    for coefficient, terms in parts_:
        for monomial, value in terms.items():
            total[monomial] = total.get(monomial, 0.0) + coefficient * value
    return {m: v for m, v in total.items() if v}


def _multiplied(a: Terms, b: Terms) -> Terms:
    if len(a) * len(b) > _MOST_TERMS:
        raise NotFused("not_lstm", want=f"up to {_MOST_TERMS} terms", got=len(a) * len(b))
    return _added((1.0, {_joined(m, n): v * w}) for m, v in a.items() for n, w in b.items())


def _joined(m: Monomial, n: Monomial) -> Monomial:
    return frozenset((Counter(dict(m)) + Counter(dict(n))).items())
