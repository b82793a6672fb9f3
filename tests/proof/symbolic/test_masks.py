"""Masked recurrences: proven where the counted steps come first, and never where they differ anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import jfuse
from jfuse.ir.dims import Dim
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.composites.recurrent import LstmWeights, masked_last_cell
from jfuse.lowering.composites.sequence import FROZEN, Steps, freezing
from jfuse.proof.samples import Padded
from jfuse.proof.symbolic.atoms import Atoms, MaskPadding
from jfuse.proof.symbolic.blocks import Picks, Stopped
from jfuse.proof.symbolic.forms import Form, Instance, Ref
from jfuse.proof.symbolic.masked import SATURATED
from jfuse.proof.symbolic.prover import Verdict, prove_symbolically
from jfuse.proof.symbolic.reader import Reader
from tests import cells
from tests.cells import BATCH, INPUTS, STEPS, UNITS, B, Loop, R, W, f32, gate

Kept = Callable[[Any, Any], Any]
"""From the state before a step and the new one to the state where the step does not count."""


def held(h: Any, new: Any) -> Any:
    """The state as it was."""
    return h


@dataclass(frozen=True)
class Masked:
    """A masked simple RNN and what replaces it; the defaults are right.

    side: on which the mask is promised to be padded, None for no promise. counts: its value where a step counts.
    kept: the state in the other steps. fill: what these steps give. mixes: rows read the states of others.
    initial: whether the lookup tells rows in which no step counts.
    """

    side: str | None = "right"
    rule_side: str = "right"
    counts: bool = True
    reverse: bool = False
    rule_reverse: bool | None = None
    kept: Kept = held
    fill: str = "held"
    mixes: bool = False
    initial: bool = True
    kernel: float = 1.0
    kind: DType = DType.bool
    batch: Dim = BATCH
    steps: Dim = STEPS

    def step(self, h: Any, x: Any, m: Any) -> tuple[Any, ...]:
        """A step of the body."""
        read = ops.reverse_v2(h, [0]) if self.mixes else h
        new, _ = cells.simple()(read, x)
        if self.kind is DType.f32:
            other = ops.sub(np.float32(1), m)
            h = ops.add(ops.mul(m, new), ops.mul(other, self.kept(h, new)))
            return h, h
        yes, no = (new, self.kept(h, new)) if self.counts else (self.kept(h, new), new)
        after = ops.select_v2(m, yes, no)
        return after, after if self.fill == "held" else ops.select_v2(m, new, np.zeros([1, UNITS], np.float32))

    def verdict(self) -> Verdict:
        """The prover's."""
        mask = TensorType((self.batch, 1), self.kind)
        state = f32(self.batch, UNITS)
        body = Loop(
            self.step,
            [state],
            xs=[f32(self.batch, INPUTS), mask],
            batch=self.batch,
            steps=self.steps,
            reverse=self.reverse,
        ).graph()
        replacement = trace_graph(self._fused, [v.type for v in body.inputs])
        padded = {} if self.side is None else {body.inputs[2]: Padded(0, self.side)}
        return prove_symbolically(body, replacement, padded=padded)

    def _fused(self, h: Any, x: Any, m: Any) -> Sequence[Any]:
        rule_reverse = self.reverse if self.rule_reverse is None else self.rule_reverse
        steps = Steps(x, rule_reverse, m, self.counts, self.rule_side)
        weights = [np.ascontiguousarray(gate(a, 0).T) for a in (W, self.kernel * R)]
        y, _ = ops.unidirectional_sequence_rnn(
            steps.x, *weights, gate(B, 0), h, time_major=True, fused_activation_function="TANH"
        )
        last, ys = steps.results(("h", "y_h"), y, h=h)
        if not self.initial:
            index = ops.maximum(ops.sub(steps.lengths, np.int32(1)), np.int32(0))
            rows = ops.gather(ops.transpose(y, [1, 0, 2]), ops.expand_dims(index, 1), axis=1, batch_dims=1)
            last = ops.squeeze(rows, squeeze_dims=(1,))
        return last, ys


RIGHT: dict[str, Masked] = {
    "open": Masked(),
    "reverse": Masked(side="left", rule_side="left", reverse=True),
    "left": Masked(side="left", rule_side="left"),
    "left_reverse": Masked(reverse=True),
    "left_negated": Masked(counts=False),
    "left_negated_reverse": Masked(side="left", rule_side="left", counts=False, reverse=True),
    "left_blend": Masked(side="left", rule_side="left", kind=DType.f32),
    "left_closed": Masked(side="left", rule_side="left", batch=2, steps=5),
    "left_one_row": Masked(side="left", rule_side="left", batch=1),
    "negated": Masked(side="left", rule_side="left", counts=False),
    "negated_reverse": Masked(side="right", counts=False, reverse=True),
    "blend": Masked(kind=DType.f32),
    "closed": Masked(batch=2, steps=5),
    "one_row": Masked(batch=1),
}

