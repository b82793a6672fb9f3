"""`Recipe`: which operators are quantized, and how, as data: ordered rules that are written and read as JSON."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from jfuse.base.errors import JfuseError, shown
from jfuse.base.option_values import LARGEST_SIZE, need_truth, several, whole
from jfuse.ir.types import DType
from jfuse.tflite.schema import BUILTIN_CODES

Mode = Literal["float", "float16", "weight_only", "dynamic", "integer"]
"""float: as it is. float16: constants in f16, DEQUANTIZE before they are used. weight_only: the same in 8, 4 or 2 bits.
dynamic: the kernel takes integer weights and quantizes its float operands itself; weight_only where it cannot. integer:
weights, operands and results are integers, whose ranges come from calibration."""
Granularity = Literal["tensor", "channel", "block"]

ALL = "*"
LEAST_ELEMENTS = 1024
"""Of weights, so that a scale, and a kernel that quantizes its operands, are worth it; the official converter's."""
LEAST_HALVES = 128
"""Least size of f16 constants: DEQUANTIZE and a tensor take about 200 bytes of a file, as many as this saves."""
IN_AND_OUT = (DType.f32, DType.i8, DType.u8, DType.i16)
EXTRAPOLATED = "extrapolated"
RANGE_ALGORITHMS = (EXTRAPOLATED, "minmax", "moving_average", "percentile", "mse", "entropy")
IN_TURN = "gptq"
WEIGHT_ALGORITHMS = ("minmax", "mse", IN_TURN)
_BITS = {"weight_bits": (8, 4, 2), "activation_bits": (8, 16), "bias_bits": (64, 32)}

EndType = Literal["float32", "int8", "uint8", "int16"]
"""The type of float inputs and outputs of a model in integers."""


@dataclass(frozen=True)
class QuantizeRule:
    """How operators are quantized whose name and kind fit. Of several rules that fit the last one counts.

    regex: found anywhere in the name of the operator, which is the path of its node in the source. op: a builtin
        ("CONV_2D"), or "*". mode: as `Mode` has it.
    weight_bits: 8, 4 or 2. granularity: which weights share a scale: all ("tensor"), those of an output channel, or
        `block_size` neighbours of one ("block"), where the kernel takes it; else those of a channel.
    activation_bits: 8 or 16, of integers. symmetric: zero points are 0, of 8 bits as well.
    bias_bits: 64 or 32, of biases beside 16-bit activations; 32 for FULLY_CONNECTED and CONV_2D alone.
    weight_algorithm: how weights are rounded: "minmax" with the largest as the last step; "mse" with the scale that
        errs least; "gptq" one after the other, each compensating for those before it on the calibration data, in
        FULLY_CONNECTED and CONV_2D (elsewhere it is "mse").
    bias_correction: take from the biases of FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D and the gates of an LSTM what
        rounding the weights adds to the results on average over the calibration data, and from the last one before an
        output what the output is off by on average; without data, and of random ones, nothing.
    range_algorithm: how calibration becomes a range, see `Statistics.range`.
    min_elements: weights with fewer elements stay float.
    """

    mode: Mode
    regex: str = ".*"
    op: str = ALL
    weight_bits: int = 8
    granularity: Granularity = "channel"
    block_size: int = 0
    activation_bits: int = 8
    bias_bits: int = 64
    symmetric: bool = False
    weight_algorithm: str = "minmax"
    bias_correction: bool = False
    range_algorithm: str = EXTRAPOLATED
    min_elements: int = LEAST_ELEMENTS

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, get_args(Mode))
        _one_of("granularity", self.granularity, get_args(Granularity))
        _one_of("weight_algorithm", self.weight_algorithm, WEIGHT_ALGORITHMS)
        _one_of("bias_correction", self.bias_correction, (False, True))
        for name, choices in _BITS.items():
            _one_of(name, getattr(self, name), choices)
        _one_of("range_algorithm", self.range_algorithm, RANGE_ALGORITHMS)
        if not isinstance(self.op, str) or (self.op != ALL and self.op not in BUILTIN_CODES):
            expected = "a builtin, as CONV_2D, or *"
            raise JfuseError("a rule of a recipe names no builtin", expected=expected, found=shown(self.op))
        for name in ("block_size", "min_elements"):
            whole(f"{name} of a rule of a recipe", getattr(self, name), most=LARGEST_SIZE)
        if (self.granularity == "block") != (self.block_size > 0):
            raise JfuseError(
                "granularity='block' and block_size= need each other",
                expected="granularity='block' together with block_size=32 (64, 128, 256)",
                found=f"granularity={self.granularity!r}, block_size={self.block_size}",
            )
        try:
            re.compile(self.regex)
        except (re.error, TypeError) as error:
            raise JfuseError(
                "a rule of a recipe has no regular expression", found=f"{self.regex!r}: {error}"
            ) from error

    def fits(self, name: str, builtin: str) -> bool:
        """Whether the rule is about an operator.   name: as in the source"""
        return self.op in (ALL, builtin) and self._pattern.search(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex)

    @property
    def activations(self) -> DType:
        """The type of activations that are integers: i8, or i16 where `activation_bits` is 16."""
        return DType.i8 if self.activation_bits == 8 else DType.i16

    @property
    def biases(self) -> DType:
        """The type of biases beside integer activations."""
        return DType.i64 if self.activation_bits == 16 and self.bias_bits == 64 else DType.i32

    @property
    def weights(self) -> DType:
        """The type of weights that are integers: i8, i4 or i2, by `weight_bits`."""
        return {8: DType.i8, 4: DType.i4, 2: DType.i2}[self.weight_bits]


