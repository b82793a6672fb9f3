"""Products of an operand that the source itself rounds to 8 bits as it runs, as Keras's quantized layers do.

`Dense` after `model.quantize("int8")` is (round(x * e) @ w) / (s * e), with e = 127 / max|x| for each row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Op, Var
from jfuse.kernels import ops

_LAST_STEP = 127.0
_LETTERS: Mapping[Op, str] = {
    ops.round_: "r",
    ops.minimum: "l",
    ops.maximum: "l",
    ops.cast: "m",
    ops.strided_slice: "s",
    ops.add: "a",
}
_ORDER = re.compile("rllm*(s?)m*pm*(a*)m*")
"""ROUND, two limits and a product; CAST to integers and back, and reshapes, before and behind it. A product of many
terms is a sum of products of a few columns each, so that a float holds every sum exactly: this is the first product."""


@dataclass(frozen=True)
class ScaledProduct:
    """A product that is divided by scales, with its operand before it is rounded.

    product: the first one, of a sum of several. before, behind: what gives the operand, and the product, another
    shape. matrix: f32[n,m], the weights of all of them. scales: f32[n], of its rows. activation: of the quotient.
    """

    operand: Var
    before: Sequence[Eqn]
    product: Eqn
    behind: Sequence[Eqn]
    matrix: np.ndarray
    scales: np.ndarray
    activation: str

    @property
    def weights(self) -> np.ndarray:
        """f32[n,m], divided by their scales."""
        return np.asarray((self.matrix / self.scales[:, None]).astype(np.float32))


def scaled_product(eqn: Eqn, made_by: Mapping[Var, Eqn]) -> ScaledProduct | None:
    """Read a DIV as the product of an operand that was rounded; None where it is another."""
    if eqn.op is not ops.div:
        return None
    divisor, (first, chain) = _maker(eqn.inputs[1], made_by), _chain(eqn.inputs[0], made_by)
    letters = "".join("p" if _is_plain_product(step) else _LETTERS.get(step.op, "m") for step in chain)
    if divisor is None or first is None or not (_is_factor(divisor) and _is_factor(first)):
        return None
    if not _ORDER.fullmatch(letters):
        return None
    place = letters.index("p")
    product, matrix = chain[place], _matrix(chain, letters, made_by)
    of_rows, scales = _var_and_const(divisor)
    if of_rows is None or scales is None or not np.all(scales.array) or not _has_limits(chain) or matrix is None:
        return None
    factor = _unrenamed(of_rows, made_by)
    operand = _scaled_by(factor, matrix.shape[1], made_by)
    if operand is None or {*first.inputs} != {operand, factor} or not _is_for_rows(of_rows, eqn):
        return None
    divided = eqn.inputs[0]
    assert divided is not None, "an operand"
    of_weights = _by_row_of_weights(scales.array, len(matrix), divided.type.shape)
    if of_weights is None:
        return None
    before, behind = ([s for s in part if s.op.moves == "renames"] for part in (chain[:place], chain[place + 1 :]))
    activation = eqn.params["fused_activation_function"]
    return ScaledProduct(operand, before, product, behind, matrix, of_weights, activation)


def _matrix(chain: Sequence[Eqn], letters: str, made_by: Mapping[Var, Eqn]) -> np.ndarray | None:
    """The weights of the product of a chain, or of all products that are added up.

    None where these are of something else than one part after the other of the same columns.
    """
    if "s" not in letters and "a" not in letters:
        return _weights(chain[letters.index("p")])
    sums = [step for step, letter in zip(chain, letters, strict=True) if letter == "a"]
    parts = [_part(step.inputs[1], made_by) for step in sums]
    first = _part(sums[0].inputs[0], made_by) if sums else None
    columns, matrices, at = None, [], 0
    for part in (first, *parts):
        if part is None or _begins(part[0], columns or part[0].inputs[0]) != at:
            return None
        columns = part[0].inputs[0]
        matrices.append(_weights(part[1]))
        at += matrices[-1].shape[1]
    is_whole = columns is not None and columns.type.shape[-1] == at
    is_plain = all(step.params["fused_activation_function"] == "NONE" for step in sums)
    return np.concatenate(matrices, 1) if is_whole and is_plain else None


def _part(atom: Atom | None, made_by: Mapping[Var, Eqn]) -> tuple[Eqn, Eqn] | None:
    """The STRIDED_SLICE and the product of one summand; None of another one."""
    _, chain = _chain(atom, made_by)
    place = next((i for i in reversed(range(len(chain))) if chain[i].op is ops.strided_slice), len(chain))
    inner = [step for step in chain[place + 1 :] if step.op is not ops.cast]
    product = next((step for step in inner if _is_plain_product(step)), None)
    if product is None or inner[0] is not product or any(step.op.moves != "renames" for step in inner[1:]):
        return None
    return chain[place], product


def _begins(columns: Eqn, source: Atom | None) -> int | None:
    """The first of the columns that a STRIDED_SLICE takes of all rows of a source; None where it takes others."""
    x, begin, _, strides = columns.inputs
    if (
        x is not source
        or not isinstance(begin, Const)
        or not isinstance(strides, Const)
        or not np.all(strides.array == 1)
    ):
        return None
    assert x is not None, "an operand"
    source_shape, taken = x.type.shape, columns.outputs[0].type.shape
    if len(source_shape) != len(taken) or source_shape[:-1] != taken[:-1] or begin.array.shape != (len(source_shape),):
        return None
    is_masked = columns.params.get("begin_mask", 0) >> (len(source_shape) - 1) & 1
    return 0 if is_masked else int(begin.array[-1])


def _weights(product: Eqn) -> np.ndarray:
    weights = product.inputs[1]
    assert isinstance(weights, Const), "_is_plain_product"
    return np.asarray(weights.array)


def _maker(atom: Atom | None, made_by: Mapping[Var, Eqn]) -> Eqn | None:
    return made_by.get(atom) if isinstance(atom, Var) else None


def _chain(atom: Atom | None, made_by: Mapping[Var, Eqn]) -> tuple[Eqn | None, list[Eqn]]:
    """The equations that make an operand out of one value each, from the first on, and what makes that value."""
    chain: list[Eqn] = []
    eqn = _maker(atom, made_by)
    while eqn is not None and (eqn.op in _LETTERS or eqn.op.moves == "renames" or _is_plain_product(eqn)):
        chain.append(eqn)
        eqn = _maker(eqn.inputs[0], made_by)
    return eqn, chain[::-1]


def _is_plain_product(eqn: Eqn) -> bool:
    if eqn.op is not ops.fully_connected or not isinstance(eqn.inputs[1], Const):
        return False
    return eqn.inputs[2] is None and eqn.params["fused_activation_function"] == "NONE"


def _is_factor(eqn: Eqn) -> bool:
    return eqn.op is ops.mul and eqn.params["fused_activation_function"] == "NONE"


def _var_and_const(eqn: Eqn) -> tuple[Var | None, Const | None]:
    """The operands of a product, whatever their order."""
    by_type = {type(a): a for a in eqn.inputs}
    return by_type.get(Var), by_type.get(Const)  # type: ignore[return-value]


def _has_limits(chain: Sequence[Eqn]) -> bool:
    limits = {step.op: step.inputs[1] for step in chain if step.op in (ops.minimum, ops.maximum)}
    wanted = {ops.minimum: _LAST_STEP, ops.maximum: -_LAST_STEP}
    return all(_is_number(limits.get(op), value) for op, value in wanted.items())


def _is_number(atom: Atom | None, value: float) -> bool:
    return isinstance(atom, Const) and bool(np.all(atom.array == value))


def _scaled_by(factor: Atom | None, terms: int, made_by: Mapping[Var, Eqn]) -> Var | None:
    """The x of 127 / (max|x| + epsilon) over those of its last axes that a product sums over; None of other factors.

    terms: how many the product sums up.
    """
    quotient = _maker_by(ops.div, factor, made_by)
    if quotient is None or not _is_number(quotient.inputs[0], _LAST_STEP):
        return None
    least = _maker_by(ops.add, quotient.inputs[1], made_by)
    largest = None if least is None else _maker_by(ops.reduce_max, least.inputs[0], made_by)
    size = None if largest is None else _maker_by(ops.abs_, largest.inputs[0], made_by)
    if largest is None or size is None or not isinstance(axes := largest.inputs[1], Const):
        return None
    x = size.inputs[0]
    assert isinstance(x, Var), "constants are folded"
    reduced = sorted(int(a) % x.type.rank for a in axes.array.ravel())
    summed = [d for d in x.type.shape[reduced[0] :] if isinstance(d, int)]
    is_last = reduced == list(range(x.type.rank - len(summed), x.type.rank))
    return x if is_last and prod(summed) == terms else None


def _maker_by(op: Op, atom: Atom | None, made_by: Mapping[Var, Eqn]) -> Eqn | None:
    eqn = _maker(atom, made_by)
    return eqn if eqn is not None and eqn.op is op else None


def _unrenamed(atom: Var, made_by: Mapping[Var, Eqn]) -> Atom | None:
    """Skip the reshapes before an operand."""
    operand: Atom | None = atom
    while (eqn := _maker(operand, made_by)) is not None and eqn.op.moves == "renames":
        operand = eqn.inputs[0]
    return operand


def _is_for_rows(scale: Var, quotient: Eqn) -> bool:
    """Whether a scale has an element for each row of products: axes of size 1 after those of the rows."""
    mine, theirs = scale.type.shape, quotient.outputs[0].type.shape
    rows = next((i for i in range(len(mine), 0, -1) if mine[i - 1] != 1), 0)
    return len(mine) == len(theirs) and mine[:rows] == theirs[:rows]


def _by_row_of_weights(scales: np.ndarray, count: int, shape: Sequence[Any]) -> np.ndarray | None:
    """Scales as one for each of the rows of the weights; None where they differ otherwise.

    shape: of what is divided by them, whose last axes are these rows.
    """
    first = next((i for i in reversed(range(len(shape))) if _is_of(shape[i:], count)), None)
    if first is None:
        return None
    others = scales.ndim - (len(shape) - first)
    if any(size != 1 for size in scales.shape[: max(others, 0)]):
        return None
    return np.broadcast_to(scales.reshape(scales.shape[max(others, 0) :]), [int(d) for d in shape[first:]]).ravel()


def _is_of(shape: Sequence[Any], count: int) -> bool:
    return all(map(is_known, shape)) and prod(map(int, shape)) == count
