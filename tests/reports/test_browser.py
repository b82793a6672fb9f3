"""The page in headless Chromium: what is to be seen, found and clicked, and that it asks the network for nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jfuse.ir.graph import Program
from jfuse.records.conversion import Report
from jfuse.records.verification import Verification
from jfuse.reports import write_html
from tests.browser import Browser, Tab
from tests.reports.small import BLOCK, blocks, difference, errors, loop, report, verification

ENTER, DOWN, LEFT, RIGHT, END = ("Enter", 13), ("ArrowDown", 40), ("ArrowLeft", 37), ("ArrowRight", 39), ("End", 35)
SELECTED = '.row[aria-selected="true"]'


class Shown:
    """Opens pages, and looks at the end whether any of them complained or asked for something."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._file = folder / "report.html"
        self.tabs: list[Tab] = []

    def __call__(
        self,
        before: Program | None,
        after: Program,
        told: Verification,
        made: Report | None = None,
        *,
        dark: bool = False,
    ) -> Tab:
        write_html(before, after, told, self._file, report=made)
        self.tabs.append(self._browser.open(self._file, dark=dark))
        return self.tabs[-1]

    def finish(self) -> None:
        for tab in self.tabs:
            tab.value("true")  # what was reported until now has then arrived
            assert tab.complaints == []
            assert tab.requests == [self._file.as_uri()]
            tab.close()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Shown]:
    found = Shown(browser, tmp_path)
    yield found
    found.finish()


def test_names_of_operators_are_whole_at_1400_pixels(browser: Browser, tmp_path: Path) -> None:
    """Beside the bytes of its constants and its error, and behind the lanes of what runs past it."""
    before, after, told, made = compared()
    file = write_html(before, after, told, tmp_path / "report.html", report=made)
    tab = browser.open(file, width=1400)
    cut = (
        "[...document.querySelectorAll('.row.op .name')].filter((n) => n.scrollWidth > n.clientWidth || "
        "n.getBoundingClientRect().right > n.closest('.row').getBoundingClientRect().right).length"
    )
    outside = (
        "[...document.querySelectorAll('.row.op .bytes, .row.op .size')].filter((n) => "
        "n.getBoundingClientRect().right > n.closest('.row').getBoundingClientRect().right).length"
    )
    names = "[...document.querySelectorAll('.row.op .name')]"
    assert tab.value(f"{names}.length") > 4
    assert tab.value(cut) == 0
    tab.value(f"{names}.forEach((n) => {{ n.textContent = 'unidirectional_sequence_lstm'; }})")
    assert tab.value(cut) == 0
    for badge in ("LSTM cell of 8 units, 8 inputs", "reroll refused"):
        tab.value(
            f"{names}.forEach((n) => {{ const b = document.createElement('span'); b.className = 'badge fused'; "
            f"b.textContent = '{badge}'; n.after(b); }})"
        )
    assert tab.value(cut) == 0
    assert tab.value(outside) == 0
    assert tab.complaints == []
    tab.close()


def compared(count: int = 3) -> tuple[Program, Program, Verification, Report]:
    after = blocks(count, True)
    both = [*errors(after), *errors(after, lambda i: 1e-9 * (i + 1), "tensorflow/xla")]
    return (
        blocks(count, False),
        after,
        verification(both, difference(1e-6), difference(2e-7, "tensorflow/xla")),
        report(count),
    )


def names(tab: Tab, side: str) -> list[str]:
    """The names of the operations in view, from top to bottom."""
    rows = f"[...document.querySelectorAll('#pane-{side} .row.op')]"
    found: list[str] = tab.value(
        f"{rows}.sort((a, b) => a.dataset.row - b.dataset.row).map((r) => r.querySelector('.name').textContent)"
    )
    return found


def row(side: str, name: str) -> str:
    """Where the first operation of this name stands, as a place for `Tab.value`."""
    rows = f"[...document.querySelectorAll('#pane-{side} .row.op')]"
    return f"{rows}.find((r) => r.querySelector('.name').textContent === {json.dumps(name)})"


def click_row(tab: Tab, side: str, name: str) -> None:
    x, y = tab.value(
        f"(() => {{ const b = {row(side, name)}.getBoundingClientRect(); return [b.x + 90, b.y + 9]; }})()"
    )
    tab.click_at(x, y)


