"""A stateful model in LiteRT's CompiledModel, call after call: python examples/compiled_model.py"""

from pathlib import Path

import keras
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel

import jfuse

inputs = keras.Input((8, 4), batch_size=1, name="x")
model = keras.Model(inputs, keras.layers.LSTM(16, stateful=True)(inputs))
# Without this target the file is for Interpreter alone: CompiledModel loads no variable tensors.
path = jfuse.convert(model, target="compiled-model").save(Path("stream.tflite"))

compiled = CompiledModel.from_file(str(path))
before, after = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
pieces = np.random.default_rng(0).standard_normal((3, 1, 8, 4)).astype(np.float32)
answers = []
for x in pieces:  # the file goes on where the call before ended
    before[0].write(np.ascontiguousarray(x).ravel())
    compiled.run_by_index(0, before, after)
    answers.append(after[0].read(16, np.float32))
    print(answers[-1][:4])
