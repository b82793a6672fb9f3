"""Whether two graphs are equal for all inputs, states, sizes and lengths, in real arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import is_known, symbol, symbols_of
from jfuse.ir.evaluate import run_equation, sizes_of
from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, with_float
from jfuse.kernels.control import scan
from jfuse.lowering.rule_tools.case_distinctions import place_of
from jfuse.proof.samples import Padded
from jfuse.proof.symbolic import moves
from jfuse.proof.symbolic.atoms import Atoms, MaskPadding
from jfuse.proof.symbolic.blocks import Picks, Stopped
from jfuse.proof.symbolic.comparison import equal
from jfuse.proof.symbolic.forms import Form, Instance, MustClose, Part, Ref, constant
from jfuse.proof.symbolic.masked import padding
from jfuse.proof.symbolic.reader import Reader

ROUNDING = 2.0**-22
"""How far constants may be apart that are the same but for roundings to f32, relative to themselves."""
_MOST_ELEMENTS = 2**14  # of an operand with all of its axes closed


@dataclass(frozen=True)
class Verdict:
    """Whether a proof was found.

    stopped: where and why the prover stopped; "" where it did not. assumptions: under which the proof holds.
    """

    stopped: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Whether both graphs are equal for all operands."""
        return not self.stopped


NOT_TRIED = Verdict("not tried")


def prove_symbolically(
    body: Graph,
    replacement: Graph,
    held: Mapping[Var, np.ndarray] | None = None,
    padded: Mapping[Var, Padded] | None = None,
    *,
    rounded: bool = False,
) -> Verdict:
    """Bring two graphs over the same operands to normal form, and compare.

    held: operands of the body that are constants, broadcast to open sizes. padded: masks that have no gaps, which the
    proof assumes. rounded: constants may differ by roundings to f32. A verdict that is not proven says nothing about
    the graphs.
    """
    known = _OperandFacts(held or {}, padded or {})
    pair: list[Any] = []
    try:
        pair = [_Side.of("the body", body), _Side.of("the replacement", replacement)]
        lengths = {e.params["length"] for g in (body, replacement) for e in all_eqns(g) if e.op is scan}
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite stops the comparison
            return _closing(pair, body.inputs, known, {n for n in lengths if is_known(n)}, rounded=rounded)
    except (Stopped, JfuseError, TypeError, ValueError, NotImplementedError, KeyError, IndexError) as error:
        return Verdict(f"{error}".split("\n")[0] or type(error).__name__)


def _closing(
    pair: Sequence[_Side], inputs: Sequence[Var], known: _OperandFacts, lengths: set[int], *, rounded: bool
) -> Verdict:
    """The verdict with as many axes open as can be; the sizes of those that cannot are closed one by one."""
    shut: set[int] = set()
    while True:
        try:
            return _compared(pair, inputs, known, lengths - shut, shut, rounded=rounded)
        except MustClose as error:
            sizes = {int(d) for v in inputs for d in v.type.shape if is_known(d)} - shut
            if not is_known(error.size) or not sizes:
                raise
            # A size that no operand has is the size of a part of an axis, and nothing says of which axis.
            shut |= {int(error.size)} & sizes or sizes


def _compared(
    pair: Sequence[_Side],
    inputs: Sequence[Var],
    known: _OperandFacts,
    lengths: set[int],
    shut: set[int],
    *,
    rounded: bool,
) -> Verdict:
    atoms = Atoms(ROUNDING if rounded else 0.0)
    operands = [_operand(atoms, v, known, lengths, shut) for v in inputs]
    sizes = frozenset(int(s) for f in operands for s, is_open in f.parts if is_open and is_known(s))
    reader = Reader(atoms, sizes)
    for mask, of in known.padded.items():
        if mask in inputs and mask.type.dtype is not DType.bool:  # taken as 0 or 1 wherever it is read
            reader.assume(padding(of.side))
    mine, other = (side.run(reader, operands) for side in pair)
    for number, (a, b) in enumerate(zip(mine, other, strict=True)):
        first, second = moves.aligned(a, b)
        if not equal(first, second, atoms.allowance):
            raise Stopped(f"result {number}: the normal forms differ")
    rounding = ("constants are equal up to their rounding to float32",) if rounded else ()
    return Verdict("", (*reader.assumptions, *rounding))


@dataclass(frozen=True)
class _OperandFacts:
    """Operands that are constants, and masks without gaps."""

    held: Mapping[Var, np.ndarray]
    padded: Mapping[Var, Padded]


