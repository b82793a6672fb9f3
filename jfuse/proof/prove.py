"""The prover: whether a replacement computes what a composite's body computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError, NotFused
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import is_known, symbols_of
from jfuse.ir.evaluate import evaluate, large_constants, shared_program, with_constants
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.text import format_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, substitute_graph, with_float
from jfuse.kernels.control import BodyOp, scan
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.rule_tools.case_distinctions import place_of
from jfuse.lowering.rules import need
from jfuse.proof.by_equation import agree, largest_difference, runs_by_equation, works_on_bytes
from jfuse.proof.distinctions import refuse_new_cases, refuse_unchecked_indices, refuse_unexplained
from jfuse.proof.error_of_samples import agrees, largest_error
from jfuse.proof.limits import WatchedLimits, all_limits, limits_of, stated_limits, watched, without
from jfuse.proof.samples import Case, Padded, Sampler, open_shapes
from jfuse.proof.symbolic.domains import LOST
from jfuse.proof.symbolic.prover import NOT_TRIED, Verdict, prove_symbolically

# In f64, relative to the largest element of an output: what computes the same differs by about 1e-15, what only
# resembles it by 0.1 and more. Constants that were folded into each other and rounded to f32 (a forget gate's `+ 1`)
# would differ by 1e-7: `fuse` proves those unrounded (passes/rounding.py).
TOLERANCE = 1e-9
# What constants of the source differ by from what they stand for: 0.70710677 from the root of 1/2 within a fused GELU.
# Less than two roundings of f32, so no f32 file could show it.
ROUNDED = 1e-7
_SAMPLES = 64  # of each case
_LEAST_MEASURED, _MEASURED = 8, 64  # where a proof says that all are equal
_ROWS = 2  # of an open batch, there
_FEW = 3  # where a case is long
_LONGEST, _LONG, _MIDDLE, _LEAST = 259, 67, 17, 5  # steps, where their number is open
_MOST_PRODUCTS = 2**25  # weights times steps times samples, for one row
_MOST_MEASURED = 2**20  # the same, where a proof says that all are equal
_SHORT = (1, 3)  # steps at which a longer recurrence is compared as well


@dataclass(frozen=True)
class Proof:
    """How many samples agreed, the largest relative error among them, and whether it holds for all inputs.

    nan_for_infinities: where an input is infinite the replacement gives NaN in more places than the body.
    """

    samples: int
    error: float
    nan_for_infinities: bool = False
    verdict: Verdict = NOT_TRIED


@dataclass(frozen=True)
class KnownOperands:
    """Operands whose values or forms are known before the run.

    constants: the value of each operand, None where it is known at run time only (all, if the sequence is empty).
    padded: by position, masks that have no gaps. held: by position, constants that are broadcast to the operand's open
    sizes, such as the initial states of an open batch.
    """

    constants: Sequence[np.ndarray | None] = ()
    padded: Mapping[int, Padded] = field(default_factory=dict)
    held: Mapping[int, np.ndarray] = field(default_factory=dict)


NOTHING_KNOWN = KnownOperands()


def prove(
    body: Graph,
    replacement: Graph,
    known: KnownOperands = NOTHING_KNOWN,
    claims: Iterable[str] = (),
    *,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    for_all: bool = False,
) -> Proof:
    """Compare two graphs that take the same operands and give the same results; raises NotFused where they differ.

    Both run in f64 on XLA; equation by equation where results are as long as data decide. A few hundred samples settle
    analytic functions; so every case distinction in the body must be claimed, or made by the replacement as well. Sizes
    that are open are tried at 1, 2 and 5, whose rows have nothing to do with each other: a body that mixes rows differs
    from an op that does not.

    claims: families of case distinction that the replacement is known to make.
    Some samples hold infinities. Where the body is not NaN there, the replacement must give the same. Recurrent ops
    over sequences are excepted: they multiply by whole matrices, where an infinity times 0 is NaN, and an infinity in
    a masked step outweighs the column of the mask. The report says so.

    for_all: look for a proof that holds for all inputs first; samples measure the error then, and few are enough.
    tolerance: the largest error relative to the largest element of an output; `TOLERANCE` or `ROUNDED`.
    """
    constants = tuple(known.constants) or (None,) * len(body.inputs)
    masks = {body.inputs[place]: of for place, of in known.padded.items()}
    held = {body.inputs[place]: value for place, value in known.held.items()}
    body, replacement = _bound(body, constants), _bound(replacement, constants)
    # First the cheap reasons to refuse: ops that cannot run, states, and case distinctions that samples could miss.
    if works_on_bytes(replacement):
        refuse_unexplained(body, replacement, claims)
        return Proof(agree(body, replacement, seed), 0.0)
    by_equation = runs_by_equation(body, replacement)
    of_body, of_replacement = (None if by_equation else _unrunnable(graph) for graph in (body, replacement))
    need(of_body is None, "body_not_executable", want="ops that XLA runs", got=of_body)
    need(of_replacement is None, "replacement_not_executable", want="ops that XLA runs", got=of_replacement)
    stateful = next((e for graph in (body, replacement) for e in all_eqns(graph) if e.effects), None)
    need(stateful is None, "stateful_body", want="no variables", got=stateful and place_of(stateful))
    refuse_unexplained(body, replacement, claims)
    refuse_unchecked_indices(body, replacement)
    sampler = Sampler.of(body, replacement, padded=masks, held=held)
    if by_equation:
        return Proof(*largest_difference(body, replacement, sampler, tolerance, seed, largest_error))
    # Then a proof for all inputs. Samples follow in any case: they measure the error in floats, and without a proof
    # they are all that there is.
    verdict = NOT_TRIED
    if for_all:
        verdict = prove_symbolically(body, replacement, held, masks, rounded=tolerance == ROUNDED)
    pair = _Pair.of(body, replacement, tolerance, is_masked=bool(masks))
    if verdict.is_proven:
        measured = _measured(pair, sampler, seed)
        if measured is not None:
            return replace(measured, verdict=verdict)
    elif for_all and any(eqn.op is scan for eqn in body.eqns):
        is_lost = verdict.stopped.startswith(LOST)  # samples show it only at the inputs where it is undefined
        need(not is_lost, "not_equal", want="what the body computes", got=verdict.stopped)
        refuse_new_cases(body, replacement, claims)
    proof, cases = _compared(pair, sampler, seed)
    return replace(_beyond_limits(pair, sampler, cases, seed, proof), verdict=verdict)


def _measured(pair: _Pair, sampler: Sampler, seed: int) -> Proof | None:
    """The error on samples of one size, where a proof says that both are equal; None where it is large for rounding."""
    *_, sizes = open_shapes([v.type for v in pair.body.inputs])[:_ROWS]
    lengths = [e.params["length"] for e in pair.body.eqns if e.op is scan and is_known(e.params["length"])]
    products = _weights(pair.body) * max(lengths, default=_LEAST)
    count = max(_LEAST_MEASURED, min(_MEASURED, _MOST_MEASURED // products))
    try:
        return pair.compare(sampler, [Case.of(sizes, count)], seed)
    except NotFused:
        return None


def _compared(pair: _Pair, sampler: Sampler, seed: int) -> tuple[Proof, Sequence[Case]]:
    """The result of a comparison, and the cases that it was made of."""
    body = pair.body
    steps, most = _long_runs(body)
    sizes = open_shapes([v.type for v in body.inputs], steps)
    every = [Case.of(s, most if steps and i == 2 else _SAMPLES) for i, s in enumerate(sizes)]
    cheap = _short_cases(pair, sizes)
    if not cheap:
        return pair.compare(sampler, every, seed), every
    try:
        return pair.compare(sampler, cheap, seed), cheap
    except NotFused:
        # The body may be right at its own length alone (it reads step 19 as the last one): that is what counts.
        return pair.compare(sampler, every, seed), every


def _long_runs(body: Graph) -> tuple[dict[str, int], int]:
    """For each open number of steps how many to run in the longest samples, and how many of these: few of large loops.

    More than 256 where integers could wrap, else enough for an end that is cut off or filled in to show.
    """
    loops = [e for e in body.eqns if e.op is scan and not is_known(e.params["length"])]
    inside = [v for e in loops for inner in e.bodies for i in all_eqns(inner) for v in i.outputs]
    long = _LONGEST if any(v.type.dtype.is_integer for v in inside) else _LONG
    weights = _weights(body)
    names = {name for e in loops for name in symbols_of(e.params["length"])}
    steps = next((s for s in (long, _MIDDLE) if _FEW * s * weights <= _MOST_PRODUCTS), _LEAST)
    return dict.fromkeys(names, steps), max(_FEW, min(_SAMPLES, _MOST_PRODUCTS // (weights * steps)))


def _weights(body: Graph) -> int:
    """The elements of all constants, at least 1."""
    return max(1, sum(a.array.size for e in all_eqns(body) for a in e.inputs if isinstance(a, Const)))


def _beyond_limits(pair: _Pair, sampler: Sampler, cases: Sequence[Case], seed: int, proof: Proof) -> Proof:
    """The proof with samples beyond the limits of the body's case distinctions; raises NotFused where they differ.

    Limits that the replacement does not have must have samples on both sides. Initial states that are known to be zero
    are drawn as well, where the replacement is right for any: from zero, few steps reach no limit.
    """
    own, others = limits_of(pair.body), all_limits(pair.replacement)
    stated = without(stated_limits(pair.replacement), own)
    got = f"an operator that clips at {stated}"
    need(not stated, "unseen_limit", want=f"limits of the body: {sorted(own)}", got=got)
    if not own:
        return proof
    watch = watched(pair.body, without(own, others))
    beyond = replace(sampler.beyond(max(own)), held={})
    try:
        more = pair.compare(beyond, cases, seed)
    except NotFused:
        if not sampler.held:
            raise
        # Right for the initial states that are known, which is what counts: in steps that a mask leaves out, the
        # operator clips states that the source leaves as they are.
        beyond = sampler.beyond(max(own))
        more = pair.compare(beyond, cases, seed)
    crossed = {i for of in (sampler, beyond) for i in _crossed(watch, of, cases, seed)}
    left = [a for i, a in enumerate(watch.limits) if i not in crossed] + list(watch.hidden)
    want = "a fused op with the same limits, or values on both sides of each"
    need(not left, "unseen_limit", want=want, got=f"a case distinction at {', '.join(f'{a:g}' for a in left)}")
    return Proof(proof.samples + more.samples, max(proof.error, more.error), proof.nan_for_infinities)


def _short_cases(pair: _Pair, sizes: Sequence[tuple[tuple[int, ...], ...]]) -> list[Case]:
    """For a long recurrence: few samples at its own length, and all of them at 1 and at 3 steps; else none.

    With open sizes some sets of sizes get one of the lengths, to compile no more programs than without this.
    """
    if len(sizes) == 1:
        short = _shortened(pair, [(sizes[0], steps) for steps in _SHORT])
        return [Case.of(sizes[0], _FEW), *(Case.of(s, _SAMPLES) for s in short)] if short else []
    short = _shortened(pair, [(sizes[0], _SHORT[0]), (sizes[2], _SHORT[1])])
    return [Case.of(sizes[1], _FEW), *(Case.of(s, _SAMPLES) for s in short)] if short else []


def _crossed(watch: WatchedLimits, sampler: Sampler, cases: Sequence[Case], seed: int) -> Iterator[int]:
    """The numbers of the watched limits that some samples are below and others above."""
    run = quick_jit(jax.vmap(lambda *sample: evaluate(watch.graph, sample)))
    for case in cases if watch.limits else ():
        with jax.enable_x64(True):
            values = [np.asarray(v) for v in run(*sampler.draw(case, seed))]
        for number, (limit, array) in enumerate(zip(watch.limits, values, strict=True)):
            finite = array[np.isfinite(array)]
            if (finite < limit).any() and (finite > limit).any():
                yield number


def _bound(graph: Graph, constants: Sequence[np.ndarray | None]) -> Graph:
    """The graph without the inputs that are constant, computed in f64."""
    values: dict[Var, Atom] = {
        v: Const(array) for v, array in zip(graph.inputs, constants, strict=True) if array is not None
    }
    inputs = tuple(v for v in graph.inputs if v not in values)
    return replace(substitute_graph(graph, values), inputs=inputs)


def _unrunnable(graph: Graph) -> str | None:
    """The place of an equation that XLA cannot run: an opaque op, sizes that depend on data, strings. None for none."""
    for eqn in all_eqns(graph):
        runs = isinstance(eqn.op, BodyOp) or (eqn.op.is_kernel and not depends_on_data(eqn))
        if not runs or any(a is not None and a.type.dtype is DType.string for a in (*eqn.inputs, *eqn.outputs)):
            return place_of(eqn)
    return None


@dataclass(frozen=True)
class _Pair:
    """Both graphs in f64, and the jitted program of both."""

    body: Graph
    replacement: Graph
    weights: tuple[list[np.ndarray], list[np.ndarray]]
    program: Callable[..., Any]
    tolerance: float
    is_masked: bool

    @classmethod
    def of(cls, body: Graph, replacement: Graph, tolerance: float, *, is_masked: bool = False) -> _Pair:
        """The pair; graphs that differ in their weights alone share one program, and its compilations."""
        both = with_float(body, DType.f64), with_float(replacement, DType.f64)
        weights = large_constants(both[0], above=1), large_constants(both[1], above=1)
        text = [format_graph(g, sources=False, hoisted=w) for g, w in zip(both, weights, strict=True)]
        program = shared_program(("prove", *text), lambda: _program(*both, *weights))
        return cls(*both, weights, program, tolerance, is_masked)

    def compare(self, sampler: Sampler, cases: Sequence[Case], seed: int) -> Proof:
        """Run both on the samples of each case; raises NotFused at the first that differs."""
        samples, worst, more_nan = 0, 0.0, False
        for case in cases:
            expected, actual = self._run(sampler.draw(case, seed))
            finite = case.count - sampler.infinite(case)
            for number, (b, a) in enumerate(zip(expected, actual, strict=True)):
                error = largest_error(a[:finite], b[:finite])
                sizes = ", ".join("x".join(map(str, s)) or "scalar" for s in case.shapes)
                got = f"an error of {error:.1e} in result {number}, operands of {sizes}"
                need(error <= self.tolerance, "not_equal", want="what the body computes", got=got)
                more_nan |= self._compare_infinite(a[finite:], b[finite:], number)
                worst = max(worst, error)
            samples += case.count
        return Proof(samples, worst, more_nan)

    def _compare_infinite(self, actual: np.ndarray, expected: np.ndarray, number: int) -> bool:
        """Whether the replacement gives NaN where the body does not; refuses what differs in another way."""
        if expected.dtype.kind != "f":
            return False
        is_number = ~np.isnan(expected)
        more_nan = bool((is_number & np.isnan(actual)).any())
        if self.runs_sequences and self.is_masked:
            return True
        if self.runs_sequences:
            is_number &= ~np.isnan(actual)
        got = f"another value in result {number}, where operands are infinite"
        need(
            agrees(actual[is_number], expected[is_number], self.tolerance),
            "not_equal",
            want="what the body computes",
            got=got,
        )
        return more_nan

    @property
    def runs_sequences(self) -> bool:
        """Whether the replacement has recurrent ops over sequences."""
        return any("time_major" in eqn.params for eqn in self.replacement.eqns)

    def _run(self, args: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        try:
            with jax.enable_x64(True):
                expected, actual = self.program(*self.weights, args)
        except (JfuseError, TypeError, ValueError) as error:  # what jax raises for ops that it cannot trace
            raise NotFused("body_not_executable", got=str(error).split("\n")[0]) from error
        return [np.asarray(b) for b in expected], [np.asarray(a) for a in actual]


def _program(
    body: Graph, replacement: Graph, body_weights: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> Callable[..., Any]:
    original, replaced = with_constants(body, body_weights), with_constants(replacement, weights)

    def program(body_weights: Any, weights: Any, args: Any) -> Any:
        def both(*sample: Any) -> Any:
            return original(body_weights, sample), replaced(weights, sample)

        return jax.vmap(both)(*args) if args else jax.tree.map(lambda o: jax.numpy.asarray(o)[None], both())

    return quick_jit(program)


def _shortened(
    pair: _Pair, wanted: Sequence[tuple[tuple[tuple[int, ...], ...], int]]
) -> list[tuple[tuple[int, ...], ...]]:
    """Shapes, each at so many steps, where the body scans over more and both graphs can be run on fewer; else none."""
    lengths = {e.params["length"] for e in pair.body.eqns if e.op is scan and isinstance(e.params["length"], int)}
    if len(lengths) != 1 or max(lengths) <= max(_SHORT):
        return []
    (length,) = lengths
    shapes = [shape for of, _ in wanted for shape in of]
    for axis in sorted({axis for shape in shapes for axis, size in enumerate(shape) if size == length}):
        tried = [(tuple(_with_steps(s, axis, length, steps) for s in of), steps) for of, steps in wanted]
        if all(_runs(pair, short, steps) for short, steps in tried):
            return [short for short, _ in tried]
    return []


def _with_steps(shape: tuple[int, ...], axis: int, length: int, steps: int) -> tuple[int, ...]:
    is_length = axis < len(shape) and shape[axis] == length
    return (*shape[:axis], steps, *shape[axis + 1 :]) if is_length else shape


def _runs(pair: _Pair, shapes: Sequence[tuple[int, ...]], steps: int) -> bool:
    """Whether both graphs take operands of these shapes, give results of equal shapes, and scan over `steps` steps."""
    seen: dict[Var, tuple[int, ...]] = dict(zip(pair.body.inputs, shapes, strict=True))

    def observe(eqn: Eqn, results: tuple[Any, ...]) -> None:
        seen.update((out, np.shape(r)) for out, r in zip(eqn.outputs, results, strict=True))

    args = [jax.ShapeDtypeStruct(s, v.type.dtype.numpy) for v, s in zip(pair.body.inputs, shapes, strict=True)]
    try:
        with jax.enable_x64(True):
            expected = jax.eval_shape(lambda *a: evaluate(pair.body, a, observe), *args)
            replaced = jax.eval_shape(lambda *a: evaluate(pair.replacement, a), *args)
    except (JfuseError, TypeError, ValueError):
        return False
    scans = [e for e in pair.body.eqns if e.op is scan]
    firsts = [a for e in scans for a in e.inputs[e.params["consts"] + e.params["carries"] :][:1]]
    scanned = firsts and all(isinstance(a, Var) and seen[a][0] == steps for a in firsts)
    return bool(scanned) and [w.shape for w in expected] == [f.shape for f in replaced]
