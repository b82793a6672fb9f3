"""The program as a value: variables, constants, equations, graphs and the signatures over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.ir.atoms import Atom, Const, Var, arrays_of
from jfuse.ir.types import TensorType

__all__ = (
    "Atom",
    "Const",
    "Eqn",
    "FileFacts",
    "Graph",
    "Moves",
    "Op",
    "Operand",
    "Params",
    "Product",
    "Program",
    "Role",
    "Signature",
    "Source",
    "State",
    "Var",
    "arrays_of",
    "body_of",
)

Params: TypeAlias = Mapping[str, Any]
Body = TypeVar("Body", bound=Callable[..., Any])

_BODIES: dict[str, Callable[..., Any]] = {}


def body_of(method: str) -> Callable[[Body], Body]:
    """Enter the decorated function as the body of a method below, as "Graph.map": a graph imports no rewriter."""

    def register(function: Body) -> Body:
        _BODIES[method] = function
        return function

    return register


@dataclass(frozen=True, slots=True)
class Source:
    """Where an equation came from: a node of the user's model and the functions around it, outermost first.

    merged: sources of the equations that rewrites merged into this one, in execution order.
    """

    node: str = ""
    op: str = ""
    stack: tuple[str, ...] = ()
    merged: tuple[Source, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        path = "/".join((*self.stack, self.node)) if self.node else "/".join(self.stack)
        return f"{path} ({self.op})" if self.op and path else path or self.op


Role: TypeAlias = Literal["", "axes", "sizes", "paddings", "divisor", "amount", "segments"]
"""The meaning of an operand's integers, as `kernels.core.operand` explains each; "" for plain numbers."""


@dataclass(frozen=True)
class Operand:
    """One operand of an op's signature."""

    name: str
    static: bool = False
    shape_only: bool = False
    measure: bool = False
    optional: bool = False
    variadic: bool = False
    role: Role = ""

    @property
    def decides_size(self) -> bool:
        """Whether the sizes of the results may follow from the operand's value."""
        return self.static or self.measure


Moves: TypeAlias = Literal["renames", "permutes", "takes", "splits", "repeats", "joins"]
"""How the elements of results are those of operands, whatever their values: `kernels.core.op.tfl` tells them apart."""
Product: TypeAlias = Literal["elements", "matrices", "windows"]
"""The kind of product: element by element, rows by columns, or filters by the windows of an image."""


