"""Writing a file so that nothing is left half written, whatever happens on the way."""

from __future__ import annotations

import os
import stat
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.base.option_values import path_of

_SUFFIX = ".jfuse-tmp"
CPP_SUFFIXES = (".cc", ".cpp", ".cxx")
_STALE_S = 24 * 3600  # of temporary files whose process cannot be asked for


def writable_target(path: str | os.PathLike[str]) -> Path:
    """The file behind a path, a link's target included; JfuseError if no file can be written there.

    Called before anything slow, so that a mistyped folder costs no time.
    """
    target = path_of("the file to write", path)
    try:
        target = target.resolve(strict=False)
        mode = target.stat().st_mode if target.exists() else None
        folder_exists = target.parent.is_dir()
    except (OSError, RuntimeError) as error:  # names that are too long, links in a circle
        raise JfuseError("the file cannot be written", where=str(path), found=str(error)) from error
    if mode is not None and not stat.S_ISREG(mode):
        wanted = "a file or a new name"
        raise JfuseError("the file cannot be written", where=str(path), expected=wanted, found=_kind(mode))
    if not folder_exists:
        raise JfuseError("the file cannot be written", where=str(path), found="no such folder", remedy="make it first")
    if not os.access(target.parent, os.W_OK):
        raise JfuseError("the file cannot be written", where=str(path), found="a folder without the right to write")
    return target


def need_regular(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is to be read; JfuseError for pipes and devices, which would be waited for, and folders.

    Whoever opens it reports that it is not there.
    """
    found = path_of("the file to read", path)
    try:
        mode = found.stat().st_mode if found.exists() else None
    except (OSError, ValueError) as error:
        raise JfuseError("the file cannot be read", where=str(path), found=str(error)) from error
    if mode is not None and not stat.S_ISREG(mode):
        raise JfuseError("the file cannot be read", where=str(path), expected="a regular file", found=_kind(mode))
    return found


def write_atomic(path: str | os.PathLike[str], data: bytes | Iterable[Any]) -> None:
    """Write a file under a temporary name beside it, then rename.   data: bytes, or buffers that follow each other

    The file keeps the mode that it had. When this returns, file and folder are on the disk; when it raises, the old
    file is as it was. The next process that writes the same file removes leftovers of a killed one.
    """
    target = writable_target(path)
    _remove_stale(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{uuid.uuid4().hex[:12]}{_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            parts: Iterable[Any] = (data,) if isinstance(data, bytes) else data
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        in_use = "another name: on Windows a file cannot be replaced while a program, or a loaded model, has it open"
        raise JfuseError(
            "the file cannot be written",
            where=str(path),
            found=error.strerror or str(error),
            remedy=in_use if isinstance(error, PermissionError) and target.exists() else None,
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((kind for test, kind in kinds if test(mode)), "a device")


def _sync_folder(folder: Path) -> None:
    """Let the new name reach the disk, where the system can do that for folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_stale(target: Path) -> None:
    with suppress(OSError):
        for found in target.parent.glob(f".{_literal(target.name)}.*{_SUFFIX}"):
            if _is_stale(found):
                with suppress(OSError):
                    found.unlink()


def _literal(name: str) -> str:
    """The name for `glob`, which takes brackets and stars for patterns."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _is_stale(found: Path) -> bool:
    """Whether the process that writes a temporary file is gone."""
    process = found.name.removesuffix(_SUFFIX).rsplit(".", 1)[-1].split("-")[0]
    if os.name == "posix" and process.isdigit():
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return False
    return time.time() - found.stat().st_mtime > _STALE_S
