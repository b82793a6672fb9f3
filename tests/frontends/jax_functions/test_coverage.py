"""Every primitive of jax.lax stands in a row that LiteRT runs, or is said to have no spelling."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import pytest
from jax import lax
from jax.extend import core as jax_core

from jfuse.frontends.jaxprs.parts import bodies
from tests.frontends.jax_functions.test_primitives import FAMILIES

PAGE = Path(__file__).parents[3] / "docs" / "jax.md"


def said_to_have_none() -> set[str]:
    """The names in the table of docs/jax.md."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}


def in_rows() -> set[str]:
    """The primitives of the functions that LiteRT runs in tests."""
    found = set()
    for family in FAMILIES.values():
        for _, function, specs in family:
            pending = [jax.jit(function).trace(*specs).jaxpr.jaxpr]
            while pending:
                for eqn in pending.pop().eqns:
                    found.add(eqn.primitive.name)
                    pending += bodies(eqn)
    return found


@pytest.mark.slow
def test_all_primitives_are_run_or_said_to_have_no_spelling() -> None:
    public = (v for module in (lax, lax.linalg) for v in vars(module).values())
    primitives = {v.name for v in public if isinstance(v, jax_core.Primitive)}
    run, none = in_rows(), said_to_have_none()
    assert not run & none
    assert primitives - run == none & primitives
