"""Packed sequences: padded, with their lengths, in the export; padded again to the same size elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from jfuse.lowering.rule_tools.place import note

NOTE = (
    "a packed sequence is padded again to the steps that it was packed with, as total_length= does, "
    "and not to those of the longest one in the batch"
)


@dataclass
class PackedSizes:
    """Replacement for a PackedSequence's batch sizes; the data is padded, f[t, b, ...].

    filled_with_zeros: the data that is zero wherever no step counts, where that is known.
    """

    lengths: Any
    steps: Any
    batch: Any
    filled_with_zeros: Any = None

    @property
    def device(self) -> Any:
        """PyTorch asks for the CPU."""
        import torch

        return torch.device("cpu")

    def __getitem__(self, step: int) -> Any:
        """How many sequences have the first step: all."""
        assert step == 0
        return self.batch

    def size(self, axis: int) -> Any:
        """How many steps there are."""
        assert axis == 0
        return self.steps


class _PaddedPacking:
    """torch._VF for the functions that pack: the result stays a padded batch, time first."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def packed_whole(self, x: Any, lengths: Any, batch_first: bool) -> Any:
        """The PackedSequence of a padded batch."""
        import torch

        note(NOTE)
        rows = x.transpose(0, 1) if batch_first else x
        counts = torch.as_tensor(lengths, dtype=torch.int64)
        return torch.nn.utils.rnn.PackedSequence(rows, PackedSizes(counts, rows.shape[0], rows.shape[1]))

    def _pad_packed_sequence(self, data: Any, sizes: Any, batch_first: bool, value: float, total: Any) -> Any:
        import torch

        if not isinstance(sizes, PackedSizes):
            return self._original._pad_packed_sequence(data, sizes, batch_first, value, total)
        if value != 0 or sizes.filled_with_zeros is not data:
            counts = torch.arange(sizes.steps)[:, None] < sizes.lengths[None]
            data = torch.where(counts.reshape(*counts.shape, *[1] * (data.dim() - 2)), data, value)
        if total is not sizes.steps and total != sizes.steps:
            data = torch.nn.functional.pad(data, [0, 0] * (data.dim() - 1) + [0, total - sizes.steps], value=value)
        return (data.transpose(0, 1) if batch_first else data), sizes.lengths


def _pack_padded_sequence(input: Any, lengths: Any, batch_first: Any, enforce_sorted: Any) -> Any:  # noqa: A002
    return _VF.packed_whole(input, lengths, batch_first)  # type: ignore[name-defined]  # noqa: F821


@contextmanager
def packed_kept() -> Iterator[None]:
    """Within the `with` packing keeps the padded batch and its order; layers take it with its lengths."""
    from torch.nn.modules import rnn
    from torch.nn.utils import rnn as packing

    original, pack = packing._VF, packing.pack_padded_sequence
    assert isinstance(pack, FunctionType)
    code = pack.__code__
    with ExitStack() as stack:
        for owner, name in (
            (rnn.RNNBase, "check_input"),
            (rnn.RNNBase, "get_expected_hidden_size"),
            (rnn.LSTM, "get_expected_cell_size"),
        ):
            stack.enter_context(_with_padded(owner, name))
        # Modules import the function by name, so that its code is what can be replaced.
        pack.__code__ = _pack_padded_sequence.__code__
        packing._VF = _PaddedPacking(original)
        try:
            yield
        finally:
            packing._VF, pack.__code__ = original, code


@contextmanager
def _with_padded(owner: Any, name: str) -> Iterator[None]:
    """A method that looks at a layer's input takes a padded batch, time first, with PackedSizes too."""
    original = getattr(owner, name)

    def method(self: Any, x: Any, sizes: Any) -> Any:
        if not isinstance(sizes, PackedSizes):
            return original(self, x, sizes)
        return original(self, x.transpose(0, 1) if self.batch_first else x, None)

    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def packed_to_full_size() -> Iterator[None]:
    """Inside the `with` packed sequences are padded again to their full length, as in the file."""
    from torch.nn.utils import rnn as packing

    original = packing._VF
    packing._VF = _FullSize(original)
    try:
        yield
    finally:
        packing._VF = original


class _FullSize:
    def __init__(self, original: Any) -> None:
        self._original = original
        self._steps: list[tuple[Any, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def _pack_padded_sequence(self, x: Any, lengths: Any, batch_first: bool) -> Any:
        data, sizes = self._original._pack_padded_sequence(x, lengths, batch_first)
        self._steps.append((sizes, x.shape[1 if batch_first else 0]))
        return data, sizes

    def _pad_packed_sequence(self, data: Any, sizes: Any, batch_first: bool, value: float, total: int) -> Any:
        steps = next((steps for known, steps in self._steps if known is sizes), total)
        return self._original._pad_packed_sequence(data, sizes, batch_first, value, max(total, steps))
