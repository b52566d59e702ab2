"""Reading a file that a writer appends to meanwhile.

A writer changes the header, the metadata, the next entries of the offset table, and what lies
behind the last full chunk; before it does, it leaves a journal with the bytes it will overwrite. An
open reader keeps to what the file held when it was opened: of that only a last chunk that was not
full can change, to one that starts alike and holds more.
"""

from collections.abc import Iterator
from typing import Protocol, Self

from ..exceptions import BloscpackError
from ..format.codec import ChunkHeader, CodecParams, encode
from ..format.header import Header
from ..storage.file import FileSource
from ..storage.protocol import ByteSource
from .chunk import StoredChunk

# How often the front of a file is read anew that a writer changes meanwhile.
ATTEMPTS = 50


class State(Protocol):
    """One state of a file: what is needed here of a `Container`, which imports this module."""

    source: ByteSource
    follows_writers: bool
    header: Header
    data_offset: int
    nchunks: int
    chunk_size: int
    last_chunk: int
    nbytes: int

    def reopened(self, source: ByteSource) -> Self:
        """Return the state that `source` is in now."""
        ...

    def fetch(self, index: int) -> StoredChunk:
        """Return a chunk as it is stored."""
        ...

    def read_located(self, index: int) -> tuple[int, bytes]:
        """Return offset and content of a chunk."""
        ...

    def check_end(self) -> None:
        """Check that no more chunks follow."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


def extends(later: State, earlier: State) -> bool:
    """Return whether `later` may be a later state of the file of `earlier`: the front agrees."""
    one, two = earlier.header, later.header
    return (
        one[:5] == two[:5]
        and earlier.chunk_size == later.chunk_size
        and earlier.data_offset == later.data_offset
        and one.nchunks + one.max_app_chunks == two.nchunks + two.max_app_chunks
        and earlier.nbytes <= later.nbytes
    )


def later_states(state: State) -> Iterator[State]:
    """Yield the file as it is now, if a writer has it grown or is at it; a few times."""
    file = state.source
    if not state.follows_writers or not isinstance(file, FileSource):
        return
    for _ in range(ATTEMPTS):
        try:
            later = state.reopened(file.duplicate())
        except BloscpackError:
            return
        try:
            if not extends(later, state):
                return
            yield later
            if later.header == state.header and isinstance(later.source, FileSource):
                return
        finally:
            later.close()


def old_last_chunk(state: State) -> StoredChunk | None:
    """Return the last chunk as it was when the file was opened, None if it is only damaged.

    What it held is made a chunk that is not compressed.
    """
    last = state.nchunks - 1
    for later in later_states(state):
        try:
            offset, content = later.read_located(last)
            typesize = later.fetch(last).header.typesize
        except BloscpackError:
            continue
        params = CodecParams("lz4", 0, 0, max(typesize, 1))
        data = encode(content[: state.last_chunk], params)
        return StoredChunk(offset, memoryview(data), ChunkHeader.unpack(data))
    return None


def has_grown(state: State) -> bool:
    """Return whether it is a writer's doing that the file goes on behind the last chunk."""
    for later in later_states(state):
        if later.header != state.header:
            return True
        try:
            later.check_end()
        except BloscpackError:
            continue
        return True
    return False
