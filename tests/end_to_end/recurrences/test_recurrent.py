"""The matrix of recurrent models: each becomes what it should, and answers like TensorFlow on every invoke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import jfuse
from jfuse.base.measure import relative_error
from jfuse.frontends.tensorflow.signature import TfSignature
from jfuse.model import Model
from jfuse.proof.inputs import size_choices
from jfuse.verification.runners.in_tensorflow import run_tensorflow
from tests.end_to_end.invokes import TOLERANCE, check_invokes, random_inputs, variables_restored
from tests.models.recurrences.recurrent import ROWS, first_of_each_kind
from tests.models.recurrences.recurrent_rows import Row
from tests.slow import every_other

_RECURRENCES = {
    "unidirectional_sequence_lstm": ("lstm", 1),
    "bidirectional_sequence_lstm": ("lstm", 2),
    "lstm": ("lstm", 1),
    "unidirectional_sequence_rnn": ("rnn", 1),
    "bidirectional_sequence_rnn": ("rnn", 2),
    "rnn": ("rnn", 1),
    "svdf": ("svdf", 1),
}
"""What each fused operator counts as."""

_LEAST_PROVEN = 0.95
DEFAULT = first_of_each_kind()
_OF_BOTH = [row.name for row in ROWS if f"tf_{row.name}" in {other.name for other in ROWS}]
_LEFT_OUT = {f"tf_{name}" for i, name in enumerate(_OF_BOTH) if i % 6}
"""Both Keras libraries give loops of the same form: of the cases that both have, tf_keras has every sixth one."""
OTHERS = tuple(row for row in ROWS if row not in DEFAULT and row.name not in _LEFT_OUT)


def test_the_matrix_is_large_and_no_two_rows_are_named_alike() -> None:
    assert len(ROWS) >= 150
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", every_other(DEFAULT), ids=str)
def test_one_of_each_kind(row: Row, tmp_path: Path) -> None:
    # Where a row has inputs or a tolerance of its own, random ones and the usual one are not what it is about.
    check_row(row, tmp_path, verify=row.draw is None and row.tolerance is None)


@pytest.mark.slow
@pytest.mark.parametrize("row", OTHERS, ids=str)
def test_recurrent(row: Row, tmp_path: Path) -> None:
    check_row(row, tmp_path, verify=False)


def check_row(row: Row, folder: Path, *, verify: bool) -> Model:
    """Convert a row's model and check its operators and answers, and that the model is awake."""
    source = row.build(folder)  # owns the variables, which functions hold weakly
    lite = jfuse.convert(source, verify=verify, **row.options)
    check_operators(row, lite.report.operators)
    check_proofs(row, lite)
    check_invokes(lite, row.draw, row.tolerance or TOLERANCE, reset=row.options.get("state") == "reset")
    check_awake(row, lite)
    return lite


def check_operators(row: Row, operators: Mapping[str, int]) -> None:
    """Every recurrence became the op that it should, and the loops that are left are those that should be."""
    assert fused_counts(operators) == row.fused
    assert {name: operators.get(name, 0) for name in row.operators} == row.operators
    if row.loops is not None:
        assert operators.get("while", 0) == row.loops


def check_proofs(row: Row, lite: Model) -> None:
    """Every fusion is proven; of a row that has a reason to be tested some are tested."""
    stopped = [fusion.stopped for fusion in lite.report.fused if fusion.proof != "proven"]
    assert bool(stopped) == bool(row.tested), stopped


def test_nearly_all_fusions_of_the_matrix_are_proven() -> None:
    """As the rows say, which the rows' own tests check."""
    total = sum(sum(row.fused.values()) for row in ROWS)
    tested = {row: sum(row.fused.values()) for row in ROWS if row.tested}
    proven = total - sum(tested.values())
    print(f"{proven} of {total} fusions in {len(ROWS)} rows are proven")
    print(*(f"{row.name}: {row.tested}" for row in tested), sep="\n")
    assert proven / total >= _LEAST_PROVEN


def fused_counts(operators: Mapping[str, int]) -> dict[str, int]:
    """How many recurrences of each family are in fused operators; two directions count twice."""
    fused = Counter[str]()
    for operator, count in operators.items():
        family, directions = _RECURRENCES.get(operator, ("", 0))
        fused[family] += directions * count
    return {family: count for family, count in fused.items() if count}


def check_awake(row: Row, lite: Model) -> None:
    """Negating any of the variables changes the source's answer by far more than the tolerance."""
    assert lite.imported is not None
    for signature in lite.program.signatures:
        function = lite.imported.functions[signature.key]
        sizes = size_choices(signature.graph)[0]
        inputs = row.draw(2) if row.draw else random_inputs(signature, sizes, 2)
        with variables_restored(function):
            before = run_tensorflow(function, inputs)
        asleep = [name for name in _unread(function, inputs, before) if not any(part in name for part in row.asleep)]
        assert asleep == []


def _unread(function: TfSignature, inputs: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]) -> list[str]:
    """The names of the variables that may be negated without a difference."""
    found = []
    for position, variable in enumerate(function.function.variables):
        value = variable.numpy()
        if value.dtype.kind != "f" or not value.any():  # seeds of dropout, and states before the first call
            continue
        with variables_restored(function) as variables:
            variables[position].assign(-value)
            after = run_tensorflow(function, inputs)
        if all(relative_error(after[name], before[name]) <= 1000 * TOLERANCE for name in before):
            found.append(str(variable.name))
    return found
