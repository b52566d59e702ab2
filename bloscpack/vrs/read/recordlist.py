"""List of the records of a file, from its index if that is valid, else from a scan.

An index has no checksum, and a wrong index hides records. It is therefore compared with the file
where that is cheap: the records must end where an index after them begins, the first and the last
record must be where the index puts them, and no record may follow the last one. The other entries
are compared when their records are read.
"""

import struct
from typing import NamedTuple

import numpy as np

from ...plugin import REMOTE, AnyArray, FormatError, IntArray
from ..format.format import (
    DESCRIPTION_TYPE_ID,
    INDEX_TYPE_ID,
    RECORD_HEADER_SIZE,
    Compression,
    FileHeader,
    RecordHeader,
    StreamId,
)
from ..format.recordindex import INDEX_ENTRY, SPLIT_VERSION, unpack_index
from .filesource import ChunkedSource
from .scan import Gap, Scan, scan_records

# Bytes before an index that are fetched with it; most last records are smaller.
_LAST_RECORD_NBYTES = 1 << 16


class Listing(NamedTuple):
    """Records of a file, in file order."""

    entries: AnyArray  # INDEX_ENTRY: records that are complete in the file
    offsets: IntArray  # int64: byte position of each record
    stream_ids: list[StreamId]  # streams that the index names
    # Kind of index, such as ``"classic end"``, ``"classic zstd front"`` or ``"split"``; or
    # ``"scanned"``.
    kind: str
    gaps: list[Gap]  # bytes that do not belong to a record
    nmissing: int = 0  # number of index entries that lie beyond the end of the file
    # Descriptions and indexes that a scan found, with their byte positions.
    internal: list[tuple[int, RecordHeader]] = []  # noqa: RUF012


def read_listing(source: ChunkedSource, header: FileHeader, first: int) -> Listing:
    """Return the records that the index lists, compared with the file.

    Numbered neighbours that do not hold what the index lists are dropped from `source`. `first` is
    the byte position of the first record if the header does not give it.
    """
    at = header.index_offset
    if at == 0:
        raise FormatError("it is missing: the file was not closed", field="index_offset")
    _prefetch_index(source, at)
    found = read_internal_header(source, at, INDEX_TYPE_ID, "index")
    is_split = found.format_version == SPLIT_VERSION
    content_at = at + RECORD_HEADER_SIZE
    content_end = at + found.size
    if is_split and found.size == RECORD_HEADER_SIZE:
        content_end = source.parts[0].nbytes
    payload = source.read_at(content_at, content_end - content_at)
    if len(payload) < content_end - content_at:
        raise FormatError(f"found {len(payload)} of its {content_end - content_at} bytes")
    content = unpack_index(found, payload, nbytes_present=source.size())
    if is_split:
        first = header.first_record_offset
    if not content.is_complete or first <= 0:
        raise FormatError("it ends before the records do: the file was not closed")
    place = "" if is_split else " front" if at < first else " end"
    zstd = " zstd" if found.compression == Compression.ZSTD else ""
    kind = f"{'split' if is_split else 'classic'}{zstd}{place}"
    if first > source.size():
        raise FormatError(f"records begin at byte {first}, but the file has {source.size()} bytes")
    ends = np.cumsum(content.entries["size"], dtype=np.int64) + first
    index_end = at + found.size
    _drop_strangers(source, content.entries, ends, index_end)
    nwhole = int(np.searchsorted(ends, source.size(), side="right"))
    listing = Listing(
        content.entries[:nwhole],
        (ends - content.entries["size"])[:nwhole],
        content.stream_ids,
        kind,
        [],
        len(ends) - nwhole,
    )
    end = int(ends[nwhole - 1]) if nwhole else first
    _check_ends(source, listing)
    if at >= first:
        if end != at or listing.nmissing:
            raise FormatError(f"its records end at byte {end}, but it begins at byte {at}")
        end = index_end
    else:
        _check_nothing_follows(source, content.entries, end, nwhole)
    if source.size() > end:
        reason = "the rest of a record" if listing.nmissing else "bytes after the last record"
        listing.gaps.append(Gap(end, source.size() - end, reason))
    return listing


