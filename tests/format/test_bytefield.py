"""Fixed-width fields from untrusted bytes."""

from struct import Struct

import pytest

from bloscpack.exceptions import TruncatedError
from bloscpack.format.bytefield import unpack_fields

LAYOUT = Struct("<4sBH")
DATA = b"abcd\x05\x34\x12"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_fields_are_little_endian(kind: type[bytes]) -> None:
    assert unpack_fields(LAYOUT, kind(DATA), 0, "thing") == (b"abcd", 5, 0x1234)


def test_position_and_trailing_bytes() -> None:
    assert unpack_fields(LAYOUT, b"??" + DATA + b"rest", 2, "thing") == (b"abcd", 5, 0x1234)


@pytest.mark.parametrize("length", range(len(DATA)))
def test_every_proper_prefix_is_truncated(length: int) -> None:
    with pytest.raises(TruncatedError, match=f"thing: found {length} of 7 bytes") as caught:
        unpack_fields(LAYOUT, b"??" + DATA[:length], 2, "thing")
    assert caught.value.offset == 2


def test_position_behind_the_end_is_truncated() -> None:
    with pytest.raises(TruncatedError, match="thing: found 0 of 7"):
        unpack_fields(LAYOUT, DATA, 100, "thing")
