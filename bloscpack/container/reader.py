"""Reader of a container: find a chunk, check it, decode it.

A chunk is first read at its offset in the offset table. If the bytes there do not match the header,
it is read where the chunks before it end (`chunktable.py`). A chunk is decoded only after its
checksum was compared, and a size from the file is compared with the bytes present before memory is
allocated for it.

A `Container` holds no position, so threads may share one.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self

from xxhash import xxh3_64_digest

from ..exceptions import (
    BloscpackError,
    ChecksumError,
    ChecksumMismatch,
    CodecError,
    FormatError,
    TruncatedError,
    UnsupportedError,
    WrongKindError,
)
from ..format.checksum import CHECKSUMS, LAST_V3_ID
from ..format.codec import (
    CHUNK_HEADER_SIZE,
    ChunkHeader,
    decode_into,
    decode_range_into,
    decode_run_into,
    new_bytes,
    runs_of_items,
)
from ..format.header import (
    FEATURE_ARRAY_CHUNKS,
    FEATURE_GRID,
    MAX_HEADER_SIZE,
    OFFSET_SIZE,
    UNKNOWN,
    UNUSED_ENTRY,
    Header,
)
from ..format.metadata import MetadataHeader, decode_data, stored_data
from ..format.trailer import Trailer
from ..notice import notice
from ..parallel.imports import importing
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.protocol import ByteSource, Extent, errors_at
from ..storage.remote.prefetch import prefetched
from ..storage.runs import CHUNKS, REMOTE, most_per_run
from ..types import BytesLike, StridedItems
from .blocks import read_blocks_into, read_head, read_runs_into
from .chunk import PROBE_NBYTES, StoredChunk, read_run, read_stored
from .chunkmemory import ChunkMemory
from .chunktable import ChunkTable, check_room
from .front import HEAD_NBYTES, TAIL_NBYTES, check_trailer, recorded_head
from .live import ATTEMPTS, has_grown, old_chunk

if TYPE_CHECKING:
    from ..format.arraychunk import BlockRun
    from ..format.chunkgrid import ChunkGrid

# Largest ratio of decoded to stored size for which memory is allocated without first reading all
# chunk headers.
_USUAL_EXPANSION = 16
# Stored bytes of several chunks that are fetched at once, on average: about the size of a
# second-level cache. Chunks vary in size, so a run may be four times as large.
_RUN_NBYTES = CHUNKS.max_nbytes // 4
# Largest number of chunk headers of a remote file that are followed, one request each, if its table
# cannot be used.
_MAX_REMOTE_CHAIN = 4096
# More bytes than any file or address space holds, and the limit of numpy.
_MAX_NBYTES = 2**63 - 1

Verify = bool | Literal["always"]
"""When to compare checksums: once per chunk (True), never (False), or at each read."""


class Container:
    """Bloscpack file, open for reading.

    Parameters
    ----------
    source : ByteSource
        Source of the file; closed with the container.
    verify : bool or "always", default True
        Compare the checksum of a chunk the first time it is read (True), at each read ("always")
        or never (False). Without checksums in the file, the digest in its trailer is compared.
    replays : bool, default True
        Roll back the unfinished append of a dead writer in the file. If false, the file is only
        read as it was before the append.

    Attributes
    ----------
    header : Header
        The stored header.
    metadata_header : MetadataHeader or None
        The stored metadata header; None without a metadata section.
    stored_metadata : bytes
        Stored data of the metadata section, after a check of their checksum.
    data_offset : int
        Absolute position of the first chunk.
    nchunks, chunk_size, last_chunk : int
        Values of the header, or counted if the header says "unknown".
        For a chunk grid, `chunk_size` is the size of a chunk that is not at an edge.
    nbytes : int
        Decoded size of all chunks.
    grid : ChunkGrid or None
        The chunk grid; None if all chunks but the last have the same size.

    Raises
    ------
    FormatError
        The front of the file is damaged, or it is not a Bloscpack file (`NotBloscpackError`).
    UnsupportedError
        The format version or the metadata format is unknown.
    """

    metadata_header: MetadataHeader | None = None
    stored_metadata: bytes = b""
    grid: "ChunkGrid | None" = None
    # A file of one chunk is mostly read once and as a whole, so its cache is created on use.
    _memory: ChunkMemory | None = None
    # The trailer, if it describes the current state of the file, else None; and its state: "valid",
    # "absent", "stale" (the file has changed since), "damaged" or "unread".
    trailer: Trailer | None = None
    trailer_state = "absent"
    _table: ChunkTable | None = None
    _trusts_table = True
    # Index and content of the last chunk as it was when the file was opened; set after a writer has
    # extended it. Of the last row of a grid, the chunk that was read last.
    _old_last: tuple[int, StoredChunk] | None = None
    follows_writers = True
    # Bytes of the front of a remote file that were used.
    front_nbytes = 0
    # First read of a chunk whose end is unknown; for a remote file, the largest possible chunk.
    _probe_nbytes = PROBE_NBYTES

    def __init__(self, source: ByteSource, *, verify: Verify = True, replays: bool = True) -> None:
        if verify not in (True, False, "always"):
            raise ValueError(f"verify must be True, False or 'always', not {verify!r}")
        self.source = source
        self.verify = verify
        try:
            if source.is_live:
                self._read_consistent_front(source, replays)
            else:
                self._read_front()
        except BaseException as err:
            if isinstance(err, BloscpackError):
                err.at(path=source.name)
                self._advise(err)
            self.source.close()
            raise

    def _read_front(self, nbytes: int = HEAD_NBYTES) -> bytes:
        """Read header, metadata and trailer, and return the stored header.

        The first read is of `nbytes`; more are read if they are needed.
        """
        head = memoryview(self.source.read_at(0, nbytes))
        self.header = header = Header.unpack(head)
        header_size = header.size
        self._table_offset = position = self._read_metadata(head, header_size)
        self.data_offset = position + header.table_size
        self.nchunks = nchunks = header.nchunks
        self.chunk_size = header.chunk_size
        self.last_chunk = header.last_chunk
        if header.features & FEATURE_GRID:
            self._read_grid()
        size = self.source.size()
        if not self.source.has_latency or self._wants_trailer(size):
            tail = head  # of a small file, which has been read as a whole
            if size > len(head):
                start = max(size - TAIL_NBYTES, 0)
                tail = memoryview(self.source.read_at(start, size - start))
            self.trailer, self.trailer_state = check_trailer(
                self.source, tail, size, header, self.metadata_header, head, position
            )
            if self.trailer_state in ("stale", "damaged"):
                notice(
                    "%s: the trailer is %s and ignored; bloscpack.verify(path, fix=True) rewrites "
                    "it",
                    self.source.name or "memory",
                    self.trailer_state,
                )
        # The chunks begin where the table ends, so it must end within the file.
        if self.data_offset > size:
            check_room(self.source, "offset table", position, header.table_size)
        if nchunks < 0 or self.chunk_size < 0 or self.last_chunk < 0:
            self._count_chunks()
        elif nchunks == 0:
            self._check_empty()
        nbytes = max(self.nchunks - 1, 0) * self.chunk_size + self.last_chunk
        self.nbytes = nbytes if self.grid is None else self.grid.nbytes
        if self.nchunks > 1:  # with a byte for each; a hostile header may claim any number
            self._memory = ChunkMemory(min(self.nchunks, size // CHUNK_HEADER_SIZE))
        if self.nbytes > _MAX_NBYTES:
            raise FormatError(
                f"header: {self.nchunks} chunks of {self.chunk_size} bytes exceed 2^63-1 bytes",
                offset=16,
                field="nchunks",
            )
        return bytes(head[:header_size])

    def _read_metadata(self, head: memoryview, position: int) -> int:
        """Read the metadata section at `position`, if there is one, and return its end."""
        header = self.header
        if not header.metadata:
            return position
        last_checksum = LAST_V3_ID if header.format_version == 3 else CHECKSUMS[-1].id
        meta = MetadataHeader.unpack(head, position, last_checksum=last_checksum)
        size = meta.section_size
        section = head[position : position + size]
        if len(section) < size:
            check_room(self.source, "metadata", position, size)
            self._keep_front(position + size)
            section = memoryview(self.source.read_at(position, size))
        self.stored_metadata = stored_data(meta, section)
        self.metadata_header = meta
        return position + size

    def _read_grid(self) -> None:
        """Set the sizes that follow from the chunk grid."""
        with importing:  # on use: few files have a grid
            from ..format.chunkgrid import ChunkGrid

        self.grid = grid = ChunkGrid.of_metadata(self.metadata, self.last_chunk)
        if grid.nchunks != self.nchunks:
            raise FormatError(
                f"header: nchunks is {self.nchunks}, but the grid has {grid.nchunks} chunks",
                offset=16,
                field="nchunks",
            )
        self.chunk_size = grid.chunk_nbytes

    def _wants_trailer(self, size: int) -> bool:
        """Return whether to read the trailer of a remote file, which takes one more request.

        Without the trailer, an error in the front is not detected at once; but a chunk that is
        read at a wrong offset fails its own checksum.
        """
        source, header = self.source, self.header
        self._keep_front(self._table_offset)
        largest = min(max(self.chunk_size, header.last_chunk), REMOTE.max_nbytes)
        if largest >= 0:
            self._probe_nbytes = largest + CHUNK_HEADER_SIZE + header.checksum.nbytes
        self.trailer_state = "unread"
        return (
            self.verify == "always"
            or not header.checksum.nbytes
            or header.nchunks <= 0
            or min(self.chunk_size, header.last_chunk) < 0
            or source.holds(max(size - TAIL_NBYTES, 0), TAIL_NBYTES)
        )

    def _keep_front(self, table_offset: int) -> None:
        """Fetch the used part of the front of a remote file by one request."""
        header, source = self.header, self.source
        nentries = max(header.nchunks, 0) + (header.max_app_chunks > 0) if header.offsets else 0
        self.front_nbytes = end = table_offset + OFFSET_SIZE * nentries
        if end <= REMOTE.max_nbytes:
            source.keep_head(end)

    def _read_consistent_front(self, file: ByteSource, replays: bool) -> None:
        """Read the front of one state of a file that a writer may be changing.

        With a journal, the file is read as it was before the change. Without one, the journal must
        still be missing after the read, and the header unchanged, as a writer writes it last.
        An error is that of the file if another read finds the same with the same header, which each
        append changes.
        """
        earlier = "", b""
        for attempt in range(ATTEMPTS):
            before = file.before_append(replays=replays)
            if before is not None:
                self.source = before
            # A small file takes one call instead of two if its size is known, as it is at first.
            is_known = before is None and 0 < file.stamp[0] < HEAD_NBYTES and attempt == 0
            try:
                head = self._read_front(file.stamp[0] if is_known else HEAD_NBYTES)
                if before is not None or (
                    not file.has_unfinished_append() and file.read_at(0, len(head)) == head
                ):
                    return
            except BloscpackError as err:
                found = str(err), bytes(file.read_at(0, MAX_HEADER_SIZE))
                is_same, earlier = found == earlier, found
                is_stable = is_same and attempt >= 2 and not file.has_unfinished_append()
                if before is not None or is_stable:
                    raise
            # What was read may mix two states of the file.
            self.metadata_header, self.stored_metadata, self.grid = None, b"", None
            self._table = self._memory = None
            self.trailer, self.trailer_state = None, "absent"
        raise FormatError("header: a writer changes it too fast to read it")

    def _advise(self, err: BloscpackError) -> None:
        """Add to an error in the front a hint that the trailer has a copy, if it has one."""
        if type(err) is WrongKindError:  # its header is sound; do not read the end of the file
            return
        with suppress(OSError):  # the first error is the one to raise
            if recorded_head(self.source) is not None:
                advice = "its trailer has a copy of the front, which bloscpack.recover uses"
                err.args = (f"{err.args[0]}; {advice}",)

    def _count_chunks(self) -> None:
        """Fill in the sizes that are unknown in the header by following the chunk headers."""
        table = self._chunk_table()
        nchunks, end = self.nchunks, self.source.size()
        index, position = 0, self.data_offset
        while index < nchunks if nchunks >= 0 else position < end:
            index += 1
            position = table.chained(index)
        self.nchunks = index
        if index == 0:
            self._check_empty()
            return
        if self.chunk_size == UNKNOWN:
            self.chunk_size = table.chained_header(0).nbytes
        if self.last_chunk == UNKNOWN:
            self.last_chunk = table.chained_header(index - 1).nbytes

    def _check_empty(self) -> None:
        self.chunk_size = self.last_chunk = 0
        trailer = self.trailer
        left = (trailer.offset if trailer else self.source.size()) - self.data_offset
        if left > 0:
            raise FormatError(
                f"header: nchunks is 0, but {left} bytes follow at offset {self.data_offset}",
                offset=16,
                field="nchunks",
            )

    @property
    def metadata(self) -> Any:
        """JSON value of the metadata section, decoded at each call; None without a section.

        Raises
        ------
        FormatError
            The section does not hold a JSON value.
        """
        header = self.metadata_header
        if header is None:
            return None
        try:
            return decode_data(self.stored_metadata, header.meta_codec, header.meta_size)
        except FormatError as err:
            err.at(path=self.name)
            raise

    @property
    def name(self) -> str | None:
        """Name of the file for messages; None for memory."""
        return self.source.name

    def chunk_nbytes(self, index: int) -> int:
        """Return the decoded size of chunk `index` in bytes."""
        if self.grid is not None:
            return self.grid.size(index)
        return self.last_chunk if index == self.nchunks - 1 else self.chunk_size

    def chunk_start(self, index: int) -> int:
        """Return the decoded size of all chunks before `index`, in bytes."""
        return index * self.chunk_size if self.grid is None else self.grid.start(index)

    @property
    def nstable(self) -> int:
        """Number of chunks that appending does not change: all before one that is not full."""
        if self.grid is not None:
            return self.grid.nstable
        return self.nchunks - (self.last_chunk != self.chunk_size)

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
        return StoredChunk(*self._fetch(index))

    def read_chunk_into(self, index: int, out: BytesLike) -> None:
        """Decode chunk `index` into `out`, a writable buffer of ``chunk_nbytes(index)`` bytes.

        Raises as `fetch` does, and `CodecError` if the chunk cannot be decoded. The GIL is
        released while decoding.
        """
        offset, data, _ = self._fetch(index)
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
        offset, data, header = self._fetch(index)
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
        nbytes, stop = self.chunk_nbytes(index), start + len(out)
        if not 0 <= start <= stop <= nbytes:
            raise ValueError(f"chunk {index} has no bytes {start} to {stop}: it has {nbytes}")
        memory = self._memory
        if memory is None:
            memory = self._memory = ChunkMemory(self.nchunks)
        if self.verify != "always":
            content = memory.content(index)
            if content is None and memory.is_repeated(index, len(out), nbytes):
                content = self.read_chunk(index)
                memory.keep(index, content)
            if content is not None:
                memoryview(out)[:] = memoryview(content)[start:stop]
                return
            head = memory.head(index) or self._find_head(memory, index)
            if head is not None and read_blocks_into(self.source, head, start, out):
                return
        offset, data, header = self._fetch(index)
        try:
            decode_range_into(data, start, out)
        except (CodecError, FormatError) as err:
            err.at(f"chunk {index} at offset {offset}", self.name)
            raise
        if self._needs_no_check(index):
            memory.set_head(index, offset, bytes(data[: header.head_size(data)]))

    def read_items(self, index: int, items: StridedItems) -> BytesLike | None:
        """Return the content of chunk `index`, only the blocks that hold `items` decoded.

        None if no blocks can be left out: then read the bytes from the first item to the last.
        Raises as `read_chunk_into` does; the notes on `read_bytes_into` hold.
        """
        if not self.header.features & FEATURE_ARRAY_CHUNKS:
            return None
        memory = self._memory
        if memory is None:
            memory = self._memory = ChunkMemory(self.nchunks)
        if self.verify != "always":
            content = memory.content(index)
            if content is not None:
                return content
            head = memory.head(index) or self._find_head(memory, index)
            runs = None
            if head is not None:
                with suppress(BloscpackError):  # reading the bytes raises the proper error
                    runs = runs_of_items(head[1], items)
                if runs is None:
                    return None
                content = self._read_runs(memory, index, head, runs)
                if content is not None:
                    return content
        return self._fetch_items(memory, index, items)

    def _fetch_items(self, memory: ChunkMemory, index: int, items: StridedItems) -> bytes:
        """Do as `read_items` with all of the chunk, whose checksum is compared."""
        offset, data, header = self._fetch(index)
        front = bytes(data[: header.head_size(data)])
        content, view = new_bytes(header.nbytes)
        try:
            with view:
                runs = runs_of_items(front, items)
                if runs is None:
                    decode_into(data, view)
                for run in runs or ():
                    decode_run_into(front, data[run.low : run.high], run, view)
        except (CodecError, FormatError) as err:
            err.at(f"chunk {index} at offset {offset}", self.name)
            raise
        if self._needs_no_check(index):
            memory.set_head(index, offset, front)
        return content

    def _read_runs(
        self, memory: ChunkMemory, index: int, head: tuple[int, bytes], runs: "list[BlockRun]"
    ) -> bytes | None:
        """Return the content of a checked chunk with these blocks decoded; None as `read_items`."""
        nbytes = self.chunk_nbytes(index)
        nblocks = sum(run.stop - run.first for run in runs)
        if memory.is_repeated(index, nblocks * ChunkHeader.unpack(head[1]).blocksize, nbytes):
            content = self.read_chunk(index)
            memory.keep(index, content)
            return content
        content, view = new_bytes(nbytes)
        with view:
            is_read = read_runs_into(self.source, head, runs, view)
        return content if is_read else None

    def _find_head(self, memory: ChunkMemory, index: int) -> tuple[int, bytes] | None:
        """Return the offset and head of a chunk that need not be checked, or None."""
        if not self._needs_no_check(index) or not self.header.offsets or not self._trusts_table:
            return None
        if self.source.has_latency:
            return None  # the whole chunk takes one request, its head and its blocks two
        try:
            offset = self._chunk_table().entry(index)[0]
            head = read_head(self.source, offset, self.chunk_nbytes(index))
        except BloscpackError:
            return None  # reading the whole chunk raises the proper error
        return memory.set_head(index, offset, head)

    def _needs_no_check(self, index: int) -> bool:
        """Return whether chunk `index` may be read without comparing its checksum (again)."""
        verify, memory = self.verify, self._memory
        if verify is not True or memory is None:
            return verify is False
        if not memory.is_checked(index):
            return False
        # An append may rewrite the last chunk, or the last row of a grid, unless it is full.
        if self.grid is not None:
            return index < self.grid.nstable
        return index < self.nchunks - 1 or self.last_chunk == self.chunk_size

    def extent(self, first: int, stop: int | None = None) -> Extent | None:
        """Return the extent of chunks `first` to `stop`, by default one, from the offset table.

        None if the table cannot be used. For the last chunk, the size is an upper bound.
        """
        if not self.header.offsets or not self._trusts_table or not self.nchunks:
            return None
        last = first if stop is None else stop - 1
        table = self._chunk_table()
        try:
            offset = self.data_offset if first == 0 else table.entry(first)[0]
            final, end = (offset, None) if self.nchunks == 1 else table.entry(last)
        except BloscpackError:
            return None
        return offset, (final + self._probe_nbytes if end is None else end) - offset

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield the decoded bytes of each chunk in order, then check that no chunk follows."""
        every = range(self.nchunks)
        for group in prefetched(self.source, every, self.extent, ramps=True):
            for index in group:
                yield self.read_chunk(index)
        self.check_end()

    def read_into(self, out: memoryview, *, nthreads: int | None = None) -> None:
        """Decode the whole content into `out`, a writable buffer of `nbytes` bytes.

        Raises as `read_chunk_into` does. Chunks are decoded in parallel.
        """
        if self.nchunks == 1:
            self.read_chunk_into(0, out)
        else:
            threads = resolve_nthreads(nthreads, self.nbytes)
            starts = self._run_starts(threads)

            def read(run: int) -> None:
                self._read_run_into(starts[run], starts[run + 1], out)

            def extent(run: int) -> Extent | None:
                return self.extent(starts[run], starts[run + 1])

            for runs in prefetched(self.source, range(len(starts) - 1), extent):
                run_indexed(read, runs, threads)
        self.check_end()

    def _run_starts(self, nthreads: int) -> list[int]:
        """Return the first chunk of each run to fetch at once when all are read, then their number.

        Each fetch releases and reacquires the GIL, which the other threads compete for. The last
        runs of several threads are shorter, so that all threads finish at about the same time.
        """
        stored = (self.source.size() - self.data_offset) // max(self.nchunks, 1)
        most = most_per_run(self.nchunks, nthreads)
        size = max(1, min(_RUN_NBYTES // max(stored, 1), most))
        if nthreads == 1 or self.source.has_latency:
            return [*range(0, self.nchunks, size), self.nchunks]
        starts = [0]
        while starts[-1] < self.nchunks:
            left = self.nchunks - starts[-1]
            starts.append(starts[-1] + max(1, min(size, left // (2 * nthreads))))
        return starts

    def _read_run_into(self, first: int, stop: int, out: memoryview) -> None:
        """Decode chunks `first` to `stop` to their places in `out`, a buffer for all content."""
        found = self._fetch_run(first, stop) if stop - first > 1 else iter(())
        for index in range(first, stop):
            start = self.chunk_start(index)
            target = out[start : start + self.chunk_nbytes(index)]
            stored = next(found, None)
            if stored is None or not self._decode_checked(index, *stored, target):
                # Read alone, it may be found without the table; if not, the proper error is raised.
                self.read_chunk_into(index, target)

    def _fetch_run(self, first: int, stop: int) -> Iterator[tuple[memoryview, memoryview]]:
        """Return chunks and digests, as far as the table has their extents."""
        size = self.header.checksum.nbytes
        # Without checksums, `_load` compares each chunk with the trailer.
        if not size or not self.header.offsets or not self._trusts_table:
            return iter(())
        try:
            entries = [self._chunk_table().entry(index) for index in range(first, stop)]
        except BloscpackError:
            return iter(())
        return read_run(self.source, [offset for offset, _ in entries], entries[-1][1], size)

    def _decode_checked(
        self, index: int, data: memoryview, digest: memoryview, out: memoryview
    ) -> bool:
        """Decode a chunk if its digest is correct; return whether it was decoded."""
        check = not self._needs_no_check(index)
        if check and self.header.checksum.digest(data) != digest:
            return False
        try:
            decode_into(data, out)
        except BloscpackError:
            return False
        if check and self._memory is not None:
            self._memory.set_checked(index)
        return True

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

    def read_offsets(self) -> tuple[int, ...]:
        """Return the used entries of the offset table after checking their order.

        Raises
        ------
        FormatError
            The file has no table, or its entries do not ascend from the first chunk.
        """
        with errors_at(self.name):
            if not self.header.offsets or self.nchunks == 0:
                raise FormatError("the file has no offset table", field="offsets")
            return self._chunk_table().entries()

    def check_size(self, nbytes: int) -> None:
        """Check, before memory is allocated, that the bytes present can decode to `nbytes`.

        If the expansion is unusually high, all chunk headers are read, which is cheap compared with
        the decoding.

        Raises
        ------
        FormatError
            The header has more chunks than the file can hold, or a chunk has another size.
        """
        stored = self.source.size() - self.data_offset
        smallest = self.nchunks * (CHUNK_HEADER_SIZE + self.header.checksum.nbytes)
        if smallest > stored:
            raise TruncatedError(
                f"{self.nchunks} chunks need at least {smallest} bytes, "
                f"found {max(stored, 0)} at offset {self.data_offset}",
                offset=self.data_offset,
            ).at(path=self.name)
        if nbytes > _USUAL_EXPANSION * stored:
            for group in prefetched(self.source, range(self.nchunks), self.extent):
                for index in group:
                    self.fetch(index)

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
        header = self.header
        if self.trailer is not None:
            return  # its digest covers the header
        if header.offsets:
            if header.max_app_chunks:
                position = self._table_offset + OFFSET_SIZE * self.nchunks
                if self.source.read_at(position, OFFSET_SIZE) != UNUSED_ENTRY:
                    if has_grown(self):
                        return
                    raise self._too_few_chunks_error("the offset table has another entry")
            return
        if self.nchunks == 0:
            return
        with errors_at(self.name):
            position = self._chunk_table().chained(self.nchunks)
        try:
            check = bool(self.verify)
            _, following = read_stored(self.source, header.checksum, position, None, check)
        except BloscpackError:
            return  # not a chunk: trailing bytes
        if 0 < following.nbytes <= max(self.chunk_size, self.last_chunk):
            raise self._too_few_chunks_error(f"another chunk follows at offset {position}")

    def _too_few_chunks_error(self, why: str) -> FormatError:
        return FormatError(
            f"header: nchunks is {self.nchunks}, but {why}", offset=16, field="nchunks"
        ).at(path=self.name)

    def reopened(self, source: ByteSource) -> "Container":
        """Return a container for the current state of `source`, which does not follow writers."""
        later = Container(source, verify=self.verify, replays=False)
        later.follows_writers = False
        return later

    def close(self) -> None:
        """Close the source; idempotent."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _chunk_table(self) -> ChunkTable:
        if self._table is None:  # two threads may create two equal tables
            self._table = ChunkTable(self.source, self.header, self._table_offset, self.trailer)
        return self._table

    def _fetch(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        """Return the fields of `StoredChunk`; see `fetch`."""
        if not 0 <= index < self.nchunks:
            raise IndexError(
                f"chunk index {index} is out of range: the file has {self.nchunks} chunks"
            )
        old_last = self._old_last  # once, as other threads replace it
        if old_last is not None and old_last[0] == index:
            return old_last[1]
        try:
            # A single chunk is at a known offset, so the table is not needed.
            if self.nchunks == 1:
                return self._load(0, self.data_offset, None)
            if not self.header.offsets or not self._trusts_table:
                return self._load(index, self._chunk_table().chained(index), None)
            return self._load_by_table(index)
        except BloscpackError as err:
            if index >= min(self.nstable, self.nchunks - 1):
                old = old_chunk(self, index)
                if old is not None:
                    self._old_last = index, old
                    return old
            err.at(path=self.name)
            raise

    def _load_by_table(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        table = self._chunk_table()
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
            self._trusts_table = False
            return found

    def _load(
        self, index: int, offset: int, following: int | None
    ) -> tuple[int, memoryview, ChunkHeader]:
        """Read the chunk at `offset`, compare its checksum and check that it can be `index`."""
        row = self.header.checksum
        check = not self._needs_no_check(index)
        try:
            data, header = read_stored(
                self.source, row, offset, following, check, self._probe_nbytes
            )
        except BloscpackError as err:
            if isinstance(err, ChecksumError):
                err.index = index
            err.at(f"chunk {index} at offset {offset}")
            raise
        # As `chunk_nbytes`, but saves a call for each chunk.
        if self.grid is not None:
            nbytes = self.grid.size(index)
        else:
            nbytes = self.last_chunk if index == self.nchunks - 1 else self.chunk_size
        if header.nbytes != nbytes:
            raise FormatError(
                f"chunk {index} at offset {offset}: decodes to {header.nbytes} bytes, "
                f"the header promises {nbytes}",
                offset=offset,
            )
        if check and not row.nbytes and self.trailer is not None:
            self.compare_trailer(index, StoredChunk(offset, data, header))
        if check and self._memory is not None:
            self._memory.set_checked(index)
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
        expected = self._chunk_table().digest(index)
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
