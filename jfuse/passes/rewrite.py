"""Rebuilding a graph equation by equation: what a pass does not replace stays the same object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, same, symbols_in, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.trace import Trace, active_trace, at_source, recording
from jfuse.ir.walk import is_same_type, substitute, use_counts
from jfuse.kernels.control import EXACT, composite
from jfuse.lowering.rule_tools.case_distinctions import switch_of
from jfuse.lowering.rules import need

Visit: TypeAlias = Callable[[Eqn], Sequence[Any] | None]
"""Called with an equation whose operands are up to date. Returns its new results, recorded in the active trace, or None
to keep it."""

_COMPARISONS = ("compare", "round", "cast", "mod")
_MOST_MERGED = 4  # producers in a row: a pattern is no deeper


class Rewriting:
    """A graph while it is rebuilt: the producer of each Var, its number of readers, and its replacement.

    A replaced equation gives its Vars to the new one, so names, known values and later equations stay as they are.
    What a replaced equation alone has read stays, for `eliminate_dead_code` to find.
    rounds_weights: whether the constant weights of an equation are to be kept in few bits. refines: a result may know a
    size that data decide in the equation that it replaces; `sizes` has these by name, for whoever renames them in all
    types.
    """

    def __init__(
        self, graph: Graph, rounds_weights: Callable[[Eqn], bool] = lambda eqn: False, *, refines: bool = False
    ) -> None:
        self._graph = graph
        self.rounds_weights = rounds_weights
        self._refines = refines
        self.sizes: dict[str, Dim] = {}
        self._changed = False
        self._trace: Trace  # of `run`, which asks what the methods below answer
        self._replaced: dict[Var, Atom] = {}
        self._start = 0

    def producer(self, atom: Atom | None) -> Eqn | None:
        """The equation before the visited one that makes a Var; None for constants and inputs of the graph."""
        return self._trace.producer(atom, self._start)

    def readers(self, atom: Atom) -> int:
        """How often a Var is read, results of the graph included, or the memory of a constant, views of it included.

        At times too many, never too few.
        """
        return self._memory_reads[atom.memory] if isinstance(atom, Const) else self._reads[atom]

    def is_compared(self, atom: Atom) -> bool:
        """Whether a comparison, FLOOR or the like reads a Var, or what is computed from it element by element."""
        return atom in self._compared

    # Counted at the first question or replacement: most walks of most passes have neither.
    @cached_property
    def _reads(self) -> Counter[Var]:
        return use_counts(self._graph)

    @cached_property
    def _memory_reads(self) -> Counter[int]:
        return Counter(a.memory for e in self._graph.eqns for a in e.inputs if isinstance(a, Const))

    @cached_property
    def _compared(self) -> frozenset[Atom]:
        compared: set[Atom] = set()
        for eqn in reversed(self._graph.eqns):
            if switch_of(eqn) in _COMPARISONS or (_is_elementwise(eqn) and compared.intersection(eqn.outputs)):
                compared.update(a for a in eqn.inputs if isinstance(a, Var) and a.type.dtype.is_float)
        return frozenset(compared)

    def current(self, var: Var) -> Atom:
        """Return the replacement of a variable of a visited equation, or the variable."""
        return self._replaced.get(var, var)

    def need_fitting(self, eqn: Eqn, results: Sequence[Any]) -> None:
        """Raise NotFused where `results` would not be taken for those of the visited equation; none are no question."""
        sizes = ", ".join(f"{name} = {size}" for name, size in self._trace.sizes.items() if results)
        need(not sizes, "sizes_agree", want="no assumption on run-time sizes", got=sizes)
        for old, new in zip(eqn.outputs, map(self._trace.atom, results), strict=False):
            need(self._fits(eqn, old, new), "result_type", want=old.type, got=new.type)

    def _fits(self, eqn: Eqn, old: Var, new: Atom) -> bool:
        return _fits(eqn, Var(old.type.substitute(self._known(eqn, old, new))), new)

    def _known(self, eqn: Eqn, old: Var, new: Atom) -> dict[str, Dim]:
        """The sizes of a result that data decide in the equation, and that its replacement knows."""
        if not self._refines or old.type.rank != new.type.rank:
            return {}
        symbols = symbols_in(tuple(a.type.shape for a in (*eqn.inputs, *self._graph.inputs) if a is not None))
        pairs = zip(old.type.shape, new.type.shape, strict=True)
        return {str(d): e for d, e in pairs if {str(d)} == symbols_of(d) - symbols and symbols_of(e) <= symbols}

    def run(self, visit: Visit) -> Graph:
        """The graph with each equation kept or replaced as `visit` says; the old object where nothing was replaced."""
        with recording() as self._trace:
            for eqn in self._graph.eqns:
                self._visit(eqn, visit)
        if not self._changed:
            return self._graph
        outputs = tuple(self._replaced.get(a, a) if isinstance(a, Var) else a for a in self._graph.outputs)
        return Graph(self._graph.name, self._graph.inputs, tuple(self._trace.eqns), outputs)

    def _visit(self, eqn: Eqn, visit: Visit) -> None:
        eqn, recorded = substitute(eqn, self._replaced), self._trace.eqns
        start = self._start = len(recorded)
        with at_source(eqn.source):
            results = visit(eqn)
        if results is None or self._trace.sizes or not self._replace(eqn, results, start):
            self._trace.sizes.clear()  # a replacement may not assume that two sizes are equal
            if len(recorded) > start:
                self._trace.take_back(start)
            self._trace.record(eqn)

    def _replace(self, eqn: Eqn, results: Sequence[Any], start: int) -> bool:
        atoms = [self._trace.atom(r) for r in results]
        if not all(self._fits(eqn, old, new) for old, new in zip(eqn.outputs, atoms, strict=True)):
            return False
        for old, new in zip(eqn.outputs, atoms, strict=True):
            self.sizes |= self._known(eqn, old, new)
        recorded = self._trace.take_back(start)
        fresh = {out for e in recorded for out in e.outputs}
        renamed: dict[Var, Var] = {}
        for old, new in zip(eqn.outputs, atoms, strict=True):
            if isinstance(new, Var) and new in fresh and new not in renamed:
                renamed[new] = old
            else:
                self._forward(old, renamed.get(new, new) if isinstance(new, Var) else new)
        merged = self._merged(eqn, recorded)
        for made in recorded:
            outputs = tuple(renamed.get(out, out) for out in made.outputs)
            source = replace(made.source, merged=merged) if merged else made.source
            self._record(replace(substitute(made, renamed), outputs=outputs, source=source))
        self._changed = True
        return True

    def _merged(self, eqn: Eqn, recorded: Sequence[Eqn]) -> tuple[Source, ...]:
        """The sources of what the replacement of an equation computes as well: its producers that lose their reader."""
        operands = {a for e in recorded for a in e.inputs}
        merged = list(eqn.source.merged)
        for _ in range(_MOST_MERGED):
            lost = (
                self.producer(a) for a in eqn.inputs if isinstance(a, Var) and a not in operands and self._reads[a] == 1
            )
            before = next((e for e in lost if e is not None), None)
            if before is None:
                break
            if before.source not in (eqn.source, *merged):
                merged = [*before.source.merged, before.source, *merged]
            eqn = before
        return tuple(merged)

    def _record(self, eqn: Eqn) -> None:
        self._reads.update(a for a in eqn.inputs if isinstance(a, Var))
        self._memory_reads.update(a.memory for a in eqn.inputs if isinstance(a, Const))
        self._trace.record(eqn)

    def _forward(self, old: Var, new: Atom) -> None:
        """Every later use of `old` becomes one of `new`."""
        self._replaced[old] = new
        if isinstance(new, Var):
            self._reads[new] += self._reads[old]


def rewrite(graph: Graph, visit: Visit) -> Graph:
    """The graph with each equation kept or replaced as `visit` says. Bodies are the visitor's own concern."""
    return Rewriting(graph).run(visit)


