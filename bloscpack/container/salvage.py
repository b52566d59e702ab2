"""Search for intact chunks in a damaged or truncated file.

The file is scanned from front to back. After an intact chunk the next one follows directly. After a
damaged one, the scan looks for the next header whose chunk has a correct digest. The result is runs
of adjacent chunks. The index of a run must be proven: by the position of the first chunk, the XXH3
digests of the trailer, the offset table, the sizes in damaged chunks between two runs, or the end
of the data. A run whose index is not proven is reported, never guessed.

All work is linear in the size of the file, as the work on false candidates is bounded.
"""

import sys
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import BloscpackError, FormatError
from ..format.codec import CHUNK_HEADER_SIZE, CHUNK_VERSIONS, ChunkHeader, decode
from ..format.header import OFFSET_SIZE, UNKNOWN
from ..format.trailer import DIGEST_SIZE, PAGE_CHUNKS, UNKNOWN_DIGEST
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.file import Holes
from ..storage.protocol import ByteSource
from ..types import BytesLike
from .foundfront import FoundFront

_UNUSED = -1  # spare entry of the offset table
# Size of the blocks that are searched for the next chunk.
_SCAN_NBYTES = 1 << 20
# Limit on the bytes of false candidates that are digested or decoded: 4 times the file + 64 MiB.
_WASTE_FACTOR, _WASTE_NBYTES = 4, 64 << 20
# Most decoded sizes of chunks that are searched for; a grid has a size for each kind of edge.
_MAX_SIZES = 16


class FoundChunk(NamedTuple):
    """Intact chunk of a file."""

    # Extent in the file, without its digest.
    offset: int
    cbytes: int
    nbytes: int  # decoded size in bytes
    digest: bytes  # XXH3 of the stored chunk


