"""Small files of known content for these tests, and a source that records its reads."""

from collections.abc import Sequence
from typing import Any

from bloscpack.container.reader import Container
from bloscpack.format.codec import CodecParams, encode
from bloscpack.storage.memory import MemorySource

from ..reference.file import assemble

SIZE, LAST = 1000, 700
CONTENTS = [bytes((7 * n + i * i) % 256 for i in range(SIZE)) for n in range(5)]
CONTENTS[-1] = CONTENTS[-1][:LAST]
CONTENT = b"".join(CONTENTS)


def chunks(contents: Sequence[bytes] = CONTENTS, *, codec: str = "lz4") -> list[bytes]:
    return [encode(content, CodecParams(codec, 5, typesize=4)) for content in contents]


def make(contents: Sequence[bytes] = CONTENTS, **changes: Any) -> bytes:
    """Return a file of these contents; the options make `assemble` introduce errors."""
    return assemble(chunks(contents), **changes)


def open_bytes(data: bytes, **arguments: Any) -> Container:
    return Container.open(MemorySource(data), **arguments)


class NotingSource(MemorySource):
    """Source that records every read, and fails at one of them if requested."""

    def __init__(self, data: bytes, fail_at: int = -1) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []
        self.closed = 0
        self._fail_at = fail_at

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        if len(self.reads) == self._fail_at:
            raise OSError(5, "disk trouble")
        data = super().read_at(offset, nbytes)
        self.reads.append((offset, len(data)))
        return data

    def close(self) -> None:
        self.closed += 1
