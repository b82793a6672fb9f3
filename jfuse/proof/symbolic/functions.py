"""Functions of forms over the real numbers, each in one normal form for all of its spellings.

sigmoid becomes tanh; max, min and clips become relu; a choice becomes a product with a bool, which is 0 or 1; division
is a product with a reciprocal. Odd functions take rows of one sign. All else is an atom of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from jfuse.proof.symbolic import counts, domains
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Block, MatrixRows, Picks, Stopped, limit, present
from jfuse.proof.symbolic.comparison import difference
from jfuse.proof.symbolic.forms import ULP, Form, Instance, added

_LARGE = 4000.0  # beside which tanh is 1: half of the 10,000 that enter a sigmoid, less a bias
_FEW = 4  # different factors for which a product with a matrix is written out


def number(form: Form, value: float) -> Form:
    """A constant of the axes of a form."""
    return Form(form.axes, {}, np.full(form.rows, value), 0.0)


def minus(a: Form, b: Form) -> Form:
    """a - b."""
    return added(a, b.scale(-1.0))


def function(atoms: Atoms, op: Hashable, form: Form, exact: Callable[[np.ndarray], np.ndarray] | None = None) -> Form:
    """The atoms of a function; of constants its value, where `exact` computes it."""
    if form.is_constant and exact is not None:
        return _folded(form, exact)
    return atoms.function(op, [form])


def _folded(form: Form, exact: Callable[[np.ndarray], np.ndarray]) -> Form:
    with np.errstate(all="ignore"):
        value, low, high = (np.asarray(exact(form.constant + e), np.float64) for e in (0.0, -form.error, form.error))
    if not all(np.isfinite(v).all() for v in (value, low, high)):
        raise Stopped("a constant that is no real number")
    spread = float((high - low).max(initial=0.0) - (high - low).min(initial=0.0))  # the functions are monotone there
    return Form(form.axes, {}, value, spread + 8 * ULP * float(np.abs(value).max(initial=0.0)))


def odd(atoms: Atoms, op: str, form: Form, exact: Callable[[np.ndarray], np.ndarray]) -> Form:
    """A function with f(-x) = -f(x)."""
    if form.is_constant:
        return _folded(form, exact)
    return atoms.function(op, [form], parity=-1)


def tanh(atoms: Atoms, form: Form) -> Form:
    """The hyperbolic tangent."""
    is_large = np.abs(form.constant) >= _LARGE
    if not atoms.saturates or not is_large.any():
        return odd(atoms, "tanh", form, np.tanh)
    atoms.is_saturated = True
    kept = np.where(is_large, 0.0, 1.0)
    return odd(atoms, "tanh", form.scale(kept), np.tanh).scale(kept).plus((1.0 - kept) * np.sign(form.constant))


def sigmoid(atoms: Atoms, form: Form) -> Form:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2."""
    return tanh(atoms, form.scale(0.5)).scale(0.5).plus(0.5)


def _unit(form: Form) -> tuple[Form, np.ndarray]:
    """The rows divided by their largest coefficient, and these: functions of the sign do not change by it."""
    size = np.zeros(form.rows)
    for block in form.blocks.values():
        size = np.maximum(size, block.sizes)
    size = np.where(size > 0, size, 1.0)
    return (form, size) if (size == 1.0).all() else (form.scale(1.0 / size, ULP), size)


def relu(atoms: Atoms, form: Form) -> Form:
    """max(x, 0); relu(-x) = relu(x) - x, so only one of them has an atom. Clips of clips become a sum of two."""
    if form.is_constant:
        return Form(form.axes, {}, np.maximum(form.constant, 0.0), form.error)
    clipped = _clip_within(atoms, form)
    clipped = _clip_of_clip(atoms, form) if clipped is None else clipped
    if clipped is not None:
        return clipped
    clipped = _clip_of_clip(atoms, form.scale(-1.0))
    if clipped is not None:
        return added(form, clipped)
    unit, size = _unit(form)
    turned = atoms.has("relu", unit.scale(-1.0)) & ~atoms.has("relu", unit)
    sign = np.where(turned, -1.0, 1.0)
    result = atoms.function("relu", [unit.scale(sign)]).scale(size, ULP if (size != 1.0).any() else 0.0)
    return added(result, form.scale(np.where(turned, 1.0, 0.0)))


