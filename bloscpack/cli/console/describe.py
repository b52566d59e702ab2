"""Descriptions of arrays, chunks and metadata, as text and as JSON fields."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...exceptions import BloscpackError
from ...format.metadata import MetadataHeader
from ...original.args import calculate_nchunks
from ...storage.protocol import ByteSource
from .output import Console, double_pretty_size, format_metadata


def dtype_text(dtype: "np.dtype[Any]") -> str:
    """Return the name of a dtype: ``<f8``, ``bfloat16``, or the list of its fields."""
    if dtype.names is not None or dtype.isbuiltin == 2:  # 2: defined outside numpy
        return str(dtype)
    return dtype.str


def shape_text(shape: Sequence[int] | None) -> str:
    """Return a shape without blanks: ``10x3``, ``()`` for zero dimensions, ``-`` for None."""
    if shape is None:
        return "-"
    return "x".join(map(str, shape)) or "()"


def array_fields(
    shape: tuple[int, ...], dtype: "np.dtype[Any]", is_fortran: bool
) -> dict[str, Any]:
    """Return the JSON fields that describe an array."""
    return {"shape": list(shape), "dtype": dtype_text(dtype), "order": "F" if is_fortran else "C"}


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


def read_metadata_file(name: str) -> Any:
    """Return the JSON value in a file."""
    try:
        return json.loads(Path(name).read_bytes().strip())
    except (ValueError, RecursionError) as err:
        raise ValueError(f"metadata file '{name}' is not valid JSON: {err}") from err


def report_metadata(console: Console, header: MetadataHeader | None) -> None:
    """Print the size of the metadata, in the words of bloscpack 0.16."""
    if header is not None:
        how = "uncompressed" if header.meta_codec == "None" else "compressed"
        console.verbose(f"read {how} metadata of size: '{header.meta_comp_size}'")


def metadata_text(metadata: Any, header: MetadataHeader) -> str:
    """Return the metadata of a file with a heading, as bloscpack 0.16 prints them."""
    return "Metadata:\n" + format_metadata(metadata, header.meta_size)


def kept_fields(
    source: ByteSource, errors: list[BloscpackError], *, is_log: bool
) -> dict[str, int | None]:
    """Return the number of earlier versions that a file keeps, and the bytes that only they use.

    Damage is added to `errors`.
    """
    kept: list[int] | None = None
    if is_log:
        from ...container.logreader import (  # on use: few files change
            last_used_nbytes,
            read_versions,
        )

        try:
            *kept, _ = last_used_nbytes(source, read_versions(source))
        except BloscpackError as err:
            errors.append(err)
    if kept is None:
        return {"kept_versions": None, "kept_nbytes": None}
    return {"kept_versions": len(kept), "kept_nbytes": sum(kept)}


def kept_text(kept: dict[str, int | None]) -> str | None:
    """Return the result of `kept_fields` as text; None without versions."""
    if not kept["kept_versions"]:
        return None
    from .table import exact_size_text  # on use: it looks at the terminal

    return f"{kept['kept_versions']} before it, {exact_size_text(kept['kept_nbytes'] or 0)} more"
