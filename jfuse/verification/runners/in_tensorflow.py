"""The source of a model, computed by TensorFlow: a signature's own function, called on arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from jfuse.base.errors import KernelFailed, NoEnd, VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.frontends.sources import Imported
from jfuse.frontends.tensorflow.live_function import live_variables
from jfuse.frontends.tensorflow.signature import TfSignature
from jfuse.ir.graph import Program
from jfuse.ir.states import first_states
from jfuse.running.waiting import waited_for
from jfuse.verification.runners.joined import can_be_joined, run_joined
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of

_ONEDNN = re.compile(r"onednn|mkl|could not create a primitive|received an exception", re.IGNORECASE)
_SAMPLES = "jfuse.Verify(inputs=…) with inputs that the model takes"
_SWITCH = "TF_ENABLE_ONEDNN_OPTS=0 in the environment before TensorFlow is imported, which then takes its other kernels"


@dataclass(frozen=True)
class InTensorFlow:
    """The source's own functions. Calls change its variables: restore them at the end."""

    imported: Imported
    name: str = "TensorFlow"

    @property
    def program(self) -> Program:
        """The source as it was imported."""
        return self.imported.program

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the source's signatures, by key."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Start a row of calls from the values of the variables at import."""
        return _TensorFlowCalls(self.imported)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls as one, where rows of an open first axis do not depend on each other; else one by one."""
        if self.singly(key) is None and not in_a_row:
            joined = _TensorFlowCalls(self.imported, samples=len(next(iter(inputs.values()))))
            outputs = run_joined(partial(joined.run, key=key), inputs)
            if outputs is not None:
                return outputs
            self._mixing.add(key)
        return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        if not can_be_joined(self.signatures[key]) or any(i.states for i in self.signatures.values()):
            return "it has variables, or inputs of a fixed size"
        return "its rows depend on each other" if key in self._mixing else None

    @cached_property
    def _mixing(self) -> set[str]:
        return set()


class _TensorFlowCalls:
    def __init__(self, imported: Imported, samples: int = 1) -> None:
        self._imported = imported
        self._samples = samples
        self.reset()

    @property
    def states(self) -> Arrays:
        return {name: variable.numpy() for name, variable in self._imported.variables.items()}

    def reset(self) -> None:
        set_variables(self._imported, first_states(self._imported.program))

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        return run_tensorflow(self._imported.functions[key], inputs, self._imported.limits, self._samples)


def run_tensorflow(
    signature: TfSignature, inputs: Mapping[str, np.ndarray], limits: Limits = DEFAULT_LIMITS, samples: int = 1
) -> dict[str, np.ndarray]:
    """The source's outputs by name.   limits: of a call, for each of the `samples` that the inputs hold

    Raises VerifyFailed where TensorFlow itself refuses the inputs or does not come to an end, KernelFailed where one of
    its kernels is at fault.
    """
    import tensorflow as tf

    function = signature.function
    count = len(function.inputs) - len(function.captured_inputs)
    placeholders = function.inputs[:count]
    tensors = [tf.constant(inputs[n], p.dtype) for n, p in zip(signature.input_names, placeholders, strict=True)]
    try:
        results = tf.nest.flatten(called(function, tensors, signature.key, limits, samples), expand_composites=True)
    except tf.errors.OpError as error:
        raise _failure(signature.key, error) from error
    _need_declared_shapes(signature, results)
    arrays = [np.asarray(r) for r in results if r is not None]
    return dict(zip(signature.output_names, arrays, strict=True))


def uses_onednn() -> bool:
    """Whether TensorFlow runs oneDNN's kernels: by default where the processor has AVX-512, or similar."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def _failure(key: str, error: Any) -> VerifyFailed:
    """The error for an exception of TensorFlow. oneDNN's kernels abort where others work."""
    import tensorflow as tf

    reason = _reason(error.message)
    by_kernel = isinstance(error, tf.errors.AbortedError) or _ONEDNN.search(error.message)
    if by_kernel and uses_onednn():
        return KernelFailed(
            f"a oneDNN kernel of TensorFlow fails, not the model, in signature {key!r}{_node(error)}",
            found=reason,
            remedy=f"{_SWITCH}; or {_SAMPLES}",
        )
    return VerifyFailed(
        f"TensorFlow fails on the inputs of signature {key!r}",
        found=reason,
        remedy=f"{_SAMPLES}, or verify=False",
    )


