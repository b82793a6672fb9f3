"""Windows over the steps of a sequence: convolutions, pooling, slices and padding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jfuse.ir.dims import Dim, is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.math.reduce import REDUCTIONS
from jfuse.passes.states.stepped import CAUSAL, SteppedEqn, is_alike, is_window, joined, known_axes, steps_of, turned
from jfuse.passes.states.steps import LAST, MIXED, CallValue, StepAxis, StepsMix, Value, reshaped


@dataclass(frozen=True)
class _Window:
    """The window of an op along one axis: `size` elements, `dilation` apart, every `stride`-th time."""

    size: Dim
    stride: int
    dilation: int
    padding: str

    def over(self, steps: StepAxis, result: Dim) -> StepAxis:
        """The steps of the result, which has that size along the axis."""
        reach = (self.size - 1) * self.dilation
        left = replace(steps, length=result)
        if same(reach, 0) is True and self.stride == 1:
            return left
        if not steps.stands_alone:
            raise StepsMix("its windows mix steps with rows of the batch", left)
        if self.stride != 1:
            raise StepsMix(f"it takes one step in {self.stride}, counted from the start of each piece", left)
        if not is_known(reach) or self.padding != "VALID":
            raise StepsMix("its windows reach steps that come later", left, CAUSAL)
        if not steps.forwards:
            raise StepsMix("its windows reach over steps in reverse", left)
        if steps.before < reach:
            raise StepsMix(f"its windows are {reach + 1} steps long, and the piece alone has them", left, CAUSAL)
        return replace(left, before=steps.before - reach)


@steps_of(ops.conv_2d, ops.depthwise_conv_2d, ops.conv_3d)
@steps_of(ops.average_pool_2d, ops.max_pool_2d, ops.l2_pool_2d)
def _windows(stepped: SteppedEqn) -> Value:
    steps, params = stepped.only(), stepped.eqn.params
    letters = "dhw"[5 - len(stepped.shape()) :]
    if steps.axis == 0:
        return steps
    if steps.axis > len(letters):
        raise StepsMix("it adds up products over the steps")
    letter = letters[steps.axis - 1]
    if stepped.eqn.op.product == "windows":  # filters of images have their channels first
        size = stepped.shape(1)[steps.axis - (len(letters) == 3)]
    else:
        size = params["filter_height" if letter == "h" else "filter_width"]
    window = _Window(
        size,
        params[f"stride_{letter}"],
        params.get(f"dilation_{letter}_factor", 1),
        params["padding"],
    )
    return window.over(steps, stepped.result[steps.axis])


@steps_of(ops.slice_)
def _slice(stepped: SteppedEqn) -> Value:
    steps, begins, sizes = stepped.only(), stepped.static(1), stepped.static(2)
    if begins is None or sizes is None:
        return _unsure(stepped, steps)
    begin, size = begins[steps.axis], sizes[steps.axis]
    whole = stepped.shape()[steps.axis]
    return _cut(steps, whole, begin, whole if same(size, -1) else begin + size, stepped.result[steps.axis])


@steps_of(ops.strided_slice)
def _strided_slice(stepped: SteppedEqn) -> Value:
    steps, params = stepped.only(), stepped.eqn.params
    begins, ends, strides = (stepped.static(i) for i in (1, 2, 3))
    shrunk = [i for i in range(len(stepped.shape())) if params["shrink_axis_mask"] >> i & 1]
    moved = steps.at(steps.axis - sum(i < steps.axis for i in shrunk))
    axis, bit = steps.axis, 1 << steps.axis
    if params["ellipsis_mask"] or params["new_axis_mask"]:
        raise StepsMix("it has an ellipsis or a new axis")
    if strides is None or axis >= len(strides):
        return moved if strides is not None else _unsure(stepped, steps)
    whole, stride = stepped.shape()[axis], strides[axis]
    begin = None if params["begin_mask"] & bit else _entry(begins, axis)
    end = None if params["end_mask"] & bit else _entry(ends, axis)
    if axis in shrunk:
        return _taken(steps, whole, 0 if begin is None else begin)
    if stride == -1 and begin is None and end is None:
        return turned(moved)
    if stride != 1:
        raise StepsMix(f"it takes one step in {stride}", moved.at(moved.axis, stepped.result[moved.axis]))
    if params["offset"] and end is not None:
        end = begin + end
    first = 0 if begin is None else _from_front(begin, whole)
    last = whole if end is None else _from_front(end, whole)
    return _cut(moved, whole, first, last, stepped.result[moved.axis])


def _entry(bounds: Any, axis: int) -> Any:
    if bounds is None:
        raise StepsMix("its bounds are known only at run time")
    return bounds[axis]


def _from_front(bound: Any, whole: Dim) -> Any:
    return whole + bound if is_known(bound) and bound < 0 else bound


def _unsure(stepped: SteppedEqn, steps: StepAxis) -> Value:
    if len(stepped.result) == len(stepped.shape()) and same(stepped.result[steps.axis], steps.length):
        return steps
    raise StepsMix("its bounds are known only at run time")


def _taken(steps: StepAxis, whole: Dim, index: Any) -> Value:
    """One step, whose axis is gone."""
    from_end = whole - _from_front(index, whole)
    if steps.stands_alone and (steps.is_single or same(from_end if steps.forwards else index + 1, 1) is True):
        return LAST
    raise StepsMix("it takes one step other than the last")


def _cut(steps: StepAxis, whole: Dim, first: Any, last: Any, left: Dim) -> Value:
    """The steps from `first` up to `last`. Steps that other calls have again may be left out."""
    if same(left, whole) is True:
        return steps
    short = whole - left
    if steps.stands_alone and steps.forwards:
        if is_known(short) and short <= steps.before:
            return replace(steps, length=left, before=steps.before - int(short))
        if same(last, whole) is True and is_window(steps, left):
            return LAST
    raise StepsMix("it takes a part of the steps of each piece", replace(steps, length=left))


@steps_of(ops.pad, ops.padv2, ops.mirror_pad)
def _pad(stepped: SteppedEqn) -> Value:
    """Padding of other axes; of the steps it needs a buffer, which `added_before` finds."""
    steps, amounts = stepped.only(), stepped.static(1)
    if amounts is None:
        raise StepsMix("what it pads is known only at run time")
    if all(same(n, 0) is True for n in amounts[steps.axis]):
        return steps
    raise StepsMix("it pads the steps of each piece", steps.at(steps.axis, stepped.result[steps.axis]), CAUSAL)


# Where the steps of a sequence are after ops that compute: elementwise, products, reductions and works along axes.


def elementwise(stepped: SteppedEqn) -> Value:
    """Each element of the result from the elements at the same place."""
    rank = len(stepped.result)
    ranks = [(i, a.type.rank) for i, a in enumerate(stepped.eqn.inputs) if a is not None]
    # SELECT takes a vector for a choice among the first axis.
    is_vector = stepped.eqn.op is ops.select and len(stepped.shape(0)) == 1
    return joined(stepped, [(i, 0 if is_vector and i == 0 else rank - r) for i, r in ranks], rank)


@steps_of(ops.fully_connected)
def _fully_connected(stepped: SteppedEqn) -> Value:
    steps, rows = stepped.only(), stepped.shape()[:-1]
    if steps.axis == len(rows):
        raise StepsMix("it adds up products over the steps")
    steps_after = reshaped(steps, rows, stepped.result[:-1])
    if steps_after is None:
        raise StepsMix("it cuts the steps into groups")
    return steps_after


@steps_of(ops.batch_matmul)
def _batch_matmul(stepped: SteppedEqn) -> Value:
    rank, params = len(stepped.result), stepped.eqn.params
    axes: list[StepAxis] = []
    summed = False
    for place, adjoint in ((0, params["adj_x"]), (1, params["adj_y"])):
        value, last = stepped.values[place], len(stepped.shape(place)) - 1
        if not isinstance(value, StepAxis):
            continue
        kept_axis = (last - 1 if place == 0 else last) if not adjoint else (last if place == 0 else last - 1)
        if value.axis >= last - 1 and value.axis != kept_axis:
            summed = True
        else:
            out = rank - 2 + place if value.axis == kept_axis else value.axis + rank - 1 - last
            axes.append(value.at(out))
    if summed:
        raise StepsMix("it adds up products over the steps", axes[0] if axes else MIXED)
    if len(axes) == 2 and not (is_alike(*axes) and axes[0].axis < rank - 2):
        raise StepsMix("it multiplies every step with every other step", axes[0])
    if any(isinstance(v, CallValue) for v in stepped.values) and not axes[0].is_single:
        raise StepsMix("it multiplies every step with a value that a call computes once from its piece", axes[0])
    for place in (0, 1):
        axis = axes[0].axis - (rank - len(stepped.shape(place)))
        if stepped.values[place] is None and axes[0].axis < rank - 2 and axis >= 0:
            if same(stepped.shape(place)[axis], 1) is not True:
                stepped.meets(stepped.atom(place), axis)
    return axes[0]


@steps_of(ops.transpose_conv)
def _transpose_conv(stepped: SteppedEqn) -> Value:
    steps = stepped.only(2)
    if steps.axis:
        raise StepsMix("it spreads a step over others", replace(steps, length=stepped.result[steps.axis]))
    return steps


@steps_of(*REDUCTIONS)
def _reduction(stepped: SteppedEqn) -> Value:
    steps, axes = stepped.only(), stepped.static(1)
    if axes is None:
        raise StepsMix("its axes are known only at run time")
    reduced = axes_from_front(axes, len(stepped.shape()))
    if steps.axis in reduced and not (steps.is_single and steps.stands_alone):
        raise StepsMix("it reduces over the steps")
    if len(stepped.result) == len(stepped.shape()):
        return steps
    return LAST if steps.axis in reduced else steps.at(steps.axis - sum(axis < steps.axis for axis in reduced))


@steps_of(ops.softmax, ops.log_softmax, ops.l2_normalization, ops.local_response_normalization, ops.topk_v2)
def _along_the_last_axis(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    if steps.axis == len(stepped.shape()) - 1:
        raise StepsMix("it works across the steps", steps)
    return steps


@steps_of(ops.cumsum)
def _along_an_axis(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    if steps.axis in axes_from_front(known_axes(stepped, 1), len(stepped.shape())):
        raise StepsMix("it adds up the steps of the piece, and not those before", steps)
    return steps


@steps_of(ops.rfft2d, ops.matrix_diag, ops.matrix_set_diag)
def _matrices(stepped: SteppedEqn) -> Value:
    steps = stepped.only()
    if steps.axis >= len(stepped.shape()) - 2:
        raise StepsMix("it works across the steps", steps if len(stepped.result) == len(stepped.shape()) else MIXED)
    return steps
