"""What ops declare of themselves (`linear`, `elementwise`, `moves`) holds for every equation that the rows record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Const, Eqn
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import TflOp, depends_on_data
from tests.op_cases import FAMILIES
from tests.op_cases.runners import graph_of

LOOKED_AT = 12
"""Elements of a result, at most, that are computed one by one: of the first, the last and those between."""


@cache
def equations(family: str) -> dict[str, Eqn]:
    """One equation of each op for each choice of options and operand types, under a readable name."""
    found: dict[str, Eqn] = {}
    for row in FAMILIES[family]:
        for eqn in all_eqns(graph_of(row)):
            if isinstance(eqn.op, TflOp) and not depends_on_data(eqn) and _is_static(eqn):
                operands = ",".join("-" if a is None else str(a.type) for a in eqn.inputs)
                options = "".join(f"-{k}={v}" for k, v in eqn.params.items() if v != eqn.op.options[k].default)
                found.setdefault(f"{eqn.op.name}-{operands}{options}", eqn)
    return found


def _is_static(eqn: Eqn) -> bool:
    return all(a is None or a.type.is_static for a in (*eqn.inputs, *eqn.outputs))


def linear_equations(family: str) -> dict[str, Eqn]:
    """Those that say they are linear, between floats."""
    groups = {name: _linear_places(eqn) for name, eqn in equations(family).items()}
    return {n: e for n, e in equations(family).items() if groups[n] and all(_is_float(e, g) for g in groups[n])}


def elementwise_equations(family: str) -> dict[str, Eqn]:
    """Those of elementwise ops that have elements. SELECT with a vector takes whole slices."""
    return {
        n: e
        for n, e in equations(family).items()
        if isinstance(e.op, TflOp) and e.op.elementwise and e.op.name != "select" and 0 not in e.outputs[0].type.shape
    }


def _data_places(eqn: Eqn) -> list[int]:
    """Where the operands are that carry data, not shapes or axes."""
    declared = [eqn.op.operand_at(i) for i in range(len(eqn.inputs))]
    return [i for i, d in enumerate(declared) if eqn.inputs[i] is not None and not (d.static or d.shape_only)]


def _is_float(eqn: Eqn, places: list[int]) -> bool:
    atoms = [*(eqn.inputs[i] for i in places), *eqn.outputs]
    return all(a is not None and a.type.dtype is DType.f32 for a in atoms)


def _linear_places(eqn: Eqn) -> list[list[int]]:
    """The groups of operands in which the equation says that it is linear."""
    places = _data_places(eqn)
    linear = getattr(eqn.op, "linear", None)
    if linear == "each":
        return [[i] for i in places if i not in _bias_places(eqn)]
    return {"joint": [places], "first": [places[:1]]}.get(linear or "", [])


def _bias_places(eqn: Eqn) -> list[int]:
    """Operands that are added, and so are zeros here: what is linear in the others is affine with them."""
    assert isinstance(eqn.op, TflOp)
    return [i for i in _data_places(eqn) if eqn.op.operand_at(i).name == "bias"]


def _run(eqn: Eqn, values: list[Any]) -> list[np.ndarray]:
    return [np.asarray(r) for r in eqn.op.run(values, eqn.params, ())]


def _operands(eqn: Eqn, rng: np.random.Generator) -> list[Any]:
    """Constants as they are, except that floats are drawn anew in double; variables drawn."""
    values: list[Any] = []
    for i, atom in enumerate(eqn.inputs):
        if atom is None:
            values.append(None)
        elif atom.type.dtype is DType.f32 and i in _data_places(eqn):
            drawn = rng.uniform(0.5, 2, atom.type.shape)
            values.append(np.zeros_like(drawn) if i in _bias_places(eqn) else drawn)
        elif isinstance(atom, Const):
            values.append(atom.array)
        else:
            values.append(np.zeros(atom.type.shape, atom.type.dtype.numpy))
    return values


def first_of_each_op(family: str) -> dict[str, Eqn]:
    """One of the linear equations of each op."""
    found: dict[str, tuple[str, Eqn]] = {}
    for name, eqn in linear_equations(family).items():
        found.setdefault(eqn.op.name, (name, eqn))
    return dict(found.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_linear_ops_are_linear(family: str) -> None:
    check_linear(first_of_each_op(family))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_linear_ops_are_linear_with_every_option(family: str) -> None:
    check_linear({n: e for n, e in linear_equations(family).items() if n not in first_of_each_op(family)})


def check_linear(equations: Mapping[str, Eqn]) -> None:
    """f(x + 3 y) = f(x) + 3 f(y) in each group of operands, the others alike."""
    rng = np.random.default_rng(0)
    for name, eqn in equations.items():
        first, second = _operands(eqn, rng), _operands(eqn, rng)
        for group in _linear_places(eqn):
            other = [second[i] if i in group else v for i, v in enumerate(first)]
            both = [v + 3 * second[i] if i in group else v for i, v in enumerate(first)]
            for x, y, z in zip(_run(eqn, first), _run(eqn, other), _run(eqn, both), strict=True):
                # 1e-12: in double, sums of at most a few hundred terms, some of which cancel: the operands are below 8.
                np.testing.assert_allclose(z, x + 3 * y, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_elementwise_ops_look_at_one_place(family: str) -> None:
    for name, eqn in elementwise_equations(family).items():
        drawn = _operands(eqn, np.random.default_rng(0))
        (whole,) = _run(eqn, drawn)
        assert whole.shape == eqn.outputs[0].type.shape, name
        places = [np.broadcast_to(v, whole.shape).reshape(-1) for v in drawn]
        looked_at = np.linspace(0, whole.size - 1, min(whole.size, LOOKED_AT), dtype=int)
        alone = np.concatenate([_run(eqn, [v[i : i + 1] for v in places])[0] for i in looked_at])
        # 1e-14: in double, vectors and single elements take different code paths of exp and the like.
        tolerance = 1e-14 if whole.dtype.kind == "f" else 0
        np.testing.assert_allclose(alone, whole.reshape(-1)[looked_at], rtol=tolerance, err_msg=name)


def moving_equations(family: str) -> dict[str, Eqn]:
    """Those that say they move elements, of floats."""
    found = {n: e for n, e in equations(family).items() if e.op.moves is not None and "RELU" not in n}
    return {n: e for n, e in found.items() if all(v.type.dtype is DType.f32 for v in e.outputs)}


@pytest.mark.parametrize("family", FAMILIES)
def test_moved_elements_are_those_of_operands(family: str) -> None:
    for name, eqn in moving_equations(family).items():
        drawn = _operands(eqn, np.random.default_rng(0))
        given = [v.reshape(-1) for v in drawn if v is not None and v.dtype == np.float64]
        held = np.concatenate([r.reshape(-1) for r in _run(eqn, drawn)])
        match eqn.op.moves:
            case "renames":
                np.testing.assert_array_equal(held, given[0], err_msg=name)
            case "permutes" | "splits":
                np.testing.assert_array_equal(np.sort(held), np.sort(given[0]), err_msg=name)
            case "takes" | "repeats":
                assert len(given) == 1, name
                assert np.isin(held, given[0]).all(), name
            case "joins":
                assert np.isin(held, np.concatenate(given)).all(), name


def test_many_equations_are_met() -> None:
    assert sum(len(moving_equations(family)) for family in FAMILIES) > 50
    assert sum(len(linear_equations(family)) for family in FAMILIES) > 50
    assert sum(len(elementwise_equations(family)) for family in FAMILIES) > 100
