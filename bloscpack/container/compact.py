"""Writing the smallest file of a log: that of version 3 or 4 which `save` writes."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from xxhash import xxh3_64_digest

from ..format.header import UNUSED_ENTRY, pack_offsets
from ..format.trailer import pack_trailer
from ..storage import disk
from ..storage.file import FileSource
from ..storage.journal import replacing
from ..storage.protocol import ByteSink
from ..storage.sink import open_sink
from ..types import BytesLike, Path, Progress
from .reader import Container
from .writer import SPARE_PER_CHUNK, new_section


def compact_parts(container: Container) -> Iterator[BytesLike]:
    """Yield the file that `save` would have written of a log, with its chunks as stored.

    Each chunk is verified. Raises as `Container.fetch` does.
    """
    table: Any = container.front.table
    count, checksum = container.nchunks, container.header.checksum
    header = container.header._replace(max_app_chunks=SPARE_PER_CHUNK * count)
    metadata = container.front.metadata_header and container.metadata
    head = header.pack() + (new_section(metadata) if header.metadata else b"")
    sizes = (stop - start for start, stop in map(table.entry, range(count)))
    *offsets, end = accumulate(sizes, initial=len(head) + header.table_size)
    yield head
    yield pack_offsets(offsets)
    yield UNUSED_ENTRY * header.max_app_chunks
    digests = bytearray()
    for index in range(count):
        data = container.fetch(index).data
        digests += xxh3_64_digest(data)
        yield data
        yield checksum.digest(data)
    yield from pack_trailer(head, offsets, bytes(digests), end)


def compact_array(path: Path, *, progress: Progress | None = None) -> None:
    """Replace the file of an array by its smallest form; a file that is not a log is left alone.

    `progress` is called with (stored bytes done, stored bytes in all).

    Raises
    ------
    LockedError
        A writer has it open.
    FormatError, OSError
        It is damaged, or cannot be written. It is unchanged.
    """
    # The lock keeps writers away, but lets the new file replace this one.
    with replacing(disk.target_of(path)), Container.open(FileSource(path)) as container:
        commit = container.front.commit
        if commit is None:
            return
        with open_sink(path) as sink:
            _write(sink, container, progress or _ignore, commit.live)


def _write(sink: ByteSink, container: Container, progress: Progress, total: int) -> None:
    done = 0
    for part in compact_parts(container):
        sink.write(part)
        done += len(part)
        progress(done, max(done, total))


def _ignore(done: int, total: int) -> None:
    """Report no progress."""
