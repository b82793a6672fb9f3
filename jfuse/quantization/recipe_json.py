"""Recipes as JSON: in ai-edge-quantizer's form where it can say them, which is a list of rules.

What that form lacks is said in two ways more: a rule may have a table "jfuse" with further fields, and the whole may be
a table with "rules" and the fields of the recipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from jfuse.errors import JfuseError
from jfuse.files import need_regular
from jfuse.option_values import several
from jfuse.quantization.recipe import IN_TURN, Mode, QuantizeRule, Recipe

_NO_QUANTIZE, _CASTING, _MINMAX, _MSE = "no_quantize", "float_casting", "min_max_uniform_quantize", "MSE"
_ALGORITHMS = {"minmax": _MINMAX, "mse": _MSE, IN_TURN: "jfuse.gptq"}
_MODES: Mapping[tuple[str, bool], Mode] = {  # compute_precision, explicit_dequantize
    ("FLOAT", True): "weight_only",
    ("FLOAT", False): "weight_only",
    ("INTEGER", False): "dynamic",
}
_GRANULARITIES = {"tensor": "TENSORWISE", "channel": "CHANNELWISE", "block": "BLOCKWISE"}
_EXTRA = ("range_algorithm", "bias_correction")
_OF_RECIPE = ("name", "inputs", "outputs", "int8_only", "equalization")


def to_json(recipe: Recipe) -> str:
    """The recipe as JSON: a list in ai-edge-quantizer's form, or a table where there is more to say."""
    rules = [_rule(rule) for rule in recipe.rules]
    default = Recipe(())
    more = {n: _plain(v) for n in _OF_RECIPE if (v := getattr(recipe, n)) != getattr(default, n)}
    return json.dumps({**more, "rules": rules} if more.keys() - {"name"} else rules, indent=1) + "\n"


def from_json(text: str, name: str = "of your own") -> Recipe:
    """The recipe in a JSON text; raises JfuseError where it says something else, or what jfuse does not do."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JfuseError("a recipe is no JSON", where=name, found=str(error)) from error
    table = found if isinstance(found, Mapping) else {"rules": found}
    unknown = table.keys() - {"rules", *_OF_RECIPE}
    rules = table.get("rules")
    if unknown or not isinstance(rules, list) or not all(isinstance(r, Mapping) for r in rules):
        raise JfuseError(
            "a recipe has another form",
            where=name,
            expected="a list of rules",
            found=sorted(unknown) or repr(rules)[:80],
        )
    given = {n: table[n] for n in _OF_RECIPE if n in table}
    return Recipe(tuple(_rule_of(r, f"rule {i} of {name}") for i, r in enumerate(rules)), **{"name": name, **given})


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in a JSON file."""
    try:
        text = need_regular(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JfuseError(f"{path} cannot be read as a recipe", found=str(error)) from error
    return from_json(text, str(path))


def recipe_of(given: Recipe | str | Path | Iterable[QuantizeRule]) -> Recipe:
    """A recipe by name, in a .json file, or of rules, as one."""
    if isinstance(given, Recipe):
        return given
    if isinstance(given, str | Path):
        return load_recipe(given) if str(given).endswith(".json") else Recipe.named(str(given))
    return Recipe(several("a recipe", given, "jfuse.QuantizeRule"))


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)


def _rule(rule: QuantizeRule) -> dict[str, Any]:
    found: dict[str, Any] = {"regex": rule.regex, "operation": rule.op}
    if rule.mode == "float":
        return {**found, "algorithm_key": _NO_QUANTIZE, "op_config": {}}
    is_half = rule.mode == "float16"
    granularity = _GRANULARITIES[rule.granularity] + (f"_{rule.block_size}" if rule.block_size else "")
    weights = {"num_bits": 16 if is_half else rule.weight_bits, "symmetric": True, "granularity": granularity}
    config: dict[str, Any] = {
        "weight_tensor_config": {**weights, "dtype": "FLOAT" if is_half else "INT"},
        "compute_precision": "FLOAT" if rule.mode in ("float16", "weight_only") else "INTEGER",
        "explicit_dequantize": rule.mode in ("float16", "weight_only"),
        "min_weight_elements": rule.min_elements,
    }
    if rule.mode == "integer":
        symmetric = rule.symmetric or rule.activation_bits == 16
        activations = {"num_bits": rule.activation_bits, "symmetric": symmetric, "granularity": "TENSORWISE"}
        config["activation_tensor_config"] = {**activations, "dtype": "INT"}
    key = _CASTING if is_half else _ALGORITHMS[rule.weight_algorithm]
    defaults = {f.name: f.default for f in fields(QuantizeRule)}
    more = {n: getattr(rule, n) for n in _EXTRA if getattr(rule, n) != defaults[n]}
    return {**found, "algorithm_key": key, "op_config": config, **({"jfuse": more} if more else {})}


def _rule_of(table: Mapping[str, Any], where: str) -> QuantizeRule:
    try:
        return QuantizeRule(**_fields_of(table))
    except JfuseError as error:
        error.where = error.where or where
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JfuseError(
            "a rule of a recipe has another form",
            where=where,
            expected="regex, operation, algorithm_key, op_config, as ai-edge-quantizer writes them",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _fields_of(table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"regex": table["regex"], "op": table["operation"], **table.get("jfuse", {})}
    key, config = table["algorithm_key"], table.get("op_config") or {}
    if key == _NO_QUANTIZE:
        return {**found, "mode": "float"}
    weights = config["weight_tensor_config"]
    found["min_elements"] = config.get("min_weight_elements", 0)
    if key == _CASTING:
        return {**found, "mode": "float16"}
    algorithms = {theirs: ours for ours, theirs in _ALGORITHMS.items()}
    if key not in algorithms or not weights.get("symmetric", True):
        wanted = f"one of {[_NO_QUANTIZE, _CASTING, *algorithms]}, and symmetric weights"
        raise JfuseError("jfuse has no such algorithm for a recipe", expected=wanted, found=repr(key))
    granularity, _, block = weights.get("granularity", "TENSORWISE").partition("_")
    found["granularity"] = {theirs: ours for ours, theirs in _GRANULARITIES.items()}[granularity]
    found |= {"block_size": int(block) if block else 0, "weight_bits": weights["num_bits"]}
    found["weight_algorithm"] = algorithms[key]
    activations = config.get("activation_tensor_config")
    if activations is None:
        precision = config.get("compute_precision", "FLOAT"), bool(config.get("explicit_dequantize", False))
        return {**found, "mode": _MODES[precision]}
    bits = activations["num_bits"]
    symmetric = bool(activations.get("symmetric")) and bits == 8
    return {**found, "mode": "integer", "activation_bits": bits, "symmetric": symmetric}
