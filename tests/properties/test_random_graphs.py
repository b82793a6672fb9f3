"""Random programs of TensorFlow ops: the file in LiteRT and the graph on XLA answer as TensorFlow does.

The suite runs the same few programs every time; `--hypothesis-profile=hunt` looks for new ones.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings

from jfuse.base.errors import ImportFailed, LowerError, TypeMismatch
from tests.properties import forms, forms_control, forms_layers, forms_layout, forms_more
from tests.properties.compare import check
from tests.properties.strategies import IMAGES, programs
from tests.properties.values import RandomProgram

SUITE = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
FEW = settings.get_current_profile_name() != "hunt"
ALL = (*forms.FORMS, *forms_layout.FORMS, *forms_layers.FORMS, *forms_control.FORMS, *forms_more.FORMS)
AROUND = (forms_layout.transpose, forms_layout.reshape, forms_layout.pad, forms.binary, forms.special_unary)


# What may be refused: sizes known at run time only that decide what an op is, and what TensorFlow does not trace.
REFUSALS = re.compile(r"inconclusive|known only at run time|sizes are open|could not be traced")


def check_or_reject(program: RandomProgram, *, xla: bool = True) -> None:
    try:
        check(program, xla=xla)
    except (ImportFailed, LowerError, TypeMismatch) as refusal:
        if not REFUSALS.search(str(refusal)):
            raise
        reject()


@settings(SUITE, max_examples=12)
@given(programs(ALL))
def test_some_programs_of_all_ops(program: RandomProgram) -> None:
    check_or_reject(program)


@pytest.mark.slow
@(SUITE if FEW else settings())
@given(programs(ALL))
def test_programs_of_all_ops(program: RandomProgram) -> None:
    assume(program.steps)
    check_or_reject(program)


@pytest.mark.slow
@(SUITE if FEW else settings())
@given(programs((*forms_layers.MERGED * 2, *AROUND), shapes=IMAGES, dtypes=(np.float32,)))
def test_programs_of_what_merges(program: RandomProgram) -> None:
    """Products, biases, batch norms, activations, and what may stand between them."""
    assume(program.steps)
    check_or_reject(program, xla=False)
