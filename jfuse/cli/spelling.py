"""Remedies as the command line spells them: where the library says `padding="right"`, it has `--padding right`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from jfuse.passes.options import LOOPS, PADDINGS, PREFERENCES, STATES
from jfuse.verification.options import EDGES

_VALUE = r"""(?P<value>"[^"\n]*"|'[^'\n]*'|\[[^\]\n]*\]|\{[^}\n]*\}|[\w.-]+|…)"""
_KEYWORD = re.compile(rf"\b(?P<name>[a-z]\w*)={_VALUE}")


def as_options(text: str) -> str:
    """The text with each keyword argument that is an option of the command line spelled as that option."""
    return _KEYWORD.sub(_as_option, text)


def _as_option(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    return _SPELLED[name](value) if name in _SPELLED else match[0]


def _chosen(option: str, choices: Sequence[str | None]) -> Callable[[str], str]:
    """For one of these values; others are of another function's keyword, as Keras's padding="causal"."""
    return lambda value: f"{option} {value[1:-1]}" if value[1:-1] in choices else f"{option[2:]}={value}"


def _switch(option: str, off: str) -> Callable[[str], str]:
    return lambda value: off if value == "False" else option


def _fixed(option: str) -> Callable[[str], str]:
    return lambda value: option


def _custom_ops(value: str) -> str:
    name = re.match(r"""\{["'](\w+)["']""", value)
    return f"--custom-op {name[1] if name else 'NAME'}"


def _shape(value: str) -> str:
    name = re.match(r"""\{["']([^"']+)["']""", value)
    return f"--shape {name[1] if name else 'NAME'}=SIZES"


_SPELLED: dict[str, Callable[[str], str]] = {
    "edges": _chosen("--edges", EDGES),
    "loop": _chosen("--loop", LOOPS),
    "padding": _chosen("--padding", PADDINGS),
    "prefer": _chosen("--prefer", PREFERENCES),
    "state": _chosen("--state", STATES),
    "batch": lambda value: f"--batch {value}" if value.isdigit() else f"batch={value}",
    "custom_ops": _custom_ops,
    "input_tensors": _fixed("--inputs NAMES"),
    "output_tensors": _fixed("--outputs NAMES"),
    "rules": _fixed("--rules FILE"),
    "shapes": _shape,
    "inputs": _fixed("--inputs data.npz"),
    "samples": _fixed("--samples data.npz"),
    "select_tf_ops": _switch("--select-tf-ops", "no --select-tf-ops"),
    "signatures": _fixed("--signature KEY"),
    "strict": _switch("--strict", "no --strict"),
    "target": _fixed("--target NAME"),
    "unsafe": _switch("--unsafe", "no --unsafe"),
    "verify": _switch("--verify", "--no-verify"),
}
