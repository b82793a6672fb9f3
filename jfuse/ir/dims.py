"""Dimensions: an int, or a symbolic expression over sizes that are known only at run time.

Symbols are jax.export's, so that kernels type-check on them. jax refuses to mix scopes, and a symbol carries no
constraint of its own here, so one scope serves every model: the names are what tells symbols apart, and each model
hands out its own names (`SymbolNames`).
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from tokenize import TokenError
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from jax import export
from jax.core import max_dim, min_dim
from jax.errors import InconclusiveDimensionOperation

SCOPE = export.SymbolicScope()
SymbolicDim: TypeAlias = Any  # jax.export keeps the class private; `is_known` is the test for it
Dim: TypeAlias = int | SymbolicDim
Shape: TypeAlias = tuple[Dim, ...]

_NAME = re.compile(r"[A-Za-z_]\w*")
FUNCTIONS = {  # the ones jax.export prints
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max_dim,
    "min": min_dim,
}


def symbol(text: str) -> Dim:
    """The dimension that `text` denotes: a name ("B"), an expression ("20*B") or a number ("4").

    Raises ValueError where it denotes none.
    """
    try:
        (dim,) = export.symbolic_shape(text, scope=SCOPE)
    except TokenError as error:  # jax reads dimensions with Python's tokenizer, which is stricter from 3.12 on
        raise ValueError(f"{text!r} is no dimension") from error
    return int(dim) if is_known(dim) else dim


def is_known(dim: Dim) -> bool:
    """True where the size is a number now."""
    return not export.is_symbolic_dim(dim)


def same(d: Dim, e: Dim) -> bool | None:
    """Whether two dimensions are equal: True, False, or None where that depends on run-time sizes."""
    if d is e or (isinstance(d, int) and isinstance(e, int)):
        return d == e
    difference = d - e
    if is_known(difference):
        return int(difference) == 0
    signs = _signs(str(difference))
    if 0 in signs or len(signs) > 1:
        return True if signs == {0} and _is_zero(str(difference)) else None
    try:
        return False if difference >= 1 or difference <= -1 else None
    except InconclusiveDimensionOperation:
        return None


_TRIED = (1, 2, 3, 7, 40, 64, 1000, 999)
"""Sizes for `_signs`: small and large, odd and even, multiples of strides and their neighbours."""


@lru_cache(maxsize=4096)
def _signs(text: str) -> frozenset[int]:
    """The signs that a dimension has at some sizes: jax's bounds take exponential time in quotients and limits."""
    names = sorted(set(_NAME.findall(text)) - FUNCTIONS.keys())
    signs: set[int] = set()
    for place in range(len(_TRIED)):
        sizes = {name: _TRIED[place * (i + 1) % len(_TRIED)] for i, name in enumerate(names)}
        try:
            signs.add(int(np.sign(int(computed(text, sizes, FUNCTIONS)))))
        except ZeroDivisionError:  # a size divided by another one
            continue
    return frozenset(signs)


@lru_cache(maxsize=4096)
def _is_zero(text: str) -> bool:
    """Whether a dimension is 0 whatever is limited in it: max(0, X) is 0, or a number from 1 on, such as a symbol."""
    inner = None if "^" in text else next(_innermost_limits(text), None)
    if inner is None:
        return False
    number = "limited_"
    while number in text:  # one for each limit: two of them are two numbers
        number += "_"
    cases = (symbol(text.replace(inner, value)) for value in ("0", number))
    return all(int(d) == 0 if is_known(d) else _is_zero(str(d)) for d in cases)


def _innermost_limits(text: str) -> Iterator[str]:
    """Yield each max(0, X) where X has no limits."""
    for call in ast.walk(_parsed(text)):
        match call:
            case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=0), inner]):
                if not any(isinstance(n, ast.Name) and n.id in ("max", "min") for n in ast.walk(inner)):
                    yield ast.get_source_segment(text, call) or ""


def product(shape: Shape) -> Dim:
    """The number of elements of a shape."""
    size: Dim = 1
    for dim in shape:
        size = size * dim
    return size


def broadcast_shape(shapes: Sequence[Shape]) -> Shape | None:
    """The shape of operands that broadcast, axes aligned at the end; None where open or unequal sizes meet."""
    result: list[Dim] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        dims = [s[-axis] for s in shapes if len(s) >= axis]
        wide = [d for d in dims if not (is_known(d) and d == 1)]
        if any(same(wide[0], d) is not True for d in wide[1:]):
            return None
        result.append(wide[0] if wide else 1)
    return tuple(int(d) if is_known(d) else d for d in reversed(result))


