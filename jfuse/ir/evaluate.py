"""Running a graph: on arrays it computes, under jax it traces, on Vars it records itself again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.base.memo import Memo
from jfuse.ir.dims import Dim, is_known, same, substitute_value, symbol, symbols_in, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Params, Var
from jfuse.ir.trace import Trace, active_trace, at_source, is_tracing
from jfuse.ir.walk import all_graphs, rename_dims

Observe: TypeAlias = Callable[[Eqn, tuple[Any, ...]], None]

Program = TypeVar("Program", bound=Callable[..., Any])

_HOISTED = 64  # float constants with more elements than this become arguments of a jitted program


def evaluate(graph: Graph, args: Sequence[Any], observe: Observe | None = None) -> tuple[Any, ...]:
    """The results of `graph` for `args`: NumPy or jax arrays, tracers, or Vars of the active trace.

    Symbols in parameters (the length of a scan) take the sizes that the arguments have.
    observe: called after each equation of this graph (not of bodies) with its results.
    """
    if len(args) != len(graph.inputs):
        raise JfuseError(f"graph {graph.name} takes {len(graph.inputs)} inputs", found=len(args))
    if is_tracing() and any(isinstance(a, Var) for a in args):
        return _record(graph, args, observe)
    return _compute(graph, args, observe)


def _record(graph: Graph, args: Sequence[Any], observe: Observe | None) -> tuple[Any, ...]:
    trace = active_trace()
    shapes = [trace.resolve(a.type).shape if isinstance(a, Var) else np.shape(a) for a in args]
    sizes: dict[str, Dim] = {}
    for var, shape in zip(graph.inputs, shapes, strict=True):
        sizes = symbol_sizes(var, shape) | sizes
    graph = rename_dims(graph, {k: v for k, v in sizes.items() if same(symbol(k), v) is not True})
    as_before = all(map(_is_shape, (var.type.shape for var in graph.inputs), shapes))
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    for eqn in graph.eqns:
        with at_source(eqn.source):
            results = eqn.op.run([_bound(a, env) for a in eqn.inputs], eqn.params, eqn.bodies)
        if as_before:
            _equate_known(trace, eqn.outputs, results)
        env.update(zip(eqn.outputs, results, strict=True))
        if observe is not None:
            observe(eqn, results)
    return tuple(_bound(a, env) for a in graph.outputs)


def _bound(atom: Atom | None, env: Mapping[Var, Any]) -> Any:
    return env[atom] if isinstance(atom, Var) else atom


def _is_shape(shape: Sequence[Dim], other: Sequence[Dim]) -> bool:
    return len(shape) == len(other) and all(same(d, e) is True for d, e in zip(shape, other, strict=True))


def _equate_known(trace: Trace, before: Sequence[Var], results: Sequence[Any]) -> None:
    """Take over the sizes that were found when the graph was first recorded: from what reads a result, for one."""
    for var, result in zip(before, results, strict=True):
        if isinstance(result, Var) and not result.type.is_static:
            for size, dim in zip(var.type.shape, result.type.shape, strict=True):
                if is_known(size) and not is_known(dim):
                    trace.equate(dim, size)


def _compute(graph: Graph, args: Sequence[Any], observe: Observe | None) -> tuple[Any, ...]:
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    with sizes_of(env) as sizes:
        for eqn in graph.eqns:
            try:
                results = eqn.op.run([_read(a, env) for a in eqn.inputs], sizes.put_into(eqn), eqn.bodies)
            except JfuseError as error:
                error.where = error.where or str(eqn.source) or None
                raise
            env.update(zip(eqn.outputs, results, strict=True))
            if observe is not None:
                observe(eqn, results)
    return tuple(_read(a, env) for a in graph.outputs)


def run_equation(eqn: Eqn, operands: Sequence[Any], env: Mapping[Var, Any]) -> tuple[Any, ...]:
    """The results of one equation for these operands (arrays; None for omitted ones).

    env: values of the graph so far, which give symbols in parameters and bodies their sizes.
    """
    with sizes_of(env) as sizes:
        return eqn.op.run(operands, sizes.put_into(eqn), eqn.bodies)


def _read(atom: Atom | None, env: Mapping[Var, Any]) -> Any:
    if atom is None:
        return None
    return env[atom] if isinstance(atom, Var) else _STAND_INS.get().get(id(atom.array), atom.array)


class _Sizes:
    """The sizes that symbols have in one run of a graph, found when a parameter asks for them.

    env: what is computed so far; inputs come first in it. outer: the run that this one is a part of.
    """

    def __init__(self, env: Mapping[Var, Any], outer: _Sizes | None) -> None:
        self._env = env
        self._outer = outer
        self._found: dict[str, Dim] = {}

    def put_into(self, eqn: Eqn) -> Params:
        """The equation's parameters with a number for each symbol. Raises JfuseError for a size that no shape gives."""
        params = {key: self._axis(value) for key, value in eqn.params.items()}
        names = symbols_in(params)
        if not names:
            return params
        sizes = {name: self.find(name) for name in names}
        unknown = sorted(name for name, size in sizes.items() if size is None)
        if unknown:
            raise JfuseError(
                f"a parameter of {eqn.op.name} needs the size {unknown[0]}, which no shape gives", context=str(eqn)
            )
        known: Params = substitute_value(params, sizes)
        return known

    def _axis(self, value: Any) -> Any:
        """The size of the axis that a parameter is, where no shape gives its symbols: of a sequence of N // 2 steps."""
        if is_known(value) or all(self.find(name) is not None for name in symbols_of(value)):
            return value
        axes = ((d, size) for v, a in self._env.items() for d, size in zip(v.type.shape, np.shape(a), strict=False))
        size_of_axis = next((size for d, size in axes if same(d, value) is True), None)
        return (value if self._outer is None else self._outer._axis(value)) if size_of_axis is None else size_of_axis

    def find(self, name: str) -> Dim | None:
        """The size of a symbol, None where no tensor so far has it as an axis."""
        if name not in self._found:
            size = next((m[name] for v, a in self._env.items() if name in (m := symbol_sizes(v, np.shape(a)))), None)
            if size is None:
                return None if self._outer is None else self._outer.find(name)
            self._found[name] = size
        return self._found[name]


