"""Tolerances between two runners of one graph, with reasons: by an output's dtype and the ops that lead to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, all_graphs, live_eqns, producers
from jfuse.kernels.core.integer_types import is_quantized

_MANY_PRODUCTS = 200
_NARROW = {DType.bf16: 8, DType.f16: 11}
_COARSE = {DType.i2: 2, DType.i4: 4, DType.u4: 4, DType.i8: 8, DType.u8: 8, DType.i16: 16}
"""Quantized dtypes with their bits."""


@dataclass(frozen=True)
class Tolerance:
    """The largest max|a - b| / max|b|, and the reason in words.

    least: lower bound of max|b|, for quantized outputs their whole range.
    per_element: elements are also judged by their own scales. Steps are those of a whole tensor.
    unit: the distance from 1 to the next number of the type that the reference alone rounds values to; 0 for none.
    """

    value: float
    reason: str
    least: float = 0.0
    per_element: bool = True
    unit: float = 0.0


EXACT = Tolerance(0.0, "integers, bools and texts are equal or not", per_element=False)


def tolerance_of(program: Program, key: str, output: str, *, rounds: bool = False) -> Tolerance:
    """The tolerance of one output (or state, under a name that no output has) of one signature.

    In f32 1e-4 where convolutions lead to it (thousands of terms a sum, dozens of layers), 1e-5 else (measured: 1e-6),
    and more for more than 200 matrix products, in proportion (measured: 1.1e-5 for 600 dense layers). Where something
    is computed or kept in f16 or bf16, five roundings of that type (2^-11, 2^-8).
    rounds: the other side is not quantized as this program is: then five steps of the coarsest quantized type, too.
    """
    signature = next(s for s in program.signatures if s.key == key)
    of = dict(zip(signature.output_names, signature.graph.outputs, strict=False))
    if output in of and not (of[output].type.dtype.is_float or of[output].type.dtype in (DType.c64, DType.c128)):
        return EXACT
    eqns, types = _way(program, signature, output)
    if rounds and (bits := [_COARSE[t.dtype] for t in types if t.quantization is not None and t.dtype in _COARSE]):
        reason = f"five of the steps that {min(bits)} bits have, as it is quantized"
        return Tolerance(5 * 2.0 ** -min(bits), reason, _range(signature, of.get(output)), per_element=False)
    whole = any(t.quantization is not None and t.dtype in _COARSE for t in types)
    return replace(_of_floats(eqns, types), per_element=not whole)


def beside_narrow(own: Tolerance, source: Tolerance | None) -> Tolerance:
    """The tolerance of an output with a source error of `source`, from `of_narrow_source`."""
    if own is EXACT or source is None:
        return own
    if own.value > source.value:
        return replace(own, unit=source.unit)
    return replace(source, per_element=own.per_element)


def of_narrow_source(program: Program, source: Program, key: str, output: str) -> Tolerance | None:
    """The tolerance for an output that the source alone rounds to 16 bits on the way; None if it does not.

    key, output: the source's names.
    """
    if narrowest_computed(program) is not None:
        return None
    signature = next(s for s in source.signatures if s.key == key)
    dtype = _narrowest(_leading_to(source, signature, output), signature.graph.outputs)
    if dtype is None:
        return None
    rounded = _rounded_to(dtype)
    return replace(rounded, reason=f"{rounded.reason}, by the source alone", unit=2.0 ** (1 - _NARROW[dtype]))


def narrowest_computed(program: Program) -> DType | None:
    """The type with the fewest digits among the 16-bit floats between a program's inputs and outputs; None for none.

    An output alone is rounded once, whatever leads to it.
    """
    graphs = program.graphs()
    return _narrowest((eqn for g in graphs for eqn in all_eqns(g)), [atom for g in graphs for atom in g.outputs])


def _narrowest(eqns: Iterable[Eqn], outputs: Sequence[Atom]) -> DType | None:
    typed = set(outputs)
    computed = {v.type.dtype for eqn in eqns for v in eqn.outputs if v not in typed}
    return next((dtype for dtype in _NARROW if dtype in computed), None)


def _rounded_to(dtype: DType) -> Tolerance:
    digits = _NARROW[dtype]
    return Tolerance(5 * 2.0**-digits, f"five roundings to {dtype.value}, 2^-{digits} each")


def tolerance_on_the_way(program: Program, key: str, output: str) -> Tolerance:
    """The tolerance of the real numbers that lead to an output, of whatever type it is itself."""
    return _of_floats(*_way(program, next(s for s in program.signatures if s.key == key), output))


def is_rounded_file(graphs: Sequence[Graph]) -> bool:
    """Whether constants or values of the graphs are quantized, or constants are f16."""
    inner = [g for graph in graphs for g in all_graphs(graph)]
    atoms = [a for g in inner for e in g.eqns for a in (*e.inputs, *e.outputs) if a is not None]
    return any(is_quantized(a.type) or (isinstance(a, Const) and a.type.dtype is DType.f16) for a in atoms)


def _way(program: Program, signature: Signature, output: str) -> tuple[Sequence[Eqn], Collection[TensorType]]:
    """The equations that lead to an output, and the types of their values."""
    eqns = list(_leading_to(program, signature, output))
    return eqns, {a.type for e in eqns for a in (*e.inputs, *e.outputs) if a is not None}


def _of_floats(eqns: Sequence[Eqn], types: Collection[TensorType]) -> Tolerance:
    for dtype in _NARROW:
        if any(t.dtype is dtype for t in types):
            return _rounded_to(dtype)
    kinds = [e.op.product for e in eqns]
    if "windows" in kinds:
        return Tolerance(1e-4, "f32 sums of convolutions in another order")
    products = kinds.count("matrices")
    if products > _MANY_PRODUCTS:
        return Tolerance(1e-5 * products / _MANY_PRODUCTS, f"f32 sums in another order, {products} products")
    return Tolerance(1e-5, "f32 sums in another order")


def _range(signature: Signature, atom: Atom | None) -> float:
    """From the least to the largest number that a dequantized output can be; 0 where it is no such output."""
    eqn = producers(signature.graph).get(atom) if isinstance(atom, Var) else None
    dequantized = eqn.inputs[0] if eqn is not None and eqn.op.scales == "out_of" else None
    operand = None if dequantized is None else dequantized.type
    if operand is None or operand.quantization is None or operand.dtype not in _COARSE:
        return 0.0
    return 2.0 ** _COARSE[operand.dtype] * max(operand.quantization.scale, default=0.0)


def _leading_to(program: Program, signature: Signature, output: str) -> Iterator[Eqn]:
    """The equations that an output follows from, bodies included: all of the program where states have a part in it."""
    graph = signature.graph
    of: Mapping[str, object] = dict(zip(signature.output_names, graph.outputs, strict=False))
    states = set(graph.inputs[len(graph.inputs) - len(signature.states) :]) if signature.states else set()
    if output in of:
        atom = next(a for n, a in zip(signature.output_names, graph.outputs, strict=False) if n == output)
        live = live_eqns(graph, [atom])
        read = {a for e in live for a in e.inputs if isinstance(a, Var)} | {atom}
        if not read & states:
            for eqn in live:
                yield eqn
                for body in eqn.bodies:
                    yield from all_eqns(body)
            return
    for any_graph in program.graphs():
        yield from all_eqns(any_graph)
