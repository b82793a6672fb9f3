"""A process that keeps the output of libraries, and prints it if one of them ends the command.

    python last_words.py

Standard input is their output. It ends when the command does; one that ends in order ends this process before. It
imports nothing slow, and runs without the command's paths.
"""

from __future__ import annotations

import os
import re

_MOST = 4000  # bytes
_PART = 1 << 16
_ABOUT_NOTHING = re.compile(rb"(?:[IW]\d{4} |WARNING: All log messages before absl)")  # start-up lines of absl


def main() -> None:
    """Read to the end, and write all but mere information."""
    words = b""
    while part := os.read(0, _PART):
        words = (words + part)[-_MOST:]
    lines = [line for line in words.splitlines() if line.strip() and not _ABOUT_NOTHING.match(line)]
    if lines:
        os.write(2, b"\n".join([b"a library ended the command; it said last:", *lines, b""]))


if __name__ == "__main__":
    main()
