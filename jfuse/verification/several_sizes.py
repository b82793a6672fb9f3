"""Calls of a file at several sizes in a row: one must not change the result of the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.ir.dims import symbols_of
from jfuse.ir.graph import Program
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import draws as draws_numbers
from jfuse.passes.context import Context
from jfuse.passes.legalize.copies_in_bodies import copies_in_bodies
from jfuse.proof.inputs import draws, long_sizes, size_choices
from jfuse.running.interpreter import LiteRt
from jfuse.running.worker import LiteRtFailed
from jfuse.verification.file_answers import InFile, Start, Streaming
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.subject import Arrays

_GROWING = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
_INTERPRETERS = 8
_APART = 1e-5  # of the largest number: XNNPACK may add up in another order where memory lies otherwise


def need_same_at_sizes(lite: Streaming, unquantized: Streaming, runtimes: Mapping[str, Start]) -> None:
    """Raise VerifyFailed if a call after one of another size answers differently than in a new interpreter.

    Files that keep something between calls, or draw random numbers, are left out, and sizes that LiteRT refuses in
    floats, too.
    """
    for signature in unquantized.program.signatures:
        sizes = size_choices(signature.graph)
        sizes = [*sizes[:1], long_sizes(signature.graph), *sizes[1:]]
        if len(sizes) < 3 or lite.program.states() or any(map(draws_numbers, all_eqns(signature.graph))):
            continue
        calls = [inputs for one in sizes for inputs in draws(signature, one, seed=0, count=1)]
        for where, start in runtimes.items():
            try:
                _need_same(lite, calls, signature.key, where, start)
            except VerifyFailed:
                if _takes(unquantized, calls, signature.key, start):
                    raise


def may_leave_out_copies(program: Program) -> bool:
    """Whether XNNPACK may leave out copies in loops or branches of a file when its sizes grow."""
    return any(copies_in_bodies(s.graph, Context()) is not s.graph for s in program.signatures)


def need_same_while_growing(file: InLiteRt) -> None:
    """Raise VerifyFailed if calls of growing batches, each made twice, answer otherwise the first time.

    Signatures with states, random numbers or no open size are left out, and sizes that LiteRT refuses.
    """
    for signature in file.program.signatures:
        graph = signature.graph
        names = [name for v in graph.inputs for d in v.type.shape for name in symbols_of(d)]  # of the batch first
        if not names or signature.states or any(map(draws_numbers, all_eqns(graph))):
            continue
        sizes = [{**long_sizes(graph), names[0]: size} for size in _GROWING]
        calls = [next(iter(draws(signature, one, seed=0, count=1))) for one in sizes]
        for _ in range(_INTERPRETERS):
            process = file.process()
            for call in calls:
                for name, first, second in _twice(file, process, call, signature.key):
                    if not _is_near(first, second):
                        raise VerifyFailed(
                            f"the first call after {names[0]} grew answers otherwise than the second: output {name!r}",
                            expected="equal answers of equal calls",
                            found=f"{_distance(first, second)}: XNNPACK left out a copy in a loop",
                            remedy="jfuse.convert, which writes such copies otherwise; batch= fixes the batch",
                        )


def _twice(file: InLiteRt, process: LiteRt, call: Arrays, key: str) -> Sequence[tuple[str, np.ndarray, np.ndarray]]:
    """The outputs of one call that is made twice, by name; none where LiteRT refuses the sizes."""
    try:
        first, second = (file.call(process, call, key) for _ in range(2))
    except LiteRtFailed:
        raise  # the process ended
    except VerifyFailed:
        return ()
    return [(name, first[name], second[name]) for name in second]


def _need_same(lite: Streaming, calls: Sequence[Arrays], key: str, where: str, start: Start) -> None:
    in_row = InFile(lite, start)
    first, *later = [in_row.run(call, key) for call in (*calls, calls[0])]
    alone = [*(InFile(lite, start).run(call, key) for call in calls[1:]), first]
    for answers, expected in zip(later, alone, strict=True):
        for name, array in expected.items():
            _need_near(answers[name], array, f"output {name!r} of {key!r}", where)


def _need_near(answer: np.ndarray, wanted: np.ndarray, name: str, where: str) -> None:
    if not _is_near(answer, wanted):
        raise VerifyFailed(
            f"the quantized file answers otherwise after a call of another size: {name}",
            expected="the answer of a new interpreter",
            found=f"{_distance(answer, wanted)}, in {where}",
            remedy="batch= fixes the batch; report this model",
        )


def _is_near(answer: np.ndarray, wanted: np.ndarray) -> bool:
    is_float = wanted.dtype.kind == "f"
    return np.allclose(answer, wanted, rtol=0, atol=_APART * _largest(wanted) if is_float else 0, equal_nan=is_float)


def _largest(wanted: np.ndarray) -> float:
    return float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) if wanted.dtype.kind == "f" else 0.0


def _distance(answer: np.ndarray, wanted: np.ndarray) -> str:
    return f"{float(np.nanmax(np.abs(answer.astype('f8') - wanted))):.2g} off, of {_largest(wanted):.2g}"


def _takes(model: Streaming, calls: Sequence[Arrays], key: str, start: Start) -> bool:
    """Whether a runtime takes calls of these sizes, one after the other."""
    try:
        run = InFile(model, start)
        for call in (*calls, calls[0]):
            run.run(call, key)
    except VerifyFailed:
        return False
    return True
