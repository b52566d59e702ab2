"""Reading a container: find a chunk, check it, decode it.

A chunk is looked for where the offset table says, and, if what lies there is not what the header
promises, where the chunks before it end (`chunktable.py`). Nothing is decoded before its checksum
was compared, and nothing is allocated on the word of a field that the bytes present do not bear
out.

A `Container` holds no position, so threads may share one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from ..checksum import CHECKSUMS, LAST_V3_ID
from ..codec import (
    CHUNK_HEADER_SIZE,
    ChunkHeader,
    CodecParams,
    decode_into,
    decode_items_into,
    encode,
    new_bytes,
)
from ..exceptions import (
    BloscpackError,
    ChecksumMismatch,
    CodecError,
    FormatError,
    TruncatedError,
)
from ..storage.file import FileSource
from ..storage.protocol import ByteSource
from ..threads import resolve_nthreads, run_indexed
from ..wire import BytesLike
from .chunktable import ChunkTable, at_chunk, check_left, check_room
from .format import OFFSET_SIZE, UNKNOWN, UNUSED_ENTRY, Header
from .metadata import MetadataHeader, decode_data, stored_data

# Header, metadata and the first offsets of nearly every file, in one read.
_HEAD_NBYTES = 4096
# A file that expands more than this has all its chunk headers read before memory is allocated.
_USUAL_EXPANSION = 16
# More bytes than any file or address space holds; numpy counts no further either.
_MAX_NBYTES = 2**63 - 1
# How often the front of a file is read anew that a writer changes meanwhile.
_ATTEMPTS = 50
# Read where a chunk starts whose size is not known: its header, and a small chunk as a whole.
_PROBE_NBYTES = 4096


class StoredChunk(NamedTuple):
    """A chunk as it lies in the file.

    Attributes
    ----------
    offset : int
        Absolute position of the chunk.
    data : bytes-like
        The Blosc chunk, its digest not included.
    header : ChunkHeader
        Its first 16 bytes.
    """

    offset: int
    data: BytesLike
    header: ChunkHeader


class Container:
    """One Bloscpack file, open for reading.

    Parameters
    ----------
    source : ByteSource
        Where the bytes are. Closed with the container.
    verify : bool, default True
        Compare the checksum of every chunk that is read.
    replays : bool, default True
        Roll back in the file what a writer that died has left; else it is only seen so.

    Attributes
    ----------
    header : Header
        As stored.
    metadata_header : MetadataHeader or None
        As stored; None without a metadata section.
    stored_metadata : bytes
        The data of the metadata section as stored, their checksum compared.
    data_offset : int
        Absolute position of the first chunk.
    nchunks, chunk_size, last_chunk : int
        As in the header, or counted where the header says "unknown".
    nbytes : int
        Decoded size of all chunks.

    Raises
    ------
    FormatError
        The front of the file is damaged, or the file is of another kind (`NotBloscpackError`).
    UnsupportedError
        The format version or the metadata format is unknown.
    """

    metadata_header: MetadataHeader | None = None
    stored_metadata: bytes = b""
    _table: ChunkTable | None = None
    _trusts_table = True
    # The last chunk as it was when the file was opened, once a writer has made it grow.
    _old_last: tuple[int, memoryview, ChunkHeader] | None = None
    _follows_writers = True

    def __init__(self, source: ByteSource, *, verify: bool = True, replays: bool = True) -> None:
        self.source = source
        self.verify = verify
        try:
            if isinstance(source, FileSource):
                self._read_settled_front(source, replays)
            else:
                self._read_front()
        except BaseException as err:
            if isinstance(err, BloscpackError):
                err.path = source.name
            self.source.close()
            raise

    def _read_front(self) -> None:
        head = memoryview(self.source.read_at(0, _HEAD_NBYTES))
        self.header = header = Header.unpack(head)
        position = header.size
        self._head_bytes = head[:position]
        self.metadata_header, self.stored_metadata, self._table = None, b"", None
        if header.metadata:
            last_checksum = LAST_V3_ID if header.format_version == 3 else CHECKSUMS[-1].id
            meta = MetadataHeader.unpack(head, position, last_checksum=last_checksum)
            size = meta.section_size
            section = head[position : position + size]
            if len(section) < size:
                check_room(self.source, "metadata", position, size)
                section = memoryview(self.source.read_at(position, size))
            self.stored_metadata = stored_data(meta, section)
            self.metadata_header = meta
            position += size
        self._table_offset = position
        self.data_offset = position + header.table_size
        # No chunk can be where the table does not end, and no position lies beyond the file.
        if self.data_offset > self.source.size():
            check_room(self.source, "offset table", position, header.table_size)
        self.nchunks = nchunks = header.nchunks
        self.chunk_size = header.chunk_size
        self.last_chunk = header.last_chunk
        if nchunks < 0 or self.chunk_size < 0 or self.last_chunk < 0:
            self._count_chunks()
        elif nchunks == 0:
            self._check_empty()
        self.nbytes = max(self.nchunks - 1, 0) * self.chunk_size + self.last_chunk
        if self.nbytes > _MAX_NBYTES:
            raise FormatError(
                f"header: {self.nchunks} chunks of {self.chunk_size} bytes exceed 2^63-1 bytes",
                offset=16,
                field="nchunks",
            )

    def _count_chunks(self) -> None:
        """Fill in what the header leaves open, by following the chunks' own headers."""
        table = self._chunk_table()
        promised, end = self.nchunks, self.source.size()
        index, position = 0, self.data_offset
        while index < promised if promised >= 0 else position < end:
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
        left = self.source.size() - self.data_offset
        if left > 0:
            raise FormatError(
                f"header: nchunks is 0, but {left} bytes follow at offset {self.data_offset}",
                offset=16,
                field="nchunks",
            )

    @property
    def metadata(self) -> Any:
        """The JSON value of the metadata section, decoded anew; None without a section.

        Raises
        ------
        FormatError
            The section does not hold one.
        """
        header = self.metadata_header
        if header is None:
            return None
        try:
            return decode_data(self.stored_metadata, header.meta_codec, header.meta_size)
        except FormatError as err:
            err.path = self.name
            raise

    @property
    def name(self) -> str | None:
        """The file, for messages; None for memory."""
        return self.source.name

    def chunk_nbytes(self, index: int) -> int:
        """Return the decoded size of chunk `index` in bytes."""
        return self.last_chunk if index == self.nchunks - 1 else self.chunk_size

    def fetch(self, index: int) -> StoredChunk:
        """Return chunk `index` as it is stored, checked but not decoded.

        Raises
        ------
        IndexError
            `index` is not 0 to ``nchunks - 1``.
        ChecksumMismatch
            The stored and the computed digest differ.
        FormatError
            The chunk is damaged, truncated or cannot be found.

        Notes
        -----
        One or two storage reads.
        """
        return StoredChunk(*self._fetch(index))

    def read_chunk_into(self, index: int, out: BytesLike) -> None:
        """Decode chunk `index` into `out`, writable bytes of exactly ``chunk_nbytes(index)``.

        Errors as for `fetch`, and `CodecError` if the chunk cannot be decoded. The GIL is
        released while decoding.
        """
        offset, data, _ = self._fetch(index)
        try:
            decode_into(data, out)
        except CodecError as err:
            raise self._named(err, index, offset) from None

    def read_chunk(self, index: int) -> bytes:
        """Return the decoded bytes of chunk `index`, new; errors as for `read_chunk_into`."""
        return self.read_located(index)[1]

    def read_located(self, index: int) -> tuple[int, bytes]:
        """Return the offset of chunk `index` and its decoded bytes, new, by one fetch."""
        offset, data, header = self._fetch(index)
        return offset, self._decode(index, offset, data, header.nbytes)

    def read_range(self, index: int, start: int, stop: int) -> tuple[int, bytes]:
        """Decode at least bytes `start` to `stop` of chunk `index`, ``start < stop``.

        Returns
        -------
        first : int
            Position in the chunk of the first byte returned.
        data : bytes
            Whole items of the chunk's own typesize; only the Blosc blocks that hold them are
            decoded.

        Notes
        -----
        Errors as for `read_chunk_into`. The checksum covers the whole chunk and is compared.
        """
        offset, stored, header = self._fetch(index)
        nbytes, size = header.nbytes, header.typesize
        first, last = (start // size, -(-stop // size)) if size else (0, nbytes)
        # blosc_getitem cannot reach bytes at the end that do not fill an item.
        if size == 0 or last * size > nbytes:
            return 0, self._decode(index, offset, stored, nbytes)
        content, view = new_bytes((last - first) * size)
        try:
            with view:
                decode_items_into(stored, first, last - first, view)
        except CodecError as err:
            raise self._named(err, index, offset) from None
        return first * size, content

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield the decoded bytes of each chunk in order, and check that no more follow."""
        for index in range(self.nchunks):
            yield self.read_chunk(index)
        self.check_end()

    def read_into(self, out: memoryview, *, nthreads: int | None = None) -> None:
        """Decode the whole content into `out`, writable bytes of exactly `nbytes`.

        Errors as for `read_chunk_into`. Chunks are decoded in parallel.
        """
        if self.nchunks == 1:
            self.read_chunk_into(0, out)
        else:
            step = self.chunk_size

            def read(index: int) -> None:
                start = index * step
                self.read_chunk_into(index, out[start : start + self.chunk_nbytes(index)])

            run_indexed(read, range(self.nchunks), resolve_nthreads(nthreads, self.nbytes))
        self.check_end()

    def read(self, *, nthreads: int | None = None) -> bytes:
        """Return the whole content; errors as for `read_into`."""
        self.check_size(self.nbytes)
        content, view = new_bytes(self.nbytes)
        with view:
            self.read_into(view, nthreads=nthreads)
        return content

    def read_offsets(self) -> tuple[int, ...]:
        """Return the used entries of the offset table, checked as far as the table alone tells.

        Raises
        ------
        FormatError
            There is no table, or its entries do not start at the first chunk and ascend.
        """
        try:
            if not self.header.offsets or self.nchunks == 0:
                raise FormatError("there is no offset table", field="offsets")
            return self._chunk_table().entries()
        except BloscpackError as err:
            err.path = self.name
            raise

    def check_size(self, nbytes: int) -> None:
        """Check that the bytes present can decode to `nbytes`; call it before allocating that.

        Where they expand more than usual all chunk headers are read, which costs little beside
        decoding so much.

        Raises
        ------
        FormatError
            The header promises more chunks than the file can hold, or a chunk of another size.
        """
        stored = self.source.size() - self.data_offset
        smallest = self.nchunks * (CHUNK_HEADER_SIZE + self.header.checksum.nbytes)
        try:
            if smallest > stored:
                raise TruncatedError(
                    f"{self.nchunks} chunks need at least {smallest} bytes, "
                    f"{max(stored, 0)} are there at offset {self.data_offset}",
                    offset=self.data_offset,
                )
            if nbytes > _USUAL_EXPANSION * stored:
                for index in range(self.nchunks):
                    self.fetch(index)
        except BloscpackError as err:
            err.path = self.name
            raise

    def check_end(self) -> None:
        """Check that the file does not go on with a chunk that the header does not count.

        Bytes behind the last chunk are legal (an append that shrank the last chunk leaves some).
        A whole chunk with the right digest is not, nor an entry of the offset table where unused
        ones should begin: they mean that nchunks is too small.

        Raises
        ------
        FormatError
            There is such a chunk.
        """
        header = self.header
        if header.offsets:
            if header.max_app_chunks:
                position = self._table_offset + OFFSET_SIZE * self.nchunks
                if self.source.read_at(position, OFFSET_SIZE) != UNUSED_ENTRY:
                    if self._has_grown():
                        return
                    raise self._too_few("the offset table has another entry")
            return
        if self.nchunks == 0:
            return
        try:
            position = self._chunk_table().chained(self.nchunks)
        except BloscpackError as err:
            err.path = self.name
            raise
        try:
            _, following = self._read_stored(position, None)
        except BloscpackError:
            return  # not a chunk: trailing bytes
        if 0 < following.nbytes <= max(self.chunk_size, self.last_chunk):
            raise self._too_few(f"another chunk follows at offset {position}")

    def _too_few(self, why: str) -> FormatError:
        error = FormatError(
            f"header: nchunks is {self.nchunks}, but {why}", offset=16, field="nchunks"
        )
        error.path = self.name
        return error

    def close(self) -> None:
        """Close the source; idempotent."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _chunk_table(self) -> ChunkTable:
        if self._table is None:  # two threads may make two: they are alike
            self._table = ChunkTable(self.source, self.header, self._table_offset)
        return self._table

    def _decode(self, index: int, offset: int, data: memoryview, nbytes: int) -> bytes:
        content, view = new_bytes(nbytes)
        try:
            with view:
                decode_into(data, view)
        except CodecError as err:
            raise self._named(err, index, offset) from None
        return content

    def _named(self, err: CodecError, index: int, offset: int) -> BloscpackError:
        err.path = self.name
        return at_chunk(err, index, offset)

    def _fetch(self, index: int) -> tuple[int, memoryview, ChunkHeader]:
        """Return the fields of `StoredChunk`; see `fetch`."""
        if not 0 <= index < self.nchunks:
            raise IndexError(
                f"chunk index {index} is out of range: there are {self.nchunks} chunks"
            )
        if self._old_last is not None and index == self.nchunks - 1:
            return self._old_last
        try:
            # An only chunk lies where the first one must, whatever a table says.
            if self.nchunks == 1:
                return self._load(0, self.data_offset, None)
            table = self._chunk_table()
            if not self.header.offsets or not self._trusts_table:
                return self._load(index, table.chained(index), None)
            offset = chained = UNKNOWN
            try:
                offset, following = table.entry(index)
                return self._load(index, offset, following)
            except BloscpackError as by_table:
                # The table may be wrong (an interrupted write leaves it empty) and the chunks
                # right: bloscpack 0.16 reads by their own sizes alone.
                try:
                    chained = table.chained(index)
                    found = self._load(index, chained, None)
                except BloscpackError:
                    if offset != UNKNOWN and chained in (UNKNOWN, offset):
                        raise by_table from None
                    raise
                # What is read from now on must fit this: one file, one way to find chunks.
                self._trusts_table = False
                return found
        except BloscpackError as err:
            old = self._find_old_last() if index == self.nchunks - 1 else None
            if old is not None:
                return old
            err.path = self.name
            raise

    def _load(
        self, index: int, offset: int, following: int | None
    ) -> tuple[int, memoryview, ChunkHeader]:
        """Return the chunk at `offset`, which is to be chunk `index`, its checksum compared."""
        try:
            data, header = self._read_stored(offset, following)
        except BloscpackError as err:
            raise at_chunk(err, index, offset) from None
        nbytes = self.last_chunk if index == self.nchunks - 1 else self.chunk_size
        if header.nbytes != nbytes:
            raise FormatError(
                f"chunk {index} at offset {offset}: decodes to {header.nbytes} bytes, "
                f"the header promises {nbytes}",
                offset=offset,
            )
        return offset, data, header

    def _read_stored(self, offset: int, following: int | None) -> tuple[memoryview, ChunkHeader]:
        """Return the bytes of the chunk at `offset` and its header, the checksum compared.

        `following` is the offset of the next chunk where it is known: one read then fetches all
        that lies before it, and the digest speaks before the header is looked at. Otherwise a
        first read tells the size, which bounds the second; a small chunk is all in the first.
        """
        row = self.header.checksum
        header = None
        if following is None:
            stored = self.source.read_at(offset, _PROBE_NBYTES)
            header = ChunkHeader.unpack(stored)
            cbytes = header.cbytes
            nbytes = cbytes + row.nbytes
            if nbytes > len(stored):
                check_left(self.source, offset, nbytes)
                stored = self.source.read_at(offset, nbytes)
        else:
            nbytes = following - offset
            cbytes = max(nbytes - row.nbytes, 0)
            stored = self.source.read_at(offset, nbytes)
        if nbytes > len(stored):
            raise TruncatedError(f"{len(stored)} of {nbytes} bytes came", offset=offset)
        view = stored if type(stored) is memoryview else memoryview(stored)
        data, expected = view[:cbytes], view[cbytes:nbytes]
        if self.verify:
            actual = row.digest(data)
            if actual != expected:
                raise ChecksumMismatch(
                    f"{row.name} of bytes {offset} to {offset + cbytes} is {actual.hex()}, "
                    f"{expected.hex()} is stored",
                    name=row.name,
                    expected=bytes(expected),
                    actual=actual,
                    offset=offset,
                )
        if header is None:
            header = ChunkHeader.unpack(data)
            if header.cbytes != cbytes:
                raise FormatError(
                    f"stored size {header.cbytes}, but the next chunk leaves it {cbytes} bytes",
                    offset=offset,
                )
        return data, header

    def _read_settled_front(self, file: FileSource, replays: bool) -> None:
        """Read the front of a file that a writer may be changing, of one state of the file.

        Where there is a journal, the file is seen as before the change. Where there is none, there
        must be none afterwards either, and the header must be the same: a writer writes it last.
        """
        for attempt in range(_ATTEMPTS):
            before = file.settled(replays=replays)
            if before is not None:
                self.source = before
                self._read_front()
                return
            try:
                self._read_front()
            except BloscpackError:
                if attempt >= 2 and not file.has_journal():
                    raise
                continue
            header = self.header
            if not file.has_journal() and file.read_at(0, header.size) == self._head_bytes:
                return
        raise FormatError("header: a writer changes it faster than it can be read")

    def extends(self, earlier: "Container") -> bool:
        """Return whether this may be a later state of the file of `earlier`: the front agrees."""
        one, two = earlier.header, self.header
        return (
            one[:5] == two[:5]
            and earlier.chunk_size == self.chunk_size
            and earlier.data_offset == self.data_offset
            and one.nchunks + one.max_app_chunks == two.nchunks + two.max_app_chunks
            and earlier.nbytes <= self.nbytes
        )

    def _later_states(self) -> Iterator["Container"]:
        """Yield the file as it is now, if a writer has it grown or is at it; a few times."""
        file = self.source
        if not self._follows_writers or not isinstance(file, FileSource):
            return
        for _ in range(_ATTEMPTS):
            try:
                later = Container(file.duplicate(), verify=self.verify, replays=False)
            except BloscpackError:
                return
            later._follows_writers = False
            with later:
                if not later.extends(self):
                    return
                yield later
                if later.header == self.header and isinstance(later.source, FileSource):
                    return

    def _find_old_last(self) -> tuple[int, memoryview, ChunkHeader] | None:
        """Return the last chunk as it was when the file was opened, None if it is only damaged.

        A writer overwrites it with one that starts alike and holds more. What it held here is kept
        as a chunk that is not compressed.
        """
        for later in self._later_states():
            try:
                offset, content = later.read_located(self.nchunks - 1)
            except BloscpackError:
                continue
            typesize = later.fetch(self.nchunks - 1).header.typesize
            params = CodecParams("lz4", 0, 0, max(typesize, 1))
            data = encode(content[: self.last_chunk], params)
            self._old_last = offset, memoryview(data), ChunkHeader.unpack(data)
            return self._old_last
        return None

    def _has_grown(self) -> bool:
        """Return whether it is a writer's doing that the file goes on behind the last chunk."""
        for later in self._later_states():
            if later.header != self.header:
                return True
            try:
                later.check_end()
            except BloscpackError:
                continue
            return True
        return False
