"""Which operators of which types other runtimes have: makes the tables in jfuse/tflite/targets/tables.

    python -m bench.target_tables tflite-micro                # by its interpreter, one file after another
    python -m bench.target_tables compiled-model              # by LiteRT's CompiledModel, likewise
    python -m bench.target_tables ethos-u REPORT              # from what vela --supported-ops-report writes
    python -m bench.target_tables litert-gpu FILE COMMIT      # from tflite/tools/versioning/gpu_compatibility.cc
    python -m bench.target_tables google-tensor FILE COMMIT   # from litert/vendors/google_tensor/compiler, its plugin

FILE is the named source of LiteRT at COMMIT; the lists of operators in it are read, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from bench.runtimes.micro_integers import in_a_process, try_integers
from bench.runtimes.row_files import row_files
from bench.runtimes.target_programs import programs
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.running.file_process import output_types
from jfuse.running.litert_worker.compiled_model import Loaded
from jfuse.tflite.runtime.table import ROWS
from jfuse.tflite.schema import BUILTIN_CODES
from jfuse.tflite.targets.compiled_model import in_variable_tensors, why_not_loaded
from jfuse.tflite.targets.file_operators import operators_of

TABLES = Path(__file__).parent.parent / "jfuse" / "tflite" / "targets" / "tables"
TOLERANCE = 1e-4  # of the largest result: a table says which kernels are there, the tests how exact they are


def types_of(eqn: Eqn) -> tuple[str, str]:
    """The types of the first operand and of the first result."""
    first = next((a for a in eqn.inputs if a is not None), None)
    return ("-" if first is None else first.type.dtype.value), (eqn.outputs[0].type.dtype.value if eqn.outputs else "-")


def name_of(eqn: Eqn) -> str:
    """The builtin."""
    return str(eqn.op.builtin)


def rank_of(eqn: Eqn) -> int:
    """The largest rank of an operand or a result."""
    return max((a.type.rank for a in (*eqn.inputs, *eqn.outputs) if a is not None), default=0)


def _agrees(data: bytes, inputs: Sequence[np.ndarray]) -> bool:
    """Whether tflite-micro answers like LiteRT, twice in a row."""
    from tflite_micro.python.tflite_micro import runtime

    litert = Interpreter(model_content=data, num_threads=1)
    litert.allocate_tensors()
    micro = runtime.Interpreter.from_bytes(data, arena_size=1 << 22)
    for _ in range(2):
        for number, (detail, array) in enumerate(zip(litert.get_input_details(), inputs, strict=True)):
            litert.set_tensor(detail["index"], array)
            micro.set_input(array, number)
        litert.invoke()
        micro.invoke()
        for number, detail in enumerate(litert.get_output_details()):
            wanted = litert.get_tensor(detail["index"])
            found = micro.get_output(number).reshape(wanted.shape)
            scale = np.abs(np.nan_to_num(wanted.astype(np.float64))).max(initial=1e-30)
            if not np.allclose(found, wanted, rtol=0, atol=TOLERANCE * scale, equal_nan=True):
                return False
    return True


def _micro_programs() -> Iterator[tuple[Program, bytes, list[np.ndarray]]]:
    """Small files: a row of the tests each, and operators that no row has."""
    yield from row_files()
    yield from programs()


def micro() -> dict[str, Any]:
    """Operators and types on which tflite-micro agrees with LiteRT; the largest rank if a larger one fails."""
    runs: dict[str, dict[tuple[str, str], int]] = {}
    fails: dict[str, dict[tuple[str, str], int]] = {}
    integers: dict[str, dict[str, bool]] = {}
    for program, data, inputs in _micro_programs():
        eqns = list(all_eqns(program.signatures[0].graph))
        try_integers(program, data, inputs, _agrees, integers)
        if not eqns or any(d in t for e in eqns for t in types_of(e) for d in ("string", "c64", "resource")):
            continue
        known = all(rank_of(e) <= runs.get(name_of(e), {}).get(types_of(e), -1) for e in eqns)
        if known and len(eqns) > 1 and not program.states():
            continue  # nothing new
        took = in_a_process(lambda data=data, inputs=inputs: _agrees(data, inputs))
        if known and not took:
            print(f"a condition besides types: {eqns[0]}", file=sys.stderr)
            continue
        if not took and len(eqns) > 1:
            continue  # any of them may be to blame
        for eqn in eqns:
            known = (runs if took else fails).setdefault(name_of(eqn), {})
            least = max if took else min
            known[types_of(eqn)] = least(rank_of(eqn), known.get(types_of(eqn), rank_of(eqn)))
        for builtin in operators_of(data) if took else ():
            runs.setdefault(builtin, {})
    return {
        "runtime": "tflite-micro",
        "source": f"measured in the interpreter of the wheel tflite-micro {version('tflite-micro')}",
        "command": "python -m bench.target_tables tflite-micro",
        "operators": {
            name: _micro_entry(name, runs[name], fails.get(name, {}), integers.get(name, {})) for name in sorted(runs)
        },
        "refused": sorted(set(fails) - set(runs)),
    }


def _micro_entry(
    builtin: str, runs: dict[tuple[str, str], int], fails: dict[tuple[str, str], int], integers: dict[str, bool]
) -> dict[str, Any]:
    """The types that ran, unless the operator hands on whatever it is given, and the rank where a larger one failed.

    integers: by quantized types, whether all trials were right.
    """
    order = [d.value for d in DType] + ["-"]
    entry: dict[str, Any] = {}
    if runs and builtin not in _ANY_TYPE:
        entry["types"] = [list(p) for p in sorted(runs, key=lambda p: (order.index(p[0]), order.index(p[1])))]
    largest = max(runs.values(), default=0)
    if any(fails.get(types, 0) > largest for types in runs):
        entry["rank"] = largest
    if refused := sorted((types for types, took in integers.items() if not took), key=lambda t: (len(t), t)):
        entry["no_integers"] = refused
    return entry


def compiled_model() -> dict[str, Any]:
    """Make the table of CompiledModel: the builtins of LiteRT's kernels, without those that failed in every file.

    The table leaves out what CompiledModel refuses of inputs and outputs, whatever the operators; the output names such
    files.
    """
    took: dict[str, bool] = {}
    for program, data, inputs in _micro_programs():
        values = [v for g in program.graphs() for v in (*g.inputs, *g.outputs)]
        if any(v.type.dtype is DType.string for v in values):
            continue  # Python's buffers hold none
        agrees = in_a_process(partial(_as_interpreter, program, data, inputs))
        if not agrees and (reasons := why_not_loaded(program)) and not in_variable_tensors(program):
            print(f"{[*operators_of(data)]}: {reasons[0]}", file=sys.stderr)
            continue
        if not agrees:
            print(f"{[*operators_of(data)]}: refused, or another answer", file=sys.stderr)
        for builtin in operators_of(data) if agrees or len(operators_of(data)) == 1 else ():
            took[builtin] = took.get(builtin, False) or agrees
    refused = sorted(builtin for builtin, agrees in took.items() if not agrees)
    return {
        "runtime": "compiled-model",
        "source": f"measured in CompiledModel of the wheel ai-edge-litert {version('ai-edge-litert')}",
        "command": "python -m bench.target_tables compiled-model",
        "refused": refused,
        "operators": {name: {} for name, row in sorted(ROWS.items()) if row.litert is not None and name not in refused},
    }


def _as_interpreter(program: Program, data: bytes, inputs: Sequence[np.ndarray]) -> bool:
    """Whether CompiledModel answers like Interpreter, twice in a row, where that takes the file."""
    (signature,) = program.signatures
    given = dict(zip(signature.input_names, inputs, strict=False))
    try:
        interpreter = Interpreter(model_content=data, num_threads=1)
        runner = interpreter.get_signature_runner(signature.key)
        wanted = [runner(**given) for _ in range(2)]
    except (ValueError, RuntimeError):
        return True
    compiled = Loaded(lambda number: None, np.frombuffer(data, np.uint8), output_types(program))
    found = [compiled.call(signature.key, given) for _ in range(2)]
    pairs = ((f[name], np.asarray(w[name])) for f, w in zip(found, wanted, strict=True) for name in w)
    return all(_is_near(f, w) for f, w in pairs)


def _is_near(found: np.ndarray, wanted: np.ndarray) -> bool:
    scale = np.abs(np.nan_to_num(wanted.astype(np.complex128))).max(initial=1e-30)
    same = found.shape == wanted.shape
    return same and bool(np.allclose(found, wanted, rtol=0, atol=TOLERANCE * scale, equal_nan=True))


_ANY_TYPE = frozenset({"IF", "WHILE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})


_SECTIONS = {"ethos-u55": "Ethos-U55 and Ethos-U65", "ethos-u85": "Ethos-U85"}
_FEATURES = {"INT8": "i8", "UINT8": "u8", "INT16": "i16", "INT32": "i32", "INT64": "i64", "BOOL": "bool"}
_NOT_IN_32_BITS = "32-bit feature-maps are not supported"
_NOT_IN_64_BITS = re.compile(r"64-bit feature-maps are not supported\.\n  - Exceptions: \[(.*?)\]")
_IN_THESE = re.compile(r"must be ((?:Int8|UInt8|Int16)(?: or (?:Int8|UInt8|Int16))*)$", re.MULTILINE)
_OF_MATRICES = "IF Matmul or (FC with dynamic weights): IFM precision must be Int8"


def ethos(name: str, report: str) -> dict[str, Any]:
    """The operators that Arm's compiler places on an Ethos-U, and the types that each tensor of them may have."""
    section = _SECTIONS[name]
    text = report.partition(f"## {section} TFLite Summary Table")[2]
    table, _, rest = text.partition("\n## ")
    rest = report.partition(f"## {section} TFLite Generic Constraints")[2]
    listed = re.search(r"dataTypes must be one of \{(.*?)\}", rest)
    assert listed is not None, "another form of the report"
    types = [_FEATURES[t] for t in re.findall(r"\w+", listed[1]) if t in _FEATURES]
    operators = {}
    for builtin in re.findall(r"^\| (\w+) \|", table, re.MULTILINE):
        own = report.partition(f"### {section} TFLite {builtin} Constraints")[2].partition("\n### ")[0]
        each = [t for t in types if t != "i32" or _NOT_IN_32_BITS not in own]
        each = [t for t in each if t != "i64" or builtin in _wide(rest)]
        named = _IN_THESE.search(own.replace(_OF_MATRICES, "must be Int8" if builtin == "BATCH_MATMUL" else ""))
        if named is not None:
            each = [t for t in each if t in {_FEATURES[n.upper()] for n in named[1].split(" or ")}]
        if builtin in BUILTIN_CODES:
            operators[builtin] = {"each": each}
    version_of = re.search(r"Vela version: `(.*?)`", report)
    return {
        "runtime": name,
        "source": f"the report of supported operators of ethos-u-vela {version_of[1] if version_of else ''}",
        "command": "vela --supported-ops-report && python -m bench.target_tables ethos-u SUPPORTED_OPS.md",
        "operators": dict(sorted(operators.items())),
    }


