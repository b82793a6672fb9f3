"""Random graphs of the ops of every rule: whatever their operands are, only JfuseErrors leave the public functions.

Each graph takes rows of tests/op_cases and changes what jfuse may rely on: which operands are constants, inputs or
variables, and which sizes are open. Most such graphs convert, some are refused; none is a fault of jfuse.
`JFUSE_FUZZ=20000` tries as many instead of the suite's few.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir import constants_of
from tests.lowering.test_op_cases import ROWS
from tests.op_cases.case import Case
from tests.op_cases.oracle import apply_op, tensor_of
from tests.slow import slow_but

COUNT = int(os.environ.get("JFUSE_FUZZ", "0"))
SHARDS = 8
PER_SHARD = max(25, COUNT // SHARDS)
VERIFIED = 0.1  # the share of what converts that is compared as well


class Mutant(tf.Module):
    """A row whose operands are constants, inputs with some open sizes, or variables that the call writes back."""

    def __init__(self, row: Case, rng: random.Random) -> None:
        super().__init__()
        self.row = row
        self.kinds = [rng.choice(("constant", "input", "input", "input", "variable")) for _ in row.arrays]
        is_text = [a.dtype == object for a in row.arrays]
        self.kinds = ["input" if t and k == "variable" else k for k, t in zip(self.kinds, is_text, strict=True)]
        arrays = [(k, tensor_of(a)) for k, a in zip(self.kinds, row.arrays, strict=True)]
        self.variables_ = [tf.Variable(t) for kind, t in arrays if kind == "variable"]
        self.constants = [t.numpy() for kind, t in arrays if kind == "constant"]
        opened = rng.choice((0.0, 0.3, 1.0))
        self.specs = [
            tf.TensorSpec([None if rng.random() < opened else d for d in t.shape], t.dtype)
            for kind, t in arrays
            if kind == "input"
        ]

    def call(self, *inputs: Any) -> Any:
        """The op; what is in a variable is written back, a step later."""
        given = {"input": iter(inputs), "variable": iter(self.variables_), "constant": iter(self.constants)}
        operands = [tf.convert_to_tensor(next(given[kind])) for kind in self.kinds]
        results = apply_op(self.row, operands)
        for variable in self.variables_:
            if variable.shape.rank and variable.dtype != tf.bool:
                variable.assign(tf.concat([variable[1:], variable[:1]], 0))
        return {f"y{i}": tf.identity(r) for i, r in enumerate(results)}


@pytest.mark.parametrize("shard", slow_but(lambda shard: shard < SHARDS // 2, range(SHARDS)))
def test_only_jfuse_errors_leave_the_public_functions(shard: int) -> None:
    rng = random.Random(shard)
    rows = [row for row in ROWS if not row.compiled]
    faults: dict[str, str] = {}
    converted = 0
    for row in rng.sample(rows, min(PER_SHARD, len(rows))):
        mutant = Mutant(row, rng)
        described = f"{row.id} {mutant.kinds} {[list(s.shape) for s in mutant.specs]}"
        try:
            function = tf.function(mutant.call, input_signature=mutant.specs, autograph=False).get_concrete_function()
        except Exception:  # TensorFlow says what it does not take as it likes
            continue
        try:
            _convert(function, verify=rng.random() < VERIFIED)
            converted += 1
        except jfuse.InternalError as error:
            faults[described] = str(error)
        except jfuse.JfuseError:
            continue
        except Exception as error:
            faults[described] = f"{type(error).__name__}: {error}"
    assert not faults, "\n".join(f"{k}\n  {v}" for k, v in faults.items())
    assert converted > PER_SHARD // 4


def _convert(function: Any, *, verify: bool) -> None:
    model = jfuse.load(function)
    text = str(model)
    parsed = jfuse.parse(text, consts=constants_of(model.program))
    assert str(parsed) == text
    lite = jfuse.convert(function, verify=verify)
    assert str(jfuse.parse(str(lite), consts=constants_of(lite.program))) == str(lite)
    inputs = [
        np.zeros([int(d) if isinstance(d, int) else 2 for d in v.type.shape], v.type.dtype.numpy)
        for v in lite.signature().graph.inputs[: len(lite.signature().input_names)]
    ]
    if all(a.dtype != object for a in inputs) and verify:
        lite(*inputs)
