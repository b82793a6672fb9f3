"""A Python of arm64 with LiteRT, emulated by QEMU: packages of Debian and PyPI in a cache folder, about 190 MB.

    python -m bench.runtimes.emulated             # set it up, and print the command of each processor

It needs no root. Debian bookworm's QEMU (7.2) ends in a crash when LiteRT asks for the processor, so that of trixie
(10.0) is taken. The times that an emulated processor takes mean nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

CPUS = ("cortex-a57", "cortex-a76")
"""Without instructions for dot products, and with them: XNNPACK has other kernels for each."""
_MIRROR = "http://deb.debian.org/debian"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PACKAGES = (
    "libc6 libgcc-s1 libstdc++6 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 zlib1g "
    "libssl3 libffi8 libbz2-1.0 liblzma5 libcrypt1"
).split()
_WHEELS = ("ai-edge-litert", "numpy", "ml_dtypes", "flatbuffers")
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")


def folder() -> Path:
    """Where it is, or will be."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jfuse" / "arm64"


def command(cpu: str) -> str:
    """The command that starts Python on an emulated processor, for `device=`."""
    at = folder()
    qemu, root = at / "qemu" / "usr" / "bin" / "qemu-aarch64", at / "root"
    return f"env PYTHONPATH={at / 'site'} {qemu} -cpu {cpu} -L {root} {root / 'usr' / 'bin' / 'python3.11'}"


def versions() -> str:
    """The packages that this Python has, which the emulated one shall have, a line each."""
    return "".join(f"{name}=={version(name)}\n" for name in _WHEELS)


def why_missing() -> str:
    """Why no emulated Python can be had; empty where it is set up with the packages of this one."""
    done = folder() / "versions.txt"
    if not done.is_file():
        return f"no emulated Python in {folder()}: python -m bench.runtimes.emulated sets it up"
    if done.read_text() != versions():
        return "the emulated Python has other packages than this one: python -m bench.runtimes.emulated"
    return ""


def set_up() -> None:
    """Download and unpack it. Raises RuntimeError where a program or a package is not to be had."""
    missing = [program for program in ("apt-get", "dpkg") if shutil.which(program) is None]
    if missing or not _KEYS.is_file():
        raise RuntimeError(f"Debian's packages need {', '.join(missing) or _KEYS}")
    at = folder()
    shutil.rmtree(at, ignore_errors=True)
    _unpacked(at / "root", "bookworm", "arm64", _PACKAGES)
    _unpacked(at / "qemu", "trixie", "amd64", ["qemu-user"])
    for other in (path for path in (at / "qemu" / "usr" / "bin").iterdir() if path.name != "qemu-aarch64"):
        other.unlink()  # emulators of all other processors: 450 MB
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    install = ["install", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11", *platforms]
    _run([sys.executable, "-m", "pip", *install, "--target", str(at / "site"), *versions().split()])
    (at / "versions.txt").write_text(versions())


def _unpacked(root: Path, suite: str, architecture: str, packages: Sequence[str]) -> None:
    """Download packages of a suite of Debian, and unpack them into a folder; nothing is installed."""
    work = root.with_name(f"{root.name}-apt")
    for part in ("lists/partial", "cache/archives/partial", "debs"):
        (work / part).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={_KEYS}] {_MIRROR} {suite} main\n")
    options = {
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": work / "lists",
        "Dir::State::Status": work / "status",
        "Dir::Cache": work / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",  # else apt's own user writes, who has no folder here
    }
    apt = ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    _run([*apt, "update"])
    _run([*apt, "download", *packages], work / "debs")
    for package in sorted((work / "debs").glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(root)])
    shutil.rmtree(work)


def _run(words: Sequence[str], where: Path | None = None) -> None:
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ends with {done.returncode}: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    if why_missing():
        set_up()
    for processor in CPUS:
        print(command(processor))
