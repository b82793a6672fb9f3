"""The options of a conversion that say what its file is for, what becomes of recurrences, and what runs besides."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from jfuse.base.errors import JfuseError, shown
from jfuse.base.option_values import need_function, need_mapping, path_of, several
from jfuse.base.options import option, options
from jfuse.base.users_code import as_users
from jfuse.quantization.recipe_names import NAMES as RECIPES
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
PREFERENCES: tuple[Preference, ...] = get_args(Preference)
ANY_MACHINE: Machine = "any"
CostOrder: TypeAlias = Literal["graph", "macs", "weights", "activations", "time"]
COST_ORDERS: tuple[CostOrder, ...] = get_args(CostOrder)
"""By what a table of costs may be sorted."""
MACHINES: tuple[Machine, ...] = get_args(Machine)
"""The processors on which recurrences were measured in each form; before them the choice that is good on all."""
FUSED = "fused"
"""Among the forms of a recurrence: the operator that TFLite has for it."""

_FORM = re.compile(r"fused|unrolled|sums|log[1-9]\d{0,3}|x[1-9]\d{0,3}(in[1-9]\d{0,8})?")

Attributes: TypeAlias = Mapping[str, Any]
CustomOptions: TypeAlias = Attributes | bytes | bool | Callable[[Attributes], Attributes | bytes | None] | None
"""The options of a custom operator: the node's attributes (None, True), others, bytes, or what makes them of those."""
State: TypeAlias = StateMode | Mapping[str, Sequence[Any]]
"""A mode, or by name an input and an output of the source that are a state: those are the source's own."""
OnStage: TypeAlias = Callable[[str], None]
"""Called with the name of each stage of a conversion as it starts, and with a `CountedStage` as it goes on."""


class CountedStage(str):
    """The name of a stage, with its progress.   done, total: how many `unit`s; total is 0 if it is not known"""

    def __new__(cls, name: str, done: int, total: int, unit: str) -> CountedStage:
        """Make the name, with the attributes of these names."""
        stage = super().__new__(cls, name)
        stage.done, stage.total, stage.unit = done, total, unit
        return stage

    done: int
    total: int
    unit: str

    @classmethod
    def of(cls, on_stage: OnStage, name: str, unit: str) -> Callable[[int, int], None]:
        """Make a function of done and total that reports them."""
        return lambda done, total: on_stage(cls(name, done, total, unit))


def target_words(words: str) -> str:
    """Raise ValueError for the first unknown name among one or several targets."""
    for name in targets.names_in(words):
        if not targets.is_target(str(name)):
            raise ValueError(f"{name!r} is none of {', '.join(targets.NAMES)}")
    return words


@options
class Forms:
    """The target of a file, and the forms in which recurrences and functions stand in it.

    Raises JfuseError where an option has none of its values.
    """

    target: targets.TargetName | Sequence[targets.TargetName] = option(
        f"The target: {', '.join(targets.NAMES)}; X.Y: the oldest runtime that must take it; a,b: several.",
        '"litert" is LiteRT\'s Interpreter, "compiled-model" its CompiledModel and Interpreter. Operators that the'
        " target lacks are spelled in others; `report.notes` has what it loses. Several, as a sequence or a text"
        " with commas, for one file that all of them take.",
        default=targets.DEFAULT,
        read=target_words,
        offers=targets.TARGETS,
    )
    state: State = option(
        "What lasts from one invoke to the next: source, reset, keep or io.",
        '"source": what the source keeps in variables; "reset": nothing; "keep": the states of all recurrences,'
        ' for streaming; "io": nothing, the states are inputs and outputs. A mapping, {"h": ("h_in", "h_out")},'
        " names states that the model takes and returns, as for `Model.keeping`.",
        default="source",
        choices=get_args(StateMode),
    )
    padding: Padding | None = option(
        "Promise that all masks are padding on this side: right or left.",
        "It is the side of the steps that the mask leaves out.",
        default=None,
        choices=(None, *get_args(Padding)),
    )
    loop: Loop = option(
        "Form of the recurrences that do not fuse: auto, while or unroll.",
        '"auto" takes whichever is faster.',
        default="auto",
        choices=get_args(Loop),
    )
    prefer: Preference = option(
        "Form of recurrences: fused; speed (a loop where it is faster); size (the smallest loops); auto.",
        '"speed" goes by what was measured in LiteRT: XNNPACK does not take fused ops. "size" takes every fusion,'
        ' and of each loop the smallest form. "auto" takes every fusion, but of an LSTM in 8 bits in LiteRT the'
        " fastest form that is about as small as any.",
        default="auto",
        choices=PREFERENCES,
    )
    machine: Machine = option(
        f"Processor whose timings choose forms: {', '.join(MACHINES)}.",
        '"zen4-avx2" is without AVX-512; "any" takes the form by which none of them loses much.',
        default=ANY_MACHINE,
        choices=MACHINES,
    )
    require: Requirement | None = option(
        "proven: refuse fusions that are only tested on samples.",
        default=None,
        choices=(None, *get_args(Requirement)),
    )
    precision: Precision = option(
        "Type of f16, bf16 and f64 values: float32, or source (unchanged).",
        '"float32" computes them in f32, as models under mixed precision do; f64 only if LiteRT lacks a kernel of it. '
        "Inputs and outputs keep their types.",
        default="float32",
        choices=get_args(Precision),
    )
    strict: bool = option(
        "Fail if a marked function does not fuse, or if a recipe changes nothing.",
        "Without it `report.refused` and `report.warnings` have them.",
        default=False,
    )
    recover: bool = option("Recognize recurrences in unmarked loops.", default=True, flag="")
    by_source: Mapping[str, str] = option(
        "Forms of single recurrences, by their source as `report.loops` and `report.fused` name it.",
        '"fused", "unrolled", "x4" (WHILE with four steps a turn), "x4in24" (in blocks of 24 steps), and of linear'
        ' recurrences "log16" or "log32" (a parallel scan of blocks of so many steps) or "sums" (CUMSUM), whatever'
        " the other options say. `jfuse.tune` finds the fastest.",
        default_factory=dict,
        flag="",
    )

    def __post_init__(self) -> None:
        need_mapping("by_source=", self.by_source, '{"the source of a recurrence": "fused"}')
        for form in self.by_source.values():
            if not isinstance(form, str) or _FORM.fullmatch(form) is None:
                forms_text = "fused, unrolled, x4, x4in24, log16 or sums, with at most 9999 steps a turn"
                raise JfuseError("by_source= has no such form", expected=forms_text, found=shown(form))

    @property
    def mode(self) -> StateMode:
        """The mode of states; states that are named are the source's own."""
        return self.state if isinstance(self.state, str) else "source"