def inline(graph: Graph, args: Sequence[Atom]) -> tuple[Atom, ...]:
    """The results of a graph whose equations are copied into the active trace, its inputs bound to `args`.

    args: of the types of the inputs. Unlike with `evaluate` nothing is inferred again, so data-dependent sizes keep
        their symbols.
    """
    trace = active_trace()
    bound: dict[Var, Atom] = dict(zip(graph.inputs, args, strict=True))
    for eqn in graph.eqns:
        outputs = tuple(Var(out.type, out.name, out.value) for out in eqn.outputs)
        trace.record(replace(substitute(eqn, bound), outputs=outputs))
        bound.update(zip(eqn.outputs, outputs, strict=True))
    return tuple(bound[a] if isinstance(a, Var) else a for a in graph.outputs)


def opened(graph: Graph) -> Graph:
    """Inline the bodies of marked functions, except for those that are one known function."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        marked = eqn.op is composite and eqn.params["name"] not in EXACT
        return inline(opened(eqn.bodies[0]), [a for a in eqn.inputs if a is not None]) if marked else None

    return rewrite(graph, visit)


def _is_elementwise(eqn: Eqn) -> bool:
    """Whether each element of the results is one of the operands, or computed from one of each."""
    return eqn.op.elementwise or eqn.op.moves in ("renames", "permutes")


def _fits(eqn: Eqn, old: Var, new: Atom) -> bool:
    if is_same_type(old.type, new.type):
        return True
    known_to_differ = old.type.dtype is not new.type.dtype or old.type.rank != new.type.rank
    if known_to_differ or any(same(d, e) is False for d, e in zip(old.type.shape, new.type.shape, strict=True)):
        raise TypeMismatch(
            f"{eqn.op.name} was replaced by a result of another type", expected=str(old.type), found=str(new.type)
        )
    return False