def test_both_graphs_are_shown_with_composites_and_fusions(shown: Shown) -> None:
    tab = shown(*compared())
    assert names(tab, "before")[:7] == ["fully_connected", "acme.gelu", "tanh", "add", "mul", "mul", "mean"]
    assert names(tab, "after")[: BLOCK + 1] == [
        *("fully_connected", "gelu", "mean", "sub", "square", "mean", "rsqrt", "mul"),
        "fully_connected",
    ]
    assert tab.texts("#pane-before .badge")[:2] == ["composite", "→ gelu"]
    assert tab.texts("#pane-after .badge")[0] == "acme.gelu"
    assert tab.texts("#pane-after .row.scope .name")[:3] == ["block_0", "dense", "norm"]
    assert tab.texts("#verdict") == ["✓ within tolerance"]
    assert "operations" in tab.texts("#figures")[0]
    drawn = (
        "document.querySelector('#pane-after canvas').getContext('2d').getImageData(0, 0, 60, 200).data.some((v) => v)"
    )
    assert tab.value(drawn), "no lanes were drawn"


def test_a_click_shows_everything_about_an_operation(shown: Shown) -> None:
    tab = shown(*compared())
    click_row(tab, "after", "fully_connected")
    (told,) = tab.texts("#details")
    for text in ("f32[1,4]", "tokens", "f32[4,4](", "keep_num_dims", "False (default)", "scope 'dense'"):
        assert text in told
    assert "model/encoder/block_0/dense/MatMul (MatMul)" in told
    assert tab.texts("#details .measures tbody tr:first-child td") == ["1.0e-9", "1.0e-8"]
    assert tab.texts("#details .measures tbody tr") == [
        "relative1.0e-91.0e-8",
        "own, by itself\N{EN DASH}\N{EN DASH}",
        "absolute2.0e-92.0e-8",
        "ULP00",
        "cosine11",
        "SNR180.0 dB160.0 dB",
    ]
    assert len(tab.texts(f"#pane-after {SELECTED}")) == 1
    assert tab.texts("#pane-before .row.twin .name") == ["fully_connected"]
    assert tab.texts("#said")[0].startswith("fully_connected, f32[1,4], relative error 1.0e-8")


def test_operands_and_counterparts_lead_on(shown: Shown) -> None:
    tab = shown(*compared())
    click_row(tab, "after", "gelu")
    assert tab.texts("#pane-before .row.twin .name") == ["acme.gelu"]
    tab.click("#details .list button")  # on the other side
    assert tab.texts("#details h2") == ["acme.gelu"]
    assert tab.texts("#pane-after .row.twin .name") == ["gelu"]
    tab.click("#details dl button")  # its operand
    assert tab.texts("#details h2") == ["fully_connected"]
    assert "before" in tab.texts("#details .where")[0]


def test_an_operation_within_a_fused_one_points_to_it(shown: Shown) -> None:
    before, after, told, made = compared(1)
    tab = shown(before, after, told, made)
    tab.value(f"{row('before', 'acme.gelu')}.click()")
    click_row(tab, "before", "rsqrt")
    assert tab.texts("#pane-after .row.twin .name") == ["rsqrt"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("rsqrt", "rsqrt"),
        ("BLOCK_2 gelu", "gelu"),
        ("PartitionedCall block_1", "gelu"),
        ("f32[1,1] Variance block_2", "mean"),
    ],
)
def test_search_finds_by_name_type_and_source(words: str, found: str, shown: Shown) -> None:
    tab = shown(*compared())
    tab.press("/", 191)
    tab.click("#search")
    tab.type(words)
    assert found in tab.texts("#found b")[0]
    tab.press(*ENTER)
    assert found in tab.texts("#details h2")[0]
    assert not tab.value("document.getElementById('found').checkVisibility()")
    assert len(tab.texts(SELECTED)) == 1


def test_search_says_when_there_is_nothing(shown: Shown) -> None:
    tab = shown(*compared())
    tab.click("#search")
    tab.type("conv_3d")
    assert tab.texts("#found li") == ["no operation has all these words"]
    tab.press(*ENTER)
    assert tab.texts(SELECTED) == []


