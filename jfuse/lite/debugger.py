"""`QuantizationDebugger`: the official class's metrics of each quantized tensor, without operators for debugging.

The float file and the quantized one run side by side in LiteRT; tensors of both with one name are compared.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

if TYPE_CHECKING:
    from jfuse.lite.converter import TFLiteConverter

Metrics: TypeAlias = Mapping[str, Callable[..., Any]]

_OF_LAYERS: Metrics = {
    "num_elements": np.size,
    "stddev": np.std,
    "mean_error": np.average,
    "max_abs_error": lambda difference: np.max(np.abs(difference)),
    "mean_squared_error": lambda difference: np.average(difference**2),
}


@dataclass
class QuantizationDebugOptions:
    """Metrics by name, and operators that stay float.

    layer_debug_metrics: of the difference of a tensor. layer_direct_compare_metrics: of the float tensor, the integers,
    their scale and zero point. model_debug_metrics: of the float outputs and the quantized ones. denylisted_ops:
    builtins. denylisted_nodes: names of results. fully_quantize: inputs and outputs are int8, too.
    """

    layer_debug_metrics: Metrics | None = None
    model_debug_metrics: Metrics | None = None
    layer_direct_compare_metrics: Metrics | None = None
    denylisted_ops: Collection[str] | None = None
    denylisted_nodes: Collection[str] | None = None
    fully_quantize: bool = False

    def __post_init__(self) -> None:
        own = (self.layer_debug_metrics, self.model_debug_metrics, self.layer_direct_compare_metrics)
        names = [name for metrics in own for name in metrics or ()]
        if len(names) != len(set(names)):
            raise ValueError("Provided metrics have duplicate keys.")


class QuantizationDebugger:
    """Compares a quantized file with the float one, tensor by tensor, over the samples of a data set.

    layer_statistics, model_statistics: means of the metrics over the samples, after `run`.
    The files are those of `converter`, whose optimizations and representative_dataset must be set, or given by path
    or content. Raises ValueError where neither is so.
    """

    def __init__(
        self,
        quant_debug_model_path: str | None = None,
        quant_debug_model_content: bytes | None = None,
        float_model_path: str | None = None,
        float_model_content: bytes | None = None,
        debug_dataset: Callable[[], Iterable[Sequence[np.ndarray]]] | None = None,
        debug_options: QuantizationDebugOptions | None = None,
        converter: TFLiteConverter | None = None,
    ) -> None:
        self.options = debug_options or QuantizationDebugOptions()
        self.converter = converter
        self._data = debug_dataset
        self._floats, self._integers = (
            (float_model_path, float_model_content),
            (quant_debug_model_path, quant_debug_model_content),
        )
        if converter is not None:
            if not converter.optimizations:
                raise ValueError("converter object must set optimizations to lite.Optimize.DEFAULT")
            if not converter.representative_dataset:
                raise ValueError("converter object must set representative_dataset")
        elif None in (float_model_path or float_model_content, quant_debug_model_path or quant_debug_model_content):
            raise ValueError("QuantizationDebugger needs a converter, or the float model and the quantized one.")
        self.layer_statistics: dict[str, dict[str, float]] | None = None
        self.model_statistics: dict[str, float] | None = None
        self._details: dict[str, tuple[str, Any]] = {}

    def get_nondebug_quantized_model(self) -> bytes:
        """The quantized file; raises ValueError without a converter."""
        if self.converter is None:
            raise ValueError("No converter found, use this function with the converter option in the constructor.")
        return self.converter.convert_leaving_float(
            self.options.denylisted_ops or (),
            self.options.denylisted_nodes or (),
            fully_quantize=self.options.fully_quantize,
        )

    def get_debug_quantized_model(self) -> bytes:
        """The same file: no operators are added to it. Raises ValueError without a converter."""
        return self.get_nondebug_quantized_model()

    def run(self) -> None:
        """Run both files on the data set, and set the statistics."""
        if self._data is None:
            raise ValueError("QuantizationDebugger needs a debug_dataset.")
        if self.converter is not None:
            self._floats = None, self.converter.convert_floats()
            self._integers = None, self.get_nondebug_quantized_model()
        floats, integers = (_Run(*given) for given in (self._floats, self._integers))
        pairs = [(d, f) for d in integers.quantized() if (f := floats.like(d["name"])) is not None]
        self._details = {d["name"]: (integers.op_of(d["index"]), d) for d, _ in pairs}
        layers: dict[str, dict[str, list[Any]]] = {}
        whole: dict[str, list[Any]] = {}
        for sample in self._data():
            for side in (floats, integers):
                side.call(sample)
            for details, other in pairs:
                for name, value in self._of_layer(floats.tensor(other), integers.tensor(details), details):
                    layers.setdefault(details["name"], {}).setdefault(name, []).append(value)
            for name, metric in (self.options.model_debug_metrics or {}).items():
                whole.setdefault(name, []).append(metric(floats.outputs(), integers.outputs()))
        self.layer_statistics = {
            layer: {name: float(np.nanmean(values)) for name, values in metrics.items()}
            for layer, metrics in layers.items()
        }
        if self.options.model_debug_metrics:
            self.model_statistics = {name: float(np.mean(values)) for name, values in whole.items()}

    def layer_statistics_dump(self, file: TextIO) -> None:
        """Write the statistics as CSV: op_name, tensor_idx, the metrics, scale, zero_point, tensor_name."""
        own = self.options.layer_debug_metrics, self.options.layer_direct_compare_metrics
        metrics = dict.fromkeys(name for each in (_OF_LAYERS, *own) for name in each or ())
        writer = csv.DictWriter(file, ["op_name", "tensor_idx", *metrics, "scale", "zero_point", "tensor_name"])
        writer.writeheader()
        for name, row in (self.layer_statistics or {}).items():
            op, details = self._details[name]
            scale, zero_point = details["quantization"]
            ends = {"scale": scale, "zero_point": zero_point, "tensor_name": name}
            writer.writerow({"op_name": op, "tensor_idx": details["index"], **row, **ends})

    def _of_layer(self, floats: np.ndarray, integers: np.ndarray, details: Any) -> Iterable[tuple[str, Any]]:
        scale, zero_point = details["quantization"]
        difference = (integers.astype(np.float32) - zero_point) * np.float32(scale) - floats
        for name, metric in {**_OF_LAYERS, **(self.options.layer_debug_metrics or {})}.items():
            yield name, metric(difference)
        for name, metric in (self.options.layer_direct_compare_metrics or {}).items():
            yield name, metric(floats, integers, scale, zero_point)


class _Run:
    """One file in LiteRT, with the values between operators kept."""

    def __init__(self, path: str | None, content: bytes | None) -> None:
        self._interpreter = Interpreter(
            path,
            content,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self._interpreter.allocate_tensors()
        self._ops = {int(i): str(op["op_name"]) for op in self._interpreter._get_ops_details() for i in op["outputs"]}
        self._results = {d["name"]: d for d in self._interpreter.get_tensor_details() if d["index"] in self._ops}

    def op_of(self, index: int) -> str:
        """The name of the builtin that makes a tensor."""
        return self._ops[index]

    def quantized(self) -> list[Any]:
        """The details of the results that are integers of one scale."""
        return [details for details in self._results.values() if details["quantization"][0]]

    def like(self, name: str) -> Any:
        """The details of the float result of a quantized result's name; None if there is none."""
        names = (name, name.removesuffix("_int16"), name.removesuffix("1"))
        return next((self._results[n] for n in names if n in self._results), None)

    def call(self, sample: Sequence[np.ndarray]) -> None:
        """Run on the arrays of the inputs, floats rounded to integers where the file takes those."""
        inputs = self._interpreter.get_input_details()
        if len(inputs) != len(sample):
            raise ValueError(
                f"Number of inputs provided ({len(sample)}) does not match number of inputs to the model "
                f"({len(inputs)})"
            )
        if any(tuple(d["shape"]) != np.shape(array) for d, array in zip(inputs, sample, strict=True)):
            for details, array in zip(inputs, sample, strict=True):
                self._interpreter.resize_tensor_input(details["index"], np.shape(array))
            self._interpreter.allocate_tensors()
        for details, array in zip(inputs, sample, strict=True):
            self._interpreter.set_tensor(details["index"], _stored(np.asarray(array), details))
        self._interpreter.invoke()

    def tensor(self, details: Any) -> np.ndarray:
        """The present value of a tensor."""
        return np.asarray(self._interpreter.get_tensor(details["index"]))

    def outputs(self) -> list[np.ndarray]:
        """The outputs as floats."""
        return [_as_float(self.tensor(d), d) for d in self._interpreter.get_output_details()]


def _stored(array: np.ndarray, details: Any) -> np.ndarray:
    scale, zero_point = details["quantization"]
    if array.dtype != np.float32 or not scale:
        return array
    ends = np.iinfo(details["dtype"])
    return np.asarray(np.clip(np.round(array / scale) + zero_point, ends.min, ends.max), details["dtype"])


def _as_float(array: np.ndarray, details: Any) -> np.ndarray:
    scale, zero_point = details["quantization"]
    return np.asarray((array.astype(np.float32) - zero_point) * np.float32(scale)) if scale else array
