"""The coverage page: it is what the registries say now, and nothing is missing without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from jfuse.kernels import ops
from jfuse.kernels.core.op import builtin_ops
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import LowerRule, lowers
from jfuse.reports import coverage
from jfuse.tflite.runtime.table import reason_for
from jfuse.tflite.schema import BUILTIN_CODES
from tests.op_cases import FAMILIES
from tests.op_cases.case import Case
from tests.op_cases.runners import graph_of

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_what_the_generator_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == coverage.markdown(), "run: jfuse ops --markdown > docs/ops.md"


def test_every_builtin_is_listed_with_a_kernel_or_a_reason() -> None:
    listed = coverage.builtins()
    assert {b.name: b.code for b in listed} == dict(BUILTIN_CODES)
    assert [b.name for b in listed if not b.kernel and not b.reason] == []
    assert {b.name for b in listed if b.kernel} == builtin_ops().keys() | {"WHILE", "IF"}


def test_every_rule_is_listed() -> None:
    assert default_rules().lowers.keys() <= {op.name for op in coverage.tensorflow_ops()}


def test_builtins_of_a_rule_are_those_that_it_names() -> None:
    spelled = {op.name: op.builtins for op in coverage.tensorflow_ops()}
    assert "RELU" in spelled["Relu"]
    assert {"CONV_2D", "TRANSPOSE"} <= set(spelled["Conv2D"])
    assert spelled["StopGradient"] == ()
    assert spelled["AddV2"] == ("ADD",)  # sizes that operands need at run time are left aside
    assert "RANGE" in spelled["CTCGreedyDecoder"]


@pytest.mark.parametrize(
    ("function", "builtins"),
    [
        (lambda x: ops.abs_(ops.add(x, x)), {"ABS", "ADD"}),
        (lambda x: [ops.mul(y, y) for y in x], {"MUL"}),
        (ops.relu, {"RELU"}),
        (lambda x: x, set()),
    ],
)
def test_builtins_are_found_in_code(function: object, builtins: set[str]) -> None:
    rule = LowerRule(("Odd",), function)  # type: ignore[arg-type]
    assert coverage.used_builtins(rule) == builtins


def test_helpers_count_where_they_are_jfuse_s() -> None:
    """What a user's rule calls elsewhere is not looked into; what it captures is."""

    def outer(op: object) -> LowerRule:
        return lowers("Odd", default=False)(lambda x: op(x))  # type: ignore[operator]

    assert coverage.used_builtins(outer(ops.neg)) == {"NEG"}


def rows() -> list[Case]:
    """One row of each op."""
    return list({row.op: row for family in FAMILIES.values() for row in family if row.op in SAMPLE}.values())


SAMPLE = ("Softplus", "Conv2D", "ResizeBicubic", "LogSoftmax", "Selu", "FusedBatchNormV3", "Einsum", "GatherNd")


def test_rows_use_no_other_builtins_than_listed() -> None:
    spelled = {op.name: set(op.builtins) for op in coverage.tensorflow_ops()}
    for row in rows():
        used = {eqn.op.builtin for eqn in graph_of(row).eqns if hasattr(eqn.op, "builtin")}
        assert used <= spelled[row.op], row.id


def test_one_op_of_tensorflow() -> None:
    text = "\n".join(coverage.about("Conv2D"))
    assert text.startswith("Conv2D of TensorFlow\n  rule      lowering/ops/nn/conv.py lower_conv_2d\n")
    assert "types     CONV_2D takes f32" in text


def test_one_builtin() -> None:
    text = "\n".join(coverage.about("relu6"))
    assert text.startswith("RELU6, builtin 21 of TFLite\n  kernel    kernels/nn/activation.py\n")
    assert "ops       Relu6" in text
    assert "no kernel the runtime has no kernel" in "\n".join(coverage.about("CALL"))


def test_a_composite() -> None:
    assert coverage.about("jfuse.lstm")[0] == "composite jfuse.lstm"


def test_what_nobody_spells() -> None:
    text = "\n".join(coverage.about("DecodePng"))
    assert text.startswith("DecodePng is no op that jfuse reads\n  instead   do it before the model")
    assert 'custom_ops={"DecodePng": None}' in text
    assert "near are Conv2D" in coverage.about("Conv2")[0]


@pytest.mark.parametrize(
    ("builtin", "reason"),
    [
        ("STABLEHLO_ABS", "and the runtime has no kernel"),
        ("STABLEHLO_SHIFT_LEFT", "the others say the same"),
        ("DELEGATE", "made by the runtime"),
        ("ADD", ""),
    ],
)
def test_reasons(builtin: str, reason: str) -> None:
    found = reason_for(builtin)
    assert found.endswith(reason) if builtin.startswith("STABLE") else reason in found
    assert bool(found) == bool(reason)


def test_listing_has_a_line_for_each_op() -> None:
    lines = coverage.listing()
    assert any(line.startswith("Relu: ") and "RELU" in line for line in lines)
    assert any(line.startswith("no kernel for STABLEHLO_ABS: ") for line in lines)


def test_what_the_importer_reads_without_a_rule_is_listed() -> None:
    listed = {op.name: op for op in coverage.tensorflow_ops()}
    assert "names it" in listed["Assert"].about
    assert listed["Switch"].place == "jfuse/frontends/tensorflow/functional.py"
    assert listed["While"].place == "jfuse/frontends/tensorflow/control.py"
    assert "VariableV2" not in listed


def test_no_reason_is_left_for_what_has_a_kernel() -> None:
    assert [
        b.name for b in coverage.builtins() if b.kernel and not b.name.startswith("STABLEHLO") and reason_for(b.name)
    ] == []
