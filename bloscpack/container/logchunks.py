"""Stored chunks of an array of a log: each is checked by the digest of its row."""

from collections.abc import Iterator, Mapping

from ..exceptions import (
    BloscpackError,
    ChecksumMismatch,
    FileChangedError,
    FormatError,
)
from ..format.codec import CHUNK_HEADER_SIZE, ChunkHeader, CodecParams, encode
from ..storage.protocol import Extent
from ..types import BytesLike
from .chunk import StoredChunk, StoredChunks, digest_error
from .chunktable import check_left
from .log import LogStatistics, LogTable, read_commit, read_extent, split_chunk


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
        row = self._table.rows.row(index)
        what = f"chunk {index} at offset {row.offset}"
        if self.needs_no_check(index):
            self._table.entry(index)
            check_left(self.source, row.offset, row.nbytes)
            stored = memoryview(self.source.read_at(row.offset, row.nbytes))
        else:
            stored = memoryview(read_extent(self.source, row, what, self._table.rows.end))
            self.set_checked(index)
        digest_nbytes = self.front.header.checksum.nbytes
        nbytes = self.front.chunk_nbytes(index)
        return row.offset, *split_chunk(stored, digest_nbytes, nbytes, row.offset, what)

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