def _clip_of_clip(atoms: Atoms, form: Form) -> Form | None:
    """relu(w - relu(w - d)) = relu(w) - relu(w - d), and relu(relu(r) - d) = relu(r - d), for d >= 0; else None."""
    relu_atom = _one_atom(atoms, form, "relu")
    if relu_atom is None:
        return None
    factors, inner, rest = relu_atom
    if (factors > 0).all() and rest.is_constant and (rest.constant <= 0).all():
        return relu(atoms, added(inner.scale(factors), rest))
    if (factors < 0).all():
        lower = inner.scale(-factors)
        gap = minus(rest, lower)
        if gap.is_constant and (gap.constant >= 0).all():
            return minus(relu(atoms, rest), relu(atoms, lower))
    return None


def _clip_within(atoms: Atoms, form: Form) -> Form | None:
    """relu(k + f (relu(p) - relu(q))) for a constant p - q, where the clip has one sign: itself or 0. Else None."""
    if len(form.blocks) < 2 or any(atoms.of(i).op != "relu" for i in form.blocks) or domains.has_undefined(atoms, form):
        return None
    more, less = (_one_atom(atoms, _of_sign(form, sign), "relu") for sign in (1, -1))
    if more is None or less is None or more[2].blocks or less[2].blocks or (more[0] != -less[0]).any():
        return None
    gap = minus(more[1], less[1])
    if not gap.is_constant:
        return None
    reach = more[0] * gap.constant
    low, high = form.constant + np.minimum(reach, 0), form.constant + np.maximum(reach, 0)
    slack = 4 * (form.error + (gap.error + ULP * gap.magnitude) * form.magnitude)
    if (low >= -slack).all():
        return Form(form.axes, form.blocks, form.constant, form.error + slack)
    return Form(form.axes, {}, np.zeros(form.rows), slack) if (high <= slack).all() else None


def _of_sign(form: Form, sign: int) -> Form:
    """The atoms with factors of a sign, alone; matrices stay whole."""
    blocks: dict[Instance, Block] = {
        i: b.scaled(np.where(sign * b.scale > 0, 1.0, 0.0)) if isinstance(b, Picks) else b
        for i, b in form.blocks.items()
    }
    return Form(form.axes, blocks, np.zeros(form.rows), form.error).without_empty()


def _one_atom(atoms: Atoms, form: Form, op: str) -> tuple[np.ndarray, Form, Form] | None:
    """Where each row has one atom of a function: its factor, the row that it is of, and the rest; else None."""
    factors, count = np.zeros(form.rows), np.zeros(form.rows, int)
    inner = number(form, 0.0)
    rest: dict[Instance, Block] = {}
    for instance, block in form.blocks.items():
        if not isinstance(block, Picks) or atoms.of(instance).op != op:
            rest[instance] = block
            continue
        (rows,) = np.nonzero(present(block))
        count[rows] += 1
        factors[rows] = block.scale[rows]
        here = np.zeros(form.rows)
        here[rows] = 1.0
        of_block = atoms.rows_of(instance, np.maximum(block.atoms, 0))
        inner = added(inner, Form(form.axes, of_block.blocks, of_block.constant, of_block.error).scale(here))
    if (count != 1).any():
        return None
    return factors, inner.without_empty(), Form(form.axes, rest, form.constant, form.error).without_empty()


def atom_form(like: Form, instance: Instance, block: Block) -> Form:
    """A block alone."""
    return Form(like.axes, {instance: block}, np.zeros(like.rows), 0.0)


def maximum(atoms: Atoms, a: Form, b: Form) -> Form:
    """max(a, b) = b + relu(a - b)."""
    return added(b, relu(atoms, minus(a, b)))


def minimum(atoms: Atoms, a: Form, b: Form) -> Form:
    """min(a, b) = a - relu(a - b)."""
    return minus(a, relu(atoms, minus(a, b)))


def positive(atoms: Atoms, form: Form) -> Form:
    """1 where the row is above 0, else 0."""
    if form.is_constant:
        if form.error and (np.abs(form.constant) <= form.error).any():
            raise Stopped("a comparison of rounded constants")
        return Form(form.axes, {}, (form.constant > 0).astype(np.float64), 0.0)
    of_counts = counts.positive(atoms, form)
    if of_counts is not None:
        return of_counts
    of_bool = _of_bool(atoms, form, lambda x: x > 0)
    if of_bool is not None:
        return of_bool
    unit, _ = _unit(form)
    return atoms.function("positive", [unit], is_bool=True)


