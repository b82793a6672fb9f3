"""Whether TensorFlow is installed, for tasks that need it."""

from __future__ import annotations

from importlib.util import find_spec

from jfuse.base.errors import ImportFailed


def is_installed() -> bool:
    """Whether TensorFlow can be imported."""
    return find_spec("tensorflow") is not None


def need_tensorflow(what: str) -> None:
    """Raise ImportFailed if TensorFlow is not installed.   what: the message, the task that needs it"""
    if not is_installed():
        raise ImportFailed(what, found="TensorFlow is not installed", remedy='pip install "jfuse[tensorflow]"')
