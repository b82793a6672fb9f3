"""Names, help texts and types of the commands' options. Imports nothing slow."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jfuse.base.files import CPP_SUFFIXES
from jfuse.passes.options import (
    COST_ORDERS,
    LOOPS,
    MACHINES,
    PADDINGS,
    PRECISIONS,
    PREFERENCES,
    REQUIREMENTS,
    STATES,
)
from jfuse.quantization.recipe_names import NAMES as RECIPES
from jfuse.tflite.targets.names import NAMES, RUNTIMES, TARGETS, is_target, names_in
from jfuse.verification.options import EDGES

_SIZE = re.compile("[0-9]{1,10}")  # int takes the digits of all scripts, and not thousands of them

_Data = {"exists": True, "dir_okay": False}


def _one_of(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """The choices that a shell offers: those that begin with the typed letters."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="A SavedModel folder, or a .keras, .h5, .pb, .pt2 or .tflite file.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A .tflite file, whoever wrote it.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="The .tflite file to write.")]
Padding = Annotated[
    str | None,
    typer.Option(
        help="Your promise of every mask: right or left.",
        autocompletion=_one_of(PADDINGS[1:]),
    ),
]
State = Annotated[
    str,
    typer.Option(
        help="What lasts from one invoke to the next: source, reset, keep or io.", autocompletion=_one_of(STATES)
    ),
]
Loop = Annotated[
    str,
    typer.Option(
        help="Recurrences that do not fuse: auto, while or unroll.",
        autocompletion=_one_of(LOOPS),
    ),
]
Prefer = Annotated[
    str,
    typer.Option(
        help="fused; speed: a loop where that is faster; size: the smallest loops; or auto.",
        autocompletion=_one_of(PREFERENCES),
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        help="Of what the source has in f16 or bf16: float32, or source.",
        autocompletion=_one_of(PRECISIONS),
    ),
]
Machine = Annotated[
    str,
    typer.Option(
        help=f"Whose measured times choose forms: {', '.join(MACHINES)}.",
        autocompletion=_one_of(MACHINES),
    ),
]
Require = Annotated[
    str | None,
    typer.Option(
        help="proven: refuse fusions that are only tested on samples.", autocompletion=_one_of(REQUIREMENTS[1:])
    ),
]
Target = Annotated[
    str,
    typer.Option(
        help=f"What runs the file: {', '.join(NAMES)}; X.Y is the oldest runtime that must take it; a,b for several.",
        autocompletion=_one_of(TARGETS),
    ),
]
CheckedTarget = Annotated[
    str | None,
    typer.Option(
        "--target", help=f"What runs the file: {', '.join(NAMES)}; a,b for several; without it all are asked."
    ),
]
Slower = Annotated[float, typer.Option(help="How many times as long as FILE the result may take.", min=0.01)]
Candidates = Annotated[
    Path | None, typer.Option(help="A folder for the files that are timed, to time them on a device.", file_okay=False)
]
Timings = Annotated[
    list[Path] | None,
    typer.Option("--timings", help="What LiteRT's benchmark_model printed of these files on a device.", **_Data),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="A marked function that does not fuse, or a recipe that does nothing, fails.")
]
Unsafe = Annotated[
    bool, typer.Option("--unsafe", help="Let SOURCE run code of its own and work on files; for authors you trust.")
]
Signatures = Annotated[
    list[str] | None, typer.Option("--signature", metavar="KEY", help="A signature to take; all without it.")
]
SelectTfOps = Annotated[bool, typer.Option("--select-tf-ops", help="Write ops without a rule for the Flex delegate.")]
CustomOps = Annotated[
    list[str] | None,
    typer.Option("--custom-op", metavar="OP", help="A TensorFlow op to write as a custom operator of its name."),
]
DumpDir = Annotated[Path | None, typer.Option(help="A folder for the text after each pass.", file_okay=False)]
Quantize = Annotated[
    str | None,
    typer.Option(
        metavar="RECIPE",
        help="float16, dynamic, int8_weights, int8, …, or a .json file.",
        autocompletion=_one_of(RECIPES),
    ),
]
Recipe = Annotated[
    str,
    typer.Option(
        metavar="RECIPE", help="As `convert` has --quantize: a name, or a .json file.", autocompletion=_one_of(RECIPES)
    ),
]
Calibration = Annotated[
    str | None, typer.Option(metavar="DATA", help="A .npz file or a folder of inputs to take ranges from; or random.")
]
Verify = Annotated[bool, typer.Option(help="Compare with TensorFlow and LiteRT.")]
Json = Annotated[Path | None, typer.Option("--json", help="A file for the report, as JSON.")]
CArray = Annotated[
    Path | None,
    typer.Option(
        "--c-array", metavar="FILE.cc", help="C++ source with the file's bytes, and headers, for tflite-micro."
    ),
]
Html = Annotated[Path | None, typer.Option("--html", help="A file for the report, as a page.")]
Stage = Annotated[
    str | None, typer.Option(help="Lower SOURCE up to this pass of docs/architecture.md, such as fuse or simplify.")
]
Table = Annotated[bool, typer.Option("--table", help="Tables of signatures and operators in place of the text.")]
LabelsKey = Annotated[
    str | None, typer.Option("--labels-key", metavar="NAME", help="The array of the .npz file that is no input.")
]
CostBy = Annotated[str, typer.Option("--by", help="Rows of the table: operator, type or layer.")]
CostSort = Annotated[
    str,
    typer.Option(
        "--sort", help=f"What the table is sorted by: {', '.join(COST_ORDERS)}.", autocompletion=_one_of(COST_ORDERS)
    ),
]
Measure = Annotated[bool, typer.Option("--measure", help="Also time each operator of the table, alone in LiteRT.")]
Page = Annotated[Path | None, typer.Option("--html", help="A file for the graph, as a page.")]
Samples = Annotated[
    Path | None, typer.Option("--samples", help="A .npz file with inputs of your own to compare on.", **_Data)
]
Tolerance = Annotated[
    float | None, typer.Option("--tolerance", help="The largest max|a-b| / max|b| of outputs.", min=0)
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZES", help="The shape of an input, as in x=1,49,40; ? stays as it is."),
]
Batch = Annotated[int | None, typer.Option(help="The first size of every input that leaves it open.", min=1)]
InputTensors = Annotated[
    list[str] | None,
    typer.Option(
        "--inputs", metavar="NAMES", help="Of a .pb file: its input tensors, as in a,b; else its placeholders."
    ),
]
OutputTensors = Annotated[
    list[str] | None, typer.Option("--outputs", metavar="NAMES", help="Of a .pb file: its output tensors, as in a,b.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="A Python module to import first: your layers, your rules."),
]
Rules = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="FILE", help="A Python file with rules or passes of your own.", **_Data),
]
Metadata = Annotated[
    Path | None,
    typer.Option("--metadata", metavar="FILE.json", help="What the file says of itself, as JSON.", **_Data),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--labels", metavar="[OUTPUT=]FILE", help="A text file with a line for each class of an output."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also show what TensorFlow, XLA and LiteRT print.")]

