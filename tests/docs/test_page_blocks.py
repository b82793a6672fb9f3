"""Every python block of every page runs: marked ones from top to bottom (test_docs.py), others after what they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_docs import PAGES
from tests.docs.test_docs import own_rules as own_rules  # a fixture

KERAS = """
import keras, numpy as np, jfuse
keras.utils.set_random_seed(0)
source = model = keras.Sequential([
    keras.Input((None, 3), name="sequence"), keras.layers.Masking(), keras.layers.LSTM(4), keras.layers.Dense(2)
])
x = np.ones((1, 5, 3), np.float32)
samples = [np.random.default_rng(i).normal(size=(1, 5, 3)).astype(np.float32) for i in range(4)]
"""
FILES = """
jfuse.convert(model, verify=False).save("float.tflite")
"""
COMPILED = """
import keras, numpy as np, jfuse
lstm = keras.Sequential([keras.Input((5, 3), 1), keras.layers.LSTM(4)])
jfuse.convert(lstm, target="compiled-model", verify=False).save("model.tflite")
x, count = np.ones((1, 5, 3), np.float32), 4
"""
GUARDED = """
import numpy as np, tensorflow as tf, jfuse
class Guarded(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([3], tf.int32, name="ids")], autograph=False)
    def __call__(self, ids):
        with tf.control_dependencies([tf.debugging.assert_equal(ids, [3, 14, 15])]):
            return {"y": tf.cast(ids, tf.float32) * 2.0}
module = Guarded()
tf.saved_model.save(module, "saved_model", signatures=module.__call__)
"""
RUN_ELSEWHERE = "<!-- runs"  # by test_docs.py

FIRST_LINES: dict[tuple[str, str], str] = {
    ("converter", "from jfuse import lite  # was: from tensorflow import lite"): KERAS,
    ("masks", "result = jfuse.convert(model, forms="): KERAS,
    ("pytorch", "import torch"): "",
    ("pytorch", "class Decoder(torch.nn.Module):"): "import torch, jfuse\n",
    ("quantization", "import jfuse"): KERAS + FILES,
    ("quantization", "from jfuse import QuantizeRule, Recipe"): "",
    ("quantization", "from jfuse.reports import write_noise_explorer"): KERAS
    + FILES
    + 'jfuse.convert(model, quantize="int8", calibration=samples, verify=False).save("int8.tflite")\n'
    + 'result = jfuse.convert(model, quantize="int8", calibration=samples, verify=False)\n',
    ("quantization", 'jfuse.quantize(source, "int8", samples, target='): KERAS
    + "accuracy = lambda outputs: -float(np.abs(next(iter(outputs.values()))).mean())\n",
    ("quantization", 'jfuse.convert(source, quantize="int8", calibration=first'): KERAS
    + "first_half, second_half = samples[:2], samples[2:]\n",
    ("recurrent", "result = jfuse.convert(model)"): KERAS,
    ("reports", "from jfuse.reports import write_html"): KERAS,
    ("targets", "from ai_edge_litert.compiled_model import CompiledModel"): COMPILED,
    ("verify", 'inputs = {"ids"'): GUARDED,
}
"""What a block needs that its page describes in words, by the page and how the block begins."""
FRAGMENTS: dict[tuple[str, str], str] = {
    ("architecture", "@peephole(lambda x: ops.cast(x))"): "a rule of lowering/peephole, with its tests there",
    ("bench", 'result = jfuse.bench("saved_model/", batch=1)'): "tests/benchmark measures such a folder",
    ("jax", '@jfuse.lowers_jax("mulhi")'): "the head of a rule",
    ("options", "result = jfuse.convert("): "all kinds of options in one call",
    ("own_rnn", '@tf.function(experimental_implements="acme.ProjectedLstm")'): "a part of examples/own_lstm.py",
    ("pytorch", '@jfuse.lowers_torch("aten.special_bessel_j0")'): "the head of a rule",
    ("scaling", "import jax"): "for a cluster; tests/verification/runners/test_processes.py has two processes",
}
"""Blocks that are parts of something else, and what runs that."""


def blocks() -> Iterator[tuple[str, str]]:
    """The unmarked python blocks: page and code."""
    for page in PAGES:
        inside, marked = False, False
        code: list[str] = []
        for line in page.read_text(encoding="utf-8").splitlines():
            if inside and line.startswith("```"):
                yield page.stem, "\n".join(code) + "\n"
                inside = False
            elif inside:
                code.append(line)
            elif line == "```python" and not marked:
                inside, code = True, []
            marked = line.startswith(RUN_ELSEWHERE)


def known(page: str, code: str, table: dict[tuple[str, str], str]) -> list[tuple[str, str]]:
    return [key for key in table if key[0] == page and code.startswith(key[1])]


def test_every_block_is_run_or_a_part_of_what_is() -> None:
    found = [(page, code, known(page, code, FIRST_LINES | FRAGMENTS)) for page, code in blocks()]
    assert [(page, code.splitlines()[0]) for page, code, keys in found if len(keys) != 1] == []
    assert {key for *_, keys in found for key in keys} == {*FIRST_LINES, *FRAGMENTS}


@pytest.mark.slow
@pytest.mark.usefixtures("own_rules")
@pytest.mark.parametrize("key", FIRST_LINES, ids=lambda key: f"{key[0]}-{key[1].split()[0]}")
def test_a_block_runs_after_what_it_needs(
    key: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = [code for page, code in blocks() if known(page, code, {key: ""})]
    if "torch" in code:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "block.py"
    script.write_text(FIRST_LINES[key] + code, encoding="utf-8")
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "block"})
