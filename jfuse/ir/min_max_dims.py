"""Sizes with a limit in one form: N - min(N, 2) and max(0, N - 2) are the same, which jax.export cannot tell."""

from __future__ import annotations

import re
from functools import lru_cache

from jax.core import min_dim
from jax.errors import InconclusiveDimensionOperation

from jfuse.ir.dims import FUNCTIONS, Dim, computed, is_known, limits, same, symbol, symbols_of

_LIMIT = re.compile(r"\b(min|max)\(")


def normal(dim: Dim) -> Dim:
    """The dimension as one min(d, e) or max(d, e) where it is a single limit, whatever is added to that.

    Others stay as they are: jax.export knows less of the signs of what would come of them.
    """
    text = "" if is_known(dim) else str(dim)
    return _normal(text) if _LIMIT.search(text) else dim


@lru_cache(maxsize=1024)
def _normal(text: str) -> Dim:
    names = {name: symbol(name) for name in symbols_of(symbol(text))}
    over_zero = {"min": lambda d, e: d + _below_zero(e - d), "max": lambda d, e: d - _below_zero(d - e)}
    dim = computed(text, names, {**FUNCTIONS, **over_zero})
    if is_known(dim) or not _LIMIT.search(str(dim)):
        return dim
    limited = _as_one_limit(dim)
    dim = symbol(text) if limited is None else limited
    operands = (*limits(dim, "min"), *limits(dim, "max"))
    return next((d for d in operands if same(d, dim) is True), dim)  # the other one never limits


def _below_zero(e: Dim) -> Dim:
    """min(0, e), over the one of e and -e that is shorter, so that two which are equal cancel."""
    if _is_natural(e):
        return 0
    if _is_natural(-e):
        return e
    rest, inner = _parts(e, 1)
    if inner is not None:  # min(0, r + min(0, f)) is min(0, r + f) where r is not below 0
        for r, f in ((rest, inner), (rest + inner, -inner)):
            if _is_natural(r):
                return _below_zero(r + f)
    forms = sorted((e, -e), key=lambda form: (len(str(form)), str(form)))
    return min_dim(0, e) if forms[0] is e else e + min_dim(0, forms[0])


def _is_natural(dim: Dim) -> bool:
    """Whether it is known that the dimension is not below 0."""
    try:
        return bool(dim >= 0)
    except InconclusiveDimensionOperation:
        return False


def _as_one_limit(dim: Dim) -> Dim | None:
    """r + min(0, e) as min(r, r + e), r - min(0, e) as max(r, r - e); None where this is not all that there is."""
    for sign, name in ((1, "min"), (-1, "max")):
        rest, e = _parts(dim, sign)
        if e is not None:
            return FUNCTIONS[name](rest + sign * e, rest)
    return None


def _parts(dim: Dim, sign: int) -> tuple[Dim, Dim | None]:
    """r and e of r + sign * min(0, e); None for e where this is not all that there is."""
    text = "" if is_known(dim) else str(dim)
    limit_match = _LIMIT.search(text)
    if limit_match is None:
        return dim, None
    limit = text[limit_match.start() : _end(text, limit_match.start())]
    e, rest = symbol(limit.removeprefix("min(0, ").removesuffix(")")), dim - sign * symbol(limit)
    return (dim, None) if _LIMIT.search(f"{rest} {e}") else (rest, e)


def _end(text: str, start: int) -> int:
    """Where the call that starts there ends."""
    depth = 0
    for place in range(text.index("(", start), len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    raise ValueError(text)
