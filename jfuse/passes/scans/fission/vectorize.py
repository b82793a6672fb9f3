"""Steps of a loop taken all at once: an equation on one step becomes one on sequences with the steps along axis 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn, Op, Var
from jfuse.ir.trace import active_trace, recording
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import is_same_type
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.math.reduce import REDUCTIONS
from jfuse.passes.scans.fission.step_operands import LiftedEqn, LoopSteps, Rule

# Rules that apply an op to all steps of a sequence at once; elementwise ops need no rule of their own.

_TABLE: dict[Op, Rule] = {}
RULES: Mapping[Op, Rule] = MappingProxyType(_TABLE)
"""The rules by op."""

_WIDEST_BROADCAST = 4  # dimensions; few kernels and no delegate broadcast among more


def vectorizes(*kinds: Op) -> Callable[[Rule], Rule]:
    """Register the decorated function for equations of these ops."""

    def register(rule: Rule) -> Rule:
        _TABLE.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def elementwise(step: LiftedEqn) -> tuple[Any, ...] | None:
    """The op on sequences; they get axes of 1 behind the first, so that each step broadcasts as it did alone."""
    rank = step.eqn.outputs[0].type.rank
    if rank >= _WIDEST_BROADCAST and not _alike(step):
        return rows_apart(step)
    return step.again(*(_widened(step, i, rank) for i in range(len(step.operands))))


def _alike(step: LiftedEqn) -> bool:
    """Whether the operands need no broadcast."""
    shape = step.eqn.outputs[0].type.shape
    inputs = [a for a in step.eqn.inputs if a is not None]
    return len(step.places) == len(inputs) and all(
        a.type.rank == len(shape) and all(map(same, a.type.shape, shape)) for a in inputs
    )


def _widened(step: LiftedEqn, place: int, rank: int) -> Any:
    x = step[place]
    for _ in range(rank - step.rank(place) if place in step.places else 0):
        x = ops.expand_dims(x, 1)
    return x


def rows_apart(step: LiftedEqn) -> tuple[Any, ...] | None:
    """An op that treats each row of its batch alone, the first dimension, on the rows of all steps together.

    Operands that are the same for all steps must have no batch.
    """
    stepped = [step.eqn.inputs[place] for place in step.places]
    shapes = [a.type.shape for a in (*stepped, *step.eqn.outputs) if a is not None]
    first = shapes[0]
    if not first or any(len(shape) != len(first) or not same(shape[0], first[0]) for shape in shapes):
        return None
    merged = [step.steps.merged(x) if i in step.places else x for i, x in enumerate(step.operands)]
    results = step.again(*merged)
    return tuple(step.steps.parted(r, out.type) for r, out in zip(results, step.eqn.outputs, strict=True))


@vectorizes(ops.add_n)
def all_sequences(step: LiftedEqn) -> tuple[Any, ...] | None:
    """Ops whose operands must be of one shape."""
    return step.again(*map(step.sequence, range(len(step.operands))))


@vectorizes(ops.select)
def _select(step: LiftedEqn) -> tuple[Any, ...] | None:
    if step.rank(1) >= _WIDEST_BROADCAST and not _alike(step):
        return None
    condition, x, y = (_widened(step, i, step.rank(1)) for i in range(3))
    if step.rank(0) == 1 and step.rank(1) > 1:  # a vector chooses whole slices, which SELECT_V2 has no word for
        vector = step[0]
        for _ in range(step.rank(1) - 1):
            vector = ops.expand_dims(vector, len(vector.shape))
        condition = vector
    return (ops.select_v2(condition, x, y),)


@vectorizes(ops.fully_connected)
def _fully_connected(step: LiftedEqn) -> tuple[Any, ...] | None:
    if step.places != {0}:
        return None
    x, weights, *_ = step.operands
    width = weights.shape[1]
    if not step.eqn.params["keep_num_dims"] and (step.rank(0) != 2 or not same(x.shape[-1], width)):
        x = step.steps.reshaped(x, (*step.eqn.outputs[0].type.shape[:-1], width))
    return step.again(x, *step.operands[1:], keep_num_dims=True)


@vectorizes(ops.batch_matmul)
def _batch_matmul(step: LiftedEqn) -> tuple[Any, ...] | None:
    rank = max(step.rank(0), step.rank(1))
    return step.again(_widened(step, 0, rank), _widened(step, 1, rank))


@vectorizes(ops.softmax, ops.log_softmax, ops.zeros_like, ops.topk_v2)
def last_axis(step: LiftedEqn) -> tuple[Any, ...] | None:
    """Ops on the last axis, or on none, whatever stands before it."""
    return step.again(*step.operands) if step.places == {0} and step.rank(0) else None


@vectorizes(ops.reshape, ops.squeeze)
def _reshape(step: LiftedEqn) -> tuple[Any, ...] | None:
    return (step.steps.reshaped(step[0], step.eqn.outputs[0].type.shape),)


@vectorizes(ops.expand_dims)
def _expand_dims(step: LiftedEqn) -> tuple[Any, ...] | None:
    (axis,) = axes_from_front(step.static(1), step.rank(0) + 1)
    return (ops.expand_dims(step[0], axis + 1),)


@vectorizes(ops.transpose)
def _transpose(step: LiftedEqn) -> tuple[Any, ...] | None:
    return (ops.transpose(step[0], (0, *_moved(step, 0, 1))),)


@vectorizes(ops.reverse_v2)
def _reverse(step: LiftedEqn) -> tuple[Any, ...] | None:
    return (ops.reverse_v2(step[0], _moved(step, 0, 1)),)


@vectorizes(*REDUCTIONS, ops.cumsum)
def _along_axes(step: LiftedEqn) -> tuple[Any, ...] | None:
    """Ops with axes in operand 1."""
    axes = _moved(step, 0, 1)
    return step.again(step[0], axes if isinstance(step.static(1), tuple) else axes[0])


def _moved(step: LiftedEqn, data: int, static: int) -> tuple[int, ...]:
    """The axes named by an operand, where they are in the sequence."""
    return tuple(axis + 1 for axis in axes_from_front(step.static(static), step.rank(data)))


@vectorizes(ops.concatenation)
def _concatenation(step: LiftedEqn) -> tuple[Any, ...] | None:
    axis = from_front(step.eqn.params["axis"], step.rank(0)) + 1
    return step.again(*map(step.sequence, range(len(step.operands))), axis=axis)


@vectorizes(ops.pack)
def _pack(step: LiftedEqn) -> tuple[Any, ...] | None:
    axis = from_front(step.eqn.params["axis"], step.rank(0) + 1) + 1
    return step.again(*map(step.sequence, range(len(step.operands))), axis=axis)


@vectorizes(ops.unpack)
def _unpack(step: LiftedEqn) -> tuple[Any, ...] | None:
    return step.again(step[0], axis=from_front(step.eqn.params["axis"], step.rank(0)) + 1)


@vectorizes(ops.split)
def _split(step: LiftedEqn) -> tuple[Any, ...] | None:
    return step.again(*_moved(step, 1, 0), step[1])


@vectorizes(ops.split_v)
def _split_v(step: LiftedEqn) -> tuple[Any, ...] | None:
    return step.again(step[0], step.steps.tensor(step.static(1)), *_moved(step, 0, 2))


@vectorizes(ops.slice_)
def _slice(step: LiftedEqn) -> tuple[Any, ...] | None:
    begin, size = (step.steps.tensor((first, *step.static(i))) for i, first in ((1, 0), (2, -1)))
    return step.again(step[0], begin, size)


@vectorizes(ops.strided_slice)
def _strided_slice(step: LiftedEqn) -> tuple[Any, ...] | None:
    bounds = [step.steps.tensor((first, *step.static(i))) for i, first in ((1, 0), (2, 0), (3, 1))]
    masks = {name: mask << 1 for name, mask in step.eqn.params.items() if name.endswith("_mask")}
    masks |= {name: masks[name] | 1 for name in ("begin_mask", "end_mask")}
    return step.again(step[0], *bounds, **masks)


@vectorizes(ops.tile)
def _tile(step: LiftedEqn) -> tuple[Any, ...] | None:
    return step.again(step[0], step.steps.tensor((1, *step.static(1))))


@vectorizes(ops.broadcast_to)
def _broadcast_to(step: LiftedEqn) -> tuple[Any, ...] | None:
    shape = step.eqn.outputs[0].type.shape
    return step.again(_widened(step, 0, len(shape)), step.steps.tensor((step.steps.length, *shape)))


@vectorizes(ops.pad, ops.padv2, ops.mirror_pad)
def _pad(step: LiftedEqn) -> tuple[Any, ...] | None:
    if step.places != {0}:
        return None
    return step.again(step[0], ((0, 0), *step.static(1)), *step.operands[2:])


@vectorizes(ops.gather)
def _gather(step: LiftedEqn) -> tuple[Any, ...] | None:
    x, indices = step.operands
    axis, batch_dims = from_front(step.eqn.params["axis"], step.rank(0)), step.eqn.params["batch_dims"]
    batch_dims += step.rank(1) if batch_dims < 0 else 0
    if step.places == {0, 1}:
        return step.again(x, indices, axis=axis + 1, batch_dims=batch_dims + 1)
    if batch_dims:
        return None
    if step.places == {0}:
        return step.again(x, indices, axis=axis + 1)
    (gathered,) = step.again(x, indices)  # the steps stand where the indices do
    order = [axis, *(i for i in range(len(gathered.shape)) if i != axis)]
    return (ops.transpose(gathered, tuple(order)) if axis else gathered,)


@vectorizes(ops.embedding_lookup)
def _embedding_lookup(step: LiftedEqn) -> tuple[Any, ...] | None:
    ids, params = step.operands
    return (ops.gather(params, ids, axis=0),) if step.places == {0} else None


@vectorizes(ops.one_hot)
def _one_hot(step: LiftedEqn) -> tuple[Any, ...] | None:
    if step.places != {0}:
        return None
    axis = from_front(step.eqn.params["axis"], step.rank(0) + 1) + 1
    return step.again(step[0], step.static(1), *step.operands[2:], axis=axis)


vectorizes(ops.conv_2d, ops.depthwise_conv_2d, ops.max_pool_2d, ops.average_pool_2d)(rows_apart)


def vectorized(eqn: Eqn, operands: Sequence[Any], places: frozenset[int], steps: LoopSteps) -> tuple[Any, ...] | None:
    """The results of an equation for all steps, recorded in the active trace; None where they cannot be had at once.

    operands: sequences at `places`, elsewhere what is the same in all steps.
    """
    rule = _rule_of(eqn)
    if rule is None:
        return None
    try:
        results = rule(LiftedEqn(eqn, tuple(operands), places, steps))
    except JfuseError:  # the op does not take one more axis here, or a size is needed that no shape gives
        return None
    if results is None or active_trace().sizes:
        return None
    pairs = zip(eqn.outputs, results, strict=True)
    return results if all(is_same_type(steps.stacked(out.type), _type(r)) for out, r in pairs) else None


def can_vectorize(eqn: Eqn, places: frozenset[int], steps: LoopSteps) -> bool:
    """Whether `vectorized` can compute the equation for all steps at once. Nothing is recorded."""
    with recording():
        operands = [_stand_in(atom, i in places, steps) for i, atom in enumerate(eqn.inputs)]
        return vectorized(eqn, operands, places, steps) is not None


def data_operands(eqn: Eqn) -> dict[int, Atom]:
    """The operands whose data the op reads, by their places: not those that it takes by value."""
    op = eqn.op
    static = [op.operand_at(i).static for i in range(len(eqn.inputs))]
    return {i: atom for i, atom in enumerate(eqn.inputs) if atom is not None and not static[i]}


def _stand_in(atom: Atom | None, stepped: bool, steps: LoopSteps) -> Any:
    return Var(steps.stacked(atom.type)) if stepped and atom is not None else atom


def _type(value: Any) -> TensorType:
    return value.type if isinstance(value, Var) else TensorType(value.shape, DType.of(value.dtype))


def _rule_of(eqn: Eqn) -> Rule | None:
    rule = RULES.get(eqn.op)
    if rule is None and eqn.op.elementwise:
        return elementwise
    return rule
