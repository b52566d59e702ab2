"""Reading stored chunks and comparing their digests, without decoding."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..exceptions import ChecksumMismatch, FormatError, TruncatedError
from ..format.checksum import Checksum
from ..format.codec import ChunkHeader
from ..storage.protocol import ByteSource
from ..storage.runs import CHUNKS, plan_runs
from .chunktable import check_left

# First read of a chunk of unknown size: enough for its header, and for a small chunk as a whole.
PROBE_NBYTES = 4096


class StoredChunk(NamedTuple):
    """Chunk as stored in the file."""

    offset: int  # absolute position of the chunk
    data: memoryview  # the Blosc chunk without its digest
    header: ChunkHeader  # its decoded header, the first 16 bytes


def read_stored(
    source: ByteSource,
    row: Checksum,
    offset: int,
    following: int | None,
    check: bool,
    probe_nbytes: int = PROBE_NBYTES,
) -> tuple[memoryview, ChunkHeader]:
    """Return the bytes and the header of the chunk at `offset`; compare the digest if `check`.

    `following` is the offset of the next chunk, if known: one read then fetches everything before
    it, and the digest is compared before the header is interpreted. Otherwise a first read of
    `probe_nbytes` gives the size of the chunk for a second read, which a small chunk does not need.

    Raises
    ------
    ChecksumMismatch
        The stored and the computed digests differ.
    FormatError
        The chunk is truncated, or its header contradicts the position of the next chunk.
    """
    header = None
    if following is None:
        stored = source.read_at(offset, probe_nbytes)
        header = ChunkHeader.unpack(stored)
        cbytes = header.cbytes
        nbytes = cbytes + row.nbytes
        if nbytes > len(stored):
            check_left(source, offset, nbytes)
            stored = source.read_at(offset, nbytes)
    else:
        nbytes = following - offset
        cbytes = max(nbytes - row.nbytes, 0)
        stored = source.read_at(offset, nbytes)
    if nbytes > len(stored):
        raise TruncatedError(f"got {len(stored)} of {nbytes} bytes", offset=offset)
    view = stored if type(stored) is memoryview else memoryview(stored)
    data, expected = view[:cbytes], view[cbytes:nbytes]
    if check:
        actual = row.digest(data)
        if actual != expected:
            raise ChecksumMismatch(
                f"{row.name} of bytes {offset} to {offset + cbytes} is {actual.hex()}, "
                f"{expected.hex()} is stored",
                name=row.name,
                expected=bytes(expected),
                actual=actual,
                offset=offset,
            )
    if header is None:
        header = ChunkHeader.unpack(data)
        if header.cbytes != cbytes:
            raise FormatError(
                f"stored size is {header.cbytes} bytes, but the next chunk begins after {cbytes}",
                offset=offset,
            )
    return data, header


def read_run(
    source: ByteSource, offsets: Sequence[int], end: int | None, digest_size: int
) -> Iterator[tuple[memoryview, memoryview]]:
    """Yield consecutive chunks and their digests, which are not compared, by few reads.

    Parameters
    ----------
    source : ByteSource
        The file.
    offsets : sequence of int
        Offsets of the chunks, ascending.
    end : int or None
        End of the last chunk and its digest; None if unknown, the last chunk is then left out.
    digest_size : int
        Size of a digest in bytes.

    Yields
    ------
    data, digest : memoryview
        Shorter where the file ends.
    """
    bounds = [*offsets] if end is None else [*offsets, end]
    for low, high, start, stop in plan_runs(bounds[:-1], bounds[1:], CHUNKS):
        stored = memoryview(source.read_at(start, stop - start))
        for offset, following in pairwise(bounds[low : high + 1]):
            # Entries of a hostile table may be closer to each other than a digest is long.
            last = max(following - digest_size, offset) - start
            yield stored[offset - start : last], stored[last : following - start]
