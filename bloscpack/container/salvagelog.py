"""Search for the intact chunks of a damaged log, in the last version that leads to an array."""

from contextlib import suppress

from xxhash import xxh3_64_digest

from ..exceptions import BloscpackError, FormatError
from ..format.codec import decode
from ..format.log import COMMIT_SIZE, DATA_OFFSET, Row, unpack_copies
from ..storage.memory import MemorySource
from ..storage.overlay import OverlaySource, Patch
from ..storage.protocol import ByteSource
from .chunk import StoredChunk
from .foundfront import FoundFront
from .front import Front
from .logreader import commits_of, extents_of, front_of, known_commits, read_node
from .reader import Container
from .salvage import FoundChunk, Salvage


class LogSalvage(Salvage):
    """Intact chunks of an array of a log."""

    def __init__(self, source: ByteSource, front: Front) -> None:
        self.chunk_size, self.last_chunk = front.chunk_size, front.last_chunk
        self.nchunks, self.grid = front.nchunks, front.grid
        self.chunks: dict[int, FoundChunk] = {}
        self.unplaced: list[FoundChunk] = []
        self.gave_up = False
        container = Container(front, source)
        for index in range(front.nchunks):
            with suppress(BloscpackError):
                self.chunks[index] = _decoded(container.fetch(index))


def _decoded(stored: StoredChunk) -> FoundChunk:
    """Return a chunk that can be decoded; CodecError or FormatError if it cannot."""
    decode(stored.data, stored.header.nbytes)
    digest = xxh3_64_digest(stored.data)
    return FoundChunk(stored.offset, len(stored.data), stored.header.nbytes, digest)


def with_copies(source: ByteSource) -> tuple[OverlaySource, list[tuple[str, int, int]]]:
    """Return a source that reads damaged pages and groups of the last commit from their copies.

    Also return a description, the start and the stop of each.
    """
    found = OverlaySource(source, (), source.size())
    faults: list[tuple[str, int, int]] = []
    for commit in commits_of(source).commits[:1]:
        nbytes = max(min(commit.start, source.size()) - DATA_OFFSET, 0)
        copies = unpack_copies(source.read_at(DATA_OFFSET, nbytes))
        with suppress(BloscpackError):  # what has no copy is missed by those who need it
            for row in extents_of(found, commit, chunks=False):
                faults += _restored(found, row, copies.get(row.digest))
    return found, faults


def _restored(found: OverlaySource, row: Row, copy: bytes | None) -> list[tuple[str, int, int]]:
    """Let a source read an extent from its copy if it is damaged, and return the damage."""
    if copy is None or found.read_at(row.offset, row.nbytes) == copy:
        return []
    found.add(Patch(row.offset, row.nbytes, MemorySource(copy)))
    return [("log: a page or a group is damaged", row.offset, row.end)]


def find_log(source: ByteSource) -> tuple[FoundFront, LogSalvage]:
    """Return the front and the intact chunks of the last version whose front is intact.

    Raises
    ------
    FormatError
        There is none.
    """
    damaged = commits_of(source).damaged
    source, restored = with_copies(source)
    faults = [(f"{what}; restored from its copy", at, end) for what, at, end in restored]
    faults += [("log: a slot is damaged", at, at + COMMIT_SIZE) for at in sorted(damaged)]
    last = None if source.node is None else source.node[0]
    error: BloscpackError = FormatError("log: no commit is intact, so nothing can be recovered")
    for commit in known_commits(source):
        if last is not None and commit > last:
            continue
        try:
            front = front_of(source, commit, read_node(source, commit))
        except BloscpackError as err:
            what = f"commit {commit.sequence} is lost: {err.args[0]}"
            faults.append((what, commit.groups.root.offset, commit.groups.root.end))
            error = err
            continue
        stored = front.table.node.front  # type: ignore[attr-defined]
        section = stored[front.header.size : front.table_offset]
        has_statistics: bool = front.table.statistics is not None  # type: ignore[attr-defined]
        result = FoundFront(
            front.header,
            front.metadata_header,
            section,
            faults=faults,
            is_measured=has_statistics,
        )
        return result, LogSalvage(source, front)
    raise error
