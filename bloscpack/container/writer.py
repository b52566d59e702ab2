"""Sequential writer of a container: header, metadata, offset table, chunks with their digests.

The offset table is first written with unused entries, as in bloscpack 0.16, and filled in after the
last chunk. An interrupted write therefore leaves an empty table, never a wrong one.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from xxhash import xxh3_64_digest

from ..format.checksum import Checksum
from ..format.codec import CodecParams, encode_measured
from ..format.header import (
    FEATURE_ARRAY_CHUNKS,
    FEATURE_GRID,
    OFFSET_SIZE,
    UNUSED_ENTRY,
    Header,
    pack_offsets,
    version_for,
)
from ..format.metadata import pack_section
from ..format.trailer import pack_trailer
from ..parallel.threads import map_ordered
from ..storage.protocol import ByteSink
from ..storage.sink import SpoolSink
from ..types import BytesLike, Progress
from .defaults import SPARE_METADATA_NBYTES

# A file of one chunk of this size is written at once, which takes less time than its parts.
_SMALL_NBYTES = 64 << 10


def new_section(metadata: Any) -> bytes:
    """Return the metadata section of a new file, with a little spare room."""
    return pack_section(metadata, reserve=lambda nbytes: nbytes + SPARE_METADATA_NBYTES)


class Writable(Protocol):
    """Destination that is written front to back."""

    def write(self, data: BytesLike) -> object:
        """Append `data`."""


class _Parts(list[BytesLike]):
    """Destination that collects what is written to it."""

    write = list.append


class Encoded(NamedTuple):
    """Compressed chunk."""

    nbytes: int  # decoded size
    # Stored bytes: the chunk, followed by its digest.
    chunk: bytes
    digest: bytes
    strong: bytes  # XXH3 of the chunk, for the trailer; empty in a file without one
    statistics: bytes  # empty in a file without them


class Chunking(NamedTuple):
    """Division of content into chunks."""

    nchunks: int  # number of chunks, at least 1, as empty content is one empty chunk
    # Decoded size in bytes of every chunk but the last, and of the last.
    chunk_size: int
    last_chunk: int

    @classmethod
    def of(cls, nbytes: int, chunk_size: int) -> "Chunking":
        """Divide `nbytes` into chunks of `chunk_size`, even if it is larger than `nbytes`."""
        if nbytes == 0:
            return cls(1, chunk_size, 0)
        nchunks = -(-nbytes // chunk_size)
        return cls(nchunks, chunk_size, nbytes - (nchunks - 1) * chunk_size)

    @property
    def nbytes(self) -> int:
        """Size of the content in bytes."""
        return (self.nchunks - 1) * self.chunk_size + self.last_chunk

    def cut(self, content: memoryview) -> Iterable[memoryview]:
        """Yield the chunks of `content` as views."""
        if self.nchunks == 1:
            yield content
            return
        for start in range(0, self.nchunks * self.chunk_size, self.chunk_size):
            yield content[start : start + self.chunk_size]


def features_of(params: CodecParams, *, has_grid: bool = False) -> int:
    """Return the features of the format that a file of such chunks needs."""
    features = FEATURE_GRID if has_grid else 0
    return features | (FEATURE_ARRAY_CHUNKS if params.items is not None else 0)


def build_header(
    chunking: Chunking,
    *,
    checksum: Checksum,
    typesize: int,
    offsets: bool,
    max_app_chunks: int,
    meta_checksum: Checksum | None,
    features: int = 0,
) -> Header:
    """Return the header for `chunking`, of the lowest version that supports it.

    `checksum` is that of the chunks; `meta_checksum` that of the metadata, None without metadata.
    """
    header = Header(
        version_for(checksum, meta_checksum or checksum, features=features),
        offsets,
        meta_checksum is not None,
        checksum,
        typesize,
        chunking.chunk_size,
        chunking.last_chunk,
        chunking.nchunks,
        max_app_chunks if offsets else 0,
        features,
    )
    header.check()
    return header


def write_container(
    sink: ByteSink,
    header: Header,
    section: bytes,
    chunks: Iterable[BytesLike],
    params: CodecParams,
    *,
    nthreads: int = 1,
    nbytes: int | None = None,
    progress: Progress | None = None,
    trailer: bool = False,
) -> None:
    """Write a whole container to `sink`, which the caller commits.

    Parameters
    ----------
    sink : ByteSink
        Empty sink.
    header : Header
        Header with the final number and sizes of chunks.
    section : bytes
        The metadata section; empty without metadata.
    chunks : iterable of bytes-like
        ``header.nchunks`` pieces of content, contiguous bytes.
    params : CodecParams
        Compression parameters.
    nthreads : int
        Number of compression threads; it does not affect the bytes written.
    nbytes : int, optional
        Decoded size of all chunks; by default that in the header, which a chunk grid does not have.
    progress : callable, optional
        Called with (bytes done, total bytes) after each chunk.
    trailer : bool, default False
        Write the trailer after the last chunk, which bloscpack 0.16 did not.

    Raises
    ------
    ValueError
        The number of chunks or bytes in `chunks` differs from that in `header`.
    """
    head = header.pack() + section
    table_offset = len(head)
    digests: list[bytes] | None = [] if trailer else None
    statistics: list[bytes] = []
    total = nbytes
    if total is None:
        total = (header.nchunks - 1) * header.chunk_size + header.last_chunk
    parts = _Parts() if header.nchunks == 1 and total <= _SMALL_NBYTES else None
    if parts is None:
        sink.write(head)
        write_unused(sink, header.table_size)
    offsets, done, end = write_chunks(
        sink if parts is None else parts,
        table_offset + header.table_size,
        header.checksum,
        chunks,
        params,
        nthreads,
        progress,
        total,
        digests,
        statistics,
    )
    if len(offsets) != header.nchunks or done != total:
        raise ValueError(
            f"content changed while it was being packed: got {done} bytes in {len(offsets)} "
            f"chunks, expected {total} bytes in {header.nchunks} chunks"
        )
    entries = offsets if header.offsets else []
    ending: Iterable[bytes] = ()
    if digests is not None:
        ending = pack_trailer(head, entries, b"".join(digests), end, b"".join(statistics))
    if parts is not None:
        spare = UNUSED_ENTRY * header.max_app_chunks
        sink.write(b"".join((head, pack_offsets(entries), spare, *parts, *ending)))
        return
    if header.offsets:
        sink.write_at(table_offset, pack_offsets(offsets))
    for part in ending:
        sink.write(part)


def write_stream(
    sink: ByteSink,
    start: Callable[[int], tuple[Header, bytes]],
    checksum: Checksum,
    chunks: Iterable[BytesLike],
    params: CodecParams,
    *,
    nthreads: int = 1,
    progress: Progress | None = None,
) -> None:
    """Write a container whose length is known only at the end of its content.

    The compressed chunks are buffered in memory, or in a temporary file above 16 MiB. `start` is
    then called with the number of content bytes and returns the header and the metadata section.
    All other parameters are as in `write_container`.
    """
    spool = SpoolSink()
    try:
        offsets, done, _ = write_chunks(spool, 0, checksum, chunks, params, nthreads, progress, -1)
        header, section = start(done)
        front = header.size + len(section) + header.table_size
        sink.write(header.pack() + section)
        if header.offsets:
            sink.write(pack_offsets([front + offset for offset in offsets]))
            write_unused(sink, OFFSET_SIZE * header.max_app_chunks)
        for block in spool.iter_blocks():
            sink.write(block)
    finally:
        spool.abort()


def encode_chunk(
    content: BytesLike, params: CodecParams, checksum: Checksum, *, trailer: bool
) -> Encoded:
    """Return the content of a chunk compressed, for a file that has a `trailer` or has none.

    Raises as `encode_measured` does.
    """
    chunk, statistics = encode_measured(content, params)
    strong = xxh3_64_digest(chunk) if trailer else b""
    nbytes = memoryview(content).nbytes
    return Encoded(nbytes, chunk, checksum.digest(chunk), strong, statistics)


def write_chunks(
    sink: Writable,
    position: int,
    checksum: Checksum,
    chunks: Iterable[BytesLike],
    params: CodecParams,
    nthreads: int,
    progress: Progress | None,
    total: int,
    digests: list[bytes] | None = None,
    statistics: list[bytes] | None = None,
) -> tuple[list[int], int, int]:
    """Compress chunks and write each with its checksum, beginning at `position` of the file.

    Parameters
    ----------
    sink : ByteSink
        Appended to.
    position : int
        Offset in the file of the next byte written to `sink`.
    total : int
        Total decoded size in bytes, for `progress`; -1 if unknown.
    digests : list of bytes, optional
        Receives the XXH3 of each stored chunk.
    statistics : list of bytes, optional
        Receives the statistics of each chunk, if `params` make them.

    Returns
    -------
    offsets : list of int
        Offsets of the chunks.
    nbytes : int
        Total decoded size in bytes.
    end : int
        Offset after the last chunk and its digest.
    """
    offsets = []
    done = 0

    compress = partial(encode_chunk, params=params, checksum=checksum, trailer=digests is not None)
    for each in map_ordered(compress, chunks, nthreads):
        offsets.append(position)
        sink.write(each.chunk)
        sink.write(each.digest)
        if digests is not None:
            digests.append(each.strong)
        if statistics is not None:
            statistics.append(each.statistics)
        position += len(each.chunk) + len(each.digest)
        done += each.nbytes
        if progress is not None:
            progress(done, total)
    return offsets, done, position


def write_unused(sink: ByteSink, nbytes: int) -> None:
    """Write unused entries of an offset table."""
    step = 1 << 20
    for start in range(0, nbytes, step):
        sink.write(UNUSED_ENTRY * (min(step, nbytes - start) // OFFSET_SIZE))