Compared = Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file, a SavedModel folder or a .keras file.")]
Against = Annotated[
    str | None, typer.Option(help="What it should answer like, of the same kinds; without it XLA for a file.")
]
Count = Annotated[
    int,
    typer.Option(
        "--samples", help="Independent first calls (rows of them, where something is kept) to compare besides.", min=0
    ),
]
Calls = Annotated[int, typer.Option(help="Calls in a row for each signature and choice of sizes.", min=1)]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn.", min=0)]
Inputs = Annotated[Path | None, typer.Option(help="A .npz file with your own inputs.", **_Data)]
Size = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SIZE", help="An open size, as in B=4; several times for several sizes."),
]
Edges = Annotated[
    str,
    typer.Option(
        help="Edge values to try: none, finite or nan.",
        autocompletion=_one_of(EDGES),
    ),
]
Empty = Annotated[bool, typer.Option("--empty", help="Also try a batch of no rows.")]
_PYTHON = 'a command that starts a Python with ai-edge-litert elsewhere, as "ssh pi@host python3"'
Device = Annotated[
    str | None, typer.Option(help=f"What XLA runs on, cpu or gpu; or what else runs the file: {_PYTHON}.")
]
Elsewhere = Annotated[str | None, typer.Option("--device", metavar="COMMAND", help=f"What runs the file: {_PYTHON}.")]
Limit = Annotated[
    float | None,
    typer.Option("--limit", help="Seconds that one call of a file may take; by default 100 times others.", min=0),
]
Snr = Annotated[
    float | None,
    typer.Option("--snr", metavar="DB", help="Leave operators float, as few as possible, until outputs have this SNR."),
]
InFloats = Annotated[
    Path, typer.Option("--against", metavar="SOURCE", help="The model in floats: a .tflite file, or a source.")
]
RealData = Annotated[
    str, typer.Option("--data", help="Inputs to measure on: a .npz or .npy file, or a folder of them; or random.")
]
By = Annotated[str, typer.Option(help="What the table is sorted by: own, propagated or graph.")]
Most = Annotated[int, typer.Option(help="Rows of the table; 0 for all.", min=0)]
Explorer = Annotated[Path | None, typer.Option("--explorer", help="A file with node data for Model Explorer.")]
Runtimes = Annotated[
    list[str] | None, typer.Option("--runtime", help=f"A further runtime to run MODEL in: {', '.join(RUNTIMES)}.")
]
SaveFailing = Annotated[Path, typer.Option(help="A folder for the inputs that show a difference.", file_okay=False)]


