"""Options that select parts of a source and the types of its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.base.option_values import names_of
from jfuse.base.options import given, option, options
from jfuse.frontends.tensorflow.input_shapes import InputShapes, Sizes

_SIZE = re.compile("[0-9]{1,10}")  # int takes the digits of all scripts, and not thousands of them


def _shapes(words: Sequence[str]) -> dict[str, tuple[int | None, ...]] | None:
    """The shapes in words like x=1,49,40 and x=1,?,40; raises ValueError for others."""
    found = {}
    for word in words:
        name, equals, sizes = word.rpartition("=")
        parts = sizes.split(",") if sizes else []
        if not (name and equals and all(part == "?" or _SIZE.fullmatch(part) for part in parts)):
            raise ValueError(f"{word!r} is no shape; write it as x=1,49,40")
        found[name] = tuple(None if part == "?" else int(part) for part in parts)
    return found or None


def _names(words: Sequence[str]) -> tuple[str, ...]:
    """The names in words like a,b."""
    return tuple(name for word in words for name in word.split(",") if name)


@options
class Inputs:
    """The part of a source that is read, and the types of its inputs. Raises ImportFailed for what is none."""

    specs: Any = option(
        "The inputs of a jax function or a PyTorch module.",
        "A sequence by position, or a mapping by name, of `jax.ShapeDtypeStruct`s or arrays, nested as the"
        " function wants them; sizes of `jax.export.symbolic_shape` stay open. A module takes tensors as well,"
        " None for sizes that stay open, and values that are no tensors. For a mapping of functions a mapping of"
        " such.",
        default=None,
        kw_only=False,
        flag="",
    )
    signatures: Sequence[str] | None = option(
        "A signature to convert. Default: all.", default=None, flag="--signature", many=True, metavar="KEY"
    )
    shapes: Mapping[str, Sizes] | None = option(
        "The shape of an input, e.g. x=1,49,40; ? keeps a size.",
        "Sizes for open dimensions by the input's name, None for those that stay open; all of a shape whose rank"
        ' is open: {"x": (1, 49, 40)}.',
        default=None,
        flag="--shape",
        many=True,
        read=_shapes,
        metavar="NAME=SIZES",
    )
    batch: int | None = option("The batch size of every input that leaves it open.", default=None, takes=int, min=1)
    input_tensors: Sequence[str] | None = option(
        "Input tensors of a .pb file, e.g. a,b. Default: its placeholders.",
        default=None,
        many=True,
        read=_names,
        metavar="NAMES",
    )
    output_tensors: Sequence[str] | None = option(
        "Output tensors of a .pb file, e.g. a,b.", default=None, many=True, read=_names, metavar="NAMES"
    )
    input_signature: Sequence[Any] | None = option(
        "tf.TensorSpecs of a tf.function without any, or to fix the sizes of a Keras model or a GraphDef.",
        default=None,
        flag="",
    )
    params: Any = option(
        "The first argument of a jax function, whose arrays become constants of the file.", default=None, flag=""
    )
    mutable: Sequence[str] | bool | None = option(
        "Keys of `params` whose arrays are states from call to call; True: all.",
        "The function returns its results and a mapping of their new values. Of a module of flax.nnx: the types of"
        " variables that do, by default all that it writes.",
        default=None,
        flag="",
    )
    dynamic_shapes: Any = option(
        "Which sizes of a module's tensors stay open, as torch.export.export takes it.", default=None, flag=""
    )
    modules: Sequence[str] = option(
        "A Python module to import first: your layers, your rules.",
        default=(),
        flag="--import",
        many=True,
        metavar="MODULE",
    )
    unsafe: bool = option(
        "Allow SOURCE to run its own code and to read files. Only for authors you trust.",
        "See SECURITY.md.",
        default=False,
    )

    @classmethod
    def of(cls, inputs: Any, **everyday: Any) -> Inputs:
        """The object, or one with what is given as `specs`, with the keywords that are not None in it."""
        return given(cls, "inputs", inputs if isinstance(inputs, cls) else cls(inputs), **everyday)

    @property
    def input_shapes(self) -> InputShapes:
        """The shapes of inputs that are given."""
        return InputShapes({} if self.shapes is None else self.shapes, self.batch)

    def __post_init__(self) -> None:
        for keyword, names in (("input_tensors", self.input_tensors), ("output_tensors", self.output_tensors)):
            if isinstance(names, str):
                raise ImportFailed(f"{keyword}= takes a sequence of names", found=repr(names), remedy=f"[{names!r}]")
        if isinstance(self.signatures, str):
            text = repr(self.signatures)
            raise ImportFailed("signatures= takes a sequence of keys", found=text, remedy=f"[{text}]")
        for keyword in ("signatures", "input_tensors", "output_tensors", "modules"):
            names_of(f"{keyword}=", getattr(self, keyword))
        self.input_shapes  # noqa: B018  # refuses what is no shape
