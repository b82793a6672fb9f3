"""Recovers simple RNNs from scans: one state, an activation of an affine value of state and step input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.base.errors import NotFused
from jfuse.ir.graph import Var
from jfuse.ir.types import DType
from jfuse.lowering.recover.algebra.activations import entering_of
from jfuse.lowering.recover.algebra.expressions import Expr, Leaf, terms_of, text_of
from jfuse.lowering.recover.algebra.view import refuse_other_switches
from jfuse.lowering.recover.algebra.weights import RecoveredGate, gate_of, need_products, single
from jfuse.lowering.recover.cells.step import Step, step_input
from jfuse.lowering.rules import Proposal, need, recovers

_NEXT = "h' = act(W x + R h + b)"
# The op multiplies whole matrices. With more products a step than this, and most of them by 0, the loop is faster: it
# takes about 3 µs a step however few they are.
_MOST_PRODUCTS = 32 * 1024
_SPARSE = 0.25
_BOUNDED = ("TANH", "SIGMOID", "RELU6", "RELU_N1_TO_1")  # of which no state is infinite


@recovers("jfuse.rnn")
def recover_rnn(step: Step) -> Proposal:
    """A scan as a simple RNN.

    Operands x and h; weights, recurrent and bias; attributes: `reverse`; `activation` by TFLite's name; `results`: for
    each result of the scan "h" (the last state) or "y" (h of every step).
    """
    states = [v for v in step.carries if v.type.dtype.is_float and v.type.rank == 2]
    need(states, "not_rnn", want=f"a state: {_NEXT}", got=[str(v.type) for v in step.carries], near=-1)
    x = step_input(step.xs)
    after = dict(zip(step.carries, step.next_carries, strict=True))
    h = next((s for s in states if s in step.dependence.inputs_behind([after[s]])), states[0])
    expr = step.view.read(after[h])
    entering = entering_of(expr)
    if entering is None:
        near = 1 if len(states) == 1 else -1
        raise NotFused("not_rnn", want=_NEXT, got=f"h' = {text_of(terms_of(expr))}", near=near)
    # A residual connection has this form as well.
    need(not step.one_step or entering.function != "NONE", "not_rnn", want=_NEXT, got="no activation")
    need(h.type.dtype is DType.f32, "state_dtype", want="f32", got=str(h.type), near=2)
    _check_inputs(step, entering.operand, x, h)
    results = _results(step, h)
    refuse_other_switches(step.body, [(step.view, expr)])
    assert isinstance(entering.operand, Leaf)
    gate = gate_of(entering, step.view.forms([entering.operand], (x, h)), x, h, ())
    if step.one_step:
        need_products([gate.weights], [gate.recurrent])
    _refuse_elementwise(step, gate, (x, h), entering.function)
    _refuse_sparse(gate)
    attributes = {"results": results, "reverse": step.eqn.params["reverse"], "activation": entering.function}
    constants = {"weights": gate.weights, "recurrent": gate.recurrent, "bias": gate.bias}
    return Proposal(
        operands={"x": step.place(x), "h": step.place(h)},
        constants={name: single(array) for name, array in constants.items()},
        attributes=attributes,
    )


def _check_inputs(step: Step, operand: Expr, x: Var, h: Var) -> None:
    """Refuse what is not affine in the step input and h."""
    if not isinstance(operand, Leaf):
        raise NotFused("nonlinear_gate", want="an activation of W x + R h + b", got=text_of(terms_of(operand)), near=2)
    inputs = step.view.behind(operand)
    varying = [str(v.type) for v in step.consts if v in inputs]
    need(not varying, "varying_constant", want="constant weights", got=varying, near=3)
    others = sorted(str(v.type) for v in inputs - {x, h})
    need(not others, "extra_carry", want="an activation of W x + R h + b", got=others, near=3)


def _results(step: Step, h: Var) -> tuple[str, ...]:
    outputs, read = step.body.outputs, step.view.reader.read
    new = outputs[step.carries.index(h)]
    for i, atom in enumerate(outputs):
        same = atom.type == new.type and read(atom) == read(new)
        if i < len(step.carries):
            need(same, "extra_carry", want="h or a copy of it", got=f"a carried {atom.type} that is not", near=4)
        else:
            need(same, "output_is_h", want="h of every step", got=atom.type, near=4)
    carried = len(step.carries)
    return tuple("h" if i < carried else "y" for i in range(len(outputs)))


def _refuse_elementwise(step: Step, gate: RecoveredGate, sources: tuple[Var, Var], activation: str) -> None:
    """Refuse a recurrence element by element where an infinite one would meet the zeros of the op's matrices: NaN."""
    spread_x, spread_h = (
        bool((matrix == 0).any()) and not _is_multiplied(step, source)
        for matrix, source in zip((gate.weights, gate.recurrent), sources, strict=True)
    )
    finite = not spread_h or (activation in _BOUNDED and not spread_x)
    need(
        finite, "elementwise_recurrence", want="a product with the state", got="a recurrence of single elements", near=4
    )


def _is_multiplied(step: Step, source: Var) -> bool:
    """Whether the step multiplies an input with a matrix."""
    products = (e for e in step.body.eqns if e.op.product == "matrices")
    return any(source in step.dependence.inputs_behind(a for a in e.inputs if a is not None) for e in products)


def _refuse_sparse(gate: RecoveredGate) -> None:
    matrices: Sequence[np.ndarray] = (gate.weights, gate.recurrent)
    products = sum(m.size for m in matrices)
    needed = sum(int(np.count_nonzero(m)) for m in matrices)
    dense = products <= _MOST_PRODUCTS or needed > _SPARSE * products
    got = f"{needed} of {products} weights that are not 0"
    need(dense, "sparse_recurrence", want="matrices that are mostly not 0, or small ones", got=got, near=4)
