"""The options of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from jfuse.base.errors import JfuseError, need_choice, shown
from jfuse.base.option_values import LARGEST_SIZE, names_of, path_of, real, whole
from jfuse.base.options import option, options
from jfuse.tflite.targets.names import RUNTIMES

Edges: TypeAlias = Literal["none", "infinite", "finite", "nan"]

_SIZE = re.compile("[0-9]{1,10}")  # int takes the digits of all scripts, and not thousands of them


def _sizes(words: Sequence[str]) -> dict[str, int] | None:
    """The sizes in words like B=4; raises ValueError for others."""
    found = {}
    for word in words:
        name, equals, number = word.partition("=")
        if not (name and equals and _SIZE.fullmatch(number)):
            raise ValueError(f"{word!r} is no size; write it as B=4")
        found[name] = int(number)
    return found or None


def _runtimes(words: Sequence[str]) -> Sequence[str]:
    """Raise ValueError for a runtime that there is not."""
    for word in words:
        if word not in RUNTIMES:
            raise ValueError(f"{word!r} is none of {', '.join(RUNTIMES)}")
    return words


def _each(sizes: Any) -> Sequence[Mapping[str, int]]:
    """The choices of sizes; raises JfuseError if there are none."""
    choices = [] if sizes is None else [sizes] if isinstance(sizes, Mapping) else sizes
    are_mappings = isinstance(choices, Sequence) and all(isinstance(one, Mapping) for one in choices)
    if not are_mappings or (sizes is not None and not len(choices)):  # no choice at all would compare nothing
        raise JfuseError("sizes= takes sizes by name", expected="{'B': 4}, or several of these", found=shown(sizes))
    return choices


@options
class Verify:
    """The calls on which two sides are compared, the tolerance, and the search for the cause of a difference.

    Everything but floats must be equal. Raises JfuseError for values of other types.
    """

    samples: int = option(
        "More independent first calls to compare (rows of calls, if the model has states).",
        "They are computed in batches. Arrays in place of a number are taken for `inputs`.",
        default=0,
        min=0,
    )
    calls: int = option(
        "Calls in a row for each signature and choice of sizes.",
        "They are drawn at the scales 1, 0.1, 4, 1, …; states continue from one to the next.",
        default=3,
        min=1,
    )
    seed: int = option("The seed of all random inputs.", default=0, min=0)
    inputs: Any = option(
        "A .npz file with your own inputs to compare on.",
        "One call as an array, a tuple of arrays by position or a dict by name; several calls in a row as a list,"
        " an iterator or a tf.data.Dataset of these; or the path of a .npz file with an array for each input (one"
        " call), or `number/signature/input` (calls in a row). Each element is what one call takes, with its"
        " batch. Of several signatures the first of `keys` is called.",
        default=None,
        takes=Path,
        exists=True,
        dir_okay=False,
    )
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = option(
        "An open size, e.g. B=4; several times for several sizes.",
        "By the names that `print(model)` shows, one choice or several; by default two for each.",
        default=None,
        flag="--size",
        many=True,
        read=_sizes,
        metavar="NAME=SIZE",
    )
    keys: Sequence[str] | None = option(
        "A signature to compare, as the first side names it. Default: all that both have.",
        default=None,
        flag="--signature",
        many=True,
        metavar="KEY",
    )
    tolerance: float | Mapping[str, float] | None = option(
        "The largest max|a-b| / max|b| of outputs.",
        "Of float outputs, for all or by name. By default it follows from dtypes and operators, with the reason in each"
        " Difference.",
        default=None,
        takes=float,
        min=0,
    )
    edges: Edges | None = option(
        "Edge values to try: none, infinite, finite or nan.",
        '"infinite" is one infinity in one call; "finite" zeros, ones, denormals, the largest and the smallest'
        ' numbers, single steps of masks, ids and lengths at both ends; "nan" is NaNs and infinities, too. Where'
        " an overflow or a rounding of the input itself decides, edges are left out, with a note. Default:"
        ' "finite", in a conversion "none".',
        default=None,
        choices=(None, *get_args(Edges)),
    )
    empty: bool = option("Also try a batch of no rows.", "Where the first axis is open.", default=False)
    device: str | None = option(
        'A device that runs the file: a command that starts its Python with ai-edge-litert, e.g. "ssh pi@host python3".'
        " To verify, also cpu or gpu: what XLA runs on.",
        "Nothing is installed there.",
        default=None,
        metavar="COMMAND",
    )
    runtimes: Sequence[str] = option(
        f"A further runtime to run MODEL in: {', '.join(RUNTIMES)}.",
        '"tflite-micro" where it is installed (`jfuse[micro]`).',
        default=(),
        flag="--runtime",
        many=True,
        read=_runtimes,
    )
    save_failing: str | Path | None = option(
        "A folder for the inputs that show a difference.", default=None, takes=Path, file_okay=False
    )
    shrink: int | None = option(
        "The most runs that search for a smaller input that fails as well.",
        "Default: 100, in a conversion 0.",
        default=None,
        flag="",
    )
    each_equation: bool = option(
        "Also compare every intermediate value, in one call.",
        "`equations` of the result has the error along the graph.",
        default=False,
        flag="",
    )

    def __post_init__(self) -> None:
        if self.inputs is None and isinstance(self.samples, Iterable) and not isinstance(self.samples, str):
            object.__setattr__(self, "inputs", self.samples)
            object.__setattr__(self, "samples", 0)
        whole("samples=", self.samples, most=LARGEST_SIZE)
        whole("calls=", self.calls, 1, LARGEST_SIZE)
        whole("seed=", self.seed)
        names_of("keys=", self.keys)
        for runtime in names_of("runtimes=", self.runtimes) or ():
            need_choice("runtime", runtime, RUNTIMES)
        for sizes in _each(self.sizes):
            for name, size in sizes.items():
                whole(f"sizes= for {name}", size, most=LARGEST_SIZE)
        if self.shrink is not None:
            whole("shrink=", self.shrink)
        if self.save_failing is not None:
            path_of("save_failing=", self.save_failing)
        if not isinstance(self.device, str | None):
            raise JfuseError(f"no device {shown(self.device)}", expected="the name of a backend of XLA, or a command")
        tolerance = self.tolerance
        if tolerance is not None:
            for name, value in tolerance.items() if isinstance(tolerance, Mapping) else [("", tolerance)]:
                real(f"tolerance= for {name}" if name else "tolerance=", value)
