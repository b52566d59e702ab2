"""Checking a file from front to end: what is damaged, and which content is lost with it.

Where the front is damaged and the trailer has a copy of it, the check goes on with the copy.
"""

import os
from pathlib import Path
from threading import Lock
from typing import Any

from .codec import CHUNK_HEADER_SIZE, decode_into, new_bytes
from .container.format import OFFSET_SIZE, Header
from .container.front import with_recorded_front
from .container.reader import Container, StoredChunk
from .container.trailer import DIGEST_SIZE, PAGE_CHUNKS, trailer_nbytes
from .container.writer import Progress
from .exceptions import (
    BloscpackError,
    FormatError,
    NotANumpyArray,
    NotBloscpackError,
    UnsupportedError,
)
from .ndarray import check_nbytes, unpack_array_metadata
from .repair import Layout, repair
from .report import Damage, Report, Rows
from .storage.file import open_source
from .storage.protocol import ByteSource
from .threads import resolve_nthreads, run_indexed


def verify(
    path: Any,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
    fix: bool = False,
) -> Report:
    """Check header, metadata, offset table, trailer and every chunk of a file.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.
    progress : callable, optional
        Called with (bytes done, bytes in all) after each chunk.
    fix : bool, default False
        If all chunks and the metadata are sound, write a trailer where none is valid, and a lost
        or wrong offset table anew; `path` must then be that of a file. A file whose data are
        damaged is not touched: `recover` makes a new one of what is whole. Without `fix` nothing
        is changed at all.

    Returns
    -------
    Report
        What is damaged; after `fix`, what still is, and in `notices` what was done.

    Raises
    ------
    NotBloscpackError
        The file is of another kind.
    UnsupportedError
        It is of an unknown version.
    OSError
        It cannot be read, or written if there is something to fix.
    ValueError
        `fix` without the path of a file.
    FileChangedError
        The file was changed while it was checked; nothing was fixed.

    Notes
    -----
    Each chunk is decoded, so a file without checksums is checked as far as its codecs can.
    """
    before = None
    if fix:
        if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
            raise ValueError("fix needs the path of a file: only that can be written to")
        before = Path(path).stat()
    source = open_source(path)
    try:
        examination = _Examination(source)
        if examination.container is not None:
            examination.run(nthreads, progress)
        report = examination.report()
        if before is not None:
            report = repair(Path(path), before, report, examination.layout)
        return report
    finally:
        source.close()


