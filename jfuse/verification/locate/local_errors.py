"""The own error of each equation: XLA computes it from the other side's operands.

Errors add up along a graph, so a value that differs tells little. An equation's result for the *other side's* operands
depends on it alone. If the other side lacks a value, XLA's result from its values replaces it, and the next
value that is known is compared for all equations since.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.base.measure import Measure, relative_error
from jfuse.base.memo import Memo
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbols_in
from jfuse.ir.evaluate import evaluate, sizes_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.kernels.control import scan_parts
from jfuse.kernels.core.op import TflOp
from jfuse.running.partition import is_changed
from jfuse.running.runner import run_equation
from jfuse.verification.locate.rounding import is_explained, rounded_otherwise, rounding_of
from jfuse.verification.runners.node_values import Value

_DRAWS = 8


class OtherValues(Protocol):
    """Access to the values that the other side computed for a graph."""

    certain: bool
    """Whether a value that it gives for an equation is that of this equation beyond doubt."""

    def results(self, number: int, eqn: Eqn, computed: Sequence[Value]) -> Sequence[Value]:
        """The other side's results of an equation. computed: XLA's results for the other side's operands."""

    def enter(
        self, walk: Walk, step: LocalStep, body: int, turn: int, operands: Sequence[np.ndarray]
    ) -> OtherValues | None:
        """Values of a body in one turn of an equation, for these operands; None if there are none."""

    def candidates(self, eqn: Eqn, shape: Sequence[int], dtype: np.dtype) -> Iterable[np.ndarray]:
        """Values of the other side that may be a result of an equation, which has that shape and dtype."""


@dataclass
class LocalStep:
    """One equation on both sides.

    operands: the other side's. found: XLA's results for them. straight: results of XLA's own run. wanted: the
    other side's results. since: the equations, by number, that computed `found` from known values, itself the last.
    own: max|found - wanted| / max|wanted| of the worst result; None where nothing is known of it.
    confirmed: another equation gives the known value where it is fed with these.
    """

    number: int
    eqn: Eqn
    operands: tuple[Value, ...]
    found: tuple[Value, ...]
    straight: tuple[Value, ...]
    wanted: tuple[Value, ...]
    since: frozenset[int]
    own: float | None = None
    confirmed: bool = False

    @property
    def error(self) -> Measure | None:
        """The accumulated error: the distance of XLA's own results from the other side's."""
        pairs = [(s, w) for s, w in zip(self.straight, self.wanted, strict=True) if s is not None and w is not None]
        worst = None
        for found, wanted in pairs:
            measure = Measure.of(found, wanted)
            worst = measure if worst is None else worst.worst(measure)
        return worst

    @property
    def exceeds(self) -> bool:
        """Whether the own error exceeds the usual difference between kernels of one op."""
        return any(e > rounding_of(w.dtype) for e, w in self._own_errors())

    @property
    def agrees(self) -> bool:
        """Whether XLA gives the other side's results, as far as these are known, but for rounding."""
        return bool(self._own_errors()) and not self.exceeds

    @property
    def largest(self) -> float | None:
        """The largest error of the results that are known, None without any."""
        return max((e for e, _ in self._own_errors()), default=None)

    def _own_errors(self) -> list[tuple[float, np.ndarray]]:
        pairs = zip(self.found, self.wanted, strict=True)
        return [(relative_error(f, w), w) for f, w in pairs if f is not None and w is not None]


