"""PyTorch's tensors as NumPy arrays of the same memory, arrays as tensors, and PyTorch's element types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.ir.types import DType


def array_of(tensor: Any) -> np.ndarray:
    """A tensor as an array, of its memory where it is on the CPU."""
    import torch

    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(plain.numpy())


def tensor_of(array: Any) -> Any:
    """An array as a tensor of its own memory."""
    import torch

    held = np.array(array, order="C")
    if held.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(held.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(held)


def dtype_of(kind: Any, name: str = "a tensor") -> DType:
    """The element type of PyTorch's dtype; raises ImportFailed, naming the tensor, where TFLite has none."""
    import torch

    try:
        return DType.of(array_of(torch.empty(0, dtype=kind)).dtype)
    except (TypeError, KeyError, RuntimeError) as error:
        raise ImportFailed(f"{name} is of a type that TFLite lacks", found=str(kind)) from error


def torch_dtype(kind: Any) -> Any:
    """PyTorch's dtype of a NumPy dtype, or of one of its own."""
    import torch

    return kind if isinstance(kind, torch.dtype) else tensor_of(np.empty(0, np.dtype(kind))).dtype
