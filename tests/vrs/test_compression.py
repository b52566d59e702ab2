"""Payloads: frames of the lz4 and zstandard packages, damage, and frames with a wrong size."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack._ext import record as kernel
from bloscpack.exceptions import CodecError, UnsupportedError
from bloscpack.vrs.format.compression import (
    MIN_COMPRESSED_NBYTES,
    PRESETS,
    check_preset,
    decode_payload,
    decode_payload_into,
    encode_frame,
    encode_payload,
)
from bloscpack.vrs.format.format import Compression

from ..conftest import SMALL_VECTORS
from ..reference import lz4_frame

RECORDED = json.loads((SMALL_VECTORS / "frames_lz4_zstd.json").read_text("utf-8"))
CODECS = {"lz4": Compression.LZ4, "zstd": Compression.ZSTD}
NBYTES = {name: content["nbytes"] for name, content in RECORDED["contents"].items()}
Frame = dict[str, Any]


def label(frame: Frame) -> str:
    params = "-".join(f"{name}={int(value)}" for name, value in frame["params"].items())
    return f"{frame['codec']}-{frame['content']}-{params}"


def take(frame: Frame) -> tuple[bytes, Compression, int]:
    return base64.b64decode(frame["frame"]), CODECS[frame["codec"]], NBYTES[frame["content"]]


each_frame = pytest.mark.parametrize("frame", RECORDED["frames"], ids=label)
# Frames small enough to try every byte.
each_small_frame = pytest.mark.parametrize(
    "frame", [frame for frame in RECORDED["frames"] if len(frame["frame"]) < 640], ids=label
)


@each_frame
def test_frames_of_other_encoders_decode(frame: Frame) -> None:
    stored, compression, nbytes = take(frame)
    payload = decode_payload(stored, compression, nbytes)
    assert len(payload) == nbytes
    expected = RECORDED["contents"][frame["content"]]["sha256"]
    assert hashlib.sha256(payload).hexdigest() == expected
    out = bytearray(nbytes)
    decode_payload_into(stored, compression, memoryview(out))
    assert out == payload
    if frame["codec"] == "lz4":
        assert lz4_frame.decode(stored) == payload


@each_frame
@pytest.mark.parametrize("change", [-1, 1])
def test_a_frame_of_another_size_is_refused(frame: Frame, change: int) -> None:
    stored, compression, nbytes = take(frame)
    if nbytes + change < 0:
        return
    with pytest.raises(CodecError, match=r"different number of bytes|holds more"):
        decode_payload(stored, compression, nbytes + change)
    with pytest.raises(CodecError, match=r"different number of bytes|holds more"):
        decode_payload_into(stored, compression, memoryview(bytearray(nbytes + change)))


@each_frame
def test_bytes_behind_a_frame_are_refused(frame: Frame) -> None:
    stored, compression, nbytes = take(frame)
    for trailing in (b"\0", stored, b"\x50\x2a\x4d\x18\x01\0\0\0x"):  # the last one is skippable
        with pytest.raises(CodecError, match="bytes follow the frame"):
            decode_payload(stored + trailing, compression, nbytes)
    with pytest.raises(CodecError, match="no such frame"):
        decode_payload(b"\x50\x2a\x4d\x18\x01\0\0\0x" + stored, compression, nbytes)


@pytest.mark.sampled(7)
@each_frame
def test_every_truncation_is_refused(frame: Frame) -> None:
    stored, compression, nbytes = take(frame)
    for end in range(len(stored)):
        with pytest.raises(CodecError, match="cut off"):
            decode_payload(stored[:end], compression, nbytes)
        with pytest.raises(CodecError, match="cut off"):
            decode_payload_into(stored[:end], compression, memoryview(bytearray(nbytes)))


@pytest.mark.sampled(7)
@each_small_frame
def test_every_flipped_bit_is_refused_or_gives_all_bytes(frame: Frame) -> None:
    stored, compression, nbytes = take(frame)
    expected = decode_payload(stored, compression, nbytes)
    params = frame["params"]
    header_nbytes = 4 + 1 + 1 + (8 if stored[4] & 0x08 else 0) + 1
    checked = params.get("content_checksum") or params.get("checksum") or params.get("streamed")
    for bit in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            payload = decode_payload(bytes(damaged), compression, nbytes)
        except CodecError:
            continue
        assert len(payload) == nbytes
        # LZ4: its header has a checksum over itself, its blocks another one.
        if compression is Compression.LZ4:
            assert bit >= 8 * header_nbytes, f"bit {bit}"
            assert not params.get("block_checksum"), f"bit {bit}"
        # Zstandard: the checksum covers the content. A bit of the frame header that does not
        # matter here may change (the window size).
        if checked and nbytes:
            assert payload == expected, f"bit {bit}"


contents = st.binary(max_size=2000) | st.builds(
    lambda part, times: part * times, st.binary(max_size=300), st.integers(0, 3000)
)


@given(contents, st.sampled_from([name for name in PRESETS if name != "none"]))
def test_frames_round_trip(content: bytes, preset: str) -> None:
    compression, level = check_preset(preset)
    frame = encode_frame(content, compression, level)
    assert decode_payload(frame, compression, len(content)) == content
    assert kernel.limit_of(compression, frame) == len(content)
    if compression is Compression.LZ4 and len(content) < 100_000:
        assert lz4_frame.decode(frame) == content


@given(contents, st.sampled_from(list(PRESETS)))
def test_payloads_round_trip_and_are_compressed_only_where_that_helps(
    payload: bytes, preset: str
) -> None:
    compression, stored = encode_payload(payload, preset)
    if compression is Compression.NONE:
        assert stored is payload
    else:
        assert compression is PRESETS[preset][0]
        assert len(stored) < len(payload) >= MIN_COMPRESSED_NBYTES
    assert decode_payload(stored, compression, len(payload)) == payload


def test_choice_of_compression() -> None:
    assert encode_payload(bytes(249), "zfast")[0] is Compression.NONE
    assert encode_payload(bytes(250), "zfast")[0] is Compression.ZSTD
    assert encode_payload(bytes(250), "fast")[0] is Compression.LZ4
    assert encode_payload(bytes(1 << 20), "none")[0] is Compression.NONE
    noise = hashlib.sha256(b"x").digest() * 8
    assert encode_payload(noise[:32] + bytes(range(256)), "tight")[0] is Compression.NONE
    with pytest.raises(ValueError, match="zfaster"):
        encode_payload(bytes(300), "zip")


def test_large_payloads_are_several_blocks() -> None:
    part = bytes(range(256)) * 64 + hashlib.sha256(b"y").digest()
    payload = part * (9 * (1 << 20) // len(part))
    for preset in ("fast", "tight", "zfaster"):
        compression, stored = encode_payload(payload, preset)
        assert compression is PRESETS[preset][0]
        assert decode_payload(stored, compression, len(payload)) == payload


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("content", [b"", b"a", b"ab" * 100, bytes(range(256)), bytes(70_000)])
def test_lz4_frames_keep_to_their_room(content: bytes, level: int) -> None:
    whole = encode_frame(content, Compression.LZ4, level)
    for room in (*range(min(len(whole), 300)), len(whole) - 1):
        assert kernel.encode(kernel.LZ4, level, content, room) == kernel.NO_ROOM
    assert kernel.encode(kernel.LZ4, level, content, len(whole)) == whole


def test_frames_end_with_a_checksum() -> None:
    content = bytes(range(256)) * 4
    assert encode_frame(content, Compression.LZ4, 0)[4] & 0x04
    assert encode_frame(content, Compression.ZSTD, 3)[4] & 0x04


def test_a_wrong_content_size() -> None:
    frame = encode_frame(b"abc" * 100, Compression.LZ4, 0)
    for size in (299, 301):
        head = frame[4:6] + size.to_bytes(8, "little")
        lying = frame[:4] + head + bytes([lz4_frame.xxh32(head) >> 8 & 0xFF]) + frame[15:]
        for nbytes in (300, size):
            with pytest.raises(CodecError, match=r"different number|holds more"):
                decode_payload_into(lying, Compression.LZ4, memoryview(bytearray(nbytes)))


def test_a_block_that_is_larger_than_its_frame_allows() -> None:
    for nbytes in (1 << 16, (1 << 16) + 1):
        head = b"\x60\x40"
        frame = b"\x04\x22\x4d\x18" + head + bytes([lz4_frame.xxh32(head) >> 8 & 0xFF])
        frame += (nbytes | 1 << 31).to_bytes(4, "little") + bytes(nbytes) + bytes(4)
        if nbytes == 1 << 16:
            assert decode_payload(frame, Compression.LZ4, nbytes) == bytes(nbytes)
        else:
            with pytest.raises(CodecError, match="a block is damaged"):
                decode_payload(frame, Compression.LZ4, nbytes)


def test_stored_payloads_must_have_their_size() -> None:
    assert decode_payload(b"abc", Compression.NONE, 3) == b"abc"
    out = bytearray(3)
    decode_payload_into(b"abc", Compression.NONE, memoryview(out))
    assert out == b"abc"
    with pytest.raises(CodecError, match="found 3 bytes"):
        decode_payload(b"abc", Compression.NONE, 4)
    with pytest.raises(CodecError, match="found 3 bytes"):
        decode_payload_into(b"abc", Compression.NONE, memoryview(bytearray(2)))
    with pytest.raises(UnsupportedError, match="compression 3"):
        decode_payload(b"abc", 3, 3)
    with pytest.raises(UnsupportedError, match="compression 255"):
        decode_payload_into(b"abc", 255, memoryview(bytearray(3)))


def bomb(nblocks: int, *, sized: bool) -> bytes:
    """Return a Zstandard frame that claims 4 GiB and has `nblocks` blocks of zeros."""
    head = b"\x28\xb5\x2f\xfd" + (b"\xa0\xff\xff\xff\xff" if sized else b"\x00\x58")
    block = ((1 << 17) << 3 | 2).to_bytes(3, "little") + b"\0"
    return (
        head + block * (nblocks - 1) + (int.from_bytes(block, "little") | 1).to_bytes(4, "little")
    )


@pytest.mark.parametrize("sized", [False, True])
def test_a_frame_cannot_claim_more_than_its_blocks_hold(
    sized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(nbytes: int) -> None:
        raise AssertionError(f"{nbytes} bytes asked for")

    monkeypatch.setattr("bloscpack.vrs.format.compression.new_bytes", refuse)
    frame = bomb(10, sized=sized)
    with pytest.raises(CodecError, match="different number of bytes"):
        decode_payload(frame, Compression.ZSTD, 0xFFFFFFFF)
    lz4 = encode_frame(bytes(1 << 16), Compression.LZ4, 0)
    unsized = lz4[:4] + b"\x64" + lz4[5:6]
    unsized += bytes([lz4_frame.xxh32(unsized[4:]) >> 8 & 0xFF]) + lz4[15:]
    assert kernel.limit_of(Compression.LZ4, unsized) == 1 << 16
    with pytest.raises(CodecError, match="different number of bytes"):
        decode_payload(unsized, Compression.LZ4, (1 << 16) + 1)


def test_a_payload_too_large_for_memory_is_a_codec_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(nbytes: int) -> None:
        raise MemoryError

    monkeypatch.setattr("bloscpack.vrs.format.compression.new_bytes", refuse)
    frame = encode_frame(bytes(300), Compression.ZSTD, 1)
    with pytest.raises(CodecError, match="no memory"):
        decode_payload(frame, Compression.ZSTD, 300)


def test_frames_that_need_a_dictionary_are_refused() -> None:
    frame = encode_frame(b"abc" * 100, Compression.LZ4, 0)
    head = frame[4:5] + frame[5:14] + b"\1\0\0\0"
    head = bytes([head[0] | 1]) + head[1:]
    frame = frame[:4] + head + bytes([lz4_frame.xxh32(head) >> 8 & 0xFF]) + frame[15:]
    with pytest.raises(CodecError, match="needs a dictionary"):
        decode_payload(frame, Compression.LZ4, 300)
    zstd = b"\x28\xb5\x2f\xfd\x21\x07\x03\x19\0\0abc"
    with pytest.raises(CodecError, match="needs a dictionary"):
        decode_payload(zstd, Compression.ZSTD, 3)
    assert decode_payload(zstd[:5] + b"\0" + zstd[6:], Compression.ZSTD, 3) == b"abc"


def test_linked_and_independent_blocks_differ() -> None:
    """A match into the block before raises an error if blocks are independent."""
    frame = next(
        base64.b64decode(frame["frame"])
        for frame in RECORDED["frames"]
        if frame["content"] == "blocks"
        and frame["params"]
        == {
            "linked": True,
            "content_checksum": False,
            "block_checksum": False,
            "content_size": False,
        }
    )
    head = bytes([frame[4] | 0x20]) + frame[5:6]
    independent = frame[:4] + head + bytes([lz4_frame.xxh32(head) >> 8 & 0xFF]) + frame[7:]
    assert decode_payload(frame, Compression.LZ4, NBYTES["blocks"])
    with pytest.raises(CodecError, match="a block is damaged"):
        decode_payload(independent, Compression.LZ4, NBYTES["blocks"])


def test_the_kernel_and_the_format_number_codecs_alike() -> None:
    assert (kernel.LZ4, kernel.ZSTD) == (Compression.LZ4, Compression.ZSTD)