def _of_bool(atoms: Atoms, form: Form, holds: Callable[[np.ndarray], np.ndarray]) -> Form | None:
    """A comparison of c + s m for a bool m, which is 0 or 1: f(c) + m (f(c + s) - f(c)). None for other forms."""
    if form.error or len(form.blocks) != 1:
        return None
    ((instance, block),) = form.blocks.items()
    if not isinstance(block, Picks) or not atoms.of(instance).is_bool:
        return None
    step = np.where(block.atoms >= 0, block.scale, 0.0)
    low, high = (np.asarray(holds(v)).astype(np.float64) for v in (form.constant, form.constant + step))
    return Form(form.axes, {instance: Picks(block.atoms, high - low)}, low, 0.0).without_empty()


def zero(atoms: Atoms, form: Form) -> Form:
    """1 where the row is 0, else 0."""
    if form.is_constant:
        if form.error:
            raise Stopped("a comparison of rounded constants")
        return Form(form.axes, {}, (form.constant == 0).astype(np.float64), 0.0)
    of_bool = _of_bool(atoms, form, lambda x: x == 0)
    if of_bool is not None:
        return of_bool
    unit, _ = _unit(form)
    return atoms.function("zero", [unit], is_bool=True, parity=1)


def choice(atoms: Atoms, flag: Form, yes: Form, no: Form) -> Form:
    """`yes` where the bool is 1, else `no`."""
    return added(no, product(atoms, flag, minus(yes, no)))


def reciprocal(atoms: Atoms, form: Form) -> Form:
    """1 / x; of a + b exp(u), for a = b, a sigmoid of -u."""
    if form.is_constant:
        if form.error and (np.abs(form.constant) <= form.error).any():
            raise Stopped("a division by a constant that may be 0")
        return _folded(form, lambda x: 1.0 / x)
    known = _sigmoid_of(atoms, form)
    if known is not None:
        return known
    unit, size = _unit(form)
    if (size == 1.0).all():
        return atoms.function("reciprocal", [unit])
    return atoms.function("reciprocal", [unit]).scale(1.0 / size, ULP)


def _sigmoid_of(atoms: Atoms, form: Form) -> Form | None:
    exponential = _one_atom(atoms, form, "exp")
    if exponential is None or form.error:
        return None
    factors, inner, rest = exponential
    if not rest.is_constant or not (factors == rest.constant).all():
        return None
    return sigmoid(atoms, inner.scale(-1.0)).scale(1.0 / factors, ULP)


def quotient(atoms: Atoms, a: Form, b: Form) -> Form:
    """a / b."""
    if b.is_constant:
        if (np.abs(b.constant) <= b.error).any():
            raise Stopped("a division by 0")
        relative = ULP + float((b.error / np.abs(b.constant)).max(initial=0.0))
        exact = not b.error and bool((np.frexp(np.abs(b.constant))[0] == 0.5).all())
        return a.scale(1.0 / b.constant, 0.0 if exact else relative)
    return strict_product(atoms, a, reciprocal(atoms, b))


def strict_product(atoms: Atoms, a: Form, b: Form) -> Form:
    """a * b as a file computes it, where a factor that is NaN makes it NaN."""
    result = product(atoms, a, b)
    domains.check_product(atoms, result, a, b)
    return result


def strict_sum(atoms: Atoms, a: Form, b: Form) -> Form:
    """a + b, where what may be NaN does not cancel."""
    result = added(a, b)
    domains.check_kept(atoms, result, a, b)
    return result


def product(atoms: Atoms, a: Form, b: Form) -> Form:
    """a * b, written out as a sum of products of atoms; a matrix with many different factors counts as an atom."""
    if a.is_constant or b.is_constant:
        constant, other = (a, b) if a.is_constant else (b, a)
        result = other.scale(constant.constant)
        error = result.error + constant.error * (other.magnitude + other.error)
        return Form(result.axes, result.blocks, result.constant, error)
    for flag, factor in ((a, b), (b, a)):
        ramp = _ramp(atoms, _without_constant(flag), factor)
        if ramp is not None:
            return added(factor.scale(flag.constant), ramp)
    a, b = _simple(atoms, a, b), _simple(atoms, b, a)
    result = added(a.scale(b.constant), _without_constant(b).scale(a.constant))
    for mine in a.blocks.items():
        for factor_of_it in b.blocks.items():
            result = added(result, _blocks_product(atoms, a, mine, factor_of_it))
    rounding = 0.0 if _is_whole(a) and _is_whole(b) else ULP * a.magnitude * b.magnitude
    spread = a.error * b.magnitude + b.error * a.magnitude + a.error * b.error + rounding
    return Form(result.axes, result.blocks, result.constant, result.error + spread)


