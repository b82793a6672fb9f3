"""Queries of rules about the graph that is being built: tensors to read open sizes from. Collects notes as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from jfuse.kernels.core.op import Array

_SOURCES: ContextVar[tuple[Array, ...]] = ContextVar("jfuse_sources", default=())
_NOTES: ContextVar[dict[str, None] | None] = ContextVar("jfuse_notes", default=None)


def sources() -> tuple[Array, ...]:
    """The tensors whose dimensions rules may read: the inputs of the graph."""
    return _SOURCES.get()


@contextmanager
def sizes_read_from(tensors: Sequence[Array]) -> Iterator[None]:
    """Rules called within the `with` read open sizes from these tensors."""
    token = _SOURCES.set(tuple(tensors))
    try:
        yield
    finally:
        _SOURCES.reset(token)


def note(text: str) -> None:
    """Say something in the report about what a rule takes for granted."""
    notes = _NOTES.get()
    if notes is not None:
        notes[text] = None


@contextmanager
def notes_kept() -> Iterator[dict[str, None]]:
    """The notes of rules called within the `with`, each once, in order."""
    notes: dict[str, None] = {}
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)
