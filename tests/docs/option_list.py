"""The page docs/options.md: every option with its object, flag, default and text, made from the fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field
from typing import Any

from jfuse.base.limits import Limits
from jfuse.base.options import OptionText, default_of, texts_of
from jfuse.frontends.selection import Inputs
from jfuse.passes.options import Forms, Pipeline
from jfuse.verification.options import Verify

KINDS = (Inputs, Forms, Pipeline, Verify, Limits)

_HEAD = """# Options

Functions take their everyday options as keywords: `jfuse.convert(model, batch=1, verify=False)`. The others are
fields of five objects, which every function takes that has such options. A keyword goes before the field of its name.

```python
result = jfuse.convert(
    "saved_model/",
    jfuse.Inputs(signatures=["serve"], shapes={"x": (1, 49, 40)}),
    forms=jfuse.Forms(padding="right", prefer="speed"),
    pipeline=jfuse.Pipeline(custom_ops=["Mine"], dump_dir="stages"),
    verify=jfuse.Verify(inputs="data.npz", tolerance=1e-4),
)
```

In a script or a notebook, a field may also be a keyword of a function that takes its object:
`jfuse.convert(model, padding="right")`. Type checkers know the keywords of the table alone.

An unknown keyword is an `UnknownOption`, which says where the option is. The command line has the same options as
flags, grouped by object in `--help`.
"""


def markdown(functions: dict[str, Callable[..., Any]]) -> str:
    """The page.   functions: the public ones by name, whose keywords the first table lists"""
    return "\n".join([_HEAD, *_functions(functions), *(line for kind in KINDS for line in _object(kind))]) + "\n"


def _functions(functions: dict[str, Callable[..., Any]]) -> Iterator[str]:
    yield from ("| function | keywords |", "| --- | --- |")
    for name, function in functions.items():
        keywords = (f"`{p}`" for p in inspect.signature(function).parameters)
        yield f"| `jfuse.{name}` | {', '.join(keywords)} |"


def _object(kind: type) -> Iterator[str]:
    first = (kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    yield from (
        "",
        f"## jfuse.{kind.__name__}",
        "",
        first,
        "",
        "| field | flag | default | |",
        "| --- | --- | --- | --- |",
    )
    for field, text in texts_of(kind):
        flag = text.flag_of(field.name)
        told = " ".join(filter(None, (text.text, text.more))).replace("|", "\\|")
        yield f"| `{field.name}` | {f'`{flag}`' if flag else ''} | {_default(field, text)} | {told} |"


def _default(field: Field[Any], text: OptionText) -> str:
    default = default_of(field)
    if default is None or callable(default) or (not default and not isinstance(default, bool | int)):
        return ""
    return f"`{default:,}`" if type(default) is int else f"`{default}`"
