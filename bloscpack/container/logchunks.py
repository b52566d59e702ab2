"""Stored chunks of an array of a log: each is checked by the digest of its row."""

from collections.abc import Iterator, Mapping

import numpy as np
from xxhash import xxh3_64_digest

from ..exceptions import (
    BloscpackError,
    ChecksumMismatch,
    FileChangedError,
    FormatError,
)
from ..format.codec import CHUNK_HEADER_SIZE, ChunkHeader, CodecParams, encode
from ..format.log import DATA_OFFSET
from ..storage.coalescing import CHANGED, plan_array_runs
from ..storage.protocol import Extent
from ..types import AnyArray, BytesLike
from .chunk import Found, StoredChunk, StoredChunks, digest_error
from .logreader import LogStatistics, LogTable, read_chunk, read_commit

# Rows of a page (`format/log.py`); unlike "S8", "V8" keeps zeros at the end.
_ROWS = np.dtype([("offset", "<u8"), ("nbytes", "<u4"), ("digest", "V8")])
_LISTED = np.dtype([("index", "i8"), ("start", "i8"), ("stop", "i8"), ("digest", "V8")])


class LogChunks(StoredChunks):
    """Stored chunks of an array of a log: each is checked by the digest of its row."""

    _table: LogTable  # type: ignore[assignment]

    def nbytes(self) -> int:
        """Return the size of everything that holds chunks, in bytes."""
        smallest = CHUNK_HEADER_SIZE + self.front.header.checksum.nbytes
        held = self._table.held.values()
        return super().nbytes() + sum(smallest + len(content) for content in held)

    def needs_no_check(self, index: int) -> bool:
        """Return whether chunk `index` may be read without comparing its digest (again)."""
        if index in self._table.held:
            return False
        # Without a lock, another chunk may be there, also the next time.
        return self._table.is_held and super().needs_no_check(index)

    def extent(self, first: int, stop: int | None = None) -> Extent | None:
        """Return the extent of chunks that are one after the other in the file, else None."""
        if any(index in self._table.held for index in range(first, stop or first + 1)):
            return None
        try:
            offset, end = self._table.entry(first)
            for index in range(first + 1, stop or first + 1):
                start, following = self._table.entry(index)
                if start != end:
                    return None
                end = following
        except BloscpackError:
            return None
        return offset, end - offset

    def read_run(self, first: int, stop: int) -> Iterator[tuple[memoryview, memoryview]]:
        """Return chunks and digests, not compared, of chunks that need no check."""
        if not all(map(self.needs_no_check, range(first, stop))):
            return iter(())
        return super().read_run(first, stop) if self.extent(first, stop) else iter(())

    def listed(self) -> range | AnyArray:
        """Return the rows of all chunks in the order of the file, so that few calls read them."""
        every, table = super().listed(), self._table
        if self.source.has_latency or table.held:
            return every
        try:
            rows = np.frombuffer(b"".join(table.rows.packed()), _ROWS)
        except BloscpackError:
            return every  # reading a chunk alone raises the proper error
        starts, end = rows["offset"].astype(np.int64), min(table.rows.end, self.source.size())
        stops = starts + rows["nbytes"]
        fits = (starts >= DATA_OFFSET) & (starts < stops) & (starts < end) & (stops <= end)
        if len(rows) != len(every) or not fits.all():
            return every
        found = np.empty(len(rows), _LISTED)
        found["index"], found["digest"] = np.arange(len(rows)), rows["digest"]
        found["start"], found["stop"] = starts, stops
        return found[np.argsort(starts)]

    def read_listed(self, some: range | AnyArray) -> Iterator[tuple[int, Found]]:
        """Yield index and chunk of some of those listed; None for one that is to be read alone."""
        if isinstance(some, range) or len(some) == 1:
            for index in some if isinstance(some, range) else some["index"].tolist():
                yield index, None
            return
        digest_nbytes, is_held = self.front.header.checksum.nbytes, self._table.is_held
        needs_no_check = super().needs_no_check
        for low, high, begin, end in plan_array_runs(some["start"], some["stop"], CHANGED):
            stored = memoryview(self.source.read_at(begin, end - begin))
            for index, start, stop, digest in some[low:high].tolist():
                chunk = stored[start - begin : stop - begin]
                if not is_held or not needs_no_check(index):
                    if xxh3_64_digest(chunk) != digest:
                        yield index, None
                        continue
                    self.set_checked(index)
                yield index, (chunk[: max(len(chunk) - digest_nbytes, 0)], None)

    def offsets(self) -> tuple[int, ...]:
        """Return the offsets of all chunks after a check of all pages."""
        return tuple(row.offset for row in self._table.rows.rows())

    @property
    def held(self) -> Mapping[int, BytesLike]:
        """Decoded chunks that a writer has in memory, by index."""
        return self._table.held

    @property
    def has_statistics(self) -> bool:
        """Whether the array has the statistics of each chunk."""
        return self._table.statistics is not None

    def read_statistics(self, held: Mapping[int, bytes]) -> bytes:
        """Return the stored statistics of all chunks; see `StoredChunks.read_statistics`."""
        statistics = self._statistics()
        try:
            return statistics.read(held)
        except BloscpackError as err:
            self._check_commit("the array", err)
            raise

    def offset_of_statistics(self, index: int) -> int:
        """Return the offset of the stored statistics of a chunk."""
        return self._statistics().offset(index)

    def _statistics(self) -> LogStatistics:
        if self._table.statistics is None:
            raise FormatError("the array has no statistics of its chunks", field="statistics")
        return self._table.statistics

    def check_end(self) -> None:
        """Do nothing: the commit says how many chunks there are."""

    def fetch(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        """Return the fields of `StoredChunk`; a chunk in memory is encoded without compression."""
        front = self.front
        if not 0 <= index < front.nchunks:
            raise IndexError(
                f"chunk index {index} is out of range: the array has {front.nchunks} chunks"
            )
        content = self._table.held.get(index)
        if content is not None:
            params = CodecParams("lz4", 0, 0, max(front.header.typesize, 1))
            data = encode(bytes(content), params)
            return 0, memoryview(data), ChunkHeader.unpack(data)
        try:
            return self._fetch(index)
        except BloscpackError as err:
            if isinstance(err, ChecksumMismatch):
                err.index = index
            self._check_commit(f"chunk {index}", err)
            raise

    def _fetch(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        front, rows, check = self.front, self._table.rows, not self.needs_no_check(index)
        row = rows.row(index)
        digest_nbytes, nbytes = front.header.checksum.nbytes, front.chunk_nbytes(index)
        try:
            chunk = read_chunk(self.source, row, rows.end, digest_nbytes, nbytes, check=check)
        except BloscpackError as err:
            err.at(f"chunk {index} at offset {row.offset}")
            raise
        if check:
            self.set_checked(index)
        return row.offset, *chunk

    def _check_commit(self, what: str, err: BloscpackError) -> None:
        """Raise FileChangedError if a later commit may have used the space of what has an error."""
        err.at(path=self.source.name)
        try:
            commit = read_commit(self.source)
        except BloscpackError:
            return
        if commit.oldest > self._table.commit.sequence:
            raise FileChangedError(
                f"{what} of commit {self._table.commit.sequence} is gone, as the file is at commit "
                f"{commit.sequence}: call refresh, or open it again"
            ).at(path=self.source.name) from err

    def compare_trailer(self, index: int, stored: StoredChunk) -> None:
        """Compare the checksum behind chunk `index`, which reading does not need."""
        checksum, nbytes = self.front.header.checksum, len(stored.data)
        expected = bytes(self.source.read_at(stored.offset + nbytes, checksum.nbytes))
        actual = checksum.digest(stored.data)
        if actual != expected:
            err = digest_error(checksum, stored.offset, nbytes, expected, actual)
            err.index = index
            err.at(f"chunk {index} at offset {stored.offset}")
            raise err

    def old_chunk(self, index: int) -> None:
        """Return None: chunks of an older commit are not looked for."""
        return