def floor_divided(dim: Dim, divisor: int) -> Dim:
    """dim // divisor, in one form for all ways of writing it: (B - 1) // 2 + 1 and (B + 1) // 2 are the same.

    So are 4*B // 8 and B // 2, and a quotient of a quotient and one quotient: windows over windows over a sequence;
    -B // 4 and -((B + 3) // 4), as what is rounded up is written. jax.export keeps them apart, `same` could not tell,
    and its bounds take exponential time in nested quotients.
    """
    if is_known(dim):
        return int(dim) // divisor
    if inner := _single_quotient(dim):
        numerator, first, rest = inner
        return floor_divided(numerator + rest * first, first * divisor)
    for factor in _prime_factors(divisor):
        if same(dim // factor * factor, dim):
            dim, divisor = dim // factor, divisor // factor
    try:
        constant, next_ = (substitute_dim(dim, dict.fromkeys(symbols_of(dim), n)) for n in (0, 1))
    except ZeroDivisionError:  # a size divided by another one
        return dim // divisor
    if next_ < constant:
        return -floor_divided(divisor - 1 - dim, divisor)
    return (dim - constant + constant % divisor) // divisor + constant // divisor


def quotient(dim: Dim, divisor: Dim) -> Dim:
    """dim // divisor, in one form where the divisor is a positive number."""
    return floor_divided(dim, int(divisor)) if is_known(divisor) and divisor > 0 else dim // divisor


def remainder(dim: Dim, divisor: int) -> Dim:
    """dim modulo divisor: what quotients leave, so that a size and what it is padded with are seen to be a multiple."""
    return dim - divisor * floor_divided(dim, divisor)


def _single_quotient(dim: Dim) -> tuple[Dim, int, int] | None:
    """The numerator, the divisor and what is added, of a dimension that is one quotient by a number and a constant."""
    match _parsed(str(dim)).body:
        case ast.BinOp(left=quotient, op=ast.Add(), right=ast.Constant(value=int() as rest)):
            pass
        case ast.BinOp(left=quotient, op=ast.Sub(), right=ast.Constant(value=int() as less)):
            rest = -less
        case quotient:
            rest = 0
    match quotient:
        case ast.Call(func=ast.Name(id="floordiv"), args=[numerator, ast.Constant(value=int() as divisor)]):
            return _rebuilt(numerator), divisor, rest
    return None


def unclipped(dim: Dim) -> Dim:
    """X of max(X, 0), any other dimension as it is: windows over a size below 0 are none either."""
    if is_known(dim):
        return dim
    sizes = limits(dim, "max")
    return next((x for x, y in (sizes, sizes[::-1]) if is_known(y) and y == 0), dim) if sizes else dim


def _rebuilt(node: ast.expr) -> Dim:
    text = ast.unparse(node)
    return computed(text, {name: symbol(name) for name in _NAME.findall(text) if name not in FUNCTIONS}, FUNCTIONS)


def _prime_factors(number: int) -> Iterator[int]:
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
    if number > 1:
        yield number


def symbols_of(dim: Dim) -> frozenset[str]:
    """The names of the symbols in a dimension."""
    return frozenset() if is_known(dim) else frozenset(_NAME.findall(str(dim))) - FUNCTIONS.keys()


def substitute_dim(dim: Dim, sizes: Mapping[str, Dim]) -> Dim:
    """`dim` with each symbol named in `sizes` replaced."""
    if is_known(dim) or not symbols_of(dim) & sizes.keys():
        return dim
    names = {name: sizes.get(name, symbol(name)) for name in symbols_of(dim)}
    result = computed(str(dim), names, FUNCTIONS)
    return int(result) if is_known(result) else result


def known_size(shape: Shape, sizes: Mapping[str, int] = MappingProxyType({})) -> int:
    """How many elements a shape has with these sizes of symbols, as if what they leave open were 1."""
    dims = (substitute_dim(d, sizes) for d in shape)
    return math.prod(int(d) for d in dims if is_known(d))


def computed(text: str, sizes: Mapping[str, Dim], functions: Mapping[str, Callable[..., Dim]]) -> Dim:
    """Evaluate a printed dimension with other sizes and other functions.

    jax.export has no public substitution; its printed form is documented: sums, products and powers of numbers, symbols
    and calls of `functions`. PyTorch prints // as well. Raises ValueError for other text.
    """

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body=body):
                return value(body)
            case ast.Constant(value=int() as number):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
                return _OPERATIONS[type(operation)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in functions:
                return functions[name](*map(value, args))
        raise ValueError(f"{text!r} is no dimension")

    return value(_parsed(text))


_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: quotient,  # PyTorch's; jax.export prints floordiv()
    ast.Pow: operator.pow,
}


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.Expression:
    return ast.parse(text.replace("^", "**"), mode="eval")


