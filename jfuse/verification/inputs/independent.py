"""Many independent samples: rows of calls that no call comes before, compared in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from jfuse.ir.graph import Signature
from jfuse.verification.subject import Arrays, Subject

Outputs = Mapping[str, np.ndarray]


def compared_samples(
    reference: Subject, subjects: Sequence[Subject], batches: Iterable[tuple[Signature, Arrays]], in_a_row: bool
) -> Iterator[tuple[str, Arrays, int, Outputs, Outputs]]:
    """For each batch and subject: the signature's key, the batch, the subject's number, its outputs, the reference's.

    batches: with samples along a new first axis of every input, as `Subject.batch` takes them; so is in_a_row.
    """
    for signature, batch in batches:
        wanted = reference.batch(batch, signature.key, in_a_row=in_a_row)
        for place, subject in enumerate(subjects):
            yield signature.key, batch, place, subject.batch(batch, signature.key, in_a_row=in_a_row), wanted
