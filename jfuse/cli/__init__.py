"""The command line: the only part of jfuse that prints and exits."""

import os
import sys

from jfuse.cli import clock, interrupts  # the clock first: it counts from here


def main() -> None:
    """The console script `jfuse`: signals are handled from before the commands are imported."""
    interrupts.install()
    _open_streams()
    try:
        from jfuse.cli.app import main as run

        run()
    except interrupts.Interrupted as ending:  # while the commands were imported
        os._exit(int(str(ending.code)))


def _open_streams() -> None:
    """Open standard streams that are closed: else files would get their numbers, and be written to as if streams."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        mode = "r" if name == "stdin" else "w"
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", errors="replace", closefd=False))


__all__ = ["clock", "main"]
