"""Chunks with false contents, passed to the kernel and in files.

This covers the positions and sizes that C-Blosc checks itself, and also those that it does not.
"""

import ctypes
import struct
from collections.abc import Callable

import pytest
from crafted import (
    BIT_SHUFFLE,
    BLOSCLZ,
    BYTE_SHUFFLE,
    LZ4,
    MEMCPY,
    NOT_SPLIT,
    SNAPPY,
    ZLIB,
    ZSTD,
    chunk,
    file_of,
    memcpy_chunk,
)

import bloscpack as bp
from bloscpack._ext import blosc as kernel
from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.format.arraychunk import Coder, Map, Plan, PlanePlan, Predictor
from bloscpack.format.codec import ChunkHeader, CodecParams, decode_into, decode_range_into, encode

MAX = (1 << 31) - 1
ERRORS = (FormatError, CodecError, UnsupportedError)
GUARD = bytes(range(200, 232)) * 32
Survive = Callable[..., dict]

CONTENT = b"".join(struct.pack("<I", value // 3) for value in range(1000))
# One for each piece of code that allocates memory for decoded data.
WHOLE_WAYS = (
    "unpack_bytes_from_bytes",
    "unpack_file_from_file",
    "load",
    "slices",
    "read_chunk",
    "verify",
    "append",
)
SOUND = {
    codec: encode(CONTENT, CodecParams(codec, 5, 1, 4, 512))
    for codec in ("blosclz", "lz4", "zlib", "zstd")
}


def decode(data: bytes, nbytes: int) -> bytes:
    return guarded(nbytes, lambda out: decode_into(data, out))


def guarded(nbytes: int, decode_to: Callable[[memoryview], None]) -> bytes:
    """Return what is decoded into the middle of a buffer, after a check of its ends."""
    buffer = bytearray(GUARD + bytes(nbytes) + GUARD)
    try:
        decode_to(memoryview(buffer)[len(GUARD) : len(GUARD) + nbytes])
    finally:
        assert buffer[: len(GUARD)] == GUARD
        assert buffer[len(GUARD) + nbytes :] == GUARD
    return bytes(buffer[len(GUARD) : len(GUARD) + nbytes])


@pytest.mark.parametrize("nbytes", [MAX + 1, (1 << 32) - 1])
@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_a_block_of_4_gib_is_not_decoded_to_unwritten_memory(codec: int, nbytes: int) -> None:
    # As an int, this size equals the error code of LZ4, so a failure counted as decoded.
    head = struct.pack("<BBBBIIII", 2, 1, codec | 0x10, 1, nbytes, nbytes, 32, 20)
    stored = struct.pack("<I", 8) + b"\xff" * 8
    out = bytearray(b"untouched")
    code = kernel.decompress_blocks_into(head, stored, 20, 0, out)
    assert code in (kernel.INVALID_CHUNK, kernel.NO_MEMORY)
    assert out == b"untouched"


def decode_range(data: bytes, start: int, nbytes: int) -> bytes:
    return guarded(nbytes, lambda out: decode_range_into(data, start, out))


def patched(data: bytes, at: int, value: int, layout: str = "<i") -> bytes:
    field = struct.pack(layout, value)
    return data[:at] + field + data[at + len(field) :]


def test_sound_chunks_decode() -> None:
    for data in SOUND.values():
        assert decode(data, 4000) == CONTENT
        assert decode_range(data, 12, 28) == CONTENT[12:40]


@pytest.mark.parametrize("codec", SOUND)
@pytest.mark.parametrize(
    "start", [-1, 0, 1, 15, 16, 17, 47, -(1 << 31), (1 << 31) - 1, (1 << 31) - 4, "end", "end-3"]
)
@pytest.mark.parametrize("item", [0, 500, 999])
def test_block_start(codec: str, start: int | str, item: int) -> None:
    data = SOUND[codec]
    place = {"end": len(data), "end-3": len(data) - 3}.get(start, start)
    block = 4 * item // ChunkHeader.unpack(data).blocksize
    damaged = patched(data, 16 + 4 * block, place)
    with pytest.raises(ERRORS):
        decode(damaged, 4000)
    with pytest.raises(ERRORS):
        decode_range(damaged, 4 * item, 4)


@pytest.mark.parametrize("codec", SOUND)
@pytest.mark.parametrize("size", [-1, 0, -(1 << 31), (1 << 31) - 1, 5000, 1])
def test_stream_size(codec: str, size: int) -> None:
    data = SOUND[codec]
    start = int.from_bytes(data[16:20], "little")
    damaged = patched(data, start, size)
    with pytest.raises(ERRORS):
        decode(damaged, 4000)
    with pytest.raises(ERRORS):
        decode_range(damaged, 0, 512)


@pytest.mark.parametrize("codec", SOUND)
@pytest.mark.parametrize(
    "blocksize", [0, 1, -1, 3, 511, 513, 4001, 1 << 30, -(1 << 31), (1 << 31) - 1]
)
def test_block_size(codec: str, blocksize: int) -> None:
    damaged = patched(SOUND[codec], 8, blocksize)
    with pytest.raises(ERRORS):
        decode(damaged, 4000)
    for start in (0, 500, 999):
        try:
            part = decode_range(damaged, 4 * start, 4)
        except ERRORS:
            continue
        # A block that ends inside its stream may still contain the item.
        assert part == CONTENT[4 * start : 4 * start + 4]


@pytest.mark.parametrize("typesize", [0, 1, 2, 3, 5, 16, 17, 255])
@pytest.mark.parametrize("flags", [0, BYTE_SHUFFLE, BIT_SHUFFLE, BYTE_SHUFFLE | BIT_SHUFFLE])
@pytest.mark.parametrize("codec", SOUND)
def test_typesize_and_filter(codec: str, flags: int, typesize: int) -> None:
    """Without a checksum, a wrong filter gives wrong bytes; they must not be foreign memory."""
    data = SOUND[codec]
    damaged = bytearray(data)
    damaged[2] = data[2] & ~(BYTE_SHUFFLE | BIT_SHUFFLE) | flags
    damaged[3] = typesize
    whole = None
    try:
        whole = decode(bytes(damaged), 4000)
    except ERRORS:
        assert typesize != 4
    if typesize == 0:
        assert whole is None
        with pytest.raises(ERRORS):
            decode_range(bytes(damaged), 0, 1)
        return
    for start in range(0, 4000 - typesize, 61):
        try:
            part = decode_range(bytes(damaged), start, typesize)
        except ERRORS:
            continue
        if whole is not None:
            assert part == whole[start : start + typesize]


@pytest.mark.parametrize("nbytes", [0, 1, 3999, 4001, 8000, 512_000])
@pytest.mark.parametrize("codec", SOUND)
def test_decoded_size(codec: str, nbytes: int) -> None:
    damaged = patched(SOUND[codec], 4, nbytes)
    for room in {nbytes, 4000, 0} - ({0} if nbytes == 0 else set()):
        with pytest.raises(ERRORS):
            decode(damaged, room)


@pytest.mark.parametrize("cbytes", [0, 15, 16, 20, 1 << 20, -1])
@pytest.mark.parametrize("codec", SOUND)
def test_stored_size(codec: str, cbytes: int) -> None:
    damaged = patched(SOUND[codec], 12, cbytes)
    with pytest.raises(ERRORS):
        decode(damaged, 4000)
    with pytest.raises(ERRORS):
        decode_range(damaged, 0, 4)


@pytest.mark.parametrize("codec", SOUND)
def test_every_prefix_of_a_chunk(codec: str) -> None:
    data = SOUND[codec]
    for size in range(len(data)):
        agreeing = patched(data[:size].ljust(16, b"\0"), 12, max(size, 16))[:size]
        for prefix in (data[:size], agreeing):
            with pytest.raises(ERRORS):
                decode(prefix, 4000)
            with pytest.raises(ERRORS):
                decode_range(prefix, 3996, 4)


@pytest.mark.parametrize(
    ("start", "room"),
    [(0, 4001), (4000, 1), (4001, 0), (3999, 2), (1 << 62, 4), ((1 << 64) - 1, 4)],
)
def test_range_out_of_bounds(start: int, room: int) -> None:
    for data in SOUND.values():
        with pytest.raises(ERRORS):
            decode_range(data, start, room)


@pytest.mark.parametrize("version", [0, 1, 3, 4, 5, 255])
def test_version_of_the_chunk(version: int) -> None:
    data = bytes((version,)) + SOUND["lz4"][1:]
    with pytest.raises(UnsupportedError if version > 2 else FormatError):
        ChunkHeader.unpack(data)
    with pytest.raises(ERRORS):
        decode(data, 4000)
    with pytest.raises(ERRORS):
        decode_range(data, 0, 4)


@pytest.mark.parametrize("stream_format", [SNAPPY, 0xA0, 0xC0, 0xE0])
def test_stream_format_that_is_not_there(stream_format: int) -> None:
    data = chunk(stream_format | NOT_SPLIT, 1, 400, 400, [[b"x" * 50]])
    with pytest.raises(ERRORS):
        decode(data, 400)
    with pytest.raises(ERRORS):
        decode_range(data, 0, 1)
    with pytest.raises(ERRORS):
        bp.unpack_bytes_from_bytes(file_of([data]))


@pytest.mark.parametrize("flags", [MEMCPY, MEMCPY | BYTE_SHUFFLE, MEMCPY | ZSTD])
def test_memcpy_chunk_that_is_too_short(flags: int) -> None:
    good = memcpy_chunk(b"0123456789")
    for nbytes in (9, 11, 1000, (1 << 31) - 20, (1 << 32) - 1):
        data = bytes((2, 1, flags, 1)) + struct.pack("<I", nbytes) + good[8:]
        with pytest.raises(FormatError):
            ChunkHeader.unpack(data)
        assert kernel.decompress_into(data, bytearray(min(nbytes, 2000))) < 0
        assert kernel.decompress_range_into(data, 0, bytearray(9)) < 0
        with pytest.raises(ERRORS):
            bp.unpack_bytes_from_bytes(file_of([data], chunk_size=nbytes & MAX, last_chunk=9))


@pytest.mark.parametrize("flags", [0, BYTE_SHUFFLE, BIT_SHUFFLE])
@pytest.mark.parametrize(("typesize", "blocksize"), [(3, 400), (7, 1000), (16, 2049)])
def test_block_that_its_splits_do_not_fill(flags: int, typesize: int, blocksize: int) -> None:
    """C-Blosc leaves the rest of such a block uninitialised, and `blosc_getitem` returns it."""
    stream = b"\1" * (blocksize // typesize)
    data = chunk(flags, typesize, 3 * blocksize, blocksize, [[stream] * typesize] * 3)
    with pytest.raises(ERRORS):
        decode(data, 3 * blocksize)
    libc = ctypes.CDLL(None)
    for item in range(3 * blocksize // typesize):
        found = set()
        for fill in (0x55, 0xAA):
            libc.mallopt(-6, fill)  # M_PERTURB: malloc fills new memory with this byte
            try:
                found.add(decode_range(data, item * typesize, typesize))
            except ERRORS:
                found.add(None)
            finally:
                libc.mallopt(-6, 0)
        assert found <= {None, b"\1" * typesize}, f"item {item}: {found}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [8_421_505, 8_421_520, 8_500_000, 16_843_010])
def test_blosclz_match_whose_length_overflows(survive: Survive, count: int) -> None:
    """C-Blosc issue 405: a match of 8.4 million bytes in a chunk that declares 4 KiB."""
    stream = b"\3abcd\xe0" + b"\xff" * count + b"\x0a\0\0x"
    data = chunk(BLOSCLZ | NOT_SPLIT, 1, 4096, 4096, [[stream]])
    outcomes = survive(file_of([data]), honest_nbytes=5 * len(data))
    assert outcomes["unpack_bytes_from_bytes"].what == "refused"
    outcomes = survive(file_of([data], checksum="crc32", offsets=True), 5 * len(data))
    assert outcomes["slices"].what == "refused"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("flags", [LZ4, ZLIB, ZSTD, BLOSCLZ])
@pytest.mark.parametrize("nbytes", [2_000_000_000, 100_000_000])
def test_garbage_that_promises_gigabytes(survive: Survive, flags: int, nbytes: int) -> None:
    """Header and chunk agree, but the streams do not decode: no memory may be touched before."""
    blocks = -(-nbytes // (1 << 20))
    data = chunk(flags | NOT_SPLIT, 1, nbytes, 1 << 20, [[b"x" * 100]] * blocks)
    for offsets in (False, True):
        file = file_of([data], offsets=offsets)
        outcomes = survive(file, honest_nbytes=5 * len(data), only=WHOLE_WAYS)
        assert outcomes["load"].what == "refused"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("nsound", [0, 1])
@pytest.mark.parametrize("nbytes", [2_000_000_000, 100_000_000])
def test_array_chunk_that_promises_gigabytes(survive: Survive, nbytes: int, nsound: int) -> None:
    """The plan is valid, but blocks do not decode: no memory may be touched before."""
    data = array_chunk(nbytes, b"x" * 40, nsound)
    assert len(data) < nbytes < 8192 * len(data)
    ChunkHeader.unpack(data)
    for offsets in (False, True):
        file = file_of([data], offsets=offsets)
        outcomes = survive(file, honest_nbytes=5 * len(data), only=WHOLE_WAYS)
        assert outcomes["load"].what == "refused"
        assert "block is damaged" in outcomes["load"].message


def test_array_chunk_that_promises_more_than_its_size_allows(survive: Survive) -> None:
    """Constant blocks would decode to 32,768 times their size."""
    data = array_chunk(2_000_000_000, b"", 7630)
    assert 8192 * len(data) + 65536 < 2_000_000_000
    outcomes = survive(file_of([data]), honest_nbytes=5 * len(data), only=WHOLE_WAYS)
    assert {one.what for one in outcomes.values()} == {"refused"}
    assert "cannot decode to" in outcomes["load"].message


def array_chunk(nbytes: int, garbage: bytes, nsound: int) -> bytes:
    """Return an array chunk of zeros; its blocks from `nsound` on are garbage."""
    plane = PlanePlan(Map.OFFSET, 1, Predictor.NONE, Coder.PLANES, scale=1)
    plan = Plan(1, (1, 1, nbytes), (1, 1, 1 << 18), (plane,))
    sound = bytes(8)  # no exceptions, and a constant stream
    blocks = [sound if index < nsound else garbage for index in range(plan.nblocks)]
    return plan.pack([len(block) for block in blocks], b"".join(blocks))


@pytest.mark.parametrize("blocksize", [(1 << 31) // 3 - 400, 1 << 29])
def test_one_block_of_gigabytes(survive: Survive, blocksize: int) -> None:
    data = chunk(ZSTD | NOT_SPLIT, 1, blocksize, blocksize, [[b"x" * 40_000]])
    survive(file_of([data]), honest_nbytes=5 * len(data), only=WHOLE_WAYS)
