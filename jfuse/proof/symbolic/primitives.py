"""Evaluates each primitive of jax on forms. A primitive without a row stops the proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.proof.symbolic import counts, domains, functions, lookups, moves
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Picks, Stopped
from jfuse.proof.symbolic.forms import Form, Instance, Ref, added, constant
from jfuse.proof.symbolic.integers import elements, integers
from jfuse.proof.symbolic.products import dot_general

Rule = Callable[[Atoms, Sequence[Form], Any], Form]
"""Forms of the operands and the jaxpr's equation -> the form of its one result."""


def _one_of(function: Callable[[Atoms, Form], Form]) -> Rule:
    return lambda atoms, forms, eqn: function(atoms, forms[0])


def _pair(function: Callable[[Atoms, Form, Form], Form]) -> Rule:
    return lambda atoms, forms, eqn: function(atoms, *elements(forms, eqn))


def _atom(name: str, exact: Callable[[np.ndarray], np.ndarray] | None = None) -> Rule:
    return lambda atoms, forms, eqn: functions.function(atoms, name, forms[0], exact)


def _odd(name: str, exact: Callable[[np.ndarray], np.ndarray]) -> Rule:
    return lambda atoms, forms, eqn: functions.odd(atoms, name, forms[0], exact)


def _minus(atoms: Atoms, a: Form, b: Form) -> Form:
    return functions.strict_sum(atoms, a, b.scale(-1.0))


def _negated(atoms: Atoms, form: Form) -> Form:
    return form.scale(-1.0)


def _not(atoms: Atoms, form: Form) -> Form:
    return form.scale(-1.0).plus(1.0)


def _or(atoms: Atoms, a: Form, b: Form) -> Form:
    return functions.minus(added(a, b), functions.product(atoms, a, b))


def _differ(atoms: Atoms, a: Form, b: Form) -> Form:
    return _not(atoms, functions.zero(atoms, functions.minus(a, b)))