def one_of(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise typer.BadParameter for a value that an option does not take, before anything slow."""
    if value not in choices:
        known = ", ".join(str(c) for c in choices if c is not None)
        raise typer.BadParameter(f"{value!r} is none of {known}", param_hint=f"--{name}")


def need_cpp(path: Path | None) -> None:
    """Raise typer.BadParameter for a file of another suffix than those of C++ sources."""
    if path is not None and path.suffix not in CPP_SUFFIXES:
        raise typer.BadParameter(f"{path} is no {', '.join(CPP_SUFFIXES)} file", param_hint="--c-array")


def need_file(path: Path) -> None:
    """Raise typer.BadParameter for a source that is no .tflite file."""
    if path.suffix != ".tflite":
        raise typer.BadParameter(f"{path} is no .tflite file; jfuse convert takes other sources")


def need_target(target: str) -> None:
    """Raise typer.BadParameter for the first unknown name among one or several targets."""
    for name in names_in(target):
        if not is_target(str(name)):
            raise typer.BadParameter(f"{name!r} is none of {', '.join(NAMES)}", param_hint="--target")


def need_recipe(option: str, name: str | None, calibration: str | None) -> None:
    """Raise typer.BadParameter for a recipe that there is not, and for data of nothing, or without a recipe."""
    if name is None and calibration is not None:
        raise typer.BadParameter("is for quantization: with --quantize", param_hint="--calibration")
    if name is not None and name.endswith(".json"):
        if not Path(name).is_file():
            raise typer.BadParameter(f"there is no file {name!r}", param_hint=f"--{option}")
    elif name is not None and name not in RECIPES:
        raise typer.BadParameter(
            f"{name!r} is none of {', '.join(RECIPES)}, nor a .json file", param_hint=f"--{option}"
        )
    need_data("calibration", calibration)


def need_data(option: str, data: str | None) -> None:
    """Raise typer.BadParameter for data that is neither a file, nor a folder, nor `random`."""
    if data is not None and data != "random" and not Path(data).exists():
        raise typer.BadParameter(f"there is no file or folder {data!r}", param_hint=f"--{option}")


def sizes_of(words: Sequence[str] | None) -> dict[str, int] | None:
    """The sizes in words like B=4; raises typer.BadParameter for others."""
    found = {}
    for word in words or ():
        name, equals, number = word.partition("=")
        if not (name and equals and _SIZE.fullmatch(number)):
            raise typer.BadParameter(f"{word!r} is no size; write it as B=4", param_hint="--size")
        found[name] = int(number)
    return found or None


def shapes_of(words: Sequence[str] | None) -> dict[str, tuple[int | None, ...]] | None:
    """The shapes in words like x=1,49,40 and x=1,?,40; raises typer.BadParameter for others."""
    found = {}
    for word in words or ():
        name, equals, sizes = word.rpartition("=")
        parts = sizes.split(",") if sizes else []
        if not (name and equals and all(part == "?" or _SIZE.fullmatch(part) for part in parts)):
            raise typer.BadParameter(f"{word!r} is no shape; write it as x=1,49,40", param_hint="--shape")
        found[name] = tuple(None if part == "?" else int(part) for part in parts)
    return found or None


def labels_of(words: Sequence[str] | None) -> dict[str, Path]:
    """The files of labels by output, "" for the only one; raises typer.BadParameter for files that are not there."""
    found = {}
    for word in words or ():
        output, _, path = word.rpartition("=")
        if not Path(path).is_file():
            raise typer.BadParameter(f"there is no file {path!r}", param_hint="--labels")
        found[output] = Path(path)
    return found


def names_of(words: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names in words like a,b."""
    return None if not words else tuple(name for word in words for name in word.split(",") if name)


def selected(
    signatures: Sequence[str] | None,
    shapes: Sequence[str] | None,
    batch: int | None,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
) -> dict[str, Any]:
    """The arguments of `jfuse.load` that select parts of a source."""
    return {
        "signatures": signatures,
        "shapes": shapes_of(shapes),
        "batch": batch,
        "input_tensors": names_of(inputs),
        "output_tensors": names_of(outputs),
    }


def check_modules(names: Sequence[str] | None) -> None:
    """Raise typer.BadParameter for modules that are not there. Those of the current folder are, as for `python -m`."""
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.insert(0, here)
    for name in names or ():
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found is None:
            raise typer.BadParameter(f"there is no module {name!r}", param_hint="--import")
