"""List TFLite's builtins and TensorFlow's ops from the registries, for `jfuse ops`.

Which builtins an op of TensorFlow becomes is in `spelled.txt`: `python -m tests.generated` writes it from the rows of
tests, and a test compares the two. For a composite the rule declares it.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import jfuse.frontends.tensorflow.function  # noqa: F401 - registers what the importer itself reads
from jfuse.frontends.tensorflow.frames import CONTROL
from jfuse.frontends.tensorflow.graph import HANDLERS
from jfuse.ir.types import DType
from jfuse.kernels import control
from jfuse.kernels.control import BodyOp
from jfuse.kernels.core.op import TflOp, builtin_ops
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import FuseRule, LowerRule
from jfuse.passes.gates.alternatives import alternative_to
from jfuse.tflite.runtime.dtypes import taken
from jfuse.tflite.runtime.table import reason_for
from jfuse.tflite.schema import BUILTIN_CODES


@dataclass(frozen=True)
class Builtin:
    """One builtin of the schema: its code, its kernel's place or the reason why there is none, and who spells with it.

    ops: TensorFlow ops whose rules spell with it. composites: functions and recurrences that become it. dtypes: the
    element types that the runtime's kernel takes, "" for all.
    """

    name: str
    code: int
    kernel: str
    reason: str
    about: str
    ops: tuple[str, ...]
    composites: tuple[str, ...]
    dtypes: str


@dataclass(frozen=True)
class TensorflowOp:
    """One op of TensorFlow that jfuse reads: where its rule stands, how it spells the op, and in which builtins."""

    name: str
    place: str
    about: str
    builtins: tuple[str, ...]


def builtins() -> list[Builtin]:
    """All builtins of the schema, in alphabetical order."""
    declared: dict[str, TflOp | BodyOp] = dict(builtin_ops())
    declared |= {op.builtin: op for op in vars(control).values() if isinstance(op, BodyOp) and op.builtin}
    spells = {op.name: op.builtins for op in tensorflow_ops()}
    fused = {name: rule.makes for name, rule in default_rules().fuses.items()}
    return [
        Builtin(
            name,
            code,
            _kernel_place(declared.get(name)),
            "" if name in declared else reason_for(name),
            _about(declared.get(name)),
            tuple(sorted(op for op, used in spells.items() if name in used)),
            tuple(sorted(composite for composite, used in fused.items() if name in used)),
            _dtypes(name),
        )
        for name, code in sorted(BUILTIN_CODES.items())
    ]


@cache
def tensorflow_ops() -> list[TensorflowOp]:
    """All ops of TensorFlow that a rule spells or that the importer itself reads, in alphabetical order."""
    rules, spells = default_rules().lowers, spelled()
    listed = [TensorflowOp(n, _place(r.function), _about(r), spells.get(n, ())) for n, r in rules.items()]
    handled = {n: TensorflowOp(n, _place(h), _about(h), ()) for n, h in HANDLERS.items()} | _NO_HANDLERS
    listed += [op for name, op in handled.items() if name not in rules and name not in _REFUSED]
    return sorted(listed, key=lambda op: op.name)


_REFUSED = frozenset({"Variable", "VariableV2"})
_NO_HANDLERS = {
    **{
        op: TensorflowOp(op, "jfuse/frontends/tensorflow/functional.py", "Part of an If or a While.", ())
        for op in CONTROL
    },
    "Assert": TensorflowOp("Assert", "jfuse/frontends/tensorflow/graph.py", "Not checked; the report names it.", ()),
    "NoOp": TensorflowOp("NoOp", "jfuse/frontends/tensorflow/graph.py", "Left out.", ()),
}
"""Handlers of the importer that refuse, and ops that it reads without one."""


def spelled() -> dict[str, tuple[str, ...]]:
    """For each TensorFlow op that has a rule, the builtins in the graphs that tests make with it, in their order."""
    text = (Path(__file__).parent / "spelled.txt").read_text(encoding="utf-8")
    lines = (line.split(":") for line in text.splitlines())
    return {op: tuple(builtins.split()) for op, builtins in lines}


_INTEGER = sorted(name for name, op in builtin_ops().items() if op.integer_body is not None)


def markdown() -> str:
    """Three tables in Markdown: builtins with and without a kernel, then the ops of TensorFlow that are read."""
    rows = builtins()
    have, lack = [b for b in rows if b.kernel], [b for b in rows if not b.kernel]
    tensorflow = tensorflow_ops()
    return "\n".join(
        [
            f"TFLite's schema has {len(rows)} builtin codes. jfuse computes {len(have)} of them on XLA, reads and "
            f"writes them. It spells {len(tensorflow)} ops of TensorFlow.",
            "",
            f"Quantized integers are computed on XLA as well by {len(_INTEGER)} of them: {', '.join(_INTEGER)}, and by "
            "what only moves integers. A model all of whose quantized operators are among these answers as LiteRT's "
            "default path does, in every bit; in others LiteRT computes them in host callbacks.",
            "",
            "## Builtins of TFLite",
            "",
            "*Types* are those that the runtime's kernel takes, of the result or of the first operand where these "
            "differ; others are computed in a wider type between two casts, or refused. *Spells* lists the TensorFlow "
            "ops that become it, alone or with others, in tests with known sizes, and the composites (`so`) that do. "
            "Where sizes are open, more operators compute them.",
            "",
            "| builtin | code | kernel | types | spells |",
            "|---|---|---|---|---|",
            *(f"| {b.name} | {b.code} | {b.kernel} | {b.dtypes or 'all'} | {_spells(b)} |" for b in have),
            "",
            "## Builtins without a kernel",
            "",
            "| builtin | code | why |",
            "|---|---|---|",
            *(f"| {b.name} | {b.code} | {b.reason} |" for b in lack),
            "",
            "## Ops of TensorFlow",
            "",
            "| op | rule | how | builtins |",
            "|---|---|---|---|",
            *(f"| {o.name} | {o.place} | {_cell(o.about)} | {', '.join(o.builtins) or '—'} |" for o in tensorflow),
            "",
        ]
    )


def listing() -> list[str]:
    """All ops in a line each: those of TensorFlow with the builtins that they become, then the missing ones."""
    lines = [f"{op.name}: {', '.join(op.builtins) or op.about}" for op in tensorflow_ops()]
    return lines + [f"no kernel for {b.name}: {b.reason}" for b in builtins() if not b.kernel]


def about(name: str) -> list[str]:
    """Lines about one TensorFlow op, builtin or composite, by name."""
    lines = [line for op in tensorflow_ops() if op.name == name for line in _about_op(op)]
    lines += [line for b in builtins() if b.name == name.upper() for line in _about_builtin(b)]
    fused = default_rules().fuses.get(name)
    lines += [f"composite {name}", f"  rule      {_place(fused.function)}"] if fused else []
    return lines or _about_unknown(name)


def is_known(name: str) -> bool:
    """Whether a name is an op's, a builtin's or a composite's."""
    names = {op.name for op in tensorflow_ops()} | {b.name for b in builtins()} | set(default_rules().fuses)
    return name in names or name.upper() in names


