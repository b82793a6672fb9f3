"""Operands and results of equations: `Var`, computed at run time, and `Const`, known before, an array to NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jfuse.ir.quantization import Quantization, array_digest
from jfuse.ir.types import DType, TensorType

_PLAIN = (np.ndarray, np.generic, int, float)


def _operator(ufunc: np.ufunc) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The operator of a ufunc, with the array as its left and as its right operand."""
    return lambda self, other: ufunc(self.array, other), lambda self, other: ufunc(other, self.array)


class ArrayLike:
    """A value with an `array`: operators, indexing and NumPy functions work on that array and give plain arrays.

    Two such values are equal where they are one object, and the hash is the object's, as graphs hold them in
    dictionaries; with numbers and arrays `==` compares each element. Truth is that of the only element, as in NumPy:
    ask `is None` whether there is a value.
    """

    if TYPE_CHECKING:  # a field of Const and a property of SparseConst

        @property
        def array(self) -> np.ndarray:
            """The elements."""

    else:  # type checkers would no longer tell Var from Const by `atom in variables`

        def __eq__(self, other: Any) -> Any:
            return self.array == other if isinstance(other, _PLAIN) else self is other

        def __ne__(self, other: Any) -> Any:
            return self.array != other if isinstance(other, _PLAIN) else self is not other

        __hash__ = object.__hash__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype, copy=copy)

    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.true_divide)
    __floordiv__, __rfloordiv__ = _operator(np.floor_divide)
    __mod__, __rmod__ = _operator(np.remainder)
    __pow__, __rpow__ = _operator(np.power)
    __matmul__, __rmatmul__ = _operator(np.matmul)
    __lt__, __gt__ = _operator(np.less)
    __le__, __ge__ = _operator(np.less_equal)

    def __neg__(self) -> Any:
        return -self.array

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise TypeError(
                f"the truth of {self!r}, which has {self.array.size} elements, is ambiguous: ask `is None`, `.size`, "
                "np.any or np.all"
            )
        return bool(self.array)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __float__(self) -> float:
        return float(self.array)

    @property
    def T(self) -> np.ndarray:
        """The array with its axes in the opposite order."""
        return self.array.T

    @property
    def size(self) -> int:
        """The number of elements, an int: 1 for a scalar."""
        return int(self.array.size)

    def astype(self, dtype: Any, copy: bool = True) -> np.ndarray:
        """A plain array of the elements in another dtype, converted as NumPy does."""
        return self.array.astype(dtype, copy=copy)

    def reshape(self, *shape: Any) -> np.ndarray:
        """A plain array of the same elements in another shape."""
        return self.array.reshape(*shape)

    def ravel(self) -> np.ndarray:
        """A plain array of the elements as a vector, in row-major order."""
        return self.array.ravel()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.array.tolist()

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.array.item()


@dataclass(frozen=True, eq=False)
class Var:
    """A tensor computed at run time. Compared by identity; `name` and `value` are not part of the program's text.

    `value` is what is already known of an integer tensor: an object array of ints and symbolic dimensions.
    """

    type: TensorType
    name: str | None = None
    value: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"Var({self.type})"

    # For type checkers and rule authors a Var is an array, as jax's tracers are.
    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape, with symbolic dimensions where a size is known only at run time."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type as NumPy has it, for code written for arrays."""
        return self.type.dtype.numpy

    @property
    def ndim(self) -> int:
        """The number of dimensions, which is always known."""
        return self.type.rank


@dataclass(frozen=True, eq=False)
class Const(ArrayLike):
    """A tensor whose value is known: a NumPy array, possibly memory-mapped or borrowed, never copied or written.

    Rules and NumPy take it as they take the array; it is compared by identity.
    """

    array: np.ndarray
    name: str | None = None
    quantization: Quantization | None = None

    def __repr__(self) -> str:
        return f"Const({self.type})"

    @cached_property
    def type(self) -> TensorType:
        """Shape, dtype and quantization of the array."""
        return TensorType(self.array.shape, DType.of(self.array.dtype), self.quantization)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions, all of them ints."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type as NumPy has it, for code written for arrays."""
        return self.type.dtype.numpy

    @property
    def ndim(self) -> int:
        """The number of dimensions; 0 for a scalar."""
        return self.type.rank

    @property
    def stored(self) -> np.ndarray:
        """The elements that a file holds."""
        return self.array

    @property
    def memory(self) -> int:
        """Where the array begins: the same for two views of one, as weights and their transpose are."""
        return int(self.array.__array_interface__["data"][0])

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits that depend on dtype, shape and contents."""
        return array_digest(str(replace(self.type, quantization=None)), self.array)


Atom: TypeAlias = Var | Const


def arrays_of(values: Sequence[Any]) -> list[Any]:
    """Values with the arrays of Consts in their place, to compute with."""
    return [value.array if isinstance(value, Const) else value for value in values]
