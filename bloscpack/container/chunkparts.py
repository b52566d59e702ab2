"""Containers written in parallel: workers compress parts, one process joins them.

A part holds consecutive chunks with their checksums, exactly as they are stored in the file. The
worker passes a small record of the part to the joining process. That process checks that the
records cover all chunks, writes the header, metadata and offset table, copies the parts and adds
the trailer. Nothing is compressed twice, and the file is byte for byte the one that a single
process writes.

Every part has a unique key. A task may therefore run twice: either record describes a whole part.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate

from xxhash import xxh3_64

from ..exceptions import ChecksumMismatch, TruncatedError
from ..format.codec import CodecParams
from ..format.header import OFFSET_SIZE, Header, pack_offsets
from ..format.trailer import pack_trailer
from ..parallel.threads import map_ordered
from ..storage.protocol import ByteSink, ByteSource, JoinSink, PartStore, errors_at
from ..storage.remote.prefetch import prefetched
from ..storage.sink import committed
from ..types import BytesLike, Progress
from .writer import write_chunks, write_unused

_SIZE = struct.Struct("<I")
_BLOCK_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PartRecord:
    """Description of a part; small and picklable.

    Attributes
    ----------
    job : str
        Id of the job.
    key : str
        Name of the part within the job.
    start, stop : int
        Rows in the part.
    first : int
        Index of its first chunk.
    sizes : bytes
        Stored size of each chunk with its checksum, u32.
    digests : bytes
        XXH3 of each stored chunk, without its checksum.
    digest : bytes
        XXH3 of the whole part.
    statistics : bytes
        Statistics of each chunk; empty in a file without them.
    """

    job: str
    key: str
    start: int
    stop: int
    first: int
    sizes: bytes
    digests: bytes
    digest: bytes
    statistics: bytes = b""

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return len(self.sizes) // _SIZE.size

    @property
    def nbytes(self) -> int:
        """Size of the part in bytes."""
        return sum(self.iter_sizes())

    def iter_sizes(self) -> Iterator[int]:
        """Yield the stored size of each chunk with its checksum."""
        return (size for (size,) in _SIZE.iter_unpack(self.sizes))

    def is_same(self, other: "PartRecord") -> bool:
        """Return whether the other part holds the same chunks with the same content."""
        same = (self.first, self.sizes, self.digests) == (other.first, other.sizes, other.digests)
        return same and self.digest == other.digest

    def __str__(self) -> str:
        return f"rows {self.start} to {self.stop}"


def write_part(
    store: PartStore,
    job: str,
    rows: tuple[int, int],
    first: int,
    header: Header,
    chunks: Iterable[BytesLike],
    params: CodecParams,
    *,
    nthreads: int = 1,
) -> PartRecord:
    """Compress some chunks of a file and write them as a part.

    Parameters
    ----------
    store : PartStore
        Destination of the part.
    job : str
        Id of the job.
    rows : (int, int)
        Range of rows, for the record.
    first : int
        Index of the first chunk.
    header : Header
        Header of the file.
    chunks : iterable of bytes-like
        The content, one piece per chunk.
    params : CodecParams
        Compression parameters.

    Raises
    ------
    FileNotFoundError
        The job has ended.
    OSError
        The part cannot be written.
    """
    start, stop = rows
    key = f"{first:012x}-{os.urandom(8).hex()}"
    digests: list[bytes] = []
    statistics: list[bytes] = []
    with committed(store.create_part(key)) as sink:
        digested = _DigestedSink(sink)
        offsets, _, end = write_chunks(
            digested,
            0,
            header.checksum,
            chunks,
            params,
            nthreads,
            None,
            -1,
            digests,
            statistics,
        )
    ends = [*offsets[1:], end]
    sizes = (_SIZE.pack(after - before) for before, after in zip(offsets, ends, strict=True))
    packed, digest = b"".join(sizes), digested.digest()
    return PartRecord(
        job, key, start, stop, first, packed, b"".join(digests), digest, b"".join(statistics)
    )


class _DigestedSink:
    """Sink that passes data on to another sink and computes their XXH3."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._state = xxh3_64()

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._state.update(data)
        self._sink.write(data)

    def digest(self) -> bytes:
        """Return the XXH3 of everything that was written."""
        return self._state.digest()


def sorted_parts(records: Iterable[PartRecord], job: str) -> list[PartRecord]:
    """Return the records in chunk order, without duplicates.

    Raises
    ------
    TypeError
        An item is not a record.
    ValueError
        A record belongs to another job, parts overlap, or two parts of the same rows differ.
    """
    found: list[PartRecord] = []
    given = list(records)
    for record in given:
        if not isinstance(record, PartRecord):
            raise TypeError(f"expected a PartRecord, as returned by write, not {record!r:.100}")
        if record.job != job:
            raise ValueError(f"{record} were written for another job ({record.job}, not {job})")
    # Also sorted by key, so that the order of `records` does not matter.
    for record in sorted(given, key=lambda each: (each.first, each.stop, each.key)):
        last = found[-1] if found else None
        if last is None or record.first >= last.first + last.nchunks:
            found.append(record)
        elif record.first != last.first or record.nchunks != last.nchunks:
            raise ValueError(f"parts overlap: {last}, and {record}")
        elif not last.is_same(record):
            raise ValueError(
                f"{record} were written twice, and differ: the code that produces them must give "
                "the same result each time"
            )
    return found


