"""Reads a jaxpr as forms, equation by equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.frontends.jaxprs.parts import closed_jaxpr, scan_counts
from jfuse.ir.dims import is_known
from jfuse.proof.symbolic import moves
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Stopped
from jfuse.proof.symbolic.counts import WIDE, is_count
from jfuse.proof.symbolic.forms import Form, constant
from jfuse.proof.symbolic.integers import integers
from jfuse.proof.symbolic.lookups import counted
from jfuse.proof.symbolic.loops import Scan, SymbolicLoop, after_last, carried_before, collected, read
from jfuse.proof.symbolic.masked import read_masked
from jfuse.proof.symbolic.primitives import ELEMENTWISE, RULES, SUMS, UNROUNDED

_CALLS: Mapping[str, str] = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
}
_NARROW = (np.dtype(np.float16), np.dtype(jnp.bfloat16))
_MOST_EQUATIONS = 6000  # of loops whose steps are written out


class Reader:
    """Both sides of a proof in one space of atoms.

    loops: those that were read. sizes: of open axes that are no symbols; states that are the same along them are open.
    assumptions: the conditions of the proof, as text.
    """

    def __init__(self, atoms: Atoms, sizes: frozenset[int] = frozenset()) -> None:
        self.atoms = atoms
        self.sizes = sizes
        self.loops: list[SymbolicLoop] = []
        self.assumptions: list[str] = []
        self.place = ""
        self._constants: dict[int, tuple[Any, Form]] = {}

    def run(self, closed: Any, forms: Sequence[Form]) -> list[Form]:
        """The results of a closed jaxpr for forms of its operands."""
        jaxpr = getattr(closed, "jaxpr", closed)
        consts = [self._constant(c) for c in getattr(closed, "consts", ())]
        env: dict[Any, Form] = dict(zip(jaxpr.constvars, consts, strict=True))
        env |= zip(jaxpr.invars, forms, strict=True)
        for eqn in jaxpr.eqns:
            self.place = str(eqn.source_info.name_stack) or self.place
            if (passed := _passed_on(eqn)) is not None:
                env[eqn.outvars[0]] = env[passed]
                continue
            operands = [self._constant(v.val) if hasattr(v, "val") else env[v] for v in eqn.invars]
            results = [r.without_empty() for r in self._equation(eqn, operands)]
            if self.atoms.is_trial:
                results = [Form(r.axes, r.blocks, r.constant) if r.error else r for r in results]
            env |= zip(eqn.outvars, results, strict=True)
        return [self._constant(v.val) if hasattr(v, "val") else env[v] for v in jaxpr.outvars]

    def _constant(self, value: Any) -> Form:
        known = self._constants.get(id(value))
        if known is None:
            known = self._constants[id(value)] = (value, constant(np.asarray(value)))
        return known[1]

    def _equation(self, eqn: Any, operands: Sequence[Form]) -> list[Form]:
        name = eqn.primitive.name
        if name in _CALLS:
            return self.run(eqn.params[_CALLS[name]], operands)
        if name == "optimization_barrier":
            return list(operands)
        if name == "split":
            return _split(operands[0], eqn.params["sizes"], eqn.params["axis"])
        if name == "scan":
            return self._scan(eqn, operands)
        if name == "cond":
            return self._cond(eqn, operands)
        if name == "dim_as_value":
            dim = eqn.params["dim"]
            family = self.atoms.named(("dim" if is_count(dim) else "difference of sizes", str(dim)), 1, 0)
            return [moves.at_once(family)]
        return [self._result(eqn, operands)]

    def _result(self, eqn: Any, operands: Sequence[Form]) -> Form:
        """The one result of an equation without bodies."""
        name = eqn.primitive.name
        if name == "reduce_sum" and eqn.outvars[0].aval.dtype in WIDE:
            count = counted(self.atoms, operands[0], eqn.params["axes"])
            if count is not None:
                return count
        if name == "concatenate":
            states = carried_before(self, operands, eqn.params["dimension"])
            if states is not None:
                return states
        if name in SUMS and eqn.outvars[0].aval.dtype.kind in "iu":
            raise Stopped("a sum of integers, which wraps")
        if name not in UNROUNDED and any(v.aval.dtype in _NARROW for v in (*eqn.invars, *eqn.outvars)):
            raise Stopped(f"{name} in floats of 16 bits, which round")
        if name in ELEMENTWISE and eqn.outvars[0].aval.dtype.kind in "iu":
            return integers(self.atoms, operands, eqn)
        rule = RULES.get(name)
        if rule is None:
            raise Stopped(f"{name} is not known to the prover")
        return rule(self.atoms, operands, eqn)

    def _cond(self, eqn: Any, operands: Sequence[Form]) -> list[Form]:
        which, *rest = operands
        if not which.is_constant:
            raise Stopped("a branch that is decided at run time")
        branches = eqn.params["branches"]
        return self.run(branches[min(max(int(which.constant[0]), 0), len(branches) - 1)], rest)

    def _scan(self, eqn: Any, operands: Sequence[Form]) -> list[Form]:
        params = eqn.params
        before, carried_count = scan_counts(params)
        consts, others = operands[:before], operands[before:]
        carries, xs = others[:carried_count], others[carried_count:]
        scan = Scan(closed_jaxpr(params["jaxpr"]), params["length"], params["reverse"], consts, carries, xs)
        if is_known(scan.length) and any(not x.is_open(0) for x in xs):
            return self._unrolled(scan)
        masked = read_masked(self, scan)
        if masked is None:
            carried, ys, loop = read(self, scan)
            last = [after_last(f, loop) for f in carried]
        else:
            last, ys, loop = list(masked.last), list(masked.ys), masked.loop
            for condition in masked.conditions:
                self.assume(condition)
        if not is_known(scan.length):
            self.assume(f"{scan.length} >= 1")
        return [*last, *(collected(f, loop, scan.length, reverse=scan.reverse) for f in ys)]

    def assume(self, condition: str) -> None:
        """Add a condition of the proof."""
        if condition not in self.assumptions:
            self.assumptions.append(condition)

    def _unrolled(self, scan: Scan) -> list[Form]:
        """The steps of a loop one after the other."""
        length, carried = int(scan.length), list(scan.carries)
        if length * len(scan.step.jaxpr.eqns) > _MOST_EQUATIONS:
            raise Stopped(f"{length} steps are too many to be written out")
        xs = [moves.with_closed(x, [0]) for x in scan.xs]
        rows: list[list[Form]] = []
        for step in range(length):
            place = length - 1 - step if scan.reverse else step
            inputs = [moves.row(x, place) for x in xs]
            results = self.run(scan.step, [*scan.consts, *carried, *inputs])
            carried = results[: len(carried)]
            rows.append(results[len(carried) :])
        if scan.reverse:
            rows.reverse()
        stacked = [moves.concatenated([moves.with_axis(r) for r in column], 0) for column in zip(*rows, strict=True)]
        return [*carried, *stacked]


def _passed_on(eqn: Any) -> Any:
    """The operand that is the result of an equation: x of max(-infinity, x). None where there is none."""
    end = {"max": -np.inf, "min": np.inf}.get(eqn.primitive.name)
    if end is None:
        return None
    for one, other in (eqn.invars, eqn.invars[::-1]):
        if hasattr(one, "val") and not hasattr(other, "val") and np.ndim(one.val) == 0 and one.val == end:
            return other
    return None


def _split(form: Form, sizes: Sequence[int], axis: int) -> list[Form]:
    ends = np.cumsum(sizes)
    shape = form.shape
    return [
        moves.sliced(
            form,
            [int(end) - size if a == axis else 0 for a in range(len(shape))],
            [int(end) if a == axis else d for a, d in enumerate(shape)],
            [1] * len(shape),
        )
        for end, size in zip(ends, sizes, strict=True)
    ]


def elements(shape: Sequence[Any]) -> int:
    """The product of the sizes that are known."""
    return prod(int(d) for d in shape if is_known(d))
