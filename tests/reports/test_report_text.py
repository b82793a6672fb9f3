"""What print(model.report) says."""

from __future__ import annotations

from jfuse.report import Fusion, Refusal, Report


def test_a_report_is_read_line_by_line() -> None:
    report = Report(
        fused=[Fusion("own.lstm", "fuse_own", "cell (While)", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), 192, 1.4e-15)],
        refused=[Refusal("own.gru", "recover_gru", "no_builtin_op", "gru (While)", "want a cell that TFLite has")],
        assumptions=["N >= 1"],
        operators={"add": 2, "while": 1},
    )
    assert str(report).splitlines() == [
        "fused: own.lstm at cell (While)",
        "  into UNIDIRECTIONAL_SEQUENCE_LSTM; proven with 192 samples, largest error 1.4e-15",
        "not fused: recover_gru: no_builtin_op failed at gru (While): want a cell that TFLite has",
        "operators: 2 add, 1 while",
        "largest error: not compared",
        "note: assumed: N >= 1",
    ]
