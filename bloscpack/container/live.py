"""Reading a file while a writer appends to it.

A writer changes the header, the metadata, the next entries of the offset table and everything after
the last full chunk (of a chunk grid, the last full row of the grid). Before it does, it writes a
journal with the old bytes. An open reader sees the content that the file had when it was opened.
Only a last chunk, or row of the grid, that was not full can change in that content: each such
chunk becomes one that begins with the same content and is longer.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, Self

from ..exceptions import BloscpackError
from ..format.codec import ChunkHeader, CodecParams, encode
from ..format.header import Header
from ..storage.protocol import ByteSource
from .chunk import StoredChunk

if TYPE_CHECKING:
    from ..format.chunkgrid import ChunkGrid

# Attempts to read the front of a file while a writer is changing it.
ATTEMPTS = 50


class State(Protocol):
    """State of a file: the part of `Container`, which imports this module, that is used here."""

    source: ByteSource
    follows_writers: bool
    header: Header
    data_offset: int
    nchunks: int
    chunk_size: int
    last_chunk: int
    nbytes: int
    grid: "ChunkGrid | None"

    def chunk_nbytes(self, index: int) -> int:
        """Return the decoded size of a chunk."""

    def reopened(self, source: ByteSource) -> Self:
        """Return the current state of `source`."""

    def fetch(self, index: int) -> StoredChunk:
        """Return a stored chunk."""

    def read_located(self, index: int) -> tuple[int, bytes]:
        """Return the offset and the content of a chunk."""

    def check_end(self) -> None:
        """Check that nothing follows the last chunk."""

    def close(self) -> None:
        """Close the source."""


def extends(later: State, earlier: State) -> bool:
    """Return whether the front of `later` is consistent with a later state of `earlier`."""
    one, two = earlier.header, later.header
    return (
        one[:5] == two[:5]
        and has_longer_chunks(later, earlier)
        and earlier.data_offset == later.data_offset
        and one.nchunks + one.max_app_chunks == two.nchunks + two.max_app_chunks
        and earlier.nbytes <= later.nbytes
    )


def has_longer_chunks(later: State, earlier: State) -> bool:
    """Return whether the division of `later` into chunks continues that of `earlier`."""
    if earlier.grid is None or later.grid is None:
        return earlier.grid is later.grid and earlier.chunk_size == later.chunk_size
    return later.grid.continues(earlier.grid)


def later_states(state: State) -> Iterator[State]:
    """Yield the current state of the file, repeatedly while a writer is changing it."""
    file = state.source
    if not state.follows_writers or not file.is_live:
        return
    for _ in range(ATTEMPTS):
        again = file.duplicate()
        if again is None:
            return
        try:
            later = state.reopened(again)
        except BloscpackError:
            continue  # a busy writer may have changed the front during each attempt to read it
        try:
            if not extends(later, state):
                return
            yield later
            # Unchanged, so a writer is not the reason; unless it rolled back and has begun again.
            is_same = later.header == state.header and later.source.is_live
            if is_same and not later.source.has_unfinished_append():
                return
        finally:
            later.close()


def old_chunk(state: State, index: int) -> StoredChunk | None:
    """Return a chunk as it was when the file was opened; None if it is really damaged.

    The old content is encoded as an uncompressed chunk.
    """
    for later in later_states(state):
        try:
            offset, content = later.read_located(index)
            typesize = later.fetch(index).header.typesize
        except BloscpackError:
            continue
        params = CodecParams("lz4", 0, 0, max(typesize, 1))
        data = encode(content[: state.chunk_nbytes(index)], params)
        return StoredChunk(offset, memoryview(data), ChunkHeader.unpack(data))
    return None


def has_grown(state: State) -> bool:
    """Return whether bytes after the last chunk are there because a writer has appended."""
    for later in later_states(state):
        if later.header != state.header:
            return True
        try:
            later.check_end()
        except BloscpackError:
            continue
        return True
    return False
