"""Reading a container: find a chunk, check it, decode it.

A chunk is looked for where the offset table says, and, if what lies there is not what the header
promises, where the chunks before it end (`chunktable.py`). Nothing is decoded before its checksum
was compared, and nothing is allocated on the word of a field that the bytes present do not bear
out.

A `Container` holds no position, so threads may share one.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Self

from xxhash import xxh3_64_digest

from ..checksum import CHECKSUMS, LAST_V3_ID
from ..codec import (
    CHUNK_HEADER_SIZE,
    ChunkHeader,
    decode_blocks_into,
    decode_into,
    decode_range_into,
    extent_of_range,
    new_bytes,
)
from ..exceptions import (
    BloscpackError,
    ChecksumMismatch,
    CodecError,
    FormatError,
    TruncatedError,
)
from ..notice import notice
from ..storage.protocol import ByteSource
from ..threads import resolve_nthreads, run_indexed
from ..wire import BytesLike
from .chunkmemory import ChunkMemory
from .chunktable import ChunkTable, at_chunk, check_left, check_room
from .format import OFFSET_SIZE, UNKNOWN, UNUSED_ENTRY, Header
from .front import (
    ABSENT,
    TAIL_NBYTES,
    TrailerState,
    has_trailer_magic,
    judge_trailer,
    with_recorded_front,
)
from .metadata import MetadataHeader, decode_data, stored_data
from .trailer import Trailer

# Header, metadata and the first offsets of nearly every file, in one read.
_HEAD_NBYTES = 4096
# A file that expands more than this has all its chunk headers read before memory is allocated.
_USUAL_EXPANSION = 16
# More bytes than any file or address space holds; numpy counts no further either.
_MAX_NBYTES = 2**63 - 1
# Read where a chunk starts whose size is not known: its header, and a small chunk as a whole.
_PROBE_NBYTES = 4096


Verify = bool | Literal["always"]
"""Whether to compare checksums: of each chunk once, never (False), or at each read."""


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
    verify : bool or "always", default True
        Compare the checksum of a chunk the first time it is read; at each read ("always"); or
        never (False). Where the file has none, the digest in its trailer is compared.

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
    # A small file is read once, as a whole: it is not worth a memory until parts are wanted.
    _memory: ChunkMemory | None = None
    _trailer: TrailerState = ABSENT
    _table: ChunkTable | None = None
    _trusts_table = True

    def __init__(self, source: ByteSource, *, verify: Verify = True) -> None:
        if verify not in (True, False, "always"):
            raise ValueError(f"verify must be True, False or 'always', not {verify!r}")
        self.source = source
        self.verify = verify
        try:
            self._read_front()
        except BaseException as err:
            if isinstance(err, BloscpackError):
                err.path = source.name
                self._advise(err)
            source.close()
            raise

    def _read_front(self) -> None:
        head = memoryview(self.source.read_at(0, _HEAD_NBYTES))
        self.header = header = Header.unpack(head)
        position = header.size
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
        size = self.source.size()
        tail = head
        if size > len(head):
            tail = memoryview(self.source.read_at(max(size - TAIL_NBYTES, 0), TAIL_NBYTES))
        if has_trailer_magic(tail):
            self._read_trailer(head, tail)
        # No chunk can be where the table does not end, and no position lies beyond the file.
        if self.data_offset > size:
            check_room(self.source, "offset table", position, header.table_size)
        self.nchunks = nchunks = header.nchunks
        self.chunk_size = header.chunk_size
        self.last_chunk = header.last_chunk
        if nchunks < 0 or self.chunk_size < 0 or self.last_chunk < 0:
            self._count_chunks()
        elif nchunks == 0:
            self._check_empty()
        self.nbytes = max(self.nchunks - 1, 0) * self.chunk_size + self.last_chunk
        if self.nchunks > 1:
            self._memory = ChunkMemory(min(self.nchunks, size // CHUNK_HEADER_SIZE))
        if self.nbytes > _MAX_NBYTES:
            raise FormatError(
                f"header: {self.nchunks} chunks of {self.chunk_size} bytes exceed 2^63-1 bytes",
                offset=16,
                field="nchunks",
            )

    def _read_trailer(self, head: memoryview, tail: memoryview) -> None:
        self._trailer = judge_trailer(self.source, tail, self.header, self.metadata_header, head)
        if self._trailer.trailer is None:
            notice(
                "%s: the trailer is %s and ignored; bloscpack.verify with fix=True writes it anew",
                self.source.name or "memory",
                self._trailer.name,
            )

    def _advise(self, err: BloscpackError) -> None:
        """Add to an error of the front that the trailer has a copy of it, if that is so."""
        with suppress(OSError):  # the first error is the one to tell
            if with_recorded_front(self.source) is not None:
                advice = "its trailer has a copy of the front, bloscpack.recover makes use of it"
                err.args = (f"{err.args[0]}; {advice}",)

    @property
    def trailer(self) -> Trailer | None:
        """The trailer; None if there is none that is of this state of the file."""
        return self._trailer.trailer

    @property
    def trailer_state(self) -> str:
        """State of the trailer: "valid", "absent", "stale" (the file was changed) or "damaged"."""
        return self._trailer.name

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

    def read_bytes_into(self, index: int, start: int, out: BytesLike) -> None:
        """Decode bytes ``start`` to ``start + len(out)`` of chunk `index` into `out`.

        Errors as for `read_chunk_into`; `ValueError` if the chunk does not hold such bytes.

        Notes
        -----
        Only the Blosc blocks that hold the bytes are decoded and, once the checksum of the chunk
        was compared, only they are read. A chunk that is read so again and again is decoded as a
        whole and kept until another one is.
        """
        nbytes, stop = self.chunk_nbytes(index), start + len(out)
        if not 0 <= start <= stop <= nbytes:
            raise ValueError(f"chunk {index} has no bytes {start} to {stop}: it has {nbytes}")
        memory = self._memory
        if memory is None:
            memory = self._memory = ChunkMemory(self.nchunks)
        if self.verify != "always":
            content = memory.content(index)
            # Small reads that together decoded the chunk twice will probably go on.
            if content is None and memory.count_run(index, len(out)) > 2 * nbytes:
                content = self.read_chunk(index)
                memory.keep(index, content)
            if content is not None:
                memoryview(out)[:] = memoryview(content)[start:stop]
                return
            if self._read_blocks_into(memory, index, start, out):
                return
        offset, data, header = self._fetch(index)
        try:
            decode_range_into(data, start, out)
        except CodecError as err:
            raise self._named(err, index, offset) from None
        if self._needs_no_check(index):
            memory.set_head(index, offset, bytes(data[: header.head_size]))

    def _read_blocks_into(
        self, memory: ChunkMemory, index: int, start: int, out: BytesLike
    ) -> bool:
        """Read and decode the blocks of a part of a chunk; return False where all of it is needed.

        A chunk that is not what it was is left to those who read the whole of it, as is the error.
        """
        found = memory.head(index) or self._find_head(memory, index)
        if found is None:
            return False
        offset, head = found
        try:
            low, high = extent_of_range(head, start, start + len(out))
            if low == 0:
                return False
            stored = self.source.read_at(offset + low, high - low)
            if len(stored) < high - low:
                return False
            decode_blocks_into(head, stored, low, start, out)
        except CodecError:
            return False
        return True

    def _find_head(self, memory: ChunkMemory, index: int) -> tuple[int, bytes] | None:
        """Return what `ChunkMemory.head` does for a chunk that need not be checked, or None."""
        if not self._needs_no_check(index) or not self.header.offsets or not self._trusts_table:
            return None
        try:
            offset = self._chunk_table().entry(index)[0]
            head = self.source.read_at(offset, _PROBE_NBYTES)
            header = ChunkHeader.unpack(head)
            if header.head_size > len(head):
                head = self.source.read_at(offset, header.head_size)
        except BloscpackError:
            return None
        if header.nbytes != self.chunk_nbytes(index):
            return None
        return memory.set_head(index, offset, bytes(head[: header.head_size]))

    def _needs_no_check(self, index: int) -> bool:
        """Return whether chunk `index` may be read without comparing its checksum (again)."""
        if self.verify is False:
            return True
        memory = self._memory
        if memory is None or self.verify == "always" or not memory.is_checked(index):
            return False
        # The last chunk may be rewritten by an append, unless it is full.
        return index < self.nchunks - 1 or self.last_chunk == self.chunk_size

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
        if self.trailer is not None:
            return  # it vouches for the header
        if header.offsets:
            if header.max_app_chunks:
                position = self._table_offset + OFFSET_SIZE * self.nchunks
                if self.source.read_at(position, OFFSET_SIZE) != UNUSED_ENTRY:
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
            _, following = self._read_stored(position, None, check=bool(self.verify))
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
            self._table = ChunkTable(self.source, self.header, self._table_offset, self.trailer)
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
            err.path = self.name
            raise

    def _load(
        self, index: int, offset: int, following: int | None
    ) -> tuple[int, memoryview, ChunkHeader]:
        """Return the chunk at `offset`, which is to be chunk `index`, its checksum compared."""
        check = not self._needs_no_check(index)
        try:
            data, header = self._read_stored(offset, following, check=check)
        except BloscpackError as err:
            raise at_chunk(err, index, offset) from None
        nbytes = self.last_chunk if index == self.nchunks - 1 else self.chunk_size
        if header.nbytes != nbytes:
            raise FormatError(
                f"chunk {index} at offset {offset}: decodes to {header.nbytes} bytes, "
                f"the header promises {nbytes}",
                offset=offset,
            )
        if check and not self.header.checksum.nbytes and self._trailer.trailer is not None:
            self.compare_trailer(index, StoredChunk(offset, data, header))
        if check and self._memory is not None:
            self._memory.set_checked(index)
        return offset, data, header

    def compare_trailer(self, index: int, stored: StoredChunk) -> None:
        """Compare chunk `index` with its digest in the trailer, if that is known.

        Reading does so by itself where the file has no checksums.

        Raises
        ------
        ChecksumMismatch
            They differ.
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

    def _read_stored(
        self, offset: int, following: int | None, *, check: bool
    ) -> tuple[memoryview, ChunkHeader]:
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
        if check:
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