def solved(d: Dim, e: Dim) -> tuple[str, Dim] | None:
    """A symbol, and what it must be so that d == e: of 2*B and 2*C, C is B. None where no multiple of one decides.

    Of max(B, C), which operands that are spread over each other have, and C, too, C is B.
    """
    for wide, other in ((d, e), (e, d)):
        sizes = limits(wide, "max")
        if sizes and not any(map(is_known, sizes)) and any(same(size, other) is True for size in sizes):
            return solved(*sizes)
    difference = d - e
    for name in sorted(symbols_of(difference), reverse=True):
        try:
            start, one = (substitute_dim(difference, {name: n}) for n in (0, 1))
        except ZeroDivisionError:  # a size divided by this one
            continue
        slope = one - start
        if not is_known(slope) or slope == 0 or name in symbols_of(difference - slope * symbol(name)):
            continue
        value = floor_divided(-start if slope > 0 else start, abs(slope))
        if same(value * slope, -start) is True:
            return name, value
    return None


def limits(dim: Dim, function: str) -> tuple[Dim, ...]:
    """X and Y of max(X, Y), no others (or of min): none of these of any other dimension."""
    match None if is_known(dim) else _parsed(str(dim)).body:
        case ast.Call(func=ast.Name(id=name), args=[x, y]) if name == function:
            return _rebuilt(x), _rebuilt(y)
    return ()


def multiple(dim: Dim) -> tuple[str, int, int] | None:
    """Split a dimension into symbol, factor and rest: (N, 2, 1) for 2*N + 1. None where that is impossible."""
    names = symbols_of(dim)
    if len(names) != 1:
        return None
    (name,) = names
    first, second = (substitute_dim(dim, {name: n}) for n in (1, 2))
    factor, rest = int(second - first), int(2 * first - second)
    return (name, factor, rest) if factor and same(dim, factor * symbol(name) + rest) else None


def paired(d: Dim, e: Dim) -> list[tuple[Dim, Dim]]:
    """Pair symbols so that a quotient of sizes is the other size: B1, B and N1, N for floordiv(16*B1*N1, 16*B) and N.

    That is what a reshape of [B1, N1, 16] to [B, -1, 16] leaves. Common factors are cancelled, then factors with the
    same letter are paired: batches with batches. Of other products one symbol is computed; empty where none can be.
    """
    for quotient, other in ((d, e), (e, d)):
        parts = _quotient(quotient)
        whole = _factors(_parsed(str(other)).body)
        if parts is None or whole is None:
            continue
        (scale, left), (divisor, right) = parts[0], (parts[1][0] * whole[0], parts[1][1] + whole[1])
        left, right = left - right, right - left
        pairs = [(x, y) for x in left for y in right if x.rstrip("0123456789") == y.rstrip("0123456789")]
        if len(pairs) == len(left) == len(right) == left.total() == right.total() and scale == divisor:
            return [(symbol(x), symbol(y)) for x, y in pairs]
        pair = solved(_product_of(scale, left), _product_of(divisor, right))
        return [] if pair is None else [(symbol(pair[0]), pair[1])]
    return []


def alike(d: Dim, e: Dim) -> tuple[Dim, Dim] | None:
    """The two symbols that make dimensions differ: N and N1 for floordiv(N, 2) and floordiv(N1, 2).

    What makes the symbols equal makes the dimensions equal; other sizes may do so as well.
    """
    names = symbols_of(d), symbols_of(e)
    if len(names[0]) != 1 or len(names[1]) != 1 or names[0] == names[1]:
        return None
    first, second = (symbol(name) for (name,) in names)
    return (first, second) if same(substitute_dim(d, {str(first): second}), e) else None