def missing_chunks(parts: Sequence[PartRecord], nchunks: int) -> list[tuple[int, int]]:
    """Return the runs (start, stop) of chunks that no part holds.

    Raises
    ------
    ValueError
        A part has more chunks than the file.
    """
    missing = []
    done = 0
    for part in parts:
        if part.first > done:
            missing.append((done, part.first))
        done = part.first + part.nchunks
        if done > nchunks:
            raise ValueError(f"{part} exceed the size of the file")
    if done < nchunks:
        missing.append((done, nchunks))
    return missing


def join_parts(
    store: PartStore,
    header: Header,
    section: bytes,
    parts: Sequence[PartRecord],
    *,
    verify: bool = True,
    nthreads: int = 1,
    progress: Progress | None = None,
) -> None:
    """Write the file from all parts.

    Parameters
    ----------
    store : PartStore
        Place of the parts.
    header : Header
        Header of the file.
    section : bytes
        The metadata section.
    parts : sequence of PartRecord
        Records in order (`sorted_parts`) that cover all chunks (`missing_chunks`).
    verify : bool
        Read each part before it is copied, and compare its digest.
    nthreads : int
        Number of threads that verify.
    progress : callable, optional
        Called with (bytes copied, total bytes) after each part.

    Raises
    ------
    FileNotFoundError
        A part is missing.
    TruncatedError, ChecksumMismatch
        A part has changed since it was written.
    LockedError
        A writer has the file to be replaced open.
    OSError
        The file cannot be written.
    """
    head = header.pack() + section
    offsets, trailer = _end_of(header, head, parts)
    with committed(store.join()) as sink:
        sink.write(head)
        sink.write(pack_offsets(offsets))
        write_unused(sink, header.table_size - OFFSET_SIZE * len(offsets))
        checked = map_ordered(_Check(store, reads=verify), parts, nthreads)
        _append_parts(sink, checked, sum(part.nbytes for part in parts), progress)
        for piece in trailer:
            sink.write(piece)


def _append_parts(
    sink: JoinSink, parts: Iterable[PartRecord], total: int, progress: Progress | None
) -> None:
    done = 0
    for part in parts:
        sink.append_part(part.key, part.nbytes)
        done += part.nbytes
        if progress is not None:
            progress(done, total)


def is_joined(
    store: PartStore, header: Header, section: bytes, parts: Sequence[PartRecord]
) -> bool:
    """Return whether the existing file is the one that these parts make."""
    offsets, trailer = _end_of(header, header.pack() + section, parts)
    last = trailer[-1]
    try:
        source = store.open_target()
    except FileNotFoundError:
        return False
    with closing(source):
        size = offsets[-1] + list(parts[-1].iter_sizes())[-1] + sum(map(len, trailer))
        # Its digests cover the front, all entries and all chunks.
        return source.size() == size and source.read_at(size - len(last), len(last)) == last


def _end_of(
    header: Header, head: bytes, parts: Sequence[PartRecord]
) -> tuple[list[int], list[bytes]]:
    """Return the offsets of all chunks, and the trailer as a list of pieces."""
    sizes = (size for part in parts for size in part.iter_sizes())
    offsets = list(accumulate(sizes, initial=len(head) + header.table_size))
    end = offsets.pop()
    digests = b"".join(part.digests for part in parts)
    statistics = b"".join(part.statistics for part in parts)
    return offsets, list(pack_trailer(head, offsets, digests, end, statistics))


class _Check:
    """Function that checks a part against its record."""

    def __init__(self, store: PartStore, *, reads: bool) -> None:
        self._store = store
        self._reads = reads

    def __call__(self, part: PartRecord) -> PartRecord:
        try:
            source = self._store.open_part(part.key)
        except FileNotFoundError as err:
            raise FileNotFoundError(
                err.errno,
                f"the part with {part} is missing; write it again, or abort",
                self._store.name,
            ) from err
        with closing(source), errors_at(self._store.name):
            self._compare(source, part)
        return part

    def _compare(self, source: ByteSource, part: PartRecord) -> None:
        nbytes, size = part.nbytes, source.size()
        if size != nbytes:
            raise TruncatedError(
                f"the part with {part} has {size} bytes, expected {nbytes}; write it again"
            )
        if not self._reads:
            return
        state = xxh3_64()
        blocks = [
            (start, min(_BLOCK_NBYTES, nbytes - start)) for start in range(0, nbytes, _BLOCK_NBYTES)
        ]
        for group in prefetched(source, blocks, lambda block: block):
            for block in group:
                state.update(source.read_at(*block))
        if state.digest() != part.digest:
            raise ChecksumMismatch(
                f"the part with {part} has changed since it was written; write it again",
                name="xxh3_64",
                expected=part.digest,
                actual=state.digest(),
            )
