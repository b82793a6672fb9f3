"""Calibration data in the forms that people have, as items of calls; each is checked before it is run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.base.users_code import users_code, users_elements
from jfuse.ir.dims import is_known, symbols_of
from jfuse.ir.graph import Program, Signature
from jfuse.ir.states import initial_values
from jfuse.ir.types import DType, TensorType
from jfuse.proof.inputs import draws, long_sizes, size_choices
from jfuse.proof.ranges import integer_limits
from jfuse.quantization.npz import npz_arrays

CalibrationData: TypeAlias = Any
"""The types that `calibration=` accepts.

- A function without arguments that yields calls (TensorFlow's representative data set), an iterable of calls, or a
  `tf.data.Dataset` of them. A call is a dict of arrays by input name, a list or tuple of arrays by position, the array
  of the only input, or a pair of a signature's key and one of these. Each array is what one call takes, batch included.
- An item that is a list of calls is a sequence: its calls follow each other, from the initial states. Calls that stand
  alone go on from each other where the model keeps something between calls, as they do in an interpreter; so do states
  that are inputs and results, where the data leave them out.
- Arrays of samples: one array, or a dict of them by input name. They are cut along the first axis into calls; rows that
  do not fill the batch of a last call are left out.
- The path of a .npz or .npy file with arrays of samples, or of a folder of such files, in the order of their names.
- A dict of any of these by signature key.
- Statistics of earlier calibrations of the same model and recipe (`result.statistics`), files or a folder of such, or a
  list of any of these, which are merged in their order.
- "random": random numbers, for a first try; the report warns that the file should not be trusted.
"""
RANDOM = "random"
_RANDOM_CALLS = 32


@dataclass(frozen=True)
class SampleCall:
    """One call of a signature: its inputs by name.

    left_out: states among the inputs that the data do not have: they go on from the call before; here they are as
    before the first one.
    """

    key: str
    inputs: Mapping[str, np.ndarray]
    left_out: tuple[str, ...] = ()

    def after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs, with omitted ones from the results of the call before."""
        gone_on = ((name, results[name]) for name in self.left_out if name in results)
        return {**self.inputs, **{n: a for n, a in gone_on if a.shape == self.inputs[n].shape}}


@dataclass(frozen=True)
class Item:
    """Calls in a row.   goes_on: from the states that the item before left, else from the initial ones"""

    calls: tuple[SampleCall, ...]
    goes_on: bool


def calibration_items(program: Program, data: CalibrationData, key: str | None = None) -> Iterator[Item]:
    """The items of the data, each checked when it is read; arrays and files in memory are checked at once.

    key: the signature that calls without a key are of; by default `serving_default`, else the first.
    Raises JfuseError for names, shapes, dtypes and values that do not fit, and for data without an item.
    """
    signatures = {s.key: s for s in program.signatures}
    default = key or ("serving_default" if "serving_default" in signatures else next(iter(signatures)))
    if default not in signatures:
        raise JfuseError(f"the model has no signature {default!r}", expected=f"one of {list(signatures)}")
    reader = _Reader(signatures)
    items = reader.items(data, default)
    first = next(items, None)
    if first is None:
        raise JfuseError("there is no calibration data", found="nothing in it", remedy="a hundred typical inputs")
    return _chained(first, items)


def _chained(first: Item, rest: Iterator[Item]) -> Iterator[Item]:
    yield first
    yield from rest


@dataclass(frozen=True)
class _Reader:
    signatures: Mapping[str, Signature]

    def items(self, data: CalibrationData, key: str) -> Iterator[Item]:
        if isinstance(data, str) and data == RANDOM:
            yield from self._random()
        elif isinstance(data, str | os.PathLike):
            yield from self._of_path(Path(data), key)
        elif isinstance(data, Mapping):
            yield from self._of_mapping(data, key)
        elif _is_array(data):
            yield from self._samples({self._only_input(key): data}, key, "the calibration data")
        else:
            yield from self._of_stream(data, key)

    def _random(self) -> Iterator[Item]:
        for signature in self.signatures.values():
            graph = signature.graph
            may_loop = any(eqn.bodies for eqn in graph.eqns)
            sizes = long_sizes(graph) if may_loop else size_choices(graph)[0]
            for seed in range(_RANDOM_CALLS):
                (inputs,) = draws(signature, sizes, seed, 1)
                yield Item((SampleCall(signature.key, inputs),), goes_on=True)

    def _of_path(self, path: Path, key: str) -> Iterator[Item]:
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.suffix in (".npz", ".npy"))
            if not files:
                raise JfuseError(f"{path} has no calibration data", expected="files *.npz or *.npy")
            for file in files:
                yield from self._of_path(file, key)
            return
        if not path.exists():
            raise JfuseError(
                f"there is no calibration data at {path}",
                expected="a file *.npz or *.npy with arrays of samples, or a folder of such files",
                found="nothing there",
                remedy=f"a path that exists, or calibration={RANDOM!r} for a try without data",
            )
        arrays = npz_arrays(path)
        named = {self._only_input(key): arrays[""]} if "" in arrays else arrays
        yield from self._samples(named, key, str(path))

    def _of_mapping(self, data: Mapping[Any, Any], key: str) -> Iterator[Item]:
        names = self.signatures[key].input_names
        if not set(data) <= set(names) and data and set(data) <= self.signatures.keys():
            for of, part in data.items():
                yield from self.items(part, of)
        else:
            yield from self._samples(data, key, "the calibration data")

    def _of_stream(self, data: Any, key: str) -> Iterator[Item]:
        if callable(data):
            with users_code():
                data = data()
        if hasattr(data, "as_numpy_iterator"):
            data = data.as_numpy_iterator()
        if not isinstance(data, Iterable):
            raise JfuseError(
                f"no calibration data: {shown(data)}",
                expected="a function that yields calls, calls, arrays, files, a tf.data.Dataset, or 'random'",
            )
        for number, element in enumerate(users_elements(data, "the calibration data")):
            yield self._item(element, key, f"item {number} of the calibration data")

    def _item(self, element: Any, key: str, place: str) -> Item:
        if _is_sequence(element):
            if not len(element):
                raise JfuseError(f"{place} is empty", expected="at least one call")
            return Item(tuple(self._call(e, key, f"call {n} of {place}") for n, e in enumerate(element)), goes_on=False)
        return Item((self._call(element, key, place),), goes_on=True)

    def _call(self, element: Any, key: str, place: str) -> SampleCall:
        if isinstance(element, tuple) and len(element) == 2 and isinstance(element[0], str):
            key, element = element
            if key not in self.signatures:
                raise JfuseError(f"{place} calls {key!r}", expected=f"a signature: one of {list(self.signatures)}")
        names = self.signatures[key].input_names
        if isinstance(element, Mapping):
            named = {str(name): value for name, value in element.items()}
        else:
            values = element if isinstance(element, list | tuple) else (element,)
            if len(values) > len(names):
                # Not taken for calls in a row: a row of one could not be told from the arrays of one call.
                row = "a row of calls is a list of lists or dicts: [[x] for x in …]; " if len(names) == 1 else ""
                raise self._other_inputs(key, place, f"{len(values)} arrays", row)
            named = dict(zip(names, values, strict=False))
        return self._sample(key, named, place)

    def _sample(self, key: str, named: Mapping[str, Any], place: str) -> SampleCall:
        left_out = (state.name for state in self.signatures[key].exposed if state.name not in named)
        return SampleCall(key, self._checked(key, named, place), tuple(left_out))

    def _samples(self, arrays: Mapping[Any, Any], key: str, place: str) -> Iterator[Item]:
        """Calls of arrays with samples along their first axis, all of them checked first."""
        signature = self.signatures[key]
        self._check_names(key, [str(name) for name in arrays], place)
        types = dict(zip(signature.input_names, (v.type for v in signature.graph.inputs), strict=False))
        cuts = {str(n): _Cut.of(types[str(n)], np.asarray(a), f"{n!r} in {place}") for n, a in arrays.items()}
        counts = {name: cut.calls for name, cut in cuts.items()}
        if not min(counts.values()):
            raise JfuseError(
                f"{place} has not enough rows for a call",
                expected=", ".join(f"{n!r}: {cut.rows or 1} or more" for n, cut in cuts.items()),
                found={name: len(cut.array) for name, cut in cuts.items()},
                remedy="a hundred typical inputs",
            )
        if len(set(counts.values())) != 1:
            raise JfuseError(
                f"{place} has arrays of different lengths",
                expected="as many calls of each",
                found=counts,
                remedy="leave out the ones without a counterpart",
            )
        for name, cut in cuts.items():
            _check_values(cut.array, f"{name!r} in {place}")
        limits = integer_limits(signature.graph)
        ends = dict(zip(signature.input_names, (limits.get(v) for v in signature.graph.inputs), strict=False))
        fitting = {n: cut.fitting(types[n], ends[n]) for n, cut in cuts.items()}
        known = {n: cut for n, cut in fitting.items() if cut is not None}
        first: Mapping[str, np.ndarray] = {}
        for number in range(min(counts.values())):
            if not first or len(known) < len(cuts):  # the error is to name the call
                inputs = {name: cut.call(number) for name, cut in cuts.items()}
                call = self._sample(key, inputs, f"call {number} of {place}")
                first = call.inputs
            else:  # as the first one
                call = replace(call, inputs={**first, **{n: cut.call(number) for n, cut in known.items()}})
            yield Item((call,), goes_on=True)

    def _checked(self, key: str, named: Mapping[str, Any], place: str) -> dict[str, np.ndarray]:
        """The arrays in the dtypes of the inputs; JfuseError that names the input which does not fit."""
        signature = self.signatures[key]
        self._check_names(key, list(named), place)
        variables = dict(zip(signature.input_names, signature.graph.inputs, strict=False))
        limits = integer_limits(signature.graph)
        inputs, sizes = {}, dict[str, int]()
        for name, value in named.items():
            where = f"{name!r} in {place}"
            inputs[name] = _fitting(variables[name].type, value, where, sizes)
            _check_values(inputs[name], where, limits.get(variables[name]))
        types = {name: var.type for name, var in variables.items()}
        inputs |= initial_values([s for s in signature.exposed if s.name not in inputs], types, inputs)
        return {name: inputs[name] for name in signature.input_names}

    def _check_names(self, key: str, names: Sequence[str], place: str) -> None:
        signature = self.signatures[key]
        optional = {state.name for state in signature.exposed}
        if set(names) - set(signature.input_names) or set(signature.input_names) - set(names) - optional:
            raise self._other_inputs(key, place, names)

    def _other_inputs(self, key: str, place: str, found: object, first: str = "") -> JfuseError:
        signature = self.signatures[key]
        types = zip(signature.input_names, (v.type for v in signature.graph.inputs), strict=False)
        return JfuseError(
            f"{place} does not have the inputs of signature {key!r}",
            expected=", ".join(f"{name}: {t}" for name, t in types),
            found=found,
            remedy=f"{first}a dict by these names, or a list in this order; of a data set of pairs map the first",
        )

    def _only_input(self, key: str) -> str:
        names = self.signatures[key].input_names
        if len(names) != 1:
            raise self._other_inputs(key, "the calibration data", "one array")
        return names[0]


