"""Rows of lowering/ops/linalg/matmul.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, f32, of, weights

CASES: tuple[Case, ...] = (
    case("XlaEinsum", args=[f32(2, 3), f32(3, 4)], compiled=True, equation="ab,bc->ac"),
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
    case("Einsum", args=[f32(2, 3), f32(2, 3)], dynamic=True, equation="ab,ab->ab"),
    case("Einsum", args=[f32(2, 3, 4), f32(3)], dynamic=True, equation="abc,b->abc"),
    case("Einsum", args=[f32(2, 3, 4), f32(4)], dynamic=True, equation="abc,c->bca"),
    case("Einsum", args=[f32(3), f32(4)], equation="a,b->ab"),
    case("Einsum", args=[f32(3), f32()], equation="a,->a"),
    case("Einsum", args=[f32(3), f32(3)], equation="a,a->"),
    case("Einsum", args=[f32(2, 5, 3, 4), f32(2, 5, 6, 4)], dynamic=True, equation="bhqd,bhkd->bhqk"),
    case("Einsum", args=[f32(2, 5, 4, 3), f32(2, 5, 4, 6)], dynamic=True, equation="bhdq,bhdk->bhqk"),
    case("Einsum", args=[f32(2, 3, 5, 4), f32(2, 6, 5, 4)], dynamic=True, equation="bqhd,bkhd->bhqk"),
    case("Einsum", args=[f32(3, 3)], equation="aa->a"),
    case("Einsum", args=[f32(3, 3)], equation="aa->"),
    case("Einsum", args=[f32(2, 3, 3)], dynamic=True, equation="baa->ba"),
    case("Einsum", args=[f32(3, 2, 3, 3)], equation="abaa->ab"),
    case("Einsum", args=[f32(2, 3, 3), f32(3, 4)], dynamic=True, equation="baa,ac->bc"),
    case("Einsum", args=[f32(3)], equation="a->aa"),
    case("Einsum", args=[f32(2, 3)], dynamic=True, equation="ba->aba"),
    case("Einsum", args=[f32(2, 3, 4)], dynamic=True, equation="...b->..."),
    case("Einsum", args=[f32(2, 3, 4), f32(1, 4, 5)], equation="...ij,...jk->...ik"),
    case("Einsum", args=[f32(2, 3, 4, 5), f32(4, 5, 2, 3)], equation="abcd,cdab->"),
    case("Einsum", args=[f32(2, 3, 4, 5, 6), weights(5, 6, 2)], dynamic=True, equation="abcde,def->abcf"),
    case("Einsum", args=[f32(2, 0), f32(0, 3)], equation="ab,bc->ac"),
    *(case("Einsum", args=[of(t, 2, 3), of(t, 3, 4)], equation="ab,bc->ac") for t in (DType.i32, DType.i64)),
    case("Einsum", args=[of(DType.bf16, 2, 3), of(DType.bf16, 3, 4)], tolerance=1e-2, equation="ab,bc->ac"),  # 8 bits
)