WRONG: dict[str, Masked] = {
    "no_promise": Masked(side=None),
    "other_side": Masked(side="left"),
    "order_of_rule": Masked(rule_reverse=True),
    "decays": Masked(kept=lambda h, new: ops.mul(h, np.float32(0.5))),
    "forgets": Masked(kept=lambda h, new: ops.mul(h, np.float32(0))),
    "goes_on": Masked(kept=lambda h, new: new),
    "zeros_between": Masked(fill="zeros"),
    "rows_mixed": Masked(mixes=True),
    "no_step_counts": Masked(initial=False),
    "other_weights": Masked(kernel=1.001),
    "blend_decays": Masked(kind=DType.f32, kept=lambda h, new: ops.mul(h, np.float32(0.5))),
}


WRONG |= {
    f"left_{name}": replace(WRONG[name], side="left", rule_side="left")
    for name in ("decays", "forgets", "goes_on", "zeros_between", "rows_mixed", "no_step_counts", "other_weights")
}
WRONG |= {
    "left_as_right": Masked(side="left", rule_side="right"),
    "right_as_left": Masked(side="right", rule_side="left"),
    "left_order_of_rule": Masked(side="left", rule_side="left", rule_reverse=True),
}


def masked_lstm(side: str, *, frozen: float = FROZEN, scale: float = 1.0, clip: float = 0.0) -> Verdict:
    """Of an LSTM whose last cell state is read; frozen: what enters the gates that hold it, where no step counts."""

    def step(h: Any, c: Any, x: Any, m: Any) -> tuple[Any, ...]:
        i, f, g, o = cells.sums(x, h)
        new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
        if clip:
            new_c = ops.minimum(ops.maximum(new_c, np.float32(-clip)), np.float32(clip))
        new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
        return ops.select_v2(m, new_h, h), ops.select_v2(m, new_c, c), ops.select_v2(m, new_h, h)

    xs = [f32(BATCH, INPUTS), TensorType((BATCH, 1), DType.bool)]
    body = Loop(step, [f32(BATCH, UNITS)] * 2, xs=xs).graph()

    def fused(h: Any, c: Any, x: Any, m: Any) -> Any:
        steps = Steps(x, False, m, True, side)
        columns = [freezing(np.ascontiguousarray(gate(W, k).T), to) for k, to in enumerate((0.0, 1.0, None, None))]
        columns = [np.where(np.abs(a) == FROZEN, np.sign(a) * np.float32(frozen), a) for a in columns]
        recurrent = [np.ascontiguousarray(scale * gate(R, k).T) for k in range(4)]
        operands = [*columns, *recurrent, *[None] * 3, *(gate(B, k) for k in range(4)), None, None, h, c, *[None] * 4]
        y, _, last_c = ops.unidirectional_sequence_lstm(
            steps.with_freeze(), *operands, time_major=True, fused_activation_function="TANH", cell_clip=clip
        )
        return steps.results(("h", "c", "y_h"), y, h=h, c=last_c)

    replacement = trace_graph(fused, [v.type for v in body.inputs])
    held = {v: np.zeros((1, UNITS), np.float32) for v in body.inputs[:2]} if clip else None
    return prove_symbolically(body, replacement, held, {body.inputs[3]: Padded(0, side)})


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("clip", [0.0, 2.0])
def test_a_last_cell_state_is_held_under_a_condition(side: str, clip: float) -> None:
    verdict = masked_lstm(side, clip=clip)
    assert verdict.is_proven, verdict.stopped
    assert SATURATED in verdict.assumptions


@pytest.mark.parametrize("change", [{"frozen": 10.0}, {"frozen": -FROZEN}, {"scale": 1.001}], ids=str)
def test_a_cell_state_that_is_not_held_is_not_proven(change: dict[str, float]) -> None:
    assert not masked_lstm("right", **change).is_proven


