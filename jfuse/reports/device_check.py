"""A file tried by LiteRT on a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Program
from jfuse.running.file_process import CompiledModelProcess
from jfuse.running.loaded_file import asked
from jfuse.running.programs.device import AboutDevice, Device
from jfuse.running.worker import Refused
from jfuse.verification.allocation import need_allocation

_FILLER = re.compile(r"INFO: .*?(?=ERROR: |$)")
"""Text that CompiledModel prints between its reasons."""
_SAID = 300  # characters of a reason


@dataclass(frozen=True)
class RuntimeCheck:
    """Why a runtime on a device does not take a file; "" where it does.   expected: whether it is asked to"""

    name: str
    refusal: str
    expected: bool


@dataclass(frozen=True)
class DeviceCheck:
    """A device, and which of its runtimes take the file."""

    about: AboutDevice
    runtimes: tuple[RuntimeCheck, ...]

    @property
    def runs(self) -> bool:
        """Whether the runtimes that are asked to do take the file."""
        return not any(r.refusal for r in self.runtimes if r.expected)

    def lines(self) -> Iterator[str]:
        """Yield a line for the device and one for each runtime."""
        yield f"device: {self.about}"
        for r in self.runtimes:
            yield f"  {r.name:<15}" + (f"refuses the file: {r.refusal}" if r.refusal else "takes the file")


def check_device(program: Program, data: bytes, device: Device, *, with_compiled: bool | None) -> DeviceCheck:
    """Load a file in the runtimes of a device, and let them allocate its tensors.

    with_compiled: whether CompiledModel must take it, too; None to report it only.
    """
    about = asked(device)
    runtimes = [RuntimeCheck("Interpreter", _refusal(lambda: need_allocation(program, data, device=device)), True)]
    if with_compiled is not False:
        compiled = _refusal(lambda: CompiledModelProcess(data, program, device=device).close())
        runtimes.append(RuntimeCheck("CompiledModel", compiled, with_compiled is True))
    return DeviceCheck(about, tuple(runtimes))


def _refusal(load: Callable[[], object]) -> str:
    try:
        load()
    except Refused as error:
        return str(error)
    except JfuseError as error:
        return _FILLER.sub("", " ".join(f"{error.message}: {error.found or ''}".split()))[:_SAID]
    return ""
