"""Reads of some blocks of a chunk: sizes from the chunk are compared with the file."""

import struct

import pytest

from bloscpack.container.blocks import read_blocks_into, read_head
from bloscpack.exceptions import TruncatedError
from bloscpack.storage.memory import MemorySource
from bloscpack.types import BytesLike

NBYTES = 1 << 30


class Counted(MemorySource):
    """Source that records the size of its largest read."""

    largest = 0

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        self.largest = max(self.largest, nbytes)
        return super().read_at(offset, nbytes)


def chunk(blocksize: int, *starts: int) -> BytesLike:
    """Return the beginning of a chunk of Zstandard that claims nearly 4 GiB."""
    head = struct.pack("<BBBBIII", 2, 1, 4 << 5 | 0x10, 1, NBYTES, blocksize, 2**32 - 1)
    return head + struct.pack(f"<{len(starts)}I", *starts) + bytes(10_000)


def test_a_head_that_is_longer_than_the_file() -> None:
    source = Counted(chunk(1))
    with pytest.raises(TruncatedError, match="of 4294967295 bytes"):
        read_head(source, 0, NBYTES)
    assert source.largest < 1 << 20


def test_blocks_that_are_beyond_the_file() -> None:
    source = Counted(chunk(NBYTES // 2, 24, 2**32 - 100))
    head = 0, read_head(source, 0, NBYTES)
    assert not read_blocks_into(source, head, 0, bytearray(10))
    assert not read_blocks_into(source, head, NBYTES - 10, bytearray(10))
    assert source.largest < 1 << 20