class Op:
    """An operation of the IR. Ops are compared by identity; `name` is unique among them.

    Passes read the declarations of an op; the fields below have the defaults of an op without declarations.

    builtin: its operator of a file; None for ops that passes resolve. is_kernel: one function of kernels/, without
        bodies, that computes on arrays. is_kept: a builtin without kernel, kept as a file has it.
    tf_name: the TensorFlow op, for a node without a rule. code: of a custom operator, as the file has it.
    stands_for: the body of the marked function that became a custom operator; it computes the operator.
    is_stubbed: whether the source has a stub in its place.
    node: the TensorFlow node of either, serialized. reason: why its rule refused it.
    operands, and what stands below them: as `kernels.core.op.tfl` says.
    parts: the names of inner values that `run_watched` can give.
    """

    if TYPE_CHECKING:  # a field of some ops and a property of others: at run time no descriptor may stand in the way

        @property
        def name(self) -> str:
            """The printed name: `reshape`, `tf.Erf`, `composite`."""

    builtin: str | None = None
    is_kernel: bool = False
    is_kept: bool = False
    tf_name: str | None = None
    code: str | None = None
    node: bytes = b""
    stands_for: Graph | None = None
    is_stubbed: bool = False
    reason: str = ""
    operands: tuple[Operand, ...] = ()
    updates: Mapping[str, int] = MappingProxyType({})
    repeats: Mapping[str, tuple[int, int]] = MappingProxyType({})
    on_shapes: bool = False
    traceable: bool = True
    elementwise: bool = False
    linear: str | None = None
    switch: str | None = None
    clamps: bool = False
    draws: bool = False
    moves: Moves | None = None
    entries: tuple[str, ...] = ()
    compares: str = ""
    product: Product | None = None
    scales: Literal["into", "out_of"] | None = None
    chooses: bool = False
    counts: bool = False
    at_allocation: bool = False
    sized_at_allocation: bool = False
    cell: str = ""
    intermediates: int = 0
    form: str = ""
    overwrites: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def is_computed_here(self) -> bool:
        """Whether it is a custom operator that something besides the runtime computes."""
        return False

    @property
    def selects(self) -> bool:
        """Whether each element of the result is that of one or of another operand, by a condition."""
        return self.elementwise and self.switch == "select"

    @property
    def ordered(self) -> tuple[int, int]:
        """The operands of an ordering comparison that holds where the first of them is smaller."""
        return (0, 1) if self.compares.startswith("<") else (1, 0)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The declared parameters in the order in which they print, `...` where there is no default."""
        return {}

    def operand_at(self, index: int) -> Operand:
        """The declaration of the operand at a position; the last one repeats where it is variadic."""
        return self.operands[min(index, len(self.operands) - 1)] if self.operands else Operand(f"operand {index}")

    def operand_index(self, name: str) -> int:
        """The position of an operand, as in the file."""
        return next(i for i, o in enumerate(self.operands) if o.name == name)

    def new_states(self, results: int) -> dict[str, int]:
        """For each operand that the op updates in place, by name, the one of so many results that it becomes."""
        return {}

    def state_operands(self, eqn: Eqn) -> dict[int, int]:
        """For each operand that an equation of the op updates in place, by position, the result that it becomes."""
        return {}

    def varies(self, eqn: Eqn) -> bool:
        """Whether the bodies of an equation give results of different sizes; jax cannot trace it then."""
        return False

    def known_values(self, inputs: Sequence[Atom | None], params: Params, count: int) -> Sequence[np.ndarray | None]:
        """Compute the known values of the `count` results from the operands' known values; None for unknown ones."""
        return [None] * count

    def map_types(self, change: Callable[[TensorType], TensorType]) -> Op:
        """Change the types that the op was declared with, as nothing derives them. Other ops return themselves."""
        return self

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The result types; raises TypeMismatch where operands or parameters do not fit."""
        raise NotImplementedError

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The results for arrays, or for Vars while a trace is active: then equations are recorded."""
        raise NotImplementedError

    def takes_integers(self, eqn: Eqn, rounding: Any) -> bool:
        """Whether the op has a body for quantized integers of the types, and with the options, of an equation of it.

        rounding: a `Rounding` of the integer bodies; None for LiteRT's own kernels.
        """
        return False

    def run_integers(self, types: Any, inputs: Sequence[Any], params: Params) -> tuple[Any, ...]:
        """The results of that body for arrays.   types: `IntegerTypes` of the equation"""
        raise NotImplementedError

    def run_watched(self, inputs: Sequence[Any], params: Params, parts: Sequence[str]) -> tuple[Any, ...]:
        """The results for arrays, then the inner values of some names, for an op that has `parts`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Eqn:
    """One application of an op. `None` among the inputs is an omitted optional operand.

    version: of the operator in the file that the equation was read from, where that is another than the exporter would
        write. intermediates: tensors of the operator that are no operands and no results: quantized LSTMs have them.
        Empty where they say nothing, as of float LSTMs, whose files have as many empty ones as the op declares.
    debug: the operator's index into the file's metadata `debug_metadata`; None for none, as of every other equation.
    """

    op: Op
    inputs: tuple[Atom | None, ...]
    outputs: tuple[Var, ...]
    params: Params = field(default_factory=dict)
    source: Source = Source()
    bodies: tuple[Graph, ...] = ()
    effects: tuple[str, ...] = ()
    version: int | None = None
    intermediates: tuple[Var, ...] = ()
    debug: int | None = None

    def __repr__(self) -> str:
        return f"Eqn({self.op.name})"

    def __str__(self) -> str:
        return str(_BODIES["Eqn.__str__"](self))


@dataclass(frozen=True, eq=False)
class Graph:
    """Equations in execution order, with named inputs and results.   debug: as an equation's, of a subgraph"""

    name: str
    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]
    debug: int | None = None

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.inputs)} inputs, {len(self.eqns)} equations, {len(self.outputs)} outputs)"

    def __str__(self) -> str:
        return str(_BODIES["Graph.__str__"](self))

    def all_eqns(self) -> Iterator[Eqn]:
        """Every equation, those of bodies included, outer graphs first; of a shared body once."""
        yield from _BODIES["Graph.all_eqns"](self)

    def producers(self) -> dict[Var, Eqn]:
        """The equation that gives each Var; the inputs of the graph are not in it."""
        producers: dict[Var, Eqn] = _BODIES["Graph.producers"](self)
        return producers

    def users(self) -> dict[Var, list[Eqn]]:
        """The equations that read each Var, in order, an equation once for each operand."""
        users: dict[Var, list[Eqn]] = _BODIES["Graph.users"](self)
        return users

    def map(self, change: Callable[[Eqn], Any]) -> Graph:
        """The graph with each equation kept or replaced, bodies included; what nothing reads any more goes.

        change: is called with each equation, operands up to date. It returns None to keep it, else its new result (a
        tuple where there are several), which calls of `jfuse.ops` record, of the same type.
        """
        graph: Graph = _BODIES["Graph.map"](self, change)
        return graph

    def check(self) -> None:
        """Raise TypeMismatch where a Var is read before it is bound, bound twice, or of another type than its op's."""
        _BODIES["Graph.check"](self)


