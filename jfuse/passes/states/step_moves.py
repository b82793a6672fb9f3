"""Where the steps of a sequence are after ops that move, repeat or join elements without computing any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jfuse.ir.dims import Dim, is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.passes.states.stepped import SteppedEqn, is_window, joined, known_axes, steps_of, turned
from jfuse.passes.states.steps import LAST, MIXED, CallValue, StepAxis, StepsMix, Value, reshaped


@steps_of(ops.zeros_like, ops.quantize, ops.dequantize)
def unchanged(stepped: SteppedEqn) -> Value:
    """Ops whose result has the places of the first operand."""
    return stepped.only()


@steps_of(ops.reshape)
def _reshape(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    steps_after = reshaped(steps, stepped.shape(), stepped.result)
    if steps_after is not None:
        return steps_after
    # Windows beside each other: the first dimension that holds some of the steps is what goes on from call to call.
    for axis in range(1, len(stepped.result)):
        if all(same(d, e) for d, e in zip(stepped.shape()[: steps.axis], stepped.result[:axis], strict=False)):
            at = min(steps.axis, len(stepped.result) - 1)
            raise StepsMix("it cuts the steps into groups", StepAxis(at, stepped.result[at], forwards=steps.forwards))
    raise StepsMix("it cuts the steps into groups")


@steps_of(ops.expand_dims)
def _expand_dims(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    (axis,) = axes_from_front(known_axes(stepped, 1), len(stepped.result))
    return steps.at(steps.axis + (axis <= steps.axis))


@steps_of(ops.squeeze)
def _squeeze(stepped: SteppedEqn) -> Value:
    steps, shape = stepped.only(), stepped.shape()
    dims = stepped.eqn.params["squeeze_dims"]
    axes = axes_from_front(tuple(dims), len(shape)) if dims else [i for i, d in enumerate(shape) if same(d, 1)]
    if steps.axis in axes:
        return reshaped(steps, shape, stepped.result) or LAST  # of a single step, one element
    return steps.at(steps.axis - sum(axis < steps.axis for axis in axes))


@steps_of(ops.transpose)
def _transpose(stepped: SteppedEqn) -> Value:
    steps, order = stepped.only(), stepped.static(1)
    if order is None:
        raise StepsMix("the order of its axes is not known")
    return steps.at(axes_from_front(tuple(order), len(order)).index(steps.axis))


@steps_of(ops.reverse_v2)
def _reverse(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    if steps.axis not in axes_from_front(known_axes(stepped, 1), len(stepped.shape())):
        return steps
    return turned(steps)


@steps_of(ops.reverse_sequence)
def _reverse_sequence(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    if steps.axis == from_front(stepped.eqn.params["seq_dim"], len(stepped.shape())):
        raise StepsMix("it reverses the steps of each row from its own end", steps)
    return steps


@steps_of(ops.concatenation)
def _concatenation(stepped: SteppedEqn) -> Value:
    rank = len(stepped.result)
    steps = joined(stepped, [(i, 0) for i in range(len(stepped.values))], rank)
    if steps.axis == from_front(stepped.eqn.params["axis"], rank):
        raise StepsMix("it puts steps behind others", steps.at(steps.axis, stepped.result[steps.axis]))
    return steps


@steps_of(ops.pack)
def _pack(stepped: SteppedEqn) -> Value:
    rank = len(stepped.result)
    steps = joined(stepped, [(i, 0) for i in range(len(stepped.values))], rank - 1)
    return steps.at(steps.axis + (from_front(stepped.eqn.params["axis"], rank) <= steps.axis))


@steps_of(ops.unpack)
def _unpack(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    axis = from_front(stepped.eqn.params["axis"], len(stepped.shape()))
    if axis != steps.axis:
        return steps.at(steps.axis - (axis < steps.axis))
    return _parts(stepped, steps)


@steps_of(ops.split, ops.split_v)
def _split(stepped: SteppedEqn) -> Value:
    data, axis = (1, 0) if stepped.eqn.op is ops.split else (0, 2)
    steps = stepped.only(data)
    if steps.axis not in axes_from_front(known_axes(stepped, axis), len(stepped.shape(data))):
        return steps
    return _parts(stepped, steps)


def _parts(stepped: SteppedEqn, steps: StepAxis) -> Value:
    """Parts of the steps: only the last part may be read, which has the last steps of the piece."""
    count = len(stepped.eqn.outputs)
    if count == 1 and len(stepped.result) == len(stepped.shape(0)):
        return steps
    last = stepped.eqn.outputs[-1].type.shape
    width = 1 if stepped.eqn.op is ops.unpack else last[steps.axis]
    if steps.forwards and not any(map(stepped.is_read, range(count - 1))) and is_window(steps, width):
        return LAST
    raise StepsMix("it takes single steps out of the piece")


@steps_of(ops.tile)
def _tile(stepped: SteppedEqn) -> Value:
    steps, times = stepped.only(), stepped.static(1)
    if times is None or same(times[steps.axis], 1) is not True:
        raise StepsMix("it repeats the steps", steps.at(steps.axis, stepped.result[steps.axis]))
    return steps


@steps_of(ops.broadcast_to)
def _broadcast_to(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    return steps.at(steps.axis + len(stepped.result) - len(stepped.shape()))


@steps_of(ops.resize_bilinear, ops.resize_nearest_neighbor, ops.space_to_depth, ops.depth_to_space)
@steps_of(ops.space_to_batch_nd, ops.batch_to_space_nd)
def _images(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    if steps.axis or same(stepped.result[0], stepped.shape()[0]) is not True:
        raise StepsMix("it works across the steps", replace(steps, length=stepped.result[steps.axis]))
    return steps


# Where the steps of a sequence are after ops that pick elements by indices, or make rows of them.


@steps_of(ops.gather)
def _gather(stepped: SteppedEqn) -> Value:
    x, indices = stepped.values
    rank, params = len(stepped.shape()), stepped.eqn.params
    axis, batch_dims = from_front(params["axis"], rank), params["batch_dims"]
    batch_dims += len(stepped.shape(1)) if batch_dims < 0 else 0
    places = len(stepped.shape(1)) - batch_dims
    if isinstance(x, StepAxis) and isinstance(indices, StepAxis):
        if x.axis < batch_dims:
            return joined(stepped, [(0, 0), (1, 0)], rank)
        raise StepsMix("it picks steps by what is computed for each step", indices.at(indices.axis + axis - batch_dims))
    if isinstance(indices, StepAxis):
        if isinstance(x, CallValue):
            raise StepsMix(f"it picks for each step from {x.kind} of the piece")
        return indices if indices.axis < batch_dims else indices.at(indices.axis + axis - batch_dims)
    assert isinstance(x, StepAxis), "one operand has steps"
    if x.axis != axis:
        if indices is not None:
            raise StepsMix("it picks by a value that a call computes once from its piece", x)
        return x.at(x.axis + (places - 1 if x.axis > axis else 0))
    index = stepped.static(1)
    if places == 0 and index is not None:
        return _picked(x, stepped.shape()[axis], index)
    raise StepsMix("it picks steps by their positions", StepAxis(axis, stepped.result[axis]) if places else MIXED)


def _picked(steps: StepAxis, size: Dim, index: Any) -> Value:
    """One step, by its position."""
    if steps.is_single and steps.stands_alone:
        return LAST
    from_end = size - index if same(index, 0) or not is_known(index) or index > 0 else -index
    if steps.stands_alone and (same(from_end, 1) if steps.forwards else same(index, 0)):
        return LAST
    raise StepsMix("it takes one step other than the last")


@steps_of(ops.gather_nd)
def _gather_nd(stepped: SteppedEqn) -> Value:
    steps = stepped.only(1)
    if steps.axis == len(stepped.shape(1)) - 1:
        raise StepsMix("it takes steps for a position")
    return steps


@steps_of(ops.embedding_lookup)
def _embedding_lookup(stepped: SteppedEqn) -> Value:
    return stepped.only()


@steps_of(ops.one_hot)
def _one_hot(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    return steps.at(steps.axis + (from_front(stepped.eqn.params["axis"], len(stepped.result)) <= steps.axis))
