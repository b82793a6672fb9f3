"""Names of files for TensorFlow and Keras, which take texts in UTF-8 only; other systems' folders may have others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def utf8_name(path: Path) -> Iterator[Path]:
    """The path, or that of a link to it for the time of the `with`, where it has bytes that are no UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder) / f"model{path.suffix}"
            link.symlink_to(path.resolve())
            yield link
    else:
        yield path
