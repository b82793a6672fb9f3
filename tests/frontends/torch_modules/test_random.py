"""Numbers that are drawn at each call: of PyTorch's distributions, others at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from tests.frontends.torch_modules.rows import Of, f32  # noqa: E402

COUNT = 20000
DRAWS: dict[str, tuple[Callable[[Any], Any], float, float]] = {  # a function of zeros; mean, standard deviation
    "randn_like": (lambda x: torch.randn_like(x), 0, 1),
    "rand": (lambda x: x + torch.rand(COUNT), 0.5, 12**-0.5),
    "randint": (lambda x: x + torch.randint(2, 6, (COUNT,)), 3.5, 1.25**0.5),
    "randint_like": (lambda x: torch.randint_like(x, 4), 1.5, 1.25**0.5),
    "normal": (lambda x: torch.normal(x + 2, 3.0), 2, 3),
    "normal in place": (lambda x: torch.empty_like(x).normal_(1, 0.5) + torch.normal(0.0, 0.1, (COUNT,)), 1, 0.26**0.5),
    "uniform in place": (lambda x: torch.empty_like(x).uniform_(-1, 1), 0, 3**-0.5),
    "exponential": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3) + torch.empty_like(x).bernoulli_(0.5), 0.8, 0.46**0.5),
    "dropout": (lambda x: F.dropout(x + 1, 0.25, training=True), 1, 3**-0.5),
    "multinomial": (
        lambda x: torch.multinomial(x[:3] + torch.tensor([1.0, 1.0, 2.0]), COUNT, True) * 1.0,
        1.25,
        0.6875**0.5,
    ),
}


@pytest.mark.parametrize(
    "name", [n if n in ("randn_like", "dropout") else pytest.param(n, marks=pytest.mark.slow) for n in DRAWS]
)
def test_the_distribution_is_pytorchs(name: str) -> None:
    function, mean, deviation = DRAWS[name]
    torch.manual_seed(0)
    eager = function(torch.zeros(COUNT)).numpy()
    result = jfuse.lower(jfuse.load(Of(function), [f32(COUNT)]))
    run = LiteRt(result.to_bytes(), delegates=True)
    zeros = {result.signature().input_names[0]: np.zeros(COUNT, np.float32)}
    first, second = (run.run("serving_default", zeros)[result.signature().output_names[0]] for _ in range(2))
    assert not np.array_equal(first, second)
    for numbers in (eager, first, second):  # five standard errors
        assert abs(numbers.mean() - mean) < 5 * deviation / COUNT**0.5
        assert abs(numbers.std() - deviation) < 0.03 * deviation
    assert any("random numbers are drawn by the runtime" in note for note in result.report.notes)


def test_an_order_and_choices_without_replacement_have_each_once() -> None:
    def chosen(x: Any) -> Any:
        return torch.randperm(50), torch.multinomial(torch.softmax(x, 0), 10)

    result = jfuse.lower(jfuse.load(Of(chosen), [f32(10)]))
    found = LiteRt(result.to_bytes(), delegates=True).run(
        "serving_default", {result.signature().input_names[0]: np.arange(10, dtype=np.float32)}
    )
    order, places = (found[name] for name in result.signature().output_names)
    np.testing.assert_array_equal(np.sort(order), np.arange(50))
    np.testing.assert_array_equal(np.sort(places), np.arange(10))
    assert not np.array_equal(order, np.arange(50))
