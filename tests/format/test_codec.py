"""Blosc-1 chunks: round trips, partial decoding, damaged and foreign chunks."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bloscpack.exceptions import (
    BloscpackError,
    CodecError,
    FormatError,
    NoSuchCodec,
    TruncatedError,
    UnsupportedError,
)
from bloscpack.format.codec import (
    CHUNK_HEADER_SIZE,
    CODECS,
    MAX_CHUNK_NBYTES,
    STREAM_FORMATS,
    ChunkHeader,
    CodecParams,
    Shuffle,
    decode_into,
    decode_range_into,
    encode,
)

from ..reference.blosc_chunk import parse

GUARD = b"guard bytes"
SIZES = [0, 1, 15, 16, 17, 127, 128, 129, 1000, 70_000]
each_codec = pytest.mark.parametrize("codec", CODECS)
each_shuffle = pytest.mark.parametrize("shuffle", list(Shuffle))


def content(nbytes: int) -> bytes:
    """Return bytes that compress moderately."""
    return b"".join(struct.pack("<I", i * i % 10_007) for i in range(nbytes // 4 + 1))[:nbytes]


def decode(chunk: bytes, nbytes: int) -> bytes:
    """Return the decoded chunk after a check that the memory around it is untouched."""
    memory = bytearray(GUARD + bytes(nbytes) + GUARD)
    with memoryview(memory) as view:
        try:
            decode_into(chunk, view[len(GUARD) : len(GUARD) + nbytes])
        finally:
            assert memory.startswith(GUARD)
            assert memory.endswith(GUARD)
    return bytes(memory[len(GUARD) : len(GUARD) + nbytes])


def decode_range(chunk: bytes, start: int, nbytes: int) -> bytes:
    memory = bytearray(GUARD + bytes(nbytes) + GUARD)
    with memoryview(memory) as view:
        try:
            decode_range_into(chunk, start, view[len(GUARD) : len(GUARD) + nbytes])
        finally:
            assert memory.startswith(GUARD)
            assert memory.endswith(GUARD)
    return bytes(memory[len(GUARD) : len(GUARD) + nbytes])


def forge(**fields: int) -> bytes:
    """Return a 16-byte chunk header with some fields replaced."""
    values = {
        "version": 2,
        "versionlz": 1,
        "flags": 0x20,
        "typesize": 8,
        "nbytes": 64,
        "blocksize": 64,
        "cbytes": 40,
    } | fields
    return struct.pack("<BBBBIII", *values.values())


def test_codecs_are_those_of_the_wheel() -> None:
    assert sorted(CODECS) == ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]


@each_codec
@each_shuffle
@pytest.mark.parametrize("typesize", [1, 2, 3, 4, 8, 16, 17, 255])
def test_round_trip(codec: str, shuffle: Shuffle, typesize: int) -> None:
    for nbytes in SIZES:
        data = content(nbytes)
        chunk = encode(data, CodecParams(codec, 5, shuffle, typesize))
        header = ChunkHeader.unpack(chunk)
        parsed = parse(chunk)
        assert (header.nbytes, header.cbytes) == (nbytes, len(chunk))
        assert header[3:] == (parsed.typesize, parsed.nbytes, parsed.blocksize, parsed.cbytes)
        assert header.shuffle.name.lower() == parsed.shuffle
        assert (header.codec, header.is_memcpy) == (parsed.codec, parsed.is_memcpy)
        assert header.is_split == parsed.is_split
        if not header.is_memcpy:
            assert header.codec == codec.removesuffix("hc")
        assert len(chunk) <= nbytes + CHUNK_HEADER_SIZE
        assert decode(chunk, nbytes) == data


@each_codec
@pytest.mark.parametrize("typesize", [1, 3, 4, 8, 255])
def test_ranges_are_slices(codec: str, typesize: int) -> None:
    nbytes = 20_001
    data = content(nbytes)
    for clevel in (0, 5):
        chunk = encode(data, CodecParams(codec, clevel, Shuffle.BYTE, typesize, 4096))
        for start in (0, 1, 4095, 4096, nbytes // 2, nbytes - 1, nbytes):
            for stop in (start, start + 1, start + 5000, nbytes):
                if stop <= nbytes:
                    assert decode_range(chunk, start, stop - start) == data[start:stop]


@given(
    data=st.binary(max_size=3000),
    repeat=st.integers(1, 20),
    codec=st.sampled_from(CODECS),
    clevel=st.integers(0, 9),
    shuffle=st.sampled_from(Shuffle),
    typesize=st.integers(1, 255),
    blocksize=st.sampled_from([0, 1, 64, 1000, 4096]),
    cut=st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
def test_any_content_and_parameters(
    data: bytes,
    repeat: int,
    codec: str,
    clevel: int,
    shuffle: Shuffle,
    typesize: int,
    blocksize: int,
    cut: tuple[int, int],
) -> None:
    data *= repeat
    chunk = encode(data, CodecParams(codec, clevel, shuffle, typesize, blocksize))
    assert decode(chunk, len(data)) == data
    start, stop = sorted(len(data) * percent // 100 for percent in cut)
    assert decode_range(chunk, start, stop - start) == data[start:stop]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_encode_takes_any_contiguous_bytes(kind: type[bytes]) -> None:
    data = content(5000)
    params = CodecParams("lz4")
    assert encode(kind(data), params) == encode(data, params)
    assert encode(memoryview(b"xx" + data)[2:], params) == encode(data, params)


@pytest.mark.parametrize("wrong", [0, 1, 999, 1001, 100_000])
def test_out_of_the_wrong_size(wrong: int) -> None:
    chunk = encode(content(1000), CodecParams("lz4"))
    with pytest.raises(CodecError, match=rf"\b1000\b.*\b{wrong}\b"):
        decode(chunk, wrong)


@pytest.mark.parametrize(
    ("start", "nbytes"), [(0, 1001), (1000, 1), (1001, 0), (999, 2), (2**62, 1), (2**64 - 1, 2)]
)
@each_codec
def test_range_outside_the_chunk(codec: str, start: int, nbytes: int) -> None:
    chunk = encode(content(1000), CodecParams(codec, typesize=8))
    with pytest.raises(CodecError):
        decode_range(chunk, start, nbytes)


def test_read_only_out_is_refused() -> None:
    chunk = encode(content(1000), CodecParams("lz4"))
    with pytest.raises((BufferError, ValueError)):
        decode_into(chunk, bytes(1000))


@pytest.mark.parametrize("length", range(CHUNK_HEADER_SIZE))
def test_every_prefix_of_the_header_is_truncated(length: int) -> None:
    with pytest.raises(TruncatedError, match=f"{length} of 16"):
        ChunkHeader.unpack(forge()[:length])


def test_position_and_trailing_bytes() -> None:
    assert ChunkHeader.unpack(b"xxx" + forge() + b"rest", 3) == ChunkHeader.unpack(forge())


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_chunks(codec: str) -> None:
    chunk = encode(content(300), CodecParams(codec, typesize=4))
    for length in range(len(chunk)):
        with pytest.raises((CodecError, FormatError)):
            decode(chunk[:length], 300)


@each_codec
@each_shuffle
def test_damage_never_crashes(codec: str, shuffle: Shuffle) -> None:
    data = content(400)
    chunk = encode(data, CodecParams(codec, 9, shuffle, 4))
    outcomes = set()
    for position in range(len(chunk)):
        for mask in (0x01, 0x10, 0x80, 0xFF):
            damaged = bytearray(chunk)
            damaged[position] ^= mask
            try:
                nbytes = ChunkHeader.unpack(damaged).nbytes
                decode(bytes(damaged), nbytes)
                decode_range(bytes(damaged), 3 * damaged[3], 5 * damaged[3])
            except BloscpackError as err:
                outcomes.add(type(err))
    assert outcomes <= {CodecError, FormatError, UnsupportedError}
    assert outcomes >= {CodecError, FormatError}


@given(
    header=st.builds(
        forge,
        flags=st.integers(0, 255),
        typesize=st.integers(0, 255),
        nbytes=st.sampled_from([0, 1, 16, 64, 65, 4096, 2**31 - 17, 2**31, 2**32 - 1]),
        blocksize=st.sampled_from([0, 1, 8, 64, 65, 2**20, 2**31 - 1, 2**31, 2**32 - 1]),
    ),
    body=st.binary(max_size=200),
)
def test_any_bytes_behind_a_header(header: bytes, body: bytes) -> None:
    chunk = header[:12] + struct.pack("<I", 16 + len(body)) + body
    try:
        unpacked = ChunkHeader.unpack(chunk)
        assert unpacked.nbytes <= max(1, len(chunk)) * 2**16
        assert len(decode(chunk, unpacked.nbytes)) == unpacked.nbytes
    except BloscpackError:
        return


def test_blosc_2_is_refused() -> None:
    for version in (3, 4, 5, 255):
        with pytest.raises(UnsupportedError, match=f"version {version}"):
            ChunkHeader.unpack(forge(version=version))
    for version in (0, 1):
        with pytest.raises(FormatError, match=f"version is {version}"):
            ChunkHeader.unpack(forge(version=version))


@pytest.mark.parametrize("number", range(8))
def test_expansion_is_bounded_by_the_stream_format(number: int) -> None:
    limit = {0: 256, 1: 256, 2: 64, 3: 1040, 4: 65536}.get(number, 0) * 40
    if limit:
        header = ChunkHeader.unpack(forge(flags=number << 5, nbytes=limit))
        assert header.codec == STREAM_FORMATS[number]
    with pytest.raises(FormatError, match="cannot decode"):
        ChunkHeader.unpack(forge(flags=number << 5, nbytes=limit + 1))


@pytest.mark.parametrize("codec", CODECS)
def test_the_best_compression_is_within_the_bound(codec: str) -> None:
    data = bytes(8 << 20)
    chunk = encode(data, CodecParams(codec, 9, Shuffle.NONE, 1, 4 << 20))
    assert ChunkHeader.unpack(chunk).nbytes == len(data)
    assert decode(chunk, len(data)) == data


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cbytes": 15}, "stored size 15"),
        ({"cbytes": 0}, "stored size 0"),
        ({"nbytes": MAX_CHUNK_NBYTES + 1, "flags": 0x80, "cbytes": 2**31 - 1}, "decoded size"),
        ({"flags": 0x02, "nbytes": 64, "cbytes": 81}, "match 64 uncompressed"),
        ({"flags": 0x02, "nbytes": 64, "cbytes": 79}, "match 64 uncompressed"),
    ],
)
def test_contradicting_headers(fields: dict[str, int], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        ChunkHeader.unpack(forge(**fields))


def test_memcpy_chunk_may_be_of_any_stream_format() -> None:
    data = content(64)
    chunk = forge(flags=0xE2, nbytes=64, cbytes=80) + data
    assert ChunkHeader.unpack(chunk).is_memcpy
    assert decode(chunk, 64) == data


class TestSnappy:
    """Decoding only, as the C-Blosc of the wheel lacks Snappy.

    The streams are made by hand (google/snappy, format_description.txt): the length as a varint,
    then literals and copies of every kind. Each decodes to `DATA`.
    """

    DATA = b"abcdabcdabcdXY" + b"abcdXY" * 10 + b"abcd"
    STREAMS = (
        b"\x4e" + b"\x0cabcd" + b"\x11\x04" + b"\x04XY" + b"\xfe\x06\x00",
        b"\x4e" + b"\x0cabcd" + b"\x1e\x04\x00" + b"\x04XY" + b"\xff\x06\x00\x00\x00",
        b"\x4e" + b"\xf0\x4d" + DATA,
        b"\x4e" + b"\xf4\x4d\x00" + DATA,
    )

    @staticmethod
    def chunk(*streams: bytes, nbytes: int = 78, flags: int = 0x50, typesize: int = 1) -> bytes:
        body = b"".join(struct.pack("<i", len(stream)) + stream for stream in streams)
        cbytes = 16 + 4 + len(body)
        head = forge(flags=flags, typesize=typesize, nbytes=nbytes, blocksize=nbytes, cbytes=cbytes)
        return head + struct.pack("<I", 20) + body

    @pytest.mark.parametrize("number", range(4))
    def test_streams(self, number: int) -> None:
        chunk = self.chunk(self.STREAMS[number])
        assert decode(chunk, 78) == self.DATA
        assert decode_range(chunk, 7, 20) == self.DATA[7:27]

    def test_stream_that_is_not_compressed(self) -> None:
        assert decode(self.chunk(self.DATA), 78) == self.DATA

    def test_one_stream_for_each_byte_of_an_item(self) -> None:
        # 128 items of 2 bytes, shuffled: all low bytes, then all high ones.
        low, high = b"l" * 128, bytes(range(128))
        repeated = b"\x80\x01" + b"\x00l" + b"\xfe\x01\x00" + b"\xfa\x01\x00"  # 1 + 64 + 63
        chunk = self.chunk(repeated, high, nbytes=256, flags=0x41, typesize=2)
        data = bytes(byte for pair in zip(low, high, strict=True) for byte in pair)
        assert decode(chunk, 256) == data
        assert decode_range(chunk, 200, 54) == data[200:254]

    @pytest.mark.parametrize(("typesize", "nitems"), [(2, 127), (17, 128), (255, 3)])
    def test_small_or_wide_items_share_a_stream(self, typesize: int, nitems: int) -> None:
        # C-Blosc before 1.11 has no flag for the split: it follows from MAX_SPLITS (16) and
        # MIN_BUFFERSIZE (128) of its blosc.c.
        data = content(typesize * nitems)
        chunk = self.chunk(data, nbytes=len(data), flags=0x40, typesize=typesize)
        assert decode(chunk, len(data)) == data

    @pytest.mark.parametrize("number", range(4))
    def test_damage_never_crashes(self, number: int) -> None:
        chunk = self.chunk(self.STREAMS[number])
        refused = 0
        for bit in range(8 * len(chunk)):
            damaged = bytearray(chunk)
            damaged[bit // 8] ^= 1 << bit % 8
            try:
                nbytes = ChunkHeader.unpack(damaged).nbytes
                decode(bytes(damaged), nbytes)
                decode_range(bytes(damaged), damaged[3], damaged[3])
            except (CodecError, FormatError, UnsupportedError):
                refused += 1
        assert refused

    @pytest.mark.parametrize("number", range(4))
    def test_truncated_streams(self, number: int) -> None:
        stream = self.STREAMS[number]
        # A stream of 78 bytes, the decoded size, is by definition not compressed.
        for length in set(range(1, len(stream))) - {78}:
            with pytest.raises(CodecError):
                decode(self.chunk(stream[:length]), 78)

    @pytest.mark.parametrize(
        "stream",
        [
            b"\x4e\x01\x04",  # a copy before the first output
            b"\x4e\x0cabcd\x01\x00",  # a copy from 0 back
            b"\x4e\x0cabcd\x01\x05",  # a copy from before the start
            b"\x4d" + STREAMS[2][1:],  # longer than declared
            b"\x4f" + STREAMS[2][1:],  # shorter than declared
            b"\xce\x80\x80\x80\x80\x00" + STREAMS[2][1:],  # a length of more than 32 bits
            b"\x4e\xfc\xff\xff\xff\xff" + DATA,  # a literal of 4 GiB
            STREAMS[2] + b"\x00",  # half a literal after the end
        ],
    )
    def test_wrong_streams(self, stream: bytes) -> None:
        with pytest.raises(CodecError):
            decode(self.chunk(stream), 78)

    def test_is_not_written(self) -> None:
        with pytest.raises(NoSuchCodec, match="snappy"):
            CodecParams("snappy")


@pytest.mark.parametrize("length", [40, 2000])
def test_a_chunk_of_another_length_than_it_says(length: int) -> None:
    chunk = encode(content(1000), CodecParams("lz4")).ljust(3000, b"\0")[:length]
    with pytest.raises(CodecError, match=f"got {length}"):
        decode(chunk, 1000)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"codec": "snappy"}, NoSuchCodec, "snappy.*lacks"),
        ({"codec": "gzip"}, NoSuchCodec, "gzip.*choose from"),
        ({"clevel": 10}, ValueError, "clevel must be 0 to 9"),
        ({"clevel": -1}, ValueError, "clevel"),
        ({"shuffle": 3}, ValueError, "shuffle"),
        ({"typesize": 0}, ValueError, "typesize must be 1 to 255"),
        ({"typesize": 256}, ValueError, "typesize"),
        ({"blocksize": -1}, ValueError, "blocksize"),
        ({"blocksize": 2**31}, ValueError, "blocksize"),
    ],
)
def test_wrong_parameters(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        CodecParams(**arguments)  # type: ignore[arg-type]


def test_too_much_content_is_refused_before_it_is_touched() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return MAX_CHUNK_NBYTES + 1

    with pytest.raises(ValueError, match="at most 2147483631"):
        encode(Huge(), CodecParams("lz4"))


@settings(max_examples=3 * settings().max_examples)
@given(
    parts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 700)), max_size=30),
    blocksize=st.sampled_from([128, 520, 4096, 70000]),
)
def test_residuals_in_lz4_are_what_c_blosc_decodes(
    parts: list[tuple[int, int]], blocksize: int
) -> None:
    """Runs and repeats of a few sources produce matches of every length and distance."""
    sources = [np.random.default_rng(seed).bytes(700) for seed in range(20)]
    data = b"".join(
        sources[which][:length] if which < 20 else bytes([which]) * length
        for which, length in parts
    )
    data += bytes(max(0, 128 - len(data)))
    params = CodecParams("lz4", 9, Shuffle.NONE, 1, blocksize=blocksize, residual=True)
    chunk = encode(data, params)
    assert pytest.importorskip("blosc").decompress(chunk) == data
    out = bytearray(len(data))
    decode_into(chunk, out)
    assert out == data


def test_residuals_in_lz4_leave_out_short_matches() -> None:
    noise = np.random.default_rng(0).bytes(4096)
    short = b"".join(noise[k * 64 : k * 64 + 60] + b"same" for k in range(60))
    long = b"".join(noise[k * 64 : k * 64 + 48] + b"sixteen bytes..." for k in range(60))
    params = CodecParams("lz4", 9, Shuffle.NONE, 1, blocksize=4000, residual=True)
    assert len(encode(short[:3800], params)) >= 3800
    assert len(encode(long[:3800], params)) < 0.85 * 3800


@each_shuffle
@pytest.mark.parametrize("nbytes", [127, 128, 129, 512, 1000, 16_384, 32_767, 32_768])
@pytest.mark.parametrize("typesize", [1, 3, 4, 255])
def test_small_content_is_one_block_of_the_bytes_of_c_blosc(
    shuffle: Shuffle, nbytes: int, typesize: int
) -> None:
    """C-Blosc itself makes the chunk of a block that is too large, which it cuts to the content."""
    data = content(nbytes)
    for clevel in (1, 3, 9):
        params = CodecParams("zstd", clevel, shuffle, typesize)
        chunk = encode(data, params)
        assert chunk == encode(data, replace(params, blocksize=2 * nbytes))
        out = bytearray(nbytes)
        decode_into(chunk, out)
        assert out == data
