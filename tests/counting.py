"""Memory as a source of bytes that keeps account of what is read."""

from bloscpack.storage.memory import MemorySource


class CountingBytes(MemorySource):
    """Memory, and every read of it as (offset, nbytes)."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.reads: list[tuple[int, int]] = []

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        self.reads.append((offset, nbytes))
        return super().read_at(offset, nbytes)