@dataclass(frozen=True)
class Recipe:
    """Ordered rules, and settings of the whole model.

    inputs, outputs: the element type of float inputs and outputs of a model that computes in integers: "float32",
        "int8", "uint8" or "int16".
    int8_only: an operator without an integer kernel is an error, instead of float between DEQUANTIZE and QUANTIZE.
    from_training: without calibration, values without a trained range stay float, instead of being an error; a model
        without any trained range is quantized as by rules of mode "dynamic".
    equalization: give channels between two products, with RELU or nothing between, similar ranges: a positive factor
        for each moves from the weights of one to those of the other.
    name: for reports.
    """

    rules: tuple[QuantizeRule, ...]
    inputs: DType | EndType = DType.f32
    outputs: DType | EndType = DType.f32
    int8_only: bool = False
    from_training: bool = False
    equalization: bool = False
    name: str = "of your own"

    def __post_init__(self) -> None:
        rules = several("rules of a recipe", self.rules, "jfuse.QuantizeRule")
        for rule in rules:
            if not isinstance(rule, QuantizeRule):
                raise JfuseError("a recipe has rules", expected="jfuse.QuantizeRule", found=shown(rule))
        object.__setattr__(self, "rules", rules)
        for name in ("equalization", "from_training", "int8_only"):
            need_truth(f"{name} of a recipe", getattr(self, name))
        if not isinstance(self.name, str):
            raise JfuseError("the name of a recipe is a text", found=shown(self.name))
        for name in ("inputs", "outputs"):
            value = getattr(self, name)
            choices = {**{d.value: d for d in IN_AND_OUT}, **_LONG_NAMES}
            dtype = value if isinstance(value, DType) else choices.get(value) if isinstance(value, str) else None
            if dtype not in IN_AND_OUT:
                raise JfuseError(f"no type {shown(value)} for {name}", expected=", ".join(_LONG_NAMES))
            object.__setattr__(self, name, dtype)

    def rule_for(self, name: str, builtin: str) -> QuantizeRule:
        """The last rule that fits an operator; `FLOAT` where none does."""
        return next((rule for rule in reversed(self.rules) if rule.fits(name, builtin)), FLOAT)

    @property
    def ends(self) -> tuple[DType, DType]:
        """The types of inputs and outputs."""
        assert isinstance(self.inputs, DType), "a name became a type when the recipe was made"
        assert isinstance(self.outputs, DType), "the same"
        return self.inputs, self.outputs

    @property
    def needs_ranges(self) -> bool:
        """Whether some rule asks for integer activations, whose ranges calibration finds."""
        return any(rule.mode == "integer" for rule in self.rules)

    @property
    def needs_moments(self) -> bool:
        """Whether some rule needs moments of the inputs of products."""
        return any(rule.bias_correction or rule.weight_algorithm == IN_TURN for rule in self.rules)

    def without_ranges(self) -> Recipe:
        """The recipe for a model whose values have no ranges: the kernels of its integers find them as they run."""
        rules = (
            replace(r, mode="dynamic", min_elements=LEAST_ELEMENTS) if r.mode == "integer" else r for r in self.rules
        )
        return Recipe(tuple(rules), equalization=self.equalization, name=self.name)

    @classmethod
    def named(cls, name: str, **changes: object) -> Recipe:
        """A named recipe.   changes: fields of the recipe (`inputs="int8"`) that are to be other ones"""
        if name not in NAMED:
            raise JfuseError(f"no recipe {name!r}", expected=f"one of {', '.join(NAMED)}, or a jfuse.Recipe")
        return replace(NAMED[name], **changes)  # type: ignore[arg-type]


def _one_of(name: str, value: object, choices: Iterable[object]) -> None:
    if not isinstance(value, Hashable) or value not in choices:
        raise JfuseError(f"no {name} {shown(value)} in a recipe", expected=" or ".join(map(repr, choices)))


FLOAT = QuantizeRule("float")
_LONG_NAMES = {"float32": DType.f32, "int8": DType.i8, "uint8": DType.u8, "int16": DType.i16}


def _named(*recipes: Recipe) -> Mapping[str, Recipe]:
    return {recipe.name: recipe for recipe in recipes}


# Biases are corrected by calibration data, where there are any.
_DYNAMIC = QuantizeRule("dynamic", bias_correction=True)
_WEIGHTS = replace(_DYNAMIC, mode="weight_only")
# Of few steps the last one is better not the largest weight, without data as well.
_INT4 = replace(_WEIGHTS, weight_bits=4, weight_algorithm="mse")
_INT8 = replace(_DYNAMIC, mode="integer", min_elements=0)

NAMED = _named(
    Recipe((QuantizeRule("float16", min_elements=LEAST_HALVES),), name="float16"),
    Recipe((_DYNAMIC,), name="dynamic"),
    Recipe((_WEIGHTS,), name="int8_weights"),
    Recipe((_INT4,), name="int4_weights"),
    Recipe((replace(_INT4, weight_algorithm=IN_TURN),), name="int4_gptq"),
    Recipe((replace(_INT4, mode="dynamic", granularity="block", block_size=32),), name="int4_blocks"),
    Recipe((replace(_INT4, weight_bits=2),), name="int2_weights"),
    Recipe((_INT8,), name="int8"),
    Recipe((replace(_INT8, activation_bits=16),), name="int16x8"),
    # NPUs take symmetric activations only (Google Tensor G5), or compute faster with them.
    Recipe((replace(_INT8, symmetric=True),), name="npu_symmetric"),
    # A microcontroller has no room for float kernels beside integer ones.
    Recipe((_INT8,), DType.i8, DType.i8, int8_only=True, name="micro"),
)
