"""`jfuse.diff`: finds the differences of two models without running them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.api.load import load
from jfuse.base.errors import ImportFailed, JfuseError
from jfuse.base.files import need_regular
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.differences.programs import ProgramDiff
from jfuse.differences.result import ModelDiff
from jfuse.ir.graph import Program
from jfuse.ir.parser import is_program, parse_program
from jfuse.ir.types import DType
from jfuse.model import Model

TEXT_SUFFIXES = (".txt", ".jfuse")
_DIGEST = re.compile(r"const<(?P<dtype>\w+)\[(?P<shape>[\d,]*)\][^>\n]*? (?P<digest>[0-9a-f]{16})>")


@only_jfuse_errors("comparing")
def diff(a: Any, b: Any, *, unsafe: bool = False, limits: Limits = DEFAULT_LIMITS) -> ModelDiff:
    """Compare two models as programs: signatures, operators, types, options, constants, quantization, metadata.

    a, b: a Model or Program, the path of anything that `load` takes, of a text that `jfuse inspect` printed (`.txt`),
        or such a text itself. Nothing is run: two models that differ here may answer alike.
    unsafe, limits: as `load` has them.
    Takes time in proportion to the size of both. In texts long constants are known by their digest alone, so that how
    distance is unknown.
    Raises ImportFailed, BadFlatbuffer, or JfuseError for a text that is none.
    """
    sides = [_side(x, unsafe, limits) for x in (a, b)]
    digests = {**sides[0].digests, **sides[1].digests}
    differences = ProgramDiff(
        sides[0].program,
        sides[1].program,
        digest=lambda const: digests.get(id(const.array)) or const.digest,
        with_values=not digests,
    )
    differences.run()
    return ModelDiff(
        sides[0].name, sides[1].name, tuple(differences.findings), differences.operators(), differences.matched
    )


@dataclass(frozen=True)
class _Side:
    """One model.   digests: of constants without arrays, by the identity of the placeholder"""

    name: str
    program: Program
    digests: Mapping[int, str] = field(default_factory=dict)
    kept: tuple[np.ndarray, ...] = ()


def _side(source: Any, unsafe: bool, limits: Limits) -> _Side:
    if isinstance(source, Model | Program):
        program = source.program if isinstance(source, Model) else source
        return _Side(repr(source) if isinstance(source, Model) else "a program", program)
    if isinstance(source, str) and is_program(source):
        return _of_text(source, "the text")
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix in TEXT_SUFFIXES:
            return _of_text(_read(path), str(path))
        return _Side(str(path), load(path, unsafe=unsafe, limits=limits).program)
    return _Side(type(source).__name__, load(source, unsafe=unsafe, limits=limits).program)


def _read(path: Path) -> str:
    try:
        return need_regular(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFailed(f"{path} cannot be read as text", found=str(error)) from error


def _of_text(text: str, name: str) -> _Side:
    """The program of a text, with arrays of the right size for those that it names by digest."""
    if not is_program(text):
        raise JfuseError(f"{name} is no text of a model", expected="what `jfuse inspect` prints, or print(model)")
    placeholders = _Placeholders(text)
    program = parse_program(text, consts=placeholders.arrays)
    return _Side(name, program, placeholders.digests, tuple(placeholders.arrays.values()))


class _Placeholders:
    """Placeholders for arrays that a text names by digest: they take no memory and hold no data."""

    def __init__(self, text: str) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        for match in _DIGEST.finditer(text):
            shape = tuple(int(size) for size in match["shape"].split(",") if size)
            self.arrays.setdefault(match["digest"], _placeholder(match["dtype"], shape))
        self.digests = {id(array): digest for digest, array in self.arrays.items()}


def _placeholder(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of a type and a shape in the memory of one element."""
    return np.broadcast_to(np.zeros((), DType(dtype).numpy), shape)
