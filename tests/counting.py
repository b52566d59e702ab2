"""In-memory byte source that counts reads."""

from bloscpack.storage.memory import MemorySource


class CountingBytes(MemorySource):
    """In-memory source that records every read as (offset, nbytes)."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.reads: list[tuple[int, int]] = []

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        self.reads.append((offset, nbytes))
        return super().read_at(offset, nbytes)
