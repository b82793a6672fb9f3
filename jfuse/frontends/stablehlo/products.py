"""Products, convolutions and transforms of StableHLO."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo.reductions import padding_of
from jfuse.frontends.stablehlo.rules import ModuleReader, reads
from jfuse.frontends.stablehlo.shapes import integers
from jfuse.frontends.stablehlo.values import as_sizes, result_type


@reads("stablehlo.dot_general")
def _dot_general(reader: ModuleReader, op: Any, x: Any, y: Any) -> Any:
    n = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    contracted = tuple(n.lhs_contracting_dimensions), tuple(n.rhs_contracting_dimensions)
    batch = tuple(n.lhs_batching_dimensions), tuple(n.rhs_batching_dimensions)
    return lax.dot_general(x, y, (contracted, batch), preferred_element_type=result_type(op)[1])


@reads("stablehlo.dot")
def _dot(reader: ModuleReader, op: Any, x: Any, y: Any) -> Any:
    return lax.dot_general(x, y, (((len(x.shape) - 1,), (0,)), ((), ())), preferred_element_type=result_type(op)[1])


@reads("stablehlo.convolution", "stablehlo.dynamic_conv")
def _convolution(reader: ModuleReader, op: Any, x: Any, filters: Any, *padding: Any) -> Any:
    n = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    rank = len(x.shape) - 2
    turned = [bool(r) for r in op.attributes["window_reversal"]] if "window_reversal" in op.attributes else []
    if any(turned):
        filters = lax.rev(filters, [a for a, r in zip(n.kernel_spatial_dimensions, turned, strict=True) if r])
    pairs = np.reshape(np.array(as_sizes(padding[0]), object), (rank, 2)).tolist() if padding else padding_of(op, rank)
    return lax.conv_general_dilated(
        x,
        filters,
        integers(op, "window_strides") or [1] * rank,
        [tuple(p) for p in pairs],
        integers(op, "lhs_dilation") or None,
        integers(op, "rhs_dilation") or None,
        lax.ConvDimensionNumbers(
            (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions),
            (n.kernel_output_feature_dimension, n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions),
            (n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions),
        ),
        feature_group_count=int(op.attributes["feature_group_count"]),
        batch_group_count=int(op.attributes["batch_group_count"]),
        preferred_element_type=result_type(op)[1],
    )


_TRANSFORMS = {"FFT": lax.FftType.FFT, "IFFT": lax.FftType.IFFT, "RFFT": lax.FftType.RFFT, "IRFFT": lax.FftType.IRFFT}


@reads("stablehlo.fft")
def _fft(reader: ModuleReader, op: Any, x: Any) -> Any:
    kind = str(op.attributes["fft_type"]).rsplit(maxsplit=1)[-1].rstrip(">")
    return lax.fft(x, _TRANSFORMS[kind], tuple(integers(op, "fft_length")))


@reads("stablehlo.cholesky")
def _cholesky(reader: ModuleReader, op: Any, x: Any) -> Any:
    if not bool(op.attributes["lower"]):
        raise ImportFailed("a Cholesky decomposition of StableHLO to an upper matrix")
    return lax.linalg.cholesky(x)
