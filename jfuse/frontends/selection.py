"""Options that select parts of a source; `jfuse.load` documents them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.base.option_values import names_of
from jfuse.frontends.tensorflow.input_shapes import InputShapes, Sizes


@dataclass(frozen=True)
class Selection:
    """The functions to read, the types of their inputs, and the tensors of a GraphDef between which they stand.

    specs, params, mutable: arguments of a jax function. specs, dynamic_shapes: of a module of PyTorch.

    Raises ImportFailed where one name is given instead of a sequence of names.
    """

    signatures: Sequence[str] | None = None
    input_signature: Sequence[Any] | None = None
    input_tensors: Sequence[str] | None = None
    output_tensors: Sequence[str] | None = None
    shapes: Mapping[str, Sizes] | None = None
    batch: int | None = None
    specs: Any = None
    params: Any = None
    dynamic_shapes: Any = None
    mutable: Any = None

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
        for keyword in ("signatures", "input_tensors", "output_tensors"):
            names_of(f"{keyword}=", getattr(self, keyword))
        self.input_shapes  # noqa: B018  # refuses what is no shape
