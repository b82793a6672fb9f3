"""Recurrent layers as one operator of an exported graph: torch.export alone takes them apart, or fixes their length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from jfuse.frontends.torch_modules.attention import attention_by_heads
from jfuse.frontends.torch_modules.packed import PackedSizes, packed_kept

NAMESPACE = "jfuse"
_KINDS = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}
"""How many states each layer has."""
_SCHEMA = (
    "(Tensor x, Tensor[] states, Tensor[] weights, bool biases, int layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first, Tensor? lengths=None) -> ({})"
)


@contextmanager
def layers_kept() -> Iterator[None]:
    """Inside the `with` layers of torch.nn.LSTM, GRU and RNN call operators that stay whole in the export.

    They take any batch and any length, and compute as PyTorch does where they are called on tensors.
    """
    import torch
    from torch.nn.modules import rnn

    operators = _operators()
    original, fast = rnn._VF, torch.backends.mha.get_fastpath_enabled()
    rnn._VF = _LayerFunctions(original, operators)
    torch.backends.mha.set_fastpath_enabled(False)  # it has an operator of its own for a whole encoder layer
    try:
        with packed_kept(), attention_by_heads():
            yield
    finally:
        rnn._VF = original
        torch.backends.mha.set_fastpath_enabled(fast)


def keep_layers_of(graph: Any) -> None:
    """Replace PyTorch's own operators for recurrent layers, as other exports have them, by those that stay whole."""
    import torch

    operators = _operators()
    table = {getattr(torch.ops.aten, kind).input: operators[kind] for kind in _KINDS}
    for node in graph.nodes:
        if node.op == "call_function" and node.target in table:
            node.target = table[node.target]
            states = node.args[1]
            held = states if isinstance(states, list | tuple) else [states]
            node.args = (node.args[0], list(held), *node.args[2:])


class _LayerFunctions:
    """torch._VF with other functions for recurrent layers."""

    def __init__(self, original: Any, operators: dict[str, Any]) -> None:
        self._original = original
        self._operators = operators

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._original, name)
        return _Layer(function, self._operators[name]) if name in self._operators else function


class _Layer:
    """A function of torch._VF as the operator."""

    def __init__(self, original: Callable[..., Any], operator: Any) -> None:
        self._original = original
        self._operator = operator

    def __call__(self, x: Any, second: Any, third: Any, *rest: Any) -> Any:
        if isinstance(second, PackedSizes):  # they stand before states and weights, and no word of the batch's axis
            weights, *options = rest
            results = self._operator(x, _listed(third), list(weights), *options, False, second.lengths)
            second.filled_with_zeros = results[0]
            return results
        if isinstance(rest[0], list | tuple):  # what was packed by other means
            return self._original(x, second, third, *rest)
        return self._operator(x, _listed(second), list(third), *rest)


def _listed(states: Any) -> list[Any]:
    return list(states) if isinstance(states, list | tuple) else [states]


@cache
def _operators() -> dict[str, Any]:
    """The operators by the name of the layer, registered once in this process."""
    import torch

    return {kind: _registered(torch, kind, states) for kind, states in _KINDS.items()}


def _registered(torch: Any, kind: str, states: int) -> Any:
    schema = _SCHEMA.format(", ".join(["Tensor"] * (1 + states)))
    name = f"{NAMESPACE}::{kind}"

    def compute(x: Any, given: Any, weights: Any, *rest: Any) -> Any:
        first = tuple(given) if kind == "lstm" else given[0]
        *options, lengths = rest if len(rest) == 7 else (*rest, None)
        layer = getattr(torch._C._VariableFunctions, kind)
        if lengths is None:
            return tuple(part.clone() for part in layer(x, first, list(weights), *options))
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, options[-1], enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        first = tuple(state[:, order] for state in given) if kind == "lstm" else given[0][:, order]
        y, *after = layer(packed.data, packed.batch_sizes, first, list(weights), *options[:-1])
        y = torch.nn.utils.rnn.pad_packed_sequence(
            packed._replace(data=y), options[-1], total_length=x.shape[1 if options[-1] else 0]
        )[0]
        return y, *(state[:, back] for state in after)

    def fake(x: Any, given: Any, weights: Any, *options: Any) -> Any:
        directions = 2 if options[4] else 1
        output = x.new_empty((*x.shape[:2], directions * given[0].shape[2]))
        return (output, *(state.new_empty(state.shape) for state in given))

    torch.library.define(name, schema)
    torch.library.impl(name, "CompositeExplicitAutograd")(compute)
    torch.library.register_fake(name)(fake)
    return getattr(getattr(torch.ops, NAMESPACE), kind).default
