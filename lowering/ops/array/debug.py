"""Ops that watch values and let them pass: they mean nothing in a file."""

from __future__ import annotations

from jfuse.kernels.core.op import Array
from jfuse.lowering.rules import lowers


@lowers("Print")
def lower_print(x: Array, *data: Array, message: str = "", first_n: int = -1, summarize: int = 3) -> Array:
    """The first operand; nothing is printed."""
    return x


@lowers("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3")
def lower_debug_identity(
    x: Array,
    *,
    device_name: str = "",
    tensor_name: str = "",
    io_of_node: str = "",
    is_input: bool = False,
    io_index: int = -1,
    debug_urls: tuple[str, ...] = (),
    gated_grpc: bool = False,
    tfdbg_context_id: str = "",
    op_name: str = "",
    output_slot: int = -1,
    tensor_debug_mode: int = -1,
    circular_buffer_size: int = 1000,
    tfdbg_run_id: str = "",
) -> Array:
    """The operand; gradients and debuggers mean nothing here."""
    return x
