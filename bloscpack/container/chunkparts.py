"""A container made by many: each compresses some of the chunks, one joins them.

A part holds chunks one behind the other, each with its checksum, just as they lie in the file. Who
wrote it gives a small record of it to the one who joins: that one checks that the records are of
all chunks, writes header, metadata and offset table, copies the parts and adds the trailer. Nothing
is compressed twice, and the file is byte for byte the one that a single process writes.

A part has a key that no other one has. So a task may run twice, and whichever record counts is that
of a whole part.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xxhash import xxh3_64

from ..exceptions import BloscpackError, ChecksumMismatch, TruncatedError
from ..format.codec import CodecParams
from ..format.header import OFFSET_SIZE, Header, pack_offsets
from ..format.trailer import pack_trailer
from ..parallel.threads import map_ordered
from ..storage.protocol import ByteSink, ByteSource, PartStore
from ..storage.remote.prefetch import prefetched
from ..storage.sink import committed
from ..types import BytesLike
from .writer import Progress, write_chunks, write_unused

_SIZE = struct.Struct("<I")
_BLOCK_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PartRecord:
    """What is known of a part; it is small and pickles.

    Attributes
    ----------
    job : str
        The id of the job that it is for.
    key : str
        What the part is called there.
    start, stop : int
        The rows in it.
    first : int
        The first of its chunks.
    sizes : bytes
        The stored size of each chunk with its checksum, u32.
    digests : bytes
        The XXH3 of each chunk as stored, without its checksum.
    digest : bytes
        The XXH3 of the whole part.
    """

    job: str
    key: str
    start: int
    stop: int
    first: int
    sizes: bytes
    digests: bytes
    digest: bytes

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
        """Return whether the other one is of the same chunks with the same content."""
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
    """Compress some chunks of a file into a part.

    Parameters
    ----------
    store : PartStore
        Where it is put.
    job : str
        The id of the job.
    rows : (int, int)
        For the record.
    first : int
        The first chunk.
    header : Header
        Of the file.
    chunks : iterable of bytes-like
        The content, one piece for each chunk.
    params : CodecParams
        How to compress each.

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
    with committed(store.create_part(key)) as sink:
        digested = _DigestedSink(sink)
        offsets, _, end = write_chunks(
            digested, 0, header.checksum, chunks, params, nthreads, None, -1, digests
        )
    ends = [*offsets[1:], end]
    sizes = (_SIZE.pack(after - before) for before, after in zip(offsets, ends, strict=True))
    packed, digest = b"".join(sizes), digested.digest()
    return PartRecord(job, key, start, stop, first, packed, b"".join(digests), digest)


class _DigestedSink:
    """Takes what goes to another sink, and the XXH3 of it."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._state = xxh3_64()

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._state.update(data)
        self._sink.write(data)

    def digest(self) -> bytes:
        """Return the XXH3 of all that was written."""
        return self._state.digest()


def sorted_parts(records: Iterable[PartRecord], job: str) -> list[PartRecord]:
    """Return the records in the order of their chunks, each part once.

    Raises
    ------
    TypeError
        One is no record.
    ValueError
        One is of another job; parts overlap, or are of the same rows and differ.
    """
    found: list[PartRecord] = []
    given = list(records)
    for record in given:
        if not isinstance(record, PartRecord):
            raise TypeError(f"expected a PartRecord, as write returns it, not {record!r:.100}")
        if record.job != job:
            raise ValueError(f"{record} were written for another job ({record.job}, not {job})")
    # By key too, so that it does not matter in which order they come.
    for record in sorted(given, key=lambda each: (each.first, each.stop, each.key)):
        last = found[-1] if found else None
        if last is None or record.first >= last.first + last.nchunks:
            found.append(record)
        elif record.first != last.first or record.nchunks != last.nchunks:
            raise ValueError(f"parts overlap: {last}, and {record}")
        elif not last.is_same(record):
            raise ValueError(
                f"{record} were written twice, and differ: what makes them must give the same "
                "each time it runs"
            )
    return found


def missing_chunks(parts: Sequence[PartRecord], nchunks: int) -> list[tuple[int, int]]:
    """Return the runs (start, stop) of the chunks of a file that none of these parts has.

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
            raise ValueError(f"{part} are more than the file is to hold")
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
    """Make the file of all parts.

    Parameters
    ----------
    store : PartStore
        Where they are.
    header : Header
        Of the file.
    section : bytes
        The metadata section.
    parts : sequence of PartRecord
        In order (`sorted_parts`), of all chunks (`missing_chunks`).
    verify : bool
        Read each part before it is copied, and compare the digests of its chunks.
    nthreads : int
        Threads that verify.
    progress : callable, optional
        Called with (bytes copied, bytes in all) after each part.

    Raises
    ------
    FileNotFoundError
        A part is gone.
    TruncatedError, ChecksumMismatch
        A part is not as it was written.
    LockedError
        A writer has the file open that would be replaced.
    OSError
        The file cannot be written.
    """
    head = header.pack() + section
    offsets, trailer = _end_of(header, head, parts)
    with committed(store.join()) as sink:
        sink.write(head)
        sink.write(pack_offsets(offsets))
        write_unused(sink, header.table_size - OFFSET_SIZE * len(offsets))
        done, total = 0, sum(part.nbytes for part in parts)
        for part in map_ordered(_Check(store, reads=verify), parts, nthreads):
            sink.append_part(part.key, part.nbytes)
            done += part.nbytes
            if progress is not None:
                progress(done, total)
        for piece in trailer:
            sink.write(piece)


def is_joined(
    store: PartStore, header: Header, section: bytes, parts: Sequence[PartRecord]
) -> bool:
    """Return whether the file that is there is the one that these parts make."""
    head = header.pack() + section
    offsets, trailer = _end_of(header, head, parts)
    last = trailer[-1]
    try:
        source = store.open_target()
    except FileNotFoundError:
        return False
    try:
        size = offsets[-1] + list(parts[-1].iter_sizes())[-1] + sum(map(len, trailer))
        # The digests in it are of the front, of all entries and of all chunks.
        return source.size() == size and source.read_at(size - len(last), len(last)) == last
    finally:
        source.close()


def _end_of(
    header: Header, head: bytes, parts: Sequence[PartRecord]
) -> tuple[list[int], list[bytes]]:
    """Return the offsets of all chunks and the parts of the trailer."""
    sizes = (size for part in parts for size in part.iter_sizes())
    offsets = list(accumulate(sizes, initial=len(head) + header.table_size))
    end = offsets.pop()
    digests = b"".join(part.digests for part in parts)
    return offsets, list(pack_trailer(head, offsets, digests, end))


class _Check:
    """Checks that a part is what its record says."""

    def __init__(self, store: PartStore, *, reads: bool) -> None:
        self._store = store
        self._reads = reads

    def __call__(self, part: PartRecord) -> PartRecord:
        try:
            source = self._store.open_part(part.key)
        except FileNotFoundError as err:
            raise FileNotFoundError(
                err.errno,
                f"the part with {part} is gone; write it again, or abort",
                self._store.name,
            ) from err
        try:
            self._compare(source, part)
        except BloscpackError as err:
            err.path = self._store.name
            raise
        finally:
            source.close()
        return part

    def _compare(self, source: ByteSource, part: PartRecord) -> None:
        nbytes, size = part.nbytes, source.size()
        if size != nbytes:
            raise TruncatedError(
                f"the part with {part} has {size} bytes, {nbytes} were written; write it again"
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
                f"the part with {part} is not as it was written; write it again",
                name="xxh3_64",
                expected=part.digest,
                actual=state.digest(),
            )
