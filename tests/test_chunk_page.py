"""docs/formats/blosc-chunk.md: the dump matches the chunk; the decoder reads every kind."""

import itertools
import struct
from typing import Any

import numpy as np
import pytest

from bloscpack.format import codec

from .pages import DOCS, dump_of, page_fixture
from .reference.chunk_decoder import decode_chunk, unpack_header, unshuffle_bits, unshuffle_bytes
from .reference.refused import RefusedError
from .reference.streams import decode_blosclz, decode_lz4, decode_snappy

PAGE = DOCS / "formats" / "blosc-chunk.md"
RNG = np.random.default_rng(7)
# Compressible bytes, incompressible bytes, and items that differ in their lower bytes.
CONTENTS = {
    "ramp": (np.arange(20_000) // 7).astype("<u4").tobytes(),
    "noise": RNG.integers(0, 256, 40_000).astype("u1").tobytes(),
    "few": RNG.integers(0, 3, 80_000).astype("u1").tobytes(),
}

page = page_fixture(PAGE)


def test_dump_of_the_page_is_the_chunk(page: dict[str, Any]) -> None:
    assert dump_of(PAGE).hex(" ") == page["chunk"].hex(" ")


def test_decoder_of_the_page_refuses_damage(page: dict[str, Any]) -> None:
    chunk = page["chunk"]
    for end in range(len(chunk)):
        with pytest.raises((ValueError, IndexError)):
            page["decode"](chunk[:end])


@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("name", codec.CODECS)
def test_reference_decoder_reads_every_chunk_that_we_write(name: str, shuffle: int) -> None:
    sizes = (0, 1, 7, 127, 129, 2047, 4096, 5003)
    for typesize, size, blocksize in itertools.product((1, 2, 8, 16, 17, 255), sizes, (0, 512)):
        data = CONTENTS["ramp"][:size]
        chunk = codec.encode(data, codec.CodecParams(name, 5, shuffle, typesize, blocksize))
        assert decode_chunk(chunk) == data
    for data in CONTENTS.values():
        for typesize in (4, 5):
            chunk = codec.encode(data, codec.CodecParams(name, 5, shuffle, typesize))
            assert decode_chunk(chunk) == data


def test_split_blocks_and_a_short_last_one_are_read() -> None:
    """C-Blosc makes split blocks of 64 KiB and more."""
    data = (np.arange(150_001) // 5).astype("<u2").tobytes()
    chunk = codec.encode(data, codec.CodecParams("lz4", 1, typesize=2))
    head = unpack_header(chunk)
    assert not head.flags & 0x10
    assert len(data) > head.blocksize
    assert len(data) % head.blocksize
    assert decode_chunk(chunk) == data


def test_blocks_may_lie_in_any_order() -> None:
    data = bytes(range(256)) * 6
    chunk = bytearray(codec.encode(data, codec.CodecParams("zstd", 3, 0, 1, 512)))
    starts = np.frombuffer(bytes(chunk[16:28]), "<u4").tolist()
    ends = [*starts[1:], len(chunk)]
    parts = [bytes(chunk[a:b]) for a, b in zip(starts, ends, strict=True)]
    swapped, at, places = b"", 28, {}
    for number in (2, 0, 1):
        places[number] = at + len(swapped)
        swapped += parts[number]
    table = np.array([places[number] for number in range(3)], "<u4").tobytes()
    moved = bytes(chunk[:16]) + table + swapped
    out = bytearray(len(data))
    codec.decode_into(moved, out)
    assert decode_chunk(moved) == bytes(out) == data


def test_known_streams() -> None:
    """Streams written by hand, from the page."""
    assert decode_lz4(bytes.fromhex("1f 00 01 00 2c 50 01 02 03 04 05".replace(" ", "")), 69) == (
        bytes(64) + bytes([1, 2, 3, 4, 5])
    )
    # The highest three bits of the first byte are ignored.
    assert decode_blosclz(bytes([0x22, 1, 2, 3, 0x20 | 0, 2, 0, 9]), 7) == bytes(
        [1, 2, 3, 1, 2, 3, 9]
    )
    assert decode_snappy(bytes([6, 2 << 2, 1, 2, 3, (2 << 2) | 2, 3, 0]), 6) == bytes([1, 2, 3] * 2)


def test_far_matches_of_blosclz_are_read() -> None:
    """A distance above 8191 takes two more bytes; C-Blosc reads the same."""
    block = RNG.integers(0, 256, 32 * 300).astype("u1").tobytes()
    literals = b"".join(b"\x1f" + block[at : at + 32] for at in range(0, len(block), 32))
    far = len(block) - 8192 - 5
    matches = bytes([0x3F, 255, far >> 8, far & 255, 0xFF, 255, 1, 255, 0, 7])
    stream = literals + matches + bytes([1, 9, 9])
    data = bytearray(block)
    for distance, count in ((len(block) - 5, 3), (8192 + 7, 7 + 255 + 1 + 2)):
        for _ in range(count):
            data.append(data[-distance])
    data += bytes([9, 9])
    sizes = struct.pack("<III", len(data), len(data), 24 + len(stream))
    starts = struct.pack("<II", 20, len(stream))
    chunk = bytes([2, 1, 0x10, 1]) + sizes + starts + stream
    out = bytearray(len(data))
    codec.decode_into(chunk, out)
    assert decode_chunk(chunk) == bytes(out) == bytes(data)


def test_leftovers_of_the_shuffles() -> None:
    assert unshuffle_bytes(b"acebdfz", 2) == b"abcdefz"
    assert unshuffle_bytes(b"ab", 3) == b"ab"
    # Seven items: no bit is moved.
    assert unshuffle_bits(b"abcdefg", 1) == b"abcdefg"
    assert unshuffle_bits(bytes([0xFF, 0, 0, 0, 0, 0, 0, 0]), 1) == bytes([1] * 8)


@pytest.mark.parametrize("name", codec.CODECS)
def test_reference_decoder_refuses_cut_or_resized_chunks(name: str) -> None:
    chunk = codec.encode(CONTENTS["few"][:3000], codec.CodecParams(name, 5, typesize=4))
    for end in (*range(40), len(chunk) - 1):
        with pytest.raises(RefusedError):
            decode_chunk(chunk[:end])
    longer = bytearray(chunk)
    longer[4] ^= 1
    with pytest.raises(RefusedError):
        decode_chunk(bytes(longer))
