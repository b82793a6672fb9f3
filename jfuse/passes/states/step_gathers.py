"""Where the steps of a sequence are after ops that pick elements by indices, or make rows of them."""

from __future__ import annotations

from typing import Any

from jfuse.ir.dims import Dim, is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.layout import from_front
from jfuse.passes.states.stepped import SteppedEqn, joined, steps_of
from jfuse.passes.states.steps import LAST, MIXED, CallValue, StepAxis, StepsMix, Value


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