def test_the_plot_leads_to_the_operation(shown: Shown) -> None:
    tab = shown(*compared())
    x, y, width, height = tab.box("document.getElementById('plot')")
    tab.click_at(x + width - 21, y + height / 2)  # the last operation stands at the right end
    assert tab.texts("#details h2") == ["mul"]
    assert "#23" in tab.texts("#details .where")[0]
    tab.press(*LEFT)
    assert "#22" in tab.texts("#details .where")[0]
    assert tab.texts("#largest") == ["largest 2.4e-7 at mul #23 (xla/litert)"]


def test_comparisons_and_measures_of_the_plot_can_be_chosen(shown: Shown) -> None:
    tab = shown(*compared())
    assert tab.texts("#pairs label") == ["tensorflow/xla", "xla/litert"]
    tab.click("#pairs label:last-child")
    assert tab.texts("#largest") == ["largest 2.4e-8 at mul #23 (tensorflow/xla)"]
    tab.choose("#metric", "absolute")
    assert tab.texts("#largest") == ["largest 4.8e-8 at mul #23 (tensorflow/xla)"]


def test_an_error_that_is_not_known_is_no_point_at_zero(shown: Shown) -> None:
    after = blocks(3, True)
    first, *others = errors(after)
    tab = shown(None, after, verification([replace(first, measure=None), *others], difference(1e-6)))
    assert tab.texts("#largest") == ["largest 2.4e-7 at mul #23 (xla/litert) · 1 operation unknown"]
    click_row(tab, "after", "fully_connected")
    assert tab.texts("#details .measures tbody tr:first-child td") == ["unknown"]


def test_keys_go_through_a_graph_and_fold_its_blocks(shown: Shown) -> None:
    tab = shown(None, loop(), verification(errors(loop())))
    assert names(tab, "after") == ["tanh", "while", "less", "add", "tanh"]
    assert tab.texts(".row.body .name") == ["condition", "body"]
    click_row(tab, "after", "while")
    tab.value("document.getElementById('tree-after').focus()")
    tab.press(*LEFT)
    assert names(tab, "after") == ["tanh", "while"]
    assert tab.value(f"{row('after', 'while')}.getAttribute('aria-expanded')") == "false"
    assert "Holds 3 operations" in tab.texts("#details h3")
    tab.press(*RIGHT)
    tab.press(*DOWN)
    assert tab.texts(f"{SELECTED} .name") == ["condition"]
    tab.press(*END)
    assert tab.texts(f"{SELECTED} .name") == ["y"]
    tab.press(*DOWN)
    assert tab.texts(f"{SELECTED} .name") == ["y"]


def test_for_a_screen_reader_the_graph_is_a_tree(shown: Shown) -> None:
    tab = shown(*compared())
    tree = "document.getElementById('tree-after')"
    click_row(tab, "after", "gelu")
    active = tab.value(f"document.getElementById({tree}.getAttribute('aria-activedescendant')).textContent")
    assert active.startswith("gelu")
    assert tab.value(f"{tree}.getAttribute('role')") == "tree"
    assert tab.value(f"{tree}.getAttribute('aria-label')").startswith("After: net · 24 operations")
    controls = "[...document.querySelectorAll('button, input, select')]"
    assert tab.value(f"{controls}.filter((e) => !(e.textContent || e.ariaLabel || e.labels?.length)).length") == 0


def test_outputs_and_conversion_are_tables(shown: Shown) -> None:
    before, after, told, made = compared()
    told.differences.append(difference(0.5, output="attention"))
    tab = shown(before, after, told, made)
    assert tab.texts("#verdict") == ["✗ 1 output beyond tolerance"]
    tab.click("#tab-outputs")
    assert [cell for cell in tab.texts("#view-outputs td") if cell.startswith(("✓", "✗"))] == [
        "✓ within",
        "✓ within",
        "✗ beyond",
    ]
    assert "f32: sums of 4 terms" in tab.texts("#view-outputs")[0]
    tab.click("#tab-conversion")
    (text,) = tab.texts("#view-conversion")
    for part in ("acme.gelu", "GELU", "trip_count_unknown", "want a number, got N", "B1 = B"):
        assert part in text
    tab.click("#view-conversion td button")  # where it was fused
    assert tab.texts("#details h2") == ["acme.gelu"]
    assert tab.value("document.getElementById('view-graph').checkVisibility()")


