"""Reader of a container: find a chunk, check it (`chunk.py`), decode it.

A chunk is decoded only after its checksum was compared, and a size from the file is compared with
the bytes present before memory is allocated for it.

A `Container` holds no position, so threads may share one.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any, Self

from ..exceptions import (
    BloscpackError,
    CodecError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from ..format.codec import (
    CHUNK_HEADER_SIZE,
    ChunkHeader,
    decode_into,
    decode_range_into,
    decode_run_into,
    new_bytes,
    runs_of_items,
)
from ..parallel.imports import importing
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.coalescing import CHUNKS, most_per_run
from ..storage.protocol import ByteSource, Extent, closed_on_error, errors_at
from ..storage.remote.prefetch import prefetched
from ..types import AnyArray, BlockRun, BytesLike, StridedItems
from .blocks import read_blocks_into, read_head, read_runs_into
from .chunk import StoredChunk, StoredChunks
from .chunktable import ChunkTable
from .front import Front, Verify, decoded, no_version, open_front

# Largest ratio of decoded to stored size for which memory is allocated without first reading all
# chunk headers.
_USUAL_EXPANSION = 16
# Stored bytes of several chunks that are fetched at once, on average: about the size of a
# second-level cache. Chunks vary in size, so a run may be four times as large.
_RUN_NBYTES = CHUNKS.max_nbytes // 4
# Largest number of cached chunk heads, some hundred bytes each.
_MAX_HEADS = 4096
# Typical size of a block, the least that a read decodes.
_BLOCK_NBYTES = 1 << 15
# Chunks whose offsets are listed at once, to read them one after the other.
_LISTED_CHUNKS = 1024


class _ChunkCache:
    """Cache of facts about the chunks of a container, so that small reads stay cheap.

    It holds where the blocks of a chunk start, and the content of one chunk that is read
    repeatedly. Every entry can be recomputed, so no lock is needed: threads that race lose a little
    work and nothing else.
    """

    # Defaults of the class, as every open file has a cache, and many are read once as a whole.
    _heads: dict[int, tuple[int, bytes]] | None = None
    _content: tuple[int, bytes] = (-1, b"")
    _run: tuple[int, int] = (-1, 0)

    def head(self, index: int) -> tuple[int, bytes] | None:
        """Return the offset of chunk `index` and its header with the block starts, if known."""
        return None if self._heads is None else self._heads.get(index)

    def set_head(self, index: int, offset: int, head: bytes) -> tuple[int, bytes]:
        """Store the offset and head of chunk `index`, and return both."""
        if self._heads is None or len(self._heads) >= _MAX_HEADS:
            self._heads = {}
        self._heads[index] = found = (offset, head)
        return found

    def content(self, index: int) -> bytes | None:
        """Return the content of chunk `index` if it is cached, else None."""
        cached, content = self._content
        return content if cached == index else None

    def keep(self, index: int, content: bytes) -> None:
        """Cache the content of chunk `index`, replacing that of another chunk."""
        self._content = index, content

    def is_repeated(self, index: int, nbytes: int, chunk_nbytes: int) -> bool:
        """Count a read that decodes `nbytes` of chunk `index`; return whether more are likely.

        They are after consecutive reads that together decoded the chunk twice. Each read counts as
        at least one block, the least that is decoded.
        """
        last, total = self._run
        total = max(nbytes, _BLOCK_NBYTES) + (total if last == index else 0)
        self._run = index, total
        return total > 2 * chunk_nbytes


class Container:
    """Bloscpack file, open for reading.

    Parameters
    ----------
    front : Front
        Front of the state of the file that is read.
    source : ByteSource
        Source of this state; closed with the container.
    verify : bool or "always", default True
        Compare the checksum of a chunk the first time it is read (True), at each read ("always")
        or never (False). Without checksums in the file, the digest in its trailer is compared.

    Attributes
    ----------
    front : Front
        The front.
    stored : StoredChunks
        The chunks as stored.
    header, data_offset, nchunks, chunk_size, last_chunk, nbytes, grid
        As in `front`.
    """

    def __init__(self, front: Front, source: ByteSource, *, verify: Verify = True) -> None:
        self.front = front
        if verify not in (True, False, "always"):
            raise ValueError(f"verify must be True, False or 'always', not {verify!r}")
        self.source = source
        self.verify = verify
        table = front.table
        self.stored = (
            StoredChunks(front, source, verify)
            if type(table) is ChunkTable
            else _log()[1](front, source, verify)
        )
        self.header = front.header
        self.data_offset = front.data_offset
        self.nchunks = front.nchunks
        self.chunk_size = front.chunk_size
        self.last_chunk = front.last_chunk
        self.nbytes = front.nbytes
        self.grid = front.grid
        self._cache = _ChunkCache()

    @classmethod
    def open(cls, source: ByteSource, *, verify: Verify = True, version: int = -1) -> Self:
        """Open a file, which is closed on an error; raises as `open_front` does.

        `version` is that of a log, as for `find_version`; another file has only one, 0.
        """
        reader = _read_log if version == -1 else partial(_read_log, version=version)
        front, source = open_front(source, verify=verify, read_log=reader)
        if version not in (-1, 0) and front.commit is None:
            with closed_on_error(source, source.name):
                raise no_version(version)
        return cls(front, source, verify=verify)

    @property
    def metadata(self) -> Any:
        """JSON value of the metadata section, decoded at each call; None without a section.

        Raises
        ------
        FormatError
            The section does not hold a JSON value.
        """
        try:
            return decoded(self.front.metadata_header, self.front.stored_metadata)
        except FormatError as err:
            err.at(path=self.name)
            raise

    @property
    def name(self) -> str | None:
        """Name of the file for messages; None for memory."""
        return self.source.name

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes; for one of several arrays of a log, that of its chunks."""
        if self.source.node is None:
            return self.source.size()
        table: Any = self.front.table
        stored: int = table.nbytes(self.nchunks)
        return stored

    def chunk_nbytes(self, index: int) -> int:
        """Return the decoded size of chunk `index` in bytes."""
        return self.front.chunk_nbytes(index)

    def chunk_start(self, index: int) -> int:
        """Return the decoded size of all chunks before `index`, in bytes."""
        return index * self.chunk_size if self.grid is None else self.grid.start(index)

    def chunk_at(self, position: int) -> int:
        """Return the index of the chunk that holds the byte at `position` of the content."""
        if self.grid is not None:
            return self.grid.at(position)
        # Version 2 allows a last chunk that is larger than the others.
        last = self.nchunks - 1
        return min(position // self.chunk_size, last) if self.chunk_size else last

    def fetch(self, index: int) -> StoredChunk:
        """Return chunk `index` as stored, checked but not decoded.

        Raises
        ------
        IndexError
            `index` is not 0 to ``nchunks - 1``.
        ChecksumMismatch
            The stored and the computed digests differ.
        FormatError
            The chunk is damaged or truncated, or cannot be found.

        Notes
        -----
        One or two storage reads.
        """
        return StoredChunk(*self.stored.fetch(index))

    def read_chunk_into(self, index: int, out: BytesLike) -> None:
        """Decode chunk `index` into `out`, a writable buffer of ``chunk_nbytes(index)`` bytes.

        Raises as `fetch` does, and `CodecError` if the chunk cannot be decoded. The GIL is
        released while decoding.
        """
        offset, data, _ = self.stored.fetch(index)
        try:
            decode_into(data, out)
        except (CodecError, FormatError) as err:
            err.at(f"chunk {index} at offset {offset}", self.name)
            raise

    def read_chunk(self, index: int) -> bytes:
        """Return the decoded bytes of chunk `index`; raises as `read_chunk_into` does."""
        return self.read_located(index)[1]

    def read_located(self, index: int) -> tuple[int, bytes]:
        """Return the offset of chunk `index` and its decoded bytes, by one fetch."""
        offset, data, header = self.stored.fetch(index)
        content, view = new_bytes(header.nbytes)
        try:
            with view:
                decode_into(data, view)
        except (CodecError, FormatError) as err:
            err.at(f"chunk {index} at offset {offset}", self.name)
            raise
        return offset, content

    def read_bytes_into(self, index: int, start: int, out: BytesLike) -> None:
        """Decode bytes ``start`` to ``start + len(out)`` of chunk `index` into `out`.

        Raises as `read_chunk_into` does, and `ValueError` if the chunk has no such bytes.

        Notes
        -----
        Only the Blosc blocks that hold the bytes are decoded. Once the checksum of the chunk was
        compared, only these blocks are read. A chunk that is read repeatedly is decoded as a whole
        and cached, in place of the previous one.
        """
        nbytes, stop = self.front.chunk_nbytes(index), start + len(out)
        if not 0 <= start <= stop <= nbytes:
            raise ValueError(f"chunk {index} has no bytes {start} to {stop}: it has {nbytes}")
        cache = self._cache
        if self.verify != "always":
            content = cache.content(index)
            if content is None and cache.is_repeated(index, len(out), nbytes):
                content = self.read_chunk(index)
                cache.keep(index, content)
            if content is not None:
                memoryview(out)[:] = memoryview(content)[start:stop]
                return
            head = cache.head(index) or self._find_head(index)
            if head is not None and read_blocks_into(self.source, head, start, out):
                return
        offset, data, header = self.stored.fetch(index)
        try:
            decode_range_into(data, start, out)
        except (CodecError, FormatError) as err:
            err.at(f"chunk {index} at offset {offset}", self.name)
            raise
        if self.stored.needs_no_check(index):
            cache.set_head(index, offset, bytes(data[: header.head_size(data)]))

    def read_items(self, index: int, items: StridedItems) -> BytesLike | None:
        """Return the content of chunk `index`, only the blocks that hold `items` decoded.

        None if no blocks can be left out: then read the bytes from the first item to the last.
        Raises as `read_chunk_into` does; the notes on `read_bytes_into` hold.
        """
        cache = self._cache
        if self.verify != "always":
            content = cache.content(index)
            if content is not None:
                return content
            head = cache.head(index) or self._find_head(index)
            runs = None
            if head is not None:
                with suppress(BloscpackError):  # reading the bytes raises the proper error
                    runs = runs_of_items(head[1], items)
                if runs is None:
                    return None
                content = self._read_runs(index, head, runs)
                if content is not None:
                    return content
        return self._fetch_items(index, items)

    def _fetch_items(self, index: int, items: StridedItems) -> bytes:
        """Do as `read_items` with all of the chunk, whose checksum is compared."""
        offset, data, header = self.stored.fetch(index)
        front = bytes(data[: header.head_size(data)])
        content, view = new_bytes(header.nbytes)
        try:
            with view:
                runs = runs_of_items(front, items)
                if runs is None and not header.is_array:
                    low, high = items.span
                    decode_range_into(data, low, view[low:high])
                elif runs is None:
                    decode_into(data, view)
                for run in runs or ():
                    decode_run_into(front, data[run.low : run.high], run, view)
        except (CodecError, FormatError) as err:
            err.at(f"chunk {index} at offset {offset}", self.name)
            raise
        if self.stored.needs_no_check(index):
            self._cache.set_head(index, offset, front)
        return content

    def _read_runs(self, index: int, head: tuple[int, bytes], runs: list[BlockRun]) -> bytes | None:
        """Return the content of a checked chunk with these blocks decoded; None as `read_items`."""
        cache, nbytes = self._cache, self.chunk_nbytes(index)
        nblocks = sum(run.stop - run.first for run in runs)
        if cache.is_repeated(index, nblocks * ChunkHeader.unpack(head[1]).blocksize, nbytes):
            content = self.read_chunk(index)
            cache.keep(index, content)
            return content
        content, view = new_bytes(nbytes)
        with view:
            is_read = read_runs_into(self.source, head, runs, view)
        return content if is_read else None

    def _find_head(self, index: int) -> tuple[int, bytes] | None:
        """Return the offset and head of a chunk that need not be checked, or None."""
        if self.source.has_latency:
            return None  # the whole chunk takes one request, its head and its blocks two
        offset = self.stored.checked_offset(index)
        if offset is None:
            return None
        try:
            head = read_head(self.source, offset, self.chunk_nbytes(index))
        except BloscpackError:
            return None  # reading the whole chunk raises the proper error
        return self._cache.set_head(index, offset, head)

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield the decoded bytes of each chunk in order, then check that no chunk follows."""
        every = range(self.nchunks)
        for group in prefetched(self.source, every, self.stored.extent, ramps=True):
            for index in group:
                yield self.read_chunk(index)
        self.stored.check_end()

    def iter_stored(self) -> Iterator[tuple[BytesLike, BytesLike]]:
        """Yield each chunk and its digest, both verified, by few reads; raises as `fetch` does."""
        for first in range(0, self.nchunks, _LISTED_CHUNKS):
            stop = min(first + _LISTED_CHUNKS, self.nchunks)
            found = self.stored.read_run(first, stop)
            for index in range(first, stop):
                data, digest = next(found, (b"", b""))
                if not self._is_stored(index, data, digest):
                    data = self.fetch(index).data
                    digest = self.header.checksum.digest(data)
                if self.front.trailer is not None:  # the chunk may be whole, but that of another
                    offset, _ = self.stored.extent(index) or (self.data_offset, 0)
                    stored = StoredChunk(offset, memoryview(data), ChunkHeader.unpack(data))
                    with errors_at(self.name):
                        self.stored.compare_trailer(index, stored)
                yield data, digest

    def _is_stored(self, index: int, data: BytesLike, digest: BytesLike) -> bool:
        """Return whether bytes are those of a chunk."""
        if not data or self.header.checksum.digest(data) != digest:
            return False
        try:
            header = ChunkHeader.unpack(data)
        except BloscpackError:
            return False
        return (header.cbytes, header.nbytes) == (len(data), self.chunk_nbytes(index))

    def read_into(self, out: memoryview, *, nthreads: int | None = None) -> None:
        """Decode the whole content into `out`, a writable buffer of `nbytes` bytes.

        Raises as `read_chunk_into` does. Chunks are decoded in parallel.
        """
        if self.nchunks == 1:
            self.read_chunk_into(0, out)
        else:
            threads = resolve_nthreads(nthreads, self.nbytes)
            starts, listed = _run_starts(self, threads), self.stored.listed()

            def read(run: int) -> None:
                self._read_run_into(listed[starts[run] : starts[run + 1]], out)

            def extent(run: int) -> Extent | None:
                return self.stored.extent(starts[run], starts[run + 1])

            for runs in prefetched(self.source, range(len(starts) - 1), extent):
                run_indexed(read, runs, threads)
        self.stored.check_end()

    def _read_run_into(self, listed: range | AnyArray, out: memoryview) -> None:
        """Decode some of the listed chunks to their places in `out`, a buffer for all content."""
        for index, found in self.stored.read_listed(listed):
            start = self.chunk_start(index)
            target = out[start : start + self.chunk_nbytes(index)]
            if found is not None:
                with suppress(BloscpackError):
                    decode_into(found[0], target)
                    # After it has brought the bytes into the cache: this order takes 5 % less time.
                    if self.stored.is_intact(index, *found):
                        continue
            # Read alone, it may be found without the table; if not, the proper error is raised.
            self.read_chunk_into(index, target)

    def read(self, *, nthreads: int | None = None) -> bytes:
        """Return the whole content; raises as `read_into` does, and for a chunk grid."""
        self.check_sequential()
        self.check_size(self.nbytes)
        content, view = new_bytes(self.nbytes)
        with view:
            self.read_into(view, nthreads=nthreads)
        return content

    def check_sequential(self) -> None:
        """Check that the chunks one after the other are the bytes of the array.

        Raises
        ------
        UnsupportedError
            They form a chunk grid.
        """
        if self.grid is not None:
            raise UnsupportedError(
                "the chunks form a grid, so that their bytes in the order of the file are not "
                "those of the array; read it with bloscpack.load or bloscpack.open"
            ).at(path=self.name)

    def check_size(self, nbytes: int) -> None:
        """Check, before memory is allocated, that the bytes present can decode to `nbytes`.

        If the expansion is unusually high, all chunk headers are read, which is cheap compared with
        the decoding.

        Raises
        ------
        FormatError
            The header has more chunks than the file can hold, or a chunk has another size.
        """
        stored = self.stored.nbytes()
        smallest = self.nchunks * (CHUNK_HEADER_SIZE + self.header.checksum.nbytes)
        if smallest > stored:
            raise TruncatedError(
                f"{self.nchunks} chunks need at least {smallest} bytes, "
                f"found {max(stored, 0)} at offset {self.data_offset}",
                offset=self.data_offset,
            ).at(path=self.name)
        if nbytes > _USUAL_EXPANSION * stored:
            for group in prefetched(self.source, range(self.nchunks), self.stored.extent):
                for index in group:
                    self.fetch(index)

    def close(self) -> None:
        """Close the source; idempotent."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@cache
def _log() -> "tuple[Callable[..., Front], type[StoredChunks]]":
    with importing:  # on use: few files change
        from .logchunks import LogChunks
        from .logreader import read_log

    return read_log, LogChunks


def _read_log(source: ByteSource, head: BytesLike, version: int = -1) -> Front:
    return _log()[0](source, head, version)


def _run_starts(container: Container, nthreads: int) -> list[int]:
    """Return the first chunk of each run to fetch at once when all are read, then their number.

    Each fetch releases and reacquires the GIL, which the other threads compete for. The last
    runs of several threads are shorter, so that all threads finish at about the same time.
    """
    stored = container.chunk_size  # at most
    if type(container.front.table) is ChunkTable:
        stored = (container.source.size() - container.data_offset) // max(container.nchunks, 1)
    elif container.source.has_latency:  # neighbours may be far from each other
        return [*range(container.nchunks + 1)]
    most = most_per_run(container.nchunks, nthreads)
    size = max(1, min(_RUN_NBYTES // max(stored, 1), most))
    if nthreads == 1 or container.source.has_latency:
        return [*range(0, container.nchunks, size), container.nchunks]
    starts = [0]
    while starts[-1] < container.nchunks:
        left = container.nchunks - starts[-1]
        starts.append(starts[-1] + max(1, min(size, left // (2 * nthreads))))
    return starts
