"""What notebooks show: the page in a frame of its own, or a table."""

from __future__ import annotations

import html
import re

import jax
import numpy as np

import jfuse
from jfuse.records.conversion import Refusal, Report


def test_a_model_and_its_verification_are_shown_as_the_page() -> None:
    model = jfuse.convert(jax.numpy.tanh, [jax.ShapeDtypeStruct((2, 3), np.float32)], verify=False)
    for shown in (model, jfuse.verify(model, samples=2)):
        text = shown._repr_html_()
        assert text is not None
        (frame,) = re.findall(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', text)
        page = html.unescape(frame)
        assert page.lower().startswith("<!doctype html>")
        assert "tanh" in page


def test_a_report_is_a_table_whose_texts_are_escaped() -> None:
    report = Report(refused=[Refusal("acme.Cell", "fuse_cell", "need_<2>_gates", "")], operators={"tanh": 2})
    text = report._repr_html_()
    assert text is not None
    assert re.findall(r"<th[^>]*>(.*?)</th>", text) == ["not fused", "operators", "largest error"]
    assert "need_&lt;2&gt;_gates" in text
    assert "2 tanh" in text
