"""Calls of one file in one runtime, for `bench.runs_on`: any Python that has NumPy and the runtime runs it.

    python worker.py RUNTIME MODEL INPUTS OUTPUTS

INPUTS is a .npz with an array `call/position` for each input of each call, OUTPUTS is written the same way. Inputs that
only the first call has are states: later ones get the last outputs of the call before.
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


def openvino(path):
    """Calls in OpenVINO, which computes in bf16 where it is not told otherwise."""
    from openvino import Core

    model = Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda arrays: [model(list(arrays))[port] for port in model.outputs]


def tvm(path):
    """Calls in TVM, compiled by LLVM."""
    import tflite
    from tvm import cpu, relax, runtime
    from tvm.relax.frontend.tflite import from_tflite

    with open(path, "rb") as file:
        module = from_tflite(tflite.Model.GetRootAs(file.read(), 0))
    machine = relax.VirtualMachine(relax.build(module, "llvm"), cpu())

    def call(arrays):
        found = machine["main"](*map(runtime.tensor, arrays))
        return [part.numpy() for part in ([found] if hasattr(found, "numpy") else found)]

    return call


def iree(path):
    """Calls in IREE, from TOSA, compiled for this processor."""
    import iree.compiler
    import iree.runtime
    import tosa_converter_for_tflite as tosa

    form = tosa.TosaConverterOutputFormat
    text = path + ".mlir"
    tosa.tflite_flatbuffer_to_tosa_mlir(path, text, form.Bytecode)
    options = ["--iree-llvmcpu-target-cpu=host"]
    with open(text, "rb") as file:
        program = iree.compiler.compile_str(
            file.read(), target_backends=["llvm-cpu"], input_type="tosa", extra_args=options
        )
    module = iree.runtime.load_vm_flatbuffer(program, driver="local-task")

    def call(arrays):
        found = module.main(*arrays)
        return [part.to_host() for part in (found if isinstance(found, (list, tuple)) else [found])]

    return call


OTHERS = {"openvino": openvino, "apache-tvm": tvm, "iree-base-runtime": iree}


def caller(runtime, path):
    """Function that makes one call of a runtime."""
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
    if runtime in OTHERS:
        return OTHERS[runtime](path)
    raise SystemExit(f"no runtime {runtime}")


def main(runtime, path, inputs, outputs):
    """All calls, in a row."""
    given = np.load(inputs)
    calls = sorted({int(name.split("/")[0]) for name in given.files})
    call = caller(runtime, path)
    found, first, before = {}, [], []
    for number in calls:
        places = sorted((n for n in given.files if n.startswith(f"{number}/")), key=lambda n: int(n.split("/")[1]))
        arrays = [given[name] for name in places]
        first = arrays if number == calls[0] else first
        results = [np.array(a) for a in call(arrays + before[len(before) - len(first) + len(arrays) :])]
        found.update((f"{number}/{place}", array) for place, array in enumerate(results))
        before = results
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
