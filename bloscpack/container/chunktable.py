"""Location of chunks, by the offset table or by following the chunk headers.

An entry of the table is used only if its page matches the trailer or, without a trailer, if it is
consistent with its neighbours and the file size. Without a table, or where it is wrong, the offset
of a chunk follows from the headers of all chunks before it: chunks are adjacent and in order, and
each header has the size of its chunk.
"""

from itertools import pairwise

from ..exceptions import BloscpackError, FormatError, TruncatedError
from ..format.codec import CHUNK_HEADER_SIZE, ChunkHeader
from ..format.header import OFFSET_SIZE, UNKNOWN, Header, unpack_offsets
from ..format.trailer import DIGEST_SIZE, PAGE_CHUNKS, UNKNOWN_DIGEST, Trailer
from ..storage.protocol import ByteSource
from ..types import BytesLike

# Entries of the offset table that are fetched at once, and the distance between such windows.
# Windows overlap by two entries, as an entry is compared with the ones before and after it.
_WINDOW_ENTRIES = 4096
_WINDOW_STEP = _WINDOW_ENTRIES - 2


class ChunkTable:
    """Offsets of the chunks of one file.

    `offset` is that of the offset table, and `data_offset` that of the first chunk; they are equal
    if the file has no table. The trailer is given if it describes the current state of the file.
    """

    # Defaults of the class, as a table is made for each file, and not all read more than one chunk.
    # Whether a table that fits one window leads to the last chunk; None if not checked yet.
    _is_whole: bool | None = None
    # First index and entries of the last window fetched.
    _window: tuple[int, tuple[int, ...]] = (0, ())
    # Last page of digests fetched; empty if it is damaged.
    _digests: tuple[int, BytesLike] = (-1, b"")

    def __init__(
        self,
        source: ByteSource,
        header: Header,
        offset: int,
        data_offset: int,
        trailer: Trailer | None = None,
    ) -> None:
        self._source = source
        self._trailer = trailer
        self._nchunks = header.nchunks
        self._digest_size = header.checksum.nbytes
        self._last_chunk = header.last_chunk
        self._offset = offset
        self._data_offset = data_offset
        # Offsets of chunks 0, 1, ... as far as the headers have been followed. There need not be a
        # lock, which a forked child might inherit locked: all threads find the same offsets.
        self._chain = [data_offset]

    def entry(self, index: int) -> tuple[int, int | None]:
        """Return the offsets, from the table, of a chunk and of the next one (None for the last).

        Raises
        ------
        FormatError
            The entry contradicts its neighbours, or its page contradicts the trailer.
        TruncatedError
            The table, or the chunk at the offset, extends beyond the end of the file.
        """
        if self._trailer is not None:
            return self._verified_entry(self._trailer, index)
        low, high = max(index - 1, 0), min(index + 2, self._nchunks)
        first, entries = self._window
        if low < first or high > first + len(entries):
            first, entries = self._fetch_window(low // _WINDOW_STEP * _WINDOW_STEP)
        around = entries[low - first : high - first]
        offset = around[index - low]
        fits = offset == self._data_offset if index == 0 else around[0] < offset
        following = around[-1] if index < self._nchunks - 1 else None
        if not fits or offset < self._data_offset or not (following is None or following > offset):
            raise FormatError(
                f"offset table: entry {index} is {offset}, which contradicts its neighbours",
                offset=self._offset + OFFSET_SIZE * index,
                field="offsets",
            )
        end = offset + CHUNK_HEADER_SIZE if following is None else following
        size = self._source.size()
        if end > size:
            raise TruncatedError(
                f"chunk {index} at offset {offset}: extends to {end}, but the file ends at {size}",
                offset=offset,
            )
        return offset, following

    def _verified_entry(self, trailer: Trailer, index: int) -> tuple[int, int | None]:
        """Return the same as `entry`, but None for the next chunk at the end of a page."""
        first, entries = self._window
        if not first <= index < first + len(entries):
            first = index // PAGE_CHUNKS * PAGE_CHUNKS
            entries = self._fetch(first, min(PAGE_CHUNKS, self._nchunks - first))
            self._window = first, entries
        at = index - first
        offset = entries[at]
        following = entries[at + 1] if at + 1 < len(entries) else None
        if index == self._nchunks - 1:
            following = trailer.offset
        # The trailer of a hostile file may match wrong entries, so bounds are checked all the same.
        end = trailer.offset if following is None else following
        if not self._data_offset <= offset < end <= trailer.offset:
            raise FormatError(
                f"offset table: entry {index} is {offset}, expected an offset before {end}",
                offset=self._offset + OFFSET_SIZE * index,
                field="offsets",
            )
        return offset, following

    def digest(self, index: int) -> bytes | None:
        """Return the XXH3 of a chunk from the trailer; None if it is unknown or damaged."""
        trailer = self._trailer
        if trailer is None:
            return None
        page, at = divmod(index, PAGE_CHUNKS)
        cached, digests = self._digests
        if cached != page:
            digests = self._source.read_at(*trailer.page_extent(page))
            if not trailer.matches_digests(page, digests):
                digests = b""
            self._digests = page, digests
        digest = bytes(digests[DIGEST_SIZE * at : DIGEST_SIZE * (at + 1)])
        return digest if digest and digest != UNKNOWN_DIGEST else None

    def entries(self) -> tuple[int, ...]:
        """Return the used entries of the table after checking their order and the trailer.

        Raises
        ------
        FormatError
            They do not start at the first chunk, do not ascend, or contradict the trailer.
        TruncatedError
            The table extends beyond the end of the file.
        """
        offsets = tuple(
            entry
            for first in range(0, self._nchunks, PAGE_CHUNKS)
            for entry in self._fetch(first, min(PAGE_CHUNKS, self._nchunks - first))
        )
        if offsets[0] != self._data_offset or not _ascend(offsets):
            raise FormatError(
                "offset table: the entries do not ascend from the first chunk",
                offset=self._offset,
                field="offsets",
            )
        return offsets

    def chained(self, index: int) -> int:
        """Return the offset of a chunk, found by following the headers of those before it.

        Index `nchunks` gives the end of the last chunk and its digest.

        Raises
        ------
        FormatError, UnsupportedError
            One of them is damaged.
        """
        chain = self._chain
        while (known := len(chain)) <= index:
            position = chain[known - 1]
            try:
                header = self.chained_header(known - 1)
                end = position + header.cbytes + self._digest_size
                check_left(self._source, position, end - position)
            except BloscpackError as err:
                err.at(f"chunk {known - 1} at offset {position}")
                if index < self._nchunks:
                    err.at(f"chunk {index} cannot be found")
                    if isinstance(err, FormatError):
                        err.offset = None  # that of a chunk before this one
                raise
            # Not append: another thread may have added the same entry.
            chain[known : known + 1] = [end]
        return chain[index]

    def chained_header(self, index: int) -> ChunkHeader:
        """Return the Blosc header of a chunk whose offset `chained` has found."""
        return self._header_at(self._chain[index])

    def _header_at(self, offset: int) -> ChunkHeader:
        return ChunkHeader.unpack(self._source.read_at(offset, CHUNK_HEADER_SIZE))

    def _fetch_window(self, first: int) -> tuple[int, tuple[int, ...]]:
        count = min(_WINDOW_ENTRIES, self._nchunks - first)
        window = first, self._fetch(first, count)
        # Of a longer table only a window is read for one chunk: there the neighbours of an entry,
        # and the checksum of the chunk, show whether it is right.
        if count == self._nchunks:
            if self._is_whole is None:
                self._is_whole = self._leads_to_last(window[1])
            if not self._is_whole:
                raise FormatError(
                    "offset table: the entries do not lead from the first chunk to the last",
                    offset=self._offset,
                    field="offsets",
                )
        self._window = window
        return window

    def _leads_to_last(self, entries: tuple[int, ...]) -> bool:
        """Return whether both ends of a complete table are correct.

        In a table that is shifted or lacks a chunk, neighbours are still consistent. An old chunk
        after the end, which an append may leave, looks like a last chunk.
        """
        if entries[0] != self._data_offset or not _ascend(entries):
            return False
        if entries[-1] > self._source.size():
            return False
        if self._source.has_latency:
            return True  # to save a request; the checksum of the chunk that is read detects errors
        try:
            last = self._header_at(entries[-1])
            if len(entries) > 1:
                end = entries[-2] + self._header_at(entries[-2]).cbytes + self._digest_size
                if end != entries[-1]:
                    return False
        except BloscpackError:
            return False
        return self._last_chunk in (UNKNOWN, last.nbytes)

    def _fetch(self, first: int, count: int) -> tuple[int, ...]:
        start, nbytes = self._offset + OFFSET_SIZE * first, OFFSET_SIZE * count
        data = self._source.read_at(start, nbytes)
        if len(data) < nbytes:  # the table was complete when the file was opened
            raise TruncatedError(
                f"offset table: got {len(data)} of {nbytes} bytes at offset {start}",
                offset=start,
            )
        trailer, page = self._trailer, first // PAGE_CHUNKS
        if trailer is not None and not trailer.matches_entries(page, data):
            raise FormatError(
                f"offset table: entries {first} to {first + count - 1} differ from the digest in "
                "the trailer",
                offset=start,
                field="offsets",
            )
        return unpack_offsets(data)


def _ascend(offsets: tuple[int, ...]) -> bool:
    return all(one < two for one, two in pairwise(offsets))


def check_room(source: ByteSource, what: str, offset: int, nbytes: int) -> None:
    """Check, before a large read, that the file has `nbytes` at `offset`.

    Raises
    ------
    TruncatedError
        The file ends before.
    """
    left = source.size() - offset
    if nbytes > left:
        raise TruncatedError(
            f"{what}: found {max(left, 0)} of {nbytes} bytes at offset {offset}", offset=offset
        )


def check_left(source: ByteSource, offset: int, nbytes: int) -> None:
    """Check that a chunk and its digest, `nbytes` at `offset`, end within the file.

    Raises
    ------
    TruncatedError
        The file ends before.
    """
    left = source.size() - offset
    if nbytes > left:
        raise TruncatedError(
            f"stored size with digest, {nbytes} bytes, exceeds the {left} bytes left", offset=offset
        )