def test_the_first_difference_is_selected(shown: Shown) -> None:
    before, after, told, made = compared()
    told.first = replace(errors(after, lambda i: 0.25)[5], steps=(2,), operands=("x: f32[1,4] from 0 to 1",))
    tab = shown(before, after, told, made)
    assert tab.texts("#first") == [
        "First difference: mean #5 at model/encoder/block_0/norm/Variance (Mean) (xla/litert, 2.5e-1)"
    ]
    assert tab.texts("#details h2") == ["mean"]
    notes = ["xla/litert: step 2 of the loop", "xla/litert: x: f32[1,4] from 0 to 1"]
    assert tab.texts("#details .notes li") == notes
    assert len(tab.texts("#pane-after .size.over")) == 1


def test_signatures_can_be_chosen(shown: Shown) -> None:
    first, second = blocks(1, True).signatures[0], replace(loop().signatures[0], key="other")
    tab = shown(None, Program((first, second)), verification(errors(blocks(1, True))))
    assert len(names(tab, "after")) == BLOCK
    tab.choose("#signature", "other")
    assert names(tab, "after") == ["tanh", "while", "less", "add", "tanh"]


def test_odd_names_are_shown_as_they_are(shown: Shown) -> None:
    odd = "<img src=x onerror=alert(1)></script>\u202e\"'&amp;"
    before, after = blocks(1, False, odd), blocks(1, True, odd)
    tab = shown(before, after, verification(errors(after), difference(output=odd)), report(1))
    click_row(tab, "after", "gelu")
    assert f"{odd}/block_0/dense/gelu (PartitionedCall)" in tab.texts("#details .source dd")
    tab.click("#tab-outputs")
    assert odd in tab.texts("#view-outputs td")
    assert tab.value("document.images.length") == 0


def test_light_and_dark(shown: Shown) -> None:
    light, dark = (shown(*compared(), dark=dark) for dark in (False, True))
    brightness = (
        "(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b) / 3)"
    )
    assert light.value(brightness) > 200
    assert dark.value(brightness) < 60


def test_the_policy_refuses_requests(browser: Browser, tmp_path: Path) -> None:
    tab = browser.open(write_html(*compared()[:3], tmp_path / "report.html"))
    asked = "fetch('https://example.invalid/').then(() => 'answered', () => 'refused')"
    assert tab.value(asked) == "refused"
    assert any("Content Security Policy" in text for text in tab.complaints)
    tab.close()


@pytest.mark.slow
def test_two_thousand_operators_stay_usable(shown: Shown, tmp_path: Path) -> None:
    """Bounds for a busy machine; an idle one takes a fifth of them."""
    count = 2000 // BLOCK
    before, after, told, made = compared(count)
    started = time.perf_counter()
    tab = shown(before, after, told, made)
    assert time.perf_counter() - started < 20
    assert tab.value("performance.now()") < 10_000
    assert "→ 2,000 operations" in tab.texts("#figures")[0]
    assert tab.value("document.querySelectorAll('.row').length") < 200, "rows out of view are elements"

    def milliseconds(action: str) -> float:
        drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        timed = f"const start = performance.now(); {action}; await {drawn}; return performance.now() - start"
        found: float = tab.value(f"(async () => {{ {timed}; }})()")
        return found

    box = "const box = document.getElementById('search'); box.value = 'block_249 rsqrt'"
    assert milliseconds(f"{box}; box.dispatchEvent(new Event('input'))") < 1500
    assert tab.texts("#found b") == ["rsqrt", "rsqrt"]
    choose = "document.querySelector('#found li').dispatchEvent(new MouseEvent('mousedown', { bubbles: true }))"
    assert milliseconds(choose) < 1500
    assert "block_249" in tab.texts("#details .source")[0]
    assert tab.texts(f"{SELECTED} .name") == ["rsqrt"]
    assert milliseconds("document.getElementById('tree-after').scrollTop = 20000") < 1000
    assert tab.texts("#pane-after .row.op")
    assert milliseconds("document.querySelector('#pane-before .head button').click()") < 1500