@dataclass(frozen=True, eq=False)
class State:
    """A value that a call hands to the next one, with what it is before the first. One name is one state.

    home: where the file keeps it, in a variable of its own or in a tensor that operators write. The pass that places
        states decides it; in a file that was read it is what the file does.
    """

    name: str
    initial: Const
    home: Literal["variable", "tensor"] = "variable"

    def __repr__(self) -> str:
        return f"State({self.name}: {self.initial.type})"


@dataclass(frozen=True)
class Signature:
    """One callable of the model: its key, its graph, and the names of the graph's inputs and outputs, in order.

    states: what is kept between calls. The last inputs of the graph are what they hold before the call, its last
        outputs what they hold after it, in this order; neither has a name among the inputs and outputs.
    exposed: states that are not kept, as the last of the named inputs and outputs are theirs. Where a dimension is
        open, their initial value has one element, to be broadcast.
    """

    key: str
    graph: Graph
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    states: tuple[State, ...] = ()
    exposed: tuple[State, ...] = ()


@dataclass(frozen=True)
class FileFacts:
    """The parts of a file besides its signatures, kept so that the file is saved whole.

    description: None for a file of this package. metadata: entries by name, each u8[n].
    uncalled: subgraphs that no signature and no operator names; their key is "".
    order: the position of each of `Program.entries` among the entry graphs of the file; () for that order.
    mapped: the files that constants are views of, where they are too large to be copied.
    """

    description: str | None = None
    metadata: tuple[tuple[str, Const], ...] = ()
    uncalled: tuple[Signature, ...] = ()
    order: tuple[int, ...] = ()
    mapped: tuple[Any, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Program:
    """The signatures of one model. Keys with an equal target share one graph object, signatures share states.

    `assumptions` are the equalities of dimensions that were taken for granted, as text ("B1 = B").
    Programs are equal where their texts are, places in the source aside: constants count by their contents.
    """

    signatures: tuple[Signature, ...]
    assumptions: tuple[str, ...] = ()
    facts: FileFacts = FileFacts()

    def graphs(self) -> tuple[Graph, ...]:
        """Each distinct graph once, in order of first use."""
        return tuple({id(s.graph): s.graph for s in self.signatures}.values())

    def entries(self) -> tuple[Graph, ...]:
        """`graphs`, then those that no signature names."""
        return tuple({id(s.graph): s.graph for s in (*self.signatures, *self.facts.uncalled)}.values())

    def in_file_order(self) -> tuple[Graph, ...]:
        """`entries`, as the subgraphs of the file follow each other."""
        entries = self.entries()
        if len(self.facts.order) != len(entries):
            return entries
        return tuple(graph for _, graph in sorted(zip(self.facts.order, entries, strict=True), key=lambda p: p[0]))

    def with_graphs(self, change: Callable[[Graph], Graph]) -> Program:
        """The program with each distinct graph changed; it must take and give as many values as before."""
        changed = {id(graph): change(graph) for graph in self.graphs()}
        return replace(self, signatures=tuple(replace(s, graph=changed[id(s.graph)]) for s in self.signatures))

    def states(self) -> tuple[State, ...]:
        """Each state that is kept between calls once, in order of first use."""
        return tuple({state.name: state for s in self.signatures for state in s.states}.values())

    def signature(self, key: str | None = None) -> Signature:
        """The signature of a key; without one the default: `serving_default`, else the first."""
        table = {s.key: s for s in self.signatures}
        if key is None and table:
            key = "serving_default" if "serving_default" in table else next(iter(table))
        if not isinstance(key, str) or key not in table:
            raise JfuseError(f"the model has no signature {shown(key)}", expected=f"one of {list(table)}")
        return table[key]

    def map(self, change: Callable[[Eqn], Any]) -> Program:
        """The program with each equation of each graph kept or replaced, as `Graph.map` does it."""
        return self.with_graphs(lambda graph: graph.map(change))

    def check(self) -> None:
        """Check each graph, as `Graph.check` does it."""
        for graph in self.entries():
            graph.check()

    def __str__(self) -> str:
        return str(_BODIES["Program.__str__"](self))

    @cached_property
    def _form(self) -> str:
        return str(_BODIES["Program.form"](self))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Program) and self._form == other._form)

    def __hash__(self) -> int:
        return hash(self._form)
