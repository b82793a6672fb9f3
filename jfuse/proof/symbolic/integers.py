"""Arithmetic of integers, which wraps: exact for constants and for what counts, else atoms of the operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.proof.symbolic import counts, functions, lookups, moves
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.forms import Form, added


def elements(forms: Sequence[Form], eqn: Any) -> list[Form]:
    """Operands of an elementwise primitive, in the shape of the result."""
    shape = eqn.outvars[0].aval.shape
    return moves.aligned(*(_in_shape(form, shape) for form in forms))


def _in_shape(form: Form, shape: Sequence[Any]) -> Form:
    own = form.shape
    if len(own) == len(shape) and all(same(a, b) is True for a, b in zip(own, shape, strict=True)):
        return form
    return moves.broadcast(form, shape, list(range(len(shape) - len(own), len(shape))))


def integers(atoms: Atoms, forms: Sequence[Form], eqn: Any) -> Form:
    """Integer arithmetic, which wraps: of constants NumPy's, else an atom."""
    name, dtype = eqn.primitive.name, eqn.outvars[0].aval.dtype
    operands = elements(forms, eqn)
    if all(f.is_constant and not f.error for f in operands) and name in _NUMPY:
        values = [f.constant.astype(v.aval.dtype) for f, v in zip(operands, eqn.invars, strict=True)]
        with np.errstate(all="ignore"):
            result = np.asarray(_NUMPY[name](*values)).astype(np.float64)
        return Form(operands[0].axes, {}, result, 0.0)
    if name == "max" and (last := lookups.last_counted(atoms, *operands)) is not None:
        return last
    exact = _of_counts(atoms, name, operands)
    if exact is not None and counts.fits(atoms, exact, dtype):
        return exact
    neutral = {"add": 0.0, "mul": 1.0}.get(name)
    for mine, other in (operands, operands[::-1]) if neutral is not None else ():
        if other.is_constant and not other.error and (other.constant == neutral).all():
            return mine
    options = str(sorted((k, str(v)) for k, v in eqn.params.items()))
    return atoms.function((name, str(dtype), options), operands)


def _of_counts(atoms: Atoms, name: str, operands: Sequence[Form]) -> Form | None:
    """The sum, difference or multiple of counts, which does not wrap where its type holds it; else None."""
    if any(counts.bounds(atoms, form) is None for form in operands):
        return None
    if name in ("add", "sub"):
        return (added if name == "add" else functions.minus)(*operands)
    if name == "neg":
        return operands[0].scale(-1.0)
    is_multiple = name == "mul" and any(form.is_constant for form in operands)
    return functions.product(atoms, *operands) if is_multiple else None


_NUMPY: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
}
