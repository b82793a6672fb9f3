"""Rows of lowering/ops/math/division.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, c64, case, const, f32, given, i32, i64
from tests.op_cases.every_dtype import ORDERED, SIGNED, by_constants, divided, ends, exactly, in_double, of_floats
from tests.op_cases.every_rank import positive, ranks
from tests.op_cases.math.elementwise import CLAMPED, arithmetic, integers

CASES: tuple[Case, ...] = (
    *arithmetic("RealDiv"),
    *arithmetic("FloorMod"),
    *arithmetic("FloorDiv"),
    *integers("FloorMod"),
    *integers("FloorDiv", i64="LiteRT's FLOOR_DIV takes no i64"),
    *integers("TruncateDiv", i64="LiteRT's DIV takes no i64"),
    case("Div", args=[f32(2, 3), f32(2, 3)], dynamic=True),
    case("Div", args=[given([7, -7], DType.i32), given([2, 2], DType.i32)]),
    case("RealDiv", args=[given([1.0, -1.0, 0.0]), given([0.0, 0.0, 0.0])], litert=CLAMPED),
    case("FloorDiv", args=[given([0.6, 1.0, -0.3, 5.5]), given([0.2, 0.1, 0.1, -2.0])]),
    case("Pow", args=[f32(2, 3, low=0.1, high=3), f32(2, 3)], dynamic=True),
    case("Pow", args=[given([0.0, 2.0, -2.0, 2.0]), given([0.0, -1.0, 3.0, 0.5])]),
    case("Pow", args=[given([2, 3, -2], DType.i32), given([3, 0, 3], DType.i32)]),
    case("TruncateDiv", args=[given([7.0, -7.0, 7.5, 0.5]), given([2.0, 2.0, -2.5, 3.0])]),
    case("TruncateDiv", args=[f32(2, 3), f32(3, low=1, high=3)], dynamic=True),
    *(row for op in ("Mod", "TruncateMod") for row in integers(op)),
    case("Mod", args=[given([7.0, -7.0, 7.5, -7.5, 0.5, 6.0]), given([2.0, 2.0, -2.5, -2.0, 3.0, 3.0])]),
    case("TruncateMod", args=[f32(2, 3, low=-9, high=9), f32(3, low=1, high=3)], dynamic=True),
    case("FloorMod", args=[given([7.0, -7.0, 7.5, -7.5, 0.5, 6.0]), given([2.0, 2.0, -2.5, -2.0, 3.0, 3.0])]),
    *(case("Pow", args=[i32(2, 3), const(np.int32(n))], dynamic=True) for n in (1, 2, 5)),
    *(case("Pow", args=[given([7, -3, 2, 5], d), const(np.array(20, d.numpy))]) for d in SIGNED),
    case("Pow", args=[f32(2, 3), const(np.float32(2))], dynamic=True),
    case("Pow", args=[f32(2, 3), const(np.float32(3))], dynamic=True),
    *(row for op in ("FloorDiv", "FloorMod", "TruncateDiv") for row in divided(op, ORDERED)),
    *(
        case("FloorDiv", args=[exactly(np.array(ends(DType.i64, -1, -7, 7), np.int64)), const(np.int64(n))])
        for n in (1, 2, 3, -3, 10**9 + 7, 2**62, -(2**62), 2**63 - 1, -(2**63))
    ),
    case("FloorDiv", args=[i64(2, 3, low=-(2**60), high=2**60), const(np.int64(7))], dynamic=True),
    *(row for op in ("Mod", "TruncateMod") for row in divided(op, (DType.i32, DType.i64))),
    *(row for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod") for row in by_constants(op)),
    *(
        case("Pow", args=[given([10, -10, 3, -2, 7, 2, 0, 5], d), given([10, 9, 40, 31, 13, 3, 0, 1], d)])
        for d in SIGNED
    ),
    case("Pow", args=[i32(2, 3), i32(3, low=0, high=9)], dynamic=True),
    case("Pow", args=[const(np.int32(3)), i32(2, 3, low=0, high=40)], dynamic=True),
    case("Pow", args=[i64(2, 3), const(np.array([0, 1, 21], np.int64))], dynamic=True),
    *of_floats("RealDiv", 2),
    *of_floats("FloorMod", 2),
    *of_floats("Pow", 2, low=0.5, high=3),
    *of_floats("FloorDiv", 2, low=0.5, high=3),
    *(row for op in ("RealDiv", "Pow", "FloorMod") for row in in_double(op, 2)),
    *ranks("FloorMod", f32),
    *ranks("Pow", positive),
    case("RealDiv", args=[c64(2, 3), c64(3, seed=1)], dynamic=True),
)
