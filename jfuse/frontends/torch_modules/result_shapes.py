"""Result shapes of operators that PyTorch does not infer."""

from __future__ import annotations

from functools import cache
from typing import Any

_FAKE_QUANTIZE = (
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "fake_quantize_per_channel_affine_cachemask",
)


@cache
def infer_more_shapes() -> None:
    """Let torch.export take fake quantization of tensors of open size, and least squares.

    A fake-quantized tensor, and its mask, are like the operand. Data decide the sizes of lstsq's residuals, which
    jfuse does not compute; those of its solution are known.
    """
    import torch

    def like(x: Any, *arguments: Any, **named: Any) -> Any:
        return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)

    def least_squares(a: Any, b: Any, *arguments: Any, **named: Any) -> Any:
        inputs = a.shape[-1:]
        size = inputs + b.shape[a.ndim - 1 :] if b.ndim == a.ndim else inputs
        nothing = b.new_empty(0)
        return b.new_empty(a.shape[:-2] + size), nothing, b.new_empty(a.shape[:-2], dtype=torch.int64), nothing

    for name, shapes in (*((name, like) for name in _FAKE_QUANTIZE), ("linalg_lstsq", least_squares)):
        operator = getattr(torch.ops.aten, name).default
        if not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "Meta"):
            torch.library.register_fake(f"aten::{name}")(shapes)
