"""Recipes: the last rule that fits counts, wrong ones are refused, and JSON says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jfuse.errors import JfuseError
from jfuse.ir.types import DType
from jfuse.quantization.recipe import NAMED, QuantizeRule, Recipe
from jfuse.quantization.recipe_json import from_json, load_recipe, recipe_of, to_json


def test_the_last_rule_that_fits_counts() -> None:
    recipe = Recipe((QuantizeRule("dynamic"), QuantizeRule("float", regex="head/"), QuantizeRule("float16", op="MUL")))
    assert recipe.rule_for("body/dense", "FULLY_CONNECTED").mode == "dynamic"
    assert recipe.rule_for("model/head/dense", "FULLY_CONNECTED").mode == "float"
    assert recipe.rule_for("model/head/scale", "MUL").mode == "float16"
    assert Recipe(()).rule_for("x", "MUL").mode == "float"


@pytest.mark.parametrize("name", list(NAMED))
def test_json_says_the_same(name: str) -> None:
    recipe = Recipe.named(name)
    again = from_json(to_json(recipe))
    assert (again.rules, again.inputs, again.outputs) == (recipe.rules, recipe.inputs, recipe.outputs)
    assert again.int8_only == recipe.int8_only


def test_the_form_of_ai_edge_quantizer_is_read() -> None:
    weights = {"num_bits": 4, "symmetric": True, "granularity": "BLOCKWISE_32", "dtype": "INT"}
    config = {"weight_tensor_config": weights, "compute_precision": "INTEGER", "explicit_dequantize": False}
    activations = {"num_bits": 16, "symmetric": True, "granularity": "TENSORWISE", "dtype": "INT"}
    static = {**config, "weight_tensor_config": {**weights, "num_bits": 8, "granularity": "CHANNELWISE"}}
    text = json.dumps(
        [
            {
                "regex": ".*",
                "operation": "FULLY_CONNECTED",
                "algorithm_key": "min_max_uniform_quantize",
                "op_config": config,
            },
            {
                "regex": "conv",
                "operation": "*",
                "algorithm_key": "min_max_uniform_quantize",
                "op_config": {**static, "activation_tensor_config": activations, "min_weight_elements": 7},
            },
            {"regex": "last", "operation": "*", "algorithm_key": "no_quantize"},
        ]
    )
    first, second, third = from_json(text).rules
    assert (first.mode, first.weight_bits, first.granularity, first.block_size) == ("dynamic", 4, "block", 32)
    assert (second.mode, second.activations, second.min_elements) == ("integer", DType.i16, 7)
    assert third.mode == "float"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "int8"}, "no mode 'int8'"),
        ({"weight_bits": 5}, "no weight_bits 5"),
        ({"op": "CONV2D"}, "names no builtin"),
        ({"regex": "("}, "no regular expression"),
        ({"granularity": "block"}, "blocks have a size"),
    ],
)
def test_a_wrong_rule_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(JfuseError, match=message):
        QuantizeRule(**{"mode": "dynamic", **fields})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("3", "another form"),
        ('{"rules": [], "input": "int8"}', r"another form(.|\n)*input"),
        ('[{"regex": ".*"}]', r"rule 0 of mine(.|\n)*algorithm_key"),
        (
            '[{"regex": "", "operation": "*", "algorithm_key": "GPTQ", "op_config": {"weight_tensor_config": {}}}]',
            "no such algorithm",
        ),
    ],
)
def test_a_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(JfuseError, match=message):
        from_json(text, "mine")


def test_names_and_paths_are_told_apart(tmp_path: Any) -> None:
    path = tmp_path / "own.json"
    path.write_text(to_json(Recipe.named("int8", inputs="uint8")))
    assert recipe_of(str(path)).inputs is DType.u8
    assert recipe_of("dynamic") == NAMED["dynamic"]
    with pytest.raises(JfuseError, match=r"no recipe 'int7'(.|\n)*int16x8"):
        recipe_of("int7")
    with pytest.raises(JfuseError, match="cannot be read"):
        load_recipe(tmp_path / "none.json")
    with pytest.raises(JfuseError, match="no type 'int32' for inputs"):
        Recipe.named("int8", inputs="int32")
