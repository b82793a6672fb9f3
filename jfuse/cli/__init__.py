"""The command line: the only part of jfuse that prints and exits."""

from jfuse.cli.app import main

__all__ = ["main"]