def _need_declared_shapes(signature: TfSignature, results: Sequence[Any]) -> None:
    """Raise KernelFailed where a result has another shape than its graph says, as oneDNN gives for no rows."""
    declared = signature.function.outputs
    if len(declared) != len(results):  # among the results are some that are no tensors
        return
    for name, result, of in zip(signature.output_names, results, declared, strict=True):
        if not of.shape.is_compatible_with(result.shape):
            raise KernelFailed(
                f"a kernel of TensorFlow gives {name!r} of signature {signature.key!r} another shape than the graph",
                expected=of.shape,
                found=result.shape,
                remedy=f"{_SWITCH}; or {_SAMPLES}"
                if uses_onednn()
                else "report this to TensorFlow, and convert with verify=False",
            )


def call_from(
    imported: Imported, key: str, inputs: Mapping[str, np.ndarray], states: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """One call of a signature of the source from given states: its outputs, and the states after it, by name.

    The source's variables are restored afterwards. Raises VerifyFailed as `run_tensorflow` does.
    """
    with variables_restored(imported):
        set_variables(imported, states)
        outputs = run_tensorflow(imported.functions[key], inputs, imported.limits)
        return outputs, {name: np.array(imported.variables[name].numpy()) for name in states}


@contextmanager
def variables_restored(imported: Imported) -> Iterator[None]:
    """Inside the `with` every variable of the source may change; after it they are restored."""
    variables = {id(v): v for s in imported.functions.values() for v in live_variables(s.function)}
    held = [(v, v.read_value()) for v in variables.values()]  # shares the memory until the variable is assigned
    try:
        yield
    finally:
        for variable, value in held:
            variable.assign(value)


def set_variables(imported: Imported, values: Mapping[str, np.ndarray]) -> None:
    """Let TensorFlow's variables hold the given values, by the names of the states that they are."""
    for name, value in values.items():
        imported.variables[name].assign(value)


def _node(error: Any) -> str:
    """The node that a message names."""
    match = re.search(r"{{node ([^}]+)}}", error.message)
    return f" at {match[1]}" if match else ""


def _reason(message: str) -> str:
    """The line with the reason: the last one before the node's position, below the trace of the source."""
    lines = [line.strip() for line in message.split("\n[[")[0].split("\n\t [[")[0].splitlines()]
    return next((line for line in reversed(lines) if line), message)


# Calls of TensorFlow's functions, with a limit of time on those that have loops: a loop may never end.

_LOOPS = frozenset(("While", "StatelessWhile", "NextIteration", "RefNextIteration"))
_LONG_S = 600.0  # for one call, where the limits name no other time
_TOGETHER_S = 3600.0  # for many samples in one call


def called(function: Any, tensors: Sequence[Any], key: str, limits: Limits, samples: int = 1) -> Any:
    """Call a concrete function; the result keeps the function's structure.

    key: of the signature, for the error. samples: how many the tensors hold; the limit is for each of them.
    Raises NoEnd where the time is over. Ctrl-C ends the call.
    """
    if not _may_go_on(function):
        return _run(function, tensors)
    from tensorflow.python.eager import cancellation

    manager = cancellation.CancellationManager()

    def work() -> Any:
        with cancellation.CancellationManagerContext(manager):
            return _run(function, tensors)

    seconds = limits.seconds
    if seconds is None:
        allowed = _LONG_S if samples == 1 else _TOGETHER_S
    else:
        allowed = seconds * samples
    try:
        return waited_for(work, manager.start_cancel, allowed)
    except TimeoutError:
        raise NoEnd(
            f"TensorFlow does not come to an end in signature {key!r}",
            expected=f"an answer within {allowed:g} s",
            remedy="jfuse.Verify(inputs=…) with inputs for which its loops end, or verify=False; for a model as slow "
            "as that jfuse.load(…, limits=jfuse.Limits(seconds=…))",
        ) from None


def _run(function: Any, tensors: Sequence[Any]) -> Any:
    # Flat: of a default that is a function (act=tf.nn.relu) the structured signature keeps no value to pass again.
    return function._call_flat(tensors, function.captured_inputs)


def _may_go_on(function: Any) -> bool:
    """Whether a function, or one that it calls, has loops."""
    has_loops = getattr(function, "jfuse_has_loops", None)
    if has_loops is None:
        graph = function.graph.as_graph_def()
        nodes = (node.op for of in (graph.node, *(f.node_def for f in graph.library.function)) for node in of)
        has_loops = function.jfuse_has_loops = not _LOOPS.isdisjoint(nodes)
    return bool(has_loops)
