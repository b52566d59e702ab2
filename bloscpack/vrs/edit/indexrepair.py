"""Repair of the index of a recording that is missing, damaged or wrong.

Records are found by their headers. If they follow each other without gaps, the new index is written
in place, behind the last record. Of a recording in several files, the first file, which holds the
index, is replaced. In all other cases the recording is replaced by a copy. All records can be found
in the file at every moment.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Literal

import numpy as np

from ...plugin import (
    FileChangedError,
    FileSink,
    ProgressOption,
    UnsupportedError,
    committed,
    disk,
    refuse_url,
)
from ..format.format import (
    DESCRIPTION_TYPE_ID,
    FILE_HEADER_SIZE,
    INDEX_TYPE_ID,
    RECORD_HEADER_SIZE,
    Compression,
    FileHeader,
    RecordType,
)
from ..format.indexrecord import classic_index, internal_header, pack_split
from ..format.recordindex import (
    INDEX_ENTRY,
    SPLIT_VERSION,
    ZSTD_LEVEL,
    RecordTable,
)
from ..read.filesource import ChunkedSource, open_recording_source
from ..read.openreport import Report
from ..read.recordlist import Listing, find_split_header, scan_listing
from ..recording import Recording, open_quietly
from .copying import copy

# Position in the file header of the offsets of the index, the description and the first record.
_OFFSETS_AT = 8 + 8 + 4 + 4
_OFFSETS = Struct("<qqq")
_DAMAGED = "in several files with damage between its records"


@dataclass(frozen=True, slots=True)
class IndexRepair:
    """Result of `fix_index`.

    Attributes
    ----------
    action : {"none", "in place", "rewritten", "copied"}
        Nothing, as the index was right; written into the file; the file was replaced by a copy; or
        a new file was created.
    nrecords : int
        Records that can be found now.
    notes : tuple of str
        Faults that were found, and losses.
    is_whole : bool
        Whether no record was lost: all bytes that are not records were those of an old index.
    """

    action: str
    nrecords: int
    notes: tuple[str, ...]
    is_whole: bool = True


def fix_index(
    path: Any,
    dst: str | os.PathLike[str] | None = None,
    *,
    progress: ProgressOption = None,
) -> IndexRepair:
    """Rewrite the index of a recording if it is missing, damaged or wrong.

    Parameters
    ----------
    path : str or PathLike
        The recording, which nothing else may be writing; with `dst` also anything `open` opens.
    dst : str or PathLike, optional
        A new file for all records that are found; `path` is then not changed. By default `path` is
        repaired: bytes behind its last whole record are cut off, and if there are damaged bytes
        between records, the file is replaced by a copy without them.
    progress : callable, optional
        Called while a copy is made; see `copy`.

    Returns
    -------
    IndexRepair
        Action, counts and notes.

    Raises
    ------
    FormatError
        It is not a recording, or it has damage of another kind.
    UnsupportedError
        The recording is in several files and damaged between records, has numbered files beside it
        that do not continue it, or is behind a URL: give `dst`.
    FileChangedError
        The file changed during the call; nothing was done.
    FileExistsError
        The file `dst` exists.
    OSError
        A file cannot be read or written.

    Notes
    -----
    All records can be found even if the program ends during the call. An index that is right
    except for records that are themselves damaged is not changed.
    """
    if dst is not None:
        with open_quietly(path, index="rebuild") as recording:
            report = copy(recording, dst, progress=progress)
            notes = tuple(recording.report.lines()[1:])
            is_whole = _is_whole(recording, recording.report)
            return IndexRepair("copied", report.nrecords, notes, is_whole)
    target = os.path.realpath(path)
    with open_quietly(path) as recording, open_recording_source(path) as source:
        header = FileHeader.unpack(source.read_at(0, FILE_HEADER_SIZE))
        nfiles = len(source.parts)
        listing = scan_listing(source, header, resync=True)
        found = recording.report
        is_right = _is_right(recording, listing)
        if not is_right:  # records that an index lists are lost if their headers are damaged
            found = replace(found, gaps=tuple(listing.gaps))
        notes, is_whole = tuple(found.lines()), _is_whole(recording, found)
        if is_right:
            return IndexRepair("none", len(recording), notes, is_whole)
        refuse_url(path, "repaired")
        if len(source.parts) < nfiles:
            # An index would leave these files out for good, though they may only be damaged.
            raise _in_several(source, "with neighbours that do not continue it")
        nrecords = int((listing.entries["record_type"] != RecordType.TAGS).sum())
        if _is_split(source, header):
            _replace_head(target, source, header, listing)
        elif len(source.parts) == 1 and _is_gapless(listing):
            _append_index(target, source, header, listing, recording)
        elif len(source.parts) == 1:
            with open_quietly(path, index="rebuild") as whole:
                place: Literal["front", "end"] = "front" if header.version == "VRS2" else "end"
                copy(whole, target, index=place, overwrite=True, progress=progress)
            return IndexRepair("rewritten", nrecords, notes, is_whole)
        else:
            raise _in_several(source, _DAMAGED)
        return IndexRepair("in place", nrecords, notes, is_whole)


def _is_whole(recording: Recording, report: Report) -> bool:
    """Return whether no record was lost; a truncated or damaged index may have been."""
    index_at = recording._content.header.index_offset
    return not report.nmissing and all(gap.offset == index_at for gap in report.gaps)


def _is_right(recording: Recording, listing: Listing) -> bool:
    """Return whether the index was used and lists every record that can be found."""
    report = recording.report
    if report.index_fault is not None or report.gaps or report.nmissing:
        return False
    found = RecordTable.from_entries(listing.entries, listing.offsets)
    found = found.take(np.flatnonzero(found.record_type != RecordType.TAGS))
    table = recording.table
    if len(found) > len(table):
        return False
    # No two records have the same offset, so the order is unique.
    order = np.argsort(table.offset)
    places = np.searchsorted(table.offset, found.offset, sorter=order)
    rows = order.take(places, mode="clip") if len(order) else order
    return (
        np.array_equal(table.offset[rows], found.offset)
        and np.array_equal(table.size[rows], found.size)
        and np.array_equal(table.record_type[rows], found.record_type)
        and np.array_equal(table.timestamp[rows].view(np.int64), found.timestamp.view(np.int64))
    )


def _is_gapless(listing: Listing) -> bool:
    """Return whether there are records, and each begins at the end of the one before it."""
    ends = listing.offsets + listing.entries["size"]
    return len(ends) > 0 and bool((listing.offsets[1:] == ends[:-1]).all())


def _is_split(source: ChunkedSource, header: FileHeader) -> bool:
    """Return whether the first of several files holds only header, description and index."""
    at = header.index_offset
    if len(source.parts) == 1 or not 0 < at <= source.parts[0].nbytes - RECORD_HEADER_SIZE:
        return False
    return find_split_header(source, header) is not None


def _append_index(
    target: str, source: ChunkedSource, header: FileHeader, listing: Listing, recording: Recording
) -> None:
    """Write an index behind the last record, then its offset into the file header."""
    last_size = int(listing.entries["size"][-1])
    end = int(listing.offsets[-1]) + last_size
    streams = recording.table.streams
    head, payload = classic_index(listing.entries, streams, ZSTD_LEVEL, last_size)
    first = int(listing.offsets[0])
    if not header.first_record_offset and first == _description_end(header, listing):
        first = 0  # says that the records follow the description
    with _opened_to_write(target) as fd:
        if os.fstat(fd).st_size != source.size():
            raise _changed(target)  # a writer has appended records since the scan
        if header.index_offset >= end:
            # The old index is overwritten: until the new one is written, the header has none.
            disk.write_at(fd, _OFFSETS_AT, _pack_offsets(header._replace(index_offset=0)))
            disk.sync(fd)
        disk.write_at(fd, end, head, payload)
        disk.truncate(fd, end + len(head) + len(payload))
        disk.sync(fd)
        new_header = header._replace(index_offset=end, first_record_offset=first)
        disk.write_at(fd, _OFFSETS_AT, _pack_offsets(new_header))
        disk.sync(fd)


@contextmanager
def _opened_to_write(path: str) -> Iterator[int]:
    """Yield the descriptor of an existing file; add its path to errors of the block."""
    with disk.naming(path), disk.closing(os.open(path, os.O_RDWR)) as fd:
        yield fd


def _description_end(header: FileHeader, listing: Listing) -> int | None:
    """Return the end of the description, or None if it is not where the file header says."""
    for offset, found in listing.internal:
        if offset == header.description_offset and found.stream_id[0] == DESCRIPTION_TYPE_ID:
            return offset + found.size
    return None


def _pack_offsets(header: FileHeader) -> bytes:
    return _OFFSETS.pack(header.index_offset, header.description_offset, header.first_record_offset)


def _replace_head(target: str, source: ChunkedSource, header: FileHeader, listing: Listing) -> None:
    """Replace the first file by one with a whole index, and cut off bytes behind the records."""
    first, last = source.parts[1], source.parts[-1]
    if not _is_gapless(listing) or int(listing.offsets[0]) != first.start:
        raise _in_several(source, _DAMAGED)
    end = int(listing.offsets[-1]) + int(listing.entries["size"][-1])
    if end <= last.start:
        raise _in_several(source, _DAMAGED)
    front = bytes(source.read_at(0, header.index_offset))
    entries = np.ascontiguousarray(listing.entries, INDEX_ENTRY)
    payload = pack_split(entries, ZSTD_LEVEL)
    index = internal_header(
        INDEX_TYPE_ID,
        SPLIT_VERSION,
        len(payload),
        header.index_offset - header.description_offset,
        Compression.ZSTD,
        entries.nbytes,
    )
    records_at = len(front) + len(index) + len(payload)
    with committed(FileSink(target)) as sink:
        for part in (front, index, payload):
            sink.write(part)
        sink.write_at(_OFFSETS_AT, _pack_offsets(header._replace(first_record_offset=records_at)))
    # After the new index is in place: the old one may list a record in these bytes.
    if end < last.start + last.nbytes:
        _cut_off(last.source.name, last.nbytes, end - last.start)


def _cut_off(path: str | None, nbytes: int, end: int) -> None:
    """Truncate a file of `nbytes` bytes to `end`."""
    if path is None:
        return
    with _opened_to_write(path) as fd:
        if os.fstat(fd).st_size != nbytes:
            raise _changed(path)
        disk.truncate(fd, end)
        disk.sync(fd)


def _changed(path: str) -> FileChangedError:
    return FileChangedError("the recording changed while it was being checked").at(path=path)


def _in_several(source: ChunkedSource, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"a recording {what} is not repaired in place: name a new file (dst), and list all files of"
        " the recording if some of them were not found"
    ).at(path=source.name)
