"""Operands that are strings."""

from __future__ import annotations

from tests.op_cases.case import given

TEXTS = given([[b"a", b"bb", b""], [b"ccc", "größe".encode(), b"a"]])
OTHERS = given([[b"a", b"b", b""], [b"ccc", b"zz", b"b"]])
VECTOR = given([b"a", b"", b"jfuse", b"a"])
