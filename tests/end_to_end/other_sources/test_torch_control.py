"""torch.cond, while_loop and scan become IF, WHILE, and recurrences that fuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

from tests.frontends.torch_modules.rows import f32  # noqa: E402


class Branches(nn.Module):
    """One of two functions, by data; a nested choice in the first."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        """f32[b, 4] -> the same"""

        def first(v: Any) -> Any:
            return torch.cond(v.max() > 1, lambda u: self.dense(u), lambda u: u.sin(), (v,))

        return torch.cond(x.sum() > 0, first, lambda v: v * 2, (x,)) + 1


class Newton(nn.Module):
    """A square root by as many steps as the data needs, twenty at most."""

    def forward(self, x: Any) -> Any:
        """f32[b, 4] -> the same"""
        wanted = x.abs() + 0.5

        def goes_on(count: Any, root: Any) -> Any:
            return ((root * root - wanted).abs().max() > 1e-4) & (count < 20)

        def step(count: Any, root: Any) -> Any:
            return count + 1, 0.5 * (root + wanted / root)

        return while_loop(goes_on, step, (torch.tensor(0), torch.ones_like(x)))[1]


class Steps(nn.Module):
    """A simple recurrence by scan."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again = nn.Linear(5, 6), nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        """f32[t, b, 5] -> f32[t, b, 6]"""

        def step(h: Any, row: Any) -> Any:
            h = torch.tanh(self.enter(row) + self.again(h))
            return h, h.clone()

        return scan(step, torch.zeros(x.shape[1], 6), x, dim=0)[1]


MODELS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "cond": (Branches, (None, 4), "if"),
    "while": (Newton, (None, 4), "while"),
    "scan": (Steps, (7, None, 5), "unidirectional_sequence_rnn"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_control_flow_of_pytorch(name: str) -> None:
    make, shape, operator = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    result = jfuse.convert(module, [f32(*shape)])
    assert operator in result.report.operators
    run = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    for seed, size in enumerate((3, 1, 4)):
        x = np.random.default_rng(seed).normal(size=[size if d is None else d for d in shape]).astype(np.float32)
        for given in (x, -x, 3 * np.abs(x)):
            with torch.no_grad():
                wanted = module(torch.from_numpy(given)).numpy()
            np.testing.assert_allclose(run(x=given)["output_0"], wanted, atol=1e-5)


@pytest.mark.slow
def test_an_operator_without_a_rule_is_found_in_a_branch() -> None:
    class Inner(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda v: torch.special.bessel_j0(v), lambda v: v * 2, (x,))

    with pytest.raises(jfuse.LowerError, match="special_bessel_j0"):
        jfuse.load(Inner().eval(), [f32(3)])
