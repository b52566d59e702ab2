"""Appending as in bloscpack 0.16: the same bytes, in place, without a trailer.

The last chunk is filled up and compressed again, further chunks follow it, and the header, offset
table and metadata are updated. Errors in the arguments or the file are raised before any byte is
written. Bytes beyond the old end are written first, the header last. A file opened by name is
changed under a rollback journal (`journaled`); a file object of the caller has none.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from ..container.inplaceappend import check_appendable
from ..container.reader import Container
from ..container.writer import Chunking
from ..exceptions import FormatError, NotEnoughSpace
from ..format.codec import CodecParams, encode
from ..format.header import UNUSED_ENTRY, Header, pack_offsets
from ..format.metadata import MetadataHeader, pack_section
from ..parallel.threads import map_ordered, resolve_nthreads
from ..storage.file import read_fully
from ..storage.sink import SpoolSink
from ..storage.update import UpdateFile
from ..types import Progress


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """Effect of an append, computed and checked before anything is written."""

    fill_nbytes: int  # number of new bytes that go into the last chunk
    # Division of the remaining bytes into chunks; None if no bytes remain.
    chunking: Chunking | None
    header: Header  # header after the append

    @property
    def nchunks(self) -> int:
        """Number of new chunks."""
        return self.chunking.nchunks if self.chunking else 0


def plan_append(container: Container, nbytes: int) -> AppendPlan:
    """Return the plan of an append of `nbytes` bytes to `container`.

    UnsupportedError if the file has no offset table, or its version is not 3 or 4; NotEnoughSpace
    if the table has too few spare entries; ValueError if the file is empty, so that its chunk size
    is unknown.
    """
    container.check_sequential()
    check_appendable(container)
    header = container.header
    # The header may leave sizes unknown; the container has determined them.
    header = header._replace(chunk_size=container.chunk_size, last_chunk=container.last_chunk)
    room = container.chunk_size - container.last_chunk
    if nbytes <= room:
        return AppendPlan(nbytes, None, header._replace(last_chunk=header.last_chunk + nbytes))
    chunking = Chunking.of(nbytes - room, container.chunk_size)
    spare = header.max_app_chunks - chunking.nchunks
    if spare < 0:
        raise NotEnoughSpace(
            f"{chunking.nchunks} more chunks are needed, the offset table has room for "
            f"{header.max_app_chunks}; pack the file again with a larger max_app_chunks"
        )
    after = header._replace(
        nchunks=header.nchunks + chunking.nchunks,
        last_chunk=chunking.last_chunk,
        max_app_chunks=spare,
    )
    return AppendPlan(room, chunking, after)


def append_content(
    file: IO[bytes],
    container: Container,
    plan: AppendPlan,
    content: IO[bytes],
    params: CodecParams,
    section: bytes | None = None,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Carry out `plan` in `file`, which `container` read before.

    `content` has the new bytes; if it ends early, ValueError is raised and the file is unchanged.
    Nothing was written if the last chunk or the offset table is damaged. `section` is a new
    metadata section, as long as the old one. `progress` is called with (bytes done, bytes in total)
    after each chunk.
    """
    digest = container.header.checksum.digest
    container.stored.check_end()
    offsets = list(container.stored.offsets())
    last = container.nchunks - 1
    position, before = container.read_located(last)
    if position != offsets[last]:
        raise FormatError(
            f"offset table: entry {last} is {offsets[last]}, which is not the last chunk",
            field="offsets",
        )
    merged = before + _read_exactly(content, plan.fill_nbytes)
    filled = encode(merged, params)
    filled += digest(filled)
    done = plan.fill_nbytes
    total = done + (plan.chunking.nbytes if plan.chunking else 0)
    note = progress or (lambda done, total: None)
    note(done, total)

    def compress(piece: bytes) -> tuple[int, bytes]:
        chunk = encode(piece, params)
        return len(piece), chunk + digest(chunk)

    start = position = offsets[last] + len(filled)
    pieces = _pieces(content, plan.chunking)
    # From here on the order of the writes matters: see the module.
    with _written_at(file, start) as target:
        for nbytes, stored in map_ordered(compress, pieces, resolve_nthreads(nthreads, total)):
            offsets.append(position)
            target.write(stored)
            position += len(stored)
            done += nbytes
            note(done, total)
    file.seek(offsets[last])
    file.write(filled)
    if section is not None:
        file.seek(container.header.size)
        file.write(section)
    file.seek(container.front.table_offset)
    # The next entry was spare and never checked: mark it as unused.
    file.write(pack_offsets(offsets) + UNUSED_ENTRY * min(plan.header.max_app_chunks, 1))
    file.seek(0)
    file.write(plan.header.pack())
    file.flush()


