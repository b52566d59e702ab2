"""Repair of the trailer and the offset table of a file whose chunks are sound.

A trailer is written in place behind the last chunk, with the bytes that were there in a rollback
journal. A table is repaired in a copy that replaces the file. Both hold the lock of a writer.
"""

import os
from array import array
from pathlib import Path
from typing import Self

from xxhash import xxh3_64_digest

from ..container.chunk import StoredChunk
from ..container.reader import Container
from ..exceptions import FileChangedError
from ..format.header import OFFSET_SIZE, UNUSED_ENTRY, pack_offsets
from ..format.trailer import DIGEST_SIZE, STATISTICS_SIZE, pack_trailer
from ..storage.update import UpdateFile
from .report import Report

_BLOCK_NBYTES = 1 << 20
# The oldest format version that has a trailer.
_FIRST_VERSION = 3


class Layout:
    """Positions of the chunks of a file, and their digests.

    Attributes
    ----------
    offsets, ends : array of int
        Start of each chunk, and its end behind the checksum.
    digests : bytearray
        XXH3 of each chunk; zeros for a chunk not checked yet.
    statistics : bytearray
        Statistics of each chunk; empty if the file has none.
    """

    def __init__(self, container: Container, count: int, *, has_statistics: bool = False) -> None:
        self.container = container
        self.offsets = array("q", bytes(8 * count))
        self.ends = array("q", bytes(8 * count))
        self.digests = bytearray(DIGEST_SIZE * count)
        self.statistics = bytearray(STATISTICS_SIZE * count if has_statistics else 0)

    def take_over(self, earlier: Self) -> int:
        """Copy the chunks of an earlier state of the file; return their number.

        Appending may rewrite the last chunk of that state (of a grid, its last row), but none
        before it.
        """
        container = earlier.container
        count = min(
            container.front.nstable, container.nchunks - 1, len(earlier.ends), len(self.ends)
        )
        is_continued = container.front.is_continued(self.container.front)
        if count <= 0 or not is_continued or bool(earlier.statistics) != bool(self.statistics):
            return 0
        self.offsets[:count] = earlier.offsets[:count]
        self.ends[:count] = earlier.ends[:count]
        self.digests[: DIGEST_SIZE * count] = earlier.digests[: DIGEST_SIZE * count]
        if self.statistics:
            size = STATISTICS_SIZE * count
            self.statistics[:size] = earlier.statistics[:size]
        return count - self.ends[:count].count(0)  # chunks that were damaged are looked at again

    def note(self, index: int, stored: StoredChunk, statistics: bytes) -> None:
        """Record the position, digest and statistics of a chunk; safe from many threads."""
        self.offsets[index] = stored.offset
        row = self.container.header.checksum
        self.ends[index] = stored.offset + len(stored.data) + row.nbytes
        self.digests[DIGEST_SIZE * index : DIGEST_SIZE * (index + 1)] = xxh3_64_digest(stored.data)
        if statistics:
            size = STATISTICS_SIZE
            self.statistics[size * index : size * (index + 1)] = statistics

    @property
    def end(self) -> int:
        """End of the last chunk."""
        return self.ends[-1] if self.ends else self.container.data_offset


def repair(
    path: Path,
    file: UpdateFile | None,
    before: os.stat_result,
    report: Report,
    layout: Layout | None,
) -> Report:
    """Rewrite the offset table and the trailer if they are damaged or missing.

    `file` is open and locked; None if it could not be opened for writing. `before` is the status of
    the file before it was verified with the result `report`; `layout` has the positions of the
    chunks, and is None if data or metadata are damaged. Returns the damage that is left, with
    `notices` of the repairs.

    FileChangedError if a program that ignores locks has changed the file since it was verified;
    LockedError if a writer has opened it since.
    """
    is_log = layout is not None and layout.container.front.commit is not None
    if report.ok and (report.trailer == "valid" or is_log):
        return report
    layout = None if is_log else layout
    if layout is None:
        why = "nothing was fixed: data are damaged; recover writes a new file of the whole chunks"
        report.notices.append(why)
        return report
    container = layout.container
    if container.header.format_version < _FIRST_VERSION or container.header.nchunks < 1:
        report.notices.append(
            f"nothing was fixed: a file of version {container.header.format_version} with nchunks "
            f"{container.header.nchunks} has no trailer"
        )
        return report
    if file is None:
        file = UpdateFile.open(path)  # raises the reason why the file cannot be written
        try:
            return repair(path, file, before, report, layout)
        finally:
            file.close()
    if not _signature(path.stat()) == _signature(file.status()) == _signature(before):
        raise FileChangedError("the file was changed while it was verified; nothing was fixed").at(
            path=path
        )
    size = container.front.table_offset
    head = bytes(container.source.read_at(0, size))
    offsets = layout.offsets if container.header.offsets else ()
    digests, statistics = bytes(layout.digests), bytes(layout.statistics)
    trailer = list(pack_trailer(head, offsets, digests, layout.end, statistics))
    notices = [f"the trailer was rewritten at offset {layout.end}; it was {report.trailer}"]
    is_table_damaged = any(
        one.offset is not None and size <= one.offset < container.data_offset
        for one in report.damage
    )
    if is_table_damaged:
        _rewrite(file, layout, head, trailer)
        notices = ["the offset table was rewritten", *notices]
    else:
        _write_behind(file, layout, len(head), trailer)
    return Report(
        report.path, report.nchunks, report.nbytes, [], "valid", [*report.notices, *notices]
    )


def _write_behind(file: UpdateFile, layout: Layout, front: int, trailer: list[bytes]) -> None:
    """Replace all bytes behind the last chunk by the trailer."""
    start, old_size = layout.end, file.size()
    extents = [(0, front)]
    if old_size > start:
        extents.append((start, old_size - start))
    file.begin(layout.container.data_offset, extents)
    try:
        file.write_at(start, *trailer)
        size = start + sum(map(len, trailer))
        if old_size > size:
            file.truncate(size)
        file.end()
    except BaseException:
        file.undo()
        raise


def _rewrite(file: UpdateFile, layout: Layout, head: bytes, trailer: list[bytes]) -> None:
    """Replace the file by a copy with another offset table and trailer."""
    container = layout.container
    new = UpdateFile.create(file.path, file.name or file.path)
    try:
        new.write_at(0, head, pack_offsets(layout.offsets))
        position = len(head) + OFFSET_SIZE * len(layout.offsets)
        for start in range(position, container.data_offset, _BLOCK_NBYTES):
            count = min(_BLOCK_NBYTES, container.data_offset - start) // OFFSET_SIZE
            new.write_at(start, UNUSED_ENTRY * count)
        start = container.data_offset
        new.copy_from(file, start, start, layout.end - start)
        new.write_at(layout.end, *trailer)
        new.sync()
        new.publish(file.path, file)
    finally:
        new.close()


def _signature(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
