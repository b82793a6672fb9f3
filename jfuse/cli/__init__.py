"""The command line: the only part of jfuse that prints and exits."""

import os

from jfuse.cli import clock, interrupts  # the clock first: it counts from here


def main() -> None:
    """The console script `jfuse`: signals are handled from before the commands are imported."""
    interrupts.install()
    try:
        from jfuse.cli.app import main as run

        run()
    except interrupts.Interrupted as ending:  # while the commands were imported
        os._exit(int(str(ending.code)))


__all__ = ["clock", "main"]