class Salvage:
    """Intact chunks of a file by index, found by the result of `find_front`.

    `chunk_size`, `last_chunk` and `nchunks` are those of the header, or of the chunks if the header
    says "unknown". `unplaced` are intact chunks of unknown index. `gave_up` is whether the search
    reached its limit of work before the end of the file.
    """

    def __init__(
        self, source: ByteSource, front: FoundFront, *, nthreads: int | None = None
    ) -> None:
        self._source = source
        self._holes = Holes(source)
        self._front = front
        header = front.header
        self._row = header.checksum
        self._size = source.size()
        self._end = self._size
        if front.trailer is not None and front.is_current:
            self._end = front.trailer.offset
        self._wasted_left = _WASTE_FACTOR * self._size + _WASTE_NBYTES
        self.gave_up = False
        # Start and bytes of the block searched last.
        self._block = (-_SCAN_NBYTES, b"")
        self.chunk_size, self.last_chunk = header.chunk_size, header.last_chunk
        self.nchunks = header.nchunks
        self.grid = front.grid
        if self.grid is not None:
            self.chunk_size, self.nchunks = self.grid.chunk_nbytes, self.grid.nchunks
        self._by_digest, self._knows_all = self._recorded_digests()
        self._digest_at = {at: digest for digest, all_ in self._by_digest.items() for at in all_}
        self._table = self._read_table()
        self._data_offset = self._find_start()
        runs = list(self._sweep())
        self.chunks: dict[int, FoundChunk] = {}
        self.unplaced: list[FoundChunk] = []
        self._place(runs)
        self._decode(nthreads)
        if self.nchunks == UNKNOWN:
            self.nchunks = max(self.chunks, default=-1) + 1
        last = self.chunks.get(self.nchunks - 1)
        if self.last_chunk == UNKNOWN:
            self.last_chunk = last.nbytes if last else self.chunk_size
        # Sizes that the header does not have are known only now.
        for index in [one for one in self.chunks if not self._fits(one, self.chunks[one])]:
            del self.chunks[index]

    @property
    def is_complete(self) -> bool:
        """Whether all chunks that the header counts were found."""
        return len(self.chunks) == self.nchunks

    @property
    def nbytes(self) -> int:
        """Decoded size of the whole file, by the header."""
        if self.grid is not None:
            return self.grid.nbytes
        return max(self.nchunks - 1, 0) * self.chunk_size + self.last_chunk

    def start_of(self, index: int) -> int:
        """Return the decoded size of all chunks before `index`, in bytes."""
        return index * self.chunk_size if self.grid is None else self.grid.start(index)

    def _size_of(self, index: int) -> int:
        """Return the decoded size of a chunk by the header; -1 if it is unknown."""
        if self.grid is not None:
            return self.grid.size(index)
        return self.last_chunk if index == self.nchunks - 1 else self.chunk_size

    def _recorded_digests(self) -> tuple[dict[bytes, list[int]], bool]:
        """Return the indices of each digest in the trailer, and whether all of them are known."""
        trailer = self._front.trailer
        indices: dict[bytes, list[int]] = {}
        if trailer is None:
            return indices, False
        complete = self._front.is_current
        for page in range(-(-trailer.nchunks // PAGE_CHUNKS)):
            digests = self._source.read_at(*trailer.page_extent(page))
            if not trailer.matches_digests(page, digests):
                complete = False
                continue
            for at in range(0, len(digests), DIGEST_SIZE):
                digest = bytes(digests[at : at + DIGEST_SIZE])
                complete = complete and digest != UNKNOWN_DIGEST
                index = page * PAGE_CHUNKS + at // DIGEST_SIZE
                indices.setdefault(digest, []).append(index)
        indices.pop(UNKNOWN_DIGEST, None)
        return indices, complete

    def _read_table(self) -> "array[int]":
        """Return the used entries of the offset table as stored, unchecked."""
        start = self._front.table_offset
        if start is None or not self._front.header.offsets:
            return array("q")
        # At most as many as the file has room for chunks.
        room = max(self._size - start, 0) // (OFFSET_SIZE + CHUNK_HEADER_SIZE)
        return self._entries_at(start, min(max(self.nchunks, 0), room))

    def _entries_at(self, start: int, count: int) -> "array[int]":
        entries = array("q", bytes(self._source.read_at(start, OFFSET_SIZE * count)))
        if sys.byteorder == "big":
            entries.byteswap()
        return entries

    def _find_start(self) -> int | None:
        """Return the offset of the first chunk; also set sizes that are unknown in the header."""
        table_offset = self._front.table_offset
        if table_offset is None:
            return None
        start = table_offset + self._front.header.table_size
        for position in (start, *self._table[:1]):
            found = self._chunk_at(position, any_size=True) if position >= table_offset else None
            if found is None or (not found.nbytes and self.nchunks not in (1, UNKNOWN)):
                continue
            # A table that ends here proves that the number of chunks in the header is wrong.
            if position != start and (
                self.grid is not None or not self._recount(table_offset, position)
            ):
                continue
            if self.grid is None and self.nchunks != 1 and found.nbytes != self.chunk_size:
                self.chunk_size = found.nbytes
            return position
        if self.chunk_size == UNKNOWN:
            try:
                self.chunk_size = self._header_at(start).nbytes
                if not self.chunk_size and self.nchunks not in (1, UNKNOWN):
                    raise FormatError("a chunk of no bytes before others")
            except BloscpackError as err:
                raise FormatError(
                    f"chunk 0 at offset {start}: {err.args[0]}; the chunk size is not known from "
                    "anything else, so nothing can be recovered",
                    offset=start,
                ) from None
        return start

    def _recount(self, table_offset: int, start: int) -> bool:
        """Take the number of chunks from the table if it extends exactly to `start`."""
        room, rest = divmod(start - table_offset, OFFSET_SIZE)
        entries = self._entries_at(table_offset, room)
        count = 1
        while count < len(entries) and entries[count - 1] < entries[count] < self._size:
            count += 1
        if rest or any(entry != _UNUSED for entry in entries[count:]):
            return False
        self._table, self.nchunks, self.last_chunk = entries[:count], count, UNKNOWN
        return True

    def _header_at(self, position: int) -> ChunkHeader:
        # A damaged header can name an offset beyond those that a system reads at.
        position = min(position, self._size)
        return ChunkHeader.unpack(self._source.read_at(position, CHUNK_HEADER_SIZE))

    def _chunk_at(self, position: int, *, any_size: bool = False) -> FoundChunk | None:
        """Return the chunk at `position` if it is intact, else None."""
        try:
            header = self._header_at(position)
        except BloscpackError:
            return None
        nbytes, cbytes = header.nbytes, header.cbytes
        most = max(self.chunk_size, self.last_chunk)
        if not any_size and not (0 < nbytes <= most):
            return None
        if position + cbytes + self._row.nbytes > self._end:
            return None
        stored = memoryview(self._source.read_at(position, cbytes + self._row.nbytes))
        data, digest = stored[:cbytes], stored[cbytes:]
        strong = xxh3_64_digest(data)
        if self._is_whole(data, digest, strong, nbytes):
            return FoundChunk(position, cbytes, nbytes, strong)
        # Without checksums, the bytes were decoded.
        self._wasted_left -= cbytes if self._row.nbytes else cbytes + nbytes
        return None

    def _is_whole(self, data: BytesLike, digest: BytesLike, strong: bytes, nbytes: int) -> bool:
        if strong in self._by_digest:
            return True
        if self._knows_all:  # it is of an earlier state of the file, even if it is whole
            return False
        if self._row.nbytes:
            return self._row.digest(data) == digest
        return _decodes(data, nbytes)

    def _sweep(self) -> Iterator[list[FoundChunk]]:
        """Yield the runs of adjacent chunks."""
        start = self._data_offset
        position = self._front.header.size if start is None else start
        run: list[FoundChunk] = []
        while position < self._end:
            found = self._chunk_at(position, any_size=position == start)
            if found is None:
                if run:
                    yield run
                run = []
                position = self._next_candidate(position + 1)
            else:
                run.append(found)
                position += found.cbytes + self._row.nbytes
        if run:
            yield run

    def _next_candidate(self, position: int) -> int:
        """Return the next position of a header with a matching size, or the end."""
        sizes = {self.chunk_size, self.last_chunk} - {UNKNOWN, 0}
        if self.grid is not None:
            sizes = self.grid.sizes(_MAX_SIZES)
        patterns = [size.to_bytes(4, "little") for size in sizes]
        while position < self._end:
            if self._wasted_left < 0:
                self.gave_up = True
                break
            start, block = self._block
            if not start <= position < start + _SCAN_NBYTES:
                # A header begins with its version, which is not 0, so it cannot be in a hole.
                start = position = self._holes.data_from(position)
                block = bytes(self._source.read_at(start, _SCAN_NBYTES + CHUNK_HEADER_SIZE))
                self._block = start, block
            found = (_find_size(block, size, position - start) for size in patterns)
            hits = [at for at in found if at >= 0]
            if hits:
                return start + min(hits)
            position = start + _SCAN_NBYTES
        return self._end

    def _place(self, runs: list[list[FoundChunk]]) -> None:
        """Assign the chunks of each run to their indices."""
        index, end = 0, self._data_offset
        for run, first in zip(runs, self._find_firsts(runs), strict=True):
            if first is None or not self._has_room(first - index, end, run[0].offset):
                # The digest places the others, below.
                self.unplaced.extend(one for one in run if one.digest not in self._by_digest)
                continue
            for number, chunk in enumerate(run):
                if self._fits(first + number, chunk):
                    self.chunks.setdefault(first + number, chunk)
            index, end = first + len(run), self._end_of(run)
        self._share_by_digest(runs)

    def _has_room(self, missing: int, end: int | None, start: int) -> bool:
        """Return whether `missing` chunks fit between two positions."""
        if end is None or missing == 0:
            return missing >= 0 and end in (None, start)
        return 0 < missing <= (start - end) // (CHUNK_HEADER_SIZE + self._row.nbytes)

    def _find_firsts(self, runs: list[list[FoundChunk]]) -> list[int | None]:
        """Return the index of the first chunk of each run, None if it cannot be proven."""
        firsts = [self._first_by_proof(run) for run in runs]
        self._place_by_table(runs, firsts)
        starts = {run[0].offset: number for number, run in enumerate(runs)}
        if self._data_offset is not None:
            self._hop(self._data_offset, 0, starts, firsts)
        for number, run in enumerate(runs):
            first = firsts[number]
            if first is not None:
                self._hop(self._end_of(run), first + len(run), starts, firsts)
        if runs and firsts[-1] is None:
            firsts[-1] = self._first_from_end(runs[-1])
        if len(runs) == 1 and firsts[0] is None and len(runs[0]) == self.nchunks:
            firsts[0] = 0  # all chunks are there, one after the other
        return firsts

    def _end_of(self, run: list[FoundChunk]) -> int:
        return run[-1].offset + run[-1].cbytes + self._row.nbytes

    def _first_by_proof(self, run: list[FoundChunk]) -> int | None:
        """Return the index of the first chunk of `run` from its position or the trailer."""
        if run[0].offset == self._data_offset:
            return 0
        for number, chunk in enumerate(run):
            indices = self._by_digest.get(chunk.digest, ())
            if len(indices) == 1:
                return indices[0] - number
        return None

    def _place_by_table(self, runs: list[list[FoundChunk]], firsts: list[int | None]) -> None:
        """Place runs by the offset table, unless it contradicts other evidence."""
        by_table: list[int | None] = [None] * len(runs)
        agreed = bool(self._table) and self._table[0] == self._data_offset
        place = {
            chunk.offset: (number, at)
            for number, run in enumerate(runs)
            for at, chunk in enumerate(run)
        }
        for index, offset in enumerate(self._table):
            if offset not in place:
                continue
            number, at = place[offset]
            known = firsts[number] if by_table[number] is None else by_table[number]
            if known not in (None, index - at):
                return  # shifted, or of another state of the file
            agreed = agreed or firsts[number] is not None
            by_table[number] = index - at
        if not agreed:
            return
        for number, first in enumerate(by_table):
            if firsts[number] is None:
                firsts[number] = first

    def _hop(
        self, position: int, index: int, starts: dict[int, int], firsts: list[int | None]
    ) -> None:
        """Follow damaged chunks from chunk `index` by the sizes in their headers to an intact run.

        The sizes are proven when they lead exactly to an intact chunk.
        """
        while position not in starts:
            try:
                header = self._header_at(position)
            except BloscpackError:
                return
            size = self.chunk_size
            if self.grid is not None:
                size = self.grid.size(index) if index < self.nchunks else UNKNOWN
            if header.nbytes != size:
                return
            position += header.cbytes + self._row.nbytes
            index += 1
        if firsts[starts[position]] is None:
            firsts[starts[position]] = index

    def _first_from_end(self, run: list[FoundChunk]) -> int | None:
        """Return the index of the first chunk of the last run if the run ends with the data.

        Only a current trailer has the end of the data and protects the number of chunks.
        """
        if not self._front.is_current or self._end_of(run) != self._end:
            return None
        return self.nchunks - len(run)

    def _fits(self, index: int, chunk: FoundChunk) -> bool:
        """Return whether a chunk has the digest of this index, and a size that the header allows.

        The digest is compared if that of the index is known. A chunk may be whole, but in the place
        of another.
        """
        if self._front.is_current and self._digest_at.get(index, chunk.digest) != chunk.digest:
            return False
        if self.nchunks == UNKNOWN:
            return index >= 0
        if not 0 <= index < self.nchunks:
            return False
        return self._size_of(index) in (UNKNOWN, chunk.nbytes)

    def _share_by_digest(self, runs: list[list[FoundChunk]]) -> None:
        """Assign a chunk to every index with the same digest, as the content is the same."""
        for run in runs:
            for chunk in run:
                for index in self._by_digest.get(chunk.digest, ()):
                    if self._fits(index, chunk):
                        self.chunks.setdefault(index, chunk)

    def _decode(self, nthreads: int | None) -> None:
        """Drop chunks that cannot be decoded."""
        indices = sorted(self.chunks)
        failed: list[int] = []

        def check(index: int) -> None:
            chunk = self.chunks[index]
            if not _decodes(self._source.read_at(chunk.offset, chunk.cbytes), chunk.nbytes):
                failed.append(index)

        nbytes = len(indices) * max(self.chunk_size, 0)
        run_indexed(check, indices, resolve_nthreads(nthreads, nbytes))
        for index in failed:
            del self.chunks[index]


def _find_size(block: bytes, size: bytes, start: int) -> int:
    """Return the first position at or after `start` of a chunk header with this size, or -1."""
    at = block.find(size, start + 4)
    while at >= 0:
        if block[at - 4] in CHUNK_VERSIONS:  # 4 bytes before the size
            return at - 4
        at = block.find(size, at + 1)
    return -1


def _decodes(data: BytesLike, nbytes: int) -> bool:
    try:
        decode(data, nbytes)
    except BloscpackError:
        return False
    return True
