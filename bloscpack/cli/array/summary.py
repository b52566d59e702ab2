"""Summary of an array or of bytes, which ``blpk info`` prints on a terminal."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...array.arraymetadata import chunk_shape, describe_content
from ...container.reader import Container
from ...exceptions import BloscpackError
from ...format.codec import ChunkHeader
from ...format.metadata import describes_array
from ..console.describe import dtype_text, kept_text, shape_text
from ..console.table import attrs_text, exact_size_text, size_text

_READERS = {3: "bloscpack 0.3 and later"}
_NEW_READERS = "bloscpack 1.0 and later, not 0.16"


def summary_fields(
    container: Container,
    metadata: Any,
    chunk: ChunkHeader | None,
    array: dict[str, Any] | None,
    cbytes: int,
    kept: dict[str, int | None],
    stats: dict[str, Any] | None,
) -> Iterator[tuple[str, object]]:
    """Yield names and values; those of None are not printed.

    `chunk` is the header of the first chunk. `array` is None if the metadata do not describe an
    array. `kept` is the result of `kept_fields`, and `stats` that of `whole_statistics`.
    """
    header = container.header
    try:
        content = describe_content(container)
        chunks = chunk_shape(container, content)
    except BloscpackError:
        array = None
    if array is not None:
        dtype, shape, is_fortran = content
        yield "kind", "array"
        yield "shape", shape_text(shape)
        yield "dtype", _dtype(dtype)
        yield "order", "F (first axis varies fastest)" if is_fortran else None
    else:
        yield "kind", "array with invalid metadata" if describes_array(metadata) else "bytes"
        shape, chunks = (), None
    yield "decoded", exact_size_text(container.nbytes)
    yield "stored", exact_size_text(cbytes)
    yield "ratio", f"{container.nbytes / cbytes:.2f}"
    yield "chunks", _chunks(container, shape, chunks)
    yield "codec", _codec(container, chunk)
    yield "checksum", header.checksum.name
    if array is not None:
        keepbits = metadata.get("keepbits")
        yield "keepbits", keepbits if isinstance(keepbits, int) else None
        yield "statistics", _statistics(stats)
        yield "attrs", attrs_text(metadata.get("attrs"))
    else:
        yield "metadata", attrs_text(metadata)
    commit = container.front.commit
    version = header.format_version if commit is None else 4
    yield "format", f"version {version}, read by {_READERS.get(version, _NEW_READERS)}"
    if commit is not None:
        yield "commit", f"{commit.sequence}, {exact_size_text(commit.dead)} not in use"
    yield "versions", kept_text(kept)
    yield "trailer", container.front.trailer_state


def _dtype(dtype: "np.dtype[Any]") -> str:
    text = dtype_text(dtype)
    return text if dtype.names is not None or text == dtype.name else f"{dtype.name} ({text})"


def _statistics(stats: dict[str, Any] | None) -> str | None:
    if stats is None or stats["min"] is None:
        return f"only NaN: {stats['nan']}" if stats is not None and stats["nan"] else None
    text = f"{stats['min']} to {stats['max']}"
    return f"{text}, {stats['nan']} NaN" if stats["nan"] else text


def _chunks(container: Container, shape: tuple[int, ...], chunks: tuple[int, ...] | None) -> str:
    count = container.nchunks
    if not count:
        return "0"
    size = size_text(container.chunk_size if count > 1 else container.nbytes)
    if chunks is None:
        return f"{count} of {size}"
    text = f"{count} of {shape_text(chunks)}, {size}"
    if container.grid is None:
        return text
    sides = [-(-side // step) for side, step in zip(shape, chunks, strict=True)]
    return f"{text}, in a grid of {shape_text(sides)}"


def _codec(container: Container, chunk: ChunkHeader | None) -> str | None:
    if chunk is None:
        return "unknown: the first chunk is damaged" if container.nchunks else None
    if chunk.is_array:
        return "array chunks"
    if chunk.is_memcpy:
        return "stored without compression"
    return f"{chunk.codec}, {chunk.shuffle.name.lower()} shuffle, {chunk.typesize} bytes per item"