@dataclass(frozen=True)
class _Cut:
    """An array of samples.   rows: number of samples in the first axis of the input of one call; 0: no such axis"""

    array: np.ndarray
    rows: int

    @classmethod
    def of(cls, wanted: TensorType, array: np.ndarray, where: str) -> _Cut:
        if array.ndim == wanted.rank + 1:
            return cls(array, 0)
        if array.ndim != wanted.rank or not array.ndim:
            raise _misfit(wanted, array, where)
        first = wanted.shape[0]
        return cls(array, int(first) if is_known(first) else 1)

    def fitting(self, wanted: TensorType, end: int | None) -> _Cut | None:
        """The same in the dtype of the input, where all its numbers are such; None where some may not be.

        end: above the integers that are taken, where there is such a limit.
        """
        if wanted.dtype is DType.string or not _is_of_kind(self.array.dtype, wanted.dtype.numpy):
            return None
        with np.errstate(over="ignore"):
            converted = self.array.astype(wanted.dtype.numpy, copy=False)
        if converted.dtype.kind in "iu":
            beyond = end is not None and converted.size and int(converted.max()) >= end
            return None if beyond or not np.array_equal(converted, self.array) else _Cut(converted, self.rows)
        if converted.dtype is not self.array.dtype and converted.dtype.kind in "fV" and not is_finite(converted):
            return None
        return _Cut(converted, self.rows)

    @property
    def calls(self) -> int:
        """The number of calls that the array is cut into."""
        return len(self.array) // max(self.rows, 1)

    def call(self, number: int) -> np.ndarray:
        """The input of one call: its rows of the array, or one element where rows are calls."""
        return self.array[number * self.rows : (number + 1) * self.rows] if self.rows else self.array[number]


