"""Remedies as the command line spells them: where the library says `padding="right"`, it has `--padding right`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from jfuse.passes.options import LOOPS, MACHINES, PADDINGS, PRECISIONS, PREFERENCES, REQUIREMENTS, STATES
from jfuse.verification.options import EDGES

_VALUE = r"""(?P<value>"[^"\n]*"|'[^'\n]*'|\[[^\]\n]*\]|\{[^}\n]*\}|[\w.-]+|…)"""
_NAME = r"[\w./:-]+"
_RANDOM = '"random"'
_KEYWORD = re.compile(rf"\b(?P<name>[a-z]\w*)={_VALUE}")


_BARE = re.compile(r"\b(?P<name>[a-z]\w*)=(?=\s|$)")


def as_options(text: str) -> str:
    """The text with each keyword argument that is an option of the command line spelled as that option."""
    for told, shell in _PHRASES.items():
        text = text.replace(told, shell)
    return _BARE.sub(_as_name, _KEYWORD.sub(_as_option, text))


_OFFICIAL: dict[str, tuple[str, ...]] = {
    "--saved_model_dir": (),  # what is converted stands by itself
    "--keras_model_file": (),
    "--output_file": ("-o",),
    "--saved_model_signature_key": ("--signature",),
    "--graph_def_file": (),
    "--input_arrays": ("--inputs",),
    "--output_arrays": ("--outputs",),
}
_WITHOUT_EFFECT = frozenset({"--experimental_new_converter", "--experimental_new_quantizer", "--enable_v1_converter"})


def from_tflite_convert(arguments: Sequence[str]) -> list[str]:
    """Arguments of `jfuse convert`, some of which may be spelled as those of TensorFlow's tflite_convert.

    `--name=value` and `--name value` are one. What selects the new converter has no effect.
    """
    found, pending = list[str](), list(arguments)
    while pending:
        argument = pending.pop(0)
        name, equals, value = argument.partition("=")
        if name in _WITHOUT_EFFECT:
            if not equals and pending[:1] in (["true"], ["false"], ["True"], ["False"]):
                pending.pop(0)
        elif argument == "--saved_model_tag_set" and pending[:1] == ["serve"]:
            pending.pop(0)  # the tags that are taken anyway, here and in the next line
        elif argument == "--saved_model_tag_set=serve":
            continue
        elif name in _OFFICIAL:
            found += [*_OFFICIAL[name], *([value] if equals else [])]
        else:
            found.append(argument)
    return found


def _as_option(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    return _SPELLED[name](value) if name in _SPELLED else match[0]


def _as_name(match: re.Match[str]) -> str:
    """For a keyword without a value, as in `batch= is no size`."""
    name = match["name"]
    if name not in (*_SPELLED, *_NAMED):
        return match[0]
    return _NAMED.get(name, f"--{name.replace('_', '-')}")


def _chosen(option: str, choices: Sequence[str | None]) -> Callable[[str], str]:
    """For one of these values; others are of another function's keyword, as Keras's padding="causal"."""
    return lambda value: f"{option} {value[1:-1]}" if value[1:-1] in choices else f"{option[2:]}={value}"


def _switch(option: str, off: str) -> Callable[[str], str]:
    return lambda value: off if value == "False" else option


def _fixed(option: str) -> Callable[[str], str]:
    return lambda value: option


def _names(option: str) -> Callable[[str], str]:
    """The names of a list, `['a', 'b']`, by commas; NAMES for a list that stands for any."""
    return lambda value: f"{option} {','.join(re.findall(_NAME, value)) or 'NAMES'}"


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
    "precision": _chosen("--precision", PRECISIONS),
    "prefer": _chosen("--prefer", PREFERENCES),
    "require": _chosen("--require", REQUIREMENTS),
    "machine": _chosen("--machine", MACHINES),
    "state": _chosen("--state", STATES),
    "calibration": lambda value: f"--calibration {'random' if value == _RANDOM else 'data.npz'}",
    "batch": lambda value: f"--batch {value}" if value.isdigit() else f"batch={value}",
    "calls": lambda value: f"--calls {value}",
    "custom_ops": _custom_ops,
    "input_tensors": _names("--inputs"),
    "output_tensors": _names("--outputs"),
    "quantize": lambda value: f"--quantize {value[1:-1]}",
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

_NAMED = {
    "input_tensors": "--inputs",
    "output_tensors": "--outputs",
    "shapes": "--shape",
    "signatures": "--signature",
    "custom_ops": "--custom-op",
    "sizes": "--size",
    "runtimes": "--runtime",
    "data": "--data",
    "device": "--device",
    "dump_dir": "--dump-dir",
    "metadata": "--metadata",
    "save_failing": "--save-failing",
    "seed": "--seed",
    "slower": "--slower",
    "timings": "--timings",
    "tolerance": "--tolerance",
}
"""Options by keyword where that has another name, or where no remedy gives it a value."""
_PHRASES = {
    "import the module that defines and registers them before": "--import MODULE, which defines and registers them"
}
"""Phrases about Python statements, with the command-line option that replaces each."""
