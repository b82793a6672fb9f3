"""A random program converted, on XLA and in LiteRT, against TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import jfuse
from jfuse.lowering.rules import Rule
from jfuse.running.interpreter import LiteRt
from tests.properties.values import SIZES, RandomProgram, Unfit

ALL_SIZES: tuple[Mapping[str, int], ...] = (*SIZES, {"B": 1, "T": 1})
_SAFETY = 4  # the error of a program is an estimate: three shifts of its values

Answers = list[tuple[np.ndarray, float]]


def check(program: RandomProgram, *, xla: bool = True, rules: Sequence[Rule] = ()) -> None:
    """LiteRT and XLA answer as TensorFlow does: at every choice of the open sizes, twice in a row at the first.

    xla: leave it out for speed: half of the time goes to its compiler. rules: before the registered ones.
    """
    lite = jfuse.convert(program.function(), rules=rules, verify=False)
    (signature,) = lite.program.signatures
    wanted = list(_wanted(program))
    data = lite.to_bytes()
    for delegates in (True, False):
        runtime = LiteRt(data, delegates=delegates)
        for inputs, answers in [wanted[0], *wanted]:
            found = runtime.run(signature.key, dict(zip(signature.input_names, inputs, strict=True)))
            _compare([found[n] for n in signature.output_names], answers, f"LiteRT, delegates={delegates}")
    if not xla:
        return
    inputs, answers = wanted[0]
    on_xla = lite.run(dict(zip(signature.input_names, inputs, strict=True)))
    _compare([on_xla[n] for n in signature.output_names], answers, "XLA")


def _wanted(program: RandomProgram) -> Iterator[tuple[Sequence[np.ndarray], Answers]]:
    """Inputs with TensorFlow's answers, for all sizes that the program is right for."""
    for number, sizes in enumerate(ALL_SIZES):
        inputs = program.arrays(sizes)
        try:
            answers = program.answers(inputs)
        except Unfit:
            assert number >= len(SIZES), "a program is drawn at these sizes"
            continue
        if all(answer.size for answer, _ in answers):  # others cannot be read from LiteRT ("Invalid tensor size")
            yield inputs, answers


def _compare(found: Sequence[np.ndarray], wanted: Answers, where: str) -> None:
    for number, (result, (answer, error)) in enumerate(zip(found, wanted, strict=True)):
        place = f"{where}: result {number} of {[a.shape for a, _ in wanted]}"
        assert result.dtype == answer.dtype, place
        assert result.shape == answer.shape, f"{place}: {result.shape}"
        if answer.dtype.kind != "f":
            assert np.array_equal(result, answer), f"{place}: {result} instead of {answer}"
            continue
        difference = np.abs(result.astype(np.float64) - answer.astype(np.float64)).max(initial=0.0)
        assert difference <= _SAFETY * error, f"{place}: off by {difference:.2g}, roundings explain {error:.2g}"
