"""The HTML file, without a browser: one file, its policy, what is in it and what cannot break out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.reports import write_html
from jfuse.reports.page import page, page_data
from tests.reports.small import blocks, difference, errors, loop, report, verification


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag in ("script", "style")
        if self._inside:
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


def written(folder: Path, name: str = "model/encoder") -> str:
    before, after = blocks(2, False, name), blocks(2, True, name)
    told = verification(errors(after), difference(output=name))
    return write_html(before, after, told, folder / "report.html", report=report(2)).read_text(encoding="utf-8")


def data_of(text: str) -> Any:
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(block)


def test_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    elements = Elements(written(tmp_path))
    addresses = [v for _, attributes in elements.found for k, v in attributes.items() if k in ("src", "href", "action")]
    assert addresses == ["data:,"]  # the icon, which is thus not asked for
    assert not any(re.search(r"url\(|@import|https?:|fetch\(|XMLHttp", text) for text in elements.texts)


def test_the_policy_allows_the_script_and_style_of_the_page_alone(tmp_path: Path) -> None:
    elements = Elements(written(tmp_path))
    (policy,) = (a["content"] for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    style, _, script = elements.texts
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not any("style" in attributes for _, attributes in elements.found), "the policy would ignore it"


@pytest.mark.parametrize(
    "name", ["</script><img src=x onerror=alert(1)>", "<!--<script>", "a\u2028b", '"\\"', "@@SCRIPT@@", "\udc80", "ü\0"]
)
def test_names_do_not_break_out(name: str, tmp_path: Path) -> None:
    text = written(tmp_path, name)
    assert len(Elements(text).found) == len(Elements(written(tmp_path)).found)
    data = data_of(text)
    assert data["verification"]["differences"][0]["output"] == name
    rows = data["sides"]["after"]["graphs"][0]["rows"]
    assert any(name in row.get("source", "") for row in rows)


def test_the_file_is_the_same_each_time(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path)


def test_errors_stand_at_their_equations() -> None:
    found = loop()
    data = page_data(None, found, verification(errors(found)))
    (graph,) = data["sides"]["after"]["graphs"]
    labels = [graph["rows"][error["row"]]["label"] for error in graph["errors"]]
    assert labels == ["tanh", "while", "less", "add", "tanh"]
    assert graph["errors"][0]["relative"] == 1e-8
    assert data["sides"]["before"] is None


def test_of_two_errors_of_an_equation_the_larger_is_shown() -> None:
    after = blocks(1, True)
    small, large = (errors(after, lambda i, size=size: size)[0] for size in (1e-7, 1e-3))  # type: ignore[misc]
    for order in ([small, large], [large, small]):
        (error,) = page_data(None, after, verification(order))["sides"]["after"]["graphs"][0]["errors"]
        assert error["relative"] == 1e-3


def test_errors_of_the_reference_stand_in_its_graph() -> None:
    """The same place and op, but no such equation on the other side."""
    before, after = blocks(1, False), blocks(1, True)
    only_before = [e for e in errors(before) if len(e.path) == 3]
    data = page_data(before, after, verification(only_before))
    assert len(data["sides"]["before"]["graphs"][0]["errors"]) == 4
    assert data["sides"]["after"]["graphs"][0]["errors"] == []


def test_an_error_of_no_equation_at_hand_is_left_out() -> None:
    after = blocks(1, True)
    odd = [replace(errors(after)[0], signature="other"), replace(errors(after)[0], path=(99,))]
    assert page_data(None, after, verification(odd))["sides"]["after"]["graphs"][0]["errors"] == []


def test_the_parts_of_the_page_stand_in_it_as_they_are() -> None:
    assert "@@" not in page({}).replace("@@SCRIPT@@", "")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JfuseError, match="cannot be written"):
        write_html(None, loop(), verification(), tmp_path / "none" / "report.html")
