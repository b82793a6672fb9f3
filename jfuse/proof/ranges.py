"""Derives requirements on inputs from the operators, in bodies too: ranges of integers and thresholds, flags, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.lowering.rule_tools.case_distinctions import makes_integers
from jfuse.proof.index_ranges import Extents, IndexRange, Passed, entries_of, moved_ranges

_MOST_STEPS = 10  # for those that decide how often a loop runs: what doubles at each step must not fill the memory
_LARGEST_SIZE = 6  # of an axis that an input decides: a shape of five such sizes still fits


_Sources = Callable[[Eqn], Passed]
"""The atoms that an equation by itself sets a range to."""
_PassesOn = Callable[[Eqn, IndexRange, Extents], Passed]
"""The operands of an equation that a range of its result sets one to."""


def integer_limits(graph: Graph) -> dict[Var, int]:
    """For each integer input, the size of the smallest table that it indexes: ids beyond it are errors, not values."""
    ranges = _learned(graph, _known_lookups, _entries)
    return {v: of.ends({})[1] for v, of in ranges.items()}


def drawn_ranges(graph: Graph) -> dict[Var, IndexRange]:
    """Find the ranges to draw inputs from, so that their consumers take them.

    Indices lie within their table and axes within the rank. A divisor is not 0. Sizes and steps are few. The overlap
    threshold of boxes lies between 0 and 1. Integers that are only flags are 0 and 1. Floats that are cast to unsigned
    integers are not negative.
    """
    asked, steps = _learned(graph, _asked, moved_ranges), _learned(graph, _counted, _of_counts)
    ranges = {v: asked.get(v, IndexRange()).also(steps[v]) if v in steps else asked[v] for v in asked | steps}
    return {v: IndexRange(0, (2,)) for v in flags(graph)} | ranges


def _learned(
    graph: Graph, sources: _Sources, passed: _PassesOn, known: dict[int, dict[Var, IndexRange]] | None = None
) -> dict[Var, IndexRange]:
    """The range of each input that has one.   known: those of bodies that were looked at, by their ids"""
    known = {} if known is None else known
    ranges: dict[Var, IndexRange] = {}

    def narrow(atom: Atom | None, to: IndexRange) -> None:
        if isinstance(atom, Var):
            ranges[atom] = ranges[atom].also(to) if atom in ranges else to

    extents = Extents.of(graph)
    for eqn in reversed(graph.eqns):
        for of, atom in sources(eqn):
            narrow(atom, of)
        for body in eqn.bodies:
            operands = dict(zip(body.inputs, eqn.inputs[-len(body.inputs) :], strict=False))
            if id(body) not in known:
                known[id(body)] = _learned(body, sources, passed, known)
            for var, of in known[id(body)].items():
                narrow(operands.get(var), of)
        for result in eqn.outputs[:1] if eqn.op is ops.topk_v2 else eqn.outputs:  # the others are places of entries
            for of, atom in passed(eqn, ranges[result], extents) if result in ranges else ():
                narrow(atom, of)
    return {v: ranges[v] for v in graph.inputs if v in ranges}


_COUNTED_BY: frozenset[Op] = frozenset({ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum, ops.floor_div})
"""The arithmetic that a number of steps is computed with."""


def _entries(eqn: Eqn, of: IndexRange, _: Extents) -> Passed:
    return ((of, atom) for atom in entries_of(eqn))


def _of_counts(eqn: Eqn, of: IndexRange, _: Extents) -> Passed:
    operands = eqn.inputs if eqn.op in _COUNTED_BY else entries_of(eqn)
    return ((of, a) for a in operands if a is not None and (a.type.dtype.is_integer or _is_number(a)))


def _known_lookups(eqn: Eqn) -> Iterator[tuple[IndexRange, Atom | None]]:
    """As `_lookups`, of tables whose size is known."""
    return ((of, ids) for of, ids in _lookups(eqn) if all(map(is_known, of.below)))


def _lookups(eqn: Eqn) -> Iterator[tuple[IndexRange, Atom | None]]:
    """The ids with which an equation looks into a table, within its size."""
    if eqn.op not in (ops.gather, ops.embedding_lookup):
        return
    table, ids = eqn.inputs if eqn.op is ops.gather else eqn.inputs[::-1]
    if table is not None:
        yield IndexRange(0, (table.type.shape[eqn.params.get("axis", 0)],)), ids


_SUPPRESSIONS: frozenset[Op] = frozenset({ops.non_max_suppression_v4, ops.non_max_suppression_v5})


def _asked(eqn: Eqn) -> Iterator[tuple[IndexRange, Atom | None]]:
    """The operands that an equation takes within a range only, with this."""
    operands, op = eqn.inputs, eqn.op
    shape = operands[0].type.shape if operands and operands[0] is not None else ()
    yield from _lookups(eqn)
    for place, atom in enumerate(operands):
        yield from _of_role(eqn, place, atom, len(shape))
    if op in _SUPPRESSIONS:
        yield IndexRange(0, (1,)), operands[3]
        yield IndexRange(1, (_LARGEST_SIZE,)), operands[2]
    yield from _special(eqn, shape)
    if makes_integers(eqn) and eqn.outputs[0].dtype.kind == "u":  # no integer of it is that of a number below 0
        yield IndexRange(), operands[0]


def _of_role(eqn: Eqn, place: int, atom: Atom | None, rank: int) -> Iterator[tuple[IndexRange, Atom | None]]:
    """The range of an operand by the meaning of its integers.   rank: of the first operand"""
    match eqn.op.operand_at(place).role:
        case "sizes":
            yield IndexRange(1, (_LARGEST_SIZE,)), atom
        case "axes":
            yield IndexRange(-rank, (rank,)), atom
        case "divisor" if atom is not None and atom.type.dtype.is_integer:
            yield IndexRange(1), atom
        case "paddings":
            yield IndexRange(0, (2,) if eqn.op is ops.mirror_pad else (_LARGEST_SIZE,)), atom
        case "segments":
            yield from _of_segments(atom, eqn.inputs[place + 1])


def _special(eqn: Eqn, shape: Sequence[Dim]) -> Iterator[tuple[IndexRange, Atom | None]]:
    """List the ranges that single ops ask of their operands.   shape: of the first one"""
    operands, op = eqn.inputs, eqn.op
    if op is ops.expand_dims:
        yield IndexRange(-len(shape) - 1, (len(shape) + 1,)), operands[1]
    elif op is ops.split:
        rank = 0 if operands[1] is None else operands[1].type.rank
        yield IndexRange(-rank, (rank,)), operands[0]
    elif op is ops.topk_v2:
        yield IndexRange(1, (shape[-1] + 1,)), operands[1]
    elif op is ops.reverse_sequence:
        yield IndexRange(0, (shape[eqn.params["seq_dim"]] + 1,)), operands[1]
    elif op is ops.range_:
        yield IndexRange(1), operands[2]
    elif op is ops.scatter_nd and operands[0] is not None:
        sizes = operands[2]
        known = sizes.array if isinstance(sizes, Const) else sizes.value if sizes is not None else None
        if known is not None and is_known(operands[0].type.shape[-1]):
            yield IndexRange(0, tuple(known.tolist()[: int(operands[0].type.shape[-1])])), operands[0]
    elif op is ops.gather_nd and operands[1] is not None and is_known(operands[1].type.shape[-1]):
        yield IndexRange(0, tuple(shape[: int(operands[1].type.shape[-1])])), operands[1]


def _of_segments(ids: Atom | None, count: Atom | None) -> Iterator[tuple[IndexRange, Atom | None]]:
    """Segments lie below their number, where that is known; else the number is small."""
    known = count.array if isinstance(count, Const) else count.value if count is not None else None
    if known is None:
        yield IndexRange(1, (_LARGEST_SIZE,)), count
    else:
        yield IndexRange(0, tuple(known.reshape(-1).tolist())), ids


def spread_dims(eqn: Eqn) -> Iterator[tuple[Dim, Dim]]:
    """The open dimensions of what BROADCAST_TO spreads, each with that of the result: verification lets both agree."""
    if eqn.op is ops.broadcast_to and eqn.inputs[0] is not None:
        pairs = zip(reversed(eqn.inputs[0].type.shape), reversed(eqn.outputs[0].type.shape), strict=False)
        yield from ((d, e) for d, e in pairs if not is_known(d))


def rows_asked(eqn: Eqn) -> Iterator[tuple[Dim, int]]:
    """Dimensions, and how many rows they have at least, by the constants of an equation: x[2], the three greatest."""
    x = eqn.inputs[0] if eqn.inputs else None
    if x is None or isinstance(x, Const):
        return
    shape = x.type.shape
    if eqn.op is ops.topk_v2:
        yield from ((shape[-1], n) for n in _entries_of(eqn.inputs[1]))
    elif eqn.op is ops.gather:
        yield shape[eqn.params["axis"]], max(_entries_of(eqn.inputs[1]), default=0) + 1
    elif eqn.op is ops.mirror_pad:  # a reflection leaves out the edge itself
        entries = _entries_of(eqn.inputs[1])
        widths = map(max, entries[::2], entries[1::2])
        yield from zip(shape, (w + (eqn.params["mode"] == "REFLECT") for w in widths), strict=False)
    elif eqn.op is ops.strided_slice and not eqn.params["ellipsis_mask"] | eqn.params["new_axis_mask"]:
        places = enumerate(_entries_of(eqn.inputs[1]))
        single = ((shape[i], n) for i, n in places if eqn.params["shrink_axis_mask"] >> i & 1)
        yield from ((d, -n if n < 0 else n + 1) for d, n in single)


def _entries_of(atom: Atom | None) -> list[int]:
    """The integers of a constant; none of what is computed."""
    return [int(n) for n in atom.array.ravel()] if isinstance(atom, Const) else []


def _counted(eqn: Eqn) -> Iterator[tuple[IndexRange, Atom | None]]:
    """The operands of a loop that its condition is computed from, by itself or in its body, so that it ends soon.

    Integers are a few steps; a single float is a threshold or a tolerance: beyond 0 and 1 many loops have no end (the
    share of two boxes that suppresses one, a damping, an error to stay below).
    """
    if eqn.op is not while_:
        return
    condition, body = eqn.bodies
    needed = _reads(condition, condition.outputs)
    while True:  # what those are computed from in the body, until that is nothing new
        more = needed | _reads(body, [body.outputs[i] for i in sorted(needed)])
        if more == needed:
            break
        needed = more
    for i in sorted(needed):
        atom = eqn.inputs[i]
        if atom is not None and atom.type.dtype.is_integer:
            yield IndexRange(0, (_MOST_STEPS,)), atom
        elif _is_number(atom):
            yield IndexRange(0, (1,)), atom


def _is_number(atom: Atom | None) -> bool:
    """Whether an atom is a single float."""
    return atom is not None and atom.type.dtype.is_float and atom.type.rank == 0


def _reads(graph: Graph, results: Sequence[Atom]) -> frozenset[int]:
    """The positions of the inputs that results are computed from."""
    read = {a for e in live_eqns(graph, results) for a in e.inputs} | set(results)
    return frozenset(i for i, v in enumerate(graph.inputs) if v in read)


_COMPARISONS = frozenset({ops.equal, ops.not_equal})


def flags(graph: Graph) -> frozenset[Var]:
    """Find integer inputs that are flags, such as masks: drawn among all integers, they would hardly ever be 0.

    Every reader of a flag compares it with 0 or 1, or takes the difference from 1. An input that bodies read is none.
    """
    inputs = {v for v in graph.inputs if v.type.dtype.is_integer}
    origin: dict[Atom, Var] = {v: v for v in inputs}
    asked, others = set[Var](), {origin[a] for a in graph.outputs if a in origin}
    for eqn in graph.eqns:
        for place, atom in enumerate(eqn.inputs):
            if atom is None or atom not in origin:
                continue
            if _asks(eqn, place):
                asked.add(origin[atom])
            elif _hands_on(eqn, atom):
                origin[eqn.outputs[0]] = origin[atom]
            elif eqn.op is not ops.shape:
                others.add(origin[atom])
    return frozenset(asked - others)


def _hands_on(eqn: Eqn, atom: Atom) -> bool:
    """Whether the entries of the first result are those of an operand alone."""
    return entries_of(eqn) == (atom,) and eqn.outputs[0].type.dtype is not DType.bool


def _asks(eqn: Eqn, place: int) -> bool:
    """Whether an equation asks of an operand whether it is 0 or 1."""
    if eqn.op is ops.cast:
        return eqn.outputs[0].type.dtype is DType.bool
    if eqn.op in _COMPARISONS:
        return _is_filled(eqn.inputs[1 - place], (0, 1))
    return eqn.op is ops.sub and place == 1 and _is_filled(eqn.inputs[0], (1,))


def _is_filled(atom: Atom | None, numbers: tuple[int, ...]) -> bool:
    """Whether a constant has one of these numbers in every entry."""
    return isinstance(atom, Const) and any(bool((atom.array == n).all()) for n in numbers)
