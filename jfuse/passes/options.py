"""The options of a conversion, grouped by topic. `jfuse.lower` says what each one means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from jfuse.base.errors import JfuseError, need_choice, shown
from jfuse.base.option_values import names_of, need_mapping
from jfuse.tflite.targets import names as targets

if TYPE_CHECKING:  # the command line has its values and defaults from here before it imports anything slow
    from jfuse.lowering.rules import Rule
    from jfuse.quantization.recipe import Recipe

StateMode: TypeAlias = Literal["source", "reset", "keep", "io"]
Padding: TypeAlias = Literal["right", "left"]
Loop: TypeAlias = Literal["auto", "while", "unroll"]
Preference: TypeAlias = Literal["auto", "fused", "speed", "size"]
Requirement: TypeAlias = Literal["proven"]
Precision: TypeAlias = Literal["float32", "source"]
Machine: TypeAlias = Literal["any", "zen4", "zen4-avx2", "emerald-rapids"]
STATES: tuple[StateMode, ...] = get_args(StateMode)
PADDINGS: tuple[Padding | None, ...] = (None, *get_args(Padding))
LOOPS: tuple[Loop, ...] = get_args(Loop)
PREFERENCES: tuple[Preference, ...] = get_args(Preference)
REQUIREMENTS: tuple[Requirement | None, ...] = (None, *get_args(Requirement))
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
ANY_MACHINE: Machine = "any"
CostOrder: TypeAlias = Literal["graph", "macs", "weights", "activations", "time"]
COST_ORDERS: tuple[CostOrder, ...] = get_args(CostOrder)
"""By what a table of costs may be sorted."""
MACHINES: tuple[Machine, ...] = get_args(Machine)
"""The processors on which recurrences were measured in each form; before them the choice that is good on all."""
FUSED = "fused"
"""Among the forms of a recurrence: the operator that TFLite has for it."""

_FORM = re.compile(r"fused|unrolled|x[1-9]\d{0,3}(in[1-9]\d{0,8})?")

Attributes: TypeAlias = Mapping[str, Any]
CustomOptions: TypeAlias = Attributes | bytes | bool | Callable[[Attributes], Attributes | bytes | None] | None
"""The options of a custom operator: the node's attributes (None, True), others, bytes, or what makes them of those."""


State: TypeAlias = StateMode | Mapping[str, Sequence[Any]]
"""One of STATES, or by name an input and an output of the source that are a state: those are the source's own."""


def mode_of(state: State) -> StateMode:
    """Which of STATES is asked for."""
    return state if isinstance(state, str) else RecurrenceOptions.state


@dataclass(frozen=True)
class RecurrenceOptions:
    """Options for recurrences. Raises JfuseError where an option has none of its values.

    forms: the form of single recurrences, by their source as the report names it. It overrides the other options.
    "fused", "unrolled", "x4" (WHILE with four steps a turn) or "x4in24" (in blocks of 24 steps).
    require: "proven" leaves fusions out that are only tested.
    whiles: when a file is quantized, the sources of its WHILE operators, which stay WHILE unless an option asks for
    another form; unrolled steps stay unrolled. None for other sources.
    """

    recover: bool = True
    state: StateMode = "source"
    padding: Padding | None = None
    loop: Loop = "auto"
    prefer: Preference = "auto"
    machine: Machine = ANY_MACHINE
    forms: Mapping[str, str] = field(default_factory=dict)
    whiles: frozenset[str] | None = None
    require: Requirement | None = None

    def __post_init__(self) -> None:
        need_choice("state", self.state, STATES)
        need_choice("padding", self.padding, PADDINGS)
        need_choice("loop", self.loop, LOOPS)
        need_choice("prefer", self.prefer, PREFERENCES)
        need_choice("machine", self.machine, MACHINES)
        need_choice("require", self.require, REQUIREMENTS)
        need_mapping("forms=", self.forms, '{"the source of a recurrence": "fused"}')
        for form in self.forms.values():
            if not isinstance(form, str) or _FORM.fullmatch(form) is None:
                forms_text = "fused, unrolled, x4 or x4in24, with at most 9999 steps a turn"
                raise JfuseError("forms= has no such form", expected=forms_text, found=shown(form))


@dataclass(frozen=True)
class TfOpOptions:
    """The TensorFlow ops that may stand in the file as they are."""

    select_tf_ops: bool = False
    custom_ops: Mapping[str, CustomOptions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.custom_ops, Mapping):
            raise JfuseError(
                "custom_ops= is no dict",
                expected="the options of each op by its name, None for its own attributes",
                found=shown(self.custom_ops),
                remedy='custom_ops={"Name": None}',
            )
        names_of("custom_ops=", self.custom_ops)

    def lets_in(self, tf_name: str) -> bool:
        """Whether an op of this name may stand in the file."""
        return self.select_tf_ops or tf_name in self.custom_ops


@dataclass(frozen=True)
class QuantizationOptions:
    """The recipe of a quantization and its data.

    recipe: None for no quantization. calibration: as `CalibrationData` has it. known: `Statistics` of these data, which
    are read again where the statistics lack something; None without any. measured: whether to run the file on the data,
    so that harmful steps are left out and the last biases correct the mean error of its answers.
    source_bytes: the size of the source where it is a file, else 0.
    """

    recipe: Recipe | None = None
    calibration: Any = None
    known: Any = None
    measured: bool = True
    source_bytes: int = 0

    def __post_init__(self) -> None:
        if self.calibration is not None and self.recipe is None:
            raise JfuseError("calibration= needs quantize=", remedy='quantize="int8", or another recipe')


@dataclass(frozen=True)
class LoweringOptions:
    """All that `jfuse.lower` takes besides the model. Raises JfuseError for a precision that there is not."""

    rules: tuple[Rule, ...] = ()
    recurrence: RecurrenceOptions = RecurrenceOptions()
    tf_ops: TfOpOptions = TfOpOptions()
    quantization: QuantizationOptions = QuantizationOptions()
    target: targets.TargetName | Sequence[targets.TargetName] = targets.DEFAULT
    strict: bool = False
    dump_dir: Path | None = None
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        need_choice("precision", self.precision, PRECISIONS)
