"""Every row of tests/op_cases against TensorFlow: on arrays, as a graph on XLA, and as a file in LiteRT.

A test is one op, so that `-k Conv2D` runs the rows of Conv2D; it names each row that fails, and the run that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.kernels.core.op import builtin_ops, depends_on_data
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import LowerRule
from jfuse.reports import coverage
from tests.generated import COMMAND
from tests.op_cases import FAMILIES, GAPS, MODULES, RULE_GAPS
from tests.op_cases.case import Case, case, f32
from tests.op_cases.compare import assert_close
from tests.op_cases.failures import Failures
from tests.op_cases.oracle import tensorflow_results
from tests.op_cases.runners import BATCH, as_arrays, graph_of, litert_results, on_arrays, xla_results
from tests.op_cases.spelled import spelled
from tests.processor import NO_HALVES, compiles_halves

ROWS = [row for rows in FAMILIES.values() for row in rows]


def rows_by_op() -> dict[str, list[Case]]:
    """The rows of each TensorFlow op."""
    found: dict[str, list[Case]] = {}
    for row in ROWS:
        found.setdefault(row.op, []).append(row)
    return found


OPS: Mapping[str, list[Case]] = rows_by_op()
# The rule on arrays runs each of its steps as a program of its own, which jax compiles for each shape.
BOTH = (False, True)


def quick_modes(row: Case) -> tuple[bool, ...]:
    """The x64 modes of the default suite's runs on arrays: both for an op's first row. The slow test has the rest.

    Other rows run the same rule as a graph, whose ops are those that it calls with arrays.
    """
    return BOTH if row is OPS[row.op][0] else ()


def runs_of(rows: list[Case]) -> list[tuple[Case, bool, str]]:
    """Each row at its sizes, and with an open batch where it is dynamic; with a name."""
    return [
        (row, dynamic, f"{row.id}-dynamic" if dynamic else row.id)
        for row in rows
        for dynamic in ((False, True) if row.dynamic else (False,))
    ]


def types_for(graph: Graph, row: Case) -> list[TensorType]:
    """The result types of a graph at the row's own sizes."""
    first = row.inputs[0].shape if row.inputs else ()
    return [a.type.substitute({BATCH: first[0]} if first else {}) for a in graph.outputs]


def masked(tensor_type: TensorType, mask: TensorType) -> tuple[DType, list[int | None]]:
    """A type without the sizes that `mask` leaves open."""
    pairs = zip(tensor_type.shape, mask.shape, strict=True)
    return tensor_type.dtype, [int(d) if is_known(m) else None for d, m in pairs]


def check_on_arrays(row: Case, modes: Iterable[bool], failures: Failures) -> None:
    """The rule computes TensorFlow's results, whatever the user's x64 is."""
    for x64 in modes:
        with failures.of(f"{row.id} on arrays, x64={x64}"):
            with jax.enable_x64(x64):
                found = on_arrays(row)
            assert all(isinstance(f, np.ndarray) for f in found)
            assert_close(found, tensorflow_results(row), row.tolerance)


def check_types(row: Case, dynamic: bool) -> None:
    """The types of the graph are those of TensorFlow's results."""
    graph = graph_of(row, dynamic=dynamic)
    check_graph(graph)
    wanted = [TensorType(w.shape, DType.of(w.dtype)) for w in tensorflow_results(row)]
    found = types_for(graph, row)
    if any(map(depends_on_data, all_eqns(graph))):  # there are symbols that no shape explains
        assert [masked(t, t) for t in found] == [masked(w, f) for w, f in zip(wanted, found, strict=True)]
    else:
        assert found == wanted


def check_in_litert(row: Case, dynamic: bool, delegates: bool) -> None:
    """The row's file answers as TensorFlow does, on two invokes in a row."""
    for found in litert_results(row, delegates=delegates, dynamic=dynamic):
        assert_close(found, tensorflow_results(row), row.tolerance)


@pytest.mark.parametrize("op", OPS)
def test_rows(op: str) -> None:
    check_rows(runnable(OPS[op]))


def runnable(rows: Sequence[Case]) -> list[Case]:
    """The rows that XLA can compile for this processor; the test is skipped where there is none."""
    found = [row for row in rows if not has_halves(row) or compiles_halves()]
    if not found:
        pytest.skip(NO_HALVES)
    return found


def has_halves(row: Case) -> bool:
    """Whether f16 is among the operands or the results of a row."""
    return any(o.dtype is DType.f16 for o in row.operands) or any(
        w.dtype == np.float16 for w in tensorflow_results(row)
    )


