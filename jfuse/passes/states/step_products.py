"""Where the steps of a sequence are after ops that compute: elementwise, products, reductions and works along axes."""

from __future__ import annotations

from dataclasses import replace

from jfuse.ir.dims import same
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.math.reduce import REDUCTIONS
from jfuse.passes.states.stepped import SteppedEqn, is_alike, joined, known_axes, steps_of
from jfuse.passes.states.steps import LAST, MIXED, CallValue, StepAxis, StepsMix, Value, reshaped


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
