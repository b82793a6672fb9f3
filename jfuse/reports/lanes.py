"""The lanes in which values run down beside the rows: each value has one from where it begins to its last reader."""

from __future__ import annotations

import heapq
from collections import defaultdict

from jfuse.reports.rows import PageValue, Rows

COLUMNS = 9
"""Number of lanes; further values share the last one."""


def place(found: Rows) -> int:
    """Give every value its lane and every row the lane of its dot, in one walk; the number of lanes in use.

    A result takes over the lane of an operand that is read for the last time, so that a chain runs straight down.
    """
    begins: dict[int, list[PageValue]] = defaultdict(list)
    ends: dict[int, list[PageValue]] = defaultdict(list)
    for value in found.values:
        begins[value.row].append(value)
        if value.readers:
            ends[value.readers[-1]].append(value)
    free = list(range(COLUMNS))
    lane: dict[int, int] = {}  # of the values that have one of their own, by identity
    widest = 0
    for number, row in enumerate(found.rows):
        left = sorted(lane.pop(id(value)) for value in ends[number] if id(value) in lane)
        row.column = left[0] if left else free[0] if free else COLUMNS - 1
        for value in begins[number]:
            value.column = COLUMNS - 1
            if left or free:
                value.column = lane[id(value)] = left.pop(0) if left else heapq.heappop(free)
            widest = max(widest, value.column)
        if begins[number]:
            row.column = begins[number][0].column
        unread = [lane.pop(id(value)) for value in begins[number] if not value.readers and id(value) in lane]
        for column in (*left, *unread):
            heapq.heappush(free, column)
        widest = max(widest, row.column)
    return widest + 1
