"""Fake quantization of tensors of open size: result shapes that PyTorch does not infer."""

from __future__ import annotations

from functools import cache
from typing import Any

_OPERATORS = (
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "fake_quantize_per_channel_affine_cachemask",
)


@cache
def fake_quantize_of_open_sizes() -> None:
    """Let torch.export take the operators on tensors of open size: the result, and the mask, are like the operand."""
    import torch

    def like(x: Any, *arguments: Any, **named: Any) -> Any:
        return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)

    for name in _OPERATORS:
        operator = getattr(torch.ops.aten, name).default
        if not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "Meta"):
            torch.library.register_fake(f"aten::{name}")(like)