def symbol_sizes(var: Var, shape: Sequence[Dim]) -> dict[str, Dim]:
    """Symbols that are an axis of the Var by themselves, with the sizes there."""
    return {str(d): size for d, size in zip(var.type.shape, shape, strict=False) if symbols_of(d) == {str(d)}}


_SIZES: ContextVar[_Sizes | None] = ContextVar("jfuse_sizes", default=None)


@contextmanager
def sizes_of(env: Mapping[Var, Any]) -> Iterator[_Sizes]:
    """Within the `with`, symbols that a graph's own tensors do not tell have the sizes that these values have."""
    sizes = _Sizes(env, _SIZES.get())
    token = _SIZES.set(sizes)
    try:
        yield sizes
    finally:
        _SIZES.reset(token)


# What stands for constants, by the id of the array, while a jitted program is traced: the arguments with the weights.
_STAND_INS: ContextVar[Mapping[int, Any]] = ContextVar("jfuse_stand_ins", default={})  # noqa: B039 (never written)


def large_constants(graph: Graph, above: int = _HOISTED) -> list[np.ndarray]:
    """The float arrays of more than so many elements, each once, outer graphs first.

    By default those that a jitted program should get as arguments.
    """
    arrays: dict[int, np.ndarray] = {}
    for inner in all_graphs(graph):
        for eqn in inner.eqns:
            for atom in eqn.inputs:
                if isinstance(atom, Const) and atom.type.dtype.is_float and atom.array.size > above:
                    arrays[id(atom.array)] = atom.array
    return list(arrays.values())


def with_constants(
    graph: Graph, arrays: Sequence[np.ndarray]
) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
    """A function of (values for `arrays`, args) that evaluates the graph: for jit, with the weights as arguments.

    One such function, jitted, serves every graph of equal `format_graph(graph, sources=False, hoisted=arrays)`.
    """

    def call(values: Sequence[Any], args: Sequence[Any]) -> tuple[Any, ...]:
        stand_ins = {id(a): v for a, v in zip(arrays, values, strict=True)}
        token = _STAND_INS.set({**_STAND_INS.get(), **stand_ins})
        try:
            return evaluate(graph, args)
        finally:
            _STAND_INS.reset(token)

    return call


_PROGRAMS: Memo[Any] = Memo(64)


def shared_program(key: Hashable, make: Callable[[], Program]) -> Program:
    """The jitted program of a key, made on first use: equal graphs (`with_constants`) share their compilations."""
    program: Program = _PROGRAMS.get(key, make)
    return program
