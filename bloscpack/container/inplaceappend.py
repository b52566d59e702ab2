"""Growth of a container at its end, in place under a journal or as a new file.

Chunks are added one by one and become part of the file on commit. In place, the bytes that are
overwritten (the front, a last chunk that is not full, the trailer) are saved in a journal until the
commit. A new file replaces the old one by a rename. A file that cannot grow in place is copied to a
new one with its chunks as stored. This happens when the offset table is full, or when the metadata
do not fit their section any more.

Only full chunks are added, or full rows of a chunk grid. A last chunk that is not full, or the
chunks of such a row, are passed to `commit`, and the next added chunk overwrites them. Between
commits, a file with only full chunks therefore loses only its trailer.
"""

import os
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..exceptions import FormatError, MetadataSectionTooSmall, NoMetadataFound, UnsupportedError
from ..format.checksum import CHECKSUMS
from ..format.header import OFFSET_SIZE, UNUSED_ENTRY, Header, pack_offsets
from ..format.metadata import MetadataHeader, pack_section
from ..format.trailer import (
    DIGEST_SIZE,
    PAGE_CHUNKS,
    STATISTICS_SIZE,
    UNKNOWN_DIGEST,
    pack_trailer,
)
from ..storage.memory import MemorySource
from ..storage.overlay import OverlaySource, Patch
from ..storage.update import UpdateFile, forked_error
from .defaults import SPARE_METADATA_NBYTES, spare_entries
from .front import read_statistics, trailer_with_statistics
from .reader import Container
from .writer import Encoded, new_section

# A new file is buffered in memory up to this size; a file that is committed before has an offset
# table that fits its number of chunks.
_HELD_NBYTES = 4 << 20
# Initial entries of the offset table of a file of unknown length, and the factor by which a full
# table grows.
RESERVED_ENTRIES = 8192
_TABLE_GROWTH = 8


class _State(NamedTuple):
    """Committed state, which a rollback restores."""

    nfull: int
    last_nbytes: int
    position: int
    data_offset: int
    entries: int
    written: int
    section: bytes
    metadata: Any


