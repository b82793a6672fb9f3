"""Names for arguments and results of functions, from the paths to the leaves of nested values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any


def path_name(path: Sequence[Any]) -> str:
    """The name of a leaf: state_h of ("state", "h").   path: keys as the trees of jax and of PyTorch have them"""
    return "_".join(str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in path)


def named_leaves(results: Any, leaves: Iterable[tuple[Sequence[Any], Any]]) -> dict[str, Any]:
    """The leaves of a result by name: the keys of a mapping, `output_0` and so on of everything else."""
    if isinstance(results, Mapping):
        return {path_name(path): leaf for path, leaf in leaves}
    return {f"output_{i}": leaf for i, (_, leaf) in enumerate(leaves)}


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number where others have it."""
    numbered = (name, *(f"{name}_{i}" for i in range(1, len(taken) + 1)))
    return next(candidate for candidate in numbered if candidate not in taken)
