"""The file that ai-edge-quantizer makes of a float one, for `bench.quantize`: any Python that has it runs this.

    python quantize_edge.py FLOAT.tflite SAMPLES.npy RECIPE OUT.tflite

RECIPE is the name of a function of its module `recipe`. The samples, [count, ...], calibrate where the recipe needs it.
"""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe


def main(source, samples, name, target):
    """Quantize, and write the file."""
    made = quantizer.Quantizer(source, getattr(recipe, name)())
    calibrated = None
    if made.need_calibration:
        ((key, places),) = Interpreter(model_path=source).get_signature_list().items()
        (place,) = places["inputs"]
        calibrated = made.calibrate({key: [{place: row[None]} for row in np.load(samples)]}, num_threads=2)
    made.quantize(calibrated, enable_progress_report=False).export_model(target, overwrite=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