@dataclass
class Walk:
    """A run of a graph against another one; `run` fills `steps`.

    args: XLA's inputs. given: the other side's, where they are known.
    """

    graph: Graph
    args: Sequence[Value]
    given: Sequence[Value]
    known: OtherValues
    steps: list[LocalStep] = field(default_factory=list)
    straight: dict[Var, Value] = field(default_factory=dict)
    other: dict[Var, Value] = field(default_factory=dict)
    _since: dict[Var, frozenset[int]] = field(default_factory=dict)
    _second: dict[Var, Value] = field(default_factory=dict)  # for values in doubt: what XLA computes in their place
    _doubts: dict[Var, frozenset[int]] = field(default_factory=dict)  # the equations whose known values may be others

    def run(self) -> Walk:
        """Compute each equation in order, from straight and from known values; the walk itself."""
        self.straight = dict(zip(self.graph.inputs, self.args, strict=True))
        self.other = {
            v: a if g is None else g for v, a, g in zip(self.graph.inputs, self.args, self.given, strict=True)
        }
        for number, eqn in enumerate(self.graph.eqns):
            self._step(number, eqn)
        return self

    def _step(self, number: int, eqn: Eqn) -> None:
        # `straight` is XLA's own run; `found` starts from the other side's operands, so it shows this equation's error.
        mine, theirs = (_operands(eqn, env) for env in (self.straight, self.other))
        straight = compute(eqn, mine, self.straight)
        found = straight if _same(mine, theirs) else compute(eqn, theirs, self.other)
        wanted = tuple(self.known.results(number, eqn, found))
        since = frozenset({number}).union(*(self._since.get(a, ()) for a in eqn.inputs if isinstance(a, Var)))
        step = LocalStep(number, eqn, theirs, found, straight, wanted, since)
        self.steps.append(step)
        self.straight.update(zip(eqn.outputs, straight, strict=True))
        if not self.known.certain:
            self._weigh(step)
        step.own = step.largest
        for var, value, known in zip(eqn.outputs, step.found, step.wanted, strict=True):
            self.other[var] = value if known is None else known
            if known is None:
                self._since[var] = step.since

    def _weigh(self, step: LocalStep) -> None:
        """If values are uncertain, decide which of them belong to the equation."""
        # A value matched by chance would blame its readers. So each doubtful operand has a second candidate, XLA's own;
        # the first reader that agrees with only one of them decides.
        doubts = self._doubted(step.eqn)
        second = self._with_second(step) if doubts else step.found
        if doubts:
            matches = self.known.results(step.number, step.eqn, second)
            step.wanted = tuple(t if w is None else w for w, t in zip(step.wanted, matches, strict=True))
            other = replace(step, found=second)
            if step.agrees and not other.agrees:
                for number in doubts:
                    self.steps[number].confirmed = True
            if other.agrees and not step.agrees:
                self._drop(doubts)
                step.operands = _operands(step.eqn, self.other)
                step.found, doubts = second, frozenset()
        bad = step.exceeds
        for var, value, known in zip(step.eqn.outputs, second, step.wanted, strict=True):
            if known is None and doubts:
                self._second[var], self._doubts[var] = value, doubts
            elif known is not None and bad:
                self._second[var], self._doubts[var] = value, frozenset({step.number})

    def _doubted(self, eqn: Eqn) -> frozenset[int]:
        return frozenset[int]().union(*(self._doubts.get(a, ()) for a in eqn.inputs if isinstance(a, Var)))

    def _with_second(self, step: LocalStep) -> tuple[Value, ...]:
        env = {**self.other, **self._second}
        return compute(step.eqn, _operands(step.eqn, env), env)

    def _drop(self, doubts: frozenset[int]) -> None:
        """Undo the match of these equations: the values belong to others, so XLA's results are used."""
        for number in doubts:
            step = self.steps[number]
            step.wanted, step.own = (None,) * len(step.wanted), None
        for var in [v for v, numbers in self._doubts.items() if numbers & doubts]:
            self.other[var] = self._second.pop(var)
            del self._doubts[var]
            self._since.setdefault(var, frozenset(doubts))

    def is_known(self, var: Var) -> bool:
        """Whether the other side has this value; else XLA's replaces it."""
        return var not in self._since

    def again(self, since: frozenset[int], put: Mapping[Var, np.ndarray], seed: int | None = None) -> dict[Var, Value]:
        """The values of some equations computed again from the other side's, with `put` in place of some.

        seed: move every float on the way by a rounding.
        """
        generator = None if seed is None else np.random.default_rng(seed)
        moved: dict[Var, Value] = {}
        env = dict(self.other)
        inner = {var for n in since for var in self.graph.eqns[n].outputs}
        for number in sorted(since):
            eqn = self.graph.eqns[number]
            for atom in eqn.inputs if generator is not None else ():
                if isinstance(atom, Var) and atom not in moved and atom not in inner:
                    moved[atom] = _moved(env.get(atom), generator)
            env |= {**moved, **put}
            for var, value in zip(eqn.outputs, compute(eqn, _operands(eqn, env), env), strict=True):
                env[var] = put.get(var, _moved(value, generator) if var in inner else value)
        return {var: env[var] for var in inner}

    def is_rounding(self, step: LocalStep) -> bool:
        """Whether other roundings of inner values explain the step's own error."""
        redone = [self.again(step.since, {}, seed) for seed in range(_DRAWS)]
        for var, found, wanted in zip(step.eqn.outputs, step.found, step.wanted, strict=True):
            if found is None or wanted is None or relative_error(found, wanted) <= rounding_of(wanted.dtype):
                continue
            values = [r for run in redone if (r := run[var]) is not None]
            if len(values) < len(redone) or not is_explained(found, wanted, values):
                return False
        return True