def _compared(function: Callable[[Atoms, Form, Form], Form]) -> Rule:
    """A comparison; of floats that decide nothing, as `x == x`, an atom: it tells whether they are numbers."""

    def rule(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
        a, b = elements(forms, eqn)
        if eqn.invars[0].aval.dtype.kind == "f" and not a.is_constant and functions.minus(a, b).is_constant:
            return atoms.function(("compares", eqn.primitive.name), [a, b], is_bool=True)
        return function(atoms, a, b)

    return rule


def _select(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    if len(forms) != 3 or eqn.invars[0].aval.dtype != np.bool_:
        raise Stopped("a choice among several")
    flag, no, yes = elements(forms, eqn)
    return functions.choice(atoms, flag, yes, no)


def _clamp(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    low, x, high = elements(forms, eqn)
    return functions.minimum(atoms, functions.maximum(atoms, x, low), high)


def _power(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    exponent = eqn.params["y"]
    if not 1 <= abs(exponent) <= 8:
        raise Stopped(f"a power of {exponent}")
    result = forms[0]
    for _ in range(abs(exponent) - 1):
        result = functions.product(atoms, result, forms[0])
    return result if exponent > 0 else functions.reciprocal(atoms, result)


def _rsqrt(atoms: Atoms, form: Form) -> Form:
    return functions.reciprocal(atoms, functions.function(atoms, "sqrt", form, np.sqrt))


def _pow(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    base, exponent = elements(forms, eqn)
    if exponent.is_constant and (exponent.constant == -0.5).all():
        return _rsqrt(atoms, base)
    if exponent.is_constant and (exponent.constant == 0.5).all():
        return functions.function(atoms, "sqrt", base, np.sqrt)
    if exponent.is_constant and (exponent.constant == 2.0).all():
        return functions.product(atoms, base, base)
    return atoms.function("pow", [base, exponent])


def _cast(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    """Between widths that hold all values nothing happens in real numbers; else an atom of the form."""
    (form,), old, new = forms, eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    if old == new or old == np.bool_:
        return form
    if new == np.bool_:
        return _not(atoms, functions.zero(atoms, form))
    if form.is_constant and not form.error and old.kind in "iu":
        return Form(form.axes, {}, form.constant.astype(old).astype(new).astype(np.float64), 0.0)
    if old in counts.WIDE and counts.fits(atoms, form, new):
        return form
    exact = old.kind in "iuf" and old.kind == new.kind and np.can_cast(old, new, "safe")
    return form if exact else atoms.function(("cast", str(old), str(new)), [form])


def _reshape(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    return moves.reshaped(forms[0], eqn.outvars[0].aval.shape)


def _broadcast(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    return moves.broadcast(forms[0], eqn.outvars[0].aval.shape, list(eqn.params["broadcast_dimensions"]))


def _slice(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    starts, ends = eqn.params["start_indices"], eqn.params["limit_indices"]
    return moves.sliced(forms[0], starts, ends, eqn.params["strides"] or [1] * len(starts))


def _dynamic_slice(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    form, *indices = forms
    sizes = eqn.outvars[0].aval.shape
    starts = [_index(atoms, i, d, s) for i, d, s in zip(indices, form.shape, sizes, strict=False)]
    return moves.sliced(form, starts, [s + n for s, n in zip(starts, sizes, strict=True)], [1] * len(sizes))


def _index(atoms: Atoms, index: Form, dim: Any, size: Any) -> Any:
    if index.blocks and same(size, 1) is True and _is_last(atoms, index, dim):
        return dim - 1
    if not index.is_constant or index.error:
        raise Stopped("an index that is computed")
    start = int(index.constant[0])
    if not is_known(dim) or not is_known(size):
        if start != 0:
            raise Stopped("an index into an open axis")
        return 0
    return min(max(start, 0), int(dim) - int(size))


def _gather(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    """Rows by constant indices: jax's own gather of the numbers of the rows."""
    form, index = forms
    last = _last_place(atoms, form, index, eqn)
    if last is not None:
        return last
    in_rows = lookups.gathered_in_rows(atoms, form, index, eqn.params["dimension_numbers"])
    if in_rows is not None:
        return in_rows
    counted = lookups.gathered(atoms, form, index, eqn.params["dimension_numbers"], eqn.params["slice_sizes"])
    is_within = eqn.params["mode"] == jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS  # others clamp, or fill
    if counted is not None and is_within:
        return moves.reshaped(counted, eqn.outvars[0].aval.shape)
    if not index.is_constant or index.error:
        raise Stopped("an index that is computed")
    index = moves.with_closed(index, range(len(index.axes)))
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    if numbers.operand_batching_dims:
        raise Stopped("a gather in batches")
    is_one = len(index.constant) == len(numbers.start_index_map)
    part = moves.one_part(form, numbers.start_index_map, index.constant, sizes) if is_one else None
    if part is not None:
        return moves.reshaped(part, eqn.outvars[0].aval.shape)
    parts = [a for a in range(len(form.axes)) if same(sizes[a], form.shape[a]) is not True]
    form = moves.with_closed(form, parts)
    if any(form.is_open(a) for a in numbers.collapsed_slice_dims):
        raise Stopped("a gather along an open axis")
    rows = moves.grid(form)
    sizes = tuple(1 if form.is_open(a) and rows.shape[a] == 1 else int(s) for a, s in enumerate(sizes))
    places = index.constant.astype(np.int64).reshape(moves.grid(index).shape)
    with jax.enable_x64(True):
        taken = jax.lax.gather(rows, places, numbers, sizes, mode=eqn.params["mode"], fill_value=-1)
    chosen = np.asarray(taken)
    if (chosen < 0).any():
        raise Stopped("a gather beyond the end")
    axes_left = [a for a in range(len(form.axes)) if a not in numbers.collapsed_slice_dims]
    at = dict(zip(numbers.offset_dims, axes_left, strict=True))
    axes = tuple(
        form.axes[at[a]] if a in at and form.is_open(at[a]) else ((size, False),) for a, size in enumerate(chosen.shape)
    )
    return moves.moved(form, chosen, axes)


def _last_place(atoms: Atoms, form: Form, index: Form, eqn: Any) -> Form | None:
    """A gather of the last place of an open axis by its size, all of the other ones; else None."""
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    whole = [same(s, d) is True for s, d in zip(sizes, form.shape, strict=True)]
    if len(numbers.start_index_map) != 1 or sum(not w for w in whole) != 1 or index.rows != 1:
        return None
    axis = numbers.start_index_map[0]
    if whole[axis] or not form.is_open(axis) or len(form.axes[axis]) != 1 or sizes[axis] != 1:
        return None
    if not _is_last(atoms, index, form.shape[axis]):
        return None
    return moves.reshaped(moves.at(form, axis, Ref("at", -1)), eqn.outvars[0].aval.shape)


def _is_last(atoms: Atoms, index: Form, size: Any) -> bool:
    """Whether an index is the last place of an axis: its size less 1."""
    if len(index.blocks) != 1 or index.error:
        return False
    ((instance, block),) = index.blocks.items()
    lasts = [(("dim", str(size - 1)), 0), (("dim", str(size)), -1)]
    is_one = isinstance(block, Picks) and bool(block.scale[0] == 1)
    return is_one and (atoms.of(instance).op, index.constant[0]) in lasts


def _pad(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    form, value = forms
    low, high, inner = zip(*eqn.params["padding_config"], strict=True)
    if any(inner) or min(*low, *high) < 0 or not value.is_constant:
        raise Stopped("a padding within")
    return moves.padded(form, list(zip(low, high, strict=True)), float(value.constant[0]))


def _concatenate(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    return moves.concatenated(forms, eqn.params["dimension"])


def _stack(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    joined = moves.concatenated(list(map(moves.with_axis, forms)), 0)
    axis = eqn.params["axis"]
    return moves.transposed(joined, [*range(1, axis + 1), 0, *range(axis + 1, len(joined.axes))])


def _tile(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    repeats = eqn.params["reps"]
    touched = [a for a, count in enumerate(repeats) if count != 1]
    return moves.on_axes(forms[0], lambda rows: np.tile(rows, repeats), touched)


def _sum(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    result = moves.summed(forms[0], eqn.params["axes"])
    domains.check_kept(atoms, result, forms[0])
    return result


def _greatest(op: str) -> Rule:
    """A function of all rows along the axes, as one atom."""

    def rule(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
        axes = eqn.params["axes"]
        form = moves.with_closed(forms[0], axes)
        axes_left = [a for a in range(len(form.axes)) if a not in axes]
        order = moves.grid(form).transpose([*axes_left, *axes])
        order = order.reshape(int(np.prod([order.shape[i] for i in range(len(axes_left))], initial=1)), -1)
        axes_kept = tuple(form.axes[a] for a in axes_left)
        return atoms.function(op, [moves.moved(form, order[:, k], axes_kept) for k in range(order.shape[1])])

    return rule


def _dot(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    contracted, batch = eqn.params["dimension_numbers"]
    left, right = forms
    result = dot_general(atoms, left, right, contracted, batch)
    if left.is_constant or right.is_constant:
        domains.check_kept(atoms, Form(result.axes, result.blocks, np.zeros(0)), left, right)
    return result


def _iota(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    shape, axis, dtype = eqn.outvars[0].aval.shape, eqn.params["dimension"], eqn.outvars[0].aval.dtype
    if is_known(shape[axis]) and not (shape[axis] in atoms.ramps and dtype in counts.WIDE):
        return moves.broadcast(constant(np.arange(shape[axis]).astype(dtype)), shape, [axis])
    block = Picks(np.zeros(1, int), np.ones(1))
    narrow = ("iota", str(shape[axis]), str(dtype))
    family = counts.ramp(atoms, shape[axis]) if dtype in counts.WIDE else atoms.named(("narrow", *narrow), 1, 1)
    ramp = Form((((shape[axis], True),),), {Instance(family, (Ref("axis", 0),)): block})
    return moves.broadcast(ramp, shape, [axis])


def _same(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    return forms[0]


ELEMENTWISE = frozenset(
    "add add_any sub mul square neg max min abs div rem sign clamp integer_pow pow".split(),
)
"""Primitives that mean arithmetic, which is another one for integers."""

UNROUNDED = frozenset(
    "neg max min abs sign clamp floor ceil round is_finite gt lt ge le eq ne select_n convert_element_type "
    "reshape squeeze expand_dims broadcast_in_dim transpose rev slice dynamic_slice gather pad tile concatenate stack "
    "reduce_max reduce_min argmax argmin iota copy stop_gradient".split(),
)
"""Primitives whose results are exact in floats of any width."""

SUMS = frozenset({"reduce_sum", "dot_general"})
"""Primitives that add elements, which wraps for integers."""


def _logical(of_bools: Callable[[Atoms, Form, Form], Form]) -> Rule:
    def rule(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
        if eqn.outvars[0].aval.dtype != np.bool_:
            return integers(atoms, forms, eqn)
        return of_bools(atoms, *elements(forms, eqn))

    return rule


def _not_of(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    return _not(atoms, forms[0]) if eqn.outvars[0].aval.dtype == np.bool_ else integers(atoms, forms, eqn)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


RULES: Mapping[str, Rule] = {
    "add": _pair(functions.strict_sum),
    "add_any": _pair(functions.strict_sum),
    "sub": _pair(_minus),
    "mul": _pair(functions.strict_product),
    "div": _pair(functions.quotient),
    "neg": _one_of(_negated),
    "max": _pair(functions.maximum),
    "min": _pair(functions.minimum),
    "abs": _one_of(lambda atoms, x: functions.minus(functions.relu(atoms, x).scale(2.0), x)),
    "tanh": _one_of(functions.tanh),
    "logistic": _one_of(functions.sigmoid),
    "exp": _atom("exp", np.exp),
    "expm1": lambda atoms, forms, eqn: functions.function(atoms, "exp", forms[0], np.exp).plus(-1.0),
    "log": _atom("log", np.log),
    "log1p": lambda atoms, forms, eqn: functions.function(atoms, "log", forms[0].plus(1.0), np.log),
    "sqrt": _atom("sqrt", np.sqrt),
    "rsqrt": _one_of(_rsqrt),
    "erf": _odd("erf", _erf),
    "erfc": lambda atoms, forms, eqn: functions.odd(atoms, "erf", forms[0], _erf).scale(-1.0).plus(1.0),
    "sin": _odd("sin", np.sin),
    "cos": _atom("cos"),
    "tan": _odd("tan", np.tan),
    "sinh": _odd("sinh", np.sinh),
    "cosh": _atom("cosh"),
    "atan": _odd("atan", np.arctan),
    "floor": _atom("floor"),
    "ceil": _atom("ceil"),
    "sign": _atom("sign"),
    "is_finite": _atom("is_finite"),
    "round": lambda atoms, forms, eqn: atoms.function(("round", str(eqn.params)), [forms[0]]),
    "rem": _pair(lambda atoms, a, b: atoms.function("rem", [a, b])),
    "atan2": _pair(lambda atoms, a, b: atoms.function("atan2", [a, b])),
    "square": _one_of(lambda atoms, x: functions.product(atoms, x, x)),
    "integer_pow": _power,
    "pow": _pow,
    "clamp": _clamp,
    "select_n": _select,
    "gt": _compared(lambda atoms, a, b: functions.positive(atoms, functions.minus(a, b))),
    "lt": _compared(lambda atoms, a, b: functions.positive(atoms, functions.minus(b, a))),
    "ge": _compared(lambda atoms, a, b: _not(atoms, functions.positive(atoms, functions.minus(b, a)))),
    "le": _compared(lambda atoms, a, b: _not(atoms, functions.positive(atoms, functions.minus(a, b)))),
    "eq": _compared(lambda atoms, a, b: functions.zero(atoms, functions.minus(a, b))),
    "ne": _compared(_differ),
    "and": _logical(functions.product),
    "or": _logical(_or),
    "not": _not_of,
    "convert_element_type": _cast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "broadcast_in_dim": _broadcast,
    "transpose": lambda atoms, forms, eqn: moves.transposed(forms[0], eqn.params["permutation"]),
    "rev": lambda atoms, forms, eqn: moves.reversed_(forms[0], eqn.params["dimensions"]),
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "pad": _pad,
    "tile": _tile,
    "concatenate": _concatenate,
    "stack": _stack,
    "reduce_sum": _sum,
    "reduce_max": _greatest("reduce_max"),
    "reduce_min": _greatest("reduce_min"),
    "argmax": _greatest("argmax"),
    "argmin": _greatest("argmin"),
    "dot_general": _dot,
    "iota": _iota,
    "copy": _same,
    "stop_gradient": _same,
    "reduce_precision": lambda atoms, forms, eqn: atoms.function(("reduce_precision", str(eqn.params)), [forms[0]]),
}
