"""Boxes of ISO base media files (ISO/IEC 14496-12): bounds-checked reading, and writing.

Nothing here does I/O. Functions that walk over boxes get ``read(offset, nbytes)``, request headers
only, and check every size against the end of the parent before using it. Nested boxes are kept in a
list instead of calls, so that no nesting exhausts the stack. Contract: any bytes yield values or a
`FormatError`. All numbers are big-endian; positions are absolute.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...plugin import BytesLike, FormatError, TruncatedError, unpack_fields

HEADER_NBYTES = 4 + 4
LARGE_HEADER_NBYTES = 4 + 4 + 8
FULL_NBYTES = 1 + 3
"""Size of version and flags, which start the payload of a full box."""

MAX_DEPTH = 32
"""Largest nesting of known containers; writers need 6."""

CONTAINERS = frozenset((b"moov", b"trak", b"edts", b"mdia", b"minf", b"dinf", b"stbl"))
"""Boxes that contain only boxes. ``udta`` is left out because QuickTime ends it with a zero."""

Read = Callable[[int, int], BytesLike]
"""Function that returns exactly `nbytes` from `offset`, or raises `TruncatedError`."""

_T = TypeVar("_T")
_NHELD = 8
# Sibling boxes to read one by one before reading in blocks.
_FEW = 16
_BLOCK_NBYTES = 1 << 16

_SIZE_AND_KIND = Struct(">I4s")
_LARGE_SIZE = Struct(">Q")
_FULL = Struct(">I")


class BoxHeader(NamedTuple):
    """Place of a box."""

    kind: bytes
    """Four bytes of any value."""
    offset: int
    header_nbytes: int
    nbytes: int
    """Size including the header."""

    @property
    def payload_offset(self) -> int:
        """Offset of the payload."""
        return self.offset + self.header_nbytes

    @property
    def end(self) -> int:
        """Offset of the next box."""
        return self.offset + self.nbytes


class Window:
    """A `Read` that combines small reads into fewer, larger ones, of `nbytes`.

    It holds the last few of them: box headers that are needed together have large tables between
    them that are not. A larger request is read alone and not held.
    """

    def __init__(self, read_at: Callable[[int, int], BytesLike], nbytes: int = 8192) -> None:
        self._read_at = read_at
        self._nbytes = nbytes
        # Start and bytes of each read, latest first.
        self._held: list[tuple[int, memoryview]] = []

    def __call__(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`; a view of a held read."""
        for start, held in self._held:
            at = offset - start
            if 0 <= at <= len(held) - nbytes:
                return held[at : at + nbytes]
        found = memoryview(self._read_at(offset, max(nbytes, self._nbytes)))
        if len(found) < nbytes:
            raise TruncatedError(
                f"{nbytes} bytes needed at offset {offset}, found {len(found)}", offset=offset
            )
        if nbytes <= self._nbytes:
            self._held = [(offset, found), *self._held[: _NHELD - 1]]
        return found[:nbytes]


def reader_of(data: BytesLike) -> Read:
    """Return a `Read` over bytes in memory."""

    def read(offset: int, nbytes: int) -> BytesLike:
        if offset + nbytes > len(view):
            raise TruncatedError(
                f"{nbytes} bytes needed at offset {offset}, found {max(len(view) - offset, 0)}",
                offset=offset,
            )
        return view[offset : offset + nbytes]

    view = memoryview(data)
    return read


def name_of(kind: bytes) -> str:
    """Return the four bytes of a box type as text for a message."""
    return kind.decode("ascii", "backslashreplace")


