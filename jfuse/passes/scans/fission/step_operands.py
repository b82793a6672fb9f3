"""The argument of a `vectorize` rule: an equation of a loop's step, and its operands for all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, same
from jfuse.ir.graph import Eqn, Var
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.lowering.peephole.layout.reshape import constant_shape
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor


@dataclass(frozen=True)
class LoopSteps:
    """The steps of a loop: how many there are, and tensors whose shapes have the open sizes."""

    length: Dim
    sources: tuple[Var, ...]

    def stacked(self, step: TensorType) -> TensorType:
        """The type of all steps of a value."""
        return TensorType((self.length, *step.shape), step.dtype)

    def tensor(self, sizes: Sequence[Dim]) -> Any:
        """Sizes as an operand; raises LowerError where an open one is found in no shape."""
        return shape_tensor(sizes, self.sources)

    def reshaped(self, x: Any, step: Sequence[Dim]) -> Any:
        """A sequence whose steps get another shape."""
        return self._reshape(x, (self.length, *step))

    def merged(self, x: Any) -> Any:
        """A sequence [T, B, …] as rows [T * B, …]."""
        steps, rows, *rest = x.shape
        return self._reshape(x, (steps * rows, *rest))

    def parted(self, x: Any, step: TensorType) -> Any:
        """Rows [T * B, …] as the sequence that they were merged from."""
        return self._reshape(x, (self.length, *step.shape))

    def repeated(self, x: Any) -> Any:
        """The sequence that has x at every step.   x: any[...]"""
        shape = (self.length, *x.shape)
        return ops.broadcast_to(ops.expand_dims(x, 0), self.tensor(shape))

    def _reshape(self, x: Any, shape: Sequence[Dim]) -> Any:
        if all(same(d, e) for d, e in zip(x.shape, shape, strict=False)) and len(x.shape) == len(shape):
            return x
        constant = constant_shape(tuple(shape))
        return ops.reshape(x, self.tensor(shape) if constant is None else constant)


@dataclass(frozen=True)
class LiftedEqn:
    """An equation of a step with operands outside of the loop: sequences at `places`, the same for all steps elsewhere.

    An operand that the op takes by value is the one of the step.
    """

    eqn: Eqn
    operands: tuple[Any, ...]
    places: frozenset[int]
    steps: LoopSteps

    def __getitem__(self, place: int) -> Any:
        return self.operands[place]

    def static(self, place: int) -> Any:
        """The value of an operand that the op takes by value, an int or nested tuples.

        Raises TypeMismatch where data decides it.
        """
        atom = self.eqn.inputs[place]
        value = None if atom is None else static_value(atom)
        if value is None and atom is not None:
            raise TypeMismatch(f"operand {place} of {self.eqn.op.name} is computed at run time", found=str(atom.type))
        return value

    def rank(self, place: int) -> int:
        """The rank of an operand in the step."""
        atom = self.eqn.inputs[place]
        assert atom is not None, "asked for an operand that is there"
        return atom.type.rank

    def again(self, *operands: Any, **options: Any) -> tuple[Any, ...]:
        """The results of the op on other operands, with other options."""
        assert isinstance(self.eqn.op, TflOp), "rules are for builtins"
        results = self.eqn.op(*operands, **{**self.eqn.params, **options})
        return results if isinstance(results, tuple) else (results,)

    def sequence(self, place: int) -> Any:
        """An operand as a sequence, repeated where it is the same for all steps."""
        return self[place] if place in self.places else self.steps.repeated(self[place])


Rule: TypeAlias = Callable[[LiftedEqn], tuple[Any, ...] | None]
"""The results for all steps, along axis 0; None where there is no way to have them."""
