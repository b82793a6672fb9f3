"""Patterns: a function of ops, traced once, says which equations a peephole rule looks for.

    lambda x, y: ops.neg(ops.sub(x, y))

matches a NEG of a SUB that nothing else reads, and binds x and y. In a pattern

- a parameter stands for one operand, the same wherever it is used, or for the value of an option;
  `const(x)` must be a constant, `var(x)` computed at run time, `optional(x)` may be absent;
- a number stands for a constant that has it in every element;
- `...` as the last operand stands for any further ones, elsewhere for one, as an option for any value;
- operands of commutative ops match in both orders, the spelled one first;
- an activation that is not spelled is NONE; other options that are not spelled are free;
- `one_of(ops.add, ops.sub)(x, y)` is one of several ops; a `form` is any equation that a function can read;
- `.named("first")` binds the equation, or what the form reads; `.shared()` allows other readers of its result.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import EllipsisType
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from jfuse.base.errors import RuleError
from jfuse.ir.graph import Atom, Const, Eqn, Op, Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp
from jfuse.kernels.core.operand import Placeholder
from jfuse.lowering.peephole.view import GraphView

Bound: TypeAlias = dict[str, Any]
"""The bindings of a pattern's names: operands, values of options, equations, and operands of forms."""

_COMMUTATIVE = frozenset({ops.add, ops.mul, ops.maximum, ops.minimum, ops.logical_and, ops.logical_or})
_DEFAULTS = {"fused_activation_function": "NONE"}  # options that are checked where a pattern does not spell them
# Elements; larger constants are weights, and reading them in every sweep would cost more than it gives.
LARGEST_READ = 1 << 16


@dataclass(frozen=True, eq=False)
class OperandPattern(Placeholder):
    """An operand in a pattern."""

    @property
    def effort(self) -> int:
        """The order of checks, cheap ones first: kinds of operands, then the ops that made them."""
        return 0

    @abstractmethod
    def matches(self, atom: Atom | None, view: GraphView, bound: Bound) -> bool:
        """Whether an operand is this one; its names are put into `bound`, also where it is not."""

    def orders(self) -> Iterable[Self]:
        """The pattern, with each order of the operands of commutative ops."""
        return (self,)

    def names(self) -> frozenset[str]:
        """The names that a match binds."""
        return frozenset()

    def applied(self, op: TflOp, operands: tuple[Any, ...], options: Mapping[str, Any]) -> CallPattern:
        """The call of an op as a pattern."""
        return one_of(op)(*operands, **options)


@dataclass(frozen=True, eq=False)
class Variable(OperandPattern):
    """A parameter of the pattern function: an operand, or the value of an option."""

    name: str
    kind: Literal["any", "const", "var", "optional"] = "any"

    @property
    def effort(self) -> int:
        return 0 if self.kind == "const" else 2

    def matches(self, atom: Atom | None, view: GraphView, bound: Bound) -> bool:
        if self.kind == "const":
            fits = isinstance(atom, Const)
        elif self.kind == "var":
            fits = isinstance(atom, Var)
        else:
            fits = atom is not None or self.kind == "optional"
        return fits and bound.setdefault(self.name, atom) is atom

    def names(self) -> frozenset[str]:
        return frozenset({self.name})


@dataclass(frozen=True, eq=False)
class Filled(OperandPattern):
    """A number: a constant that has it in every element."""

    number: float

    def matches(self, atom: Atom | None, view: GraphView, bound: Bound) -> bool:
        return is_filled(atom, self.number)


@dataclass(frozen=True, eq=False)
class Made(OperandPattern):
    """The result of an equation of one of these ops.   name: of the equation in the match"""

    ops: frozenset[Op]
    name: str | None = None
    may_be_shared: bool = False

    @property
    def effort(self) -> int:
        return 1

    def named(self, name: str) -> Self:
        """The same, bound to a name in the match."""
        return replace(self, name=name)

    def shared(self) -> Self:
        """The same, also where others read the result; the equation then stays."""
        return replace(self, may_be_shared=True)

    def matches(self, atom: Atom | None, view: GraphView, bound: Bound) -> bool:
        eqn = view.producer(atom)
        if atom is None or eqn is None or eqn.op not in self.ops:
            return False
        return (self.may_be_shared or view.readers(atom) == 1) and self.fits(eqn, view, bound)

    def made_any(self, atoms: Iterable[Atom | None], view: GraphView) -> bool:
        """Whether an equation of one of the ops made one of these operands."""
        for atom in atoms:
            eqn = view.producer(atom)
            if eqn is not None and eqn.op in self.ops:
                return True
        return False

    @abstractmethod
    def fits(self, eqn: Eqn, view: GraphView, bound: Bound) -> bool:
        """Whether an equation of one of the ops is this one."""

    def names(self) -> frozenset[str]:
        return frozenset({self.name} if self.name else ())