def _product_of(number: int, symbols: Counter[str]) -> Dim:
    return number * product(tuple(map(symbol, symbols.elements())))


def _quotient(dim: Dim) -> tuple[tuple[int, Counter[str]], tuple[int, Counter[str]]] | None:
    """The number and the symbols of dividend and divisor where a dimension is one product over another."""
    match _parsed(str(dim)).body:
        case ast.Call(func=ast.Name(id="floordiv"), args=[dividend, divisor]):
            parts = _factors(dividend), _factors(divisor)
            return (parts[0], parts[1]) if parts[0] is not None and parts[1] is not None else None
    return None


def _factors(node: ast.AST) -> tuple[int, Counter[str]] | None:
    """The number and the symbols that a product consists of; None where it is none."""
    match node:
        case ast.Constant(value=int() as number):
            return number, Counter()
        case ast.Name(id=name):
            return 1, Counter([name])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            x, y = _factors(left), _factors(right)
            return None if x is None or y is None else (x[0] * y[0], x[1] + y[1])
    return None


def divided(d: Dim, e: Dim) -> list[tuple[str, int, int]]:
    """Symbols, each with k and r so that d == e for all sizes k*n + r: of 2*floordiv(N, 2) and N, (N, 2, 0).

    Tried are products of the numbers by which the two are divided, for one symbol; then multiples of what each symbol
    is divided by, for all (4*floordiv(H, 2)*floordiv(W, 2) and H*W).
    """
    difference = d - e
    divisors = [int(k) for k in _DIVIDED_BY.findall(str(difference))]
    factors = {1}
    for divisor in divisors:
        factors |= {f * divisor for f in factors if f * divisor <= _LARGEST_FACTOR}
    count = symbol("n_")
    for factor, rest in ((f, r) for f in sorted(factors - {1}) for r in range(f)):
        for name in sorted(symbols_of(difference), reverse=True):
            if same(substitute_dim(difference, {name: factor * count + rest}), 0):
                return [(name, factor, rest)]
    whole: dict[str, int] = {}
    for name, divisor in _DIVIDED.findall(str(difference)):
        whole[name] = math.lcm(whole.get(name, 1), int(divisor))
    multiples = {name: factor * symbol(f"{name}_") for name, factor in whole.items()}
    fits = all(f <= _LARGEST_FACTOR for f in whole.values()) and same(substitute_dim(difference, multiples), 0)
    return [(name, factor, 0) for name, factor in whole.items()] if whole and fits else []


_DIVIDED = re.compile(r"floordiv\((\w+), (\d+)\)")
_DIVIDED_BY = re.compile(r", (\d+)\)")  # the divisor of a floordiv; limits of min and max only add trials
_LARGEST_FACTOR = 64  # of halvings, as image pyramids have: six levels


def symbols_in(value: Any) -> frozenset[str]:
    """The names of the symbols in a parameter or known value: a dimension, a tuple, mapping or array of such."""
    if isinstance(value, np.ndarray):
        return symbols_in(tuple(value.ravel())) if value.dtype == object else frozenset()
    if isinstance(value, Mapping):
        return symbols_in(tuple(value.values()))
    if isinstance(value, tuple):
        return frozenset().union(*map(symbols_in, value))
    return symbols_of(value)


def substitute_value(value: Any, sizes: Mapping[str, Dim]) -> Any:
    """A parameter or known value with symbols replaced in it, as deep as `symbols_in` looks."""
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            return value
        renewed = np.empty(value.shape, object)
        renewed.ravel()[:] = [substitute_dim(d, sizes) for d in value.ravel()]
        return renewed
    if isinstance(value, Mapping):
        return {k: substitute_value(v, sizes) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(substitute_value(v, sizes) for v in value)
    return substitute_dim(value, sizes)


class SymbolNames:
    """Hands out the symbol names of one model, the same for the same sequence of requests: B, B1, …, N, N1, …

    prefix: stands before every name, for names that must not meet those of any model.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._counts: dict[str, int] = {}
        self._taken: set[str] = set()

    def reserve(self, names: Iterable[str]) -> None:
        """Never hand out these names: they name sizes already."""
        self._taken.update(names)

    def fresh(self, stem: str) -> Dim:
        """A symbol that is not reserved and that no earlier call of this object returned."""
        while True:
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            name = f"{self._prefix}{stem}{count or ''}"
            if name not in self._taken:
                self._taken.add(name)
                return symbol(name)
