"""Part of a file, read as a file of its own: a member of an archive."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..types import AnyArray, BytesLike, IntArray
from .protocol import ByteSource, Extent, Prefetch

# Bytes that are fetched when a window on a remote file is opened: small neighbours come with it.
HEAD_NBYTES = 1 << 16


@dataclass(frozen=True)
class PartPlace:
    """Description that opens a part of a file in another process.

    Attributes
    ----------
    place : object
        Place of the whole file.
    name : str
        Name of the part.
    """

    place: Any
    name: str

    def open(self, whole: ByteSource) -> ByteSource:
        """Return a source for the part, which owns that of the whole file."""
        raise NotImplementedError


@dataclass(frozen=True)
class WindowPlace(PartPlace):
    """Description that opens a window.

    Attributes
    ----------
    extent : (int, int)
        Its offset and size in the file.
    head : bytes
        Its first bytes, if they need not be fetched again.
    """

    extent: Extent
    head: bytes

    def open(self, whole: ByteSource) -> "WindowSource":
        """Return the window."""
        return WindowSource(whole, self.name, self.extent, self.head, owns=True)


class WindowSource(ByteSource):
    """Source for a part of another source, `extent` (offset, nbytes).

    `head` are its first bytes, if they are known. If it `owns` the other source, it closes that
    too.
    """

    def __init__(
        self,
        whole: ByteSource,
        name: str,
        extent: Extent,
        head: BytesLike = b"",
        *,
        owns: bool = False,
    ) -> None:
        self.name: str | None = name
        self.has_latency = whole.has_latency
        self.whole: ByteSource = whole
        self._offset, self._size = extent
        self.origin = None if whole.origin is None else whole.origin + self._offset
        if any(whole.stamp):
            self.stamp = self._size, whole.stamp[1]
        self._head = head
        self._owns = owns

    def size(self) -> int:
        """Return the size of the part in bytes."""
        return self._size

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return the bytes as the whole source does."""
        nbytes = min(nbytes, self._size - offset)
        if nbytes <= 0:
            return b""
        if self.has_latency and offset + nbytes <= HEAD_NBYTES:
            self.keep_head(offset + nbytes)
        if offset + nbytes <= len(self._head):
            return memoryview(self._head)[offset : offset + nbytes]
        return self.whole.read_at(self._offset + offset, nbytes)

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`; return the bytes read."""
        nbytes = max(min(len(view), self._size - offset), 0)
        return self.whole.read_into(self._offset + offset, view[:nbytes]) if nbytes else 0

    def map_at(self, offset: int, nbytes: int) -> memoryview | None:
        """Return a view as the whole source does."""
        nbytes = max(min(nbytes, self._size - offset), 0)
        return self.whole.map_at(self._offset + offset, nbytes)

    def copy_cached(self, starts: IntArray, nbytes: int, out: memoryview | AnyArray) -> int:
        """Copy bytes as the whole source does."""
        inside = (starts >= 0) & (starts <= self._size - nbytes)
        if not inside.all():
            return 0
        return self.whole.copy_cached(starts + self._offset, nbytes, out)

    def prefetch(self, extents: Iterable[Extent]) -> Prefetch:
        """Start to fetch `extents`."""
        return self.whole.prefetch(
            (self._offset + offset, min(nbytes, self._size - offset)) for offset, nbytes in extents
        )

    def keep_head(self, nbytes: int) -> None:
        """Fetch the first `nbytes`, at least 64 KiB, and cache them."""
        if self.has_latency and min(nbytes, self._size) > len(self._head):
            wanted = max(nbytes, HEAD_NBYTES)
            if self.whole.holds(self._offset, min(wanted, self._size)):
                wanted = min(wanted, self._size)
            # Otherwise the answer has small neighbours too, and the whole source remembers it.
            self._head = bytes(self.whole.read_at(self._offset, wanted)[: self._size])

    def holds(self, offset: int, nbytes: int) -> bool:
        """Return whether an extent can be read without waiting."""
        nbytes = min(nbytes, self._size - offset)
        return offset + nbytes <= len(self._head) or self.whole.holds(self._offset + offset, nbytes)

    def place(self, head_nbytes: int = 0) -> Any:
        """Return what opens the part in another process: of a source in memory, its bytes."""
        place = self.whole.place()
        if isinstance(place, bytes):
            return place[self._offset : self._offset + self._size]
        if place is None:
            return None
        head = bytes(self._head[:head_nbytes])
        return WindowPlace(place, str(self.name), (self._offset, self._size), head)

    def identity(self) -> str:
        """Return the version of the whole source and the place of the part."""
        version = self.whole.identity()
        return f"{version} {self._offset} {self._size}" if version else ""

    def data_runs(self, most: int) -> list[tuple[int, int]] | None:
        """Return the runs of data of the whole source that are in the part."""
        runs = self.whole.data_runs(most)
        if runs is None:
            return None
        end = self._offset + self._size
        return [
            (max(start, self._offset) - self._offset, min(stop, end) - self._offset)
            for start, stop in runs
            if start < end and stop > self._offset
        ]

    def close(self) -> None:
        """Close the whole source if it belongs to this one; idempotent."""
        if self._owns:
            self.whole.close()
