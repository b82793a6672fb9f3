"""Security checks of a `.keras` or `.h5` file, run before Keras loads it.

Both Kerases resolve the modules, classes and functions that the file's configuration names. tf_keras imports any module
that is named, its safe mode included, so `{"module": "os", "config": "system"}` would run. Here only names of Keras's
own modelling modules pass, and objects that the caller has registered.
"""

from __future__ import annotations

import builtins
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from jfuse.base.archive_sizes import need_honest_sizes
from jfuse.base.errors import ImportFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits

_MOST_JSON = 256 * 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1

_FAMILIES = (
    "activations|constraints|dtype_policies|engine|initializers|layers|losses|metrics|mixed_precision|models|ops|"
    "optimizers|quantizers|random|regularizers"
)
_MODULE = re.compile(rf"(tf_)?keras((\.src)?\.({_FAMILIES})(\.\w+)*)?")
_FUNCTIONS = re.compile(
    r"(tf_)?keras(\.src)?\.(activations|constraints|initializers|losses|metrics|ops|regularizers)(\.\w+)*"
)
_CLASS = re.compile(r"[A-Z]\w*")
_FUNCTION = re.compile(r"[a-z_]\w*")
_SPECS = frozenset({"TensorSpec", "RaggedTensorSpec", "SparseTensorSpec"})
_RUN_CODE = frozenset({"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"})
"""Layers that hold code: Python's bytecode, another SavedModel, pickles, serialized JAX functions."""
_NOT_MODELLING = frozenset({"deserialize", "get", "serialize"})
_READ_FILES = ("vocabulary", "idf_weights")
"""Arguments of lookup layers that may be the path of a file."""
_TF_FAMILIES = frozenset(
    (
        "__operators__ audio bitwise dtypes image linalg math nn quantization ragged random sets signal sparse strings"
    ).split()
)
_NOT_COMPUTING = frozenset(
    "function import_graph_def init_scope load_library load_op_library numpy_function print py_function".split()
)

IsRegistered = Callable[[str], bool]
OWN_LAYERS = "for layers of your own, import the module that defines and registers them before"
_REMEDY = f"unsafe=True for a file whose author you trust; {OWN_LAYERS}"


def read_archive(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, Any]:
    """The configuration and the metadata of a `.keras` file.

    Raises ImportFailed where the archive is none, is encrypted, or would take more memory than an honest one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive, limits)
            return _json(path, archive, "config.json"), _json(path, archive, "metadata.json")
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, RecursionError, NotImplementedError) as error:
        raise ImportFailed(
            f"{path} cannot be read as a .keras file", found=f"{type(error).__name__}: {error}"
        ) from error


def check_archive(path: Path, config: Any, is_registered: IsRegistered, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise ImportFailed where loading the file would import, execute or read more than Keras's own layers do.

    is_registered: whether the caller has registered an object of this name with the Keras that will load the file.
    """
    check_config(path, config, is_registered, limits)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".h5"):
                with archive.open(name) as weights:
                    check_weights(path, name, weights)


def check_config(path: Path, config: Any, is_registered: IsRegistered, limits: Limits) -> None:
    """Raise ImportFailed if a configuration names code that is not Keras's own or registered."""
    for place, entry in _entries(config, "config", limits.nesting):
        reason = _why_not(entry, is_registered)
        if reason:
            raise ImportFailed(f"{path} is not loaded: it {reason}", where=place, remedy=_REMEDY)