def repeatable(data: CalibrationData) -> CalibrationData:
    """The data as something that can be gone through twice: an iterator as the list of its items."""
    return list(users_elements(data, "the calibration data")) if isinstance(data, Iterator) else data


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not hasattr(value, "as_numpy_iterator")


def _is_sequence(element: Any) -> bool:
    """Whether an item is a list of calls, not the arrays of one."""
    if not isinstance(element, list | tuple) or (len(element) == 2 and isinstance(element[0], str)):
        return False
    return not element or isinstance(element[0], Mapping | list | tuple)


def _fitting(wanted: TensorType, value: Any, where: str, sizes: dict[str, int]) -> np.ndarray:
    """The array in the dtype of the input.   sizes: those of open dimensions so far, which must agree"""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # a ragged list, an object that is no array
        raise JfuseError(f"{where} is no array", expected=str(wanted), found=str(error)) from error
    if wanted.dtype is DType.string:
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in array.ravel()]
        array = np.array(flat, object).reshape(array.shape)
    elif not _is_of_kind(array.dtype, wanted.dtype.numpy):
        raise _misfit(wanted, array, where)
    if wanted.ranked and wanted.is_static and _without_ones(array.shape) == _without_ones(wanted.shape):
        array = array.reshape([int(d) for d in wanted.shape])
    dims = list(zip(wanted.shape, array.shape, strict=False)) if wanted.ranked else []
    if wanted.ranked and (array.ndim != wanted.rank or any(is_known(d) and int(d) != n for d, n in dims)):
        raise _misfit(wanted, array, where)
    for dim, size in dims:
        if symbols_of(dim) == {str(dim)} and sizes.setdefault(str(dim), size) != size:
            raise JfuseError(
                f"{where} has another size {dim}",
                expected=sizes[str(dim)],
                found=list(array.shape),
                remedy="inputs of one call, which agree in this size",
            )
    converted = array.astype(wanted.dtype.numpy, copy=False)
    if array.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise JfuseError(f"{where} has numbers that {wanted.dtype.value} cannot hold", found=int(np.abs(array).max()))
    return converted


