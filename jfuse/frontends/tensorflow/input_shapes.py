"""Shapes that the user gives to inputs: sizes for open dimensions, or all of a shape whose rank is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jfuse.base.errors import ImportFailed, shown
from jfuse.base.option_values import LARGEST_SIZE, need_mapping

Sizes = Sequence[int | None]


@dataclass(frozen=True)
class InputShapes:
    """Shapes by the input's name, None for a dimension that stays as it is.   batch: of all first dimensions left open

    Raises ImportFailed for an invalid size.
    """

    shapes: Mapping[str, Sizes] = field(default_factory=dict)
    batch: int | None = None

    def __post_init__(self) -> None:
        need_mapping("shapes=", self.shapes, '{"x": (1, 49, 40)}')
        for name, shape in self.shapes.items():
            if isinstance(shape, str) or not isinstance(shape, Sequence) or not all(map(_is_size, shape)):
                raise ImportFailed(
                    f"the shape of {name!r} is none", expected="sizes, or None for open ones", found=shown(shape)
                )
        if self.batch is not None and not (_is_size(self.batch) and self.batch > 0):
            raise ImportFailed("batch= is no size", expected="a number from 1 on", found=shown(self.batch))

    def of(self, name: str, declared: Sizes | None) -> Sizes | None:
        """The shape of an input that the source declares so; None where its rank stays unknown.

        Raises ImportFailed where the two do not agree.
        """
        given = self.shapes.get(name)
        shape = declared if given is None else given if declared is None else _merged(name, declared, given)
        if shape and shape[0] is None and self.batch is not None:
            return (self.batch, *shape[1:])
        return shape

    def check_names(self, names: Iterable[str]) -> None:
        """Raise ImportFailed where a shape is of none of the inputs."""
        input_names = list(dict.fromkeys(names))
        for name in self.shapes:
            if name not in input_names:
                raise ImportFailed(f"there is no input {name!r} to give a shape", expected=f"one of {input_names}")


def _merged(name: str, declared: Sizes, given: Sizes) -> Sizes:
    sizes = zip(declared, given, strict=False)
    if len(given) != len(declared) or any(d != g for d, g in sizes if d is not None and g is not None):
        raise ImportFailed(
            f"the input {name!r} cannot have another shape than the source gives it",
            expected=_text(declared),
            found=_text(given),
        )
    return tuple(d if g is None else g for d, g in zip(declared, given, strict=True))


def _is_size(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SIZE)


def _text(shape: Sizes) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"