@dataclass(frozen=True, eq=False)
class CallPattern(Made):
    """An equation with these operands and options.

    operands: None for a free one. options: with their values. bound_options: with their names in the match.
    is_open: whether there may be further operands. checks: the operands by place, in the order of their effort.
    """

    operands: tuple[OperandPattern | None, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    bound_options: tuple[tuple[str, str], ...] = ()
    is_open: bool = False
    checks: tuple[tuple[int, OperandPattern], ...] = ()

    def fits(self, eqn: Eqn, view: GraphView, bound: Bound) -> bool:
        inputs = eqn.inputs
        if len(inputs) < len(self.operands) or not self._has_options(eqn, bound):
            return False
        for place, operand in self.checks:
            if not operand.matches(inputs[place], view, bound):
                return False
        if not self.is_open and any(atom is not None for atom in inputs[len(self.operands) :]):
            return False
        if self.name is not None:
            bound[self.name] = eqn
        return True

    def _has_options(self, eqn: Eqn, bound: Bound) -> bool:
        params = eqn.params
        for option, wanted in self.options:
            if params.get(option, wanted) != wanted:
                return False
        for option, name in self.bound_options:
            value = params.get(option)
            if bound.setdefault(name, value) != value:
                return False
        return True

    def orders(self) -> Iterator[Self]:
        either = self.ops & _COMMUTATIVE if len(self.operands) == 2 else frozenset()
        spelled = [self]
        if either and self.operands[0] is not self.operands[1]:
            spelled.append(replace(self, ops=either, operands=self.operands[::-1]))
        for call in spelled:
            inner = [(None,) if o is None else tuple(o.orders()) for o in call.operands]
            for last_first in product(*reversed(inner)):
                operands = last_first[::-1]
                checks = [(i, o) for i, o in enumerate(operands) if o is not None]
                checks.sort(key=lambda check: check[1].effort)
                yield replace(call, operands=operands, checks=tuple(checks))

    def names(self) -> frozenset[str]:
        options = {name for _, name in self.bound_options}
        return super().names().union(options, *(o.names() for o in self.operands if o is not None))


@dataclass(frozen=True, eq=False)
class FormPattern(Made):
    """An equation that `of` reads: as a record whose `x` is the operand, or as None where it is no such equation."""

    of: Callable[[Eqn], Any] = lambda eqn: eqn
    operand: OperandPattern | None = None

    def __call__(self, operand: OperandPattern | EllipsisType = ...) -> Self:
        """The same of this operand."""
        return replace(self, operand=None if isinstance(operand, EllipsisType) else operand)

    def fits(self, eqn: Eqn, view: GraphView, bound: Bound) -> bool:
        # Reading is slow beside a look at what made the operands.
        if isinstance(self.operand, Made) and not self.operand.made_any(eqn.inputs, view):
            return False
        read_form = self.of(eqn)
        if read_form is None or (self.operand is not None and not self.operand.matches(read_form.x, view, bound)):
            return False
        if self.name is not None:
            bound[self.name] = read_form
        return True

    def orders(self) -> Iterator[Self]:
        for operand in (None,) if self.operand is None else self.operand.orders():
            yield replace(self, operand=operand)

    def names(self) -> frozenset[str]:
        return super().names() | (frozenset() if self.operand is None else self.operand.names())


def one_of(*either: TflOp) -> Callable[..., CallPattern]:
    """A call of any of these ops."""

    def call(*operands: Any, **options: Any) -> CallPattern:
        is_open = bool(operands) and operands[-1] is ...
        spelled = tuple(map(_operand, operands[:-1] if is_open else operands))
        wanted = {n: v for n, v in _DEFAULTS.items() if any(n in op.options for op in either)} | options
        values = tuple((n, v) for n, v in wanted.items() if v is not ... and not isinstance(v, Variable))
        names = tuple((n, v.name) for n, v in wanted.items() if isinstance(v, Variable))
        return CallPattern(frozenset(either), operands=spelled, options=values, bound_options=names, is_open=is_open)

    return call


def form(of: Callable[[Eqn], Any], *either: TflOp) -> FormPattern:
    """A pattern of one operand for equations of these ops that `of` reads; it says nothing of activations."""
    return FormPattern(frozenset(either), of=of)


def const(x: Any) -> Any:
    """A parameter that must be a constant."""
    return replace(x, kind="const")


def var(x: Any) -> Any:
    """A parameter that must be computed at run time."""
    return replace(x, kind="var")


def optional(x: Any) -> Any:
    """A parameter that may be an absent operand; it is None then."""
    return replace(x, kind="optional")


def traced(pattern: Callable[..., Any]) -> tuple[Made, ...]:
    """The pattern that a function of ops records, with each order of the operands of commutative ops."""
    root = pattern(*map(Variable, inspect.signature(pattern).parameters))
    if not isinstance(root, Made):
        raise RuleError("a pattern is a call of ops", found=root)
    return tuple(root.orders())


def is_filled(atom: Atom | None, number: float) -> bool:
    """Whether a constant has this number in every element, one at least."""
    if not isinstance(atom, Const) or not 0 < atom.array.size <= LARGEST_READ:
        return False
    # The first element alone decides most cases.
    return bool(atom.array.flat[0] == number) and bool(np.all(atom.array == number))


def _operand(spelled: Any) -> OperandPattern | None:
    if spelled is ...:
        return None
    return spelled if isinstance(spelled, OperandPattern) else Filled(spelled)
