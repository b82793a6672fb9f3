"""Linear forms: the matrices by which values of a loop body depend on their sources, and their biases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import Dim, is_known, substitute_dim, symbols_of
from jfuse.ir.evaluate import large_constants, shared_program, with_constants
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.text import format_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import live_eqns, producers, with_float
from jfuse.lowering.rules import need

_BLOCK = 256  # basis rows in one evaluation
_MOST_ROWS = 32 * 1024

Sources = frozenset[Var]


class Dependence:
    """For each value of a body the sources that it is affine in.

    Sources are the body's inputs and the results of equations that are not affine in what they read.
    """

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.made_by = producers(body)
        self._sources: dict[Var, Sources] = {var: frozenset([var]) for var in body.inputs}
        for eqn in body.eqns:
            sources = self._of_results(eqn)
            for out in eqn.outputs:
                self._sources[out] = frozenset([out]) if sources is None else sources

    def of(self, atom: Atom | None) -> Sources:
        """The sources of a value; none where it is constant."""
        return self._sources[atom] if isinstance(atom, Var) else frozenset()

    def inputs_behind(self, values: Iterable[Atom]) -> Sources:
        """The inputs of the body that some values read in any way, affine or not."""
        inputs: set[Var] = set()
        seen: set[Var] = set()
        pending = list(values)
        while pending:
            for source in self.of(pending.pop()) - seen:
                seen.add(source)
                eqn = self.made_by.get(source)
                inputs.update([source] if eqn is None else [])
                pending.extend(a for a in (eqn.inputs if eqn else ()) if a is not None)
        return frozenset(inputs)

    def depends(self, eqn: Eqn) -> bool:
        """Whether an equation reads the data (not only the shape) of anything that varies."""
        return any(self.of(a) for i, a in enumerate(eqn.inputs) if not _is_shape_only(eqn, i))

    def _of_results(self, eqn: Eqn) -> Sources | None:
        places = [i for i, a in enumerate(eqn.inputs) if self.of(a) and not _is_shape_only(eqn, i)]
        if not places:
            return frozenset()
        if not is_affine(eqn, places):
            return None
        return frozenset().union(*(self.of(eqn.inputs[i]) for i in places))


def is_affine(eqn: Eqn, places: Sequence[int]) -> bool:
    """Whether the results of an equation are affine in the operands at those places together, the others fixed."""
    op = eqn.op
    if not op.is_kernel or eqn.params.get("fused_activation_function", "NONE") != "NONE":
        return False
    varying = [eqn.inputs[i] for i in places]
    if not all(a is not None and a.type.dtype.is_float for a in (*varying, *eqn.outputs)):
        return False
    if op.linear == "each":
        return len([i for i in places if op.operand_at(i).name != "bias"]) <= 1
    return op.linear == "joint" or (op.linear == "first" and list(places) == [0])


@dataclass(frozen=True)
class AffineForm:
    """An affine value, row by row: bias + the sum of each source's row times its matrix.

    matrices: f64[columns of the source, columns of the value]; bias: f64[columns of the value].
    """

    matrices: Mapping[Var, np.ndarray]
    bias: np.ndarray


def row_size(tensor_type: TensorType) -> int:
    """The number of elements in one row, an index of the first dimension; refuses where it is open."""
    need(all(map(is_known, tensor_type.shape[1:])), "open_row", want="known sizes but for the first", got=tensor_type)
    return int(np.prod([int(d) for d in tensor_type.shape[1:]]))


def concrete_zeros(tensor_type: TensorType, size: int) -> np.ndarray:
    """Zeros of a type, each symbol in its dimensions taken as `size`: 3*B has three times as many rows."""
    return np.zeros([concrete_size(d, size) for d in tensor_type.shape], tensor_type.dtype.numpy)


def concrete_start(var: Var, size: int) -> np.ndarray:
    """The known value of a variable (a size that the loop hands in), with `size` for symbols; else zeros."""
    if var.value is None:
        return concrete_zeros(var.type, size)
    sizes = [concrete_size(d, size) for d in var.value.ravel()]
    return np.array(sizes, var.type.dtype.numpy).reshape(var.value.shape)


def concrete_size(dim: Dim, size: int) -> int:
    """A dimension with each symbol taken as `size`, and with `size` where that leaves none."""
    size_ = int(substitute_dim(dim, dict.fromkeys(symbols_of(dim), size)))
    return size_ if size_ > 0 or is_known(dim) else size


def linear_forms(body: Graph, values: Sequence[Var], sources: Sequence[Var]) -> dict[Var, AffineForm]:
    """The forms of values that are affine in `sources`, which are inputs of the body with the batch as first dimension.

    The matrix is what the value's derivative makes of the unit vectors: products with 1 and sums with 0 are exact, so
    weights come out bit by bit. In f64: some devices multiply f32 in shorter formats.
    """
    widths = [row_size(s.type) for s in sources]
    total = sum(widths)
    need(total <= _MOST_ROWS, "form_too_large", want=f"up to {_MOST_ROWS} input columns", got=total)
    rows, size = _need_rows(sources, values)
    group = max(1, _BLOCK // rows)
    program, weights = _program(body, values, sources, size)
    outputs: list[list[np.ndarray]] = [[] for _ in values]
    base: Sequence[Any] = ()
    with jax.enable_x64(True):
        for start in range(0, total, group * rows):
            base, tangents = program(weights, _basis(sources, widths, start, group, rows))
            for form_rows, tangent in zip(outputs, tangents, strict=True):
                form_rows.append(np.asarray(tangent).reshape(group * rows, -1))
    forms = {}
    for value, blocks, at_zero in zip(values, outputs, base, strict=True):
        bias = np.asarray(at_zero).reshape(rows, -1)
        need((bias == bias[0]).all(), "same_bias_in_all_rows", got=f"a constant of {value.type} that varies by row")
        matrix = np.concatenate(blocks)[:total]
        parts = np.split(matrix, np.cumsum(widths)[:-1])
        forms[value] = AffineForm(dict(zip(sources, parts, strict=True)), bias[0])
    return forms


def _need_rows(sources: Sequence[Var], values: Sequence[Var]) -> tuple[int, int]:
    """The rows of the batch, and what symbols are taken as for that.

    Refuses where not all have as many: a buffer of steps f32[5,4] beside an input.
    """
    batches = {v.type.shape[0] if v.type.rank else 0 for v in sources}
    sizes = {int(d) if is_known(d) else _BLOCK for d in batches}
    size = max(sizes)
    while size > 1 and not any(map(is_known, batches)) and max(concrete_size(d, size) for d in batches) > _BLOCK:
        size //= 2  # B*B rows
    rows = {concrete_size(d, size) for d in batches}
    need(len(sizes) == len(rows) == 1 and 0 not in rows, "rows_of_the_batch", want="as many in each", got=sorted(rows))
    (count,) = rows
    for value in values:
        fits = concrete_zeros(value.type, size).size % count == 0
        need(fits, "rows_of_the_batch", want=f"{count} rows", got=str(value.type))
    return count, size


def _program(body: Graph, values: Sequence[Var], sources: Sequence[Var], size: int) -> tuple[Any, list[np.ndarray]]:
    """One jitted function (weights, tangents of the sources) -> (values at zero, tangents of the values)."""
    graph = with_float(Graph("forms", body.inputs, live_eqns(body, values), tuple(values)), DType.f64)
    weights = large_constants(graph, above=1)
    places = [body.inputs.index(s) for s in sources]
    zeros = [concrete_start(v, size) for v in graph.inputs]
    key = ("forms", format_graph(graph, sources=False, hoisted=weights), tuple(places), size)
    return shared_program(key, lambda: _jitted(graph, weights, places, zeros)), weights


def _jitted(graph: Graph, weights: Sequence[np.ndarray], places: Sequence[int], zeros: Sequence[np.ndarray]) -> Any:
    run = with_constants(graph, weights)

    def program(weights: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        def value(*arrays: Any) -> tuple[Any, ...]:
            args = list(zeros)
            for place, array in zip(places, arrays, strict=True):
                args[place] = array
            return run(weights, args)

        start = tuple(jax.numpy.asarray(zeros[p]) for p in places)
        return value(*start), jax.vmap(lambda *t: jax.jvp(value, start, t)[1])(*tangents)

    return quick_jit(program)


def _basis(sources: Sequence[Var], widths: Sequence[int], start: int, group: int, rows: int) -> list[np.ndarray]:
    """Unit vectors start, start + 1, … over all columns of all sources, one for each row."""
    tangents, first = [], 0
    for source, width in zip(sources, widths, strict=True):
        tail = tuple(int(d) for d in source.type.shape[1:])
        tangents.append(_units(start - first, group * rows, width).reshape(group, rows, *tail))
        first += width
    return tangents


def _units(start: int, count: int, width: int) -> np.ndarray:
    """Rows start, start + 1, … of the unit matrix, zero rows outside of it."""
    block = np.zeros((count, width))
    columns = np.arange(start, start + count)
    inside = (columns >= 0) & (columns < width)
    block[np.nonzero(inside)[0], columns[inside]] = 1.0
    return block


def _is_shape_only(eqn: Eqn, place: int) -> bool:
    return eqn.op.operand_at(place).shape_only
