"""Merges the products of a loop's step into few operators, before fission takes out those that no carry needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import is_same_type, producers, use_counts, users
from jfuse.kernels import ops
from jfuse.kernels.core.layout import from_front
from jfuse.kernels.core.op import static_value
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.fission.fission import FissionStep
from jfuse.passes.simplify.dce import eliminate_dead_code


def joined(eqn: Eqn) -> Eqn:
    """Merge the products of a scan's step; returns the same object where there are none to merge.

    FULLY_CONNECTEDs of one value become one. Those of [x, h] become one of x and one of h. An op that treats all parts
    of a SPLIT alike is applied to the whole.
    """
    body = _parted(eqn, eqn.bodies[0])
    for find in (_products_of_one_value, _slices_of_one_value):
        body = _regrouped(body, find(body))
    while True:
        below = _regrouped(body, _alike_for_all_parts(body))
        if below is body:
            break
        body = eliminate_dead_code(below)  # what reads a part for nobody counts as a reader
    body = _with_constants_apart(eqn, body)
    return eqn if body is eqn.bodies[0] else replace(eqn, bodies=(body,))


@dataclass(frozen=True)
class _Group:
    """Equations of one result each, in the order of the parts that they are of one value.

    whole: records that value, given the operands of the first of them in the graph.
    """

    members: tuple[Eqn, ...]
    whole: Callable[[Sequence[Any]], Any]


def _regrouped(body: Graph, groups: Iterable[_Group]) -> Graph:
    """The body with each group as one value where its first member was, cut into what the members were."""
    group_of = {member.outputs[0]: group for group in groups for member in group.members}
    if not group_of:
        return body
    parts: dict[Var, Any] = {}

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        result = eqn.outputs[0]
        if result in group_of and result not in parts:
            results = [member.outputs[0] for member in group_of[result].members]
            sizes = [int(out.type.shape[-1]) for out in results]
            parts.update(zip(results, _split(group_of[result].whole(eqn.inputs), sizes), strict=True))
        return [parts[result]] if result in parts else None

    return rewrite(body, visit)


def _split(x: Any, sizes: Sequence[int]) -> Sequence[Any]:
    """x cut along its last axis."""
    axis = np.asarray(len(x.shape) - 1, np.int32)
    equal = len(set(sizes)) == 1
    parts: tuple[Any, ...] = (
        ops.split(axis, x, num_splits=len(sizes)) if equal else ops.split_v(x, np.array(sizes, np.int32), axis)
    )
    return parts


def _has_known_width(eqn: Eqn) -> bool:
    return bool(eqn.outputs[0].type.rank) and is_known(eqn.outputs[0].type.shape[-1])


def _products_of_one_value(body: Graph) -> list[_Group]:
    """FULLY_CONNECTEDs of the same value by different constants."""
    alike: dict[Any, list[Eqn]] = {}
    for eqn in body.eqns:
        if eqn.op is ops.fully_connected and _is_constant(eqn):
            alike.setdefault((eqn.inputs[0], repr(eqn.params)), []).append(eqn)
    return [_Group(tuple(eqns), _concatenated(eqns)) for eqns in alike.values() if len(eqns) > 1]


def _is_constant(eqn: Eqn) -> bool:
    _, weights, bias = eqn.inputs
    plain = isinstance(weights, Const) and weights.type.dtype.is_float and weights.type.quantization is None
    return plain and (bias is None or isinstance(bias, Const)) and _has_known_width(eqn)


def _concatenated(products: Sequence[Eqn]) -> Callable[[Sequence[Any]], Any]:
    def whole(operands: Sequence[Any]) -> Any:
        weights = [_array(eqn.inputs[1]) for eqn in products]
        biases = [_bias(eqn) for eqn in products]
        bias = None if all(eqn.inputs[2] is None for eqn in products) else np.concatenate(biases)
        return products[0].op.run([operands[0], np.concatenate(weights), bias], products[0].params, ())[0]

    return whole


def _bias(eqn: Eqn) -> np.ndarray:
    weights = _array(eqn.inputs[1])
    return np.zeros(len(weights), weights.dtype) if eqn.inputs[2] is None else _array(eqn.inputs[2]).reshape(-1)


def _array(atom: Atom | None) -> np.ndarray:
    assert isinstance(atom, Const), "only products by constants are joined"
    return atom.array


def _slices_of_one_value(body: Graph) -> list[_Group]:
    """STRIDED_SLICEs that cut a value along its last axis into all its parts."""
    cuts: dict[Var, list[tuple[int, int, Eqn]]] = {}
    for eqn in body.eqns:
        x = eqn.inputs[0] if eqn.op is ops.strided_slice else None
        span = _span(eqn) if isinstance(x, Var) else None
        if isinstance(x, Var) and span is not None:
            cuts.setdefault(x, []).append((*span, eqn))
    groups = []
    for x, parts in cuts.items():
        parts.sort(key=lambda cut: cut[:2])
        ends = [0, *(end for _, end, _ in parts)]
        if len(parts) > 1 and ends[-1] == x.type.shape[-1] and [start for start, _, _ in parts] == ends[:-1]:
            groups.append(_Group(tuple(eqn for *_, eqn in parts), lambda operands: operands[0]))
    return groups


def _span(eqn: Eqn) -> tuple[int, int] | None:
    """From where to where a STRIDED_SLICE goes along the last axis, where it takes all of the others."""
    x, *bounds = eqn.inputs
    begin, end, strides = (() if b is None else static_value(b) or () for b in bounds)
    params = eqn.params
    if x is None or not x.type.rank or len(begin) != x.type.rank or not is_known(x.type.shape[-1]):
        return None
    if any(s != 1 for s in strides) or params["offset"]:
        return None
    if params["ellipsis_mask"] or params["new_axis_mask"] or params["shrink_axis_mask"]:
        return None
    last, size = x.type.rank - 1, int(x.type.shape[-1])
    whole = (1 << last) - 1
    if params["begin_mask"] & params["end_mask"] & whole != whole:
        return None
    start = 0 if params["begin_mask"] >> last & 1 else begin[last]
    stop = size if params["end_mask"] >> last & 1 else end[last]
    return (start % size, (stop - 1) % size + 1) if start != stop else None


def _alike_for_all_parts(body: Graph) -> list[_Group]:
    """Elementwise ops that do to each part of a SPLIT what they do to the others, and each part is used for that only.

    The other operand is a constant along the axis of the parts, or the same part of another SPLIT. One group at most:
    what comes out may be the part of another.
    """
    made_by, read_by, counts = producers(body), users(body), use_counts(body)
    for eqn in body.eqns:
        if not _is_split(eqn) or any(counts[out] != 1 or out not in read_by for out in eqn.outputs):
            continue
        members = tuple(read_by[out][0] for out in eqn.outputs)
        other = _other_whole(eqn, members, made_by, counts)
        if other is not None:
            return [_Group(members, _applied(members[0], eqn, other))]
    return []


def _is_split(eqn: Eqn) -> bool:
    """Whether an equation cuts a value along its last axis."""
    if eqn.op not in (ops.split, ops.split_v) or not _has_known_width(eqn):
        return False
    x, axis = _split_operand(eqn), eqn.inputs[0 if eqn.op is ops.split else 2]
    places = static_value(axis) if axis is not None else None
    (place,) = places if isinstance(places, tuple) else (places,)
    return x is not None and isinstance(place, int) and from_front(place, x.type.rank) == x.type.rank - 1


def _split_operand(eqn: Eqn) -> Atom | None:
    return eqn.inputs[1 if eqn.op is ops.split else 0]


def _other_whole(
    split: Eqn, members: Sequence[Eqn], made_by: Mapping[Var, Eqn], counts: Mapping[Var, int]
) -> Atom | np.ndarray | None:
    """Return the operand that, met by the whole split, gives every member as its part; None where members differ."""
    first = members[0]
    op, place = first.op, first.inputs.index(split.outputs[0])
    if not op.elementwise or len(first.inputs) != 2:
        return None
    for part, eqn in zip(split.outputs, members, strict=True):
        alike = eqn.op is op and eqn.params == first.params and eqn.inputs[place] is part
        if not alike or not is_same_type(eqn.outputs[0].type, part.type):
            return None
    others = [eqn.inputs[1 - place] for eqn in members]
    source = made_by.get(others[0]) if isinstance(others[0], Var) else None
    if source is not None and source is not split and _is_split(source) and source.outputs == tuple(others):
        x, y = _split_operand(split), _split_operand(source)
        read_once = all(counts[out] == 1 for out in source.outputs)
        return y if x is not None and y is not None and read_once and is_same_type(x.type, y.type) else None
    vectors = [_vector(o, part) for o, part in zip(others, split.outputs, strict=True)]
    known = [v for v in vectors if v is not None]
    return np.concatenate(known) if len(known) == len(vectors) else None


def _vector(atom: Atom | None, part: Var) -> np.ndarray | None:
    """A constant as a vector along the last axis of a part."""
    size = int(part.type.shape[-1])
    if not isinstance(atom, Const) or (atom.array.size != 1 and atom.array.shape[-1:] != (atom.array.size,)):
        return None
    return np.broadcast_to(atom.array.reshape(-1), (size,)) if atom.array.size in (1, size) else None


def _applied(member: Eqn, split: Eqn, other: Atom | np.ndarray) -> Callable[[Sequence[Any]], Any]:
    place = member.inputs.index(split.outputs[0])

    def whole(_: Sequence[Any]) -> Any:
        x = _split_operand(split)
        return member.op.run([x, other] if place == 0 else [other, x], member.params, ())[0]

    return whole


def _parted(loop: Eqn, body: Graph) -> Graph:
    """Split a product of [x, h] into a sum of two products, where x needs no carry and can be computed outside."""
    if not any(eqn.op is ops.fully_connected for eqn in body.eqns):
        return body
    step, made_by = FissionStep(loop), producers(body)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        rows = made_by.get(eqn.inputs[0]) if isinstance(eqn.inputs[0], Var) else None
        if eqn.op is not ops.fully_connected or not _is_constant(eqn) or rows is None or eqn not in step.eqns:
            return None
        if rows.op is not ops.concatenation or not _joins_columns(rows):
            return None
        free = [i for i, a in enumerate(rows.inputs) if not (isinstance(a, Var) and step.behind[a])]
        bound = [i for i in range(len(rows.inputs)) if i not in free]
        if not free or not bound or eqn.params["fused_activation_function"] != "NONE":
            return None
        ends = np.cumsum([0, *(int(a.type.shape[-1]) for a in rows.inputs if a is not None)])
        terms = [_product_of(eqn, rows, places, ends, biased=places is free) for places in (free, bound)]
        return [ops.add(*terms)]

    return rewrite(body, visit)


def _with_constants_apart(loop: Eqn, body: Graph) -> Graph:
    """Add a constant to x instead of to the sum of x and h, where x needs no carry."""
    step, made_by, counts = FissionStep(replace(loop, bodies=(body,))), producers(body), use_counts(body)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        constant, total = _constant_first(eqn.inputs) if eqn.op is ops.add and eqn in step.eqns else (None, None)
        before = made_by.get(total) if isinstance(total, Var) and counts[total] == 1 else None
        if constant is None or before is None or before.op is not ops.add or not eqn.outputs[0].type.dtype.is_float:
            return None
        free = [a for a in before.inputs if isinstance(a, Var) and not step.behind[a] and a in step.stepped]
        bound = [a for a in before.inputs if a not in free]
        plain = before.params["fused_activation_function"] == "NONE"
        if len(free) != 1 or not plain or not is_same_type(free[0].type, eqn.outputs[0].type):
            return None
        return [ops.add(ops.add(free[0], constant), bound[0], **eqn.params)]

    return rewrite(body, visit)


def _constant_first(inputs: Sequence[Atom | None]) -> Sequence[Atom | None]:
    """Two operands in such an order that the first is constant; nothing where neither is."""
    ordered = sorted(inputs, key=lambda a: not isinstance(a, Const))
    return ordered if isinstance(ordered[0], Const) else (None, None)


def _joins_columns(eqn: Eqn) -> bool:
    rank = eqn.outputs[0].type.rank
    last = from_front(eqn.params["axis"], rank) == rank - 1
    return last and all(a is not None and is_known(a.type.shape[-1]) for a in eqn.inputs)


def _product_of(eqn: Eqn, rows: Eqn, places: Sequence[int], ends: np.ndarray, *, biased: bool) -> Any:
    """The part of a product that some of the concatenated columns make."""
    columns = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in places])
    values = [rows.inputs[i] for i in places]
    x = values[0] if len(values) == 1 else rows.op.run(values, rows.params, ())[0]
    weights = np.ascontiguousarray(_array(eqn.inputs[1])[:, columns])
    return eqn.op.run([x, weights, eqn.inputs[2] if biased else None], eqn.params, ())[0]