def check_rows(rows: list[Case]) -> None:
    """Each row's types, its results on XLA and in LiteRT, and for some the rule's on arrays."""
    failures, runs = Failures(), runs_of(rows)
    on_xla: dict[tuple[Case, bool], tuple[Any, ...]] = {}
    with failures.of("the program of all rows on XLA"):
        on_xla = xla_results([(row, dynamic) for row, dynamic, _ in runs])
    for row, dynamic, name in runs:
        with failures.of(f"{name}, types"):
            check_types(row, dynamic)
        with failures.of(f"{name} on XLA"):
            assert_close(as_arrays(on_xla[row, dynamic]), tensorflow_results(row), row.tolerance)
        for delegates in (False, True) if row.litert is None else ():
            with failures.of(f"{name} in LiteRT, delegates={delegates}"):
                check_in_litert(row, dynamic, delegates)
    for row in rows:
        check_on_arrays(row, quick_modes(row), failures)
    failures.check()


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_other_rows_on_arrays(family: str) -> None:
    failures = Failures()
    for row in runnable(FAMILIES[family]):
        check_on_arrays(row, set(BOTH).difference(quick_modes(row)), failures)
    failures.check()


def test_every_row_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the test: where a rule is wrong, each run of each of its rows is in the message, and no other."""
    monkeypatch.setitem(default_rules().lowers, "Neg", LowerRule(("Neg",), ops.abs_))
    wrong = [case("Neg", args=[f32(2, 3)], dynamic=True), case("Neg", args=[f32(4, 3)])]
    with pytest.raises(AssertionError) as caught:
        check_rows([case("Abs", args=[f32(2, 3)]), *wrong])
    places = ("on XLA", "in LiteRT, delegates=False", "in LiteRT, delegates=True")
    names = ("neg-f32[2,3]", "neg-f32[2,3]-dynamic", "neg-f32[4,3]")
    found = re.findall(r"^(\S+ (?:on|in) .*): AssertionError:", str(caught.value), re.MULTILINE)
    assert found == [f"{name} {place}" for name in names for place in places]


def test_ids_are_unique() -> None:
    ids = [row.id for row in ROWS]
    assert sorted(set(ids)) == sorted(ids)


def home_of(rule: LowerRule) -> str:
    """The module of lowering/ops that a rule stands in; "" where a helper of another module has made it."""
    name, home = getattr(rule.function, "__qualname__", "<"), getattr(rule.function, "__module__", "")
    return home.removeprefix(RULES) if home.startswith(RULES) and "<" not in name else ""


RULES = "jfuse.lowering.ops."
HOMES = {op: home for op, rule in default_rules().lowers.items() if (home := home_of(rule))}


def homes_of(rows: ModuleType) -> set[str]:
    """The rule modules that a file of rows names in its docstring."""
    return {name.replace("/", ".") for name in re.findall(r"lowering/ops/([\w/]+)\.py", rows.__doc__ or "")}


def test_every_rule_module_has_a_file_of_rows_with_its_name() -> None:
    files = {module.__name__.removeprefix("tests.op_cases.") for module in MODULES}
    named = {home for module in MODULES for home in homes_of(module)}
    assert set(HOMES.values()) - files == set(), "rule modules without a file of rows"
    assert named == set(HOMES.values()), "files of rows of rule modules that there are not"
    assert len(FAMILIES) == len(files), "two files of one name"


def test_rows_stand_in_a_file_of_their_rule() -> None:
    found = {(row.op, module) for module in MODULES for row in module.CASES}
    assert [(op, m.__name__) for op, m in found if op in HOMES and HOMES[op] not in homes_of(m)] == []
    assert len(found) == len(OPS), "rows of one op stand in two files"


def test_every_rule_has_a_row() -> None:
    gaps = {gap.op for gap in RULE_GAPS}
    assert {op for op, home in HOMES.items() if op not in OPS} - gaps == set(), "rules without a row and without a Gap"
    assert gaps & OPS.keys() == set(), "ops with a Gap that have a row"
    assert gaps - default_rules().lowers.keys() == set(), "a Gap for what has no rule"


def test_every_op_is_reached_by_a_row() -> None:
    graphs = [graph_of(row, dynamic=dynamic) for row in ROWS for dynamic in {False, row.dynamic}]
    reached = {getattr(eqn.op, "builtin", None) for graph in graphs for eqn in all_eqns(graph)}
    gaps = {gap.op for gap in GAPS}
    assert builtin_ops().keys() - reached - gaps == set(), "ops without a row and without a Gap"
    assert gaps & reached == set(), "ops with a Gap that a row reaches"
    assert gaps - builtin_ops().keys() == set(), "a Gap for what is no op"
    # In this test, as it has traced all rows.
    assert {op: list(b) for op, b in coverage.spelled().items()} == spelled(), COMMAND