def rewrite_section(
    old: MetadataHeader,
    metadata: Any,
    *,
    checksum: str | None = None,
    codec: str = "zlib",
    level: int = 6,
) -> bytes:
    """Return a metadata section for `metadata`, as long as the section with header `old`."""
    return pack_section(
        metadata,
        checksum=checksum or old.meta_checksum.name,
        codec=codec,
        level=level,
        reserve=old.max_meta_size,
    )


class JournaledFile(io.RawIOBase):
    """File object over a file opened by name; the first write creates its journal."""

    def __init__(self, file: UpdateFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position and return it."""
        base = (0, self._position, self._file.size())[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the current position."""
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read from the current position."""
        if size is None or size < 0:
            size = max(self._file.size() - self._position, 0)
        data = self._file.read_at(self._position, size)
        self._position += len(data)
        return data

    def write(self, data: Any) -> int:
        """Write all of `data` at the current position."""
        if not self._file.has_journal:
            self._begin()  # not earlier: an append that is refused leaves no trace
        self._file.write_at(self._position, data)
        self._position += len(data)
        return len(data)

    def _begin(self) -> None:
        container = Container.open(self._file)
        last = container.fetch(container.nchunks - 1).offset
        # Header and metadata, and the last chunk with all behind it. Not the table: replaying makes
        # its new entries spare again.
        extents = [(0, container.front.table_offset), (last, self._file.size() - last)]
        self._file.begin(container.data_offset, extents)


@contextmanager
def journaled(path: str | os.PathLike[str], *, locking: bool = True) -> Iterator[IO[bytes]]:
    """Open the file at `path` as a file object whose changes take effect together or not at all.

    LockedError if another writer has the file open.
    """
    file = UpdateFile.open(path, locking=locking)
    try:
        stream: Any = JournaledFile(file)  # typeshed has no raw stream that is an IO[bytes]
        yield stream
        if file.has_journal:
            file.end()
    except BaseException:
        file.undo()
        raise
    finally:
        file.close()


@contextmanager
def _written_at(file: IO[bytes], start: int) -> Iterator[IO[bytes] | SpoolSink]:
    """Return a sink for the bytes from offset `start` on; they are written when all have arrived.

    The content may end early, and then nothing must be written. A `JournaledFile` is its own sink,
    since its journal undoes a partial write.
    """
    if isinstance(file, JournaledFile):
        file.seek(start)
        yield file
        return
    spool = SpoolSink()
    try:
        yield spool
        file.seek(start)
        for block in spool.iter_blocks():
            file.write(block)
    finally:
        spool.abort()


def _pieces(content: IO[bytes], chunking: Chunking | None) -> Iterator[bytes]:
    if chunking is None:
        return
    for _ in range(chunking.nchunks - 1):
        yield _read_exactly(content, chunking.chunk_size)
    yield _read_exactly(content, chunking.last_chunk)


def _read_exactly(content: IO[bytes], nbytes: int) -> bytes:
    data = read_fully(content, nbytes)
    if len(data) != nbytes:
        raise ValueError(f"the new content ended {nbytes - len(data)} bytes early")
    return data
