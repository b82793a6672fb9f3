"""Remedies as the command line spells them: where the library says `padding="right"`, it has `--padding right`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jfuse.base.limits import Limits
from jfuse.base.options import texts_of
from jfuse.frontends.selection import Inputs
from jfuse.passes.options import Forms, Pipeline, QuantizationOptions
from jfuse.verification.options import Verify

_VALUE = r"""(?P<value>"[^"\n]*"|'[^'\n]*'|\[[^\]\n]*\]|\{[^}\n]*\}|[\w.-]+|…)"""
_NAME = r"[\w./:-]+"
_KEYWORD = re.compile(rf"\b(?P<name>[a-z]\w*)={_VALUE}")


_OBJECT = re.compile(r"(?:\b[a-z]+=)?jfuse\.(?:Inputs|Forms|Pipeline|Verify|Limits)\(((?:[^()]|\([^()]*\))*)\)")
_BARE = re.compile(r"\b(?P<name>[a-z]\w*)=(?=\s|$)")


def as_options(text: str) -> str:
    """The text with each keyword argument that is an option of the command line spelled as that option."""
    for told, shell in _PHRASES.items():
        text = text.replace(told, shell)
    text = _OBJECT.sub(r"\1", text)
    return _BARE.sub(_as_name, _KEYWORD.sub(_as_option, text))


_OFFICIAL: dict[str, tuple[str, ...]] = {
    "--saved_model_dir": (),  # what is converted stands by itself
    "--keras_model_file": (),
    "--output_file": ("-o",),
    "--saved_model_signature_key": ("--signature",),
    "--graph_def_file": (),
    "--input_arrays": ("--input-tensors",),
    "--output_arrays": ("--output-tensors",),
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


_KINDS = (QuantizationOptions, Inputs, Forms, Pipeline, Verify, Limits)
_TEXTS = {f.name: text for kind in reversed(_KINDS) for f, text in texts_of(kind) if text.flag != ""}
_FLAGS = {name: text.flag_of(name) for name, text in _TEXTS.items()}
_FLAGS |= {name: f"--{name}" for name in ("quantize", "rules", "verify", "data", "metadata", "slower", "timings")}
"""Flags by keyword; those of the second line no object of options has."""
_WORDS = {"calibration": "data.npz", "inputs": "data.npz", "rules": "FILE", "signatures": "KEY", "keys": "KEY"}
"""The word that stands behind a flag for any value."""


def _as_option(match: re.Match[str]) -> str:
    """A keyword with its value, as the flag of its name; other functions' keywords stay as they are."""
    name, value = match["name"], match["value"]
    text, flag, bare = _TEXTS.get(name), _FLAGS.get(name), value.strip("\"'")
    if flag is None:
        return match[0]
    if value in ("True", "False"):
        return flag if value == "True" else "--no-verify" if name == "verify" else f"no {flag}"
    if text is not None and text.choices:
        return f"{flag} {bare}" if bare in text.choices else f"{flag[2:]}={value}"
    if name in _WORDS:
        return f"{flag} {'random' if bare == 'random' else _WORDS[name]}"
    if text is not None and text.many:
        named = re.match(r"""\{["']([^"']+)["']""", value)
        names = named[1] if named else ",".join(re.findall(_NAME, value)) if value[0] == "[" else ""
        word = str(text.typer.get("metavar", "NAME"))
        return f"{flag} {word.replace('NAME', names or 'NAME') if '=' in word else names or word}"
    if bare == "…":
        return f"{flag} NAME"
    return f"{flag} {bare}" if bare != value or value.isdigit() else match[0]


def _as_name(match: re.Match[str]) -> str:
    """For a keyword without a value, as in `batch= is no size`."""
    return _FLAGS.get(match["name"], match[0])


_PHRASES = {
    "import the module that defines and registers them before": "--import MODULE, which defines and registers them"
}
"""Statements of Python, and the options that stand for them."""
