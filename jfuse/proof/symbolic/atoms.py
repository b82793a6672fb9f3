"""Atoms by congruence: a function of equal rows is one atom, whoever asks for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from jfuse.ir.dims import Dim
from jfuse.proof.symbolic.blocks import Block, Picks, Stopped, present
from jfuse.proof.symbolic.comparison import difference
from jfuse.proof.symbolic.forms import RELATIVE, RESIDUE, Form, Instance, Part, Ref, added

_SMALL = 0.05  # the size of values for which wide gates do not saturate
_STEEP = frozenset({"sqrt", "log", "reciprocal", "pow", "positive", "zero"})
"""Functions to which the smallest constant makes a difference."""
_CLOSE = 1e-9  # between evaluations of rows that may be equal: which are is decided entry by entry


@dataclass(eq=False)
class Family:
    """Atoms that were made together: a function of rows whose open indices are "param" references.

    op: the function. size: the number of atoms. operands: their rows, empty for inputs. keys: evaluations of the rows
    at one random point. factors: of products, the instances; chosen: which of their atoms.
    """

    op: Hashable
    size: int
    arity: int
    operands: tuple[Form, ...] = ()
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0))
    factors: tuple[Instance, ...] = ()
    chosen: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), int))
    is_bool: bool = False


class MaskPadding(NamedTuple):
    """How a mask is padded: the place of the step among its indices, the side (as of `Padded`), the number of steps."""

    place: int
    side: str
    size: Dim


class Atoms:
    """All families of one proof, for both of its sides.

    allowance: as of `comparison.difference`. is_trial: whether numbers are tried, of which nothing is proven.
    padded: families of masks without gaps. ramps: known sizes along which a count from 0 has an open axis.
    saturates: whether gates beside 10,000 are taken as 0 or 1; is_saturated: whether some were. undefined: for families
    whether their atoms may be no number, as far as `domains` was asked.
    """

    def __init__(self, allowance: float = 0.0) -> None:
        self.allowance = allowance
        self.is_trial = False
        self.saturates = self.is_saturated = False
        self.padded: dict[int, MaskPadding] = {}
        self.ramps: frozenset[int] = frozenset()
        self.families: list[Family] = []
        self.undefined: dict[int, bool] = {}
        self._by_key: dict[Hashable, list[int]] = {}
        self._points: dict[Instance, np.ndarray] = {}
        self._random = np.random.default_rng(0)

    # Families

    def fresh(self, op: Hashable, size: int, arity: int, *, is_bool: bool = False) -> int:
        """A family that is equal to nothing else, as an input of a graph or what a loop carries."""
        return self._new(Family(op, size, arity, is_bool=is_bool))

    def named(self, op: Hashable, size: int, arity: int) -> int:
        """The family of that name, made where it is not there."""
        numbers = self._by_key.setdefault(("named", op), [])
        if not numbers:
            numbers.append(self.fresh(op, size, arity))
        return numbers[0]

    def _new(self, family: Family) -> int:
        self.families.append(family)
        return len(self.families) - 1

    def of(self, instance: Instance) -> Family:
        """The family of an instance."""
        return self.families[instance.family]

    def point(self, instance: Instance) -> np.ndarray:
        """Where rows are evaluated to look them up: one number for each atom of an instance."""
        if instance not in self._points:
            self._points[instance] = self._random.standard_normal(self.of(instance).size)
        return self._points[instance]

    def evaluated(self, form: Form, *, as_values: bool = False) -> np.ndarray:
        """The rows of a form at the point.   as_values: bools are 0 or 1, all else is small; f64[rows]"""
        total = form.constant.copy()
        for instance, block in form.blocks.items():
            point = self.point(instance)
            if as_values:
                point = (point > 0).astype(np.float64) if self.of(instance).is_bool else _SMALL * point
            total += block.at(point)
        return total

    # Functions of rows

    def function(
        self,
        op: Hashable,
        operands: Sequence[Form],
        *,
        is_bool: bool = False,
        parity: int = 0,
        bound: Ref | None = None,
    ) -> Form:
        """The atoms `op(row of each operand)`; the operands have the same axes, and so has the result.

        parity: -1 where the function of the one operand is odd, 1 where it is even; only one of x and -x has an atom.
        bound: an index that the function binds; the atoms do not depend on it.
        """
        first = operands[0]
        if op in _STEEP and any(map(_hides_constant, operands)):
            raise Stopped(f"a constant below the rounding beside it, in {op}")
        families = np.zeros(first.rows, int)
        atoms = np.zeros(first.rows, int)
        signs = np.ones(first.rows)
        result = Form(first.axes, {}, np.zeros(first.rows), 0.0)
        for rows, parts in self._alike(operands):
            order = _refs_of(parts, bound)
            change = {_plain(ref): Ref("param", i, ref.flipped) for i, ref in enumerate(order)}
            lambdas = tuple(part.with_refs(change) for part in parts)
            if parity:  # by the indices of the atoms: their names do not count
                turned = np.where(self.evaluated(lambdas[0]) < 0, -1.0, 1.0)
                lambdas = (lambdas[0].scale(turned),)
                signs[rows] = turned if parity < 0 else 1.0
            where, which = self._found(op, lambdas, len(order), is_bool)
            families[rows], atoms[rows] = where, which
            for family in _different(where):
                here = rows[where == family]
                instance = Instance(int(family), tuple(order))
                picked = np.full(first.rows, -1)
                picked[here] = atoms[here]
                block = Picks(picked, np.where(picked >= 0, signs, 0.0))
                result = added(result, Form(first.axes, {instance: block}, np.zeros(first.rows), 0.0))
        return result

    def has(self, op: Hashable, form: Form) -> np.ndarray:
        """Whether there is an atom of a function for each row.   bool[rows]"""
        result = np.zeros(form.rows, bool)
        for rows, parts in self._alike([form]):
            order = _refs_of(parts)
            change = {_plain(ref): Ref("param", i, ref.flipped) for i, ref in enumerate(order)}
            lambdas = tuple(part.with_refs(change) for part in parts)
            result[rows] = self._known(op, lambdas, len(order))[0] >= 0
        return result

    def _alike(self, operands: Sequence[Form]) -> Iterable[tuple[np.ndarray, tuple[Form, ...]]]:
        """The rows, in groups that have atoms of the same instances, with the operands of each."""
        columns = [(n, i, present(b)) for n, form in enumerate(operands) for i, b in _in_order(form)]
        count = operands[0].rows
        if not columns:
            yield np.arange(count), tuple(operands)
            return
        table = np.stack([has for _, _, has in columns])
        if table.all():
            yield np.arange(count), tuple(operands)
            return
        patterns, group = np.unique(table, axis=1, return_inverse=True)
        for number in range(patterns.shape[1]):
            (rows,) = np.nonzero(group.reshape(-1) == number)
            used = {(n, i) for (n, i, _), has in zip(columns, patterns[:, number], strict=True) if has}
            yield rows, tuple(_only(form, n, used, rows) for n, form in enumerate(operands))

    def _found(
        self, op: Hashable, operands: tuple[Form, ...], arity: int, is_bool: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each row the family and the atom in it: those that are there, or new ones."""
        families, atoms, keys = self._known(op, operands, arity)
        key = _key(op, operands, arity)
        (left,) = np.nonzero(families < 0)
        if left.size:
            rows = tuple(_flat(form, left) for form in operands)
            unique, places = self._unique(rows, keys[left])
            new = tuple(_flat(form, unique) for form in rows)
            family = self._new(Family(op, len(unique), arity, new, keys[left][unique], is_bool=is_bool))
            self._by_key.setdefault(key, []).append(family)
            families[left], atoms[left] = family, places
        return families, atoms

    def _known(self, op: Hashable, operands: tuple[Form, ...], arity: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each row the family and the atom that are there, -1 for none, and its evaluation."""
        keys = np.zeros(operands[0].rows)
        for number, form in enumerate(operands):
            keys = keys + (1.0 + 0.618 * number) * self.evaluated(form)
        families, atoms = np.full(len(keys), -1), np.full(len(keys), -1)
        for number in self._by_key.get(_key(op, operands, arity), []):
            (left,) = np.nonzero(families < 0)
            if not left.size:
                break
            self._match(number, operands, keys, left, families, atoms)
        return families, atoms, keys

    def _match(
        self,
        number: int,
        operands: Sequence[Form],
        keys: np.ndarray,
        left: np.ndarray,
        families: np.ndarray,
        atoms: np.ndarray,
    ) -> None:
        family = self.families[number]
        places = nearest(family.keys, keys[left])
        close = np.abs(family.keys[places] - keys[left]) <= _closeness(keys[left], self.allowance)
        rows, candidates = left[close], places[close]
        if not rows.size:
            return
        differs = np.zeros(len(rows), bool)
        for mine, other in zip(operands, family.operands, strict=True):
            differs |= difference(_flat(mine, rows), _flat(other, candidates), self.allowance)
        families[rows[~differs]], atoms[rows[~differs]] = number, candidates[~differs]

    def _unique(self, operands: Sequence[Form], keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows without those that equal an earlier one, and for each row its place among these."""
        order = np.argsort(keys, kind="stable")
        near = np.abs(np.diff(keys[order])) <= _closeness(keys[order][1:], self.allowance)
        run = np.empty(len(keys), int)
        run[order] = np.cumsum(np.concatenate([[0], ~near]))
        stands_for, left = np.arange(len(keys)), np.arange(len(keys))
        while near.any() and left.size:  # in each turn the first row that is left of each run stands for its equals
            _, first, which = np.unique(run[left], return_index=True, return_inverse=True)
            leaders = left[first[which]]
            rows, others = left[leaders != left], leaders[leaders != left]
            differs = np.zeros(len(rows), bool)
            for form in operands:
                differs |= difference(_flat(form, rows), _flat(form, others), self.allowance)
            stands_for[rows[~differs]] = others[~differs]
            left = rows[differs]
        unique = np.unique(stands_for)
        return unique, np.searchsorted(unique, stands_for)

    # What atoms are made of

    def rows_of(self, instance: Instance, atoms: np.ndarray, operand: int = 0) -> Form:
        """The rows that some atoms of a function are of, with the indices of the instance; the axes are not told."""
        form = _flat(self.of(instance).operands[operand], atoms)
        return form.with_refs({Ref("param", n): ref for n, ref in enumerate(instance.refs)})

    def factors_of(self, instance: Instance, atoms: np.ndarray) -> list[tuple[Instance, np.ndarray]]:
        """The instances and atoms whose product atoms are; for all others themselves."""
        family = self.of(instance)
        if not family.factors:
            return [(instance, atoms)]
        change = dict(enumerate(instance.refs))
        return [
            (Instance(f.family, tuple(change[r.number].turned(r.flipped) for r in f.refs)), family.chosen[atoms, k])
            for k, f in enumerate(family.factors)
        ]

    def leaves(self, *forms: Form) -> set[Instance]:
        """The atoms without operands that forms are built from, at their indices."""
        known: dict[Instance, set[Instance]] = {}
        return {leaf for form in forms for i in form.blocks for leaf in self._leaves(i, known)}

    def _leaves(self, instance: Instance, known: dict[Instance, set[Instance]]) -> set[Instance]:
        if instance not in known:
            family = self.of(instance)
            inner = [*(i for form in family.operands for i in form.blocks), *family.factors]
            change = {Ref("param", n): ref for n, ref in enumerate(instance.refs)}
            known[instance] = set() if inner else {instance}
            for i in inner:
                refs = tuple(change.get(_plain(r), _plain(r)).turned(r.flipped) for r in i.refs)
                known[instance] |= self._leaves(Instance(i.family, refs), known)
        return known[instance]

    def product(self, factors: Sequence[tuple[Instance, np.ndarray]]) -> list[tuple[np.ndarray, Instance, np.ndarray]]:
        """The products of atoms, element by element: the places, the instance and the atoms of each part of them."""
        factors = _simplified(sorted(factors, key=lambda f: f[0]), self)
        if len(factors) == 1:
            return [(np.arange(len(factors[0][1])), *factors[0])]
        chosen = _ordered(factors)
        order = _each_once(r for i, _ in factors for r in i.refs)
        change = {_plain(ref): Ref("param", n, ref.flipped) for n, ref in enumerate(order)}
        normal = tuple(Instance(i.family, tuple(_changed(r, change) for r in i.refs)) for i, _ in factors)
        key = ("product", *normal)
        families, atoms = np.full(len(chosen), -1), np.full(len(chosen), -1)
        # Hash consing: a product that exists already keeps its family and atom, so that equal products are one atom.
        for number in self._by_key.get(key, []):
            known = {tuple(row): place for place, row in enumerate(self.families[number].chosen.tolist())}
            for row in np.nonzero(families < 0)[0]:
                place = known.get(tuple(chosen[row].tolist()))
                if place is not None:
                    families[row], atoms[row] = number, place
        (left,) = np.nonzero(families < 0)
        if left.size:
            unique, places = np.unique(chosen[left], axis=0, return_inverse=True)
            is_bool = all(self.of(i).is_bool for i, _ in factors)
            made = Family("product", len(unique), len(order), factors=normal, chosen=unique, is_bool=is_bool)
            family = self._new(made)
            self._by_key.setdefault(key, []).append(family)
            families[left], atoms[left] = family, places.reshape(-1)
        result = []
        for family in _different(families):
            (rows,) = np.nonzero(families == family)
            result.append((rows, Instance(int(family), tuple(order)), atoms[rows]))
        return result


def _hides_constant(form: Form) -> bool:
    """Whether some constant may be what rounding leaves of 0, as an epsilon of 1e-14 below a root."""
    size = np.abs(form.constant)
    return bool(((size > 0) & (size <= RESIDUE) & (RELATIVE * size < form.error)).any())


def _different(numbers: np.ndarray) -> np.ndarray:
    """Each of the numbers once."""
    return numbers[:1] if (numbers == numbers[:1]).all() else np.unique(numbers)


def _key(op: Hashable, operands: Sequence[Form], arity: int) -> Hashable:
    return (op, arity, *(tuple(i for i, _ in _in_order(form)) for form in operands))


def _simplified(factors: list[tuple[Instance, np.ndarray]], atoms: Atoms) -> list[tuple[Instance, np.ndarray]]:
    """Factors without the squares of bools, where all rows have them."""
    result: list[tuple[Instance, np.ndarray]] = []
    for factor in factors:
        twice = any(factor[0] == i and (factor[1] == a).all() for i, a in result)
        if not (twice and atoms.of(factor[0]).is_bool):
            result.append(factor)
    return result


def _ordered(factors: Sequence[tuple[Instance, np.ndarray]]) -> np.ndarray:
    """The atoms as columns; those of one instance ascend, as products do not tell their order."""
    chosen = np.stack([a for _, a in factors], axis=1)
    start = 0
    while start < len(factors):
        end = start
        while end < len(factors) and factors[end][0] == factors[start][0]:
            end += 1
        chosen[:, start:end] = np.sort(chosen[:, start:end], axis=1)
        start = end
    return chosen


def _plain(ref: Ref) -> Ref:
    return Ref(ref.kind, ref.number)


def _changed(ref: Ref, change: Mapping[Ref, Ref]) -> Ref:
    return change[_plain(ref)].turned(ref.flipped)


def _refs_of(operands: Sequence[Form], bound: Ref | None = None) -> list[Ref]:
    """The indices of rows but the bound one, in an order that does not depend on the names of these."""
    refs = _each_once(r for form in operands for i, _ in _in_order(form) for r in i.refs)
    return [r for r in refs if _plain(r) != bound]


def _each_once(refs: Iterable[Ref]) -> list[Ref]:
    """Each index once, from the end that it is counted from where it stands first."""
    first: dict[Ref, Ref] = {}
    for ref in refs:
        first.setdefault(_plain(ref), ref)
    return list(first.values())


def _in_order(form: Form) -> list[tuple[Instance, Block]]:
    return sorted(form.blocks.items(), key=lambda item: item[0])


def _only(form: Form, number: int, kept: set[tuple[int, Instance]], rows: np.ndarray) -> Form:
    blocks = {i: b.take(rows) for i, b in form.blocks.items() if (number, i) in kept}
    return Form((((len(rows), False),),), blocks, form.constant[rows], form.error)


def _flat(form: Form, rows: np.ndarray) -> Form:
    part: Part = (len(rows), False)
    return form.take(rows, ((part,),))


def nearest(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each wanted number the place of the key that is nearest."""
    order = np.argsort(keys)
    ranked = keys[order]
    right = np.clip(np.searchsorted(ranked, wanted), 0, len(keys) - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.abs(ranked[left] - wanted) <= np.abs(ranked[right] - wanted)
    return order[np.where(nearer, left, right)]


def _closeness(keys: np.ndarray, allowance: float) -> np.ndarray:
    return np.asarray((_CLOSE + 64 * allowance) * (1.0 + np.abs(keys)))
