"""A file as C++ source for tflite-micro: its bytes, a header, and the operators that its resolver needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from jfuse.tflite.schema import is_custom
from jfuse.tflite.targets.file_operators import operators_of

_BYTES_A_LINE = 16
_RESOLVER = "tensorflow/lite/micro/micro_mutable_op_resolver.h"


def identifier(name: str) -> str:
    """A name of C++ for a file name."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word[:1].isalpha() else f"model_{word}"


def c_files(data: bytes, source: PurePath, arena: tuple[int, int] | None) -> Mapping[str, str]:
    """The texts of three files by name: the source with the bytes, its header, and the list of operators.

    source: the name of the first, as model.cc; the others are model.h and model_ops.h. arena: the memory in bytes that
    the file needs besides itself, where it was measured, and an estimate for 32 bits.
    """
    stem = source.stem
    name = identifier(stem)
    return {
        source.name: "".join(_bytes(data, name, f"{stem}.h")),
        f"{stem}.h": _header(data, name, arena),
        f"{stem}_ops.h": _operators(data, name),
    }


def _bytes(data: bytes, name: str, header: str) -> Iterator[str]:
    yield f'// Made by jfuse. The bytes of a .tflite file.\n#include "{header}"\n\n'
    yield f"alignas(16) const unsigned char {name}[] = {{\n"
    for start in range(0, len(data), _BYTES_A_LINE):
        yield f"    {', '.join(f'0x{b:02x}' for b in data[start : start + _BYTES_A_LINE])},\n"
    yield f"}};\nconst unsigned int {name}_len = {len(data)};\n"


def _header(data: bytes, name: str, arena: tuple[int, int] | None) -> str:
    guard = f"{name.upper()}_H_"
    lines = [
        "// Made by jfuse.",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"extern const unsigned char {name}[];",
        f"extern const unsigned int {name}_len;  // {len(data)}",
    ]
    if arena is not None:
        needed, on_32_bits = arena
        lines += [
            "",
            "// Memory besides the model: the smallest array, aligned to 16 bytes, in which tflite-micro's interpreter",
            "// runs it on a 64-bit machine. What AllocateTensors needs for a moment is part of it. The margin is the",
            "// rounding up to 16 bytes, and no more.",
            f"// With pointers of 32 bits about {on_32_bits} bytes do: an estimate, to be tried.",
            f"constexpr int {name}_arena_bytes = {needed};",
        ]
    return "\n".join([*lines, "", f"#endif  // {guard}", ""])


def _operators(data: bytes, name: str) -> str:
    guard = f"{name.upper()}_OPS_H_"
    builtins = operators_of(data)
    methods = [resolver_method(b) for b in builtins]
    calls = [f"  TF_LITE_ENSURE_STATUS(resolver.{m}());" for m in methods if m is not None]
    note = ["  // The file has custom operators: add yours here, with AddCustom(name, registration)."]
    note = note if None in methods else []
    return "\n".join(
        [
            "// Made by jfuse. The operators of the model, for tflite-micro.",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            f'#include "{_RESOLVER}"',
            "",
            f"constexpr int {name}_op_count = {len(builtins)};",
            "",
            "template <unsigned int kCount>",
            f"TfLiteStatus {name}_add_ops(tflite::MicroMutableOpResolver<kCount>& resolver) {{",
            *calls,
            *note,
            "  return kTfLiteOk;",
            "}",
            "",
            f"#endif  // {guard}",
            "",
        ]
    )


# The methods of tflite-micro's MicroMutableOpResolver that add operators, by builtin.

# Names that are not those of the builtins word by word (tensorflow/lite/micro/micro_mutable_op_resolver.h).
_METHODS = {
    "BATCH_MATMUL": "BatchMatMul",
    "CUMSUM": "CumSum",
    "PADV2": "PadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
}


def resolver_method(builtin: str) -> str | None:
    """The method that adds a builtin, as `AddFullyConnected`; None for custom operators, which users add."""
    if is_custom(builtin):
        return None
    return "Add" + _METHODS.get(builtin, "".join(w if w[0].isdigit() else w.capitalize() for w in builtin.split("_")))