def _is_whole(form: Form) -> bool:
    """Whether all numbers are integers so small that products of two are exact."""
    if form.error or form.magnitude >= 2.0**26:
        return False
    entries = [b.scale if isinstance(b, Picks) else None for b in form.blocks.values()]
    return all(e is not None and bool((e == np.round(e)).all()) for e in (form.constant, *entries))


def _without_constant(form: Form) -> Form:
    return Form(form.axes, form.blocks, np.zeros(form.rows), form.error)


def _ramp(atoms: Atoms, flag: Form, other: Form) -> Form | None:
    """positive(r) * k r = k relu(r); None where the factors are something else."""
    positive_atom = _one_atom(atoms, flag, "positive")
    if positive_atom is None or not positive_atom[2].is_constant or flag.error:
        return None
    scale, inner, _ = positive_atom
    below = atoms.evaluated(inner)
    if (np.abs(below) < 1e-6).any():
        return None
    factors = atoms.evaluated(other) / below
    factors = np.where(np.abs(factors - np.round(factors)) < 1e-12, np.round(factors), factors)
    if difference(inner.scale(factors, 64 * ULP), other, atoms.allowance).any():
        return None
    return relu(atoms, inner).scale(factors * scale, 64 * ULP)


def _simple(atoms: Atoms, form: Form, other: Form) -> Form:
    """The form with what is a matrix as one atom in each row, unless the other factor has few different atoms."""
    blocks = {i: _as_picks(b) for i, b in form.blocks.items()}
    dense = {i: b for i, b in blocks.items() if not isinstance(b, Picks)}
    few = not dense or all(isinstance(b, Picks) and len(np.unique(b.atoms)) <= _FEW for b in other.blocks.values())
    if few:
        return Form(form.axes, blocks, form.constant, form.error)
    row = atoms.function("row", [Form(form.axes, dense, np.zeros(form.rows), form.error)])
    rest = {i: b for i, b in blocks.items() if i not in dense}
    return added(Form(form.axes, rest, form.constant, form.error), row)


def _as_picks(block: Block) -> Block:
    """A matrix with at most one atom in each row as picks."""
    if isinstance(block, Picks) or (np.count_nonzero(block.array, axis=1) > 1).any():
        return block
    atoms = np.abs(block.array).argmax(axis=1)
    scale = block.array[np.arange(len(atoms)), atoms]
    return Picks(np.where(scale == 0, -1, atoms), scale)


def _blocks_product(atoms: Atoms, like: Form, first: tuple[Instance, Block], second: tuple[Instance, Block]) -> Form:
    (a, mine), (b, other) = first, second
    if isinstance(mine, Picks) and isinstance(other, Picks):
        return _picks_product(atoms, like, (a, mine), (b, other))
    if isinstance(mine, Picks):
        return _blocks_product(atoms, like, second, first)
    if not isinstance(other, Picks):
        raise Stopped("a product of two matrices")
    result = Form(like.axes, {}, np.zeros(like.rows), 0.0)
    for factor in np.unique(other.atoms[other.atoms >= 0]):
        here = np.where(other.atoms == factor, other.scale, 0.0)
        columns = np.arange(mine.width)
        factors = [*atoms.factors_of(a, columns), *atoms.factors_of(b, np.full(len(columns), factor))]
        for places, instance, which in atoms.product(factors):
            limit(like.rows * (int(which.max()) + 1))
            block = np.zeros((like.rows, int(which.max()) + 1))
            np.add.at(block.T, which, mine.scaled(here).array.T[places])
            result = added(result, atom_form(like, instance, MatrixRows.of(block)))
    return result


def _picks_product(atoms: Atoms, like: Form, first: tuple[Instance, Picks], second: tuple[Instance, Picks]) -> Form:
    (a, mine), (b, other) = first, second
    (rows,) = np.nonzero(present(mine) & present(other))
    result = Form(like.axes, {}, np.zeros(like.rows), 0.0)
    if not rows.size:
        return result
    factors = [*atoms.factors_of(a, mine.atoms[rows]), *atoms.factors_of(b, other.atoms[rows])]
    scale = mine.scale * other.scale
    for places, instance, which in atoms.product(factors):
        picked = np.full(like.rows, -1)
        picked[rows[places]] = which
        result = added(result, atom_form(like, instance, Picks(picked, np.where(picked >= 0, scale, 0.0))))
    return result
