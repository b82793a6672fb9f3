"""Rules for PyTorch's operators on arrays, where PyTorch is not needed: what they give is said by formulas."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import ImportFailed
from jfuse.ir.types import DType
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.from_torch.promotion import common_type

RULES = default_rules().lowers_torch
F32, F16, I64, I32, U8, BOOL = (np.dtype(t) for t in ("f4", "f2", "i8", "i4", "u1", "?"))


def of(kind: Any, *shape: int) -> np.ndarray:
    return np.ones(shape, kind)


@pytest.mark.parametrize(
    ("operands", "wanted"),
    [  # after pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
        ((of(I32, 2), 2), DType.i32),
        ((of(I32, 2), 2.5), DType.f32),
        ((of(I64, 2), of(F16, 2)), DType.f16),
        ((of(F16, 2), of(F32)), DType.f16),
        ((of(I32, 2), of(F16)), DType.f16),
        ((of(U8, 2), of(np.int8, 2)), DType.i16),
        ((of(BOOL, 2), 1), DType.i64),
        ((of(BOOL, 2), True), DType.bool),
        ((of(BOOL), of(BOOL, 2), of(U8)), DType.u8),
        ((1, 2.0), DType.f32),
    ],
)
def test_operands_get_the_type_that_pytorch_documents(operands: tuple[Any, ...], wanted: DType) -> None:
    assert common_type(*operands) is wanted


X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
PLACES = np.array([[[0, 2]], [[1, 1]]])


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("aten.add", (X, 2), X + 2),
        ("aten.rsub", (X, 1.0), 1 - X),
        ("aten.div", (np.array([7, -7]), 2), np.array([3.5, -3.5], np.float32)),
        ("aten.trunc", (X,), np.trunc(X)),
        ("aten.slice", (X, 1, -2, 2**63 - 1, 2), X[:, -2::2]),
        ("aten.select", (X, -1, -1), X[..., -1]),
        ("aten.view", (X, [-1, 6]), X.reshape(-1, 6)),
        ("aten.movedim", (X, 0, 2), np.moveaxis(X, 0, 2)),
        (
            "aten.constant_pad_nd",
            (X, [1, 0, 0, -1], 5.0),
            np.pad(X[:, :2], ((0, 0), (0, 0), (1, 0)), constant_values=5),
        ),
        ("aten.roll", (X, [1, -1], [0, 2]), np.roll(X, (1, -1), (0, 2))),
        ("aten.var", (X, [1]), X.var(1, ddof=1)),
        ("aten.argmax", (X,), np.array(23)),
        ("aten.layer_norm", (X, [4]), (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)),
        ("aten.linear", (X, np.eye(4, dtype=np.float32)[:2], np.ones(2, np.float32)), X[..., :2] + 1),
        ("aten.gather", (X, 2, PLACES), np.take_along_axis(X[:, :1], PLACES, 2)),
        ("aten.index", (X, [None, np.array([0, 2]), np.array([1, 3])]), X[:, [0, 2], [1, 3]]),
        ("aten.index", (X, [np.array([0, 1]), None, np.array([1, 3])]), X[[0, 1], :, [1, 3]]),
        ("aten.arange", (1, 8, 3), np.arange(1, 8, 3)),
        ("aten.tril", (X, 1), np.tril(X, 1)),
        ("aten.hardsigmoid", (X * 4,), np.clip(X * 4 / 6 + 0.5, 0, 1)),
        ("aten.repeat_interleave", (X, 2, 1), X.repeat(2, 1)),
        ("aten.pixel_shuffle", (X.reshape(1, 4, 3, 2), 2), X.reshape(1, 1, 2, 2, 3, 2).transpose(0, 1, 4, 2, 5, 3)),
    ],
)
def test_a_rule_computes_on_arrays(name: str, arguments: tuple[Any, ...], wanted: np.ndarray) -> None:
    found = np.asarray(RULES[name](*arguments))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=1e-6)


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_a_file_of_pytorch_needs_pytorch(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="PyTorch is not installed"):
        jfuse.load(tmp_path / "model.pt2")
