"""Functions of PyTorch whose operators functions of jax compute, and of masks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.frontends.torch_modules.rows import IDS, Row, X, f32, i64


def positive(x: Any) -> Any:
    """Numbers that shape parameters may be."""
    return x.abs() + 0.5


def regular(x: Any) -> Any:
    """Matrices that are far from singular."""
    return x[..., :4] + 4 * torch.eye(4)


def marked(x: Any) -> Any:
    """Writing where masks hold: a number, a row of values, a row for all."""
    y = x.clone()
    y[y < -1] *= 2
    y[y[:, :, 0] > 0] = x[0, 0] + 1
    y[:, [0, 2]] = x[:, :1] * 3
    y[:, x[0, :, 0] > 0.5, 1] = 7.0
    return y


def scattered(how: str) -> Callable[..., Any]:
    """Elements combined at places, with and without what stood there."""

    def combined(x: Any, i: Any) -> Any:
        table = torch.full((2, 5), 0.5)
        alone = table.scatter_reduce(1, i, x[:, :3, 1], how, include_self=False)
        return table.scatter_reduce(1, i, x[:, :3, 0], how) + alone

    return combined


def there_and_back(x: Any) -> Any:
    """A spectrogram, and the signal of it."""
    window = torch.hann_window(16)
    return torch.istft(torch.stft(x, 16, 4, window=window, return_complex=True), 16, 4, window=window)


def of_svd(x: Any) -> Any:
    """The sine of the singular values between their vectors."""
    left, values, right = torch.linalg.svd(x[:, :2, :3], full_matrices=False)
    return (left * values.sin()[:, None]) @ right


def solved_by_old_name(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, that the name is old
        return torch.triangular_solve(x, regular(x), transpose=True)[0]


IN_JAX: tuple[Row, ...] = (
    ("gamma's parts", lambda x: torch.igamma(positive(x), x.abs()) + torch.igammac(positive(x), x.abs()), (X,)),
    ("special", lambda x: torch.special.i1(x) + torch.i0(x) + torch.special.i0e(x) + torch.special.i1e(x), (X,)),
    ("more special", lambda x: torch.special.zeta(positive(x) + 1, positive(x)) + torch.special.log_ndtr(x), (X,)),
    ("polygamma", lambda x: torch.polygamma(1, positive(x)) + torch.special.ndtri(x.sigmoid()), (X,)),
    ("pairs of numbers", lambda x: torch.hypot(x, x + 1) + torch.copysign(x, -x) + torch.fmax(x, -x).fmin(x * 2), (X,)),
    ("neighbours", lambda x: torch.nextafter(x, -x) + torch.signbit(x), (X,)),
    ("integers", lambda i: (i << 2) + (i >> 1) + torch.gcd(i * 4, i + 6) + torch.lcm(i, i + 1), (IDS,)),
    ("sorted places", lambda x: torch.searchsorted(x[..., :3].sort(-1)[0], x, right=True), (f32(2, 4, 6),)),
    ("in order", lambda x: (*x.kthvalue(2, dim=1), x.logcumsumexp(1), torch.histc(x, 5, -1, 1)), (f32(2, 4, 6),)),
    ("diagonals", lambda x: x.diagonal(0, 1, 2) + x.diagonal(2, 1, 2) + torch.diag_embed(x[..., :4]).sum((2, 3)), (X,)),
    ("by a mask", lambda x: x.masked_scatter(x > 0, -x.flatten()) + marked(x), (f32(2, 4, 6),)),
    ("beside a mask", lambda x: x[:, x[0, :, 0] > 0, 1], (f32(2, 4, 6),)),
    *(
        (f"scattered {how}", scattered(how), (f32(2, 4, 6), i64(2, 3)))
        for how in ("sum", "prod", "amax", "amin", "mean")
    ),
    ("strided", lambda x: (x + 1).as_strided((2, 3, 2), (24, 6, 2), 1), (f32(2, 4, 6),)),
    ("distances of pairs", lambda x: F.pdist(x[0]), (f32(2, 4, 6),)),
    (
        "transforms",
        lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho")) + torch.fft.ifft2(x).real,
        (f32(2, 4, 6),),
    ),
    ("polar", lambda x: torch.view_as_real(torch.polar(x.abs(), x)), (X,)),
    ("angles", lambda x: torch.view_as_complex(x[..., :2].contiguous()).angle(), (f32(2, 4, 6),)),
    (
        "solved by factors",
        lambda x: (
            torch.cholesky_solve(x[0], torch.linalg.cholesky(regular(x) @ regular(x).mT)),
            torch.cholesky_solve(x, torch.linalg.cholesky(regular(x) @ regular(x).mT, upper=True), upper=True),
        ),
        (f32(2, 4, 6),),
    ),
    ("factors", lambda x: (*torch.linalg.qr(x), torch.linalg.cholesky(regular(x) @ regular(x).mT)), (f32(2, 4, 6),)),
    (
        "eigenvalues",
        lambda x: (torch.linalg.eigvalsh(regular(x) + regular(x).mT), torch.linalg.svdvals(x), of_svd(x)),
        (f32(2, 4, 6),),
    ),
    (
        "lower and upper",
        lambda x: (*torch.linalg.lu(x), torch.linalg.householder_product(x[..., :3], x[:, 0, :3])),
        (f32(2, 4, 6),),
    ),
    ("solved", lambda x: torch.linalg.solve(regular(x), x) + torch.linalg.inv(regular(x)) @ x, (f32(2, 4, 6),)),
    (
        "solved by lower and upper",
        lambda x: (
            torch.linalg.lu_solve(*torch.linalg.lu_factor(regular(x)), x),
            torch.linalg.lu_solve(*torch.linalg.lu_factor(regular(x)), x.mT, left=False, adjoint=True),
            torch.lu_unpack(*torch.linalg.lu_factor(x))[0],
        ),
        (f32(2, 4, 6),),
    ),
    (
        "solved otherwise",
        lambda x: (
            torch.linalg.solve_ex(regular(x), x)[0] + torch.linalg.inv_ex(regular(x))[0] @ x,
            torch.linalg.inv_ex(regular(x))[1],
            torch.cholesky_inverse(torch.linalg.cholesky_ex(regular(x) @ regular(x).mT)[0]),
            solved_by_old_name(x),
        ),
        (f32(2, 4, 6),),
    ),
    (
        "pseudoinverses",
        lambda x: (torch.linalg.lstsq(x[0, :, :2], x[1]).solution, torch.pinverse(x[0, :2], 0.3)),
        (f32(2, 4, 6),),
    ),
    ("determinants", lambda x: (torch.linalg.det(regular(x)), *torch.linalg.slogdet(regular(-x))), (f32(2, 4, 6),)),
    ("triangular", lambda x: torch.linalg.solve_triangular(regular(x).tril(), x, upper=False), (f32(2, 4, 6),)),
    ("exponential of matrices", lambda x: torch.linalg.matrix_exp(0.1 * x[..., :4]), (f32(2, 4, 6),)),
    ("sums of products", lambda x: torch.addbmm(x[0], x[..., :4], x, beta=0.5, alpha=2), (f32(2, 4, 6),)),
    ("windows and back", there_and_back, (f32(2, 64),)),
)
