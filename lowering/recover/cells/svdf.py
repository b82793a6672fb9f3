"""Recovers SVDF from single steps: feature filters with a memory of their last results, time filters over it."""

from __future__ import annotations

import numpy as np

from jfuse.ir.graph import Var
from jfuse.ir.types import DType
from jfuse.lowering.recover.algebra.activations import entering_of
from jfuse.lowering.recover.algebra.expressions import Expr, Leaf, terms_of, text_of
from jfuse.lowering.recover.algebra.view import BodyView, refuse_other_switches
from jfuse.lowering.recover.algebra.weights import columns_of, need_products, single
from jfuse.lowering.recover.cells.step import Step, step_input
from jfuse.lowering.rules import Proposal, need, recovers

_NEXT = "a state that moves by one place and takes the products of the input with the filters"
_OUTPUT = "y = act(the sum over the state, weighed for each filter, + b)"


@recovers("jfuse.svdf")
def recover_svdf(step: Step) -> Proposal:
    """A single step as SVDF.

    Operands x and state; constants feature_weights, time_weights, bias where there is one, and `order`, the places in
    the state of each filter's results, oldest first; attributes: rank, activation, results.
    """
    need(step.one_step, "single_step", want="one step: TFLite has no SVDF over sequences", near=-3)
    fits = len(step.carries) == len(step.ys) == 1 and step.carries[0].type.rank == 2
    need(fits, "not_svdf", want="one state and one output", near=-2)
    x, (state,), (after,) = step_input(step.xs), step.carries, step.next_carries
    need(state.type.dtype is DType.f32, "state_dtype", want="f32", got=str(state.type))
    # The next state is affine in state and x. The matrix of the state must only move places along chains, one chain
    # for each filter; the matrix of x fills the newest place of each chain and holds the feature weights.
    leaf = step.view.read(after)
    moved, taken = _moves(step.view, leaf, state, x)
    chains = _chains(moved)
    need(chains, "not_svdf", want=_NEXT, got="a state that moves otherwise", near=1)
    new = step.view.reader.origin(after)
    assert isinstance(new, Var), "what depends on a state is no constant"
    # With the new state cut out as an input, the output is an activation of an affine function of it: its matrix has
    # the time weights.
    view, cut_input = step.view.cut(new, state.type)
    expr = view.read(view.body.outputs[1])
    time, bias, activation = _time_filters(view, expr, cut_input)
    refuse_other_switches(step.body, [(view, expr)])
    units = [_unit(time[chain]) for chain in chains]
    outputs = time.shape[1]
    even = all(units.count(u) * outputs == len(chains) for u in range(outputs))
    need(even, "not_svdf", want="as many filters for each output", got=units, near=2)
    need_products([taken], [time])
    ordered = [chains[i] for i in np.argsort(units, kind="stable")]
    constants = {
        "feature_weights": taken[:, [chain[-1] for chain in ordered]].T,
        "time_weights": np.stack([time[chain, _unit(time[chain])] for chain in ordered]),
    }
    constants |= {"bias": bias} if bias.any() else {}
    return Proposal(
        operands={"x": step.place(x), "state": step.place(state)},
        constants={n: single(a) for n, a in constants.items()} | {"order": np.concatenate(ordered).astype(np.int32)},
        attributes={"results": ("state", "y"), "rank": len(chains) // outputs, "activation": activation},
    )


def _moves(view: BodyView, leaf: Expr, state: Var, x: Var) -> tuple[np.ndarray, np.ndarray]:
    """The matrices from the state and from x to the next state."""
    need(isinstance(leaf, Leaf), "not_svdf", want=_NEXT, got=f"state' = {text_of(terms_of(leaf))}", near=0)
    assert isinstance(leaf, Leaf)
    need(view.behind(leaf) == {state, x}, "not_svdf", want=_NEXT, got="a state of something else", near=0)
    form = view.forms([leaf], (state, x))[leaf.var]
    columns = columns_of(leaf, form.bias.size)
    need(not form.bias[columns].any(), "not_svdf", want=_NEXT, got="a bias in the state", near=1)
    return form.matrices[state][:, columns], form.matrices[x][:, columns]


def _chains(moved: np.ndarray) -> list[list[int]]:
    """The places of each filter's results, oldest first; none where they do not move by one place in rows of a length.

    moved: f64[s,s], 1 where a place gets the value of another one, or nothing where it gets a new one.
    """
    sources = [np.flatnonzero(column) for column in moved.T]
    if any(len(s) > 1 or (moved[s, j] != 1).any() for j, s in enumerate(sources)):
        return []
    later = {int(s[0]): j for j, s in enumerate(sources) if len(s)}
    chains = []
    for newest in (j for j, s in enumerate(sources) if not len(s)):
        chain = [newest]
        while chain[-1] in later and len(chain) <= len(sources):
            chain.append(later[chain[-1]])
        chains.append(chain[::-1])
    lengths = {len(chain) for chain in chains}
    return chains if len(lengths) == 1 and sum(map(len, chains)) == len(sources) else []


def _time_filters(view: BodyView, expr: Expr, state: Var) -> tuple[np.ndarray, np.ndarray, str]:
    """The matrix from the new state to the output, the bias and the activation."""
    entering = entering_of(expr)
    leaf = None if entering is None else entering.operand
    need(isinstance(leaf, Leaf), "not_svdf", want=_OUTPUT, got=f"y = {text_of(terms_of(expr))}", near=1)
    assert isinstance(leaf, Leaf)
    assert entering is not None
    need(view.behind(leaf) == {state}, "not_svdf", want=_OUTPUT, got="an output of something else", near=1)
    form = view.forms([leaf], [state])[leaf.var]
    columns = columns_of(leaf, form.bias.size)
    scale = entering.scale
    return scale * form.matrices[state][:, columns], scale * form.bias[columns], entering.function


def _unit(weights: np.ndarray) -> int:
    """The output that a filter is for.   weights: f64[memory, outputs]"""
    used = np.flatnonzero(weights.any(0))
    need(len(used) == 1, "not_svdf", want="filters for one output each", got=used.tolist(), near=2)
    return int(used[0])