def _wide(constraints: str) -> set[str]:
    """The operators with results of 64 bits: of Ethos-U85, whose report has no such constraint, the same as of U55."""
    found = _NOT_IN_64_BITS.search(constraints)
    return {"ARG_MAX"} if found is None else {name.replace("ARGMAX", "ARG_MAX") for name in found[1].split(", ")}


def listed(runtime: str, file: Path, commit: str, pattern: str, *, has: bool) -> dict[str, Any]:
    """The operators that a source of LiteRT names as taken, or (`has` False) all but those that it names."""
    text = file.read_text()
    by_code = {re.sub("[^a-z0-9]", "", name.lower()): name for name in BUILTIN_CODES}
    found = {by_code[key] for n in re.findall(pattern, text) if (key := n.lower()) in by_code}
    names = found if has else set(BUILTIN_CODES) - found
    return {
        "runtime": runtime,
        "source": f"google-ai-edge/LiteRT {commit}, {_PLACES[runtime]}",
        "command": f"python -m bench.target_tables {runtime} FILE COMMIT",
        "operators": {name: {} for name in sorted(names - {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"})},
    }


_PLACES = {
    "litert-gpu": "tflite/tools/versioning/gpu_compatibility.cc",
    "google-tensor": "litert/vendors/google_tensor/compiler/compiler_plugin.cc",
}


def write(table: dict[str, Any]) -> None:
    """Write a table, one operator a line."""
    lines = [f"  {json.dumps(n)}: {json.dumps(o)}" for n, o in table.pop("operators").items()]
    head = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in table.items()]
    text = "\n".join(["{", *head, ' "operators": {', ",\n".join(lines), " }", "}", ""])
    json.loads(text)
    (TABLES / f"{table['runtime']}.json").write_text(text)


def main(arguments: list[str]) -> None:
    """Write the table of one runtime."""
    match arguments:
        case ["tflite-micro"]:
            write(micro())
        case ["compiled-model"]:
            write(compiled_model())
        case ["ethos-u", report]:
            for name in _SECTIONS:
                write(ethos(name, Path(report).read_text()))
        case ["litert-gpu", file, commit]:
            write(listed("litert-gpu", Path(file), commit, r"case kTfLiteBuiltin(\w+):", has=True))
        case ["google-tensor", file, commit]:
            write(listed("google-tensor", Path(file), commit, r"kLiteRtOpCodeTfl(\w+),", has=False))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
