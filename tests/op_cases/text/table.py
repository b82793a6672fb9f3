"""Rows of lowering/ops/text/table.py."""

from __future__ import annotations

from tests.op_cases.case import Case, case, given
from tests.op_cases.texts import TEXTS, VECTOR

CASES: tuple[Case, ...] = (
    case("StringToHashBucketFast", args=[TEXTS], num_buckets=1, dynamic=True),
    case("StringToHashBucket", args=[given([[b"q"]])], num_buckets=1),
    case("StringToHashBucketStrong", args=[VECTOR], num_buckets=1, key=[1, 2]),
)
