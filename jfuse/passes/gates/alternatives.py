"""Remedies for TensorFlow ops that have no TFLite spelling: one sentence for each kind of op."""

from __future__ import annotations

import re

_BY_NAME: tuple[tuple[str, str], ...] = (
    (r"Decode\w+|Encode\w+|ParseExample\w*|ParseS\w+|ReadFile|WriteFile", "do it before the model: feed the tensor"),
    (r"Iterator\w*|\w*Dataset\w*", "export a function that takes tensors, not one that reads a data set"),
    (r"String\w+|Regex\w+|StaticRegex\w+|Unicode\w+|AsString|ReduceJoin|Substr", "do text work before the model"),
    (r"(Stateful|Stateless)?(Random|Truncated|Parameterized)\w*|Multinomial|StatelessMultinomial|RngSkip|RngReadAndSkip",
     "make the random numbers an input; where they are a dropout's, export with training=False"),
    (r"(Resource)?(Sparse)?Apply\w+|\w+Grad(V\d)?|\w+Backprop(Filter|Input)(V\d)?|SymbolicGradient",
     "this is a step of training: export the function that infers"),
    (r"Sparse\w+|SerializeSparse|DeserializeSparse", "work on dense tensors (tf.sparse.to_dense before the model)"),
    (r"Ragged\w+", "work on padded tensors (to_tensor() before the model)"),
    (r"(Eager)?PyFunc(Stateless)?", "Python code cannot be in a file: write it with TensorFlow ops"),
    (r"Xla\w+|\w*TPU\w*", "export the function for the CPU, without jit_compile"),
    (r"Svd|Qr|Lu|Eig|SelfAdjointEig\w*|Cholesky|Matrix(Inverse|Determinant|Solve\w*|TriangularSolve|Logarithm|SquareRoot)"
     r"|BatchMatrix\w+|LogMatrixDeterminant",
     "where its operands do not depend on inputs, compute it once and keep the result in a variable or constant"),
    (r"TensorList\w+|TensorArray\w+", "give the TensorArray its size and element_shape"),
    (r"Variable|VariableV2|Assign|AssignAdd|AssignSub|RefSwitch|RefEnter", "save the model with resource variables"),
    (r"\w*(Queue|Stack|Barrier|Summary|Summaries)\w*", "leave it out of the exported function"),
)  # fmt: skip
_PATTERNS = tuple((re.compile(names), advice) for names, advice in _BY_NAME)


def alternative_to(op: str) -> str:
    """Look up the remedy for a TensorFlow op; "" without one."""
    return next((advice for names, advice in _PATTERNS if names.fullmatch(op)), "")