class Growth:
    """Container that chunks can be added to; created by `open` or `create`.

    `header` is as last committed; that of a new file counts no chunks. `nfull` counts full chunks,
    committed or not. If `has_statistics`, every chunk that is added has them.
    """

    def __init__(
        self, target: str, name: str, header: Header, file: UpdateFile | None, *, locking: bool
    ) -> None:
        self.header = header
        self._pid = os.getpid()
        self._target = target
        self._name = name
        self._file = file
        self._locking = locking
        self._overwrite = True
        # The locked file that a new one will replace.
        self._replaced: UpdateFile | None = None
        self._buffer: list[bytes] = []
        self._offsets = array("q")
        self._digests = bytearray()
        self.has_statistics = False
        self._statistics = bytearray()
        self._section = b""
        self._metadata: Any = None
        # Entries of the offset table in total, and those already written to the file.
        self._entries = 0
        self._written = 0
        self._data_offset = 0
        self._position = 0
        # Decoded size of the last full chunk.
        self._last_nbytes = 0
        self._committed: _State | None = None

    @classmethod
    def open(cls, file: UpdateFile, container: Container, *, locking: bool = True) -> "Growth":
        """Prepare to add to `container`, which reads from `file`; takes ownership of `file`.

        Raises
        ------
        UnsupportedError
            The file has no offset table, or an old format version.
        ValueError
            It was packed from empty content and has no chunk size.
        FormatError
            The end of the file is damaged.
        """
        header = container.header
        check_appendable(container)
        container.stored.check_end()
        offsets = container.stored.offsets()
        last = container.nchunks - 1
        stored = container.fetch(last)
        if stored.offset != offsets[last]:  # `fetch` finds it without the table if need be
            raise FormatError(
                f"offset table: entry {last} is {offsets[last]}, but the last chunk is at "
                f"{stored.offset}",
                field="offsets",
            )
        if container.grid is None:
            header = header._replace(
                chunk_size=container.chunk_size, last_chunk=container.last_chunk
            )
        self = cls(file.path, file.name or file.path, header, file, locking=locking)
        nfull = container.front.nstable
        end = stored.offset + len(stored.data) + header.checksum.nbytes
        self._offsets = array("q", offsets[:nfull])
        self._section = file.read_at(header.size, container.front.table_offset - header.size)
        self._metadata = container.metadata
        self._entries = header.nchunks + header.max_app_chunks
        self._written = nfull
        self._data_offset = container.data_offset
        self._position = offsets[nfull] if nfull < container.nchunks else end
        if nfull:
            self._last_nbytes = container.chunk_nbytes(nfull - 1)
        self._digests = _known_digests(container)[: DIGEST_SIZE * nfull]
        trailer = trailer_with_statistics(container.front, container.source)
        if trailer is not None:
            self.has_statistics = True
            known = read_statistics(trailer, container.source)
            self._statistics += known[: STATISTICS_SIZE * nfull]
        self._committed = self._state()
        return self

    @classmethod
    def create(
        cls,
        target: str,
        name: str,
        header: Header,
        metadata: Any,
        replaced: UpdateFile | None,
        *,
        locking: bool = True,
        overwrite: bool = True,
    ) -> "Growth":
        """Start a new container that will be at `target` and replace `replaced`.

        Without `overwrite`, the first commit raises FileExistsError if there is a file.
        """
        self = cls(target, name, header, None, locking=locking)
        self._replaced, self._overwrite = replaced, overwrite
        self._section, self._metadata = new_section(metadata), metadata
        return self

    @property
    def nfull(self) -> int:
        """Number of full chunks."""
        return len(self._offsets)

    @property
    def is_published(self) -> bool:
        """Whether there is a committed state."""
        return self._committed is not None

    def add(self, encoded: Encoded) -> None:
        """Write a full chunk after the others."""
        self._make_room(self.nfull + 1)
        nbytes = len(encoded.chunk) + len(encoded.digest)
        if self._file is None:
            self._buffer += encoded[1:3]
            if self._position + nbytes > _HELD_NBYTES:
                self._note(encoded, nbytes)  # before the buffer is written, which has the chunk
                self._start_file(RESERVED_ENTRIES, self._section)
                return
        else:
            self._begin()
            self._file.write_at(self._position, encoded.chunk, encoded.digest)
        self._note(encoded, nbytes)

    def _note(self, encoded: Encoded, nbytes: int) -> None:
        self._offsets.append(self._position)
        self._digests += encoded.strong
        self._statistics += encoded.statistics
        self._position += nbytes
        self._last_nbytes = encoded.nbytes

    def commit(self, tail: Sequence[Encoded], metadata: Any) -> None:
        """Make everything added so far durable.

        Parameters
        ----------
        tail : sequence of Encoded
            The last chunk, if it is not full, or the chunks of the last row of a grid. Required if
            the file has no full chunk.
        metadata : JSON value
            The current metadata; None if the file has none.
        """
        nchunks = self.nfull + len(tail)
        section = self._fit_section(metadata)
        if self._file is None:
            self._start_file(nchunks + spare_entries(nchunks), section)
        self._make_room(nchunks)
        self._begin()
        file = self._file
        if file is None:  # not after _start_file
            raise ValueError("no file")
        header = self._header(tail)
        head = header.pack() + section
        entries, end = self._with_tail(self._offsets, tail)
        digests = self._digests + b"".join(one.strong for one in tail)
        parts = [part for one in tail for part in (one.chunk, one.digest)]
        statistics = self._statistics + b"".join(one.statistics for one in tail)
        parts += pack_trailer(head, entries, bytes(digests), end, bytes(statistics))
        size = self._position + sum(map(len, parts))
        file.write_at(self._position, *parts)
        if file.size() > size:  # readers look for the trailer at the end of the file
            file.truncate(size)
        # The next entry is spare and may hold anything; `StoredChunks.check_end` expects the mark.
        marked = UNUSED_ENTRY * min(header.max_app_chunks, 1)
        first = len(head) + OFFSET_SIZE * self._written
        file.write_at(first, pack_offsets(entries[self._written :]) + marked)
        if section:
            file.write_at(header.size, section)
        # Last, as readers compare the header to notice a change while they read the front.
        file.write_at(0, header.pack())
        if file.is_temporary:
            file.sync()
            overwrite = self._overwrite or self.is_published
            file.publish(self._target, self._replaced, overwrite=overwrite)
            self._drop_replaced()
        else:
            file.end()
        self.header, self._section, self._metadata = header, section, metadata
        self._written = self.nfull
        self._committed = self._state()

    def rollback(self) -> None:
        """Restore the last committed state; a new file is removed."""
        if self._file is not None and self._file.is_temporary:
            self._file.close()
            self._file = None
            if self._committed is not None:
                self._file, self._replaced = self._replaced, None
        elif self._file is not None:
            self._file.undo()
        self._buffer = []
        state = self._committed
        if state is None:
            return
        # A move to a new file shifts all chunks, but the committed ones are in the old file.
        shift = state.data_offset - self._data_offset
        self._offsets = array("q", (offset + shift for offset in self._offsets[: state.nfull]))
        del self._digests[DIGEST_SIZE * state.nfull :]
        del self._statistics[STATISTICS_SIZE * state.nfull :]
        self._position, self._data_offset = state.position, state.data_offset
        self._last_nbytes = state.last_nbytes
        self._entries, self._written = state.entries, state.written
        self._section, self._metadata = state.section, state.metadata

    def close(self) -> None:
        """Close the file without a rollback; a new file that was not committed is removed."""
        try:
            if self._file is not None:
                self._file.close()
        finally:
            self._drop_replaced()

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the file."""
        return self._pid == os.getpid()

    def check_mine(self) -> None:
        """Check that this process opened the file.

        Raises
        ------
        LockedError
            It was forked from the process that did.
        """
        if not self.is_mine:
            raise forked_error(self._pid, self._name)

    def view(self, tail: Sequence[Encoded], metadata: Any = None) -> OverlaySource:
        """Return a source for the file as it would be after a commit, without a trailer.

        The metadata are those of the last commit, unless others are given.
        """
        section = b"" if metadata is None else self._fit_section(metadata)
        self._make_room(self.nfull + len(tail))
        if self._file is None:
            raise ValueError("nothing has been written yet")
        entries, _ = self._with_tail(self._offsets[self._written :], tail)
        front = self._header(tail).pack() + section
        end = b"".join(part for one in tail for part in (one.chunk, one.digest))
        table = self._data_offset - OFFSET_SIZE * (self._entries - self._written)
        patches = (
            Patch(0, len(front), MemorySource(front)),
            Patch(table, OFFSET_SIZE * len(entries), MemorySource(pack_offsets(entries))),
            Patch(self._position, len(end), MemorySource(end)),
        )
        return OverlaySource(self._file, patches, self._position + len(end))

    def _with_tail(
        self, offsets: "array[int]", tail: Sequence[Encoded]
    ) -> tuple["array[int]", int]:
        """Return `offsets` followed by those of the chunks in `tail`, and the end of these."""
        sizes = (len(one.chunk) + len(one.digest) for one in tail)
        *starts, end = accumulate(sizes, initial=self._position)
        return offsets + array("q", starts), end

    def _header(self, tail: Sequence[Encoded]) -> Header:
        nchunks = self.nfull + len(tail)
        return self.header._replace(
            nchunks=nchunks,
            last_chunk=tail[-1].nbytes if tail else self._last_nbytes,
            max_app_chunks=self._entries - nchunks,
        )

    def _state(self) -> _State:
        return _State(
            self.nfull,
            self._last_nbytes,
            self._position,
            self._data_offset,
            self._entries,
            self._written,
            self._section,
            self._metadata,
        )

    def _begin(self) -> None:
        """Save the bytes that will be overwritten, before the first change in place."""
        file = self._file
        if file is None or file.is_temporary or file.has_journal:
            return
        front = self.header.size + len(self._section)
        extents = [(0, front)]
        # The first chunk that is rewritten stays where it is; others of its row of a grid move.
        rewritten = self.header.nchunks - self._written
        if rewritten > 1:
            extents.append((front + OFFSET_SIZE * self._written, OFFSET_SIZE * rewritten))
        end = file.size()
        if end > self._position:
            extents.append((self._position, end - self._position))
        file.begin(self._data_offset, extents)

    def _fit_section(self, metadata: Any) -> bytes:
        """Return the metadata section; if it does not fit its place, move to a new file."""
        if self._file is None:
            return new_section(metadata)
        if metadata == self._metadata:
            return self._section
        if not self.header.metadata:
            raise NoMetadataFound("the file has no metadata section")
        old = MetadataHeader.unpack(self._section, last_checksum=CHECKSUMS[-1].id)
        checksum = old.meta_checksum.name
        try:
            return pack_section(metadata, checksum=checksum, reserve=old.max_meta_size)
        except MetadataSectionTooSmall:
            section = pack_section(
                metadata,
                checksum=checksum,
                reserve=lambda nbytes: 2 * nbytes + SPARE_METADATA_NBYTES,
            )
        self._start_file(self._entries, section)
        return section

    def _make_room(self, nchunks: int) -> None:
        """Make sure that the offset table has at least `nchunks` entries."""
        if self._file is not None and nchunks > self._entries:
            entries = max(_TABLE_GROWTH * self._entries, self._entries + RESERVED_ENTRIES, nchunks)
            self._start_file(entries, self._section)

    def _start_file(self, entries: int, section: bytes) -> None:
        """Continue in a new file whose offset table has `entries` entries, with this section."""
        new = UpdateFile.create(self._target, self._name, locking=self._locking)
        try:
            data_offset = self.header.size + len(section) + OFFSET_SIZE * entries
            front = self.header._replace(max_app_chunks=entries - self.header.nchunks)
            table = UNUSED_ENTRY * entries
            new.write_at(0, front.pack(), section, table, *self._buffer)
            if self._file is not None:
                nbytes = self._position - self._data_offset
                new.copy_from(self._file, self._data_offset, data_offset, nbytes)
                self._leave_file(self._file)
        except BaseException:
            new.close()
            raise
        shift = data_offset - self._data_offset
        self._offsets = array("q", (offset + shift for offset in self._offsets))
        self._file, self._buffer = new, []
        self._data_offset, self._position = data_offset, self._position + shift
        self._entries, self._written, self._section = entries, 0, section

    def _leave_file(self, file: UpdateFile) -> None:
        if file.is_temporary:
            file.close()
        else:
            # Readers that have the old file open must find the committed state in it.
            file.undo()
            self._replaced = file

    def _drop_replaced(self) -> None:
        replaced, self._replaced = self._replaced, None
        if replaced is not None:
            replaced.close()


def check_appendable(container: Container) -> None:
    """Check that a container can be appended to.

    Raises
    ------
    UnsupportedError
        It has no offset table, is a log, or its version is not 3 or 4.
    ValueError
        It was packed from empty content and has no chunk size.
    """
    header = container.header
    if container.front.commit is not None:
        raise UnsupportedError("the file is a log: open it with bloscpack.open(path, 'r+')")
    if header.format_version < 3:
        raise UnsupportedError(
            f"appending needs format version 3 or 4, the file has {header.format_version}; "
            "load it and save it again"
        )
    if not header.offsets:
        raise UnsupportedError(
            "appending needs an offset table, the file has none; pack it again with one, or load "
            "it and save it again"
        )
    if container.chunk_size <= 0 and container.grid is None:
        raise ValueError("cannot append to a file packed from empty content: it has no chunk size")


def _known_digests(container: Container) -> bytearray:
    """Return the digests in the trailer, zeros without one; FormatError if they are damaged."""
    trailer = container.front.trailer
    if trailer is None:
        return bytearray(UNKNOWN_DIGEST * container.nchunks)
    digests = bytearray()
    for page in range(-(-trailer.nchunks // PAGE_CHUNKS)):
        found = container.source.read_at(*trailer.page_extent(page))
        if not trailer.matches_digests(page, found):
            raise FormatError(
                f"trailer: the digests from chunk {page * PAGE_CHUNKS} on are damaged; "
                "bloscpack.verify with fix=True rewrites it",
                offset=trailer.page_extent(page)[0],
            )
        digests += found
    return digests
