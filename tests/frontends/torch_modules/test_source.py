"""Modules of PyTorch as sources: what they may be given, and what is said where that does not fit."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jfuse
from jfuse import ops
from jfuse.base.errors import ImportFailed, LowerError

torch: Any = pytest.importorskip("torch")

from tests.frontends.torch_modules.modules import Nested, Positions, Same, Unknown  # noqa: E402
from tests.frontends.torch_modules.rows import Of, Spec, f32, i64  # noqa: E402


def dense() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()


def test_a_module_becomes_a_file_that_is_compared_with_it() -> None:
    module = dense()
    result = jfuse.convert(module, [f32(None, 5)])
    assert result.report.operators == {"fully_connected": 2}
    pairs = [(d.pair, d.error < 1e-5) for d in result.report.differences]
    assert pairs == [("pytorch/xla", True), ("pytorch/litert", True)]
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_allclose(result(x), module(torch.from_numpy(x)).detach().numpy(), atol=1e-6)


@pytest.mark.slow
def test_triton_is_not_imported_after_tensorflow(tmp_path: Path) -> None:
    """The import would end the process, as this package does."""
    pytest.importorskip("tensorflow")
    (tmp_path / "triton.py").write_text("import os\nos._exit(3)\n", encoding="utf-8")
    code = (
        f"import sys, tensorflow, torch, jfuse; sys.path.insert(0, {str(tmp_path)!r}); "
        "print(jfuse.convert(torch.nn.Linear(5, 8).eval(), [torch.zeros(2, 5)], verify=False).report.operators); "
        "import triton"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "fully_connected" in done.stdout
    assert done.returncode == 3, "triton can be imported as before"


def constants(module: Any, *specs: Any) -> list[np.ndarray]:
    return list(jfuse.ir.constants_of(jfuse.load(module, specs).program).values())


def test_weights_are_shared() -> None:
    module = torch.nn.Linear(20, 30).eval()
    (weight,) = [c for c in constants(module, f32(2, 20)) if c.shape == (30, 20)]
    assert np.shares_memory(weight, module.weight.detach().numpy())


@pytest.mark.slow
def test_inputs_and_outputs_are_named_after_arguments_and_keys() -> None:
    given = {"x": f32(None, 3), "state": {"pair": (f32(None, 3), torch.zeros(2))}, "scale": 3.0, "flag": None}
    model = jfuse.convert(Nested().eval(), given)
    assert model.signature().input_names == ("x", "state_pair_0", "state_pair_1")
    assert model.signature().output_names == ("sum", "rest_0", "rest_2")
    x = np.ones((4, 3), np.float32)
    found = model(x, x, np.array([1.0, 2.0], np.float32))
    np.testing.assert_allclose(found["rest_0"], [3.0, 6.0])
    assert found["rest_2"] == 4


def test_dims_of_torch_export_stay_open_under_their_names() -> None:
    batch = torch.export.Dim("batch")
    given = jfuse.load(dense(), jfuse.Inputs((torch.zeros(2, 5),), dynamic_shapes=({0: batch},)))
    assert str(given.signature().graph.inputs[0].type) == "f32[batch,5]"
    assert str(jfuse.load(dense(), (torch.zeros(2, 5),)).signature().graph.inputs[0].type) == "f32[2,5]"


@pytest.mark.parametrize("shape", [(None, None), tuple(jax.export.symbolic_shape("b, t"))])
def test_limits_that_torch_export_finds_are_told(shape: tuple[Any, ...]) -> None:
    module = Positions().eval()
    result = jfuse.convert(module, [i64(*shape)])
    assert [note for note in result.report.notes if "at most" in note] == [
        f"{shape[1] or 'ids_1'} is at most 40, as torch.export finds"
    ]
    ids = np.array([[1, 8, 0]])
    np.testing.assert_allclose(result(ids), module(torch.from_numpy(ids)).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("function", "spec", "wanted"),
    [
        (lambda x: x.reshape(x.shape[0], -1, 8).sum(2), f32(None, None), "f32[arguments_0_0,arguments_0_1]"),  # eights
        (lambda x: x.unfold(0, 400, 160).sum(1), f32(None), "f32[arguments_0_0]"),  # windows over sound
        (lambda x: x.view(x.shape[0], x.shape[1] // 2, 2).sum(2), f32("b", "2*t"), "f32[b,2*t]"),
    ],
)
def test_open_sizes_that_few_numbers_fit(function: Any, spec: Spec, wanted: str) -> None:
    shape = [jax.export.symbolic_shape(d)[0] if isinstance(d, str) else d for d in spec.shape]
    graph = jfuse.load(Of(function), [Spec(tuple(shape))]).signature().graph
    assert [str(v.type) for v in graph.inputs] == [wanted]


def test_the_first_error_is_told_where_no_size_fits() -> None:
    def refusing(x: Any) -> Any:
        raise ValueError(f"{float(x.shape[0])} is wrong")

    with pytest.raises(ImportFailed, match=r"ValueError: 2\.0 is wrong"):
        jfuse.load(Of(refusing), [f32(None, 3)])


@pytest.mark.slow
def test_modules_by_key_are_signatures() -> None:
    modules = {"twice": Of(lambda x: x * 2), "size": Of(lambda x: x.sum())}
    result = jfuse.convert(modules, {"twice": [f32(3)], "size": [f32(2, 2)]})
    assert list(result.signatures) == ["twice", "size"]
    assert {d.signature for d in result.report.differences} == {"twice", "size"}


@pytest.mark.parametrize(
    ("module", "remedy"),
    [(torch.nn.Conv1d(4, 4, 5), r"time = Dim\('time', min=5\)"), (torch.nn.LayerNorm(10), "time = 10")],
)
def test_what_torch_suggests_for_a_size_is_what_to_try(module: Any, remedy: str) -> None:
    shapes = ({2: torch.export.Dim("time")},)
    with pytest.raises(ImportFailed, match=rf"try +in dynamic_shapes=: {remedy}$"):
        jfuse.load(module.eval(), jfuse.Inputs([torch.zeros(2, 4, 10)], dynamic_shapes=shapes))


def test_a_fake_quantization_is_a_trained_range() -> None:
    class Trained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(6, 5)

        def forward(self, x: Any) -> Any:
            """With 8 bits everywhere."""
            steps = torch.linspace(0.005, 0.01, 5)
            zeros = torch.zeros(5, dtype=torch.int32)
            weight = torch.fake_quantize_per_channel_affine(self.layer.weight, steps, zeros, 0, -127, 127)
            x = torch.fake_quantize_per_tensor_affine(x, 0.02, 3, -128, 127)
            x = torch.nn.functional.linear(x, weight, self.layer.bias)
            return torch.fake_quantize_per_tensor_affine(x, 0.03, 0, -128, 127)

    module = Trained().eval()
    result = jfuse.convert(module, [f32(None, 6)], quantize="int8")  # no data for calibration: all ranges are trained
    scales = {
        float(s)
        for e in result.program.graphs()[0].eqns
        for v in e.outputs
        if (q := v.type.quantization)
        for s in q.scale
    }
    assert any(abs(s - 0.02) < 1e-6 for s in scales)
    assert any(abs(s - 0.03) < 1e-6 for s in scales)
    x = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
    assert np.abs(result(x) - wanted).max() < 0.031  # one step


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_narrow_weights_keep_their_type(kind: Any) -> None:
    module = torch.nn.Linear(20, 30).eval().to(kind)
    found = constants(module, torch.zeros(2, 20, dtype=kind))
    assert [str(c.dtype) for c in found if c.shape == (30, 20)] == [str(kind)[6:]]


def test_contexts_are_looked_through() -> None:
    def inner(x: Any) -> Any:
        with torch.no_grad():
            y = x.exp()
        return y + x

    assert jfuse.lower(jfuse.load(Of(inner), [f32(4)])).report.operators == {"exp": 1, "add": 1}


def test_a_rule_of_the_user_for_an_operator() -> None:
    @jfuse.lowers_torch("aten.special_bessel_j0", default=False)
    def lower_bessel(x: Any) -> Any:
        return ops.cos(x)

    result = jfuse.lower(jfuse.load(Of(torch.special.bessel_j0), [f32(4)], rules=[lower_bessel]))
    assert result.report.operators == {"cos": 1}


def test_all_operators_without_a_rule_are_named_with_their_places() -> None:
    with pytest.raises(LowerError, match="2 operators") as caught:
        jfuse.load(Unknown().eval(), [f32(4)])
    text = str(caught.value)
    assert "bessel_j0 (2), first at inner/" in text
    assert "special_bessel_y0 (1)" in text
    assert "return torch.special.bessel_y0(self.inner(x))" in text


@pytest.mark.parametrize(
    ("source", "specs", "error", "message"),
    [
        (torch.nn.Linear(2, 2), [f32(1, 2)], ImportFailed, "training mode"),
        (dense(), None, ImportFailed, "the inputs of the module are unknown"),
        (dense(), [f32(None, 6)], ImportFailed, "torch.export cannot export Sequential"),
        (
            Of(lambda x: torch.nn.functional.pad(x, (0, x.shape[-1] // 2), mode="reflect")),
            [f32(1, 3, None)],
            LowerError,
            "over an open size",
        ),
        (Of(lambda x: x + torch.poisson(x)), [f32(4)], LowerError, "aten.poisson has no TFLite spelling"),
        (Of(lambda x: torch.randint_like(x, 2**30)), [f32(4)], LowerError, "range that is large"),
        (
            Of(lambda x: torch.nn.functional.max_pool2d(x, 2, return_indices=True)[1] + 1),
            [f32(1, 1, None, 4)],
            LowerError,
            "no such result",
        ),
        (Of(lambda x: torch.linalg.lstsq(x, x).rank), [f32(4, 4)], LowerError, "result 2 is needed by output"),
        ({"a": dense()}, [f32(1, 5)], ImportFailed, "an entry for each module"),
    ],
)
def test_what_does_not_fit_is_said(source: Any, specs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        jfuse.convert(source, specs)


@pytest.mark.slow
def test_a_file_of_torch_export_is_read_where_its_author_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    layer = torch.nn.LSTM(3, 4, batch_first=True).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.export's, about the layer's list of weights
        program = torch.export.export(layer, (torch.zeros(2, 5, 3),), strict=False)
    torch.export.save(program, path)
    with pytest.raises(ImportFailed, match="may run code"):
        jfuse.convert(path)
    result = jfuse.convert(path, unsafe=True)
    assert [f.composite for f in result.report.fused] == ["jfuse.lstm"]
    assert jfuse.convert(program, verify=False).report.operators == result.report.operators


def test_what_is_no_file_of_torch_export_is_said(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"no archive")
    with pytest.raises(ImportFailed, match="cannot be read"):
        jfuse.load(path, unsafe=True)
    with pytest.raises(ImportFailed, match="does not exist"):
        jfuse.load(tmp_path / "other.pt2", unsafe=True)


def test_exporting_leaves_torch_as_it_was() -> None:
    from torch.nn.modules import rnn

    before = rnn._VF, torch.backends.mha.get_fastpath_enabled()
    jfuse.load(torch.nn.GRU(3, 4).eval(), [f32(5, 2, 3)])
    assert (rnn._VF, torch.backends.mha.get_fastpath_enabled()) == before


@pytest.mark.slow
def test_no_tensorflow_is_imported() -> None:
    code = (
        "import sys, jfuse, torch\n"
        "jfuse.convert(torch.nn.Tanh().eval(), [torch.zeros(2, 3)])\n"
        "assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300).returncode == 0


def test_types_that_tflite_lacks_are_named() -> None:
    with pytest.raises(ImportFailed, match="the input 'x' is of a type that TFLite lacks"):
        jfuse.load(Same().eval(), [torch.zeros(2).to(torch.float8_e8m0fnu)])


def test_indices_that_are_computed_are_spoken_of() -> None:
    model = jfuse.load(Of(lambda i: torch.arange(5.0)[i]), [i64(None)])
    assert any("indices" in note for note in model.report.notes)


def test_specs_of_any_kind_are_taken() -> None:
    for spec in (torch.zeros(2, 5), np.zeros((2, 5), np.float32), Spec((2, 5)), Spec((2, 5), torch.float32)):
        assert str(jfuse.load(dense(), [spec]).signature().graph.inputs[0].type) == "f32[2,5]"


def test_weights_that_are_nan_are_named() -> None:
    module = torch.nn.Linear(4, 3).eval()
    with torch.no_grad():
        module.weight[1, 2] = torch.nan
    told = "'weight' of the module holds 1 NaN among 12 numbers: values computed from it are NaN"
    assert told in jfuse.load(module, [f32(2, 4)]).report.notes
