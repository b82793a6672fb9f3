"""Recipes as JSON: in ai-edge-quantizer's form where it can say them, which is a list of rules.

Two extensions add what that form lacks: a rule may have a table "jfuse" with further fields, and the whole may be
a table with "rules" and the fields of the recipe. Inputs and outputs are operators there ("INPUT", "OUTPUT"): a rule of
integers for all operators makes integers of them, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.base.files import need_regular
from jfuse.base.option_values import several
from jfuse.ir.types import DType
from jfuse.quantization.recipe import ALL, IN_TURN, Mode, QuantizeRule, Recipe

_NO_QUANTIZE, _CASTING, _MINMAX, _MSE = "no_quantize", "float_casting", "min_max_uniform_quantize", "MSE"
_ALGORITHMS = {"minmax": _MINMAX, "mse": _MSE, IN_TURN: "GPTQ"}
_SAME_AS = {
    "OCTAV": "mse",  # it looks for the scale that errs least by a formula
    "dequantized_weight_recovery": "minmax",  # weights on a grid keep their numbers here whatever the algorithm is
    "jfuse.gptq": IN_TURN,  # as jfuse wrote it before
}
_OPERATIONS = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE", "CUSTOM": "CUSTOM_OP"}
_ENDS = {"inputs": "INPUT", "outputs": "OUTPUT"}
_CONFIG = frozenset(
    {
        "weight_tensor_config",
        "activation_tensor_config",
        "compute_precision",
        "explicit_dequantize",
        "skip_checks",
        "min_weight_elements",
    }
)
_OF_TENSOR = frozenset({"num_bits", "symmetric", "granularity", "dtype", "block_size", "algorithm_params"})
_MODES: Mapping[tuple[str, bool], Mode] = {  # compute_precision, explicit_dequantize
    ("FLOAT", True): "weight_only",
    ("FLOAT", False): "weight_only",
    ("INTEGER", False): "dynamic",
}
_GRANULARITIES = {"tensor": "TENSORWISE", "channel": "CHANNELWISE", "block": "BLOCKWISE"}
_EXTRA = ("range_algorithm", "bias_correction", "bias_bits")
_OF_RECIPE = ("name", "inputs", "outputs", "int8_only", "from_training", "equalization")


def to_json(recipe: Recipe) -> str:
    """The recipe as JSON: a list in ai-edge-quantizer's form, or a table where there is more to say."""
    rules = [_rule(rule) for rule in recipe.rules]
    default = Recipe(())
    more = {n: _plain(v) for n in _OF_RECIPE if (v := getattr(recipe, n)) != getattr(default, n)}
    for name, dtype in _ends([*zip(rules, recipe.rules, strict=True)]).items():
        recipe_dtype = getattr(recipe, name)
        if recipe_dtype is not dtype and recipe_dtype is not DType.f32:
            continue
        more.pop(name, None)
        if recipe_dtype is not dtype:
            rules.append({"regex": ".*", "operation": _ENDS[name], "algorithm_key": _NO_QUANTIZE, "op_config": {}})
    return json.dumps({**more, "rules": rules} if more.keys() - {"name"} else rules, indent=1) + "\n"


