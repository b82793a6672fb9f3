"""Matches the signatures, inputs and outputs of two sides, and finds the sizes that both can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import Dim, is_known, solved, substitute_dim
from jfuse.ir.graph import Program
from jfuse.ir.types import DType, TensorType
from jfuse.verification.subject import Arrays, Calls, Interface, Subject


@dataclass(frozen=True)
class SignatureMatch:
    """One signature on both sides: the other's key, its name of each input and output of ours, and sizes that it fixes.

    notes: names that differ and were matched by position.
    """

    key: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    sizes: Mapping[str, int]
    notes: tuple[str, ...] = ()


def match(ours: Subject, theirs: Subject, keys: Sequence[str] | None = None) -> dict[str, SignatureMatch]:
    """For each of our signatures (of those named) the one of theirs: of the same key, or the only one of the only one.

    Raises JfuseError where a signature, an input or an output has no counterpart, or one of another type.
    """
    chosen = _chosen(ours, keys)
    if len(chosen) == 1 and len(theirs.signatures) == 1:
        pairs = {chosen[0]: next(iter(theirs.signatures))}
    else:
        pairs = {key: key for key in chosen if key in theirs.signatures}
        if len(pairs) < len(chosen) and (keys or not pairs):
            raise JfuseError(
                f"no signature of {theirs.name} is {next(k for k in chosen if k not in pairs)!r} of {ours.name}",
                expected=f"one of {list(theirs.signatures)}",
                remedy="options=jfuse.Verify(keys=[…]) names those to compare",
            )
    return {key: _matched(key, ours.signatures[key], other, theirs) for key, other in pairs.items()}


def _chosen(ours: Subject, keys: Sequence[str] | None) -> list[str]:
    missing = [key for key in keys or () if key not in ours.signatures]
    if missing:
        raise JfuseError(f"{ours.name} has no signature {missing[0]!r}", expected=f"one of {list(ours.signatures)}")
    return list(keys or ours.signatures)


def _matched(key: str, ours: Interface, other: str, theirs_of: Subject) -> SignatureMatch:
    theirs = theirs_of.signatures[other]
    where = f"signature {key!r}"
    inputs = _named(ours.inputs, theirs.inputs, ours.exposed, theirs.exposed, f"inputs of {where}")
    outputs = _named(ours.outputs, theirs.outputs, ours.exposed, theirs.exposed, f"outputs of {where}")
    sizes: dict[str, int] = {}
    for name, own in inputs.items():
        _unify(ours.inputs[name], theirs.inputs[own], sizes, f"input {name!r} of {where}")
    pairs = [f"{n} = {o}" for names in (inputs, outputs) for n, o in names.items() if n != o]
    notes = (f"matched by their places in {where}: {', '.join(pairs)}",) if pairs else ()
    return SignatureMatch(other, inputs, outputs, sizes, notes)


def _named(
    ours: Sequence[str] | Mapping[str, TensorType],
    theirs: Sequence[str] | Mapping[str, TensorType],
    our_states: Sequence[str],
    their_states: Sequence[str],
    what: str,
) -> dict[str, str]:
    """The names of theirs by ours: equal ones, the rest by place. States that one side shows may be missing."""
    rest = [n for n in ours if n not in theirs]
    others = [n for n in theirs if n not in ours]
    names = {n: n for n in ours if n in theirs}
    rest = rest if len(rest) == len(others) else [n for n in rest if not _is_state(n, our_states)]
    others = others if len(rest) == len(others) else [n for n in others if not _is_state(n, their_states)]
    if len(rest) != len(others):
        raise JfuseError(f"the {what} are not the same", expected=list(ours), found=list(theirs))
    return names | dict(zip(rest, others, strict=True))


def _is_state(name: str, states: Sequence[str]) -> bool:
    return name in states


def _unify(ours: TensorType, theirs: TensorType, sizes: dict[str, int], what: str) -> None:
    """Note the sizes that our open dimensions must have for theirs."""
    is_wide = ours.dtype is DType.f32 and theirs.dtype in (DType.f16, DType.bf16)  # for targets without these
    if (ours.dtype is not theirs.dtype and not is_wide) or ours.rank != theirs.rank:
        raise JfuseError(f"the two sides take another {what}", expected=str(theirs), found=str(ours))
    for d, e in zip(ours.shape, theirs.shape, strict=True):
        if not is_known(e):
            continue
        mine: Dim = substitute_dim(d, sizes)
        if not is_known(mine):
            answer = solved(mine, e)
            if answer is not None and is_known(answer[1]) and int(answer[1]) >= 0:
                sizes[answer[0]] = int(answer[1])
                mine = e
        if is_known(mine) and int(mine) != int(e):
            raise JfuseError(f"the two sides take another {what}", expected=str(theirs), found=str(ours))


def need_same_types(key: str, pair: str, found: Arrays, wanted: Arrays) -> None:
    """Raise JfuseError where an output of a call is of another type on one side. Functions of JAX have those of jax."""
    reference, subject = pair.split("/")
    for name in (n for n in wanted if n in found):
        theirs, ours = (_type_name(np.asarray(side[name]).dtype, "jax" in pair) for side in (wanted, found))
        is_wide = ours == "float32" and theirs in ("float16", "bfloat16")  # for targets without these
        if theirs != ours and not is_wide:
            raise JfuseError(
                f"output {name!r} of signature {key!r} is of another type on the two sides",
                expected=f"{theirs} ({reference})",
                found=f"{ours} ({subject})",
                remedy="a cast on one of the sides",
            )


def _type_name(dtype: np.dtype[Any], is_of_jax: bool) -> str:
    """The name of a type; of those with 64 bits that jax has unless it is told otherwise, where one side is jax."""
    if dtype.kind in "OSU":
        return "string"
    return str(jax.dtypes.canonicalize_dtype(dtype) if is_of_jax and dtype.kind in "iufc" else dtype)


@dataclass(frozen=True)
class Renamed:
    """A subject whose signatures, inputs and outputs go by the names of the other side."""

    subject: Subject
    matches: Mapping[str, SignatureMatch]

    @property
    def name(self) -> str:
        """The name of the subject, which stays as it is."""
        return self.subject.name

    @property
    def program(self) -> Program | None:
        """The subject's, under its own names."""
        return self.subject.program

    @property
    def signatures(self) -> Mapping[str, Interface]:
        """The signatures that both sides have, by our key."""
        return {key: self._interface(m) for key, m in self.matches.items()}

    def _interface(self, found: SignatureMatch) -> Interface:
        own = self.subject.signatures[found.key]
        inputs = {ours: own.inputs[name] for ours, name in found.inputs.items()}
        return Interface(inputs, tuple(found.outputs), own.states, own.exposed)

    def start(self) -> Calls:
        """Calls by the other side's names."""
        return _RenamedCalls(self.subject.start(), self.matches)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """As the subject's, by the other side's names."""
        match = self.matches[key]
        own = {name: inputs[ours] for ours, name in match.inputs.items()}
        return _back(match, self.subject.batch(own, match.key, in_a_row=in_a_row))

    def singly(self, key: str) -> str | None:
        """As the subject says it of its own signature."""
        return self.subject.singly(self.matches[key].key)


@dataclass
class _RenamedCalls:
    calls: Calls
    matches: Mapping[str, SignatureMatch]

    @property
    def states(self) -> Arrays:
        return self.calls.states

    def reset(self) -> None:
        self.calls.reset()

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        match = self.matches[key]
        own = {name: inputs[ours] for ours, name in match.inputs.items()}
        return _back(match, self.calls.run(own, match.key))


def _back(found: SignatureMatch, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {ours: outputs[name] for ours, name in found.outputs.items() if name in outputs}
