"""Descriptions of arrays and chunks, as text and as JSON fields."""

from typing import Any

import numpy as np

from ...args import calculate_nchunks
from .output import Console, double_pretty_size


def is_array(metadata: Any) -> bool:
    """Return whether metadata claim to describe an array."""
    return isinstance(metadata, dict) and metadata.get("container") == "numpy"


def dtype_text(dtype: "np.dtype[Any]") -> str:
    """Return the name of a dtype: ``<f8``, ``bfloat16``, or the list of its fields."""
    if dtype.names is not None or dtype.isbuiltin == 2:  # 2: defined outside numpy
        return str(dtype)
    return dtype.str


def array_fields(
    shape: tuple[int, ...], dtype: "np.dtype[Any]", is_fortran: bool
) -> dict[str, Any]:
    """Return the JSON fields that describe an array."""
    return {
        "shape": list(shape),
        "dtype": dtype_text(dtype),
        "order": "F" if is_fortran else "C",
    }


def report_chunks(console: Console, nbytes: int, chunk_size: int) -> None:
    """Print how content is split into chunks, in the words of bloscpack 0.16."""
    if nbytes == 0:
        return
    nchunks, size, last = calculate_nchunks(nbytes, chunk_size)
    if nbytes < chunk_size:
        console.verbose(
            "Input was smaller than the given 'chunk_size': "
            f"{double_pretty_size(chunk_size)} using: {double_pretty_size(nbytes)}"
        )
    console.verbose(f"nchunks: {nchunks}")
    console.verbose(f"chunk_size: {double_pretty_size(size)}")
    console.verbose(f"last_chunk_size: {double_pretty_size(last)}")
