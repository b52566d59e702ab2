"""Descriptions of arrays, chunks and damage, as text and as JSON fields."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...args import calculate_nchunks
from .output import Console, double_pretty_size

if TYPE_CHECKING:
    from ...damage.report import Damage


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


def damage_documents(damages: "Iterable[Damage]") -> list[dict[str, Any]]:
    """Return the JSON fields of each damage."""
    return [
        {
            "what": damage.what,
            "index": damage.index,
            "offset": damage.offset,
            "end": damage.end,
            "first": damage.first,
            "last": damage.last,
            "rows": damage.rows and list(damage.rows),
            "clip": damage.clip,
            "frames": damage.frames and list(damage.frames),
        }
        for damage in damages
    ]


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
