"""Buffers that modules write in forward: each is a state, which a call hands to the next one."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.frontends.argument_names import free_name
from jfuse.frontends.imported_functions import KeptValue
from jfuse.frontends.torch_modules.tensors import array_of

_WRITES = frozenset({"BUFFER_MUTATION", "PARAMETER_MUTATION"})


@dataclass(frozen=True)
class WrittenBuffer(KeptValue):
    """A buffer of a module that is a state.   target: its name in the module; placeholder: its input of the graph"""

    target: str
    placeholder: str


def is_write(spec: Any) -> bool:
    """Whether a result of an exported program is a buffer's new value."""
    return spec.kind.name in _WRITES


def refuse_written_inputs(program: Any) -> None:
    """Raise ImportFailed if a module writes to its inputs."""
    specs = program.graph_signature.output_specs
    written = [str(spec.target or spec.arg.name) for spec in specs if spec.kind.name == "USER_INPUT_MUTATION"]
    if written:
        raise ImportFailed(
            f"the module writes to its input {written[0]!r}",
            found=", ".join(written),
            remedy="let it return the new value, or keep it in a buffer (register_buffer)",
        )


def buffers_of(programs: Sequence[Any], taken: Collection[str]) -> list[tuple[WrittenBuffer, ...]]:
    """For each program its buffers that any of them writes. Programs share the buffers that are one tensor.

    taken: the names of inputs, which no state has.
    """
    names: dict[Hashable, str] = {}
    for program in programs:
        for target, tensor in _held(program):
            if target in _written(program) and _memory(tensor) not in names:
                names[_memory(tensor)] = free_name(target, {*taken, *names.values()})
    return [tuple(_states(program, names)) for program in programs]


def _states(program: Any, names: Mapping[Hashable, str]) -> Iterator[WrittenBuffer]:
    written = _written(program)
    placeholders = {spec.target: spec.arg.name for spec in program.graph_signature.input_specs}
    for target, tensor in _held(program):
        if _memory(tensor) in names:
            initial = np.array(array_of(tensor))  # a copy: the module goes on writing to it
            yield WrittenBuffer(names[_memory(tensor)], initial, target in written, target, placeholders[target])


def _held(program: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that a program holds and that are inputs of its graph, by their names."""
    tensors = {**program.state_dict, **program.constants}
    for spec in program.graph_signature.input_specs:
        if hasattr(tensors.get(spec.target), "data_ptr"):
            yield spec.target, tensors[spec.target]


def _written(program: Any) -> set[str]:
    return {spec.target for spec in program.graph_signature.output_specs if is_write(spec)}


def _memory(tensor: Any) -> Hashable:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.dtype