def _about_op(op: TensorflowOp) -> Iterator[str]:
    yield f"{op.name} of TensorFlow"
    yield f"  rule      {op.place}"
    if op.about:
        yield f"  how       {op.about}"
    if op.builtins:
        yield f"  builtins  {', '.join(op.builtins)}"
    for name in op.builtins:
        if _dtypes(name):
            yield f"  types     {name} takes {_dtypes(name)}"


def _about_builtin(builtin: Builtin) -> Iterator[str]:
    yield f"{builtin.name}, builtin {builtin.code} of TFLite"
    if builtin.reason:
        yield f"  no kernel {builtin.reason}"
        return
    yield f"  kernel    {builtin.kernel}"
    yield f"  does      {builtin.about}"
    yield f"  types     {builtin.dtypes or 'all'}"
    for what, names in (("ops", builtin.ops), ("from", builtin.composites)):
        if names:
            yield f"  {what:<8}  {', '.join(names)}"


def _about_unknown(name: str) -> list[str]:
    names = [*(op.name for op in tensorflow_ops()), *BUILTIN_CODES]
    near = difflib.get_close_matches(name, names, n=3)
    lines = [f"{name} is no op that jfuse reads" + (f"; near are {', '.join(near)}" if near else "")]
    if alternative_to(name):
        lines.append(f"  instead   {alternative_to(name)}")
    return [
        *lines,
        f'  rule      @jfuse.lowers("{name}") on a function that spells it in jfuse.ops (docs/rules.md)',
        "  Flex      pipeline=jfuse.Pipeline(select_tf_ops=True) writes it for runtimes with the Flex delegate",
        f'  custom    pipeline=jfuse.Pipeline(custom_ops=["{name}"]) writes it for a kernel of your own',
    ]


def _spells(builtin: Builtin) -> str:
    return ", ".join((*builtin.ops, *(f"`{c}`" for c in builtin.composites))) or "—"


def _dtypes(builtin: str) -> str:
    """As `f32 f16`, or `bool of f32 f16` where the result and the first operand differ."""
    result, operand = taken(builtin)
    return " ".join(d.value for d in DType if d in (result or operand or frozenset()))


def _kernel_place(op: Any) -> str:
    if op is None:
        return ""
    return _file(op.body.__module__) if isinstance(op, TflOp) else "kernels/control.py"


def _place(function: Callable[..., Any]) -> str:
    """Where a function stands: its file, and its name where it has one; of a builtin that is a rule its kernel's."""
    if isinstance(function, TflOp):
        return _file(function.body.__module__)
    name = function.__qualname__
    return _file(function.__module__) + ("" if "<" in name or name.startswith("_") else f" {name}")


def _file(module: str) -> str:
    path = module.replace(".", "/")
    return re.sub(r"^jfuse/(?=lowering/|kernels/)", "", path) + ".py"


def _about(described: Any) -> str:
    """The first line of a docstring, without the shapes, which stand behind a gap, or before one and an arrow."""
    function = described.function if isinstance(described, LowerRule | FuseRule) else described
    text = inspect.getdoc(function) if isinstance(function, FunctionType) else getattr(function, "__doc__", None)
    parts = re.split(r" {3,}", text.strip().splitlines()[0]) if text else [""]
    return parts[-1] if parts[-1].startswith("->") else parts[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
