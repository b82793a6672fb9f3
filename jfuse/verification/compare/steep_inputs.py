"""Edge inputs at which the reference itself changes as much as the difference, if they are rounded otherwise.

Or where values tie in a loop, as all paths of a beam search do on zeros: no value before a choice in it can be given to
the other side, as `Ties` does; but beside such inputs nothing ties, and both sides agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

from jfuse.base.errors import KernelFailed, NoEnd, VerifyFailed
from jfuse.base.measure import relative_error
from jfuse.ir.graph import Graph, Signature
from jfuse.ir.walk import all_eqns
from jfuse.proof.inputs import LONGER, CallInputs
from jfuse.verification.compare.wrong import WrongOutput, measured
from jfuse.verification.inputs.redraw import Manners, Redraw
from jfuse.verification.subject import Arrays, Calls, Subject, outputs_and_states

_NUDGE = 2.0**-22  # two roundings of an f32
_ASIDE = 2.0**-10
"""Input change that breaks ties: above the rounding error of some hundred loop steps, for numbers of about 1."""
_TIMES = 4


def is_steep(reference: Subject, subjects: Sequence[Subject], step: CallInputs, wrong: Sequence[WrongOutput]) -> bool:
    """Whether the reference itself changes as much if its inputs are rounded otherwise.

    Or one side takes denormals for 0: a runner may flush them. The wrong output is then right for zeros in their place.
    """
    try:
        plain, moved = (_answers(reference, step, change) for change in (lambda array: array, _moved))
        flushed = _answers(reference, step, _flushed) if any(map(_has_denormals, step.inputs.values())) else {}
    except VerifyFailed:
        return False
    return all(
        w.output in plain
        and (
            4 * relative_error(moved[w.output], plain[w.output]) >= w.measure.relative
            or (w.output in flushed and np.array_equal(flushed[w.output], plain[w.output]))
            or (w.output in flushed and _takes_for_zeros(subjects, step, w, flushed[w.output]))
        )
        for w in wrong
    )


def _takes_for_zeros(subjects: Sequence[Subject], step: CallInputs, wrong: WrongOutput, wanted: np.ndarray) -> bool:
    """Whether a subject answers zeros in place of denormals as it answers these, and as the reference answers zeros."""
    if wrong.place < 0:
        return False
    output = np.asarray(_answers(subjects[wrong.place], step, _flushed)[wrong.output])
    return np.array_equal(output, wrong.found) and not _apart(output, wanted, wrong)


def _answers(reference: Subject, step: CallInputs, change: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    return reference.start().run({name: change(array) for name, array in step.inputs.items()}, step.key)


def _flushed(array: np.ndarray) -> np.ndarray:
    """The array with zeros for denormals, as TensorFlow's threads read them."""
    return np.where(_denormals(array), np.zeros((), array.dtype), array)


def _has_denormals(array: np.ndarray) -> bool:
    return bool(_denormals(array).any())