def is_split_and_closed(source: ChunkedSource, header: FileHeader) -> bool:
    """Return whether a file has a complete split index, whose records are in other files."""
    found = find_split_header(source, header)
    return found is not None and found.size > RECORD_HEADER_SIZE


def find_split_header(source: ChunkedSource, header: FileHeader) -> RecordHeader | None:
    """Return the header of a split index, or None if the file has none."""
    try:
        found = read_internal_header(source, header.index_offset, INDEX_TYPE_ID, "index")
    except FormatError:
        return None
    return found if found.format_version == SPLIT_VERSION else None


def _prefetch_index(source: ChunkedSource, at: int) -> None:
    """Fetch an index at the end of a remote file and the last record before it in one request."""
    start = max(at - _LAST_RECORD_NBYTES, 0)
    if source.has_latency and at > 0 and source.size() - start <= REMOTE.max_nbytes:
        source.read_at(start, source.size() - start)


def read_internal_header(
    source: ChunkedSource, offset: int, type_id: int, what: str
) -> RecordHeader:
    """Return the header of a description or an index record."""
    if not 0 < offset <= source.size() - RECORD_HEADER_SIZE:
        raise FormatError(
            f"its offset {offset} is outside the file of {source.size()} bytes", offset=offset
        )
    header = RecordHeader.unpack(source.read_at(offset, RECORD_HEADER_SIZE))
    header.check(offset)
    if type_id == DESCRIPTION_TYPE_ID and header.size > source.size() - offset:
        raise FormatError(f"found {source.size() - offset} of its {header.size} bytes")
    if header.stream_id[0] != type_id:
        raise FormatError(
            f"expected the {what} at byte {offset}, found another record", offset=offset
        )
    return header


def entry_fault(entry: AnyArray, header: RecordHeader) -> str | None:
    """Return the first field in which an index entry and its record's header differ, or None."""
    stream_id = StreamId.from_stored(int(entry["type_id"]), int(entry["instance_id"]))
    pairs = (
        ("size", int(entry["size"]), header.size),
        ("type", int(entry["record_type"]), header.record_type),
        ("stream", stream_id, header.stream_id),
        # Compared as bytes, so that NaN equals itself; adding 0.0 turns -0.0 into 0.0.
        (
            "time",
            struct.pack("<d", float(entry["timestamp"]) + 0.0),
            struct.pack("<d", header.timestamp + 0.0),
        ),
    )
    for name, listed, there in pairs:
        if listed != there:
            return name
    return None


def _drop_strangers(
    source: ChunkedSource, entries: AnyArray, ends: IntArray, index_end: int
) -> None:
    """Drop the first neighbour that contradicts the index, and all neighbours after it.

    The first record that should begin in a neighbour is compared. If no record begins in it, it may
    only hold the rest of the last record.
    """
    if source.is_explicit:
        return
    for number, part in enumerate(source.parts[1:], 1):
        index = int(np.searchsorted(ends - entries["size"], part.start))
        if index < len(ends):
            offset = int(ends[index]) - int(entries["size"][index])
            is_stranger = _fault_at(source, offset, entries[index]) is not None
        else:
            stop = part.start + part.nbytes
            is_stranger = index_end <= part.start and ends[-1:].tolist() != [stop]
        if is_stranger:
            source.keep(number)
            return


def _fault_at(source: ChunkedSource, offset: int, entry: AnyArray) -> str | None:
    """Return the field in which the header at `offset` differs; None if equal or past the end."""
    stored = source.read_at(offset, RECORD_HEADER_SIZE)
    if len(stored) < RECORD_HEADER_SIZE:
        return None
    return entry_fault(entry, RecordHeader.unpack(stored))


def _check_ends(source: ChunkedSource, listing: Listing) -> None:
    """Raise if the first or the last entry contradicts the file."""
    count = len(listing.entries)
    for index in {0, count - 1} if count else ():
        offset = int(listing.offsets[index])
        fault = _fault_at(source, offset, listing.entries[index])
        if fault:
            raise FormatError(
                f"entry {index} contradicts the record at byte {offset}: its {fault} differs",
                offset=offset,
                field=fault,
            )


