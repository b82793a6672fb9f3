"""A file as C++ source: the compiler is the oracle for the bytes, tflite-micro's own names for the operators."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path, PurePath

import numpy as np
import pytest

from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.kernels import ops
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.tflite.c_source import c_files, identifier, resolver_method
from jfuse.tflite.schema import custom_code
from jfuse.tflite.targets.file_operators import operators_of
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import dense, f32, program

PROGRAM = """
#include <cstdio>
#include <cstdint>
#include "odd_name_2.h"
int main() {
  if (reinterpret_cast<uintptr_t>(odd_name_2) % 16 != 0) return 1;
  std::fwrite(odd_name_2, 1, odd_name_2_len, stdout);
  return odd_name_2_arena_bytes == 1234 ? 0 : 2;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_a_compiler_gives_the_bytes_back(tmp_path: Path) -> None:
    data = to_bytes(dense())
    texts = c_files(data, PurePath("odd-name.2.cc"), (1234, 1000))
    assert list(texts) == ["odd-name.2.cc", "odd-name.2.h", "odd-name.2_ops.h"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cc").write_text(PROGRAM.replace("odd_name_2.h", "odd-name.2.h"))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["g++", *flags, "main.cc", "odd-name.2.cc", "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    ran = subprocess.run([tmp_path / "main"], capture_output=True, check=False, timeout=10)
    assert ran.returncode == 0
    assert ran.stdout == data


def test_the_operators_of_the_resolver() -> None:
    data = to_bytes(program(lambda x: ops.tanh(ops.fully_connected(x, np.ones((3, 2), np.float32), None)), f32(1, 2)))
    text = c_files(data, PurePath("model.cc"), None)["model_ops.h"]
    assert "constexpr int model_op_count = 2;" in text
    assert text.index("resolver.AddFullyConnected()") < text.index("resolver.AddTanh()")
    assert "AddCustom" not in text
    assert "arena" not in c_files(data, PurePath("model.cc"), None)["model.h"]


@pytest.mark.parametrize(
    ("builtin", "method"),
    [
        # as tensorflow/lite/micro/micro_mutable_op_resolver.h has them
        ("ADD_N", "AddAddN"),
        ("BATCH_MATMUL", "AddBatchMatMul"),
        ("BATCH_TO_SPACE_ND", "AddBatchToSpaceNd"),
        ("CALL_ONCE", "AddCallOnce"),
        ("CONV_2D", "AddConv2D"),
        ("CUMSUM", "AddCumSum"),
        ("DEPTHWISE_CONV_2D", "AddDepthwiseConv2D"),
        ("FULLY_CONNECTED", "AddFullyConnected"),
        ("L2_POOL_2D", "AddL2Pool2D"),
        ("LOG_SOFTMAX", "AddLogSoftmax"),
        ("PADV2", "AddPadV2"),
        ("RELU6", "AddRelu6"),
        ("RESIZE_NEAREST_NEIGHBOR", "AddResizeNearestNeighbor"),
        ("REVERSE_V2", "AddReverseV2"),
        ("SELECT_V2", "AddSelectV2"),
        ("SPLIT_V", "AddSplitV"),
        ("STRIDED_SLICE", "AddStridedSlice"),
        ("SVDF", "AddSvdf"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "AddUnidirectionalSequenceLSTM"),
        ("VAR_HANDLE", "AddVarHandle"),
        ("ZEROS_LIKE", "AddZerosLike"),
    ],
)
def test_methods_have_the_names_of_the_library(builtin: str, method: str) -> None:
    assert resolver_method(builtin) == method


def test_custom_operators_are_the_users() -> None:
    op = CustomOp("Twice", (f32(2),))
    x, y = Var(f32(2)), Var(f32(2))
    eqn = Eqn(op, (x,), (y,), {"options": b"", "version": 1})
    data = to_bytes(Program((Signature("main", Graph("main", (x,), (eqn,), (y,)), ("x",), ("y",)),)))
    assert operators_of(data) == {custom_code("Twice"): 1}
    text = c_files(data, PurePath("model.cc"), None)["model_ops.h"]
    assert "constexpr int model_op_count = 1;" in text
    assert "add yours here, with AddCustom" in text


def test_names_of_files_become_names_of_cpp() -> None:
    assert [identifier(n) for n in ("model", "my-model", "2nd", "_x", "grün")] == [
        "model",
        "my_model",
        "model_2nd",
        "model__x",
        "gr_n",
    ]