def compute(eqn: Eqn, operands: Sequence[Value], env: Mapping[Var, Value]) -> tuple[Value, ...]:
    """The results of one equation on XLA; None for each where it cannot run, or an operand is not known."""
    nothing: tuple[Value, ...] = (None,) * len(eqn.outputs)
    if any(v is None and atom is not None for v, atom in zip(operands, eqn.inputs, strict=True)):
        return nothing
    try:
        results = computed(eqn, operands, env)
    except Exception:  # an op without a kernel, or operands of the other side that the kernel refuses in its own words
        return nothing
    return results if len(results) == len(nothing) else nothing  # UNPACK of a value of another shape


def _operands(eqn: Eqn, env: Mapping[Var, Value]) -> tuple[Value, ...]:
    return tuple(value_of(atom, env) for atom in eqn.inputs)


def value_of(atom: Atom | None, env: Mapping[Var, Value]) -> Value:
    """The array of an operand or result; None for one that is omitted or not known."""
    if atom is None:
        return None
    return atom.array if isinstance(atom, Const) else env.get(atom)


def _same(some: Sequence[Value], others: Sequence[Value]) -> bool:
    return all(a is b or is_same(a, b) for a, b in zip(some, others, strict=True))


def is_same(some: Value, other: Value) -> bool:
    """Whether both are the same numbers, NaNs included."""
    if some is None or other is None:
        return some is other
    if some.dtype == object:
        return bool(np.array_equal(some, other))
    return some.dtype == other.dtype and some.shape == other.shape and some.tobytes() == other.tobytes()


def _moved(value: Value, generator: np.random.Generator | None) -> Value:
    return value if value is None or generator is None else rounded_otherwise(value, generator)


# One equation on XLA: compiled once for all operands of its shapes, constants too, and as soon as can be.

_SHAPE_LIKE = 64  # elements; integers up to so many stay NumPy: they may be shapes, which kernels need by value
_PROGRAMS: Memo[Callable[..., Any]] = Memo(1024)


def computed(eqn: Eqn, operands: Sequence[np.ndarray | None], env: Mapping[Var, Any]) -> tuple[np.ndarray, ...]:
    """The results of an equation for these operands (None for omitted ones).

    env: values of the graph so far, for open sizes. Raises whatever the kernel raises for operands that it does
    not take.
    """
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        if is_changed(eqn):
            results: Sequence[Any] = run_equation(eqn, operands, env)
        elif eqn.op.name == "scan":
            results = _scanned(eqn, operands, env)
        elif isinstance(eqn.op, TflOp) and eqn.op.traceable and any(map(_is_data, operands)) and _is_closed(eqn):
            results = _compiled(eqn, eqn.op, operands)
        else:
            results = run_equation(eqn, [jnp.asarray(v) if _is_data(v) else v for v in operands], env)
    return tuple(map(np.asarray, results))


def _is_data(value: np.ndarray | None) -> bool:
    """Whether XLA computes with it: neither possible shapes nor texts."""
    if value is None or value.dtype == object:
        return False
    return value.dtype.kind not in "iub" or value.size > _SHAPE_LIKE


def _is_closed(eqn: Eqn) -> bool:
    """Whether the parameters hold no open size, which would differ from run to run."""
    return not symbols_in(eqn.params)


def _compiled(eqn: Eqn, op: TflOp, operands: Sequence[np.ndarray | None]) -> Sequence[Any]:
    data = [i for i, v in enumerate(operands) if _is_data(v)]
    fixed = tuple(v if v is None or _is_data(v) else (v.shape, str(v.dtype), v.tobytes()) for v in operands)
    key = (op.builtin, op.body, str(dict(eqn.params)), tuple((i, _abstract(v)) for i, v in enumerate(fixed)))

    def call(*arrays: Any) -> tuple[Any, ...]:
        operand_list = list(operands)
        for i, array in zip(data, arrays, strict=True):
            operand_list[i] = array
        return run_equation(eqn, operand_list, {})

    results: Sequence[Any] = _PROGRAMS.get(key, lambda: quick_jit(call))(*(operands[i] for i in data))
    return results


def _abstract(value: Any) -> Hashable:
    return (value.shape, str(value.dtype)) if isinstance(value, np.ndarray) else value


def _scanned(eqn: Eqn, operands: Sequence[Any], env: Mapping[Var, Any]) -> Sequence[Any]:
    """Step by step: a scan of jax's would be compiled anew each time."""
    consts, carried, xs = scan_parts(operands, eqn.params)
    count = len(xs[0]) if xs else int(eqn.params["length"])
    rows: list[Sequence[Any]] = [()] * count
    with sizes_of(env):
        for turn in reversed(range(count)) if eqn.params["reverse"] else range(count):
            results = evaluate(eqn.bodies[0], [*consts, *carried, *(x[turn] for x in xs)])
            carried, rows[turn] = results[: len(carried)], results[len(carried) :]
    return [*carried, *(np.stack([np.asarray(r) for r in column]) for column in zip(*rows, strict=True))]
