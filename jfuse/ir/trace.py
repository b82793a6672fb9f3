"""Recording: while a trace is active, an op called on Vars appends an equation instead of computing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, LowerError, TypeMismatch, note_place
from jfuse.ir.dims import (
    Dim,
    SymbolNames,
    alike,
    divided,
    is_known,
    paired,
    same,
    solved,
    substitute_dim,
    symbols_in,
    symbols_of,
)
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Params, Source, Var
from jfuse.ir.literals import format_value
from jfuse.ir.types import TensorType
from jfuse.ir.walk import rename_dims

_ACTIVE: ContextVar[Trace | None] = ContextVar("jfuse_trace", default=None)


class Trace:
    """The equations recorded so far, and what nested traces share with it: symbol names, equalities, place."""

    def __init__(self, outer: Trace | None = None, names: SymbolNames | None = None) -> None:
        self._eqns: list[Eqn] = []
        self._place: dict[Var, int] = {}
        self._known_scalars: dict[Var, np.ndarray] = {}
        self.names: SymbolNames = names or (outer.names if outer else SymbolNames())
        self.sizes: dict[str, Dim] = outer.sizes if outer else {}
        self.source: Source = outer.source if outer else Source()
        self._consts: dict[int, Const] = outer._consts if outer else {}

    @property
    def eqns(self) -> Sequence[Eqn]:
        """The equations so far, in their order."""
        return self._eqns

    @property
    def known_scalars(self) -> Mapping[Var, np.ndarray]:
        """The results of rank 0 whose value follows from shapes, in the order in which they were recorded."""
        return self._known_scalars

    def record(self, eqn: Eqn) -> None:
        """Take an equation as the next one."""
        for out in eqn.outputs:
            self._place[out] = len(self._eqns)
            if out.value is not None and out.type.rank == 0:
                self._known_scalars[out] = out.value
        self._eqns.append(eqn)

    def take_back(self, start: int) -> list[Eqn]:
        """Forget the equations from a number on; what they were."""
        taken = self._eqns[start:]
        del self._eqns[start:]
        for eqn in taken:
            for out in eqn.outputs:
                self._place.pop(out, None)
                self._known_scalars.pop(out, None)
        return taken

    def producer(self, x: Any, before: int | None = None) -> Eqn | None:
        """The equation that makes a Var; None for inputs, constants and arrays.   before: one of the first equations"""
        place = self._place.get(x) if isinstance(x, Var) else None
        return self._eqns[place] if place is not None and (before is None or place < before) else None

    def constant(self, array: np.ndarray) -> Const:
        """The Const of an array; the same array object gives the same Const, so weights are listed once."""
        const = self._consts.get(id(array))
        if const is None:
            if array.dtype == object and not all(isinstance(item, bytes) for item in array.ravel()):
                raise TypeMismatch(
                    "symbolic sizes as an operand",
                    found=array.tolist(),
                    remedy="make a tensor of them with `shape_tensor`",
                )
            const = self._consts[id(array)] = Const(array)
        return const

    def atom(self, value: Any) -> Atom:
        """A value as an operand of an equation: a Var or Const itself, the Const of an array or number."""
        return value if isinstance(value, Var | Const) else self.constant(as_array(value))

    def operands(self, values: Sequence[Any]) -> tuple[Atom | None, ...]:
        """Values as the operands of an equation, None for those that are omitted."""
        return tuple(None if value is None else self.atom(value) for value in values)

    def resolve(self, tensor_type: TensorType) -> TensorType:
        """A type with the equalities found so far put in."""
        return tensor_type.substitute(self.sizes)

    def equate(self, d: Dim, e: Dim) -> bool:
        """Take two dimensions for equal from now on. True where that resolved a symbol that was open.

        Where only some sizes make them equal (2*floordiv(N, 2) and N), sizes are taken to be such: N is 2*N1. Where
        they are the same function of two sizes (floordiv(N, 2) and floordiv(N1, 2)), these are equal.
        """
        d, e = substitute_dim(d, self.sizes), substitute_dim(e, self.sizes)
        if same(d, e) is not None:
            return False
        if pairs := paired(d, e):
            return any([self.equate(*pair) for pair in pairs])
        for old, new in ((e, d), (d, e)):
            name = str(old)
            if symbols_of(old) == {name} and name not in symbols_of(new):
                return self._replace(name, new)
        solution = solved(d, e)
        if solution is not None:
            return self._replace(*solution)
        if (symbols := alike(d, e)) is not None:
            return self.equate(*symbols)
        multiples = divided(d, e)
        return any([self._replace(name, k * self.names.fresh(name[0]) + rest) for name, k, rest in multiples])

    def _replace(self, name: str, new: Dim) -> bool:
        for key, value in self.sizes.items():
            self.sizes[key] = substitute_dim(value, {name: new})
        self.sizes[name] = new
        return True

    def append(
        self,
        op: Op,
        inputs: Sequence[Atom | None],
        types: Sequence[TensorType],
        params: Params,
        bodies: Sequence[Graph] = (),
        values: Sequence[np.ndarray | None] = (),
    ) -> tuple[Var, ...]:
        """Record one equation; its fresh result Vars."""
        values = values or [None] * len(types)
        outputs = tuple(Var(t, value=v) for t, v in zip(types, values, strict=True))
        self.record(Eqn(op, tuple(inputs), outputs, dict(params), self.source, tuple(bodies)))
        return outputs

    def finish(self, name: str, inputs: Sequence[Var], outputs: Sequence[Any]) -> Graph:
        """The graph of what was recorded, with every equality of dimensions put in."""
        atoms = tuple(map(self.atom, outputs))
        return rename_dims(Graph(name, tuple(inputs), tuple(self._eqns), atoms), self.sizes)


def as_array(value: Any) -> np.ndarray:
    """A value as an array; strings become object arrays of bytes."""
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "SU" else array


def active_trace() -> Trace:
    """The trace that records now; raises JfuseError where none is active."""
    trace = _ACTIVE.get()
    if trace is None:
        raise JfuseError("an op was called on graph variables outside of a trace")
    return trace


def as_atom(value: Any) -> Atom:
    """A value as an operand of an equation of the active trace: arrays and numbers become Consts."""
    return active_trace().atom(value)


Producer = Callable[[Atom | None], Eqn | None]
"""Gives the equation that makes a Var, None for constants and inputs."""


def producer(x: Any) -> Eqn | None:
    """The equation of the active trace that makes a Var; None for inputs, constants, and where none is active."""
    trace = _ACTIVE.get()
    return None if trace is None else trace.producer(x)


def is_tracing() -> bool:
    """Whether ops that are called now record equations, because a trace is active in this thread."""
    return _ACTIVE.get() is not None


@contextmanager
def recording(*, nested: bool = False, names: SymbolNames | None = None) -> Iterator[Trace]:
    """A fresh trace that is active within the `with`; a nested one shares names and equalities with the outer one."""
    trace = Trace(_ACTIVE.get() if nested else None, names)
    token = _ACTIVE.set(trace)
    try:
        yield trace
    finally:
        _ACTIVE.reset(token)


def at_source(source: Source) -> AbstractContextManager[None]:
    """Equations recorded within the `with` carry this source, and errors that leave it name this place."""
    return _AtSource(source)


class _AtSource(AbstractContextManager[None]):
    """A class, not a generator: every equation of every walk goes through it."""

    __slots__ = ("_previous", "_source", "_trace")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._trace = active_trace()

    def __enter__(self) -> None:
        self._previous, self._trace.source = self._trace.source, self._source

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._trace.source = self._previous
        if isinstance(error, JfuseError):
            error.where = error.where or str(self._source)
        elif isinstance(error, Exception):
            note_place(error, where=str(self._source))


def trace_graph(
    function: Callable[..., Any],
    inputs: Sequence[TensorType | Var],
    name: str = "main",
    names: SymbolNames | None = None,
) -> Graph:
    """The graph that `function` records when it is called with one Var per input.

    function: takes that many positional arguments; returns a Var, an array, or a tuple of them.
    A trace that is already active is suspended, and shares its symbol names and equalities.
    """
    variables = [i if isinstance(i, Var) else Var(i) for i in inputs]
    with recording(nested=is_tracing(), names=names) as trace:
        trace.names.reserve(symbols_in(tuple(v.type.shape for v in variables)))
        outputs = function(*variables)
        outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
        return trace.finish(name, variables, outputs)


def carried_types(body: Graph, opened: set[str]) -> list[TensorType]:
    """The types of what a loop carries, so that they hold in each step; a size that changes becomes a symbol.

    Sizes that are open from outside of the loop are taken for equal. opened: the symbols for sizes that change.
    Raises LowerError where the body takes such a size for a formula (twice another one): no size stays that.
    """
    trace = active_trace()
    outside = symbols_in(tuple(v.type.shape for v in body.inputs)) - opened
    types = []
    for var, out in zip(body.inputs, body.outputs, strict=True):
        if var.type.dtype is not out.type.dtype or var.type.rank != out.type.rank:
            raise LowerError(
                "a value carried by a loop changes its type",
                expected=str(var.type),
                found=str(out.type),
                remedy="reshape or cast it within the loop, so that its rank and dtype stay",
            )
        for d, e in zip(var.type.shape, out.type.shape, strict=True):
            if symbols_in((d, e)) <= outside:
                trace.equate(d, e)
        pairs = zip(trace.resolve(var.type).shape, trace.resolve(out.type).shape, strict=True)
        dims = [d if same(d, e) or str(d) in opened else trace.names.fresh("N") for d, e in pairs]
        opened |= {str(d) for d, e in zip(dims, trace.resolve(var.type).shape, strict=True) if not same(d, e)}
        types.append(replace(var.type, shape=tuple(dims)))
    if len(opened) > sum(t.rank for t in types):  # each size is opened once
        changing = (f"{v.type} -> {o.type}" for v, o in zip(body.inputs, body.outputs, strict=True) if v.type != o.type)
        raise LowerError(
            "a loop changes a size in each step, and its body holds for some sizes alone",
            found=", ".join(changing),
            remedy="fix the sizes of the inputs, and write the steps as a loop of Python",
        )
    return types


def equate_operands(trace: Trace, shapes: Sequence[Sequence[Dim]]) -> bool:
    """Equate the symbols on which operands disagree, axes aligned at the end as broadcasting does.

    True where something was resolved, so that type inference is worth another try.
    """
    progress = False
    for axis in range(1, max((len(s) for s in shapes), default=0) + 1):
        dims = [s[-axis] for s in shapes if len(s) >= axis]
        dims = [d for d in dims if not (is_known(d) and d == 1)]
        for other in dims[1:]:
            progress |= same(dims[0], other) is None and trace.equate(dims[0], other)
    return progress


def mismatch(op: Op, inputs: Sequence[Atom | None], params: Mapping[str, Any], reason: object) -> TypeMismatch:
    """The error for operands that an op can not take, with the equation as far as it is known."""
    context = call_text(op, inputs, params)
    return TypeMismatch(f"{op.name} does not take these operands", found=str(reason), context=context)


def call_text(op: Op, inputs: Sequence[Atom | None], params: Mapping[str, Any]) -> str:
    """An equation whose results are not known yet, for messages."""
    operands = ", ".join("-" if i is None else str(i.type) for i in inputs)
    options = " ".join(f"{k}={format_value(v)}" for k, v in params.items())
    return f"{op.name}[{options}] {operands}"