def from_json(text: str, name: str = "of your own") -> Recipe:
    """The recipe in a JSON text; raises JfuseError for other content, and for unsupported settings."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JfuseError("a recipe is no JSON", where=name, found=str(error)) from error
    table = found if isinstance(found, Mapping) else {"rules": found}
    unknown = table.keys() - {"rules", *_OF_RECIPE}
    tables = table.get("rules")
    if unknown or not isinstance(tables, list) or not all(isinstance(r, Mapping) for r in tables):
        raise JfuseError(
            "a recipe has another form",
            where=name,
            expected="a list of rules",
            found=sorted(unknown) or repr(tables)[:80],
        )
    settings = {n: table[n] for n in _OF_RECIPE if n in table}
    rules = [(r, _rule_of(r, f"rule {i} of {name}")) for i, r in enumerate(tables)]
    own = tuple(rule for r, rule in rules if r["operation"] not in _ENDS.values())
    return Recipe(own, **{"name": name, **_ends(rules), **settings})


def _ends(rules: Sequence[tuple[Mapping[str, Any], QuantizeRule]]) -> dict[str, DType]:
    """The types of inputs and outputs that rules in ai-edge-quantizer's form give them.

    rules: the tables, each with its rule. The last one that matches them, or operators of any name, counts.
    """
    dtypes = dict.fromkeys(_ENDS, DType.f32)
    for table, rule in rules:
        for name in (n for n, operation in _ENDS.items() if table["operation"] in (ALL, operation)):
            if re.search(rule.regex, "") is not None:
                dtypes[name] = rule.activations if rule.mode == "integer" else DType.f32
            elif table["operation"] != ALL:
                raise JfuseError(
                    f"all {name} of a model have one type in a recipe",
                    expected='the regex ".*"',
                    found=f"{table['operation']} of the regex {rule.regex!r}",
                )
    return dtypes


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
    table: dict[str, Any] = {"regex": rule.regex, "operation": _OPERATIONS.get(rule.op, rule.op)}
    if rule.mode == "float":
        return {**table, "algorithm_key": _NO_QUANTIZE, "op_config": {}}
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
    return {**table, "algorithm_key": key, "op_config": config, **({"jfuse": more} if more else {})}


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
    _need_known("a rule", table, ("regex", "operation", "algorithm_key", "op_config", "jfuse"))
    key, config, more = table["algorithm_key"], table.get("op_config") or {}, table.get("jfuse", {})
    _need_known("jfuse", more, _EXTRA)
    fields: dict[str, Any] = {"regex": table["regex"], "op": _operation_of(table["operation"]), **more}
    if key == _NO_QUANTIZE:
        return {**fields, "mode": "float"}
    _need_known("op_config", config, _CONFIG)
    weights = config["weight_tensor_config"]
    fields["min_elements"] = config.get("min_weight_elements", 0)
    fields |= _weights_of(weights, "FLOAT" if key == _CASTING else "INT")
    if key == _CASTING:
        return {n: v for n, v in fields.items() if n != "weight_bits"} | {"mode": "float16"}
    algorithms = {theirs: ours for ours, theirs in _ALGORITHMS.items()} | _SAME_AS
    if key not in algorithms:
        wanted = f"one of {[_NO_QUANTIZE, _CASTING, *algorithms]}"
        raise JfuseError("jfuse has no such algorithm for a recipe", expected=wanted, found=repr(key))
    fields["weight_algorithm"] = algorithms[key]
    activations = config.get("activation_tensor_config")
    precision = config.get("compute_precision", "FLOAT"), bool(config.get("explicit_dequantize", False))
    if activations is None:
        return {**fields, "mode": _MODES[precision]}
    _need_known("activation_tensor_config", activations, _OF_TENSOR)
    bits = activations["num_bits"]
    if activations.get("dtype", "INT") != "INT" or activations.get("granularity", "TENSORWISE") != "TENSORWISE":
        raise _other_numbers("activations", "INT of the granularity TENSORWISE", activations)
    if precision != ("INTEGER", False) or (bits == 16 and not activations.get("symmetric", True)):
        expected = "compute_precision INTEGER without explicit_dequantize, symmetric ones of 16 bits"
        raise _other_numbers("activations", expected, config)
    return {**fields, "mode": "integer", "activation_bits": bits, "symmetric": _is_symmetric(activations) and bits == 8}


def _need_known(what: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise JfuseError for unknown fields."""
    unknown = table.keys() - set(known)
    if unknown:
        raise JfuseError(f"{what} of a recipe has other fields", expected=sorted(known), found=sorted(unknown))


def _operation_of(theirs: str) -> str:
    """The builtin of an operation; `ALL` for inputs and outputs, which are no operators here."""
    if theirs in _ENDS.values():
        return ALL
    return {name: builtin for builtin, name in _OPERATIONS.items()}.get(theirs, theirs)


def _weights_of(config: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The fields of a rule that a table of weights says."""
    _need_known("weight_tensor_config", config, _OF_TENSOR)
    if config.get("dtype", "INT") != dtype or not _is_symmetric(config) or config.get("algorithm_params"):
        raise _other_numbers("weights", f"symmetric {dtype} without parameters of the algorithm", config)
    if dtype == "FLOAT" and config["num_bits"] != 16:
        raise _other_numbers("weights", "FLOAT of 16 bits", config)
    granularity, _, block = config.get("granularity", "TENSORWISE").partition("_")
    size = config.get("block_size", 0) or int(block or 0)  # older ones have the number beside the name
    granularities = {theirs: ours for ours, theirs in _GRANULARITIES.items()}
    return {
        "granularity": "block" if size else granularities[granularity],
        "block_size": size,
        "weight_bits": config["num_bits"],
    }


def _is_symmetric(config: Mapping[str, Any]) -> bool:
    return bool(config.get("symmetric", True))


def _other_numbers(what: str, expected: str, found: Mapping[str, Any]) -> JfuseError:
    return JfuseError(f"jfuse has no such {what} for a recipe", expected=expected, found=json.dumps(dict(found)))
