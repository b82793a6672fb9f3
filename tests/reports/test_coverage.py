"""The coverage page: it is what the registries say now, and nothing is missing without a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jfuse.kernels.core.op import builtin_ops
from jfuse.lowering.defaults import default_rules
from jfuse.reports import coverage
from jfuse.tflite.runtime.table import reason_for
from jfuse.tflite.schema import BUILTIN_CODES

README = Path(__file__).parents[2] / "README.md"


def test_the_tables_have_a_row_for_each_builtin_and_op() -> None:
    rows = [line.strip("| ").split(" | ") for line in coverage.markdown().splitlines() if line.startswith("| ")]
    listed, ops = coverage.builtins(), coverage.tensorflow_ops()
    have, lack = [b for b in listed if b.kernel], [b for b in listed if not b.kernel]
    names = ["builtin", *(b.name for b in have), "builtin", *(b.name for b in lack), "op", *(o.name for o in ops)]
    assert [row[0] for row in rows] == names
    assert {len(row) for row in rows[: len(have) + 1]} == {5}
    assert "| CONV_2D | 3 | kernels/nn/conv.py | f32 | Conv, Conv2D, " in coverage.markdown()


def test_readme_counts_the_ops() -> None:
    promised = re.search(r"more than (\d+) TensorFlow ops", README.read_text(encoding="utf-8"))
    assert promised
    assert len(coverage.tensorflow_ops()) > int(promised[1])


def test_every_builtin_is_listed_with_a_kernel_or_a_reason() -> None:
    listed = coverage.builtins()
    assert {b.name: b.code for b in listed} == dict(BUILTIN_CODES)
    assert [b.name for b in listed if not b.kernel and not b.reason] == []
    assert {b.name for b in listed if b.kernel} == builtin_ops().keys() | {"WHILE", "IF", "STABLEHLO_COMPOSITE"}


def test_every_rule_is_listed() -> None:
    assert default_rules().lowers.keys() <= {op.name for op in coverage.tensorflow_ops()}


def test_builtins_of_an_op() -> None:
    spells = {op.name: op.builtins for op in coverage.tensorflow_ops()}
    assert spells["Relu"] == ("MAXIMUM", "RELU")  # of integers MAXIMUM
    assert {"CONV_2D", "TRANSPOSE"} <= set(spells["Conv2D"])
    assert spells["StopGradient"] == ()
    assert spells["AddV2"] == ("ADD",)  # sizes that operands need at run time are left aside
    assert spells["Shape"] == ("SHAPE",)


def test_composites_say_what_they_become() -> None:
    makes = {name: rule.makes for name, rule in default_rules().fuses.items()}
    assert [name for name, builtins in makes.items() if not builtins] == []
    assert {b for builtins in makes.values() for b in builtins} <= builtin_ops().keys()
    (lstm,) = (b for b in coverage.builtins() if b.name == "UNIDIRECTIONAL_SEQUENCE_LSTM")
    assert lstm.composites == ("jfuse.lstm", "keras.lstm", "keras_lstm")


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
    assert 'custom_ops=["DecodePng"]' in text
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
