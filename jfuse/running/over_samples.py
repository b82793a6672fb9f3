"""Many samples in one program of jax: vmapped, compiled once for each shape, sharded over the devices there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend import core as jax_core
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jfuse.base.errors import JfuseError
from jfuse.base.settings import own_settings
from jfuse.ir.compilation import quick_options
from jfuse.ir.dims import known_size
from jfuse.ir.evaluate import large_constants, symbol_sizes, with_constants
from jfuse.ir.graph import Eqn, Graph, Signature
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import scan, while_
from jfuse.kernels.core.memory_layout import choosing_layouts
from jfuse.kernels.core.products import products_of
from jfuse.running.cores import cores
from jfuse.running.jax_function import JaxFunction

After: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]
"""(results, totals) of one run -> what is kept of them."""

_AXIS = "samples"
_BYTES = {"cpu": 2**22, "gpu": 2**28}
"""Largest size of an equation's result for all samples of a program, in bytes: on CPU it should stay in the cache.

Measured with jaxlib 0.10.2: recurrences of 16 to 128 units are fastest per sample at 1 to 4 MiB, a MobileNetV2 too.
"""
_LEAST_ROWS = 64  # of a matrix product, below which it is slow
_MOST = 4096
_COMPILED_FOR = 2**19
"""Numbers that a quickly compiled program computes in the time that optimizing it takes for each operator.

