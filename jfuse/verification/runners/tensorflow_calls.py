"""Calls of TensorFlow's functions, with a limit of time on those that have loops: a loop may never end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.base.errors import NoEnd
from jfuse.base.limits import Limits
from jfuse.running.waiting import waited_for

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
