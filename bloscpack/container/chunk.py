"""One stored chunk and its digest: read, compared, not decoded."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..exceptions import ChecksumMismatch, FormatError, TruncatedError
from ..format.checksum import Checksum
from ..format.codec import ChunkHeader
from ..storage.protocol import ByteSource
from .chunktable import check_left

# Read where a chunk starts whose size is not known: its header, and a small chunk as a whole.
PROBE_NBYTES = 4096
# The most that is read at once for several chunks.
_MAX_RUN_NBYTES = 4 << 20


class StoredChunk(NamedTuple):
    """A chunk as it lies in the file.

    Attributes
    ----------
    offset : int
        Absolute position of the chunk.
    data : memoryview
        The Blosc chunk, its digest not included.
    header : ChunkHeader
        Its first 16 bytes.
    """

    offset: int
    data: memoryview
    header: ChunkHeader


def read_stored(
    source: ByteSource,
    row: Checksum,
    offset: int,
    following: int | None,
    check: bool,
    probe_nbytes: int = PROBE_NBYTES,
) -> tuple[memoryview, ChunkHeader]:
    """Return the bytes of the chunk at `offset` and its header, the digest compared if `check`.

    `following` is the offset of the next chunk where it is known: one read then fetches all that
    lies before it, and the digest speaks before the header is looked at. Otherwise a first read
    of `probe_nbytes` tells the size, which bounds the second; a small chunk is all in the first.

    Raises
    ------
    ChecksumMismatch
        The stored and the computed digest differ.
    FormatError
        The chunk is truncated, or its header contradicts what is there.
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
        raise TruncatedError(f"{len(stored)} of {nbytes} bytes came", offset=offset)
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
                f"stored size {header.cbytes}, but the next chunk leaves it {cbytes} bytes",
                offset=offset,
            )
    return data, header


def read_run(
    source: ByteSource, offsets: Sequence[int], end: int | None, digest_size: int
) -> list[tuple[memoryview, memoryview]]:
    """Return chunks that follow each other and their digests, not compared, by one read.

    Parameters
    ----------
    source : ByteSource
        The file.
    offsets : sequence of int
        Of the chunks, ascending.
    end : int or None
        Offset of what follows the last; None if it is not known, the last is then left out.
    digest_size : int
        Bytes of a digest.

    Returns
    -------
    list of (memoryview, memoryview)
        None of them where that would be far more than usual. What the file does not hold is
        missing in the views.
    """
    bounds = [*offsets] if end is None else [*offsets, end]
    start = bounds[0]
    if bounds[-1] - start > _MAX_RUN_NBYTES:
        return []
    stored = memoryview(source.read_at(start, bounds[-1] - start))
    found = []
    for offset, following in pairwise(bounds):
        last = max(following - digest_size, offset) - start
        found.append((stored[offset - start : last], stored[last : following - start]))
    return found
