"""Array files built by hand, with cuts and metadata that no writer produces."""

import io
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import bloscpack as bp
from bloscpack.array.arraymetadata import array_metadata
from bloscpack.array.layout import is_fortran, stored_bytes
from bloscpack.format.codec import CodecParams, encode
from bloscpack.format.metadata import pack_section

from .reference.file import assemble, take_apart
from .strategies import AnyArray


def array_file(
    array: AnyArray,
    *,
    chunk_nbytes: int = 0,
    codec: str = "lz4",
    checksum: str = "adler32",
    offsets: bool = True,
    **metadata: Any,
) -> bytes:
    """Return a file of `array` in chunks of `chunk_nbytes` bytes, which may cut items."""
    described = array_metadata(array.dtype, array.shape, is_fortran(array)) | metadata
    return content_file(
        bytes(stored_bytes(array)),
        described,
        chunk_nbytes=chunk_nbytes,
        codec=codec,
        checksum=checksum,
        offsets=offsets,
        typesize=array.dtype.itemsize,
    )


def content_file(
    content: bytes,
    metadata: Any,
    *,
    chunk_nbytes: int = 0,
    codec: str = "lz4",
    checksum: str = "adler32",
    offsets: bool = True,
    typesize: int = 1,
) -> bytes:
    size = chunk_nbytes or len(content) or 1
    params = CodecParams(codec, 5, typesize=min(max(typesize, 1), 255), blocksize=256)
    chunks = [
        encode(content[start : start + size], params) for start in range(0, len(content) or 1, size)
    ]
    return assemble(
        chunks, checksum=checksum, offsets=offsets, section=pack_section(metadata, level=1)
    )


def saved(array: Any, **options: Any) -> bytes:
    """Return the file that `save` writes."""
    stream = io.BytesIO()
    bp.save(stream, array, **options)
    return stream.getvalue()


def grid_file(array: AnyArray, chunks: tuple[int, ...], **options: Any) -> bytes:
    """Return a file of `array` in chunks of this shape, as `save` writes it."""
    return saved(array, chunks=chunks, **options)


def flipped(data: bytes, *positions: int) -> bytes:
    """Return a file with a bit changed at each position."""
    changed = bytearray(data)
    for position in positions:
        changed[position] ^= 1
    return bytes(changed)


def wreck(data: bytes, *extents: tuple[int, int]) -> bytes:
    """Return a file with every byte changed between the first and the second of each pair."""
    changed = bytearray(data)
    for start, stop in extents:
        changed[start:stop] = bytes(255 - byte for byte in changed[start:stop])
    return bytes(changed)


def uneven_file(content: bytes, lengths: Sequence[int]) -> bytes:
    """Return a file of version 2 whose last chunk is larger than the others."""
    params = CodecParams("lz4", 5)
    stops = accumulate(lengths)
    parts = [content[stop - length : stop] for length, stop in zip(lengths, stops, strict=True)]
    return assemble([encode(part, params) for part in parts], version=2)


class NotingFile(io.BytesIO):
    """File object that records the ranges of bytes read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []

    def read(self, size: int | None = -1) -> bytes:
        at = self.tell()
        data = super().read(size)
        self.reads.append((at, at + len(data)))
        return data


def bytes_read_per_chunk(stream: NotingFile) -> dict[int, int]:
    """Return the number of bytes read of each chunk that was read."""
    data = stream.getvalue()
    starts = [*take_apart(data).starts, len(data)]
    found: dict[int, int] = {}
    for begin, end in stream.reads:
        for chunk, (start, stop) in enumerate(pairwise(starts)):
            nbytes = min(end, stop) - max(begin, start)
            if nbytes > 0:
                found[chunk] = found.get(chunk, 0) + nbytes
    return found
