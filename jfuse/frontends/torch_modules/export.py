"""A module of PyTorch as a graph of ATen operators, by torch.export: whole layers, no writing in place."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed, JfuseError
from jfuse.frontends.torch_modules.arguments import EXAMPLES, Arguments, arguments_of
from jfuse.frontends.torch_modules.beside_tensorflow import triton_hidden
from jfuse.frontends.torch_modules.kept_layers import keep_layers_of, layers_kept
from jfuse.frontends.torch_modules.open_boxes import any_number_of_boxes
from jfuse.frontends.torch_modules.result_shapes import infer_more_shapes

_OF_SIZES = (RuntimeError, ValueError, AssertionError, IndexError)
"""Exceptions of user code for an example that is too small or odd; torch.export's errors are subclasses."""


def exported_for(module: Any, specs: Any, dynamic_shapes: Any) -> tuple[Any, tuple[Mapping[int, str], ...]]:
    """The ExportedProgram of a module for specs, and the names of open sizes by leaf.

    Open sizes need examples: where the module's code refuses small ones (windows over sound are hundreds of samples
    long, an encoder halves an image five times), larger and even ones are tried.
    Raises ImportFailed if torch.export fails, with its message for the first examples.
    """
    first: ImportFailed | None = None
    for sizes in EXAMPLES:
        arguments = arguments_of(module, specs, dynamic_shapes, sizes)
        if arguments is None:
            break
        try:
            return exported(module, arguments), arguments.size_names
        except ImportFailed as error:
            first = first or error
            if type(error.__cause__) not in _OF_SIZES or not arguments.chosen:
                break
    assert first is not None
    raise first


def exported(module: Any, arguments: Arguments) -> Any:
    """The ExportedProgram of a module; raises ImportFailed where torch.export cannot make one."""
    import torch

    training = [name or type(module).__name__ for name, part in module.named_modules() if part.training]
    if training:
        raise ImportFailed(
            "the module is in training mode",
            found=f"{training[0]} and {len(training) - 1} more",
            remedy="module.eval()",
        )
    infer_more_shapes()
    with triton_hidden(), layers_kept(), any_number_of_boxes(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are of torch's own code
        try:
            return torch.export.export(
                module,
                arguments.positional,
                dict(arguments.named),
                dynamic_shapes=arguments.dynamic_shapes,
                strict=False,
            )
        except JfuseError:
            raise
        except Exception as error:  # exporting runs the user's code
            raise ImportFailed(
                f"torch.export cannot export {type(module).__name__}",
                found=f"{type(error).__name__}: {_message(error)}",
                remedy=_suggested(error)
                or "try torch.export.export(module, args, strict=False); a size that decides how it computes must be "
                "a number",
            ) from error


def functional(program: Any, has_rule: Callable[[Any], bool]) -> Any:
    """The program without operators that write in place, its layers whole.

    Operators without a rule are taken apart where PyTorch says how, into operators that have rules or have none either.
    """
    import torch

    with triton_hidden(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keep_layers_of(program.graph)
        whole = program.run_decompositions({})
        if all(map(has_rule, _operators_of(whole.graph_module))):
            return whole
        table = torch.export.default_decompositions()
        for operator in [o for o in table if has_rule(o)]:
            table.pop(operator)
        return whole.run_decompositions(table)


def _operators_of(module: Any) -> Iterator[Any]:
    """The operators of a graph module and of those within it."""
    for part in module.modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            if node.op == "call_function" and hasattr(node.target, "_schema"):
                yield node.target


def read_program(path: Path, *, unsafe: bool) -> Any:
    """The program of a file that torch.export.save wrote; raises ImportFailed where it is none, or not `unsafe`."""
    import torch

    if not unsafe:
        raise ImportFailed(
            f"{path} may run code of its author",
            found="a .pt2 file, which torch.export.load reads with pickle and whose graph may name any function",
            remedy="unsafe=True (--unsafe) where you trust the author; or give jfuse the module itself",
        )

    with triton_hidden(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(path)
        except Exception as error:  # zipfile's, json's, torch's own
            raise ImportFailed(
                f"{path} cannot be read as a file of torch.export.save",
                found=f"{type(error).__name__}: {_message(error)}",
            ) from error


_FIXES = "Suggested fixes:"


def _message(error: Exception) -> str:
    """The message of torch.export without its suggestions and its links."""
    text = re.sub(r"For more information[^\n]*", "", str(error).split("The error above")[0])
    return " ".join(text.split(_FIXES)[0].split())[:600]


def _suggested(error: Exception) -> str | None:
    """The remedy that torch.export names for sizes, as `time = Dim('time', max=512)`; None where it has none."""
    _, _, fixes = str(error).split("The error above")[0].partition(_FIXES)
    lines = [line.strip() for line in fixes.splitlines() if line.strip()]
    return f"in dynamic_shapes=: {'; '.join(lines)}" if lines else None
