"""Recurrences in 8 bits in LiteRT: time and bytes of each form, relative to the float file's.

    python -m bench.recurrences_in_8_bits [--seconds 1] [--json bench/results/recurrences_in_8_bits.json]

LSTMs of 32 to 256 units and a GRU of 128 over 50 steps of half as many features, batch 1, one thread, random weights
and inputs. All files of a row take turns in one process, so that what else the machine does disturbs all alike;
the ratios are those of medians.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

import jfuse
from bench.latency import medians_us

STEPS = 50
ROWS = (("LSTM", 32), ("LSTM", 64), ("LSTM", 128), ("LSTM", 256), ("GRU", 128))
FORMS: dict[str, dict[str, Any]] = {
    "float": {},
    "int8": {"quantize": "int8"},
    "int8, fused": {"quantize": "int8", "prefer": "fused"},
    "int8, size": {"quantize": "int8", "prefer": "size"},
    "dynamic": {"quantize": "dynamic"},
    "dynamic, fused": {"quantize": "dynamic", "prefer": "fused"},
}


def measure(layer: str, units: int, seconds: float) -> dict[str, Any]:
    """One row: of each form the bytes, the microseconds, and both by the float file's."""
    import keras

    keras.utils.set_random_seed(0)
    features = units // 2
    inputs = keras.Input((STEPS, features), batch_size=1, name="x")
    model = keras.Model(inputs, keras.layers.Dense(8)(getattr(keras.layers, layer)(units)(inputs)))
    samples = np.random.default_rng(0).standard_normal((20, 1, STEPS, features)).astype(np.float32)
    source = jfuse.load(model)
    files = {
        name: jfuse.lower(source, calibration=samples if form.get("quantize") == "int8" else None, **form).to_bytes()
        for name, form in FORMS.items()
    }
    us = dict(zip(files, medians_us(list(files.values()), samples[0], seconds), strict=True))
    forms = {
        name: {
            "bytes": len(data),
            "us": us[name],
            "time": us[name] / us["float"],
            "size": len(data) / len(files["float"]),
        }
        for name, data in files.items()
    }
    return {"layer": layer, "units": units, "steps": STEPS, "features": features, "forms": forms}


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of calls for each file")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--note", default="", help="of the machine, for the JSON")
    options = parser.parse_args()
    rows = []
    for layer, units in ROWS:
        rows.append(measure(layer, units, options.seconds))
        for name, form in rows[-1]["forms"].items():
            print(
                f"{layer} {units:<4} {name:15} {form['time']:5.2f} of the time, {form['bytes']:>9,} bytes", flush=True
            )
    if options.json is not None:
        found = {"machine": platform.processor() or platform.machine(), "note": options.note, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