def unpack_header(
    view: BytesLike, at: int, offset: int, end: int, *, to_end: bool = False
) -> BoxHeader:
    """Unpack the header of a box and check its size against its parent.

    `view` has 16 bytes at position `at`, or fewer if `end` of the parent comes first; the box
    starts at `offset`. `to_end` allows a size of 0, "up to `end`", which is valid for outermost
    boxes only.
    """
    if len(view) - at < HEADER_NBYTES:
        raise _cut(offset, len(view) - at, HEADER_NBYTES)
    nbytes, kind = _SIZE_AND_KIND.unpack_from(view, at)
    header_nbytes = HEADER_NBYTES
    if nbytes == 1:
        header_nbytes = LARGE_HEADER_NBYTES
        if len(view) - at < header_nbytes:
            raise _cut(offset, len(view) - at, header_nbytes)
        (nbytes,) = _LARGE_SIZE.unpack_from(view, at + HEADER_NBYTES)
    elif nbytes == 0 and to_end:
        nbytes = end - offset
    if nbytes < header_nbytes:
        raise FormatError(
            f"box {name_of(kind)!r} at offset {offset}: size {nbytes} is less than the "
            f"{header_nbytes} bytes of its header",
            offset=offset,
        )
    if nbytes > end - offset:
        raise FormatError(
            f"box {name_of(kind)!r} at offset {offset}: size {nbytes} exceeds the "
            f"{end - offset} bytes left",
            offset=offset,
        )
    return BoxHeader(kind, offset, header_nbytes, nbytes)


def _cut(offset: int, found: int, needed: int) -> TruncatedError:
    message = f"box header at offset {offset}: found {found} of {needed} bytes"
    return TruncatedError(message, offset=offset)


def pack_box(kind: bytes, *parts: bytes) -> bytes:
    """Return a box with a payload of `parts`; its size takes 64 bits only if necessary."""
    nbytes = HEADER_NBYTES + sum(map(len, parts))
    if nbytes < 2**32:
        return b"".join((_SIZE_AND_KIND.pack(nbytes, kind), *parts))
    nbytes += LARGE_HEADER_NBYTES - HEADER_NBYTES
    return b"".join((_SIZE_AND_KIND.pack(1, kind), _LARGE_SIZE.pack(nbytes), *parts))


def pack_large_header(kind: bytes, nbytes: int) -> bytes:
    """Return the header of a box of `nbytes` bytes (header included), with a 64-bit size."""
    return _SIZE_AND_KIND.pack(1, kind) + _LARGE_SIZE.pack(nbytes)


def children(
    read: Read,
    start: int,
    end: int,
    kinds: Container[bytes] | None = None,
    *,
    to_end: bool = False,
) -> Iterator[BoxHeader]:
    """Yield the boxes that fill the range from `start` to `end`, without their children.

    Boxes of other types than `kinds`, if given, are only checked. `kinds` is looked at for each
    box, so the caller may change it on the way. `to_end` allows a size of 0.
    """
    # Read headers one by one, as large tables may lie between them. After the first few, if they
    # are close together, read blocks: 8 MB may contain a million boxes.
    block, base, nboxes = memoryview(b""), start, 0
    while start < end:
        at = start - base
        if at > len(block) - LARGE_HEADER_NBYTES and base + len(block) < end:
            is_close = nboxes >= _FEW and at < 2 * len(block)
            wanted = _BLOCK_NBYTES if is_close else LARGE_HEADER_NBYTES
            block = memoryview(read(start, min(wanted, end - start)))
            base, at = start, 0
        nbytes, kind = 0, b""
        if len(block) - at >= HEADER_NBYTES:
            nbytes, kind = _SIZE_AND_KIND.unpack_from(block, at)
        if not HEADER_NBYTES <= nbytes <= end - start:
            header = unpack_header(block, at, start, end, to_end=to_end)
            nbytes, kind = header.nbytes, header.kind
            if kinds is None or kind in kinds:
                yield header
        elif kinds is None or kind in kinds:
            yield BoxHeader(kind, start, HEADER_NBYTES, nbytes)
        start += nbytes
        nboxes += 1


