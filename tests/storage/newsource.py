"""Storages that the package does not know, for tests: a plain one, and one behind a network."""

from collections.abc import Iterable

from bloscpack.storage.protocol import ByteSource, Extent, Prefetch


class PlainSource(ByteSource):
    """Storage with only the two methods that every storage must have."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, offset: int, nbytes: int) -> bytes:
        return self._data[offset : offset + nbytes]


class DistantSource(PlainSource):
    """Storage whose reads wait, and that can be reopened in another process.

    Attributes
    ----------
    prefetched : list of tuple of int
        Extents that a reader has announced.
    """

    name = "distant://data.bin"
    has_latency = True

    def __init__(self, data: bytes, version: str = "one") -> None:
        super().__init__(data)
        self._version = version
        self.prefetched: list[Extent] = []

    def prefetch(self, extents: Iterable[Extent]) -> Prefetch:
        self.prefetched += extents
        return super().prefetch([])

    def place(self, head_nbytes: int = 0) -> "DistantSource":
        return DistantSource(self._data, self._version)

    def identity(self) -> str:
        return self._version
