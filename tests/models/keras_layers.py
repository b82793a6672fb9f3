"""Layers of Keras by themselves, one row each: what to build, on which input, without its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.models.keras_libraries import LIBRARIES, awake

SEQUENCE, IMAGE, VOLUME = (6, 4), (7, 6, 4), (4, 5, 4, 2)

Build = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Row:
    """A layer: `build` takes `keras.layers` (or tf_keras's) and gives the layer, to be called on these inputs.

    libraries: those that have the layer.
    """

    id: str
    build: Build
    shapes: tuple[tuple[int | None, ...], ...]
    dtype: str
    libraries: tuple[str, ...]

    def model(self, library: str) -> Any:
        """The layer as a model with an open batch and random weights."""
        k = LIBRARIES[library]
        inputs = [k.Input(s, dtype=self.dtype, name=f"x{i}") for i, s in enumerate(self.shapes)]
        return awake(k.Model(inputs, self.build(k.layers)(inputs[0] if len(inputs) == 1 else inputs)))


BOTH, THREE = ("keras", "tf_keras"), ("keras",)


def row(
    id_: str, build: Build, *shapes: tuple[int | None, ...], dtype: str = "float32", libraries: tuple[str, ...] = BOTH
) -> Row:
    """One row; inputs are a sequence by default."""
    return Row(id_, build, shapes or (SEQUENCE,), dtype, libraries)


def activation(name: str) -> Build:
    """The activation of that name."""
    return lambda k: k.Activation(name)


def layer(kind: str, **options: Any) -> Build:
    """The layer of that name."""
    return lambda k: getattr(k, kind)(**options)


ACTIVATIONS = [
    *(
        row(f"activation-{name}", activation(name))
        for name in "relu relu6 elu selu softplus softsign sigmoid tanh exponential gelu linear softmax swish".split()
    ),
    *(
        row(f"activation-{name}", activation(name), libraries=THREE)
        for name in (
            "hard_sigmoid hard_silu hard_tanh hard_shrink soft_shrink sparse_plus sparse_sigmoid squareplus celu glu "
            "log_sigmoid log_softmax mish leaky_relu tanh_shrink"
        ).split()
    ),
    row("prelu", lambda k: k.PReLU()),
    row("prelu-shared", lambda k: k.PReLU(shared_axes=[1, 2]), IMAGE),
    row("leaky_relu", lambda k: k.LeakyReLU()),
    row("elu", lambda k: k.ELU(alpha=0.5)),
    row("relu-max", lambda k: k.ReLU(max_value=2.0)),
    row("relu-slope-threshold", lambda k: k.ReLU(max_value=3.0, negative_slope=0.1, threshold=0.5)),
    row("softmax", lambda k: k.Softmax()),
    row("softmax-axis", lambda k: k.Softmax(axis=1)),
    row("softmax-axes", lambda k: k.Softmax(axis=[1, 2]), IMAGE),
]

NORMS = [
    row("batch_normalization", lambda k: k.BatchNormalization()),
    row("batch_normalization-image", lambda k: k.BatchNormalization(), IMAGE),
    row("batch_normalization-axis", lambda k: k.BatchNormalization(axis=1), IMAGE),
    row("batch_normalization-plain", lambda k: k.BatchNormalization(center=False, scale=False), IMAGE),
    row("layer_normalization", lambda k: k.LayerNormalization()),
    row("layer_normalization-axes", lambda k: k.LayerNormalization(axis=[1, 2])),
    row("layer_normalization-image", lambda k: k.LayerNormalization(), IMAGE),
    row("layer_normalization-plain", lambda k: k.LayerNormalization(center=False, scale=False)),
    row("group_normalization", lambda k: k.GroupNormalization(groups=2), IMAGE),
    row("group_normalization-instance", lambda k: k.GroupNormalization(groups=-1), IMAGE),
    row("unit_normalization", lambda k: k.UnitNormalization()),
    row("spectral_normalization", lambda k: k.SpectralNormalization(k.Dense(5)), libraries=THREE),
    row("rms_normalization", lambda k: k.RMSNormalization(), libraries=THREE),
    row("normalization", lambda k: k.Normalization(mean=[1.0, 2.0, 0.0, -1.0], variance=[0.5, 1.0, 2.0, 4.0])),
]

DENSE = [
    row("dense", lambda k: k.Dense(5, activation="relu"), (4,)),
    row("dense-rank_3", lambda k: k.Dense(5, activation="gelu")),
    row("dense-rank_4", lambda k: k.Dense(5, use_bias=False), IMAGE),
    row("einsum_dense", lambda k: k.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d")),
    row("einsum_dense-heads", lambda k: k.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")),
    row("time_distributed", lambda k: k.TimeDistributed(k.Dense(5, activation="tanh"))),
    row("embedding", lambda k: k.Embedding(10, 5), (6,), dtype="int32"),
    row("flatten", lambda k: k.Flatten(), IMAGE),
    row("flatten-scalar", lambda k: k.Flatten(), ()),
    row("reshape", lambda k: k.Reshape((3, -1))),
    row("permute", lambda k: k.Permute((3, 1, 2)), IMAGE),
    row("repeat_vector", lambda k: k.RepeatVector(3), (4,)),
    row("masking", lambda k: k.Masking(0.0)),
    row("rescaling", lambda k: k.Rescaling(1 / 127.5, offset=-1.0), IMAGE),
    row("dropout", lambda k: k.Dropout(0.5)),
    row("gaussian_noise", lambda k: k.GaussianNoise(0.5)),
    row("activity_regularization", lambda k: k.ActivityRegularization(0.1)),
    row("lambda", lambda k: k.Lambda(lambda x: x * 2 + 1)),
]

CONVOLUTIONS = [
    *(
        row(
            f"conv_1d-{padding}-{stride}-{dilation}",
            layer("Conv1D", filters=5, kernel_size=3, strides=stride, padding=padding, dilation_rate=dilation),
        )
        for padding, stride, dilation in [
            ("same", 1, 1),
            ("valid", 2, 1),
            ("causal", 1, 1),
            ("causal", 1, 2),
            ("causal", 2, 1),
            ("same", 1, 3),
        ]
    ),
    row("conv_1d-groups", lambda k: k.Conv1D(6, 3, groups=2, padding="same")),
    row("conv_2d", lambda k: k.Conv2D(5, 3, strides=2, padding="same", activation="relu"), IMAGE),
    row("conv_2d-valid-rectangle", lambda k: k.Conv2D(5, (2, 3), strides=(1, 2)), IMAGE),
    row("conv_2d-dilated", lambda k: k.Conv2D(5, 3, dilation_rate=2, padding="same"), IMAGE),
    row("conv_2d-groups", lambda k: k.Conv2D(6, 3, groups=2), IMAGE),
    row("conv_2d-open_sizes", lambda k: k.Conv2D(5, 3, padding="same"), (None, None, 4)),
    row("conv_1d-open_length", lambda k: k.Conv1D(5, 3, strides=2, padding="same"), (None, 4)),
    row("conv_1d-causal-open_length", lambda k: k.Conv1D(5, 3, dilation_rate=2, padding="causal"), (None, 4)),
    row("conv_2d_transpose-open_sizes", lambda k: k.Conv2DTranspose(5, 3, strides=2), (None, None, 4)),
    row(
        "depthwise_conv_2d-strides-dilated",
        lambda k: k.DepthwiseConv2D(3, strides=2, dilation_rate=2, padding="same"),
        IMAGE,
        libraries=THREE,
    ),
    row("conv_3d", lambda k: k.Conv3D(3, 2, strides=(1, 2, 1), padding="same"), VOLUME),
    row("conv_1d_transpose", lambda k: k.Conv1DTranspose(5, 3, strides=2, padding="same")),
    row("conv_1d_transpose-valid", lambda k: k.Conv1DTranspose(5, 3, strides=2)),
    row("conv_2d_transpose", lambda k: k.Conv2DTranspose(5, 3, strides=2, padding="same"), IMAGE),
    row("conv_2d_transpose-valid", lambda k: k.Conv2DTranspose(5, (2, 3), strides=(2, 1), activation="relu"), IMAGE),
    row(
        "conv_2d_transpose-output_padding",
        lambda k: k.Conv2DTranspose(5, 3, strides=2, padding="same", output_padding=1),
        IMAGE,
    ),
    row("conv_3d_transpose", lambda k: k.Conv3DTranspose(3, 2, strides=2, padding="same"), VOLUME),
    row("depthwise_conv_1d", lambda k: k.DepthwiseConv1D(3, depth_multiplier=2, padding="same")),
    row("depthwise_conv_2d", lambda k: k.DepthwiseConv2D(3, depth_multiplier=2, activation="relu6"), IMAGE),
    row("depthwise_conv_2d-strides", lambda k: k.DepthwiseConv2D(3, strides=2, padding="same"), IMAGE),
    row("depthwise_conv_2d-dilated", lambda k: k.DepthwiseConv2D(3, dilation_rate=2, padding="same"), IMAGE),
    row("separable_conv_1d", lambda k: k.SeparableConv1D(5, 3, padding="same")),
    row("separable_conv_2d", lambda k: k.SeparableConv2D(5, 3, depth_multiplier=2, activation="relu"), IMAGE),
]

POOLS = [
    *(
        row(
            f"{kind.lower()}_pooling_{rank}d-{padding}",
            layer(f"{kind}Pooling{rank}D", pool_size=2, padding=padding),
            shape,
        )
        for kind in ("Max", "Average")
        for rank, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME))
        for padding in ("valid", "same")
    ),
    row("max_pooling_2d-overlapping", lambda k: k.MaxPooling2D(3, strides=(1, 2), padding="same"), IMAGE),
    *(
        row(f"global_{kind.lower()}_pooling_{rank}d", layer(f"Global{kind}Pooling{rank}D"), shape)
        for kind in ("Max", "Average")
        for rank, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME))
    ),
    row("global_average_pooling_2d-keepdims", lambda k: k.GlobalAveragePooling2D(keepdims=True), IMAGE),
    row("global_average_pooling_1d-open", lambda k: k.GlobalAveragePooling1D(), (None, 4)),
    row("adaptive_average_pooling_2d", lambda k: k.AdaptiveAveragePooling2D((3, 2)), IMAGE, libraries=THREE),
    row("adaptive_max_pooling_2d", lambda k: k.AdaptiveMaxPooling2D((3, 2)), IMAGE, libraries=THREE),
]

SIZES = [
    row("cropping_1d", lambda k: k.Cropping1D((1, 2))),
    row("cropping_2d", lambda k: k.Cropping2D(((1, 0), (2, 1))), IMAGE),
    row("cropping_3d", lambda k: k.Cropping3D(1), VOLUME),
    row("zero_padding_1d", lambda k: k.ZeroPadding1D((1, 2))),
    row("zero_padding_2d", lambda k: k.ZeroPadding2D(((1, 0), (2, 1))), IMAGE),
    row("zero_padding_3d", lambda k: k.ZeroPadding3D(1), VOLUME),
    row("up_sampling_1d", lambda k: k.UpSampling1D(3)),
    row("up_sampling_2d", lambda k: k.UpSampling2D((2, 3)), IMAGE),
    row("up_sampling_2d-bilinear", lambda k: k.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    row("up_sampling_3d", lambda k: k.UpSampling3D(2), VOLUME),
    row("resizing", lambda k: k.Resizing(9, 4), IMAGE),
    row("resizing-nearest", lambda k: k.Resizing(9, 4, interpolation="nearest"), IMAGE),
    row("resizing-bicubic", lambda k: k.Resizing(9, 4, interpolation="bicubic"), IMAGE),
    row("resizing-crop", lambda k: k.Resizing(4, 4, crop_to_aspect_ratio=True), IMAGE),
    row("center_crop", lambda k: k.CenterCrop(4, 3), IMAGE),
]

MERGES = [
    *(
        row(kind.lower(), layer(kind), SEQUENCE, SEQUENCE)
        for kind in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")
    ),
    row("add-three", lambda k: k.Add(), SEQUENCE, SEQUENCE, SEQUENCE),
    row("add-broadcast", lambda k: k.Add(), SEQUENCE, (6, 1)),
    row("concatenate", lambda k: k.Concatenate(), SEQUENCE, (6, 3)),
    row("concatenate-axis", lambda k: k.Concatenate(axis=1), SEQUENCE, (2, 4)),
    row("dot", lambda k: k.Dot(axes=1), (4,), (4,)),
    row("dot-normalized", lambda k: k.Dot(axes=1, normalize=True), (4,), (4,)),
    row("dot-axes", lambda k: k.Dot(axes=(2, 1)), SEQUENCE, (4, 3)),
]

PREPROCESSING = [
    row("category_encoding-one_hot", lambda k: k.CategoryEncoding(10, output_mode="one_hot"), (1,), dtype="int32"),
    row("category_encoding-multi_hot", lambda k: k.CategoryEncoding(10, output_mode="multi_hot"), (6,), dtype="int32"),
    row("category_encoding-count", lambda k: k.CategoryEncoding(10, output_mode="count"), (6,), dtype="int32"),
    row("discretization", lambda k: k.Discretization(bin_boundaries=[-1.0, 0.0, 0.5])),
    row(
        "discretization-one_hot",
        lambda k: k.Discretization(bin_boundaries=[-1.0, 0.0, 0.5], output_mode="one_hot"),
        (1,),
    ),
    row("integer_lookup", lambda k: k.IntegerLookup(vocabulary=[3, 1, 8]), (6,), dtype="int64"),
    row("random_flip", lambda k: k.RandomFlip(), IMAGE),
    row("random_rotation", lambda k: k.RandomRotation(0.2), IMAGE),
]


class Attention:
    """Layers with two inputs that name them: called on a list."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def __call__(self, inputs: Any) -> Any:
        """Query and value."""
        return self.layer(*inputs)


ATTENTION = [
    row("attention", lambda k: k.Attention(), SEQUENCE, (5, 4)),
    row("attention-scale", lambda k: k.Attention(use_scale=True), SEQUENCE, (5, 4)),
    row("additive_attention", lambda k: k.AdditiveAttention(), SEQUENCE, (5, 4)),
    row("multi_head_attention", lambda k: Attention(k.MultiHeadAttention(2, 3)), SEQUENCE, (5, 4)),
    row(
        "multi_head_attention-value_dim",
        lambda k: Attention(k.MultiHeadAttention(2, 3, value_dim=5, output_shape=6)),
        SEQUENCE,
        (None, 4),
    ),
    row(
        "group_query_attention",
        lambda k: Attention(k.GroupQueryAttention(3, 4, 2)),
        SEQUENCE,
        (5, 4),
        libraries=THREE,
    ),
]

ROWS: list[Row] = [
    *ACTIVATIONS,
    *NORMS,
    *DENSE,
    *CONVOLUTIONS,
    *POOLS,
    *SIZES,
    *MERGES,
    *PREPROCESSING,
    *ATTENTION,
]