def _silent(stage: str) -> None:
    """Tell nobody."""


@options
class Pipeline:
    """Rules, passes and operators of one's own in a conversion, and who follows its stages.

    `jfuse.load` reads `rules` and `custom_ops`. Raises JfuseError for values of other types.
    """

    rules: Sequence[Rule] = option("Rules for this call, before the registered ones.", default=(), flag="")
    passes: Sequence[Callable[..., Any]] = option(
        "Passes for this call, besides the registered ones.",
        'Those of `rewrites`, or functions of graphs, which come after "simplify".',
        default=(),
        flag="",
    )
    custom_ops: Mapping[str, CustomOptions] | Collection[str] = option(
        "A TensorFlow op to write as a custom operator of its name.",
        "For kernels of your own. Names, or their options by name: None for a flexbuffer map of the node's"
        " attributes, a dict for one of others, bytes, or what a function of the attributes returns.",
        default=(),
        flag="--custom-op",
        many=True,
        metavar="OP",
    )
    select_tf_ops: bool = option(
        "Write ops without a rule for the Flex delegate.",
        "Only a runtime with that delegate runs them.",
        default=False,
    )
    dump_dir: str | Path | None = option(
        "A folder for the text after each pass.", default=None, takes=Path, file_okay=False
    )
    on_stage: OnStage = option(
        "Called with the name of each stage as it starts, and with its progress.", default=_silent, flag=""
    )

    def __post_init__(self) -> None:
        need_function("on_stage=", self.on_stage)
        ops = self.custom_ops
        if isinstance(ops, str | bytes) or not isinstance(ops, Collection) or not all(isinstance(n, str) for n in ops):
            raise JfuseError(
                "custom_ops= takes names of ops, or their options by name",
                found=shown(ops),
                remedy='pipeline=jfuse.Pipeline(custom_ops=["Name"])',
            )
        object.__setattr__(self, "rules", several("rules=", self.rules, "rules"))
        object.__setattr__(self, "custom_ops", ops if isinstance(ops, Mapping) else dict.fromkeys(ops))
        if self.dump_dir is not None:
            object.__setattr__(self, "dump_dir", path_of("dump_dir=", self.dump_dir))
        if self.on_stage is not _silent:
            object.__setattr__(self, "on_stage", as_users(self.on_stage))

    def custom_options(self, name: str) -> CustomOptions:
        """The options of one of the custom operators."""
        return self.custom_ops[name] if isinstance(self.custom_ops, Mapping) else None

    def lets_in(self, tf_name: str) -> bool:
        """Whether an op of this name may stand in the file."""
        return self.select_tf_ops or tf_name in self.custom_ops


def recipe_words(words: str) -> str:
    """Raise ValueError for a recipe that there is not."""
    if words.endswith(".json"):
        if not Path(words).is_file():
            raise ValueError(f"there is no file {words!r}")
    elif words not in RECIPES:
        raise ValueError(f"{words!r} is none of {', '.join(RECIPES)}, nor a .json file")
    return words


def data_words(words: str) -> str:
    """Raise ValueError for data that is neither a file, nor a folder, nor `random`."""
    if words != "random" and not Path(words).exists():
        raise ValueError(f"there is no file or folder {words!r}")
    return words


@dataclass(frozen=True)
class QuantizationOptions:
    """The recipe of a quantization, and its data. Raises JfuseError for data without a recipe.

    known: `Statistics` of these data, which are read again where the statistics lack something; None without any.
    measured: whether the file is run on them, so that steps that harm it are left out, and the last biases make up for
    what its answers are off by on average. source_bytes: the size of the source where it is a file, else 0.
    """

    recipe: Recipe | None = option(
        "float16, dynamic, int8_weights, int8, …, or a .json file.",
        default=None,
        kw_only=False,
        flag="--quantize",
        takes=str,
        read=recipe_words,
        offers=RECIPES,
        metavar="RECIPE",
    )
    calibration: Any = option(
        "A .npz file or a folder of inputs to take ranges from; or random.",
        default=None,
        kw_only=False,
        takes=str,
        read=data_words,
        metavar="DATA",
    )
    known: Any = None
    measured: bool = True
    source_bytes: int = 0

    def __post_init__(self) -> None:
        if self.calibration is not None and self.recipe is None:
            raise JfuseError("calibration= needs quantize=", remedy='quantize="int8", or another recipe')


@dataclass(frozen=True)
class LoweringOptions:
    """All that `jfuse.lower` takes besides the model."""

    forms: Forms = field(default_factory=Forms)
    pipeline: Pipeline = field(default_factory=Pipeline)
    quantization: QuantizationOptions = QuantizationOptions()
