"""Reading .npz and .npy files without a pickle in them."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from jfuse.errors import JfuseError


def npz_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a file by name; that of a .npy file has the name "". Raises JfuseError where it holds none."""
    try:
        # Opened here: np.load leaves a damaged file open.
        with Path(path).open("rb") as opened:
            found = np.load(opened, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return {"": found}
            with found:
                return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise JfuseError(f"{path} cannot be read as arrays of NumPy", found=str(error)) from error
