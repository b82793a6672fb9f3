"""Recipes: the last rule that fits counts, wrong ones are refused, and JSON says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.types import DType
from jfuse.quantization.recipe import NAMED, QuantizeRule, Recipe
from jfuse.quantization.recipe_json import from_json, load_recipe, recipe_of, to_json
from jfuse.quantization.recipe_names import NAMES


def test_the_last_rule_that_fits_counts() -> None:
    recipe = Recipe((QuantizeRule("dynamic"), QuantizeRule("float", regex="head/"), QuantizeRule("float16", op="MUL")))
    assert recipe.rule_for("body/dense", "FULLY_CONNECTED").mode == "dynamic"
    assert recipe.rule_for("model/head/dense", "FULLY_CONNECTED").mode == "float"
    assert recipe.rule_for("model/head/scale", "MUL").mode == "float16"
    assert Recipe(()).rule_for("x", "MUL").mode == "float"


def test_the_command_line_knows_the_names() -> None:
    assert tuple(NAMED) == NAMES


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


def test_biases_of_32_bits_are_written_and_read() -> None:
    rule = QuantizeRule("integer", activation_bits=16, bias_bits=32)
    assert (rule.biases, QuantizeRule("integer", activation_bits=16).biases) == (DType.i32, DType.i64)
    assert from_json(to_json(Recipe((rule,)))).rules == (rule,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "int8"}, "no mode 'int8'"),
        ({"weight_bits": 5}, "no weight_bits 5"),
        ({"op": "CONV2D"}, "names no builtin"),
        ({"regex": "("}, "no regular expression"),
        ({"granularity": "block"}, "granularity='block' and block_size="),
        ({"bias_correction": "no"}, "no bias_correction 'no'"),
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
        ('{"rules": [], "int8_only": "no"}', "int8_only of a recipe is True or False"),
        ('{"rules": [], "name": 3}', "name of a recipe is a text"),
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


AI_EDGE = json.loads((Path(__file__).parent / "ai_edge_recipes.json").read_text(encoding="utf-8"))
"""The recipes of ai_edge_quantizer.recipe 0.10.0 by name, as its functions give them; without those that rotate weights
(Hadamard) and those of several files. Names tell what they mean: wi4b32 are weights of 4 bits in blocks of 32."""


@pytest.mark.parametrize("name", AI_EDGE)
def test_recipes_of_ai_edge_quantizer_mean_what_their_names_say(name: str) -> None:
    recipe = from_json(json.dumps(AI_EDGE[name]), name)
    (rule,) = recipe.rules
    words = re.fullmatch(r"(dynamic_legacy|dynamic|weight_only|static)_wi(\d)c?(?:b(\d+))?_a(?:fp32|i(\d+))", name)
    assert words is not None
    kind, bits, block, activations = words.groups()
    mode = {"dynamic_legacy": "dynamic", "static": "integer"}.get(kind, kind)
    assert (rule.mode, rule.weight_bits, rule.block_size) == (mode, int(bits), int(block or 0))
    assert rule.granularity == ("block" if block else "channel")
    assert rule.activation_bits == int(activations or 8)
    assert not rule.symmetric
    assert rule.min_elements == (1024 if kind == "dynamic_legacy" else 0)
    ends = {"8": DType.i8, "16": DType.i16, None: DType.f32}[activations]
    assert (recipe.inputs, recipe.outputs) == (ends, ends), "inputs and outputs are operators there"
    (again,) = json.loads(to_json(recipe))
    theirs = AI_EDGE[name][0]
    defaults = {"skip_checks": False}
    theirs["op_config"]["weight_tensor_config"].pop("block_size", None)  # 0, beside a granularity without blocks
    assert {**again, "op_config": {**defaults, **again["op_config"]}} == theirs


def theirs(weights: dict[str, Any] | None = None, config: dict[str, Any] | None = None, **rule: Any) -> dict[str, Any]:
    """A rule of integers in their form, with changes."""
    (plain,) = json.loads(json.dumps(AI_EDGE["static_wi8_ai8"]))
    plain["op_config"]["weight_tensor_config"] |= weights or {}
    return {**plain, "op_config": {**plain["op_config"], **(config or {})}, **rule}


NO_INPUT, NO_OUTPUT = (theirs(operation=of, algorithm_key="no_quantize") for of in ("INPUT", "OUTPUT"))
HALF = {"activation_tensor_config": None, "compute_precision": "FLOAT", "explicit_dequantize": True}


@pytest.mark.parametrize(
    ("rules", "ends"),
    [
        ([theirs()], (DType.i8, DType.i8)),
        ([theirs(), NO_INPUT], (DType.f32, DType.i8)),
        ([theirs(), NO_OUTPUT], (DType.i8, DType.f32)),
        ([NO_INPUT, theirs(), NO_OUTPUT], (DType.i8, DType.f32)),
        ([theirs(regex="head/")], (DType.f32, DType.f32)),
        ([theirs(operation="ADD")], (DType.f32, DType.f32)),
        ([theirs(operation="ADD"), theirs(operation="INPUT")], (DType.i8, DType.f32)),
        ([theirs(), theirs(config=HALF)], (DType.f32, DType.f32)),
    ],
)
def test_inputs_and_outputs_are_operators_there(rules: list[dict[str, Any]], ends: tuple[DType, DType]) -> None:
    recipe = from_json(json.dumps(rules))
    assert (recipe.inputs, recipe.outputs) == ends
    assert len(recipe.rules) == sum(r["operation"] not in ("INPUT", "OUTPUT") for r in rules)
    assert from_json(to_json(recipe)) == recipe


def test_floats_outside_are_told_in_their_form() -> None:
    written = json.loads(to_json(Recipe.named("int8", outputs="int8")))
    assert [(r["operation"], r["algorithm_key"]) for r in written] == [
        ("*", "min_max_uniform_quantize"),
        ("INPUT", "no_quantize"),
    ]


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        (theirs(operation="CONV_2D_TRANSPOSE"), {"op": "TRANSPOSE_CONV"}),
        (theirs(algorithm_key="GPTQ"), {"weight_algorithm": "gptq"}),
        (theirs(algorithm_key="OCTAV"), {"weight_algorithm": "mse"}),
        (theirs(algorithm_key="dequantized_weight_recovery"), {"weight_algorithm": "minmax"}),
        (theirs({"granularity": "BLOCKWISE", "block_size": 64}), {"granularity": "block", "block_size": 64}),
        (theirs({"num_bits": 16, "dtype": "FLOAT"}, HALF, algorithm_key="float_casting"), {"mode": "float16"}),
    ],
)
def test_what_both_have_by_other_names(rule: dict[str, Any], fields: dict[str, Any]) -> None:
    (found,) = from_json(json.dumps([rule])).rules
    assert {name: getattr(found, name) for name in fields} == fields
    (again,) = from_json(to_json(Recipe((found,)))).rules
    assert again == found


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (theirs(algorithm_key="OSCAR"), "no such algorithm"),
        (theirs(algorithm_key="DECOMPOSED_HADAMARD_ROTATION"), "DECOMPOSED_HADAMARD_ROTATION"),
        (theirs(regexp="head/"), r"a rule of a recipe has other fields(.|\n)*regexp"),
        (theirs(config={"min_weight_element": 3}), r"op_config of a recipe has other fields(.|\n)*min_weight_element'"),
        (theirs({"granularty": "TENSORWISE"}), r"weight_tensor_config of a recipe has other fields(.|\n)*granularty"),
        (theirs(jfuse={"op": "ADD"}), r"jfuse of a recipe has other fields(.|\n)*bias_correction"),
        (theirs({"symmetric": False}), r"no such weights(.|\n)*symmetric INT"),
        (theirs({"dtype": "FLOAT"}), r"no such weights(.|\n)*symmetric INT"),
        (theirs({"algorithm_params": {"damping": 1}}), r"no such weights(.|\n)*damping"),
        (theirs(algorithm_key="float_casting"), r"no such weights(.|\n)*symmetric FLOAT"),
        (theirs({"num_bits": 32, "dtype": "FLOAT"}, algorithm_key="float_casting"), "FLOAT of 16 bits"),
        (theirs({"granularity": "ROWWISE"}), "ROWWISE"),
        (theirs(config={"compute_precision": "FLOAT"}), "no such activations"),
        (theirs(config={"activation_tensor_config": {"num_bits": 16, "symmetric": False}}), "no such activations"),
        (theirs(config={"activation_tensor_config": {"num_bits": 16, "dtype": "FLOAT"}}), "no such activations"),
        (theirs(operation="INPUT", regex="image"), r"all inputs of a model have one type(.|\n)*'image'"),
        (theirs(operation=["ADD"]), "another form"),
        (theirs(operation="RNN_2D"), "names no builtin"),
    ],
)
def test_what_jfuse_does_not_do_is_refused_by_name(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(JfuseError, match=message):
        from_json(json.dumps([rule]), "mine")
