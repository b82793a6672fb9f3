"""Rows of lowering/einsum.py."""

from __future__ import annotations

from tests.op_cases.case import Case, case, f32, weights

CASES: tuple[Case, ...] = (
    case("Einsum", args=[f32(2, 3), weights(3, 4)], dynamic=True, equation="ab,bc->ac"),
    case("Einsum", args=[f32(2, 3, 4), weights(4, 5, 6)], dynamic=True, equation="abc,cde->abde"),
    case("Einsum", args=[f32(2, 3, 5, 6), weights(5, 6, 4)], dynamic=True, equation="abcd,cde->abe"),
    case("Einsum", args=[f32(2, 3, 4), weights(4, 5)], dynamic=True, equation="...x,xy->...y"),
    case("Einsum", args=[weights(4, 3), f32(2, 3)], equation="ab,cb->ca"),
    case("Einsum", args=[f32(2, 3, 5, 4), f32(2, 7, 5, 4)], dynamic=True, equation="aecd,abcd->acbe"),
    case("Einsum", args=[f32(2, 5, 7, 3), f32(2, 3, 5, 4)], dynamic=True, equation="acbe,aecd->abcd"),
    case("Einsum", args=[f32(2, 3, 4), f32(2, 4, 5)], equation="...ij,...jk->...ik"),
    case("Einsum", args=[f32(3, 4), f32(2, 4, 5)], equation="...ij,...jk->...ik"),
    case("Einsum", args=[f32(2, 3), f32(4, 5)], dynamic=False, equation="ab,cd->acbd"),
    case("Einsum", args=[f32(2, 3), f32(2, 3)], dynamic=True, equation="ab,ab->a"),
    case("Einsum", args=[f32(2, 3), f32(2, 3)], equation="ab,ab->"),
    case("Einsum", args=[f32(2, 3), f32(2, 3)], equation="ab,ab->ba"),
    case("Einsum", args=[f32(2, 3, 4), f32(3)], equation="abc,b->a"),
    case("Einsum", args=[f32(2, 3)], dynamic=True, equation="ab->ba"),
    case("Einsum", args=[f32(2, 3, 4)], dynamic=True, equation="abc->ca"),
    case("Einsum", args=[f32(2, 3)], equation="ab->"),
)
