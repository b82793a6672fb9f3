"""Options that the command line alone has: files to write, what is printed, tables. Nothing slow is imported here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from jfuse.base.files import CPP_SUFFIXES
from jfuse.base.options import option
from jfuse.cli.flags import flag
from jfuse.frontends.selection import Inputs
from jfuse.passes.options import COST_ORDERS, Forms, QuantizationOptions
from jfuse.tflite.targets.names import NAMES
from jfuse.verification.options import Verify

DATA = {"exists": True, "dir_okay": False}


def _one_of(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """The choices that a shell offers: those that begin with the typed letters."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _cpp(path: Path) -> Path:
    """Raise ValueError for a file of another suffix than those of C++ sources."""
    if path.suffix not in CPP_SUFFIXES:
        raise ValueError(f"{path} is no {', '.join(CPP_SUFFIXES)} file")
    return path


def _labels(words: Sequence[str]) -> dict[str, Path]:
    """The files of labels by output, "" for the only one; raises ValueError for files that are not there."""
    found = {}
    for word in words:
        output, _, path = word.rpartition("=")
        if not Path(path).is_file():
            raise ValueError(f"there is no file {path!r}")
        found[output] = Path(path)
    return found


@dataclass(frozen=True)
class Reports:
    """Where the report goes besides the terminal."""

    json: Path | None = option("Write the report as JSON.", default=None, takes=Path)
    html: Path | None = option("Write the report as an HTML page.", default=None, takes=Path)


@dataclass(frozen=True)
class FileOptions:
    """C++ source beside the model, and metadata in it.   labels: files by output, "" for the only one"""

    c_array: Path | None = option(
        "C++ source with the file's bytes, and headers, for tflite-micro.",
        default=None,
        takes=Path,
        read=_cpp,
        metavar="FILE.cc",
    )
    metadata: Path | None = option(
        "Name, author, description and labels of the file, as JSON.",
        default=None,
        takes=Path,
        metavar="FILE.json",
        exists=True,
        dir_okay=False,
    )
    labels: dict[str, Path] | None = option(
        "A text file with a line for each class of an output.",
        default=None,
        many=True,
        read=_labels,
        metavar="[OUTPUT=]FILE",
    )


@dataclass(frozen=True)
class Terminal:
    """Options of printing."""

    quiet: bool = option("Print nothing but errors.", default=False)
    verbose: bool = option("Also show what TensorFlow, XLA and LiteRT print.", default=False)


Json = Annotated[Reports, ("json",)]
Modules = Annotated[Inputs, ("modules",)]
Unsafe = flag(Inputs, "unsafe")
Batch = flag(Inputs, "batch")
Device = flag(Verify, "device")
Recipe = flag(QuantizationOptions, "recipe", "--recipe")
Calibration = flag(QuantizationOptions, "calibration")
TargetAlone = Annotated[Forms, ("target",)]

Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="A SavedModel folder, or a .keras, .h5, .pb, .pt2 or .tflite file.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A .tflite file, whoever wrote it.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="The .tflite file to write.")]
CheckedTarget = Annotated[
    str | None,
    typer.Option("--target", help=f"The target: {', '.join(NAMES)}; a,b: several. Default: all."),
]
Slower = Annotated[float, typer.Option(help="The longest time that the result may take, in times of FILE.", min=0.01)]
Candidates = Annotated[
    Path | None, typer.Option(help="A folder for the files that are timed, to time them on a device.", file_okay=False)
]
Timings = Annotated[
    list[Path] | None,
    typer.Option("--timings", help="The output of LiteRT's benchmark_model for these files on a device.", **DATA),
]
Compare = Annotated[bool, typer.Option("--verify/--no-verify", help="Compare with TensorFlow and LiteRT.")]
Stage = Annotated[
    str | None, typer.Option(help="Lower SOURCE up to this pass of docs/architecture.md, such as fuse or simplify.")
]
Table = Annotated[bool, typer.Option("--table", help="Tables of signatures and operators in place of the text.")]
LabelsKey = Annotated[
    str | None,
    typer.Option("--labels-key", metavar="NAME", help="An array of labels in the .npz file, to leave out."),
]
CostBy = Annotated[str, typer.Option("--by", help="Rows of the table: operator, type or layer.")]
CostSort = Annotated[
    str,
    typer.Option("--sort", help=f"Order of the table: {', '.join(COST_ORDERS)}.", autocompletion=_one_of(COST_ORDERS)),
]
Measure = Annotated[bool, typer.Option("--measure", help="Also time each operator of the table, alone in LiteRT.")]
Page = Annotated[Path | None, typer.Option("--html", help="Write the graph as an HTML page.")]
Rules = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules",
        metavar="FILE",
        help="A Python file with rules or passes of your own.",
        rich_help_panel="Pipeline",
        **DATA,
    ),
]
Compared = Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file, a SavedModel folder or a .keras file.")]
Against = Annotated[
    str | None, typer.Option(help="The reference, of the same kinds. Default for a file: its graph on XLA.")
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
By = Annotated[str, typer.Option(help="Order of the table: own, propagated or graph.")]
Most = Annotated[int, typer.Option(help="Rows of the table; 0 for all.", min=0)]
Explorer = Annotated[Path | None, typer.Option("--explorer", help="Write node data for Model Explorer.")]


def one_of(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise typer.BadParameter for a value that an option does not take, before anything slow."""
    if value not in choices:
        known = ", ".join(str(c) for c in choices if c is not None)
        raise typer.BadParameter(f"{value!r} is none of {known}", param_hint=f"--{name}")


def need_file(path: Path) -> None:
    """Raise typer.BadParameter for a source that is no .tflite file."""
    if path.suffix != ".tflite":
        raise typer.BadParameter(f"{path} is no .tflite file; jfuse convert takes other sources")


def need_words(option: str, read: Callable[[str], object], word: str | None) -> None:
    """Raise typer.BadParameter where `read` raises ValueError for a word."""
    try:
        read(word) if word is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{option}") from error


def check_modules(names: Sequence[str]) -> None:
    """Raise typer.BadParameter for modules that are not there. Those of the current folder are, as for `python -m`."""
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.insert(0, here)
    for name in names:
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found is None:
            raise typer.BadParameter(f"there is no module {name!r}", param_hint="--import")