class _Examination:
    """The check of one file: its faults, by the part of the file."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._front: list[Damage] = []
        self._table: list[Damage] = []
        self._chunks: list[Damage] = []
        self._end: list[Damage] = []
        self._notices: list[str] = []
        self._state = "absent"
        self.container = self._open()

    def report(self) -> Report:
        """Return what was found."""
        container = self.container
        return Report(
            self._source.name,
            container.nchunks if container else 0,
            container.nbytes if container else 0,
            [*self._front, *self._table, *self._chunks, *self._end],
            self._state,
            self._notices,
        )

    @property
    def layout(self) -> Layout | None:
        """Where everything is, for a repair; None if data or metadata are damaged."""
        if self.container is None or self._front or self._chunks:
            return None
        return self._layout

    def _open(self) -> Container | None:
        try:
            return Container(_Lasting(self._source))
        except (FormatError, UnsupportedError) as err:
            patched = with_recorded_front(self._source)
            if patched is None:
                if isinstance(err, NotBloscpackError | UnsupportedError):
                    raise
                self._front.append(_damage(err))
                return None
            error: BloscpackError = err
        self._compare_front(patched.head, error)
        try:
            return Container(_Lasting(patched))
        except (
            FormatError,
            UnsupportedError,
        ):  # large metadata, which have no copy, are damaged too
            return None

    def _compare_front(self, recorded: bytes, error: BloscpackError) -> None:
        """Say which parts of the front differ from the copy."""
        stored = bytes(self._source.read_at(0, len(recorded)))
        size = Header.unpack(recorded).size
        what = str(error.args[0])
        if stored[:size] != recorded[:size]:
            self._front.append(Damage(what, None, 0, size))
            what = "metadata: differ from the copy in the trailer"
        if stored[size:] != recorded[size:] or not self._front:
            self._front.append(Damage(what, None, size, max(len(recorded), size)))

    def run(self, nthreads: int | None, progress: Progress | None) -> None:
        """Check everything behind the front."""
        container = self.container
        if container is None:
            return
        self._state = container.trailer_state
        self._check_metadata(container)
        table = self._check_table(container)
        self._check_chunks(container, table, nthreads, progress)
        self._check_trailer(container)
        if not self._chunks and not self._front:
            try:
                container.check_end()
            except FormatError as err:
                self._front.append(_damage(err))

    def _check_metadata(self, container: Container) -> None:
        try:
            dtype, shape, _ = unpack_array_metadata(container.metadata)
            check_nbytes(container, dtype, shape)
        except NotANumpyArray:
            return  # other metadata, or none
        except ImportError:
            return  # an optional package would have to say
        except BloscpackError as err:
            size = container.header.size
            meta = container.metadata_header
            end = size + meta.section_size if meta else size
            self._front.append(Damage(str(err.args[0]), None, size, end))

    def _check_table(self, container: Container) -> tuple[int, ...]:
        """Return the entries of the offset table, none without a table or with a damaged one."""
        if not container.header.offsets or not container.nchunks:
            return ()
        end = container.data_offset
        start = end - container.header.table_size
        try:
            return container.read_offsets()
        except FormatError as err:
            self._table.append(Damage(str(err.args[0]), None, start, end))
            return ()

    def _check_chunks(
        self,
        container: Container,
        table: tuple[int, ...],
        nthreads: int | None,
        progress: Progress | None,
    ) -> None:
        # A header can promise more chunks than the file has bytes: those need no look.
        smallest = CHUNK_HEADER_SIZE + container.header.checksum.nbytes
        possible = max(0, container.source.size() - container.data_offset) // smallest
        count = min(container.nchunks, possible)
        self._layout = layout = Layout(container, count)
        rows = Rows(container)
        entries = container.data_offset - container.header.table_size
        chunks: dict[int, Damage] = {}
        moved: dict[int, Damage] = {}
        lock = Lock()
        done = 0

        def check(index: int) -> None:
            nonlocal done
            nbytes = container.chunk_nbytes(index)
            first = index * container.chunk_size
            try:
                layout.note(index, _check_chunk(container, index))
                offset = layout.offsets[index]
                if table and table[index] != offset:
                    what = f"offset table: entry {index} is {table[index]}, "
                    at = entries + OFFSET_SIZE * index
                    what += f"the chunk is at {offset}"
                    moved[index] = Damage(what, None, at, at + OFFSET_SIZE)
            except BloscpackError as err:
                last = first + nbytes
                start = getattr(err, "offset", None)
                end = _end_of(container, table, index, start)
                chunks[index] = Damage(
                    str(err.args[0]), index, start, end, first, last, rows.spanned(first, last)
                )
            if progress is not None:
                with lock:
                    done += nbytes
                    progress(done, container.nbytes)

        run_indexed(check, range(count), resolve_nthreads(nthreads, container.nbytes))
        self._table.extend(moved[index] for index in sorted(moved))
        self._chunks.extend(chunks[index] for index in sorted(chunks))
        if count < container.nchunks:
            what = f"chunks {count} to {container.nchunks - 1} are missing: the file is too short"
            lost = count * container.chunk_size, container.nbytes
            self._chunks.append(Damage(what, count, None, None, *lost, rows.spanned(*lost)))

    def _check_trailer(self, container: Container) -> None:
        """Check what is behind the last chunk."""
        layout, size = self._layout, container.source.size()
        trailer, end = container.trailer, layout.end
        if trailer is None:
            if not self._chunks:  # else the end is not known
                self._judge_rest(container, end, size)
            return
        for page in range(-(-trailer.nchunks // PAGE_CHUNKS)):
            start, nbytes = trailer.page_extent(page)
            if not trailer.matches_digests(page, container.source.read_at(start, nbytes)):
                first = page * PAGE_CHUNKS
                what = f"trailer: the digests of chunks {first} to "
                what += f"{first + nbytes // DIGEST_SIZE - 1} are damaged"
                self._end.append(Damage(what, None, start, start + nbytes))
        if trailer.offset != end and not self._chunks:
            what = f"trailer: starts at {trailer.offset}, the last chunk ends at {end}"
            self._end.append(Damage(what, None, end, size))
        if self._end:
            self._state = "damaged"

    def _judge_rest(self, container: Container, end: int, size: int) -> None:
        """Tell a damaged trailer from a stale one and from other bytes behind the last chunk."""
        rest = size - end
        meta = container.metadata_header
        head = container.header.size + (meta.section_size if meta else 0)
        expected = trailer_nbytes(container.nchunks, head)
        digests = bytes(self._layout.digests[:DIGEST_SIZE])
        begins = rest >= DIGEST_SIZE and container.source.read_at(end, DIGEST_SIZE) == digests
        if self._state != "stale" and rest == expected and (begins or self._state == "damaged"):
            self._state = "damaged"
            self._end.append(Damage("trailer: damaged", None, end, size))
        elif self._state != "stale" and begins and rest < expected:
            self._state = "damaged"
            what = f"trailer: cut, {rest} of {expected} bytes are there"
            self._end.append(Damage(what, None, end, size))
        elif self._state != "absent":
            self._state = "stale"
            self._notices.append(
                "the trailer is stale: another program has changed the file; fix writes it anew"
            )
        elif rest > 0:
            self._notices.append(f"{rest} bytes follow the last chunk at offset {end}")


class _Lasting:
    """A source that stays open when its container is closed, or cannot be opened."""

    def __init__(self, source: ByteSource) -> None:
        self.name: str | None = source.name
        self.size = source.size
        self.read_at = source.read_at

    def close(self) -> None:
        """Do nothing: the examination closes the file."""


def _check_chunk(container: Container, index: int) -> StoredChunk:
    """Return a chunk whose checksum, digest in the trailer and content were all checked."""
    stored = container.fetch(index)
    container.compare_trailer(index, stored)
    _, view = new_bytes(stored.header.nbytes)
    with view:
        decode_into(stored.data, view)
    return stored


def _end_of(
    container: Container, table: tuple[int, ...], index: int, offset: int | None
) -> int | None:
    """Return where a damaged chunk ends, as far as the offset table tells."""
    if offset is None:
        return None
    if index + 1 < len(table):
        return table[index + 1] if table[index + 1] > offset else None
    if index == container.nchunks - 1:
        return container.trailer.offset if container.trailer else container.source.size()
    return None


def _damage(err: BloscpackError) -> Damage:
    return Damage(str(err.args[0]), None, getattr(err, "offset", None))
