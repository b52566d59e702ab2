"""Appending to a container: content is cut into chunks, compressed on all cores, written in order.

Full chunks are collected until there are enough for all threads, then compressed together and
written in order. Content that does not fill a chunk stays decoded in memory and is compressed on
commit. Memory therefore holds a few chunks per thread, however much is appended.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_digest

from ..format.codec import CODECS, MAX_SPLITS, ChunkHeader, CodecParams, encode
from ..format.header import Header
from ..parallel.threads import ALL_THREADS, map_ordered, resolve_nthreads
from ..storage.overlay import OverlaySource
from ..storage.protocol import closed_on_error
from ..storage.update import UpdateFile
from ..types import BytesLike
from .blocks import MIN_SAMPLED_NBYTES, SAMPLE_NBYTES, with_small_blocks
from .growth import Encoded, Growth
from .reader import Container

if TYPE_CHECKING:
    from ..format.rounding import Rounding

DEFAULT_CODEC = "zstd"
_DEFAULT_CLEVEL = {"zstd": 3, "lz4hc": 9}


def default_clevel(codec: str) -> int:
    """Return the default compression level of a codec."""
    return _DEFAULT_CLEVEL.get(codec, 5)


class Appender:
    """Appends content to one container; created by `open` or `create`.

    Not thread-safe.

    Attributes
    ----------
    nbytes : int
        Decoded size of all content, committed or not.
    is_broken : bool
        Whether writing has failed: further calls are refused, and closing rolls back everything
        that was not committed.
    """

    def __init__(
        self, growth: Growth, params: CodecParams, tail: bytes, *, nthreads: int | None
    ) -> None:
        self.is_broken = False
        self._growth = growth
        self._params = params
        self._checksum = growth.header.checksum
        self._chunk_size = growth.header.chunk_size
        # Bytes after the last full chunk, and full chunks that are not compressed yet.
        self._tail = bytearray(tail)
        self._waiting: list[bytes] = []
        self._committed_tail = bytes(tail)
        self._is_dirty = not growth.is_published
        # The block size of a large enough new file is chosen by trial, as in `save`.
        self._tries_blocks = not growth.is_published and params.clevel > 0
        self._nthreads = resolve_nthreads(nthreads, ALL_THREADS)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, nthreads: int | None = None, locking: bool = True
    ) -> tuple["Appender", Any]:
        """Open a file for appending; also return its metadata.

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
            container = Container(file)
            growth = Growth.open(file, container, locking=locking)
            last = container.nchunks - 1
            is_full = container.last_chunk == container.chunk_size
            tail = b"" if is_full else container.read_chunk(last)
            params = _params_of(container)
            return cls(growth, params, tail, nthreads=nthreads), container.metadata

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        header: Header,
        metadata: Any,
        params: CodecParams,
        *,
        nthreads: int | None = None,
        locking: bool = True,
    ) -> "Appender":
        """Start a new file, which appears on the first commit.

        Raises
        ------
        LockedError
            A writer has the file to be replaced open.
        """
        target = os.path.realpath(path)
        replaced = None
        if os.path.lexists(target):
            replaced = UpdateFile.open(path, locking=locking)
        try:
            name = os.fspath(path)
            growth = Growth.create(target, name, header, metadata, replaced, locking=locking)
            return cls(growth, params, b"", nthreads=nthreads)
        except BaseException:
            if replaced is not None:
                replaced.close()
            raise

    @property
    def chunk_size(self) -> int:
        """Decoded size of a full chunk in bytes."""
        return self._chunk_size

    @property
    def nbytes(self) -> int:
        """Decoded size of all content in bytes."""
        nfull = self._growth.nfull + len(self._waiting)
        return nfull * self._chunk_size + len(self._tail)

    @property
    def is_published(self) -> bool:
        """Whether the file exists: it was opened, or committed once."""
        return self._growth.is_published

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the file; a forked child did not."""
        return self._growth.is_mine

    def check_mine(self) -> None:
        """Check that this process opened the file; raises as `Growth.check_mine` does."""
        self._growth.check_mine()

    def round_with(self, rounding: "Rounding | None") -> None:
        """Set the rounding of all content that has not been compressed yet."""
        self._params = replace(self._params, rounding=rounding)

    def append(self, content: memoryview) -> None:
        """Append `content`; the caller may change the buffer after this returns."""
        self._check_usable()
        if not content:
            return
        self._is_dirty = True
        room = self._chunk_size - len(self._tail)
        if len(content) < room:
            self._tail += content
            return
        nfull = 1 + (len(content) - room) // self._chunk_size
        pieces = self._cut(content, room, nfull)
        if len(self._waiting) + nfull < self._batch:
            self._waiting += map(bytes, pieces)
        else:
            self._write(self._with_blocks_chosen(chain(self._waiting, pieces)))
        start = room + (nfull - 1) * self._chunk_size
        self._tail = bytearray(content[start:])

    @property
    def _batch(self) -> int:
        batch = 1 if self._nthreads == 1 else 2 * self._nthreads
        if self._tries_blocks:
            batch = max(batch, -(-MIN_SAMPLED_NBYTES // self._chunk_size))
        return batch

    def _with_blocks_chosen(self, pieces: Iterator[BytesLike]) -> Iterator[BytesLike]:
        """Return `pieces`; on the first call, choose the block size by trials on the first one."""
        if not self._tries_blocks:
            return pieces
        self._tries_blocks = False
        first = next(pieces)
        self._params = with_small_blocks(
            self._params, first[:SAMPLE_NBYTES], self._chunk_size, nthreads=self._nthreads
        )
        return chain([first], pieces)

    def _cut(self, content: memoryview, room: int, nfull: int) -> Iterator[BytesLike]:
        if self._tail:
            yield b"".join((self._tail, content[:room]))
        else:
            yield content[:room]
        for index in range(nfull - 1):
            start = room + index * self._chunk_size
            yield content[start : start + self._chunk_size]

    def _write(self, pieces: Iterator[BytesLike]) -> None:
        """Compress and write full chunks; after an error the appender is broken."""
        try:
            for encoded in map_ordered(self._encode, pieces, self._nthreads):
                self._growth.add(encoded)
        except BaseException:
            self.is_broken = True
            raise
        self._waiting = []

    def _encode(self, content: BytesLike) -> Encoded:
        chunk = encode(content, self._params)
        return Encoded(len(content), chunk, self._checksum.digest(chunk), xxh3_64_digest(chunk))

    def _last(self) -> Encoded | None:
        """Return the last chunk if it is not full, else None."""
        return self._encode(self._tail) if self._tail or not self._growth.nfull else None

    def commit(self, metadata: Any, *, is_changed: bool = False) -> None:
        """Make everything that was appended durable, and also `metadata` if `is_changed`.

        Does nothing without changes.
        """
        self._check_usable()
        if not self._is_dirty and not is_changed:
            return
        if self._waiting:
            self._write(iter(self._waiting))
        try:
            self._growth.commit(self._last(), metadata)
        except BaseException:
            self.is_broken = True
            raise
        self._committed_tail = bytes(self._tail)
        self._is_dirty = False

    def view(self) -> OverlaySource:
        """Return a source for the file including everything that was appended."""
        self._check_usable()
        if self._waiting:
            self._write(iter(self._waiting))
        try:
            return self._growth.view(self._last())
        except BaseException:
            self.is_broken = True
            raise

    def rollback(self) -> None:
        """Discard everything that was appended since the last commit."""
        self._waiting = []
        self._tail = bytearray(self._committed_tail)
        self._growth.rollback()
        self._is_dirty = not self._growth.is_published

    def close(self) -> None:
        """Roll back what was not committed, close the file and release the lock.

        A forked child only closes its copy of the descriptor.
        """
        try:
            if self._growth.is_mine:
                self.rollback()
        finally:
            self._growth.close()

    def _check_usable(self) -> None:
        if self.is_broken:
            raise ValueError(
                "writing has failed before; close the file to restore the state of the last flush"
            )
        self._growth.check_mine()


def _params_of(container: Container) -> CodecParams:
    """Return the compression parameters of the last full chunk of a file, or of its only chunk."""
    is_full = container.last_chunk == container.chunk_size
    index = container.nchunks - 1 if is_full else max(container.nchunks - 2, 0)
    header = container.fetch(index).header
    return params_like(header, is_full or container.nchunks > 1)


def params_like(header: ChunkHeader, is_full: bool) -> CodecParams:
    """Return parameters that produce chunks like this one; the level is the default of the codec.

    A chunk that is not full may consist of one small block, whose size does not suit larger chunks.
    """
    codec = header.codec if header.codec in CODECS else DEFAULT_CODEC
    typesize = max(header.typesize, 1)
    blocksize = header.blocksize if is_full or header.blocksize < header.nbytes else 0
    if header.is_split and codec != "zstd" and typesize <= MAX_SPLITS:
        blocksize //= typesize  # C-Blosc takes the size of one stream
    return CodecParams(codec, default_clevel(codec), header.shuffle, typesize, blocksize)
