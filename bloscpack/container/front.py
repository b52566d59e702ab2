"""Reader of the front of a file, header and metadata section, and of the trailer that covers it.

The trailer is searched for at the end of the file. It has its own checksum, which distinguishes it
from other bytes there. Its digest of the front decides whether it describes the current state of
the file. If the front is damaged, the copy of it in the trailer can be used instead
(`foundfront.py`).

A writer that appends changes the header, the metadata, the next entries of the offset table and
everything after the last full chunk (of a chunk grid, the last full row of the grid). Before it
does, it writes a journal with the old bytes. An open reader sees the content that the file had when
it was opened. Only a last chunk, or row of the grid, that was not full can change in that content:
each such chunk becomes one that begins with the same content and is longer.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import (
    BloscpackError,
    FormatError,
    NotFoundError,
    WrongKindError,
)
from ..format.checksum import CHECKSUMS, LAST_V3_ID
from ..format.codec import CHUNK_HEADER_SIZE
from ..format.header import (
    ARRAY_FEATURES,
    FEATURE_GRID,
    FEATURE_LOG,
    MAGIC,
    MAX_HEADER_SIZE,
    OFFSET_SIZE,
    UNKNOWN,
    Header,
)
from ..format.metadata import MetadataHeader, decode_data, stored_data
from ..format.trailer import TAIL_SIZE, TRAILER_MAGIC, Trailer, is_current, unpack_trailer
from ..notice import notice
from ..parallel.imports import importing
from ..storage.coalescing import REMOTE
from ..storage.memory import MemorySource
from ..storage.overlay import OverlaySource, Patch
from ..storage.protocol import ByteSource
from ..types import BytesLike
from .chunktable import ChunkTable, check_room

if TYPE_CHECKING:
    from ..format.chunkgrid import ChunkGrid
    from ..format.log import Commit

Verify = bool | Literal["always"]
"""When to compare checksums: once per chunk (True), never (False), or at each read."""

LogReader = Callable[[ByteSource, BytesLike], "Front"]
"""Function that reads the front of an array of a log; takes the file and its first bytes."""

_FEATURES = ARRAY_FEATURES | FEATURE_LOG
# Attempts to read the front of a file while a writer is changing it.
ATTEMPTS = 50
# More bytes than any file or address space holds, and the limit of numpy.
_MAX_NBYTES = 2**63 - 1
# First read of a chunk whose end is unknown: enough for its header, and for a small chunk as a
# whole. Of a remote file, the largest possible chunk is read.
PROBE_NBYTES = 4096
# Read at the end: the trailer of nearly every file except its digests; pages of a million chunks.
TAIL_NBYTES = 8192
# Read at the beginning: header, metadata and the first offsets of nearly every file.
HEAD_NBYTES = 4096


class Front(NamedTuple):
    """Front of one state of a file: everything that is known before a chunk is read.

    Attributes
    ----------
    head : bytes
        The stored header.
    header : Header
        Its fields.
    metadata_header : MetadataHeader or None
        The stored metadata header; None without a metadata section.
    stored_metadata : bytes
        Stored data of the metadata section, after a check of their checksum.
    table : ChunkTable
        Where the chunks are.
    table_offset, data_offset : int
        Absolute positions of the offset table and of the first chunk.
    nchunks, chunk_size, last_chunk : int
        Values of the header, or counted if the header says "unknown".
        For a chunk grid, `chunk_size` is the size of a chunk that is not at an edge.
    nbytes : int
        Decoded size of all chunks.
    grid : ChunkGrid or None
        The chunk grid; None if all chunks but the last have the same size.
    trailer : Trailer or None
        The trailer, if it describes the current state of the file.
    trailer_state : str
        "valid", "absent", "stale" (the file has changed since), "damaged" or "unread".
    file_size : int
        Size of the file in bytes.
    used_nbytes : int
        Bytes of the front of a remote file that were used.
    probe_nbytes : int
        First read of a chunk whose end is unknown.
    """

    head: bytes
    header: Header
    metadata_header: MetadataHeader | None
    stored_metadata: bytes
    table: ChunkTable
    table_offset: int
    data_offset: int
    nchunks: int
    chunk_size: int
    last_chunk: int
    nbytes: int
    grid: "ChunkGrid | None"
    trailer: Trailer | None
    trailer_state: str
    file_size: int
    used_nbytes: int
    probe_nbytes: int

    @property
    def commit(self) -> "Commit | None":
        """State of the log that it is the front of an array of; None for other files."""
        return getattr(self.table, "commit", None)

    @property
    def nstable(self) -> int:
        """Number of chunks that appending does not change: all before one that is not full."""
        if self.grid is not None:
            return self.grid.nstable
        return self.nchunks - (self.last_chunk != self.chunk_size)

    def chunk_nbytes(self, index: int) -> int:
        """Return the decoded size of chunk `index` in bytes."""
        if self.grid is not None:
            return self.grid.size(index)
        return self.last_chunk if index == self.nchunks - 1 else self.chunk_size

    def is_continued(self, later: "Front") -> bool:
        """Return whether `later` is consistent with a later state of the same file."""
        one, two = self.header, later.header
        return (
            self.has_start_of(later)
            and self.data_offset == later.data_offset
            and one.nchunks + one.max_app_chunks == two.nchunks + two.max_app_chunks
        )

    def has_start_of(self, longer: "Front") -> bool:
        """Return whether `longer` has chunks of the same kind and division, and as much content."""
        grid = self.grid
        if grid is None or longer.grid is None:
            is_continued = grid is longer.grid and self.chunk_size == longer.chunk_size
        else:
            is_continued = longer.grid.continues(grid)
        return (
            is_continued and self.header[:5] == longer.header[:5] and self.nbytes <= longer.nbytes
        )


def no_version(version: int, first: int = 0, last: int = 0) -> NotFoundError:
    """Return the error for a version that a file does not have, only `first` to `last`.

    The only version of a file that is not a log is 0.
    """
    others = f"{first} to {last}, or {first - last - 1} to" if first < last else f"only {last}, or"
    return NotFoundError(f"no version {version}: the file has {others} -1")


def open_front(
    file: ByteSource,
    *,
    verify: Verify = True,
    replays: bool = True,
    read_log: LogReader | None = None,
) -> tuple[Front, ByteSource]:
    """Return the front of one state of a file, and a source of this state.

    Parameters
    ----------
    file : ByteSource
        The file, which a writer may be changing; owned by the source that is returned, and closed
        on an error.
    verify : bool or "always"
        When checksums will be compared; a remote file needs its trailer for some of them.
    replays : bool
        Roll back the unfinished append of a dead writer in the file. If false, the file is only
        read as it was before the append.
    read_log : callable, optional
        Reads the front of a log, which is refused without it.

    Raises
    ------
    FormatError
        The front of the file is damaged, or it is not a Bloscpack file (`NotBloscpackError`).
    UnsupportedError
        The format version or the metadata format is unknown.

    Notes
    -----
    With a journal, the file is read as it was before the change. Without one, the journal must
    still be missing after the read, and the header unchanged, as a writer writes it last. An error
    is that of the file if another read finds the same with the same header, which each append
    changes.
    """
    source, earlier = file, ("", b"")
    try:
        if not file.is_live:
            return read_front(file, verify=verify, read_log=read_log), file
        for attempt in range(ATTEMPTS):
            before = file.before_append(replays=replays)
            if before is not None:
                source = before
            # A small file takes one call instead of two if its size is known, as it is at first.
            is_known = before is None and 0 < file.stamp[0] < HEAD_NBYTES and attempt == 0
            nbytes = file.stamp[0] if is_known else HEAD_NBYTES
            try:
                front = read_front(source, nbytes, verify=verify, read_log=read_log)
                if (
                    before is not None
                    or type(front.table) is not ChunkTable
                    or (
                        not file.has_unfinished_append()
                        and file.read_at(0, len(front.head)) == front.head
                    )
                ):
                    return front, source
            except BloscpackError as err:
                found = str(err), bytes(file.read_at(0, MAX_HEADER_SIZE))
                is_same, earlier = found == earlier, found
                is_stable = is_same and attempt >= 2 and not file.has_unfinished_append()
                if before is not None or is_stable:
                    raise
        raise FormatError("header: a writer changes it too fast to read it")  # noqa: TRY301
    except BaseException as err:
        if isinstance(err, BloscpackError):
            err.at(path=source.name)
            _advise(source, err)
        source.close()
        raise


def later_states(
    file: ByteSource, front: Front, *, verify: Verify
) -> Iterator[tuple[Front, ByteSource]]:
    """Yield the current state of the file, repeatedly while a writer is changing it.

    `front` is that of an earlier state, and `file` its source. The source of each state is closed
    when the next one is asked for.
    """
    if not file.is_live:
        return
    for _ in range(ATTEMPTS):
        again = file.duplicate()
        if again is None:
            return
        try:
            later, source = open_front(again, verify=verify, replays=False)
        except BloscpackError:
            continue  # a busy writer may have changed the front during each attempt to read it
        try:
            if not front.is_continued(later):
                return
            yield later, source
            # Unchanged, so a writer is not the reason; unless it rolled back and has begun again.
            is_same = later.header == front.header and source.is_live
            if is_same and not source.has_unfinished_append():
                return
        finally:
            source.close()


def _advise(source: ByteSource, err: BloscpackError) -> None:
    """Add to an error in the front a hint that the trailer has a copy, if it has one."""
    if type(err) is WrongKindError:  # its header is sound; do not read the end of the file
        return
    with suppress(OSError):  # the first error is the one to raise
        if recorded_head(source) is not None:
            advice = "its trailer has a copy of the front, which bloscpack.recover uses"
            err.args = (f"{err.args[0]}; {advice}",)


def read_front(  # noqa: C901 - a helper would be one more call for each file that is opened
    source: ByteSource,
    nbytes: int = HEAD_NBYTES,
    *,
    verify: Verify = True,
    read_log: "LogReader | None" = None,
) -> Front:
    """Read header, metadata and trailer of a file that no writer changes; see `open_front`.

    The first read is of `nbytes`; more are read if they are needed.
    """
    if read_log is not None and source.node is not None:
        return read_log(source, b"")
    head = memoryview(source.read_at(0, nbytes))
    header = Header.unpack(head, known_features=ARRAY_FEATURES if read_log is None else _FEATURES)
    if read_log is not None and header.features & FEATURE_LOG:
        return read_log(source, head)
    header_size = position = header.size
    meta, data, grid = None, b"", None
    if header.metadata:
        last_checksum = LAST_V3_ID if header.format_version == 3 else CHECKSUMS[-1].id
        meta, section = read_section(source, head, header, position, last_checksum)
        data = stored_data(meta, section)
        position += len(section)
    data_offset = position + header.table_size
    nchunks, chunk_size, last_chunk = header.nchunks, header.chunk_size, header.last_chunk
    if header.features & FEATURE_GRID:
        grid = read_grid(header, decoded(meta, data))
        chunk_size = grid.chunk_nbytes
    size = source.size()
    used_nbytes, probe_nbytes, trailer, state = 0, PROBE_NBYTES, None, "unread"
    if source.has_latency:
        used_nbytes = _keep_front(source, header, position)
        largest = min(max(chunk_size, last_chunk), REMOTE.max_nbytes)
        if largest >= 0:
            probe_nbytes = largest + CHUNK_HEADER_SIZE + header.checksum.nbytes
    if not source.has_latency or _wants_trailer(source, header, chunk_size, size, verify):
        tail = head  # of a small file, which has been read as a whole
        if size > len(head):
            start = max(size - TAIL_NBYTES, 0)
            tail = memoryview(source.read_at(start, size - start))
        trailer, state = _check_trailer(
            source, tail, size, header, meta, head, position, data_offset
        )
    # The chunks begin where the table ends, so it must end within the file.
    if data_offset > size:
        check_room(source, "offset table", position, header.table_size)
    table = ChunkTable(source, header, position, data_offset, trailer)
    if nchunks <= 0 or chunk_size < 0 or last_chunk < 0:
        end = trailer.offset if trailer is not None else size
        nchunks, chunk_size, last_chunk = _counted(
            table, (nchunks, chunk_size, last_chunk), data_offset, size, end
        )
    content = (nchunks - 1) * chunk_size + last_chunk if grid is None else grid.nbytes
    if content > _MAX_NBYTES:
        raise FormatError(
            f"header: {nchunks} chunks of {chunk_size} bytes exceed 2^63-1 bytes",
            offset=16,
            field="nchunks",
        )
    fields = (
        bytes(head[:header_size]),
        header,
        meta,
        data,
        table,
        position,
        data_offset,
        nchunks,
        chunk_size,
        last_chunk,
        content,
        grid,
        trailer,
        state,
        size,
        used_nbytes,
        probe_nbytes,
    )
    return tuple.__new__(Front, fields)  # same as `_make`, but saves a call


def _wants_trailer(
    source: ByteSource, header: Header, chunk_size: int, size: int, verify: Verify
) -> bool:
    """Return whether to read the trailer of a remote file, which takes one more request.

    Without the trailer, an error in the front is not detected at once; but a chunk that is read at
    a wrong offset fails its own checksum.
    """
    return (
        verify == "always"
        or not header.checksum.nbytes
        or header.nchunks <= 0
        or min(chunk_size, header.last_chunk) < 0
        or source.holds(max(size - TAIL_NBYTES, 0), TAIL_NBYTES)
    )


def _counted(
    table: ChunkTable, division: tuple[int, int, int], data_offset: int, size: int, end: int
) -> tuple[int, int, int]:
    """Return number and sizes of the chunks; those unknown follow from the chunk headers."""
    nchunks, chunk_size, last_chunk = division
    index, position = 0, data_offset
    while index < nchunks if nchunks >= 0 else position < size:
        index += 1
        position = table.chained(index)
    if index == 0:
        if end > data_offset:
            raise FormatError(
                f"header: nchunks is 0, but {end - data_offset} bytes follow at offset "
                f"{data_offset}",
                offset=16,
                field="nchunks",
            )
        return 0, 0, 0
    if chunk_size == UNKNOWN:
        chunk_size = table.chained_header(0).nbytes
    if last_chunk == UNKNOWN:
        last_chunk = table.chained_header(index - 1).nbytes
    return index, chunk_size, last_chunk


def read_section(
    source: ByteSource, head: memoryview, header: Header, position: int, last_checksum: int
) -> tuple[MetadataHeader, memoryview]:
    """Return the header of the metadata section, and the whole section, which is not checked."""
    meta = MetadataHeader.unpack(head, position, last_checksum=last_checksum)
    size = meta.section_size
    section = head[position : position + size]
    if len(section) < size:
        check_room(source, "metadata", position, size)
        _keep_front(source, header, position + size)
        section = memoryview(source.read_at(position, size))
    return meta, section


def decoded(meta: MetadataHeader | None, data: bytes) -> Any:
    """Return the JSON value of stored metadata; None without metadata."""
    return None if meta is None else decode_data(data, meta.meta_codec, meta.meta_size)


def read_grid(header: Header, metadata: Any) -> "ChunkGrid":
    """Return the chunk grid, from which the sizes of the chunks follow."""
    with importing:  # on use: few files have a grid
        from ..format.chunkgrid import ChunkGrid

    grid = ChunkGrid.of_metadata(metadata, header.last_chunk)
    if grid.nchunks != header.nchunks:
        raise FormatError(
            f"header: nchunks is {header.nchunks}, but the grid has {grid.nchunks} chunks",
            offset=16,
            field="nchunks",
        )
    return grid


def _keep_front(source: ByteSource, header: Header, table_offset: int) -> int:
    """Fetch the used part of the front of a remote file by one request, and return its size."""
    nentries = max(header.nchunks, 0) + (header.max_app_chunks > 0) if header.offsets else 0
    end = table_offset + OFFSET_SIZE * nentries
    if end <= REMOTE.max_nbytes:
        source.keep_head(end)
    return end


def trailer_with_statistics(front: Front, source: ByteSource) -> Trailer | None:
    """Return the trailer of a file whose chunks have statistics, else None."""
    trailer = front.trailer
    if front.trailer_state == "unread":  # of a remote file, which needs it for nothing else
        start = max(front.file_size - TAIL_NBYTES, 0)
        trailer, _ = _check_trailer(
            source,
            source.read_at(start, front.file_size - start),
            front.file_size,
            front.header,
            front.metadata_header,
            b"",
            front.table_offset,
            front.data_offset,
        )
    return trailer if trailer is not None and trailer.statistics_digest else None


def read_statistics(trailer: Trailer, source: ByteSource) -> bytes:
    """Return the stored statistics of all chunks; FormatError if they are damaged."""
    offset, nbytes = trailer.statistics_extent()
    stored = bytes(source.read_at(offset, nbytes))
    if xxh3_64_digest(stored) != trailer.statistics_digest:
        raise FormatError(
            "trailer: the statistics are damaged; bloscpack.verify with fix=True rewrites them",
            offset=offset,
            field="statistics",
        ).at(path=source.name)
    return stored


def read_trailer(
    source: ByteSource, tail: BytesLike | None = None, size: int | None = None
) -> Trailer | None:
    """Return the trailer of a file if it is intact, even if it describes an earlier state.

    `tail` is the end of the file, and `size` the file size, if they were read already.
    """
    if tail is None or size is None:
        size = source.size()
        start = max(size - TAIL_NBYTES, 0)
        tail = source.read_at(start, size - start)
    trailer, missing = unpack_trailer(tail, size)
    if missing:
        trailer, _ = unpack_trailer(source.read_at(size - missing, missing), size)
    return trailer


def is_bloscpack(source: ByteSource, head: BytesLike) -> bool:
    """Return whether a file is a Bloscpack file by its first bytes or, if damaged, its trailer."""
    # A file that was cut off may have only a part of the magic.
    is_ours = len(head) > 0 and MAGIC.startswith(bytes(head[: len(MAGIC)]))
    return is_ours or read_trailer(source) is not None


def _check_trailer(
    source: ByteSource,
    tail: BytesLike,
    file_size: int,
    header: Header,
    meta: MetadataHeader | None,
    head: BytesLike,
    table_offset: int,
    data_offset: int,
) -> tuple[Trailer | None, str]:
    """Return the trailer of a file whose front was read, and its state.

    Parameters
    ----------
    source : ByteSource
        The file.
    tail : bytes-like
        Its last bytes.
    file_size : int
        Its size when `tail` was read.
    header, meta : Header, MetadataHeader or None
        Headers of the front.
    head : bytes-like
        Beginning of the file.
    table_offset, data_offset : int
        Size of header and metadata section; and of these and the offset table.

    Returns
    -------
    trailer : Trailer or None
        The trailer; None unless it is valid.
    state : str
        "valid", "absent", "stale" (it describes an earlier state of the file) or "damaged".

    Raises
    ------
    FormatError
        The front is damaged: it does not match the trailer.
    """
    trailer = read_trailer(source, tail, file_size)
    if trailer is None:
        has_magic = tail[-TAIL_SIZE : len(TRAILER_MAGIC) - TAIL_SIZE] == TRAILER_MAGIC
        return None, _ignored(source, "damaged") if has_magic else "absent"
    front = head[:table_offset]
    if len(front) < table_offset:
        front = source.read_at(0, table_offset)
    checked = meta is not None and meta.meta_checksum.nbytes > 0
    if not is_current(trailer, header, front, section_is_checked=checked):
        return None, _ignored(source, "stale")
    if trailer.nchunks != header.nchunks or trailer.offset < data_offset:
        return None, _ignored(source, "damaged")
    return trailer, "valid"


def _ignored(source: ByteSource, state: str) -> str:
    notice(
        "%s: the trailer is %s and ignored; bloscpack.verify(path, fix=True) rewrites it",
        source.name or "memory",
        state,
    )
    return state


def with_front(source: ByteSource, head: bytes) -> OverlaySource:
    """Return `source` with its first bytes replaced; closing it does not close `source`."""
    return OverlaySource(source, [Patch(0, len(head), MemorySource(head))], source.size())


def recorded_head(source: ByteSource) -> bytes | None:
    """Return the copy of the front of a file in its trailer; None without a copy."""
    trailer = read_trailer(source)
    if trailer is None or not trailer.head:
        return None
    try:
        Header.unpack(trailer.head)
    except BloscpackError:
        return None  # the trailer is not from a writer of ours
    # Large metadata are not copied to the trailer; those of the file itself are used.
    return trailer.head