def _operand(atoms: Atoms, var: Var, known: _OperandFacts, lengths: set[int], shut: set[int]) -> Form:
    """An operand as atoms: one for each place of its closed axes."""
    shape, held, mask = var.type.shape, known.held.get(var), known.padded.get(var)
    if var.type.dtype not in _NUMBERS:
        raise Stopped(f"an operand of {var.type.dtype.value}")
    parts: list[Part] = []
    for axis, size in enumerate(shape):
        is_last = axis == len(shape) - 1
        may_open = not is_known(size) or (
            size > 1 and size not in shut and (not is_last or size in lengths or mask is not None)
        )
        parts.append((size, bool(may_open and (not is_known(size) or len(shape) > 1))))
    if held is not None:
        spread = moves.broadcast(constant(held), shape, list(range(len(shape) - np.ndim(held), len(shape))))
        return moves.with_closed(spread, [axis for axis, (_, is_open) in enumerate(parts) if not is_open])
    closed = [int(size) for size, is_open in parts if not is_open]
    rows = int(np.prod(closed, initial=1))
    if len(closed) > 1 and rows > _MOST_ELEMENTS:
        raise Stopped("an operand with too many closed axes")
    count = sum(is_open for _, is_open in parts)
    is_mask = mask is not None and rows == 1 and parts[mask.axis][1] and var.type.dtype in _MASKS
    family = atoms.fresh("operand", rows, count, is_bool=is_mask or var.type.dtype is DType.bool)
    if mask is not None and is_mask:
        place = sum(is_open for _, is_open in parts[: mask.axis])
        atoms.padded[family] = MaskPadding(place, mask.side, parts[mask.axis][0])
        atoms.ramps |= frozenset(int(size) for size, is_open in parts if is_open and is_known(size))
    instance = Instance(family, tuple(Ref("axis", n) for n in range(count)))
    block = Picks(np.arange(rows), np.ones(rows))
    return Form(tuple((part,) for part in parts), {instance: block}, np.zeros(rows), 0.0)


_NUMBERS = frozenset({DType.f64, DType.f32, DType.bool, DType.i8, DType.i16, DType.i32, DType.i64, DType.u8, DType.u32})


_MASKS = frozenset({DType.bool, DType.f32, DType.f64})


@dataclass(frozen=True)
class _Side:
    """A graph as a jaxpr, whose equations are named by those of the graph."""

    name: str
    graph: Graph
    jaxpr: Any

    @classmethod
    def of(cls, name: str, graph: Graph) -> _Side:
        graph = with_float(graph, DType.f64)
        types = [jax.ShapeDtypeStruct(v.type.shape, v.type.dtype.numpy) for v in graph.inputs]
        with jax.enable_x64(True), sizes_of(_symbols(graph)):
            return cls(name, graph, jax.make_jaxpr(lambda *operands: _evaluated(graph, operands))(*types))

    def run(self, reader: Reader, operands: Sequence[Form]) -> list[Form]:
        """The forms of the results. An error names the equation that stops the proof."""
        reader.place = ""
        try:
            return reader.run(self.jaxpr, operands)
        except MustClose:
            raise
        except Stopped as error:
            number = reader.place.split("/")[0].removeprefix("equation")
            where = place_of(self.graph.eqns[int(number)]) if number.isdigit() else self.name
            raise Stopped(f"{error}, in {self.name} at {where}") from error


def _symbols(graph: Graph) -> Mapping[Var, Any]:
    """Each symbol as the size that it is: parameters may have some that are no axis by themselves."""
    names = sorted({name for v in graph.inputs for d in v.type.shape for name in symbols_of(d)})
    types = [TensorType((symbol(name),), DType.f32) for name in names]
    return {Var(t): jax.ShapeDtypeStruct(t.shape, np.float32) for t in types}


def _evaluated(graph: Graph, operands: Sequence[Any]) -> tuple[Any, ...]:
    env: dict[Any, Any] = dict(zip(graph.inputs, operands, strict=True))
    for number, eqn in enumerate(graph.eqns):
        inputs = [a.array if isinstance(a, Const) else None if a is None else env[a] for a in eqn.inputs]
        with jax.named_scope(f"equation{number}"):
            results = run_equation(eqn, inputs, env)
        env.update(zip(eqn.outputs, results, strict=True))
    return tuple(a.array if isinstance(a, Const) else env[a] for a in graph.outputs)
