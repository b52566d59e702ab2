"""Boxes of ISO base media files (ISO/IEC 14496-12), read within their bounds, and written.

Nothing here reads by itself: what walks over boxes is given ``read(offset, nbytes)``, asks for
headers only and compares every size with the end of the parent before it believes it. Depth is a
list, never a call, so that no nesting exhausts the stack. Contract: any bytes give values or a
`FormatError`. All numbers are big-endian; positions are absolute.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...exceptions import FormatError, TruncatedError
from ...format.bytefield import unpack_fields
from ...types import BytesLike

HEADER_NBYTES = 4 + 4
LARGE_HEADER_NBYTES = 4 + 4 + 8
FULL_NBYTES = 1 + 3
"""Version and flags, with which the payload of a full box begins."""

MAX_DEPTH = 32
"""How deep known containers may lie in each other; writers need 6."""

CONTAINERS = frozenset((b"moov", b"trak", b"edts", b"mdia", b"minf", b"dinf", b"stbl"))
"""Boxes that hold boxes and nothing else. ``udta`` is none: QuickTime ends it with a zero."""

Read = Callable[[int, int], BytesLike]
"""Returns exactly so many bytes from an offset, or raises `TruncatedError`."""

_T = TypeVar("_T")
_NHELD = 8
# Boxes beside each other that are read one by one, before they are read in blocks.
_FEW = 16
_BLOCK_NBYTES = 1 << 16

_SIZE_AND_KIND = Struct(">I4s")
_LARGE_SIZE = Struct(">Q")
_FULL = Struct(">I")


class BoxHeader(NamedTuple):
    """Where a box lies."""

    kind: bytes
    """Four bytes, of any value."""
    offset: int
    header_nbytes: int
    nbytes: int
    """Size with the header."""

    @property
    def payload_offset(self) -> int:
        """Where the payload begins."""
        return self.offset + self.header_nbytes

    @property
    def end(self) -> int:
        """Where the next box begins."""
        return self.offset + self.nbytes


class Window:
    """A `Read` for small reads close to each other, made of fewer and larger ones.

    The last few of these are held: tables that are skipped lie between headers that are wanted
    together.

    Parameters
    ----------
    read_at : callable
        Positional read, such as `ByteSource.read_at`; may return less at the end.
    nbytes : int
        Size of a read. What is larger is read alone, and not held.
    """

    def __init__(self, read_at: Callable[[int, int], BytesLike], nbytes: int = 8192) -> None:
        self._read_at = read_at
        self._nbytes = nbytes
        # Where each begins, the last one first.
        self._held: list[tuple[int, memoryview]] = []

    def __call__(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`; a view of what is held."""
        for start, held in self._held:
            at = offset - start
            if 0 <= at <= len(held) - nbytes:
                return held[at : at + nbytes]
        found = memoryview(self._read_at(offset, max(nbytes, self._nbytes)))
        if len(found) < nbytes:
            raise TruncatedError(
                f"{nbytes} bytes wanted at offset {offset}, {len(found)} are there", offset=offset
            )
        if nbytes <= self._nbytes:
            self._held = [(offset, found), *self._held[: _NHELD - 1]]
        return found[:nbytes]


def reader_of(data: BytesLike) -> Read:
    """Return a `Read` of bytes in memory."""

    def read(offset: int, nbytes: int) -> BytesLike:
        if offset + nbytes > len(view):
            raise TruncatedError(
                f"{nbytes} bytes wanted at offset {offset}, {max(len(view) - offset, 0)} are there",
                offset=offset,
            )
        return view[offset : offset + nbytes]

    view = memoryview(data)
    return read


def name_of(kind: bytes) -> str:
    """Return the four bytes of a kind as text for a message."""
    return kind.decode("ascii", "backslashreplace")


