"""Repairing what holds no data: the trailer and the offset table of a file whose chunks are sound.

A trailer goes behind the last chunk in place: until it is whole, the file is one without a trailer.
A table is repaired in a copy that then replaces the file.
"""

import os
from array import array
from pathlib import Path

from xxhash import xxh3_64_digest

from .container.format import OFFSET_SIZE, UNUSED_ENTRY, pack_offsets
from .container.reader import Container, StoredChunk
from .container.trailer import DIGEST_SIZE, pack_trailer
from .exceptions import FileChangedError
from .report import Report
from .storage.file import open_sink

_BLOCK_NBYTES = 1 << 20
# The oldest format version whose files have a trailer.
_FIRST_VERSION = 3


class Layout:
    """Where the chunks of a file were found, and their digests.

    Attributes
    ----------
    offsets, ends : array of int
        Where each chunk starts, and where it ends with its digest.
    digests : bytearray
        The XXH3 of each.
    """

    def __init__(self, container: Container, count: int) -> None:
        self.container = container
        self.offsets = array("q", bytes(8 * count))
        self.ends = array("q", bytes(8 * count))
        self.digests = bytearray(DIGEST_SIZE * count)

    def note(self, index: int, stored: StoredChunk) -> None:
        """Take note of a chunk; safe from many threads."""
        self.offsets[index] = stored.offset
        row = self.container.header.checksum
        self.ends[index] = stored.offset + len(stored.data) + row.nbytes
        self.digests[DIGEST_SIZE * index : DIGEST_SIZE * (index + 1)] = xxh3_64_digest(stored.data)

    @property
    def end(self) -> int:
        """The end of the last chunk."""
        return self.ends[-1] if self.ends else self.container.data_offset


def repair(path: Path, before: os.stat_result, report: Report, layout: Layout | None) -> Report:
    """Write offset table and trailer anew where they are damaged or missing.

    Parameters
    ----------
    path : Path
        The file.
    before : os.stat_result
        Its status before it was checked.
    report : Report
        What was found.
    layout : Layout or None
        Where the chunks are; None if data or metadata are damaged.

    Returns
    -------
    Report
        What is still damaged, and in `notices` what was done.

    Raises
    ------
    FileChangedError
        The file was changed in the meantime.
    """
    if report.ok and report.trailer == "valid":
        return report
    if layout is None:
        why = "nothing was fixed: data are damaged; recover makes a new file of what is whole"
        report.notices.append(why)
        return report
    container = layout.container
    if container.header.format_version < _FIRST_VERSION or container.header.nchunks < 1:
        report.notices.append(
            f"nothing was fixed: a file of version {container.header.format_version} with nchunks "
            f"{container.header.nchunks} has no trailer"
        )
        return report
    if _signature(path.stat()) != _signature(before):
        error = FileChangedError("the file was changed while it was checked; nothing was fixed")
        error.path = os.fspath(path)
        raise error
    size = container.header.size
    size += container.metadata_header.section_size if container.metadata_header else 0
    head = bytes(container.source.read_at(0, size))
    offsets = layout.offsets if container.header.offsets else ()
    trailer = list(pack_trailer(head, offsets, bytes(layout.digests), layout.end))
    notices = [f"the trailer was written anew at offset {layout.end}; it was {report.trailer}"]
    is_table_damaged = any(
        one.offset is not None and size <= one.offset < container.data_offset
        for one in report.damage
    )
    if is_table_damaged:
        _rewrite(path, layout, head, trailer)
        notices = ["the offset table was written anew", *notices]
    else:
        _write_behind(path, layout.end, trailer)
    return Report(
        report.path, report.nchunks, report.nbytes, [], "valid", [*report.notices, *notices]
    )


def _write_behind(path: Path, end: int, trailer: list[bytes]) -> None:
    with path.open("r+b") as file:
        file.seek(end)
        file.write(b"".join(trailer))
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _rewrite(path: Path, layout: Layout, head: bytes, trailer: list[bytes]) -> None:
    container = layout.container
    spare = OFFSET_SIZE * container.header.max_app_chunks
    with open_sink(path) as sink:
        sink.write(head + pack_offsets(layout.offsets))
        for start in range(0, spare, _BLOCK_NBYTES):
            sink.write(UNUSED_ENTRY * (min(_BLOCK_NBYTES, spare - start) // OFFSET_SIZE))
        for start in range(container.data_offset, layout.end, _BLOCK_NBYTES):
            count = min(_BLOCK_NBYTES, layout.end - start)
            sink.write(container.source.read_at(start, count))
        for part in trailer:
            sink.write(part)


def _signature(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
