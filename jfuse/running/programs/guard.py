"""Runs a command that ends with the process that started it, and removes its folder.

    python guard.py PARENT FOLDER COMMAND...

PARENT is that process. Where it ends, whatever ends it, this one removes FOLDER and ends the command with all that it
has started. Else it ends as the command does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

_LOOK_S = 0.5


def main(parent: str, folder: str, *command: str) -> None:
    """Run the command."""
    process = subprocess.Popen(command)
    while True:
        try:
            status = process.wait(_LOOK_S)
            break
        except subprocess.TimeoutExpired:
            if os.getppid() != int(parent):
                process.kill()
                process.wait()
                shutil.rmtree(folder, ignore_errors=True)
                os.killpg(0, signal.SIGKILL)
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
