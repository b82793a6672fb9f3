"""Remedies in the command line's spelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from jfuse.cli.app import app
from jfuse.cli.spelling import as_options, from_tflite_convert
from jfuse.frontends.keras_archive import OWN_LAYERS

REFUSALS = Path(__file__).parents[2] / "jfuse" / "refusals.md"


@pytest.mark.parametrize(
    ("library", "shell"),
    [
        ('Promise it: `padding="right"`.', "Promise it: `--padding right`."),
        ("convert with state='io', or", "convert with --state io, or"),
        ('padding="causal" of Keras', 'padding="causal" of Keras'),
        ('conv_2d[padding="SAME" stride_w=2]', 'conv_2d[padding="SAME" stride_w=2]'),
        ("unsafe=True for a source", "--unsafe for a source"),
        ("verify=False writes it", "--no-verify writes it"),
        ("jfuse.Verify(inputs=…) with inputs, or verify=False", "--inputs data.npz with inputs, or --no-verify"),
        ('forms=jfuse.Forms(loop="auto"), and', "--loop auto, and"),
        ("inputs=jfuse.Inputs(output_tensors=['y:0']), if", "--output-tensors y:0, if"),
        ('jfuse.Inputs(shapes={"x": (…)}) states', "--shape x=SIZES states"),
        ("pipeline=jfuse.Pipeline(select_tf_ops=True) or jfuse.parse(text)", "--select-tf-ops or jfuse.parse(text)"),
        ("output_tensors=[…], names of its tensors", "--output-tensors NAMES, names of its tensors"),
        ("output_tensors=['a/b:0', 'c'], if", "--output-tensors a/b:0,c, if"),
        (
            'calibration="random" tries it, calibration=… not',
            "--calibration random tries it, --calibration data.npz not",
        ),
        ("signatures=[…] names those", "--signature KEY names those"),
        ('custom_ops={"Dawsn": None} writes it', "--custom-op Dawsn writes it"),
        ("x=3, y=[1]", "x=3, y=[1]"),
        ("input_tensors= and output_tensors= name tensors", "--input-tensors and --output-tensors name tensors"),
        ("batch= is no size", "--batch is no size"),
        ("x= is nothing", "x= is nothing"),
        ('quantize="int8", or another', "--quantize int8, or another"),
        (f"yours; {OWN_LAYERS}", "yours; for layers of your own, --import MODULE, which defines and registers them"),
    ],
)
def test_keywords_are_options(library: str, shell: str) -> None:
    assert as_options(library) == shell


def test_every_option_that_a_remedy_names_is_one() -> None:
    commands = get_command(app).commands.values()  # type: ignore[attr-defined]
    known = {o for c in commands for p in c.params for o in (*p.opts, *p.secondary_opts)}
    text = as_options(REFUSALS.read_text(encoding="utf-8"))
    named = set(re.findall(r"(?<![\w|-])--[a-z-]+", text))
    assert "--padding" in named
    assert named <= known


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--saved_model_dir=m", "--output_file=m.tflite"], ["m", "-o", "m.tflite"]),
        (["--keras_model_file", "m.h5", "--output_file", "m.tflite"], ["m.h5", "-o", "m.tflite"]),
        (["--saved_model_signature_key", "double", "m"], ["--signature", "double", "m"]),
        (["--saved_model_tag_set=serve", "m"], ["m"]),
        (["--saved_model_tag_set", "serve", "m"], ["m"]),
        (["--saved_model_tag_set=gpu", "m"], ["--saved_model_tag_set=gpu", "m"]),
        (["--experimental_new_converter", "m"], ["m"]),
        (["--experimental_new_converter=false", "--experimental_new_quantizer", "True", "m"], ["m"]),
        (
            ["--enable_v1_converter", "--graph_def_file=g.pb", "--input_arrays=x", "--output_arrays", "y,z"],
            ["g.pb", "--input-tensors", "x", "--output-tensors", "y,z"],
        ),
        (["m", "-o", "x=y.tflite", "--no-verify"], ["m", "-o", "x=y.tflite", "--no-verify"]),
    ],
)
def test_flags_of_tflite_convert(given: list[str], wanted: list[str]) -> None:
    assert from_tflite_convert(given) == wanted
