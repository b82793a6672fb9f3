"""Reading .npz and .npy files without a pickle in them."""

from __future__ import annotations

import os

import numpy as np

from jfuse.base.archive_sizes import need_honest_sizes
from jfuse.base.errors import JfuseError
from jfuse.base.files import need_regular
from jfuse.base.limits import DEFAULT_LIMITS


def npz_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a file by name; that of a .npy file has the name "".

    Raises JfuseError where it holds none, or is compressed as only files that are to fill the memory are.
    """
    file = need_regular(path)
    try:
        # Opened here: np.load leaves a damaged file open.
        with file.open("rb") as opened:
            loaded = np.load(opened, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            with loaded:
                need_honest_sizes(file, loaded.zip, DEFAULT_LIMITS)
                return {name: loaded[name] for name in loaded.files}
    except JfuseError:
        raise
    except Exception as error:  # NumPy's, zipfile's, zlib's and tokenize's own
        reason = str(error) or type(error).__name__
        raise JfuseError(f"{path} cannot be read as arrays of NumPy", found=reason) from error