def normed_lstm(*, scale: float = 1.0, clip: float = 0.0, rule_clip: float = 0.0, batch: Dim = BATCH) -> Verdict:
    """Of a masked LSTM with layer norms, whose last cell state is that of a second operator."""

    def step(h: Any, c: Any, x: Any, m: Any) -> tuple[Any, ...]:
        norms = [cells.written_norm(z, *of, 1e-8) for z, of in zip(products(x, h), ends, strict=True)]
        new_h, new_c = cells.update(norms, c)
        if clip:
            new_c = ops.minimum(ops.maximum(new_c, np.float32(-clip)), np.float32(clip))
            new_h = ops.mul(ops.logistic(norms[3]), ops.tanh(new_c))
        return ops.select_v2(m, new_h, h), ops.select_v2(m, new_c, c), ops.select_v2(m, new_h, h)

    def products(x: Any, h: Any) -> Any:
        return ops.split(1, ops.add(cells.dense(x, W), cells.dense(h, R)), num_splits=4)

    ends = list(zip(cells.SCALES, cells.SHIFTS, strict=True))
    xs = [f32(batch, INPUTS), TensorType((batch, 1), DType.bool)]
    body = Loop(step, [f32(batch, UNITS)] * 2, xs=xs, batch=batch).graph()
    constants = {
        f"{name}_{kind}": array
        for k, name in enumerate(("input", "forget", "cell", "output"))
        for kind, array in {
            "weights": np.ascontiguousarray(gate(W, k).T),
            "recurrent": np.ascontiguousarray(gate(R, k).T) * np.float32(scale),
            "bias": cells.SHIFTS[k],
            "norm": cells.SCALES[k],
        }.items()
    }
    weights = LstmWeights(**constants)
    options = {"fused_activation_function": "TANH", "cell_clip": rule_clip}

    def fused(h: Any, c: Any, x: Any, m: Any) -> Any:
        steps = Steps(x, False, m, True, "right")
        gates = [*weights.of_gates("weights"), *weights.of_gates("recurrent"), *[None] * 3, *weights.of_gates("bias")]
        y, *_ = ops.unidirectional_sequence_lstm(
            steps.x, *gates, None, None, h, c, *weights.of_gates("norm"), time_major=True, **options
        )
        return steps.results(("h", "c", "y_h"), y, h=h, c=masked_last_cell(steps, weights, y, h, c, options))

    replacement = trace_graph(fused, [v.type for v in body.inputs])
    held = {v: np.zeros((1, UNITS), np.float32) for v in body.inputs[:2]} if clip else None
    return prove_symbolically(body, replacement, held, {body.inputs[3]: Padded(0, "right")})


@pytest.mark.parametrize("options", [{}, {"clip": 0.5, "rule_clip": 0.5}, {"batch": 3}], ids=str)
def test_a_last_cell_state_behind_layer_norms_is_proven(options: dict[str, Any]) -> None:
    verdict = normed_lstm(**options)
    assert verdict.is_proven, verdict.stopped
    assert SATURATED in verdict.assumptions


@pytest.mark.parametrize("options", [{"scale": 1.001}, {"clip": 0.5}, {"clip": 0.5, "rule_clip": 0.6}], ids=str)
def test_another_cell_state_behind_layer_norms_is_not_proven(options: dict[str, float]) -> None:
    assert not normed_lstm(**options).is_proven


def test_a_state_of_many_units_that_starts_from_zeros_is_proven() -> None:
    """Zero biases and states leave rows of nothing but rounding."""
    units = 64
    source = keras.Input((None, units))
    states = keras.layers.LSTM(units, return_state=True)(keras.layers.Masking()(source))
    (fusion,) = jfuse.convert(
        keras.Model(source, states), forms=jfuse.Forms(padding="right"), verify=False
    ).report.fused
    assert fusion.proof == "proven", fusion.stopped


@pytest.mark.parametrize("name", RIGHT)
def test_counted_steps_that_come_first_are_proven(name: str) -> None:
    verdict = RIGHT[name].verdict()
    assert verdict.is_proven, verdict.stopped
    assert any(condition.startswith("the mask") for condition in verdict.assumptions)


@pytest.mark.parametrize("name", WRONG)
def test_what_differs_somewhere_is_not_proven(name: str) -> None:
    assert not WRONG[name].verdict().is_proven


def test_a_lookup_in_another_order_or_that_clamps_is_not_known() -> None:
    """With as many rows as units nothing else tells the transposed result."""
    (result,) = looked_up(1, "promise_in_bounds")
    assert not result.is_constant
    for offset, mode in ((0, "promise_in_bounds"), (1, "clip"), (1, "fill")):
        with pytest.raises(Stopped):
            looked_up(offset, mode)


def looked_up(offset: int, mode: str) -> list[Form]:
    """The last counted step of x f[4,5,4], its units along that axis of the result."""
    numbers = jax.lax.GatherDimensionNumbers((offset,), (0, 1), (0, 1))

    def function(x: Any, mask: Any) -> Any:
        last = jnp.maximum(jnp.sum(mask, axis=0, dtype=np.int32) - np.int32(1), np.int32(0))
        index = jax.lax.concatenate([jnp.arange(4, dtype=np.int32)[:, None], last[:, None]], 1)
        return jax.lax.gather(x, index, numbers, (1, 1, 4), mode=mode)

    types = [jax.ShapeDtypeStruct((4, 5, 4), np.float32), jax.ShapeDtypeStruct((5, 4), np.bool_)]
    atoms = Atoms()
    x, mask = atoms.fresh("x", 4, 2), atoms.fresh("mask", 1, 2, is_bool=True)
    atoms.padded[mask], atoms.ramps = MaskPadding(0, "right", 5), frozenset({4})
    rows, steps, here = ((4, True),), ((5, True),), (Ref("axis", 0), Ref("axis", 1))
    forms = [
        Form((rows, steps, ((4, False),)), {Instance(x, here): Picks(np.arange(4), np.ones(4))}, np.zeros(4)),
        Form((steps, rows), {Instance(mask, here): Picks(np.zeros(1, int), np.ones(1))}, np.zeros(1)),
    ]
    return Reader(atoms).run(jax.make_jaxpr(function)(*types), forms)
