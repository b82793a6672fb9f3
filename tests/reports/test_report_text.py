"""What print(model.report) says."""

from __future__ import annotations

from dataclasses import replace

from jfuse.records.conversion import Difference, Fusion, LatencyRatio, Noise, Refusal, Report


def test_a_report_is_read_line_by_line() -> None:
    report = Report(
        fused=[Fusion("own.lstm", "fuse_own", "cell (While)", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), 192, 1.4e-15)],
        refused=[Refusal("own.gru", "recover_gru", "no_builtin_op", "gru (While)", "want a cell that TFLite has")],
        assumptions=["N >= 1"],
        operators={"add": 2, "while": 1},
    )
    assert str(report).splitlines() == [
        "fused: own.lstm at cell (While)",
        "  into UNIDIRECTIONAL_SEQUENCE_LSTM; tested on 192 samples, largest error 1.4e-15; no proof: not tried",
        "not fused: recover_gru: no_builtin_op failed at gru (While): want a cell that TFLite has",
        "operators: 2 add, 1 while",
        "largest error: not compared",
        "note: assumed: N >= 1",
    ]


def test_a_fusion_is_proven_tested_or_trusted() -> None:
    fusion = Fusion("own.lstm", "fuse_own", "cell", ("LSTM",), 64, 1e-15, stopped="", conditions=("T >= 1",))
    assert (fusion.proof, str(fusion).splitlines()[1]) == (
        "proven",
        "into LSTM; proven if T >= 1; 64 samples, largest error 1.0e-15",
    )
    assert replace(fusion, stopped="an index that is computed").proof == "tested"
    assert replace(fusion, unproven="body not executable").proof == "trusted"


def test_a_quantized_file_states_its_own_error() -> None:
    """Not the float model's, which stands on a line of its own; warnings come before notes."""
    noise = [Noise("call", "y", 31.62, 8, "LiteRT", error=0.0345), Noise("call", "z", 50.0, 8, "LiteRT", error=1e-3)]
    report = Report(noise=noise, latency=LatencyRatio(1.523, 152.3, 100.0), notes=["a note"])
    report.differences = [Difference("call", "y", "tensorflow/xla", 4.9e-7, 1e-5)]
    report.warn("nothing is smaller")
    assert str(report).splitlines()[1:6] == [
        "largest error: 3.5e-02 of the largest number, SNR 31.6 dB (y, LiteRT), against floats",
        "latency: slower than in floats, 1.52 of the float file's (152.3 instead of 100 us in LiteRT on this machine)",
        "before quantization: 4.9e-07 of at most 1e-05 (tensorflow/xla, y)",
        "warning: nothing is smaller",
        "note: noise: y of call: SNR 31.6 dB in LiteRT",
    ]
    assert report.warnings == ["nothing is smaller"]
