"""States that are packed into one tensor, carried apart."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array
from jfuse.passes.scans.fission.unpack import unpack_states
from jfuse.running.runner import Runner
from tests.cells import BATCH, INPUTS, UNITS, Loop, f32, keras


def concatenated(state: Array, x: Array) -> tuple[Array, ...]:
    h, c = ops.split(1, state, num_splits=2)
    new_h, new_c, y = keras(h, c, x)
    return ops.concatenation(new_h, new_c, axis=1), y


def packed(state: Array, x: Array) -> tuple[Array, ...]:
    h, c = ops.unpack(state, axis=0)
    new_h, new_c, y = keras(h, c, x)
    return ops.pack(new_h, new_c, axis=0), y


def shift_register(memory: Array, x: Array) -> tuple[Array, ...]:
    """The last steps: read as a whole, for they are moved by one."""
    kept = ops.strided_slice(memory, [0, INPUTS], [0, 0], [1, 1], begin_mask=1, end_mask=3)
    return ops.concatenation(kept, x, axis=1), ops.sum_(memory, [1], keep_dims=True)


LOOPS = {
    "concatenated": Loop(concatenated, carries=[f32(BATCH, 2 * UNITS)]),
    "packed": Loop(packed, carries=[f32(2, BATCH, UNITS)]),
}


def carries(graph: Graph) -> int:
    (eqn,) = [e for e in graph.eqns if e.op is scan]
    count: int = eqn.params["carries"]
    return count


@pytest.mark.parametrize("name", LOOPS)
def test_packed_states_are_carried_apart(name: str) -> None:
    graph = LOOPS[name].graph()
    result = unpack_states(graph)
    check_graph(result, types=True)
    assert carries(result) == 2
    random = np.random.default_rng(0)
    state = random.standard_normal((2, 3, UNITS) if name == "packed" else (3, 2 * UNITS)).astype(np.float32)
    args = [state, random.standard_normal((5, 3, INPUTS)).astype(np.float32)]
    for found, wanted in zip(Runner(result, quick=True)(args), Runner(graph, quick=True)(args), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)  # f32, 5 steps


def test_a_state_that_is_read_as_a_whole_stays() -> None:
    graph = Loop(shift_register, carries=[f32(BATCH, 3 * INPUTS)]).graph()
    assert unpack_states(graph) is graph


def test_states_apart_stay_as_they_are() -> None:
    graph = Loop(keras).graph()
    assert unpack_states(graph) is graph


def test_parts_of_a_filled_state_are_filled() -> None:
    graph = LOOPS["concatenated"].graph()
    (eqn,) = graph.eqns

    def model(x: Array) -> Array:
        rows = ops.pack(ops.squeeze(ops.strided_slice(ops.shape(x), [1], [2], [1])), np.int32(2 * UNITS))
        return scan([ops.fill(rows, np.float32(0)), x], eqn.bodies, **eqn.params)[1]

    result = unpack_states(trace_graph(model, [graph.inputs[1].type]))
    (found,) = [e for e in result.eqns if e.op is scan]
    makers = {out: e.op for e in result.eqns for out in e.outputs}
    assert [makers[a] for a in found.inputs[:2] if isinstance(a, Var)] == [ops.fill, ops.fill]
