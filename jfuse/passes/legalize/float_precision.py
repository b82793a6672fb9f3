"""16-bit floats computed in f32: mixed precision is for training, and no kernel of a file is faster for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.states import with_signatures
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, retype, substitute
from jfuse.kernels import ops
from jfuse.kernels.control import composite
from jfuse.passes.context import Context

NARROW = frozenset({DType.f16, DType.bf16})


def compute_in_f32(program: Program, ctx: Context) -> Program:
    """Let a program compute in f32 wherever it has 16-bit floats, its states too, unless the source's precision is kept.

    Inputs and outputs keep their types, with a CAST, where the target has one and the recipe wants no integers there.
    """
    if ctx.precision == "source":
        return program
    return in_f32(program, custom=frozenset(ctx.tf_ops.custom_ops), boundary=_Boundary(ctx))


def in_f32(
    program: Program, *, custom: frozenset[str] = frozenset(), boundary: _Boundary | None = None
) -> Program:
    """The program with f32 for 16-bit floats inside; its inputs and outputs as `boundary` says, else as they are.

    What reads bits, and kernels that are not jfuse's, get 16 bits as before.   custom: composites that are such
    """

    def keeps(eqn: Eqn) -> bool:
        op = eqn.op
        is_foreign = op.tf_name is not None or op.code is not None or op.is_kept or op.draws or op.scales is not None
        is_custom = op is composite and eqn.params["name"] in custom
        return (is_foreign or is_custom or op is ops.bitcast) and _has_narrow((*eqn.inputs, *eqn.outputs))

    def changed(signature: Signature) -> Signature:
        graph = signature.graph
        narrow = {a.type.dtype for a in _atoms(graph) if a.type.dtype in NARROW}
        if not narrow:
            return signature
        if boundary is not None:
            boundary.note(narrow)
        wide = _Widened(keeps).graph(graph, in_f32_types(graph))
        return _with_boundary(replace(signature, states=tuple(map(_wide_state, signature.states))), wide, boundary)

    return with_signatures(program, changed)


def has_narrow(program: Program) -> bool:
    """Whether the program has 16-bit floats anywhere."""
    return any(_has_narrow(_atoms(graph)) for graph in program.graphs())


def in_f32_types(graph: Graph) -> Graph:
    """The graph with f32 in place of 16-bit floats everywhere, equation by equation, whether they make sense or not."""

    def on_type(t: TensorType) -> TensorType:
        return replace(t, dtype=DType.f32) if t.dtype in NARROW else t

    def on_value(value: Any) -> Any:
        return DType.f32 if isinstance(value, DType) and value in NARROW else value

    def on_const(const: Const) -> Const:
        return Const(const.array.astype(np.float32), const.name) if const.type.dtype in NARROW else const

    return retype(graph, on_type, on_value, on_const)


@dataclass
class _Boundary:
    """What becomes of inputs and outputs of 16-bit floats, and the notes on it."""

    ctx: Context

    def note(self, narrow: set[DType]) -> None:
        """Tell that the program computes otherwise than the source."""
        types = ", ".join(sorted(t.value for t in narrow))
        self._tell(f'what the source computes in {types} is computed in f32; precision="source" keeps its types')

    def keeps(self, name: str, dtype: DType, *, is_input: bool) -> bool:
        """Whether an input or output keeps its type; a note where it does not."""
        recipe = self.ctx.recipe
        integers = None if recipe is None else recipe.inputs if is_input else recipe.outputs
        if integers not in (None, DType.f32):
            return False
        narrow, wide = (Var(TensorType((1,), t)) for t in (dtype, DType.f32))
        reason = self.ctx.target.why_not(_cast(narrow, wide) if is_input else _cast(wide, narrow))
        if reason is not None:
            self._tell(f"{'input' if is_input else 'output'} {name!r} is f32 instead of {dtype.value}: {reason}")
        return reason is None

    def _tell(self, note: str) -> None:
        if note not in self.ctx.report.notes:
            self.ctx.report.notes.append(note)


def _with_boundary(signature: Signature, wide: Graph, boundary: _Boundary | None) -> Signature:
    """The signature on the graph in f32, with casts at inputs and outputs that keep their types."""
    inputs, outputs = list(wide.inputs), list(wide.outputs)
    before, after = list[Eqn](), list[Eqn]()
    for i, (name, var) in enumerate(zip(signature.input_names, signature.graph.inputs, strict=False)):
        dtype = var.type.dtype
        if dtype in NARROW and (boundary is None or boundary.keeps(name, dtype, is_input=True)):
            inputs[i] = replace(var)
            before.append(_cast(inputs[i], wide.inputs[i]))
    for i, (name, atom) in enumerate(zip(signature.output_names, signature.graph.outputs, strict=False)):
        dtype = atom.type.dtype
        if dtype in NARROW and (boundary is None or boundary.keeps(name, dtype, is_input=False)):
            outputs[i] = atom if isinstance(atom, Const) else replace(atom)
            after += [] if isinstance(atom, Const) else [_cast(wide.outputs[i], outputs[i])]
    eqns = (*before, *wide.eqns, *after)
    return replace(signature, graph=Graph(wide.name, tuple(inputs), eqns, tuple(outputs)))


@dataclass
class _Widened:
    """A graph in f32 with 16 bits again around what `keeps` them, and without the casts that change nothing any more."""

    keeps: Callable[[Eqn], bool]
    _done: dict[int, Graph] = field(default_factory=dict)  # bodies that several equations share stay shared

    def graph(self, old: Graph, new: Graph) -> Graph:
        if id(new) not in self._done:
            self._done[id(new)] = self._rebuilt(old, new)
        return self._done[id(new)]

    def _rebuilt(self, old: Graph, new: Graph) -> Graph:
        eqns: list[Eqn] = []
        same: dict[Var, Atom] = {}
        for before, after in zip(old.eqns, new.eqns, strict=True):
            after = substitute(after, same)
            if self.keeps(before):
                eqns += _in_own_types(before, after)
            elif after.op is ops.cast and _has_narrow((*before.inputs, *before.outputs)) and _changes_nothing(after):
                (same[after.outputs[0]],) = after.inputs  # type: ignore[assignment]
            else:
                bodies = tuple(self.graph(b, a) for b, a in zip(before.bodies, after.bodies, strict=True))
                eqns.append(replace(after, bodies=bodies) if bodies else after)
        outputs = tuple(same.get(a, a) if isinstance(a, Var) else a for a in new.outputs)
        return replace(new, eqns=tuple(eqns), outputs=outputs)


def _in_own_types(before: Eqn, after: Eqn) -> Iterator[Eqn]:
    """An equation as it was, between casts.   after: the same in f32"""
    inputs: list[Atom | None] = []
    for old, new in zip(before.inputs, after.inputs, strict=True):
        if old is None or new is None or old.type.dtype not in NARROW:
            inputs.append(new)
        elif isinstance(old, Const):
            inputs.append(old)
        else:
            inputs.append(own := Var(old.type, old.name))
            yield _cast(new, own, before)
    outputs = [
        Var(old.type, old.name) if old.type.dtype in NARROW else new
        for old, new in zip(before.outputs, after.outputs, strict=True)
    ]
    yield replace(before, inputs=tuple(inputs), outputs=tuple(outputs))
    yield from (_cast(own, new, before) for own, new in zip(outputs, after.outputs, strict=True) if own is not new)


def _cast(x: Atom, out: Var, like: Eqn | None = None) -> Eqn:
    eqn = Eqn(ops.cast, (x,), (out,), ops.cast.bind_options({"out_data_type": out.type.dtype}))
    return eqn if like is None else replace(eqn, source=like.source)


def _changes_nothing(cast: Eqn) -> bool:
    (x,) = cast.inputs
    return x is not None and x.type.dtype is cast.outputs[0].type.dtype


def _wide_state(state: State) -> State:
    initial = state.initial
    if initial.type.dtype not in NARROW:
        return state
    return replace(state, initial=Const(initial.array.astype(np.float32), initial.name))


def _atoms(graph: Graph) -> Iterator[Atom]:
    yield from graph.inputs
    yield from graph.outputs
    for eqn in all_eqns(graph):
        yield from (a for a in (*eqn.inputs, *eqn.outputs) if a is not None)


def _has_narrow(atoms: Iterator[Atom] | Sequence[Atom | None]) -> bool:
    return any(a is not None and a.type.dtype in NARROW for a in atoms)
