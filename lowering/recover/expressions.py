"""What a value of a loop body computes, element by element, as a tree; activations in it, and its terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from jfuse.errors import NotFused
from jfuse.ir.graph import Op, Var

_MOST_TERMS = 64
_SCALES = (1.0, 2.0, 0.5)
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
    """One constant for all elements."""

    value: float


@dataclass(frozen=True)
class Vector:
    """A constant for each element, as bytes of f64."""

    values: bytes


@dataclass(frozen=True)
class Sum:
    """Terms with their coefficients."""

    terms: tuple[tuple[float, Expr], ...]


@dataclass(frozen=True)
class Product:
    """Factors."""

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


Expr: TypeAlias = Leaf | Number | Vector | Sum | Product | Apply | Opaque | Activation
Monomial: TypeAlias = frozenset[tuple[Expr, int]]
Terms: TypeAlias = dict[Monomial, float]


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions right below."""
    if isinstance(expr, Sum):
        return tuple(term for _, term in expr.terms)
    if isinstance(expr, Product):
        return expr.factors
    if isinstance(expr, Apply):
        return expr.operands
    return (expr.operand,) if isinstance(expr, Activation) else ()


def ends(expr: Expr) -> Iterator[Expr]:
    """The expressions that nothing is below of."""
    below = parts(expr)
    if not below:
        yield expr
    for part in below:
        yield from ends(part)


def replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with `new` wherever `old` stood."""
    return new if expr == old else _rebuilt(expr, lambda part: replaced(part, old, new))


def with_activations(expr: Expr) -> Expr:
    """The expression with each part that computes an activation, of a leaf or by one op, replaced by an Activation."""
    argument = _argument(expr)
    found = None if argument is None else _activation(expr, argument)
    return _rebuilt(expr, with_activations) if found is None else found


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
            return f"{expr.function}({scale}{text(expr.operand)})"
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


def _argument(expr: Expr) -> Expr | None:
    """What the expression may be a function of: its only leaf, else the operand of its op."""
    leaves = {end for end in ends(expr) if not isinstance(end, Number)}
    if parts(expr) and len(leaves) == 1:
        return leaves.pop()
    return expr.operands[0] if isinstance(expr, Apply) and len(expr.operands) == 1 else None


def _activation(expr: Expr, argument: Expr) -> Activation | None:
    """The known function that the expression is of its argument, by its values."""
    with np.errstate(all="ignore"):
        values = _values(expr, argument, _GRID)
        for name, function in _FUNCTIONS.items():
            for scale in _SCALES:
                # 1e-6: constants such as 1/6 are rounded to f32 in the source; other activations differ by 1e-2.
                if np.allclose(values, function(scale * _GRID), rtol=0, atol=1e-6):
                    return Activation(name, scale, with_activations(argument))
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
