"""Repairing what holds no data: the trailer and the offset table of a file whose chunks are sound.

A trailer goes behind the last chunk in place, what lies there kept in a rollback journal meanwhile.
A table is repaired in a copy that then replaces the file. Both under the lock of a writer.
"""

import os
from array import array
from pathlib import Path
from typing import Self

from xxhash import xxh3_64_digest

from ..container.chunk import StoredChunk
from ..container.live import extends
from ..container.reader import Container
from ..exceptions import FileChangedError
from ..format.header import OFFSET_SIZE, UNUSED_ENTRY, pack_offsets
from ..format.trailer import DIGEST_SIZE, pack_trailer
from ..storage.update import UpdateFile
from .report import Report

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
        The XXH3 of each. What is not known of a chunk is 0.
    """

    def __init__(self, container: Container, count: int) -> None:
        self.container = container
        self.offsets = array("q", bytes(8 * count))
        self.ends = array("q", bytes(8 * count))
        self.digests = bytearray(DIGEST_SIZE * count)

    def take_over(self, earlier: Self) -> int:
        """Take what is known of an earlier state of the file, and return of how many chunks.

        The last chunk of that state may have been rewritten, those before it never are.
        """
        count = min(earlier.container.nchunks - 1, len(earlier.ends), len(self.ends))
        if count <= 0 or not extends(self.container, earlier.container):
            return 0
        self.offsets[:count] = earlier.offsets[:count]
        self.ends[:count] = earlier.ends[:count]
        self.digests[: DIGEST_SIZE * count] = earlier.digests[: DIGEST_SIZE * count]
        return count - self.ends[:count].count(0)

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


def repair(
    path: Path,
    file: UpdateFile | None,
    before: os.stat_result,
    report: Report,
    layout: Layout | None,
) -> Report:
    """Write offset table and trailer anew where they are damaged or missing.

    Parameters
    ----------
    path : Path
        The file.
    file : UpdateFile or None
        The same, locked; None if it could not be opened for writing.
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
        The file was changed in the meantime, by a program that does not heed locks.
    LockedError
        A writer has it open by now.
    OSError
        It cannot be written; it is as it was.
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
    if file is None:
        file = UpdateFile.open(path)  # tells why it cannot be written
        try:
            return repair(path, file, before, report, layout)
        finally:
            file.close()
    if not _signature(path.stat()) == _signature(file.status()) == _signature(before):
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
        _rewrite(file, layout, head, trailer)
        notices = ["the offset table was written anew", *notices]
    else:
        _write_behind(file, layout, len(head), trailer)
    return Report(
        report.path, report.nchunks, report.nbytes, [], "valid", [*report.notices, *notices]
    )


def _write_behind(file: UpdateFile, layout: Layout, front: int, trailer: list[bytes]) -> None:
    """Put the trailer in the place of all that follows the last chunk."""
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
    """Replace the file by one with another offset table and trailer."""
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
