"""Attention of several heads as PyTorch computes it, with fewer moves of axes than its own spelling has."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


@contextmanager
def attention_by_heads() -> Iterator[None]:
    """Within the `with` torch.nn.MultiheadAttention moves axes four times: for queries, keys, values and the result."""
    from torch.nn import MultiheadAttention, functional

    original, forward = functional.multi_head_attention_forward, MultiheadAttention.forward
    caller: list[bool] = [False]  # whether it was given f[b, t, e], and turns what it gives the function

    @wraps(forward)
    def noting(self: Any, *args: Any, **options: Any) -> Any:
        caller[0] = self.batch_first
        return forward(self, *args, **options)

    @wraps(original)
    def attention(*args: Any, **options: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **options)
        bound.apply_defaults()
        if _is_known(bound.arguments):
            return _computed(bound.arguments, caller[0])
        return original(*args, **options)

    functional.multi_head_attention_forward, MultiheadAttention.forward = attention, noting
    try:
        yield
    finally:
        functional.multi_head_attention_forward, MultiheadAttention.forward = original, forward


def _is_known(given: dict[str, Any]) -> bool:
    """Whether attention is of a form that is computed here; PyTorch computes all others as it does."""
    others = ("bias_k", "bias_v", "static_k", "static_v")
    plain = all(given[name] is None for name in others) and not given["add_zero_attn"] and given["query"].dim() == 3
    return plain and not given["training"] and not (given["is_causal"] and given["attn_mask"] is None)


def _computed(given: dict[str, Any], batch_first: bool) -> tuple[Any, Any]:
    """The results and weights of attention.   query, key, value: f[t, b, e]"""
    from torch.nn import functional

    heads = given["num_heads"]
    q, k, v = (_by_heads(part, heads, batch_first) for part in _projected(given, batch_first))
    is_causal, mask = _mask(given, q, k)
    if given["need_weights"]:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        weights = functional.softmax(scores if mask is None else scores + mask, dim=-1)
        attended = weights @ v
        weights = weights.mean(dim=1) if given["average_attn_weights"] else weights
    else:
        attended, weights = functional.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal), None
    rows = (attended.transpose(1, 2) if batch_first else attended.permute(2, 0, 1, 3)).flatten(2)
    results = functional.linear(rows, given["out_proj_weight"], given["out_proj_bias"])
    return results.transpose(0, 1) if batch_first else results, weights


def _projected(given: dict[str, Any], batch_first: bool) -> list[Any]:
    """Queries, keys and values, f[b, t, e] or f[t, b, e], in as few products as their operands are tensors."""
    from torch.nn.functional import linear

    operands = [given["query"], given["key"], given["value"]]
    rows = [x.transpose(0, 1) if batch_first else x for x in operands]
    bias = given["in_proj_bias"]
    biases = [None] * 3 if bias is None else bias.chunk(3)
    if given["use_separate_proj_weight"]:
        weights = [given[f"{name}_proj_weight"] for name in "qkv"]
        return [linear(x, w, b) for x, w, b in zip(rows, weights, biases, strict=True)]
    weight, size = given["in_proj_weight"], given["query"].shape[-1]
    if operands[0] is operands[1] is operands[2]:
        return list(linear(rows[0], weight, bias).chunk(3, -1))
    first = linear(rows[0], weight[:size], biases[0])
    if operands[1] is operands[2]:
        both = linear(rows[1], weight[size:], None if bias is None else bias[size:])
        return [first, *both.chunk(2, -1)]
    weights = weight.chunk(3)
    return [first, *(linear(rows[i], weights[i], biases[i]) for i in (1, 2))]


def _by_heads(x: Any, heads: int, batch_first: bool) -> Any:
    """f[b, t, heads * d] or f[t, b, heads * d] -> f[b, heads, t, d]"""
    parts = x.unflatten(-1, (heads, x.shape[-1] // heads))
    return parts.transpose(1, 2) if batch_first else parts.permute(1, 2, 0, 3)


def _mask(given: dict[str, Any], q: Any, k: Any) -> tuple[bool, Any]:
    """Whether only earlier steps count, and otherwise the mask that is added to scores f[b, heads, t, s]."""
    from torch.nn.functional import _canonical_mask

    def added(name: str) -> Any:
        return _canonical_mask(
            mask=given[name], mask_name=name, other_type=None, other_name="", target_type=q.dtype, check_other=False
        )

    mask, padding = given["attn_mask"], added("key_padding_mask")
    if given["is_causal"] and padding is None and not given["need_weights"]:
        return True, None
    mask = added("attn_mask")
    if mask is not None and mask.dim() == 3:
        mask = mask.view(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    if padding is not None:
        column = padding[:, None, None]
        mask = column if mask is None else mask + column
    return False, mask
