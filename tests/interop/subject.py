"""Names for snippets that run with bloscpack 0.16 and with ours.

The package as ``bp``, numpy as ``np``, `describe`, `BytesIO` and `Path`.
"""

import importlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np


def describe(array: Any) -> tuple[str, list[int], str, bytes]:
    """Return the dtype, shape, order and C-order bytes of an array, for comparison."""
    dtype = array.dtype
    text = repr(dtype.str) if dtype.names is None else repr(dtype.descr)
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return text, list(array.shape), "F" if is_fortran else "C", array.tobytes("C")


def names(bp: Any) -> dict[str, Any]:
    """Return the names for snippets about a package."""
    return {"bp": bp, "np": np, "describe": describe, "BytesIO": BytesIO, "Path": Path}


def load() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the version and codecs of bloscpack, and the names; for `tests.snippets`."""
    bp = importlib.import_module("bloscpack")
    importlib.import_module("bloscpack.append")
    blosc = bp.file_io.blosc
    # The order of blocks within a chunk depends on threads; on one it is canonical.
    blosc.set_nthreads(1)
    return {"bloscpack": bp.__version__, "codecs": blosc.compressor_list()}, names(bp)
