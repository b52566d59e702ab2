"""Appending to a container: content is cut into chunks, compressed on all cores, written in order.

Full chunks are collected until there are enough for all threads, then compressed together and
written in order. Content that does not fill a chunk stays decoded in memory and is compressed on
commit. Memory therefore holds a few chunks per thread, however much is appended. Of a chunk grid,
the unit is a row of the grid, which is cut into its chunks when it is full.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from ..format.codec import (
    CODECS,
    MAX_SPLITS,
    ChunkHeader,
    CodecParams,
    ItemEncoder,
)
from ..format.header import Header
from ..parallel.threads import ALL_THREADS, map_ordered, resolve_nthreads
from ..storage import disk
from ..storage.overlay import OverlaySource
from ..storage.protocol import closed_on_error
from ..storage.update import UpdateFile
from ..types import BytesLike
from .blocks import MIN_SAMPLED_NBYTES, SAMPLE_NBYTES, with_quick_level, with_small_blocks
from .defaults import DEFAULT_CODEC, default_clevel, default_shuffle
from .inplaceappend import Growth
from .reader import Container
from .writer import Encoded, encode_chunk

if TYPE_CHECKING:
    from ..format.chunkgrid import ChunkGrid
    from ..format.rounding import Rounding
    from ..format.statistics import Statistics


class GridCutter(Protocol):
    """Division of rows of an array into the chunks of a grid."""

    row_nchunks: int  # number of chunks in a row of the grid
    row_nbytes: int  # decoded size of a full row of the grid in bytes

    def cut(self, content: BytesLike) -> Iterable[BytesLike]:
        """Return the chunks of a row of the grid, given the stored bytes of its rows."""

    def join(self, chunks: Iterable[bytes]) -> bytes:
        """Return the stored bytes of the rows in the chunks of a row of the grid."""


class _NoGrid:
    """Division of content into chunks of one size."""

    row_nchunks = 1

    def __init__(self, chunk_size: int) -> None:
        self.row_nbytes = chunk_size

    def cut(self, content: BytesLike) -> Iterable[BytesLike]:
        """Return the content, which is a chunk."""
        return (content,)

    def join(self, chunks: Iterable[bytes]) -> bytes:
        """Return the only chunk."""
        return b"".join(chunks)


class Appender:
    """Appends content to one container; created by `open` or `create`. Not thread-safe.

    `growth` is the file, and `nbytes` the decoded size of all content, committed or not. If
    `is_broken`, writing has failed: further calls are refused, and closing rolls back everything
    that was not committed.
    """

    def __init__(
        self,
        growth: Growth,
        params: CodecParams,
        tail: bytes,
        cutter: GridCutter | None,
        *,
        nthreads: int | None,
    ) -> None:
        self.is_broken = False
        self.growth = growth
        self._params = params
        self._checksum = growth.header.checksum
        self.has_grid = cutter is not None
        self._cutter = cutter or _NoGrid(growth.header.chunk_size)
        # A chunk, or a row of the grid.
        self._unit = self._cutter.row_nbytes
        # Bytes after the last full unit, and full units that are not compressed yet.
        self._tail = bytearray(tail)
        self._waiting: list[bytes] = []
        self._committed_tail = bytes(tail)
        self._is_dirty = not growth.is_published
        # Trials on large enough content choose the block size of a new file, as in `save`, and the
        # level of what is added to another.
        self._is_new = not growth.is_published
        self._has_tried = params.clevel == 0
        self._nthreads = resolve_nthreads(nthreads, ALL_THREADS)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        cutter_for: "Callable[[ChunkGrid, Any], GridCutter]",
        *,
        nthreads: int | None = None,
        locking: bool = True,
    ) -> tuple["Appender", Any]:
        """Open a file for appending; also return its metadata.

        `cutter_for` is called with the grid and the metadata of a file that has a chunk grid.

        Raises
        ------
        LockedError
            Another writer has it open.
        UnsupportedError, ValueError
            It cannot be appended to: see `check_appendable`.
        FormatError, CodecError
            It is damaged.
        OSError
            It does not exist or cannot be written.
        """
        file = UpdateFile.open(path, locking=locking)
        with closed_on_error(file, file.name):
            container = Container.open(file)
            growth = Growth.open(file, container, locking=locking)
            metadata, grid = container.metadata, container.grid
            cutter = None if grid is None else cutter_for(grid, metadata)
            rest = range(container.front.nstable, container.nchunks)
            chunks = [container.read_chunk(index) for index in rest]
            tail = b"".join(chunks) if cutter is None else cutter.join(chunks)
            params = params_of(container)
            return cls(growth, params, tail, cutter, nthreads=nthreads), metadata

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        header: Header,
        metadata: Any,
        params: CodecParams,
        cutter: GridCutter | None = None,
        *,
        nthreads: int | None = None,
        locking: bool = True,
        overwrite: bool = True,
    ) -> "Appender":
        """Start a new file, which appears on the first commit; `cutter` for a chunk grid.

        Raises
        ------
        LockedError
            A writer has the file to be replaced open.
        """
        target = disk.target_of(path)
        replaced = None
        if os.path.lexists(target):
            replaced = UpdateFile.open(path, locking=locking)
        try:
            name = os.fspath(path)
            growth = Growth.create(
                target, name, header, metadata, replaced, locking=locking, overwrite=overwrite
            )
            growth.has_statistics = params.statistics is not None
            return cls(growth, params, b"", cutter, nthreads=nthreads)
        except BaseException:
            if replaced is not None:
                replaced.close()
            raise

    @property
    def chunk_size(self) -> int:
        """Decoded size in bytes of a full chunk, or of a full row of a chunk grid."""
        return self._unit

    @property
    def nbytes(self) -> int:
        """Decoded size of all content in bytes."""
        nfull = self.growth.nfull // self._cutter.row_nchunks + len(self._waiting)
        return nfull * self._unit + len(self._tail)

    def encode_with(
        self,
        rounding: "Rounding | None",
        items: ItemEncoder | None,
        statistics: "Statistics | None",
    ) -> None:
        """Set the rounding, encoder and statistics of content that is not compressed yet."""
        self._params = replace(self._params, rounding=rounding, items=items, statistics=statistics)

    def append(self, content: memoryview) -> None:
        """Append `content`; the caller may change the buffer after this returns."""
        self._check_usable()
        if not content:
            return
        self._is_dirty = True
        room = self._unit - len(self._tail)
        if len(content) < room:
            self._tail += content
            return
        nfull = 1 + (len(content) - room) // self._unit
        pieces = self._cut(content, room, nfull)
        if len(self._waiting) + nfull < self._batch:
            self._waiting += map(bytes, pieces)  # copies, as the caller may change its buffer
        else:
            is_large = (len(self._waiting) + nfull) * self._unit >= MIN_SAMPLED_NBYTES
            self._write(chain(self._waiting, pieces), tries=is_large)
        start = room + (nfull - 1) * self._unit
        self._tail = bytearray(content[start:])

    @property
    def _batch(self) -> int:
        batch = 1 if self._nthreads == 1 else 2 * self._nthreads
        batch = -(-batch // self._cutter.row_nchunks)
        if self._is_new and not self._has_tried:
            # Less content keeps C-Blosc's blocks, as in `save`, so wait until it is known.
            batch = max(batch, -(-MIN_SAMPLED_NBYTES // self._unit))
        return batch

    def _with_params_chosen(self, pieces: "chain[BytesLike]") -> "chain[BytesLike]":
        """Return `pieces`; on the first call, choose parameters by trials on the first one."""
        if self._has_tried:
            return pieces
        self._has_tried = True
        first = next(pieces)
        flat = memoryview(first).cast("B")
        if self._is_new:
            self._params = with_small_blocks(
                self._params, flat[:SAMPLE_NBYTES], len(flat), nthreads=self._nthreads
            )
        else:
            self._params = with_quick_level(self._params, flat)
        return chain([first], pieces)

    def _cut(self, content: memoryview, room: int, nfull: int) -> Iterator[BytesLike]:
        if self._tail:
            yield b"".join((self._tail, content[:room]))
        else:
            yield content[:room]
        for index in range(nfull - 1):
            start = room + index * self._unit
            yield content[start : start + self._unit]

    @contextmanager
    def _breaks_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Some chunks may be in the file already: another attempt would add them twice.
            self.is_broken = True
            raise

    def _write(self, units: Iterable[BytesLike], *, tries: bool = False) -> None:
        """Compress and write full chunks."""
        with self._breaks_on_error():
            pieces = chain.from_iterable(map(self._cutter.cut, units))
            if tries:
                pieces = self._with_params_chosen(pieces)
            for encoded in map_ordered(self._encode, pieces, self._nthreads):
                self.growth.add(encoded)
        self._waiting = []

    def _encode(self, content: BytesLike) -> Encoded:
        return encode_chunk(content, self._params, self._checksum, trailer=True)

    def _encode_tail(self) -> list[Encoded]:
        """Return the last chunk if it is not full, or those of the last row of a grid."""
        if not self._tail and self.growth.nfull:  # without content, a file has one empty chunk
            return []
        return list(map_ordered(self._encode, self._cutter.cut(self._tail), self._nthreads))

    def commit(self, metadata: Any, *, is_changed: bool = False) -> None:
        """Make everything that was appended durable, and also `metadata` if `is_changed`.

        Does nothing without changes.
        """
        self._check_usable()
        if not self._is_dirty and not is_changed:
            return
        if self._waiting:
            self._write(self._waiting)
        with self._breaks_on_error():
            self.growth.commit(self._encode_tail(), metadata)
        self._committed_tail = bytes(self._tail)
        self._is_dirty = False

    def view(self, metadata: Any = None) -> OverlaySource:
        """Return a source for the file including everything that was appended.

        A chunk grid needs the current `metadata`, which have its shape.
        """
        self._check_usable()
        if self._waiting:
            self._write(self._waiting)
        with self._breaks_on_error():
            return self.growth.view(self._encode_tail(), metadata)

    def rollback(self) -> None:
        """Discard everything that was appended since the last commit."""
        self._waiting = []
        self._tail = bytearray(self._committed_tail)
        self.growth.rollback()
        self._is_dirty = not self.growth.is_published

    def close(self) -> None:
        """Roll back what was not committed, close the file and release the lock.

        A forked child only closes its copy of the descriptor.
        """
        try:
            if self.growth.is_mine:
                self.rollback()
        finally:
            self.growth.close()

    def _check_usable(self) -> None:
        if self.is_broken:
            raise ValueError(
                "writing has failed before; close the file to restore the state of the last flush"
            )
        self.growth.check_mine()


def params_of(container: Container) -> CodecParams:
    """Return the compression parameters of the last full chunk of a file, or of its only chunk."""
    # The last chunk of a row of a grid may be small; the first is the largest.
    index = max(container.front.nstable - 1, 0) if container.grid is None else 0
    return params_like(container.fetch(index).header, container.front.nstable > 0)


def params_like(header: ChunkHeader, is_full: bool) -> CodecParams:
    """Return parameters that produce chunks like this one; the level is the default of the codec.

    A chunk that is not full may consist of one small block, whose size does not suit larger chunks.
    """
    if header.is_array:  # which says nothing about the Blosc chunks beside it
        return CodecParams(
            DEFAULT_CODEC,
            default_clevel(DEFAULT_CODEC),
            default_shuffle(header.typesize),
            header.typesize,
        )
    codec = header.codec if header.codec in CODECS else DEFAULT_CODEC
    typesize = max(header.typesize, 1)  # a header may have 0, which `CodecParams` refuses
    blocksize = header.blocksize if is_full or header.blocksize < header.nbytes else 0
    if header.is_split and codec != "zstd" and typesize <= MAX_SPLITS:
        blocksize //= typesize  # C-Blosc takes the size of one stream
    return CodecParams(codec, default_clevel(codec), header.shuffle, typesize, blocksize)