def walk(
    read: Read,
    start: int,
    end: int,
    *,
    kinds: frozenset[bytes] | None = None,
    to_end: bool = False,
) -> Iterator[tuple[tuple[bytes, ...], BoxHeader]]:
    """Yield all boxes from `start` to `end` in file order, each after the types of its parents.

    The walk descends into `CONTAINERS`; of other types than `kinds`, if given, boxes are skipped.
    `to_end` allows a size of 0 at the outermost level. FormatError if containers are nested deeper
    than `MAX_DEPTH`.
    """
    path: tuple[bytes, ...] = ()
    levels = [children(read, start, end, kinds, to_end=to_end)]
    while levels:
        header = next(levels[-1], None)
        if header is None:
            levels.pop()
            path = path[:-1]
            continue
        yield path, header
        if header.kind not in CONTAINERS:
            continue
        if len(path) == MAX_DEPTH:
            raise FormatError(
                f"box {name_of(header.kind)!r} at offset {header.offset}: nested in more than "
                f"{MAX_DEPTH} containers",
                offset=header.offset,
            )
        if header.nbytes > header.header_nbytes:
            path = (*path, header.kind)
            levels.append(children(read, header.payload_offset, header.end, kinds))


def check_boxes(read: Read, start: int, end: int) -> None:
    """Check all boxes from `start` to `end`, and those in containers."""
    for _ in walk(read, start, end, kinds=CONTAINERS):
        pass


def find_boxes(read: Read, start: int, end: int, *kinds: bytes) -> dict[bytes, BoxHeader]:
    """Check all boxes from `start` to `end`; return the first one of each requested type."""
    found: dict[bytes, BoxHeader] = {}
    if start == end:
        return found
    missing = set(kinds)
    for header in children(read, start, end, missing):
        found[header.kind] = header
        missing.discard(header.kind)
    return found


def read_box(
    read: Read, header: BoxHeader, unpack: Callable[[BytesLike], _T], limit: int, skip: int = 0
) -> _T:
    """Unpack a payload without its first `skip` bytes; read at most `limit` bytes after them."""
    nbytes = header.nbytes - header.header_nbytes
    try:
        return unpack(read(header.payload_offset, min(nbytes, skip + limit))[skip:])
    except FormatError as err:
        err.offset = header.offset
        err.at(f"box {name_of(header.kind)!r} at offset {header.offset}")
        raise


@dataclass(frozen=True, slots=True)
class Table:
    """Place and type of the numbers in a table."""

    offset: int
    count: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size of the numbers in bytes."""
        return self.count * self.dtype.itemsize


UINT32 = np.dtype(">u4")
UINT64 = np.dtype(">u8")
CHUNK_RUN = np.dtype([("first", ">u4"), ("samples", ">u4"), ("entry", ">u4")])
"""A run of ``stsc``: its first chunk, counted from 1, and the samples per chunk up to the next."""
TIME_RUN = np.dtype([("count", ">u4"), ("duration", ">u4")])
"""A run of ``stts``."""


def unpack_full(payload: BytesLike, what: str) -> tuple[int, int]:
    """Unpack version and flags."""
    (word,) = unpack_fields(_FULL, payload, 0, what)
    return word >> 24, word & 0xFFFFFF


def unpack_count(payload: BytesLike) -> int:
    """Unpack a 32-bit number."""
    (count,) = unpack_fields(_FULL, payload, 0, "a number")
    return int(count)


def pack_full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    """Return a box with a payload that starts with version and flags."""
    return pack_box(kind, _FULL.pack(version << 24 | flags), *parts)


def unpack_table(read: Read, header: BoxHeader, dtype: np.dtype[Any], skip: int = 0) -> Table:
    """Return the place of a full box's table, after checking its count against the box.

    `skip` bytes are between the flags and the count.
    """
    count = read_box(read, header, unpack_count, 4, FULL_NBYTES + skip)
    table = Table(header.payload_offset + FULL_NBYTES + skip + 4, count, dtype)
    room = header.end - table.offset
    if table.nbytes > room:
        raise FormatError(
            f"box {name_of(header.kind)!r} at offset {header.offset}: {count} entries of "
            f"{dtype.itemsize} bytes exceed the {room} bytes left in it",
            offset=header.offset,
            field=name_of(header.kind),
        )
    return table
