"""`jfuse explain`: explains the result for each recurrence and composite of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jfuse.passes.scans.to_loops.loop_cost import LoopSpelling
from jfuse.records.conversion import Fusion, LoopForm, Refusal, Report
from jfuse.records.remedies import remedy_of


def explain_lines(report: Report) -> list[str]:
    """A paragraph for each composite or loop: its kind, how it was found and tested, its result or the refusal."""
    lines: list[str] = []
    forms = {form.source: form for form in report.loops}
    for fusion in report.fused:
        lines += [*_of_fusion(fusion), ""]
    explained: set[str] = set()
    for refusal in report.refused:
        lines += [*_of_refusal(refusal, forms.get(refusal.source)), ""]
        explained.add(refusal.source)
    for form in report.loops:
        if form.source not in explained:
            lines += [f"loop at {form.source}", *_of_loop(form), ""]
    lines += [f"assumed: {assumption}" for assumption in report.assumptions]
    lines += [f"kept between calls: {kept}" for kept in report.kept]
    lines += [f"custom operators: {custom}" for custom in report.custom]
    lines += [f"quantized: {quantized}" for quantized in report.quantized]
    lines += [f"noise: {noise}" for noise in report.noise]
    lines += [f"tuned: {tuned}" for tuned in report.tuned]
    lines += [f"note: {note}" for note in report.notes]
    if not lines:
        lines.append("no recurrences, no composites: every operation is converted by itself")
    return lines


def _of_fusion(fusion: Fusion) -> Iterator[str]:
    yield f"{fusion.cell or fusion.composite} at {fusion.source}"
    how = "recovered without a mark" if fusion.recovered else f"marked as {fusion.composite!r}"
    yield f"  found      {how}; the rule is {fusion.rule}"
    yield from _of_proof(fusion)
    yield f"  becomes    {', '.join(fusion.becomes)}"
    if fusion.speed is not None:
        yield f"  speed      {fusion.speed}"
        yield from _expected("", fusion.speed.fused_microseconds, fusion.speed.forms)


def _of_proof(fusion: Fusion) -> Iterator[str]:
    if fusion.unproven:
        yield f"  not tested {fusion.unproven}"
        return
    samples = f"{fusion.samples} samples in float64, largest error {fusion.error:.1e}"
    if fusion.proof == "tested":
        yield f"  tested     on {samples}"
        yield f"  no proof   {fusion.stopped}"
        return
    yield "  proven     for all inputs, states, lengths and batches, in real arithmetic"
    yield from (f"  if         {condition}" for condition in fusion.conditions)
    yield f"  measured   on {samples}"


def _of_refusal(refusal: Refusal, form: LoopForm | None) -> Iterator[str]:
    yield f"{refusal.what} at {refusal.source}" if refusal.source else refusal.what
    yield f"  not fused  {refusal.condition} ({refusal.rule})"
    if refusal.detail:
        yield f"  because    {refusal.detail}"
    remedy = remedy_of(refusal.condition)
    if remedy:
        yield f"  try        {remedy}"
    if form is not None:
        yield from _of_loop(form)


def _of_loop(form: LoopForm) -> Iterator[str]:
    yield f"  becomes    {form}"
    yield from _expected(form.form, form.chosen_microseconds, form.forms)


def _expected(chosen: str, microseconds: float, forms: Mapping[str, float]) -> Iterator[str]:
    """Yield the modelled time of the chosen form and of the fastest others.   forms: by words"""
    named = {str(LoopSpelling.named(word)): us for word, us in forms.items()}
    others = [f"{us:.3g} us as {form}" for form, us in named.items() if form != chosen][:_MOST_FORMS]
    if others:
        yield f"  expected   about {microseconds:.3g} us a call; {'; '.join(others)}"


_MOST_FORMS = 3
