"""Writing the smallest file of a log: that of version 3 or 4 which `save` writes."""

from itertools import accumulate
from typing import Any

from xxhash import xxh3_64_digest

from ..format.header import OFFSET_SIZE, pack_offsets
from ..format.trailer import pack_trailer
from ..storage import disk
from ..storage.file import FileSource
from ..storage.journal import replacing
from ..storage.protocol import ByteSink
from ..storage.sink import open_sink
from ..types import Path, Progress
from .defaults import spare_entries
from .reader import Container
from .writer import new_section, write_unused


def write_compact(container: Container, sink: ByteSink, progress: Progress | None = None) -> None:
    """Write the file that `save` would have written of a log, with its chunks as stored.

    Each chunk is verified. `progress` is called with (decoded bytes done, decoded bytes in all).
    Raises as `Container.fetch` does.
    """
    table: Any = container.front.table
    count, checksum = container.nchunks, container.header.checksum
    header = container.header._replace(max_app_chunks=spare_entries(count))
    head = header.pack() + (new_section(container.metadata) if header.metadata else b"")
    sizes = (stop - start for start, stop in map(table.entry, range(count)))
    *offsets, end = accumulate(sizes, initial=len(head) + header.table_size)
    sink.write(head)
    sink.write(pack_offsets(offsets))
    write_unused(sink, header.table_size - len(offsets) * OFFSET_SIZE)
    digests = bytearray()
    for index in range(count):
        chunk = container.fetch(index)
        digests += xxh3_64_digest(chunk.data)
        sink.write(chunk.data)
        sink.write(checksum.digest(chunk.data))
        if progress is not None:
            progress(container.chunk_start(index) + chunk.header.nbytes, container.nbytes)
    chunks = container.stored
    statistics = chunks.read_statistics({}) if chunks.has_statistics else b""
    for part in pack_trailer(head, offsets, bytes(digests), end, statistics):
        sink.write(part)


def compact_array(path: Path, *, progress: Progress | None = None) -> None:
    """Replace the file of an array by its smallest form; a file that is not a log is left alone.

    `progress` is that of `write_compact`.

    Raises
    ------
    LockedError
        A writer has it open.
    FormatError, OSError
        It is damaged, or cannot be written. It is unchanged.
    """
    # The lock keeps writers away, but lets the new file replace this one.
    with replacing(disk.target_of(path)), Container.open(FileSource(path)) as container:
        if container.front.commit is not None:
            with open_sink(path) as sink:
                write_compact(container, sink, progress)
