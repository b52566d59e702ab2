"""Scan for the records of a file without its index, from header to header and past damage.

A record header holds the size of its record and of the record before it. That these sizes agree
from record to record is the only evidence that bytes are headers. Where they disagree, the scan
searches for the next position at which they agree again, and reports the bytes in between as a gap.
A record whose size does not lead to the next header is not trusted.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...plugin import AnyArray, BytesLike, ByteSource, Holes, IntArray
from ..format.format import (
    DESCRIPTION_TYPE_ID,
    INDEX_TYPE_ID,
    RECORD_HEADER,
    RECORD_HEADER_DTYPE,
    RECORD_HEADER_SIZE,
    RecordHeader,
    header_fault,
)

# Bytes per read while records are small, and while they are large.
_RUN_NBYTES = 1 << 20
_HEADER_RUN_NBYTES = 1 << 12
# Bytes that are searched for a header at a time, doubled until a header is found.
_MIN_SEARCH_NBYTES = 1 << 12
_MAX_SEARCH_NBYTES = 1 << 20
# Most reads that check whether a possible header is followed by another one. Accidental damage
# needs a few; the limit is for files crafted to keep a reader busy.
_MAX_PROBES = 200_000


class Gap(NamedTuple):
    """Bytes between or after records that do not belong to a record."""

    # Byte position and size.
    offset: int
    nbytes: int
    reason: str  # description of the fault at `offset`


class Scan(NamedTuple):
    """Result of a scan."""

    # RECORD_HEADER_DTYPE: headers of the user records and tags records, in file order
    headers: AnyArray
    offsets: IntArray  # int64: byte position of each record
    gaps: list[Gap]  # bytes that do not belong to a record
    # Headers of descriptions and indexes, with their byte positions.
    internal: list[tuple[int, RecordHeader]]
    end: int  # end of the last record, in bytes; 0 without records


def scan_records(source: ByteSource, start: int, *, resync: bool = True) -> Scan:
    """Find the records from `start` on.

    Unless `resync`, the scan stops at damage, and the last record before it is dropped if its size
    does not lead to a header, as in the reference.

    Small records are read in runs of 1 MiB; of large records, little more than the header is read.
    After damage, every byte is searched until a header is found. The time is linear in the size of
    the file.
    """
    scanner = _Scanner(source)
    scanner.scan(start, resync=resync)
    return scanner.result()


class _Scanner:
    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._holes: Holes | None = None
        self._end = source.size()
        self._run: BytesLike = b""
        self._run_start = 0
        self._served = 0
        self._headers = bytearray()
        self._offsets = array("q")
        self._internal: list[tuple[int, RecordHeader]] = []
        self._gaps: list[Gap] = []
        self._probes = _MAX_PROBES
        # Position and size of the last accepted record; -1 without one.
        self._last = -1
        self._last_size = 0

    def result(self) -> Scan:
        end = self._last + self._last_size if self._last >= 0 else 0
        headers = np.frombuffer(bytes(self._headers), RECORD_HEADER_DTYPE)
        offsets = np.frombuffer(self._offsets, np.int64)
        return Scan(headers, offsets, self._gaps, self._internal, end)

    def scan(self, start: int, *, resync: bool) -> None:
        position, fault = self._follow(start)
        while fault is not None:
            if not resync:
                if fault.distrusts_last:
                    position = self._drop_last(position)
                self._gaps.append(Gap(position, self._end - position, fault.reason))
                return
            found = self._find_next(position)
            if found is None:
                if position < self._end:
                    self._gaps.append(Gap(position, self._end - position, fault.reason))
                return
            at, continues_last = found
            if continues_last:
                position = self._drop_last(position)
            if at > position:
                self._gaps.append(Gap(position, at - position, fault.reason))
            position, fault = self._follow(at)

    def _follow(self, position: int) -> tuple[int, "_Fault | None"]:
        """Accept records from `position` on; return the end, and the fault there or None."""
        end, unpack = self._end, RECORD_HEADER.unpack_from
        previous_size: int | None = None
        while position < end:
            run, at = self._header_at(position)
            if len(run) - at < RECORD_HEADER_SIZE:
                left = end - position
                return position, _Fault(f"{left} bytes are less than a record header", False)
            size, previous, type_id, _, _, _, record_type, compression, uncompressed = unpack(
                run, at
            )
            if previous_size is not None and previous != previous_size:
                return position, _Fault(
                    f"its header expects {previous} bytes before it, but that record has"
                    f" {previous_size}",
                    True,
                )
            fault = header_fault(size, previous, type_id, record_type, compression, uncompressed)
            if fault:
                return position, _Fault(fault[1], fault[0] in ("size", "record_type"))
            if size > end - position:
                return position, _Fault(f"only {end - position} of a record's {size} bytes", False)
            if type_id in (INDEX_TYPE_ID, DESCRIPTION_TYPE_ID):
                self._internal.append((position, RecordHeader.unpack(run, at)))
            else:
                self._headers += run[at : at + RECORD_HEADER_SIZE]
                self._offsets.append(position)
            self._last, self._last_size = position, size
            position += size
            previous_size = size
        return position, None

    def _drop_last(self, position: int) -> int:
        """Drop the last accepted record and return the start of the lost bytes."""
        if self._last < 0:
            return position
        position = self._last
        if self._offsets and self._offsets[-1] == position:
            self._offsets.pop()
            del self._headers[-RECORD_HEADER_SIZE:]
        elif self._internal and self._internal[-1][0] == position:
            self._internal.pop()
        self._last = -1
        if self._offsets:
            self._last = self._offsets[-1]
        if self._internal:
            self._last = max(self._last, self._internal[-1][0])
        self._last_size = 0
        if self._last >= 0:
            run, at = self._header_at(self._last)
            self._last_size = RECORD_HEADER.unpack_from(run, at)[0]
        return position

    def _header_at(self, position: int) -> tuple[BytesLike, int]:
        """Return bytes and the position in them of the header at `position`.

        The header is cut short at the end of the file.
        """
        at = position - self._run_start
        if at < 0 or at + RECORD_HEADER_SIZE > len(self._run):
            # The last run served many headers: records are small, so read more at a time.
            nbytes = _RUN_NBYTES if self._served > 8 else _HEADER_RUN_NBYTES
            self._run = self._source.read_at(position, min(nbytes, self._end - position))
            self._run_start, self._served, at = position, 0, 0
        self._served += 1
        return self._run, at

    def _find_next(self, position: int) -> tuple[int, bool] | None:
        """Find the next header after damage at `position`, or return None.

        Returns its byte position, and whether its previous size leads back to the last record,
        whose own size is then wrong.
        """
        last = self._last
        inside = last >= 0 and last + self._last_size == position
        start = last + RECORD_HEADER_SIZE if inside else position
        nbytes = _MIN_SEARCH_NBYTES
        if self._holes is None:
            self._holes = Holes(self._source)
        while self._end - start >= RECORD_HEADER_SIZE:
            # Skip holes of a sparse file, but a header may start with zeros inside the hole.
            start = max(start, self._holes.data_from(start) - RECORD_HEADER_SIZE + 1)
            if self._end - start < RECORD_HEADER_SIZE:
                return None
            data = np.frombuffer(self._source.read_at(start, min(nbytes, self._end - start)), "u1")
            if len(data) < RECORD_HEADER_SIZE:
                return None
            for at, size, previous in _possible_headers(data, start, position, last, self._end):
                if self._probes <= 0:
                    return None
                if at - previous in (last, position) or self._is_followed(at, size):
                    return at, at - previous == last
            start += len(data) - RECORD_HEADER_SIZE + 1
            nbytes = min(2 * nbytes, _MAX_SEARCH_NBYTES)
        return None

    def _is_followed(self, at: int, size: int) -> bool:
        """Return whether the record at `at` is followed by a header with the same size in it."""
        following = at + size
        if following == self._end:
            return True
        self._probes -= 1
        if self._probes < 0 or self._end - following < RECORD_HEADER_SIZE:
            return False
        header = self._source.read_at(following, RECORD_HEADER_SIZE)
        if len(header) < RECORD_HEADER_SIZE:
            return False
        fields = RECORD_HEADER.unpack(header)
        return fields[1] == size and header_fault(*fields[:3], *fields[6:]) is None


class _Fault(NamedTuple):
    """Reason why the chain of records ends."""

    reason: str
    distrusts_last: bool
    """Whether the size of the record before may be wrong."""


def _possible_headers(
    data: AnyArray, start: int, position: int, last: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (offset, size, previous size) of possible headers in `data`, which begins at `start`.

    Their previous size must lead to the record at `last`, or to `position` or later; a header at
    `position` itself may have any.
    """
    nplaces = len(data) - RECORD_HEADER_SIZE + 1
    # A header at every byte, each of which may be the first of one.
    headers = np.ndarray(nplaces, RECORD_HEADER_DTYPE, data, 0, (1,))
    plausible = (headers["record_type"] - np.uint8(1) < 4) & (headers["compression"] <= 2)
    places = np.flatnonzero(plausible)
    sizes = headers["size"][places].astype(np.int64)
    previous = headers["previous_size"][places].astype(np.int64)
    offsets = places + start
    before = offsets - previous
    fits = (before == last) | (before >= position) | (offsets == position)
    fits &= (previous >= RECORD_HEADER_SIZE) | (offsets == position)
    fits &= (sizes >= RECORD_HEADER_SIZE) & (offsets + sizes <= end)
    for place in np.flatnonzero(fits).tolist():
        at = places.item(place)
        fields = headers[at].item()
        if header_fault(*fields[:3], *fields[6:]) is None:
            yield start + at, fields[0], fields[1]
