"""Floats of other sizes computed in f32: of 16 bits, whose kernels are not faster, and of 64, which have none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.states import with_signatures
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, retype, substitute
from jfuse.kernels import ops
from jfuse.kernels.control import composite
from jfuse.passes.context import Context
from jfuse.tflite.runtime.dtypes import unsupported
from jfuse.tflite.runtime.type_encodings import wider

KeepsType: TypeAlias = Callable[[str, DType, bool], bool]
"""Told the name and type of an input (True) or output (False) of other floats, whether it keeps its type."""
NARROW = frozenset({DType.f16, DType.bf16})
_DOUBLE = frozenset({DType.f64})
_WELL_KNOWN = (math.sqrt(1 / 2), math.sqrt(2 / math.pi), 0.044715, 1 / 6, 1 / 3)
"""Numbers of spelled activations, which are known by their values. A decimal of few digits needs no row."""


def compute_in_f32(program: Program, ctx: Context) -> Program:
    """Let a program compute in f32 where it has 16-bit floats, its states too, unless the source's precision is kept.

    So where it multiplies matrices or images of f64, for which LiteRT has no kernel. Inputs and outputs keep their
    types, with a CAST, where the target has one and the recipe wants no integers there.
    """
    products = (e for g in program.graphs() for e in all_eqns(g) if e.op.product in ("matrices", "windows"))
    of = NARROW | _DOUBLE if any(_has(_DOUBLE, _atoms_of(e)) for e in products) else NARROW
    types = sorted({a.type.dtype.value for g in program.graphs() for a in _atoms(g) if a.type.dtype in of})
    if ctx.forms.precision == "source" or not types:
        return program
    kept = 'jfuse.Forms(precision="source") keeps its types'
    _tell(ctx, f"what the source computes in {', '.join(types)} is computed in f32; {kept}")
    return in_f32(program, partial(_keeps_type, ctx), frozenset(ctx.pipeline.custom_ops), of)


def doubles_in_f32(program: Program, ctx: Context) -> Program:
    """Let a program compute in f32 if LiteRT has no kernel for one of its operators of f64, in no other type either."""
    double = (e for g in program.graphs() for e in all_eqns(g) if _has(_DOUBLE, _atoms_of(e)))
    lacking = next((e for e in double if unsupported(e) is not None and wider(e) is None), None)
    if ctx.forms.precision == "source" or lacking is None:
        return program
    kept = 'jfuse.Forms(precision="source") refuses it'
    where = f"{lacking.source}: " if lacking.source else ""
    _tell(
        ctx,
        f"{where}LiteRT has no {lacking.op.builtin} of f64, so f64 is computed in f32 (7 digits); {kept}",
    )
    narrowed = in_f32(program, partial(_keeps_type, ctx), frozenset(ctx.pipeline.custom_ops), _DOUBLE)
    return with_signatures(narrowed, lambda s: replace(s, graph=ctx.sub.simplify(s.graph, ctx, {})))


def in_f32(
    program: Program,
    keeps_type: KeepsType,
    custom: frozenset[str] = frozenset(),
    of: frozenset[DType] = NARROW,
) -> Program:
    """The program with f32 for other floats, but for what reads bits and kernels that are not jfuse's.

    keeps_type: whether an input or output does.   custom: composites whose kernels are not jfuse's.   of: these types
    """

    def keeps(eqn: Eqn) -> bool:
        op = eqn.op
        is_foreign = op.tf_name is not None or op.code is not None or op.is_kept or op.draws or op.scales is not None
        is_custom = op is composite and eqn.params["name"] in custom
        return (is_foreign or is_custom or op is ops.bitcast) and _has(of, _atoms_of(eqn))

    def changed(signature: Signature) -> Signature:
        graph = signature.graph
        if not _has(of, _atoms(graph)):
            return signature
        wide = _InF32(keeps, of).graph(graph, in_f32_types(graph, of))
        states = tuple(_state_in_f32(state, of) for state in signature.states)
        return _with_boundary(replace(signature, states=states), wide, keeps_type, of)

    return with_signatures(program, changed)


def in_f32_types(graph: Graph, of: frozenset[DType] = NARROW) -> Graph:
    """The graph with f32 in place of these floats everywhere, equation by equation, whether they make sense or not."""

    def on_type(t: TensorType) -> TensorType:
        return replace(t, dtype=DType.f32) if t.dtype in of else t

    def on_value(value: Any) -> Any:
        return DType.f32 if isinstance(value, DType) and value in of else value

    def on_const(const: Const) -> Const:
        return const if const.type.dtype not in of else Const(_as_written(const.array), const.name)

    return retype(graph, on_type, on_value, on_const)


def _as_written(array: np.ndarray) -> np.ndarray:
    """A constant in f32. A single number is the one that its author rounded, where that is plain: sqrt(1/2), 0.1."""
    wide = array.astype(np.float32)
    if array.size != 1 or not np.isfinite(wide).all():
        return wide
    number = abs(float(wide.item()))
    candidates = () if number.is_integer() else (*_WELL_KNOWN, *(float(f"{number:.{n}g}") for n in (1, 2, 3)))
    written = next((c for c in candidates if c and array.dtype.type(c) == array.dtype.type(number)), number)
    return np.copysign(np.full_like(wide, written), wide)


def _keeps_type(ctx: Context, name: str, dtype: DType, is_input: bool) -> bool:
    """Whether an input or output of a file keeps its type; a note where the target prevents it."""
    recipe = ctx.recipe
    if recipe is not None and (recipe.inputs if is_input else recipe.outputs) is not DType.f32:
        return False
    narrow, wide = (Var(TensorType((1,), t)) for t in (dtype, DType.f32))
    has_cast = ctx.target.why_not(_cast(narrow, wide) if is_input else _cast(wide, narrow)) is None
    if not has_cast:
        what = "input" if is_input else "output"
        _tell(ctx, f"{what} {name!r} is f32 instead of {dtype.value}, which {ctx.target.name} has no CAST for")
    return has_cast


def _tell(ctx: Context, note: str) -> None:
    if note not in ctx.report.notes:
        ctx.report.notes.append(note)


def _with_boundary(signature: Signature, wide: Graph, keeps_type: KeepsType, of: frozenset[DType]) -> Signature:
    """The signature on the graph in f32, with casts at inputs and outputs that keep their types."""
    inputs, outputs = list(wide.inputs), list(wide.outputs)
    before, after = list[Eqn](), list[Eqn]()
    for i, (name, var) in enumerate(zip(signature.input_names, signature.graph.inputs, strict=False)):
        dtype = var.type.dtype
        if dtype in of and keeps_type(name, dtype, True):
            inputs[i] = replace(var)
            before.append(_cast(inputs[i], wide.inputs[i]))
    for i, (name, atom) in enumerate(zip(signature.output_names, signature.graph.outputs, strict=False)):
        dtype = atom.type.dtype
        if dtype not in of or not keeps_type(name, dtype, False):
            continue
        if isinstance(atom, Const):
            outputs[i] = atom
        else:
            outputs[i] = own = replace(atom)
            after.append(_cast(wide.outputs[i], own))
    eqns = (*before, *wide.eqns, *after)
    return replace(signature, graph=Graph(wide.name, tuple(inputs), eqns, tuple(outputs)))


@dataclass
class _InF32:
    """A graph in f32, with other floats around what `keeps` them, without the casts that change nothing any more."""

    keeps: Callable[[Eqn], bool]
    of: frozenset[DType]
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
                eqns += _in_own_types(before, after, self.of)
            elif after.op is ops.cast and _has(self.of, _atoms_of(before)) and _changes_nothing(after):
                same[after.outputs[0]] = _unclipped(after.inputs[0], before.outputs[0].type.dtype, eqns)
            else:
                bodies = tuple(self.graph(b, a) for b, a in zip(before.bodies, after.bodies, strict=True))
                eqns.append(replace(after, bodies=bodies) if bodies else after)
        outputs = tuple(same.get(a, a) if isinstance(a, Var) else a for a in new.outputs)
        return replace(new, eqns=tuple(eqns), outputs=outputs)


def _in_own_types(before: Eqn, after: Eqn, of: frozenset[DType]) -> Iterator[Eqn]:
    """An equation as it was, between casts.   after: the same in f32"""
    inputs: list[Atom | None] = []
    for old, new in zip(before.inputs, after.inputs, strict=True):
        if old is None or new is None or old.type.dtype not in of:
            inputs.append(new)
        elif isinstance(old, Const):
            inputs.append(old)
        else:
            inputs.append(own := Var(old.type, old.name))
            yield _cast(new, own, before)
    outputs = [
        Var(old.type, old.name) if old.type.dtype in of else new
        for old, new in zip(before.outputs, after.outputs, strict=True)
    ]
    yield replace(before, inputs=tuple(inputs), outputs=tuple(outputs))
    yield from (_cast(own, new, before) for own, new in zip(outputs, after.outputs, strict=True) if own is not new)


def _cast(x: Atom, out: Var, like: Eqn | None = None) -> Eqn:
    eqn = Eqn(ops.cast, (x,), (out,), ops.cast.bind_options({"out_data_type": out.type.dtype}))
    return eqn if like is None else replace(eqn, source=like.source)


def _unclipped(atom: Atom | None, narrow: DType, eqns: Sequence[Eqn]) -> Atom:
    """Skip the clip to the finite numbers of a type before a cast (`tf.saturate_cast`), which f32 does not need."""
    assert atom is not None
    by = {eqn.outputs[0]: eqn for eqn in reversed(eqns[-2:])}
    while isinstance(atom, Var) and narrow in NARROW | {DType.f32} and (eqn := by.get(atom)) is not None:
        x, end = eqn.inputs[:2] if eqn.op in (ops.minimum, ops.maximum) else (None, None)
        largest = float(ml_dtypes.finfo(narrow.numpy).max)  # type: ignore[no-untyped-call]  # ml_dtypes has no types
        if x is None or not isinstance(end, Const) or not bool((np.abs(end.array) == largest).all()):
            break
        atom = x
    return atom


def _changes_nothing(cast: Eqn) -> bool:
    (x,) = cast.inputs
    return x is not None and x.type.dtype is cast.outputs[0].type.dtype


def _state_in_f32(state: State, of: frozenset[DType]) -> State:
    initial = state.initial
    if initial.type.dtype not in of:
        return state
    return replace(state, initial=Const(initial.array.astype(np.float32), initial.name))


def _atoms(graph: Graph) -> Iterator[Atom]:
    yield from graph.inputs
    yield from graph.outputs
    for eqn in all_eqns(graph):
        yield from _atoms_of(eqn)


def _atoms_of(eqn: Eqn) -> Iterator[Atom]:
    yield from (a for a in (*eqn.inputs, *eqn.outputs) if a is not None)


def _has(of: frozenset[DType], atoms: Iterator[Atom]) -> bool:
    return any(a.type.dtype in of for a in atoms)