def _check_members(path: Path, archive: zipfile.ZipFile, limits: Limits) -> None:
    need_honest_sizes(path, archive, limits)
    for member in archive.infolist():
        parts = PurePosixPath(member.filename.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in parts.parts[0]:
            raise ImportFailed(f"{path} holds a member outside of its folder", found=repr(member.filename))
        if member.flag_bits & _ENCRYPTED:
            raise ImportFailed(f"{path} is encrypted", found=repr(member.filename), remedy="save it without a password")
        if member.compress_type not in _METHODS:
            raise ImportFailed(
                f"{path} is compressed in a way that Keras does not use",
                found=f"method {member.compress_type} of {member.filename!r}",
            )


def _json(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _MOST_JSON:
        raise ImportFailed(f"{path}: {name} is too large", expected=f"at most {_MOST_JSON:,} bytes")
    return json.loads(archive.read(name))


def _entries(config: Any, place: str, most: int, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects of the configuration that Keras could resolve to a class or function, with their places."""
    if depth > most:
        raise ImportFailed("the configuration of a Keras file is nested too deeply", expected=f"{most} levels")
    if isinstance(config, dict):
        if "class_name" in config or "module" in config:
            yield place, config
        for key, value in config.items():
            yield from _entries(value, f"{place}.{key}", most, depth + 1)
    elif isinstance(config, list):
        for i, value in enumerate(config):
            yield from _entries(value, f"{place}[{i}]", most, depth + 1)


def _why_not(entry: dict[str, Any], is_registered: IsRegistered) -> str:
    """Say why an object of the configuration is unsafe to load; "" if it is safe."""
    name, module, config = entry.get("class_name"), entry.get("module"), entry.get("config")
    if not isinstance(name, str) or not isinstance(module, str | None):
        return "names a class in a way that Keras does not write"
    if name == "__lambda__" or name in _RUN_CODE:
        return f"holds code, in a {name.strip('_').capitalize() if name == '__lambda__' else name}"
    if name == "__typespec__":
        is_plain = str(module).startswith("tensorflow.") and entry.get("spec_name") in _SPECS
        return "" if is_plain else f"names the type {module}.{entry.get('spec_name')}"
    if name == "function":
        return _why_no_function(module, config, is_registered)
    if module is not None and not is_registered(str(entry.get("registered_name"))):
        if _MODULE.fullmatch(module) is None or _CLASS.fullmatch(name) is None:
            return f"names {module}.{name}, which is none of Keras's layers"
    return _why_not_configured(name, config)


def _why_no_function(module: str | None, name: Any, is_registered: IsRegistered) -> str:
    if not isinstance(name, str):
        return "names a function in a way that Keras does not write"
    if module is None or is_registered(name):
        return ""
    allowed = not hasattr(builtins, name) if module == "builtins" else _FUNCTIONS.fullmatch(module) is not None
    if allowed and _FUNCTION.fullmatch(name) is not None and name not in _NOT_MODELLING:
        return ""
    return f"names the function {module}.{name}"


def _why_not_configured(name: str, config: Any) -> str:
    if not isinstance(config, dict):
        return ""
    paths = [key for key in _READ_FILES if isinstance(config.get(key), str)]
    if paths:
        return f"lets a {name} read the file {config[paths[0]]!r}"
    function = config.get("function", config.get("node_def")) if name in ("TFOpLambda", "SlicingOpLambda") else None
    if function is not None and not _is_computation(function):
        return f"calls TensorFlow's {function!r}"
    return ""


def _is_computation(function: Any) -> bool:
    """Whether a name of TensorFlow's API is a function of tensors."""
    if not isinstance(function, str):
        return False
    first, *rest = function.removeprefix("compat.v1.").split(".")
    return first in _TF_FAMILIES if rest else first not in _NOT_COMPUTING


def check_weights(path: Path, name: str, weights: IO[bytes] | Path) -> None:
    """Raise ImportFailed where a file of weights has links to other files, or data in them."""
    import h5py

    outside: list[str] = []

    def visit(group: Any) -> None:
        for key in group:
            link = group.get(key, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                outside.append(f"{group.name}/{key} -> {link.filename}")
            elif isinstance(link, h5py.HardLink):
                item = group[key]
                if isinstance(item, h5py.Group):
                    visit(item)
                elif item.external:
                    outside.append(f"{item.name} -> {item.external[0][0]}")

    try:
        with h5py.File(weights, "r") as file:
            visit(file)
    except (OSError, RuntimeError, KeyError, RecursionError) as error:
        raise ImportFailed(f"{path}: the weights cannot be read", where=name, found=str(error)) from error
    if outside:
        raise ImportFailed(
            f"{path} is not loaded: its weights are in other files", where=name, found=outside[0], remedy=_REMEDY
        )