def _denormals(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return np.zeros(array.shape, bool)
    tiny = float(ml_dtypes.finfo(array.dtype).tiny)  # type: ignore[no-untyped-call]
    return np.asarray((array != 0) & (np.abs(array) < tiny))


def _moved(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return array
    signs = np.random.default_rng(0).choice((-1.0, 1.0), array.shape)
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(np.float64) * (1 - _NUDGE * (1.5 + 0.5 * signs))).astype(array.dtype)


def ties_in_loops(
    graph: Graph, reference: Subject, subjects: Sequence[Subject], step: CallInputs, wrong: Sequence[WrongOutput]
) -> bool:
    """Whether values tie in a loop at these inputs: all sides agree at slightly moved inputs, each time.

    There the reference must answer something else than at the inputs themselves: where it does not, nothing tied, and
    what differs is wrong. Of loops only those that pick the greatest of several are asked: one that compares with a
    constant may mean that very number.   wrong: of first calls
    """
    inner = (e for eqn in graph.eqns for body in eqn.bodies for e in all_eqns(body))
    if not any(e.op.chooses for e in inner) or any(w.place < 0 for w in wrong):
        return False
    numbers = {w.place for w in wrong}
    moves = False
    for seed in range(_TIMES):
        inputs = {name: _aside(array, seed) for name, array in step.inputs.items()}
        try:
            expected = reference.start().run(inputs, step.key)
        except VerifyFailed:
            return False
        answers = {place: outputs_and_states(subjects[place].start(), inputs, step.key) for place in numbers}
        if any(_apart(answers[w.place][w.output], expected[w.output], w) for w in wrong):
            return False
        moves |= any(_apart(expected[w.output], w.wanted, w) for w in wrong)
    return moves


def _apart(found: np.ndarray, wanted: np.ndarray, like: WrongOutput) -> bool:
    return measured(found, wanted, like.tolerance).relative > like.tolerance.value


def _aside(array: np.ndarray, seed: int) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return array
    wide = array.astype(np.float64)
    by = np.random.default_rng(seed).uniform(-_ASIDE, _ASIDE, array.shape) * np.maximum(np.abs(wide), 1.0)
    return np.asarray(wide + by).astype(array.dtype)


# Calls of the reference on inputs that it takes: on the drawn ones, or on others where it refuses them.


def accepted(
    step: CallInputs, calls: Calls, redraw: Redraw, signatures: Mapping[str, Signature], *, resets: bool
) -> tuple[CallInputs, Arrays]:
    """The call with inputs that the reference takes, and its outputs: those drawn, or others where it refuses them.

    Inputs of edges get other integers and texts only in the manner in which random ones were taken.
    resets: go back to the initial states before each other try, as a call may have written variables before it fails.
    """
    if step.kind == "given":
        return step, calls.run(step.inputs, step.key)
    signature = signatures[step.key]
    step = replace(step, inputs=redraw.as_needed(signature, step.inputs))
    drawn = redraw.as_kept(step.key, step.inputs) if step.kind in ("random", LONGER) else step.inputs
    try:
        outputs = calls.run(drawn, step.key)
    except (KernelFailed, NoEnd):
        raise
    except VerifyFailed as refused:
        replacement = _others(step, calls, redraw, signature, str(refused.found), resets)
        if replacement is None:
            raise
        return replacement
    if step.kind == "random" and step.key not in redraw.kept and not signature.states and _has_nan(outputs):
        # A factor of a matrix that is not definite is NaN, beside what happened to be in memory.
        replacement = _taken(step, calls, redraw, redraw.definite(signature, step.inputs), numbers=True)
        if replacement is not None:
            return replacement
    return replace(step, inputs=drawn), outputs


def _others(
    step: CallInputs, calls: Calls, redraw: Redraw, signature: Signature, message: str, resets: bool
) -> tuple[CallInputs, Arrays] | None:
    """The first of other inputs that the reference takes, and its outputs."""
    tried = redraw.others(signature, step.inputs, message)
    if step.kind != "random":
        kept = redraw.kept.get(step.key, {})
        exact = {n: m for n, m in kept.items() if m.axes or step.inputs[n].dtype.kind not in "fcV"}
        tried = iter([(exact, redraw.changed(step.inputs, exact))] if exact else [])
    return _taken(step, calls, redraw, tried, resets=resets)


def _taken(
    step: CallInputs,
    calls: Calls,
    redraw: Redraw,
    tried: Iterable[tuple[Manners, Arrays]],
    *,
    resets: bool = False,
    numbers: bool = False,
) -> tuple[CallInputs, Arrays] | None:
    """The first inputs of those tried that the reference takes, and its outputs.   numbers: none of them NaN"""
    for manners, inputs in tried:
        if resets:
            calls.reset()
        try:
            outputs = calls.run(inputs, step.key)
        except (KernelFailed, NoEnd):
            raise
        except VerifyFailed:
            continue
        if numbers and _has_nan(outputs):
            continue
        if step.kind == "random":
            redraw.kept[step.key] = manners
        return replace(step, inputs=inputs), outputs
    return None


def _has_nan(outputs: Arrays) -> bool:
    return any(a.dtype.kind in "fcV" and bool(np.isnan(a).any()) for a in outputs.values())
