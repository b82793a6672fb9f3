"""Weights rounded one after the other: what one is off by is made up for by those that come later (GPTQ)."""

from __future__ import annotations

import numpy as np

_DAMPING = 0.01  # of the mean square of a term, which keeps terms that hang together apart
_BLOCK = 128  # terms after which the others are brought up to date: a product of matrices instead of many of vectors


def rounded_in_turn(array: np.ndarray, scale: np.ndarray, last: int, moments: np.ndarray) -> np.ndarray:
    """Weights as whole steps such that the results of the product are off by little: f64[outputs, terms].

    array: f[outputs, terms]; scale: of each weight, f[outputs, terms] or so that it broadcasts. last: the largest
    number of steps on either side of 0. moments: f64[terms + 1, terms + 1], as `Moments` keeps them: of the rows that
    the weights are multiplied with. Terms with large squares come first. Where there are few rows, how two terms hang
    together in them says little of other rows, and counts less.
    Source: "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (Frantar et al., 2022)
    """
    squares, rows = moments[:-1, :-1], moments[-1, -1]
    sizes, terms = np.diag(squares), len(squares)
    order = np.argsort(-sizes, kind="stable")
    scale = np.broadcast_to(np.asarray(scale, np.float64), array.shape)[:, order]
    left = np.asarray(array, np.float64)[:, order]
    damped = squares[np.ix_(order, order)] + np.eye(terms) * ((_DAMPING + terms / rows) * sizes.mean() or 1.0)
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    steps = np.empty_like(left)
    for start in range(0, terms, _BLOCK):
        end = min(start + _BLOCK, terms)
        errors = np.empty((len(left), end - start))
        for i in range(start, end):
            steps[:, i] = np.clip(np.rint(left[:, i] / scale[:, i]), -last, last)
            error = (left[:, i] - steps[:, i] * scale[:, i]) / upper[i, i]
            left[:, i + 1 : end] -= np.outer(error, upper[i, i + 1 : end])
            errors[:, i - start] = error
        left[:, end:] -= errors @ upper[start:end, end:]
    found = np.empty_like(steps)
    found[:, order] = steps
    return found
