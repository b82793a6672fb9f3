"""The two sides of a comparison: the subjects, and the reference."""

from __future__ import annotations

from dataclasses import dataclass

from jfuse.verification.compare.read_back import reads_back
from jfuse.verification.runners.in_functions import source_of
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.on_xla import ComparedModel, OnXla
from jfuse.verification.subject import Subject


@dataclass(frozen=True)
class Sides:
    """The two parts of a comparison: the subjects, which are runners of one model, and the reference.

    model: the model that the subjects run, where they do; data: its file, where it has one. source: the model behind
    the reference, where there is one. texts: their names, `paths` whether these are paths.
    apart: further runners of the file, each with its own reference: of other runtimes, which round integers
    in their own way. device: text about the device that ran some of them.
    """

    subjects: tuple[Subject, ...]
    reference: Subject
    texts: tuple[str, str] = ("the model", "its source")
    paths: bool = False
    model: ComparedModel | None = None
    data: bytes | None = None
    source: ComparedModel | None = None
    apart: tuple[tuple[Subject, Subject], ...] = ()
    device: str = ""

    @classmethod
    def of_model(cls, lite: ComparedModel, reference: ComparedModel) -> Sides:
        """A lowered model, on XLA and in LiteRT, against the source of the reference, else its graph on XLA."""
        data = lite.to_bytes()
        reads_back(lite.program, data)
        subjects: tuple[Subject, ...] = (OnXla(lite), InLiteRt(data, lite.program))
        reference_subject: Subject = source_of(reference) or OnXla(reference)
        return cls(subjects, reference_subject, model=lite, data=data, source=reference)