def _check_nothing_follows(source: ChunkedSource, entries: AnyArray, end: int, nwhole: int) -> None:
    """Raise if a record that the index does not list begins at `end`, after `nwhole` others."""
    stored = source.read_at(end, RECORD_HEADER_SIZE)
    if len(stored) < RECORD_HEADER_SIZE:
        return
    header = RecordHeader.unpack(stored)
    if nwhole < len(entries):
        fault = entry_fault(entries[nwhole], header)
        if fault:
            raise FormatError(
                f"entry {nwhole} contradicts the record at byte {end}: its {fault} differs"
            )
    elif nwhole and header.previous_size == int(entries[-1]["size"]) and _is_user_record(header):
        raise FormatError(f"its records end at byte {end}, but another record begins there")


def _is_user_record(header: RecordHeader) -> bool:
    is_internal = header.stream_id[0] in (INDEX_TYPE_ID, DESCRIPTION_TYPE_ID)
    return not is_internal and header.fault() is None


def scan_listing(source: ChunkedSource, header: FileHeader, *, resync: bool) -> Listing:
    """Return the records that a scan finds.

    Numbered neighbours that do not continue the records before them are dropped from `source`.
    """
    start = _records_start(source, header)
    while True:
        scan = scan_records(source, start, resync=resync)
        strangers = None if source.is_explicit else _find_stranger(source, scan)
        if strangers is None:
            break
        source.keep(strangers)  # and scan again: the last record may have led into these files
    entries = np.empty(len(scan.headers), INDEX_ENTRY)
    for name in INDEX_ENTRY.names or ():
        entries[name] = scan.headers[name]
    return Listing(entries, scan.offsets, [], "scanned", scan.gaps, 0, scan.internal)


def _records_start(source: ChunkedSource, header: FileHeader) -> int:
    """Return the start of a scan: the end of the file header, or the start of the second file.

    The latter if the first file ends with a split index whose size was never set.
    """
    found = find_split_header(source, header) if len(source.parts) > 1 else None
    is_open = found is not None and found.size == RECORD_HEADER_SIZE
    if is_open and header.index_offset < source.parts[0].nbytes:
        return source.parts[1].start
    return header.file_header_size


def _find_stranger(source: ChunkedSource, scan: Scan) -> int | None:
    """Return the number of the first part that does not continue the one before it, or None."""
    internal = np.array([offset for offset, _ in scan.internal], np.int64)
    offsets = np.sort(np.concatenate([scan.offsets, internal]))
    for number, part in enumerate(source.parts[1:], 1):
        index = int(np.searchsorted(offsets, part.start))
        if index == len(offsets):
            if scan.end == part.start or not _has_rest(source, scan, int(offsets[-1:].sum())):
                return number
        elif index:
            before = _header_at(source, int(offsets[index - 1]))
            after = _header_at(source, int(offsets[index]))
            sizes = {before.size}
            if before.stream_id[0] == INDEX_TYPE_ID:
                sizes.add(RECORD_HEADER_SIZE)  # the index was still empty at that time
            if (
                after.previous_size not in sizes
                or offsets[index - 1] + before.size != offsets[index]
            ):
                return number
        elif (
            part.start != offsets[0]
            or _header_at(source, part.start).previous_size != RECORD_HEADER_SIZE
        ):
            return number
    return None


def _has_rest(source: ChunkedSource, scan: Scan, last: int) -> bool:
    """Return whether the source ends with the last record, at `last`, or a truncated next one."""
    left = source.size() - scan.end
    if left < RECORD_HEADER_SIZE or not scan.end:
        return not left
    following = _header_at(source, scan.end)
    is_next = following.previous_size == _header_at(source, last).size
    return is_next and following.fault() is None and following.size > left


def _header_at(source: ChunkedSource, offset: int) -> RecordHeader:
    return RecordHeader.unpack(source.read_at(offset, RECORD_HEADER_SIZE))
