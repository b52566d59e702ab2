"""Finding stored chunks, reading them and comparing their digests, without giving their content.

A chunk is first read at its offset in the offset table. If the bytes there do not match the header,
it is read where the chunks before it end (`chunktable.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_64_digest

from ..exceptions import (
    BloscpackError,
    ChecksumError,
    ChecksumMismatch,
    FormatError,
    TruncatedError,
)
from ..format.checksum import Checksum
from ..format.codec import (
    CHUNK_HEADER_SIZE,
    ChunkHeader,
    CodecParams,
    decode,
    encode,
)
from ..format.header import OFFSET_SIZE, UNKNOWN, UNUSED_ENTRY
from ..format.trailer import STATISTICS_SIZE, Trailer
from ..storage.coalescing import CHUNKS, plan_runs
from ..storage.protocol import ByteSource, Extent, errors_at
from ..types import AnyArray, BytesLike
from .chunktable import check_left
from .front import (
    PROBE_NBYTES,
    Front,
    Verify,
    later_states,
    read_statistics,
    trailer_with_statistics,
)

# Largest number of chunk headers of a remote file that are followed, one request each, if its table
# cannot be used.
_MAX_REMOTE_CHAIN = 4096


Found: TypeAlias = tuple[memoryview, memoryview | None] | None
"""Chunk of `StoredChunks.read_listed`."""


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
            raise digest_error(row, offset, cbytes, bytes(expected), actual)
    if header is None:
        header = ChunkHeader.unpack(data)
        if header.cbytes != cbytes:
            raise FormatError(
                f"stored size is {header.cbytes} bytes, but the next chunk begins after {cbytes}",
                offset=offset,
            )
    return data, header


def digest_error(
    row: Checksum, offset: int, cbytes: int, expected: bytes, actual: bytes
) -> ChecksumMismatch:
    """Return the error for a chunk at `offset` whose digest differs from the one behind it."""
    return ChecksumMismatch(
        f"{row.name} of bytes {offset} to {offset + cbytes} is {actual.hex()}, "
        f"{expected.hex()} is stored",
        name=row.name,
        expected=expected,
        actual=actual,
        offset=offset,
    )


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


class StoredChunks:
    """Stored chunks of one state of a file: found, read and checked.

    Parameters
    ----------
    front : Front
        The front of this state.
    source : ByteSource
        Source of this state.
    verify : bool or "always"
        When to compare checksums: see `Container`.
    follows_writers : bool
        Whether a chunk that a writer has replaced since is found in the current state of the file.
    """

    # A byte for each chunk whose checksum was compared. Every entry can be set again, so there need
    # not be a lock.
    _checked: bytearray | None = None
    # Index and content of the last chunk as it was when the file was opened; set after a writer has
    # extended it. Of the last row of a grid, the chunk that was read last.
    _old_last: tuple[int, StoredChunk] | None = None

    def __init__(
        self, front: Front, source: ByteSource, verify: Verify, *, follows_writers: bool = True
    ) -> None:
        self.front = front
        self.source = source
        self._verify = verify
        self._follows_writers = follows_writers
        self._table = front.table
        self._uses_table = front.header.offsets

    def nbytes(self) -> int:
        """Return the size of the part of the file that holds chunks, in bytes."""
        return self.source.size() - self.front.data_offset

    def needs_no_check(self, index: int) -> bool:
        """Return whether chunk `index` may be read without comparing its checksum (again)."""
        verify, checked, front = self._verify, self._checked, self.front
        if verify is not True or checked is None:
            return verify is False
        if index >= len(checked) or not checked[index]:
            return False
        # An append may rewrite the last chunk, or the last row of a grid, unless it is full.
        if front.grid is not None:
            return index < front.grid.nstable
        return index < front.nchunks - 1 or front.last_chunk == front.chunk_size

    def set_checked(self, index: int) -> None:
        """Record that the checksum of chunk `index` was compared."""
        checked = self._checked
        if checked is None:
            # A hostile header may claim any number.
            most = min(self.front.nchunks, self.front.file_size // CHUNK_HEADER_SIZE)
            self._checked = checked = bytearray(most)
        if index < len(checked):
            checked[index] = 1

    def extent(self, first: int, stop: int | None = None) -> Extent | None:
        """Return the extent of chunks `first` to `stop`, by default one, from the offset table.

        None if the table cannot be used. For the last chunk, the size is an upper bound.
        """
        front, table = self.front, self._table
        if not self._uses_table or not front.nchunks:
            return None
        last = first if stop is None else stop - 1
        try:
            offset = front.data_offset if first == 0 else table.entry(first)[0]
            final, end = (offset, None) if front.nchunks == 1 else table.entry(last)
        except BloscpackError:
            return None
        return offset, (final + front.probe_nbytes if end is None else end) - offset

    def checked_offset(self, index: int) -> int | None:
        """Return the offset of a chunk that need not be checked; None if it has to be fetched."""
        if not self._uses_table or not self.needs_no_check(index):
            return None
        try:
            return self._table.entry(index)[0]
        except BloscpackError:
            return None  # reading the whole chunk raises the proper error

    def read_run(self, first: int, stop: int) -> Iterator[tuple[memoryview, memoryview]]:
        """Return chunks and digests, not compared, as far as the table has their extents."""
        size = self.front.header.checksum.nbytes
        # Without checksums, `_load` compares each chunk with the trailer.
        if not size or not self._uses_table:
            return iter(())
        try:
            entries = [self._table.entry(index) for index in range(first, stop)]
        except BloscpackError:
            return iter(())
        return read_run(self.source, [offset for offset, _ in entries], entries[-1][1], size)

    def listed(self) -> range | AnyArray:
        """Return all chunks, in the order in which few calls read them, for `read_listed`."""
        return range(self.front.nchunks)

    def read_listed(self, some: range | AnyArray) -> Iterator[tuple[int, Found]]:
        """Yield index and chunk of some of those listed; None for one that is to be read alone.

        A chunk has the digest that `is_intact` still has to compare, or None.
        """
        found = self.read_run(some[0], some[-1] + 1) if len(some) > 1 else iter(())
        for index in some:
            stored = next(found, None)
            if stored is not None and self.needs_no_check(index):
                yield index, (stored[0], None)
            else:
                yield index, stored

    def is_intact(self, index: int, data: memoryview, digest: memoryview | None) -> bool:
        """Return whether a chunk has the digest that was read with it; record it if so."""
        if digest is not None:
            if self.front.header.checksum.digest(data) != digest:
                return False
            self.set_checked(index)
        return True

    def offsets(self) -> tuple[int, ...]:
        """Return the used entries of the offset table after checking their order.

        Raises
        ------
        FormatError
            The file has no table, or its entries do not ascend from the first chunk.
        """
        with errors_at(self.source.name):
            if not self.front.header.offsets or self.front.nchunks == 0:
                raise FormatError("the file has no offset table", field="offsets")
            return self._table.entries()

    @property
    def held(self) -> Mapping[int, BytesLike]:
        """Decoded chunks that a writer has in memory, by index."""
        return {}

    @property
    def has_statistics(self) -> bool:
        """Whether the file has the statistics of each chunk."""
        return trailer_with_statistics(self.front, self.source) is not None

    def read_statistics(self, held: Mapping[int, bytes]) -> bytes:
        """Return the stored statistics of all chunks, with those of all chunks in `self.held`.

        Raises
        ------
        FormatError
            They are damaged or missing.
        """
        return read_statistics(self._statistics_trailer(), self.source)

    def offset_of_statistics(self, index: int) -> int:
        """Return the offset of the stored statistics of a chunk; raises as `read_statistics`."""
        return self._statistics_trailer().statistics_extent()[0] + STATISTICS_SIZE * index

    def _statistics_trailer(self) -> Trailer:
        trailer = trailer_with_statistics(self.front, self.source)
        if trailer is None:
            raise FormatError("the file has no statistics of its chunks", field="statistics")
        return trailer

    def check_end(self) -> None:
        """Check that the last chunk is not followed by a chunk that the header does not count.

        Bytes after the last chunk are legal (an append that shrank the last chunk leaves some). A
        whole chunk with the correct digest is not, nor a used entry of the offset table where the
        unused ones should begin: they mean that nchunks is too small.

        Raises
        ------
        FormatError
            There is such a chunk.
        """
        front, header = self.front, self.front.header
        if front.trailer is not None:
            return  # its digest covers the header
        if header.offsets:
            if header.max_app_chunks:
                position = front.table_offset + OFFSET_SIZE * front.nchunks
                if self.source.read_at(position, OFFSET_SIZE) != UNUSED_ENTRY:
                    if self._has_grown():
                        return
                    raise self._too_few_chunks_error("the offset table has another entry")
            return
        if front.nchunks == 0:
            return
        with errors_at(self.source.name):
            position = self._table.chained(front.nchunks)
        try:
            check = bool(self._verify)
            _, following = read_stored(self.source, header.checksum, position, None, check)
        except BloscpackError:
            return  # not a chunk: trailing bytes
        if 0 < following.nbytes <= max(front.chunk_size, front.last_chunk):
            raise self._too_few_chunks_error(f"another chunk follows at offset {position}")

    def _too_few_chunks_error(self, why: str) -> FormatError:
        return FormatError(
            f"header: nchunks is {self.front.nchunks}, but {why}", offset=16, field="nchunks"
        ).at(path=self.source.name)

    def fetch(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        """Return the fields of `StoredChunk`; see `Container.fetch`."""
        front = self.front
        if not 0 <= index < front.nchunks:
            raise IndexError(
                f"chunk index {index} is out of range: the file has {front.nchunks} chunks"
            )
        old_last = self._old_last  # once, as other threads replace it
        if old_last is not None and old_last[0] == index:
            return old_last[1]
        try:
            # A single chunk is at a known offset, so the table is not needed.
            if front.nchunks == 1:
                return self._load(0, front.data_offset, None)
            if not self._uses_table:
                return self._load(index, self._table.chained(index), None)
            return self._load_by_table(index)
        except BloscpackError as err:
            if index >= min(front.nstable, front.nchunks - 1):
                old = self.old_chunk(index)
                if old is not None:
                    self._old_last = index, old
                    return old
            err.at(path=self.source.name)
            raise

    def _load_by_table(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        table = self._table
        offset = chained = UNKNOWN
        try:
            offset, following = table.entry(index)
            return self._load(index, offset, following)
        except BloscpackError as by_table:
            if self.source.has_latency and (offset != UNKNOWN or index > _MAX_REMOTE_CHAIN):
                # Following the headers would take a request for each chunk before this one, only to
                # find the same damage.
                raise
            # The table may be wrong although the chunks are intact: an interrupted write leaves it
            # empty, and bloscpack 0.16 does not use it to read.
            try:
                chained = table.chained(index)
                found = self._load(index, chained, None)
            except BloscpackError:
                if offset != UNKNOWN and chained in (UNKNOWN, offset):
                    raise by_table from None
                raise
            # All later reads follow the headers too: one file, one way to find its chunks.
            self._uses_table = False
            return found

    def _load(
        self, index: int, offset: int, following: int | None
    ) -> tuple[int, memoryview, ChunkHeader]:
        """Read the chunk at `offset`, compare its checksum and check that it can be `index`."""
        front = self.front
        row = front.header.checksum
        check = not self.needs_no_check(index)
        try:
            data, header = read_stored(
                self.source, row, offset, following, check, front.probe_nbytes
            )
        except BloscpackError as err:
            if isinstance(err, ChecksumError):
                err.index = index
            err.at(f"chunk {index} at offset {offset}")
            raise
        # As `chunk_nbytes`, but saves a call for each chunk.
        if front.grid is not None:
            nbytes = front.grid.size(index)
        else:
            nbytes = front.last_chunk if index == front.nchunks - 1 else front.chunk_size
        if header.nbytes != nbytes:
            raise FormatError(
                f"chunk {index} at offset {offset}: decodes to {header.nbytes} bytes, "
                f"the header promises {nbytes}",
                offset=offset,
            )
        if check and not row.nbytes and front.trailer is not None:
            self.compare_trailer(index, StoredChunk(offset, data, header))
        if check:
            self.set_checked(index)
        return offset, data, header

    def compare_trailer(self, index: int, stored: StoredChunk) -> None:
        """Compare chunk `index` with its digest in the trailer, if known.

        Reading does this itself if the file has no checksums.

        Raises
        ------
        ChecksumMismatch
            The digests differ.
        """
        offset, data, _ = stored
        expected = self._table.digest(index)
        actual = xxh3_64_digest(data)
        if expected not in (None, actual):
            raise ChecksumMismatch(
                f"chunk {index} at offset {offset}: XXH3 is {actual.hex()}, "
                f"{expected.hex()} is recorded in the trailer",
                name="xxh3_64",
                expected=expected,
                actual=actual,
                index=index,
                offset=offset,
            )

    def old_chunk(self, index: int) -> StoredChunk | None:
        """Return a chunk as it was when the file was opened; None if it is really damaged.

        The old content is encoded as an uncompressed chunk.
        """
        for later in self._later():
            try:
                offset, stored, header = later.fetch(index)
                content = decode(stored, header.nbytes)
            except BloscpackError:
                continue
            params = CodecParams("lz4", 0, 0, max(header.typesize, 1))
            data = encode(content[: self.front.chunk_nbytes(index)], params)
            return StoredChunk(offset, memoryview(data), ChunkHeader.unpack(data))
        return None

    def _has_grown(self) -> bool:
        """Return whether bytes after the last chunk are there because a writer has appended."""
        for later in self._later():
            if later.front.header != self.front.header:
                return True
            try:
                later.check_end()
            except BloscpackError:
                continue
            return True
        return False

    def _later(self) -> Iterator["StoredChunks"]:
        if self._follows_writers:
            for front, source in later_states(self.source, self.front, verify=self._verify):
                yield StoredChunks(front, source, self._verify, follows_writers=False)
