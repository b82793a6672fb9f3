"""Calls of one file in one runtime, for `bench.runs_on`: any Python that has NumPy and the runtime runs it.

    python runs_on_worker.py RUNTIME MODEL INPUTS OUTPUTS

INPUTS is a .npz with an array `call/position` for each input of each call, OUTPUTS is written the same way.
"""

import sys

import numpy as np


def tflite(path, module):
    """Calls in a TFLite interpreter."""
    interpreter = module.Interpreter(model_path=path, num_threads=1)
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def call(arrays):
        for detail, array in zip(inputs, arrays):  # noqa: B905 - older Pythons run this, too
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in outputs]

    return call


def caller(runtime, path):
    """What makes one call after another."""
    if runtime == "ai-edge-litert":
        from ai_edge_litert import interpreter

        return tflite(path, interpreter)
    if runtime == "tflite-runtime":
        from tflite_runtime import interpreter

        return tflite(path, interpreter)
    if runtime == "onert":
        from onert import infer

        session = infer.session(path)
        return lambda arrays: session.infer(list(arrays))
    raise SystemExit(f"no runtime {runtime}")


def main(runtime, path, inputs, outputs):
    """All calls, in a row."""
    given = np.load(inputs)
    calls = sorted({int(name.split("/")[0]) for name in given.files})
    call = caller(runtime, path)
    found = {}
    for number in calls:
        places = sorted((n for n in given.files if n.startswith(f"{number}/")), key=lambda n: int(n.split("/")[1]))
        for place, array in enumerate(call([given[name] for name in places])):
            found[f"{number}/{place}"] = np.array(array)
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
