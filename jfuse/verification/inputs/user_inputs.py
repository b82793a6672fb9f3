"""The user's own inputs: arrays, mappings, sequences of calls, .npz files, generators and data sets."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.base.files import write_atomic
from jfuse.base.users_code import users_elements
from jfuse.ir.dims import Dim, is_known, multiple
from jfuse.ir.types import DType, TensorType
from jfuse.proof.inputs import CallInputs
from jfuse.quantization.npz import npz_arrays
from jfuse.verification.subject import Interface

_PLACE = re.compile(r"([0-9]{1,18})/([^/]*)/(.*)")


def need_inputs(option: str, inputs: object) -> None:
    """Raise JfuseError for a value that cannot be inputs; None is accepted and means drawn inputs."""
    if inputs is None or isinstance(inputs, str | Path | Iterable) or hasattr(inputs, "__array__"):
        return
    raise JfuseError(
        f"{option} takes inputs",
        expected="arrays (one, a tuple, a dict), a list or iterator of those, a data set, or a .npz file",
        found=shown(inputs),
    )


@dataclass(frozen=True)
class UserInputs:
    """Reads the user's inputs as the calls of one row.   key: the signature that calls without a key are of"""

    signatures: Mapping[str, Interface]
    key: str

    def calls(self, inputs: Any) -> Iterator[CallInputs]:
        """One call for a mapping by input name, a tuple by position, or the array of the only input.

        One call after the other for a list, an iterator or a data set of these, each as it is: with the batch that it
        has. All calls in a row for the path of a .npz file. Raises JfuseError where they do not fit the signature, and
        behind the last one where none has anything to compare.
        """
        count, has_rows = 0, False
        for call in self._calls(inputs):
            count, has_rows = count + 1, has_rows or self._has_rows(call)
            yield call
        if not has_rows:
            raise JfuseError(
                "the given inputs compare nothing",
                expected="at least one call, with rows",
                found=f"{count} calls without rows" if count else "no calls",
                remedy="inputs with rows, or none at all: then they are drawn",
            )

    def _has_rows(self, call: CallInputs) -> bool:
        """Whether an input whose size is open, or any where none is, has elements."""
        types = self.signatures[call.key].inputs
        sized = [a for n, a in call.inputs.items() if not types[n].is_static] or list(call.inputs.values())
        return not sized or any(a.size for a in sized)

    def _calls(self, inputs: Any) -> Iterator[CallInputs]:
        if isinstance(inputs, str | Path):
            yield from self._of_file(Path(inputs))
        elif isinstance(inputs, Mapping | tuple) or hasattr(inputs, "__array__"):
            yield self._call(self.key, inputs)
        elif isinstance(inputs, Iterable):
            elements = inputs.as_numpy_iterator() if hasattr(inputs, "as_numpy_iterator") else inputs
            for element in users_elements(elements, "the inputs"):
                yield self._call(self.key, element)
        else:
            need_inputs("inputs=", inputs)

    def _of_file(self, path: Path) -> Iterator[CallInputs]:
        arrays = npz_arrays(path)
        placed = {name: match for name in arrays if (match := _PLACE.fullmatch(name))}
        if len(placed) < len(arrays):
            yield self._call(self.key, arrays)
            return
        calls: dict[int, tuple[str, dict[str, np.ndarray]]] = {}
        for name, match in placed.items():
            number, key, of = match.groups()
            calls.setdefault(int(number), (key, {}))[1][of] = arrays[name]
        for number in sorted(calls):
            key, named = calls[number]
            if key not in self.signatures:
                raise JfuseError(f"{path} calls signature {key!r}", expected=f"one of {list(self.signatures)}")
            yield self._call(key, named)

    def _call(self, key: str, element: Any) -> CallInputs:
        types = self.signatures[key].inputs
        if isinstance(element, Mapping):
            named = {str(name): value for name, value in element.items()}
        else:
            values = element if isinstance(element, tuple) else (element,)
            named = dict(zip(types, values, strict=False))
            if len(values) > len(types):
                raise _unlike(key, types, f"{len(values)} arrays")
        optional = self.signatures[key].exposed
        if named.keys() - types.keys() or types.keys() - named.keys() - set(optional):
            raise _unlike(key, types, list(named))
        return CallInputs(key, {name: _fitting(types[name], named[name], f"{key}/{name}") for name in named}, "given")


def _unlike(key: str, types: Mapping[str, TensorType], found: object) -> JfuseError:
    return JfuseError(
        f"the given inputs are not those of signature {key!r}",
        expected=", ".join(f"{name}: {t}" for name, t in types.items()),
        found=found,
        remedy="a dict by these names, or a tuple in this order; of a data set of pairs map the first",
    )


def _fitting(of: TensorType, value: Any, place: str) -> np.ndarray:
    """The array in the dtype of the input; raises JfuseError for another kind of numbers, rank or size."""
    array = np.asarray(value)
    dtype = of.dtype.numpy
    if of.dtype is DType.string:
        array = np.array([v if isinstance(v, bytes) else str(v).encode() for v in array.ravel()], object).reshape(
            array.shape
        )
    elif array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)  # .npz files know nothing of bfloat16
    fits = array.dtype == dtype or np.can_cast(array.dtype, dtype, "same_kind")
    sizes = zip(of.shape, array.shape, strict=False)
    if not fits or array.ndim != of.rank or not all(_can_be(d, n) for d, n in sizes):
        raise JfuseError(
            f"the given array for {place} does not fit", expected=str(of), found=f"{array.dtype}{list(array.shape)}"
        )
    return array.astype(dtype, copy=False)


def _can_be(dim: Dim, size: int) -> bool:
    """Whether a dimension can have a size: a number its own, 2*N (which was assumed of it) even ones."""
    if is_known(dim):
        return int(dim) == size
    coefficient = multiple(dim)
    return coefficient is None or (size - coefficient[2]) % coefficient[1] == 0


def save_calls(path: Path, calls: Iterable[CallInputs]) -> None:
    """Write calls in a row to an .npz file: an array `number/signature/input` for each input of each call."""
    arrays = {}
    for number, call in enumerate(calls):
        for name, array in call.inputs.items():
            arrays[f"{number:03}/{call.key}/{name}"] = array.astype("S") if array.dtype == object else array
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    save: Any = np.savez  # its types take an array for an option
    save(buffer, **arrays)
    write_atomic(path, buffer.getvalue())
