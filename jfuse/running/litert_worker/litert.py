"""Files in LiteRT's interpreter, as the worker process runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import ml_dtypes  # noqa: F401  before LiteRT, which takes arrays of bfloat16 only if NumPy knew the type by then
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tallies import Tallies, TallyRequest  # type: ignore[import-not-found]  # beside this file

_IS_EMPTY = "Invalid tensor size"  # how Python's interpreter refuses to read an output that has no elements

Arrays = dict[str, np.ndarray]
_Key = TypeVar("_Key", str, int)


class SampleRefused(RuntimeError):
    """LiteRT refuses a sample."""

    def __init__(self, sample: int, error: Exception) -> None:
        super().__init__(" ".join(str(error).split()))
        self.sample = sample


class Loaded:
    """One file in LiteRT.   data: u8[n]; preserve: every tensor can be looked at after a call"""

    def __init__(
        self, begin: Callable[[int], None], data: Any, resolver: str, threads: int, preserve: bool, allocate: bool
    ) -> None:
        self._begin = begin
        self._data = bytes(data)
        self._how = {
            "num_threads": threads,
            "experimental_op_resolver_type": OpResolverType[resolver],
            "experimental_preserve_all_tensors": preserve,
        }
        self._interpreter = self._new()
        if allocate:
            self._interpreter.allocate_tensors()

    def _new(self) -> Interpreter:
        return Interpreter(model_content=self._data, **self._how)

    def signatures(self) -> Any:
        """The names of inputs and outputs, by key."""
        return self._interpreter.get_signature_list()

    def allocate(self, key: str, shapes: dict[str, list[int]]) -> None:
        """Give the inputs of a signature these shapes, and allocate all tensors of its subgraph."""
        inputs, subgraph = self._interpreter.get_signature_runner(key).get_input_details(), self._subgraph(key)
        within = self._interpreter._interpreter  # the public methods know the first subgraph alone
        for name, shape in shapes.items():
            within.ResizeInputTensor(inputs[name]["index"], np.array(shape, np.int32), False, subgraph)
        within.AllocateTensors(subgraph)

    def tensors(self) -> tuple[list[int], list[int], dict[str, int]]:
        """The tensors that are inputs and outputs of the first subgraph, and all by name."""
        lite = self._interpreter
        inputs, outputs = ([d["index"] for d in of] for of in (lite.get_input_details(), lite.get_output_details()))
        return inputs, outputs, {d["name"]: d["index"] for d in lite.get_tensor_details()}

    def call(self, key: str | None, inputs: Arrays) -> Arrays:
        """The outputs of one call of a signature by name."""
        runner = self._interpreter.get_signature_runner(key)
        try:
            outputs = runner(**_given(inputs))
        except (ValueError, RuntimeError) as error:
            if str(error).startswith(_IS_EMPTY):
                return dict(self._outputs(key))
            raise
        return {name: _found(value) for name, value in outputs.items()}

    def timed(self, key: str, inputs: Arrays, calls: int) -> list[float]:
        """The seconds that each of so many calls in a row takes."""
        invoke = self._ready(key, inputs)
        seconds = []
        for _ in range(calls):
            started = time.perf_counter()
            invoke()
            seconds.append(time.perf_counter() - started)
        return seconds

    def _ready(self, key: str, inputs: Arrays) -> Callable[[], Any]:
        """Prepare a call: set the inputs of the first subgraph, or bind those of a signature."""
        lite, inputs = self._interpreter, _given(inputs)
        if self._subgraph(key):
            runner = lite.get_signature_runner(key)
            return lambda: runner(**inputs)
        details = lite.get_signature_runner(key).get_input_details()  # a runner that lives keeps from allocating
        for name, value in inputs.items():
            if tuple(details[name]["shape"]) != value.shape:
                lite.resize_tensor_input(details[name]["index"], value.shape)
        lite.allocate_tensors()
        for name, value in inputs.items():
            lite.set_tensor(details[name]["index"], value)
        return lambda: lite.invoke()

    def rows(self, before: list[dict[int, np.ndarray]], after: list[int]) -> list[list[np.ndarray]]:
        """Calls of the first subgraph by tensors: what each of `after` holds once those of `before` were set."""
        rows = []
        for number, tensors in enumerate(before):
            self._begin(number)
            for tensor, value in _given(tensors).items():
                self._interpreter.set_tensor(tensor, value)
            self._interpreter.invoke()
            rows.append([_found(self._interpreter.get_tensor(tensor)) for tensor in after])
        return rows

    def look(self, inputs: list[np.ndarray], looks: tuple[Any, ...]) -> tuple[Any, ...]:
        """`TallyResult` in calls of the first subgraph, on samples along the first axis of each input."""
        lite = self._interpreter
        lite.allocate_tensors()
        input_tensors, made, _ = self.tensors()
        tensors = [lite.tensor([*input_tensors, *made][place]) for place in TallyRequest(*looks).places]
        tallies = Tallies(TallyRequest(*looks))
        for number, sample in enumerate(zip(*inputs, strict=True)):
            self._begin(number)
            for tensor, value in zip(input_tensors, sample, strict=True):
                lite.set_tensor(tensor, value)
            lite.invoke()
            tallies.add(tensors)
        return tuple(tallies.seen())

    def read(self, subgraph: int, tensors: list[int]) -> dict[int, np.ndarray]:
        """Read tensors after a call; tensors without elements, which are not allocated, are left out."""
        arrays = {}
        for tensor in tensors:
            try:
                arrays[tensor] = _found(self._interpreter.get_tensor(tensor, subgraph))
            except ValueError:
                pass
        return arrays

    def samples(self, key: str, fresh: bool, in_a_row: bool, inputs: Arrays) -> Arrays:
        """The outputs of all samples, along the first axis of each input, stacked.

        fresh: an interpreter for each, as what the file keeps between calls must be left out. in_a_row: a sample is
        several calls, along a second axis.
        """
        outputs: list[Arrays] = []
        signature = self._interpreter.get_signature_runner(key)
        for sample in _items(inputs):
            number = len(outputs)
            if fresh and number:
                self._interpreter = self._new()
                signature = self._interpreter.get_signature_runner(key)
            try:
                if in_a_row:
                    outputs.append(_stacked([self._call(signature, one, number) for one in _items(sample)]))
                else:
                    outputs.append(self._call(signature, sample, number))
            except (ValueError, RuntimeError) as error:
                raise SampleRefused(number, error) from error
        if fresh:
            self._interpreter = self._new()
        return _stacked(outputs)

    def _call(self, signature: Any, inputs: Arrays, number: int) -> Arrays:
        self._begin(number)
        return {name: _found(value) for name, value in signature(**_given(inputs)).items()}

    def _outputs(self, key: str | None) -> Iterator[tuple[str, np.ndarray]]:
        """The outputs of the last call, without reading those that have no elements."""
        subgraph = self._subgraph(key)
        for name, output in self._interpreter.get_signature_runner(key).get_output_details().items():
            if 0 in output["shape"]:
                yield name, np.zeros(output["shape"], output["dtype"])
            else:
                yield name, _found(self._interpreter.get_tensor(output["index"], subgraph))

    def _subgraph(self, key: str | None) -> int:
        return 0 if key is None else int(self._interpreter._interpreter.GetSubgraphIndexFromSignature(key))


def _given(arrays: dict[_Key, np.ndarray]) -> dict[_Key, np.ndarray]:
    """Arrays as LiteRT takes them: of a single text that is a Python object it reads the object's address."""
    return {name: _as_bytes(a) if a.dtype == object and not a.ndim else a for name, a in arrays.items()}


def _as_bytes(text: np.ndarray) -> np.ndarray:
    data = bytes(text[()])
    return np.ndarray((), f"S{len(data)}", data)  # np.array(b"") has one byte


def _found(value: Any) -> np.ndarray:
    """Convert a result of LiteRT to an array: a single text comes as bytes."""
    return np.array(value, object if isinstance(value, bytes) else None)


def _items(arrays: Arrays) -> Iterator[Arrays]:
    """Yield the items along the first axis of all arrays."""
    return (dict(zip(arrays, each, strict=True)) for each in zip(*arrays.values(), strict=True))


def _stacked(samples: list[Arrays]) -> Arrays:
    return {name: np.stack([outputs[name] for outputs in samples]) for name in samples[0]}