Measured on a CPU: a MobileNetV2 0.35 of 96x96 computes 60 to 80 samples meanwhile, an LSTM of 64 units over 2,000.
"""
_RECURRENCE = 20
"""Operators that take as long to optimize as one fused recurrence: 0.7 s on a CPU, an LSTM of 64 to 512 units."""
_CALL = 2**13  # numbers that such a program computes in the time that a call takes besides, about 0.4 ms
_PRODUCTS = 3  # of a convolution without a library, in the time of a number: 20 ns on a CPU, with jaxlib 0.10.2
_TURNS = 64  # of a loop, as few tell how many


class OverSamples:
    """A function of jax arrays, called on samples along a new first axis of each argument, and of each result.

    shared: leading arguments that are the same for all samples (weights), kept on every device. fixed: trailing ones.
    most: samples for one run of the program on a device. All runs have one size, the last one filled up with copies of
    a sample, so that a program is compiled once for each shape of a sample; it grows where a batch is larger.

    The samples are split over this process's devices of the default backend, but on one where the function asks the
    host, which computes for one device at a time. On one CPU device as many runs as there
    are cores go on at once: XLA computes small operations, as in the steps of a recurrence, on one core each.
    wide: whether 64-bit numbers stay such in the program, whatever the user's setting is.
    totals: the function gives (results, totals): arrays that it adds up over the samples itself, and so does a call.
        Before the samples it is given a weight for each, i32[]: 0 for copies, else 1.
    after: what NumPy makes of the (results, totals) of each run, without its copies, before they are put together:
        while they are in the cache, and on all cores.
    quick: for how many samples a program pays that is compiled sooner and runs slower (see `samples_for_quick`).
    expected: how many samples will come in all calls together, as far as that is known. Calls that go beyond `quick`
        without having been expected get another program.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shared: Sequence[Any] = (),
        fixed: Sequence[Any] = (),
        *,
        most: int = _MOST // 16,
        wide: bool = True,
        totals: bool = False,
        after: After = lambda results, totals: (results, totals),
        quick: int = 0,
        expected: int = 0,
    ) -> None:
        self._most_of_each = most
        self._after = after
        self._wide = wide
        self._totals = totals
        self._shared, self._fixed = tuple(shared), tuple(fixed)
        self._sizes: dict[tuple[Any, ...], int] = {}  # by the shapes and dtypes of a sample
        self._programs: dict[tuple[Any, ...], Any] = {}  # compiled, by that, the samples of a run, and quick
        self._quick, self._expected, self._done = quick, expected, 0
        devices = jax.local_devices()
        self._mapped = _mapped(function, len(shared), len(fixed), devices[0].platform == "cpu", totals)
        self._split_over(devices)

    @classmethod
    def of(cls, function: JaxFunction, most: int, *, in_a_row: bool = False) -> OverSamples:
        """Calls of a signature from its initial states. Results: the outputs, then the states after the call.

        in_a_row: a sample is several calls, along the first axis of its arguments and outputs.
        """
        counts = len(function.input_names), len(function.output_names)
        call = calls_in_a_row(function.apply, *counts) if in_a_row else function.apply
        return cls(call, [dict(function.weights)], function.initial_states, most=most)

    @classmethod
    def of_graph(cls, graph: Graph, then: Callable[..., Any] = lambda found: found, **options: Any) -> OverSamples:
        """Calls of a graph; its large constants are shared.   then: applied to the results. options: of the class"""
        arrays, count = large_constants(graph), len(graph.inputs)
        call = with_constants(graph, arrays)
        # A graph without inputs is called with one that nothing reads.
        return cls(lambda weights, *args: then(call(weights, args[:count])), [arrays], **options)

    def _split_over(self, devices: Sequence[Any]) -> None:
        """Run on these devices from now on."""
        self._mesh = Mesh(np.array(devices), (_AXIS,))
        self._most = self._most_of_each * len(devices)
        self._at_once = cores() if len(devices) == 1 and devices[0].platform == "cpu" else 1
        everywhere, over = (NamedSharding(self._mesh, PartitionSpec(*axes)) for axes in ((), (_AXIS,)))
        with self._numbers():
            self._shared, self._fixed = (jax.device_put(a, everywhere) for a in (self._shared, self._fixed))
        self._program = jax.jit(self._mapped, in_shardings=(everywhere, over, everywhere))

    def share(self, shared: Sequence[Any]) -> None:
        """Other values for the arguments that all samples share, of the same shapes and dtypes."""
        self._shared = tuple(shared)
        with self._numbers():
            self._shared = jax.device_put(self._shared, NamedSharding(self._mesh, PartitionSpec()))

    @property
    def devices(self) -> int:
        """How many devices the samples are split over; known for certain after a call."""
        return int(self._mesh.size)

    def __call__(self, arrays: Sequence[np.ndarray]) -> Any:
        """The results, with samples along their first axis, as NumPy arrays in the structure that the function has.

        arrays: at least one, with at least one sample.
        """
        count = len(arrays[0])
        self._done += count
        key = tuple((a.shape[1:], a.dtype) for a in arrays)
        size = self._size(key, count)
        with self._numbers(), jax.default_matmul_precision("highest"):
            program = self._compiled(key, size)
        if count <= size:
            return self._given(*self._run(program, arrays, size))
        whole = _JoinedRuns(count)

        def place(start: int) -> None:
            whole.put(start, *self._run(program, [a[start : start + size] for a in arrays], size))

        with ThreadPoolExecutor(self._at_once) as pool:
            list(pool.map(place, range(0, count, size)))
        return self._given(whole.results, whole.totals)

    def _given(self, results: Any, totals: Any) -> Any:
        return (results, totals) if self._totals else results

    def _compiled(self, key: tuple[Any, ...], size: int) -> Any:
        """The program for samples of these shapes and dtypes, compiled when it is first asked for."""
        quick = max(self._done, self._expected) <= self._quick
        if (*key, size, quick) not in self._programs:
            first = [((), np.dtype(np.int32))] if self._totals else []
            samples = [jax.ShapeDtypeStruct((size, *shape), dtype) for shape, dtype in (*first, *key)]
            traced = self._program.trace(self._shared, samples, self._fixed)
            if self._mesh.size > 1 and _asks_the_host(traced.jaxpr.jaxpr):
                # Devices that wait for the host and for each other end the process (XLA's rendezvous, after 40 s).
                self._split_over(list(self._mesh.devices.flat)[:1])
                traced = self._program.trace(self._shared, samples, self._fixed)
            self._programs[*key, size, quick] = traced.lower().compile(quick_options() if quick else None)
        return self._programs[*key, size, quick]

    def _size(self, key: tuple[Any, ...], count: int) -> int:
        """How many samples a run takes."""
        turns = -(-count // (self._most * self._at_once))
        each = -(-count // (turns * self._at_once))  # as many runs for each core, if they are large enough
        count_ = min(max(each, min(_LEAST_ROWS, count)), self._most)
        devices, known = self._mesh.size, self._sizes.get(key, 0)
        # A program that is there serves runs of up to twice its size: compiling another one takes longer.
        size = known if count_ <= 2 * known else -(-count_ // devices) * devices
        self._sizes[key] = size
        return size

    def _numbers(self) -> AbstractContextManager[Any]:
        return jax.enable_x64(True) if self._wide else nullcontext()

    def _run(self, program: Any, arrays: Sequence[np.ndarray], size: int) -> tuple[Any, Any]:
        count = len(arrays[0])
        samples = [_filled(a, size) for a in arrays]
        if self._totals:
            samples.insert(0, (np.arange(size) < count).astype(np.int32))
        with own_settings(), self._numbers():  # for this thread
            results, totals = program(self._shared, samples, self._fixed)
        return self._after(jax.tree.map(lambda r: np.asarray(r)[:count], results), jax.tree.map(np.asarray, totals))


class _JoinedRuns:
    """Gathers the runs of one call as they finish: results side by side, totals added up.

    Totals are large, and runs may be many: no total waits for the others.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = Lock()
        self.results: Any = None
        self.totals: Any = None

    def put(self, start: int, results: Any, totals: Any) -> None:
        """Add a run.   start: the number of its first sample"""
        with self._lock:
            if self.results is None:
                self.results = jax.tree.map(lambda r: np.empty((self._count, *r.shape[1:]), r.dtype), results)
            self.totals = totals if self.totals is None else jax.tree.map(np.add, self.totals, totals)
        jax.tree.map(lambda all_, part: np.copyto(all_[start : start + len(part)], part), self.results, results)


class Together:
    """Samples computed together as long as that works. make: gives the program; raises JfuseError where it cannot.

    why_not: why it does not work, None before it was found out.
    """

    def __init__(self, make: Callable[[], OverSamples]) -> None:
        self._make = make
        self._program: OverSamples | None = None
        self.why_not: str | None = None

    def run(self, arrays: Sequence[np.ndarray]) -> Any:
        """The results as `OverSamples` has them; None where these samples have to run one by one."""
        if self.why_not is not None or not arrays:
            return None
        try:
            self._program = self._program or self._make()
            return self._program(arrays)
        except _UNTRACEABLE as error:
            reason = error.found if isinstance(error, JfuseError) else error
            self.why_not = " ".join(str(reason).split())[:200]
            return None


_JAX = (jax.errors.JAXTypeError, jax.errors.JaxRuntimeError)
_UNTRACEABLE = (JfuseError, TypeError, ValueError, NotImplementedError, *_JAX)
"""Errors of functions that jax cannot trace, or not for many samples; also of too little memory."""


def samples_at_once(graph: Graph, backend: str, sizes: Mapping[str, int] = MappingProxyType({})) -> int:
    """How many samples of a graph one run on a device should take: bounded by memory, at least what pays.

    sizes: of open dimensions, which are 1 otherwise.
    """
    eqns = list(all_eqns(graph))
    types = [v.type for eqn in eqns for v in eqn.outputs]
    taken = [known_size(t.shape, sizes) * max(4, t.dtype.numpy.itemsize) for t in types]  # bytes add up to i32
    windowed = any(eqn.op.product == "windows" for eqn in eqns)  # an image has many rows by itself
    least = 1 if windowed else _LEAST_ROWS
    return min(max(_BYTES.get(backend, _BYTES["gpu"]) // max(1, *taken, 1), least), _MOST)


def samples_for_quick(
    graph: Graph, sizes: Mapping[str, int] = MappingProxyType({}), *, looped: bool = False, singly: bool = False
) -> int:
    """How many samples a quickly compiled program computes in the time that compiling a fast one takes.

    Few of images, whose operators have many numbers, and of loops; many of a recurrence that is written step by step.
    looped: the graph itself runs in a loop. singly: each sample is a call.
    """
    operators = sum(_RECURRENCE if eqn.op.parts else len(eqn.outputs) for eqn in all_eqns(graph))
    numbers = _numbers(graph, partial(_quick_numbers, sizes), looped, {})
    return _COMPILED_FOR * operators // max(1, numbers + singly * _CALL)


def sizes_in(signature: Signature, inputs: Mapping[str, np.ndarray], axes: int) -> dict[str, int]:
    """The sizes of open dimensions of a signature's inputs.   axes: how many axes of samples and calls come first"""
    sizes: dict[str, Any] = {}
    for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
        sizes |= symbol_sizes(var, inputs[name].shape[axes:])
    return sizes


def numbers_computed(graph: Graph, sizes: Mapping[str, int] = MappingProxyType({})) -> int:
    """Estimate how many numbers the equations compute for a sample; loops count once for an assumed number of turns."""
    return _numbers(graph, lambda eqn, looped: _results(sizes, eqn), False, {})


def _numbers(graph: Graph, of_eqn: Callable[[Eqn, bool], int], looped: bool, known: dict[int, int]) -> int:
    """How many numbers the equations compute, those of loops in each turn.

    of_eqn: of one equation, in a loop or not, without its bodies. known: of bodies, by their ids
    """
    if id(graph) not in known:
        known[id(graph)] = sum(
            of_eqn(eqn, looped)
            + (_TURNS if eqn.op in (while_, scan) else 1) * sum(_numbers(b, of_eqn, True, known) for b in eqn.bodies)
            for eqn in graph.eqns
        )
    return known[id(graph)]


def _results(sizes: Mapping[str, int], eqn: Eqn) -> int:
    return sum(known_size(out.type.shape, sizes) for out in eqn.outputs)


def _quick_numbers(sizes: Mapping[str, int], eqn: Eqn, looped: bool) -> int:
    """Numbers for the time that a quickly compiled equation takes.

    XLA has a library for convolutions of floats outside of loops; others are loops over their products.
    """
    if eqn.op.product != "windows" or (eqn.outputs[0].type.dtype.is_float and not looped):
        return _results(sizes, eqn)
    inputs = [None if a is None else _sized(a.type, sizes) for a in eqn.inputs]
    products = products_of(eqn, inputs, [_sized(out.type, sizes) for out in eqn.outputs])
    return _results(sizes, eqn) + products // _PRODUCTS


def _sized(of: TensorType, sizes: Mapping[str, int]) -> TensorType:
    return replace(of, shape=tuple(known_size((size,), sizes) for size in of.shape))


def calls_in_a_row(call: Callable[..., Any], inputs: int, outputs: int) -> Callable[..., tuple[Any, ...]]:
    """Calls of (weights, *inputs, *states) as one: inputs and outputs have an axis of calls, states are handed on."""

    def calls(weights: Any, *args: Any) -> tuple[Any, ...]:
        def step(states: Sequence[Any], given: Sequence[Any]) -> tuple[Any, Any]:
            results = call(weights, *given, *states)
            return results[outputs:], results[:outputs]

        if inputs and len(args[0]) == 1:  # a loop of one turn stays one, where XLA's convolutions take 30 times as long
            after, results = step(tuple(args[inputs:]), [given[0] for given in args[:inputs]])
            return (*(result[None] for result in results), *after)
        after, stacked = jax.lax.scan(step, tuple(args[inputs:]), tuple(args[:inputs]))
        return (*stacked, *after)

    return calls


def _mapped(
    function: Callable[..., Any], shared: int, fixed: int, on_cpu: bool, totals: bool
) -> Callable[..., tuple[Any, Any]]:
    def both(*args: Any) -> tuple[Any, Any]:
        results = function(*args)
        return results if totals else (results, ())

    def over(first: Sequence[Any], samples: Sequence[Any], last: Sequence[Any]) -> Any:
        axes = (*[None] * shared, *[0] * len(samples), *[None] * fixed)
        with choosing_layouts(on_cpu):
            return jax.vmap(both, axes, out_axes=(0, None))(*first, *samples, *last)

    return over


def _asks_the_host(jaxpr: Any) -> bool:
    """Whether a program has host callbacks, in bodies too."""
    pending = [jaxpr]
    while pending:
        for eqn in pending.pop().eqns:
            if eqn.primitive.name == "pure_callback":
                return True
            parts = [v for value in eqn.params.values() for v in (value if isinstance(value, tuple) else (value,))]
            pending += [getattr(v, "jaxpr", v) for v in parts if isinstance(v, jax_core.ClosedJaxpr | jax_core.Jaxpr)]
    return False


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """The samples, and the last one again until there are `size`."""
    missing = size - len(array)
    return array if not missing else np.concatenate([array, np.repeat(array[-1:], missing, 0)])