def _without_ones(shape: Sequence[Any]) -> list[Any]:
    """The sizes that matter: one more axis of a single row, or one fewer, leaves the numbers the same."""
    return [size for size in shape if size != 1]


def _is_of_kind(found: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether numbers of one dtype can be meant as those of the other; integers are checked one by one."""
    return found == wanted or (found.kind in "iu" and wanted.kind in "iu") or np.can_cast(found, wanted, "same_kind")


def _misfit(wanted: TensorType, array: np.ndarray, where: str) -> JfuseError:
    actual = f"{array.dtype}{list(array.shape)}"
    return JfuseError(f"{where} does not fit", expected=str(wanted), found=actual, remedy=_to_fit(wanted, array))


def _to_fit(wanted: TensorType, array: np.ndarray) -> str:
    if wanted.dtype is not DType.string and not _is_of_kind(array.dtype, wanted.dtype.numpy):
        return f"numbers of another type: np.asarray(…, np.{np.dtype(wanted.dtype.numpy).name})"
    if wanted.ranked and array.ndim == wanted.rank - 1:
        return "the axis of the batch before the others: array[None]"
    return "arrays of the sizes that the model takes, the batch included"


def is_finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite, without a temporary array: there may be many."""
    with np.errstate(invalid="ignore"):
        return not array.size or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _check_values(array: np.ndarray, where: str, end: int | None = None) -> None:
    if array.dtype.kind in "fV" and not is_finite(array):
        index = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        raise JfuseError(
            f"{where} is not finite",
            expected="numbers",
            found=f"{array[index]} at {list(index)}",
            remedy="leave it out",
        )
    if end is not None and array.size and array.dtype.kind in "iu" and int(array.max()) >= end:
        raise JfuseError(f"{where} has ids beyond the table", expected=f"below {end}", found=int(array.max()))
