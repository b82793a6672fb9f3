"""Rules for streaming: for each kind of op the axis of its result that holds the steps, or why it mixes steps.

A rule is for an equation of which some operand has steps. It gives where the result has them, and raises `StepsMix`
where a step of the result is computed from steps that a piece need not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Eqn, Op
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.passes.states.steps import LAST, MIXED, Once, Steps, StepsMix, Value, reshaped

CAUSAL = 'pad on the left alone, by what the window reaches back: padding="causal" of Keras'


@dataclass(frozen=True)
class Stepped:
    """An equation, and what its operands have to do with the sequence.

    meets: called with an operand that has a row for each step, though it does not depend on the sequence, and the axis.
    is_read: whether anything reads a result, by its position.
    """

    eqn: Eqn
    values: tuple[Value, ...]
    meets: Callable[[Atom, int], None]
    is_read: Callable[[int], bool]

    def atom(self, place: int) -> Atom:
        """The operand at a position, where the op has one in any case."""
        atom = self.eqn.inputs[place]
        assert atom is not None, "asked for an operand that is there"
        return atom

    def shape(self, place: int = 0) -> tuple[Dim, ...]:
        """The shape of the operand at a position, the first by default."""
        return self.atom(place).type.shape

    @property
    def result(self) -> tuple[Dim, ...]:
        """The shape of the first result."""
        return self.eqn.outputs[0].type.shape

    def static(self, place: int) -> Any:
        """The value of an operand, an int or nested tuples; None where it is not known."""
        atom = self.eqn.inputs[place] if place < len(self.eqn.inputs) else None
        return None if atom is None else static_value(atom)

    def only(self, place: int = 0) -> Steps:
        """The steps of an operand, where no other one has any to do with the sequence."""
        steps = self.values[place]
        if not isinstance(steps, Steps) or any(v is not None for i, v in enumerate(self.data) if i != place):
            raise StepsMix("it takes steps where the op has its parameters")
        return steps

    @property
    def data(self) -> tuple[Value, ...]:
        """The values of the operands, None for operands that only give sizes or axes."""
        op = self.eqn.op
        static = [isinstance(op, TflOp) and op.operand_at(i).static for i in range(len(self.values))]
        return tuple(None if s else v for v, s in zip(self.values, static, strict=True))


StepRule: TypeAlias = Callable[[Stepped], Value]
_TABLE: dict[Op, StepRule] = {}
STEP_RULES: Mapping[Op, StepRule] = MappingProxyType(_TABLE)
"""The rules by op."""


def follows_steps(*kinds: Op) -> Callable[[StepRule], StepRule]:
    """Register the decorated function for equations of these ops."""

    def register(rule: StepRule) -> StepRule:
        _TABLE.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def joined(stepped: Stepped, places: Sequence[tuple[int, int]], rank: int) -> Steps:
    """The steps of operands that an op combines place by place.

    places: of each such operand, its position and where its first axis is in the result, of that rank.
    """
    found = [(i, v.at(v.axis + shift)) for i, shift in places if isinstance(v := stepped.values[i], Steps)]
    steps = found[0][1]
    for _, other in found[1:]:
        if not _is_alike(steps, other):
            raise StepsMix("it combines steps with other steps of the sequence", steps)
    for i, shift in places:
        value, axis = stepped.values[i], steps.axis - shift
        if isinstance(value, Once) and not (value == LAST and steps.is_single):
            raise StepsMix(f"it combines every step with {value.kind} of the piece", steps)
        if value is None and 0 <= axis < len(shape := stepped.shape(i)) and same(shape[axis], 1) is not True:
            stepped.meets(stepped.atom(i), axis)
    return steps


def _is_alike(steps: Steps, other: Steps) -> bool:
    sizes = [(steps.length, other.length), (steps.outer, other.outer), (steps.inner, other.inner)]
    facts = [(s.axis, s.before, s.forwards) for s in (steps, other)]
    return facts[0] == facts[1] and all(same(d, e) is not False for d, e in sizes)


def elementwise(stepped: Stepped) -> Value:
    """Each element of the result from the elements at the same place."""
    rank = len(stepped.result)
    ranks = [(i, a.type.rank) for i, a in enumerate(stepped.eqn.inputs) if a is not None]
    # SELECT takes a vector for a choice among the first axis.
    is_vector = stepped.eqn.op is ops.select and len(stepped.shape(0)) == 1
    return joined(stepped, [(i, 0 if is_vector and i == 0 else rank - r) for i, r in ranks], rank)


@follows_steps(ops.zeros_like, ops.quantize, ops.dequantize)
def unchanged(stepped: Stepped) -> Value:
    """Ops whose result has the places of the first operand."""
    return stepped.only()


@follows_steps(ops.reshape)
def _reshape(stepped: Stepped) -> Value:
    steps = stepped.only()
    found = reshaped(steps, stepped.shape(), stepped.result)
    if found is not None:
        return found
    # Windows beside each other: the first dimension that holds some of the steps is what goes on from call to call.
    for axis in range(1, len(stepped.result)):
        if all(same(d, e) for d, e in zip(stepped.shape()[: steps.axis], stepped.result[:axis], strict=False)):
            at = min(steps.axis, len(stepped.result) - 1)
            raise StepsMix("it cuts the steps into groups", Steps(at, stepped.result[at], forwards=steps.forwards))
    raise StepsMix("it cuts the steps into groups")


@follows_steps(ops.expand_dims)
def _expand_dims(stepped: Stepped) -> Value:
    steps = stepped.only()
    (axis,) = axes_from_front(_known(stepped, 1), len(stepped.result))
    return steps.at(steps.axis + (axis <= steps.axis))


@follows_steps(ops.squeeze)
def _squeeze(stepped: Stepped) -> Value:
    steps, shape = stepped.only(), stepped.shape()
    given = stepped.eqn.params["squeeze_dims"]
    axes = axes_from_front(tuple(given), len(shape)) if given else [i for i, d in enumerate(shape) if same(d, 1)]
    if steps.axis in axes:
        return reshaped(steps, shape, stepped.result) or LAST  # of a single step, one element
    return steps.at(steps.axis - sum(axis < steps.axis for axis in axes))


@follows_steps(ops.transpose)
def _transpose(stepped: Stepped) -> Value:
    steps, order = stepped.only(), stepped.static(1)
    if order is None:
        raise StepsMix("the order of its axes is not known")
    return steps.at(axes_from_front(tuple(order), len(order)).index(steps.axis))


@follows_steps(ops.fully_connected)
def _fully_connected(stepped: Stepped) -> Value:
    steps, rows = stepped.only(), stepped.shape()[:-1]
    if steps.axis == len(rows):
        raise StepsMix("it adds up products over the steps")
    found = reshaped(steps, rows, stepped.result[:-1])
    if found is None:
        raise StepsMix("it cuts the steps into groups")
    return found


@follows_steps(ops.batch_matmul)
def _batch_matmul(stepped: Stepped) -> Value:
    rank, params = len(stepped.result), stepped.eqn.params
    found: list[Steps] = []
    summed = False
    for place, adjoint in ((0, params["adj_x"]), (1, params["adj_y"])):
        value, last = stepped.values[place], len(stepped.shape(place)) - 1
        if not isinstance(value, Steps):
            continue
        kept_axis = (last - 1 if place == 0 else last) if not adjoint else (last if place == 0 else last - 1)
        if value.axis >= last - 1 and value.axis != kept_axis:
            summed = True
        else:
            out = rank - 2 + place if value.axis == kept_axis else value.axis + rank - 1 - last
            found.append(value.at(out))
    if summed:
        raise StepsMix("it adds up products over the steps", found[0] if found else MIXED)
    if len(found) == 2 and not (_is_alike(*found) and found[0].axis < rank - 2):
        raise StepsMix("it multiplies every step with every other step", found[0])
    if any(isinstance(v, Once) for v in stepped.values) and not found[0].is_single:
        raise StepsMix("it multiplies every step with what a call has once from its piece", found[0])
    for place in (0, 1):
        axis = found[0].axis - (rank - len(stepped.shape(place)))
        if stepped.values[place] is None and found[0].axis < rank - 2 and axis >= 0:
            if same(stepped.shape(place)[axis], 1) is not True:
                stepped.meets(stepped.atom(place), axis)
    return found[0]


@follows_steps(
    ops.sum_, ops.mean, ops.reduce_prod, ops.reduce_max, ops.reduce_min, ops.reduce_any, ops.reduce_all,
    ops.arg_max, ops.arg_min,
)  # fmt: skip
def _reduction(stepped: Stepped) -> Value:
    steps, axes = stepped.only(), stepped.static(1)
    if axes is None:
        raise StepsMix("its axes are known only at run time")
    reduced = axes_from_front(axes, len(stepped.shape()))
    if steps.axis in reduced and not (steps.is_single and steps.stands_alone):
        raise StepsMix("it reduces over the steps")
    if len(stepped.result) == len(stepped.shape()):
        return steps
    return LAST if steps.axis in reduced else steps.at(steps.axis - sum(axis < steps.axis for axis in reduced))


@follows_steps(ops.softmax, ops.log_softmax, ops.l2_normalization, ops.local_response_normalization, ops.topk_v2)
def _along_the_last_axis(stepped: Stepped) -> Value:
    steps = stepped.only()
    if steps.axis == len(stepped.shape()) - 1:
        raise StepsMix("it works across the steps", steps)
    return steps


@follows_steps(ops.cumsum)
def _along_an_axis(stepped: Stepped) -> Value:
    steps = stepped.only()
    if steps.axis in axes_from_front(_known(stepped, 1), len(stepped.shape())):
        raise StepsMix("it adds up the steps of the piece, and not those before", steps)
    return steps


def _known(stepped: Stepped, operand: int) -> Any:
    """The value of an operand that names axes."""
    value = stepped.static(operand)
    if value is None:
        raise StepsMix("the axes that it is about are not known")
    return value


@follows_steps(ops.reverse_v2)
def _reverse(stepped: Stepped) -> Value:
    steps = stepped.only()
    if steps.axis not in axes_from_front(_known(stepped, 1), len(stepped.shape())):
        return steps
    return turned(steps)


def turned(steps: Steps) -> Steps:
    """The steps in the other order."""
    if not steps.stands_alone or steps.before:
        raise StepsMix("it reverses steps together with others", steps)
    return replace(steps, forwards=not steps.forwards)


@follows_steps(ops.reverse_sequence)
def _reverse_sequence(stepped: Stepped) -> Value:
    steps = stepped.only()
    if steps.axis == from_front(stepped.eqn.params["seq_dim"], len(stepped.shape())):
        raise StepsMix("it reverses the steps of each row from its own end", steps)
    return steps


@follows_steps(ops.concatenation)
def _concatenation(stepped: Stepped) -> Value:
    rank = len(stepped.result)
    steps = joined(stepped, [(i, 0) for i in range(len(stepped.values))], rank)
    if steps.axis == from_front(stepped.eqn.params["axis"], rank):
        raise StepsMix("it puts steps behind others", steps.at(steps.axis, stepped.result[steps.axis]))
    return steps


@follows_steps(ops.pack)
def _pack(stepped: Stepped) -> Value:
    rank = len(stepped.result)
    steps = joined(stepped, [(i, 0) for i in range(len(stepped.values))], rank - 1)
    return steps.at(steps.axis + (from_front(stepped.eqn.params["axis"], rank) <= steps.axis))


@follows_steps(ops.unpack)
def _unpack(stepped: Stepped) -> Value:
    steps = stepped.only()
    axis = from_front(stepped.eqn.params["axis"], len(stepped.shape()))
    if axis != steps.axis:
        return steps.at(steps.axis - (axis < steps.axis))
    return _parts(stepped, steps)


@follows_steps(ops.split, ops.split_v)
def _split(stepped: Stepped) -> Value:
    data, axis = (1, 0) if stepped.eqn.op is ops.split else (0, 2)
    steps = stepped.only(data)
    if steps.axis not in axes_from_front(_known(stepped, axis), len(stepped.shape(data))):
        return steps
    return _parts(stepped, steps)


def _parts(stepped: Stepped, steps: Steps) -> Value:
    """Parts of the steps, of which the last one alone may be read: the last steps of the piece."""
    count = len(stepped.eqn.outputs)
    if count == 1 and len(stepped.result) == len(stepped.shape(0)):
        return steps
    last = stepped.eqn.outputs[-1].type.shape
    width = 1 if stepped.eqn.op is ops.unpack else last[steps.axis]
    if steps.forwards and not any(map(stepped.is_read, range(count - 1))) and is_window(steps, width):
        return LAST
    raise StepsMix("it takes single steps out of the piece")


def is_window(steps: Steps, width: Dim) -> bool:
    """Whether every piece has that many of its last steps, whatever its length."""
    return steps.stands_alone and is_known(width) and width <= steps.before + 1


@follows_steps(ops.gather)
def _gather(stepped: Stepped) -> Value:
    x, indices = stepped.values
    rank, params = len(stepped.shape()), stepped.eqn.params
    axis, batch_dims = from_front(params["axis"], rank), params["batch_dims"]
    batch_dims += len(stepped.shape(1)) if batch_dims < 0 else 0
    places = len(stepped.shape(1)) - batch_dims
    if isinstance(x, Steps) and isinstance(indices, Steps):
        if x.axis < batch_dims:
            return joined(stepped, [(0, 0), (1, 0)], rank)
        raise StepsMix("it picks steps by what is computed for each step", indices.at(indices.axis + axis - batch_dims))
    if isinstance(indices, Steps):
        if isinstance(x, Once):
            raise StepsMix(f"it picks for each step from {x.kind} of the piece")
        return indices if indices.axis < batch_dims else indices.at(indices.axis + axis - batch_dims)
    assert isinstance(x, Steps), "one operand has steps"
    if x.axis != axis:
        if indices is not None:
            raise StepsMix("it picks by what a call has once from its piece", x)
        return x.at(x.axis + (places - 1 if x.axis > axis else 0))
    index = stepped.static(1)
    if places == 0 and index is not None:
        return _picked(x, stepped.shape()[axis], index)
    raise StepsMix("it picks steps by their positions", Steps(axis, stepped.result[axis]) if places else MIXED)


def _picked(steps: Steps, size: Dim, index: Any) -> Value:
    """One step, by its position."""
    if steps.is_single and steps.stands_alone:
        return LAST
    from_end = size - index if same(index, 0) or not is_known(index) or index > 0 else -index
    if steps.stands_alone and (same(from_end, 1) if steps.forwards else same(index, 0)):
        return LAST
    raise StepsMix("it takes one step other than the last")


@follows_steps(ops.gather_nd)
def _gather_nd(stepped: Stepped) -> Value:
    steps = stepped.only(1)
    if steps.axis == len(stepped.shape(1)) - 1:
        raise StepsMix("it takes steps for a position")
    return steps


@follows_steps(ops.embedding_lookup)
def _embedding_lookup(stepped: Stepped) -> Value:
    return stepped.only()


@follows_steps(ops.one_hot)
def _one_hot(stepped: Stepped) -> Value:
    steps = stepped.only()
    return steps.at(steps.axis + (from_front(stepped.eqn.params["axis"], len(stepped.result)) <= steps.axis))


@follows_steps(ops.tile)
def _tile(stepped: Stepped) -> Value:
    steps, times = stepped.only(), stepped.static(1)
    if times is None or same(times[steps.axis], 1) is not True:
        raise StepsMix("it repeats the steps", steps.at(steps.axis, stepped.result[steps.axis]))
    return steps


@follows_steps(ops.broadcast_to)
def _broadcast_to(stepped: Stepped) -> Value:
    steps = stepped.only()
    return steps.at(steps.axis + len(stepped.result) - len(stepped.shape()))


@follows_steps(ops.rfft2d, ops.matrix_diag, ops.matrix_set_diag)
def _matrices(stepped: Stepped) -> Value:
    steps = stepped.only()
    if steps.axis >= len(stepped.shape()) - 2:
        raise StepsMix("it works across the steps", steps if len(stepped.result) == len(stepped.shape()) else MIXED)
    return steps


@follows_steps(
    ops.resize_bilinear, ops.resize_nearest_neighbor, ops.space_to_depth, ops.depth_to_space, ops.space_to_batch_nd,
    ops.batch_to_space_nd,
)  # fmt: skip
def _images(stepped: Stepped) -> Value:
    steps = stepped.only()
    if steps.axis or same(stepped.result[0], stepped.shape()[0]) is not True:
        raise StepsMix("it works across the steps", replace(steps, length=stepped.result[steps.axis]))
    return steps


@follows_steps(ops.transpose_conv)
def _transpose_conv(stepped: Stepped) -> Value:
    steps = stepped.only(2)
    if steps.axis:
        raise StepsMix("it spreads a step over others", replace(steps, length=stepped.result[steps.axis]))
    return steps
