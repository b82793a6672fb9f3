"""Networks on graphs whose numbers of nodes and edges are open: verified on drawn edges, and right call after call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models import graph_networks
from tests.models.written import Written


@pytest.mark.parametrize(
    "build",
    [
        graph_networks.convolution,
        graph_networks.attention,
        graph_networks.message_passing,
        graph_networks.sparse_products,
        graph_networks.readout,
    ],
)
def test_network(build: Callable[[], Written]) -> None:
    source, draw = build()
    check_invokes(jfuse.convert(source), draw)


def test_the_ends_of_edges_are_as_many() -> None:
    assert "B2 = B1" in jfuse.convert(graph_networks.attention().source, verify=False).report.assumptions