def unpack_header(
    view: BytesLike, at: int, offset: int, end: int, *, to_end: bool = False
) -> BoxHeader:
    """Unpack the header of a box and compare its size with its surroundings.

    Parameters
    ----------
    view : bytes
        Holds the header at position `at`: 16 bytes, or fewer if `end` comes first.
    offset, end : int
        Where the box begins and where its parent ends.
    to_end : bool
        Whether a size of 0 means "up to `end`", as it does only for boxes in no other box.

    Raises
    ------
    FormatError
        The size is less than the header's, or the box is longer than its parent.
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
            f"box {name_of(kind)!r} at offset {offset}: its size of {nbytes} is less than the "
            f"{header_nbytes} bytes of its header",
            offset=offset,
        )
    if nbytes > end - offset:
        raise FormatError(
            f"box {name_of(kind)!r} at offset {offset}: its size of {nbytes} exceeds the "
            f"{end - offset} bytes left there",
            offset=offset,
        )
    return BoxHeader(kind, offset, header_nbytes, nbytes)


def _cut(offset: int, found: int, needed: int) -> TruncatedError:
    message = f"the header of a box at offset {offset}: {found} of its {needed} bytes are there"
    return TruncatedError(message, offset=offset)


def pack_box(kind: bytes, *parts: bytes) -> bytes:
    """Return a box with a payload of `parts`; its size takes 64 bits only if it needs them."""
    nbytes = HEADER_NBYTES + sum(map(len, parts))
    if nbytes < 2**32:
        return b"".join((_SIZE_AND_KIND.pack(nbytes, kind), *parts))
    nbytes += LARGE_HEADER_NBYTES - HEADER_NBYTES
    return b"".join((_SIZE_AND_KIND.pack(1, kind), _LARGE_SIZE.pack(nbytes), *parts))


def pack_large_header(kind: bytes, nbytes: int) -> bytes:
    """Return the header of a box of `nbytes` bytes with it, its size in 64 bits."""
    return _SIZE_AND_KIND.pack(1, kind) + _LARGE_SIZE.pack(nbytes)


def children(
    read: Read,
    start: int,
    end: int,
    kinds: Container[bytes] | None = None,
    *,
    to_end: bool = False,
) -> Iterator[BoxHeader]:
    """Yield the boxes that lie from `start` to `end`, which they fill, without their children.

    Parameters
    ----------
    kinds : container of bytes, optional
        Yield only these. It is looked at for each box anew, and may change meanwhile.
    to_end : bool
        Whether a size of 0 is allowed.

    Raises
    ------
    FormatError
        A box, of any kind, does not fit.
    """
    # Headers are read one by one, as tables of any size lie between them; where there are many, and
    # close to each other, in blocks: there may be a million in 8 MB.
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
    containers: frozenset[bytes] = CONTAINERS,
    *,
    kinds: frozenset[bytes] | None = None,
    to_end: bool = False,
) -> Iterator[tuple[tuple[bytes, ...], BoxHeader]]:
    """Yield all boxes from `start` to `end` in the order of the file, each with its path.

    Parameters
    ----------
    containers : frozenset of bytes
        Kinds whose payload is boxes; others are not looked into.
    kinds : frozenset of bytes, optional
        Yield, and look into, only these.
    to_end : bool
        Whether a size of 0 is allowed at the outermost level.

    Yields
    ------
    path : tuple of bytes
        Kinds of the boxes around it, outermost first.
    header : BoxHeader
        The box.

    Raises
    ------
    FormatError
        A box does not fit its parent, or containers lie deeper than `MAX_DEPTH`.
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
        if header.kind not in containers:
            continue
        if len(path) == MAX_DEPTH:
            raise FormatError(
                f"box {name_of(header.kind)!r} at offset {header.offset}: more than "
                f"{MAX_DEPTH} containers lie in each other",
                offset=header.offset,
            )
        if header.nbytes > header.header_nbytes:
            path = (*path, header.kind)
            levels.append(children(read, header.payload_offset, header.end, kinds))


def check_boxes(read: Read, start: int, end: int) -> None:
    """Go through all boxes from `start` to `end`, and those in containers.

    Raises
    ------
    FormatError
        A box does not fit its parent, or containers lie deeper than `MAX_DEPTH`.
    """
    for _ in walk(read, start, end, kinds=CONTAINERS):
        pass


def first_of(read: Read, start: int, end: int, *kinds: bytes) -> dict[bytes, BoxHeader]:
    """Go through all boxes from `start` to `end`, and return the first of each kind asked for."""
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
    """Return what `unpack` makes of a payload without its first `skip` bytes, `limit` at most."""
    nbytes = header.nbytes - header.header_nbytes
    try:
        return unpack(read(header.payload_offset, min(nbytes, skip + limit))[skip:])
    except FormatError as err:
        message = f"box {name_of(header.kind)!r} at offset {header.offset}: {err}"
        raise type(err)(message, offset=header.offset, field=err.field) from err


@dataclass(frozen=True, slots=True)
class Table:
    """Where the numbers of a table lie."""

    offset: int
    count: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size of the numbers."""
        return self.count * self.dtype.itemsize


UINT32 = np.dtype(">u4")
UINT64 = np.dtype(">u8")
CHUNK_RUN = np.dtype([("first", ">u4"), ("samples", ">u4"), ("entry", ">u4")])
"""A run of ``stsc``: the first chunk, counted from 1, and what all up to the next run hold."""
TIME_RUN = np.dtype([("count", ">u4"), ("duration", ">u4")])
"""A run of ``stts``."""


def unpack_full(payload: BytesLike, what: str) -> tuple[int, int]:
    """Unpack (version, flags)."""
    (word,) = unpack_fields(_FULL, payload, 0, what)
    return word >> 24, word & 0xFFFFFF


def unpack_count(payload: BytesLike) -> int:
    """Unpack a number of 32 bits."""
    (count,) = unpack_fields(_FULL, payload, 0, "a number")
    return int(count)


def pack_full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    """Return a box whose payload begins with version and flags."""
    return pack_box(kind, _FULL.pack(version << 24 | flags), *parts)


def unpack_table(read: Read, header: BoxHeader, dtype: np.dtype[Any], skip: int = 0) -> Table:
    """Return where the table of a full box lies, its count checked against the box.

    Parameters
    ----------
    skip : int
        Bytes between the flags and the count.
    """
    count = read_box(read, header, unpack_count, 4, FULL_NBYTES + skip)
    table = Table(header.payload_offset + FULL_NBYTES + skip + 4, count, dtype)
    room = header.end - table.offset
    if table.nbytes > room:
        raise FormatError(
            f"box {name_of(header.kind)!r} at offset {header.offset}: {count} entries of "
            f"{dtype.itemsize} bytes exceed the {room} bytes it has for them",
            offset=header.offset,
            field=name_of(header.kind),
        )
    return table
