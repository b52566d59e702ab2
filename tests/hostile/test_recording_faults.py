"""Recordings with one damaged record: the reference returns zeros or partial data, we raise.

The reference (1.2.2) ignores that a block could not be read, and returns its array as allocated:
zeros, or partly filled. Here every way to read the damaged part raises, intact blocks are returned,
and all other records are unaffected.
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import zstandard

from bloscpack import vrs
from bloscpack.exceptions import CodecError, FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs import pyvrs
from bloscpack.vrs.format.compression import encode_frame
from bloscpack.vrs.format.format import Compression
from tests.vrs.memorysource import layout
from tests.vrs.recordingfiles import Rec, build, description, header

IMU = (241, 1)
ERRORS = (FormatError, CodecError, UnsupportedError)
META = layout(
    count="DataPieceValue<uint32_t>",
    numbers="DataPieceArray<double>",
    names="DataPieceVector<string>",
    text="DataPieceString",
).replace('"DataPieceArray<double>"', '"DataPieceArray<double>","size":5')
HEIGHT, WIDTH = 30, 20
FORMAT = (
    f"data_layout+image/raw/{WIDTH}x{HEIGHT}/pixel=grey8+custom/size=7+audio/pcm/int16le/channels=2"
)
BAD = 3


def payload(number: int) -> bytes:
    values = {"count": number + 1, "numbers": [number + 0.5] * 5, "names": ["a", "bc"], "text": "t"}
    metadata = vrs.DataLayout.from_json(META).encode(values)
    image = bytes((k * number + 1) % 251 + 1 for k in range(HEIGHT * WIDTH))
    return metadata + image + b"custom!" + struct.pack("<40h", *range(1, 41))


class Stored(NamedTuple):
    """Bytes of a record, and the values of its header."""

    data: bytes
    compression: int
    nbytes: int


def zstd(data: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=False, **options).compress(data)


def lz4(data: bytes) -> bytes:
    return encode_frame(data, Compression.LZ4, 0)


def recording(damaged: Stored) -> bytes:
    """Return a recording of eight records, one of which is stored as given."""
    tags = {"RF:Data:1": FORMAT, "DL:Data:1:0": META}
    data = bytearray(build([], "none").data[:80])
    data += description({IMU: {"user": {}, "vrs": tags}}, {})
    previous = len(data) - 80
    for number in range(8):
        stored = Stored(zstd(payload(number)), 2, len(payload(number)))
        if number == BAD:
            stored = damaged
        size = 32 + len(stored.data)
        rec = (1, float(number), 3)
        data += header(size, previous, IMU, rec, stored.compression, stored.nbytes) + stored.data
        previous = size
    return bytes(data)


GOOD = payload(BAD)
Z, L = zstd(GOOD), lz4(GOOD)
META_NBYTES = len(GOOD) - 80 - 7 - HEIGHT * WIDTH


def with_word(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


# Faults of the stored bytes: the record cannot be read at all.
UNREADABLE: dict[str, Stored] = {
    "zstd cut": Stored(Z[:-9], 2, len(GOOD)),
    "zstd cut to its header": Stored(Z[:6], 2, len(GOOD)),
    "zstd magic": Stored(b"\0" + Z[1:], 2, len(GOOD)),
    "zstd larger than said": Stored(Z, 2, len(GOOD) - 1),
    "zstd smaller than said": Stored(Z, 2, len(GOOD) + 1),
    "zstd said to be empty": Stored(Z, 2, 0),
    "zstd block of another type": Stored(with_word(Z, 6, 0xFFFFFFFF), 2, len(GOOD)),
    "zstd twice": Stored(zstd(GOOD[:400]) + zstd(GOOD[400:]), 2, len(GOOD)),
    "zstd and more": Stored(Z + b"\0", 2, len(GOOD)),
    "zstd said to be lz4": Stored(Z, 1, len(GOOD)),
    "zstd of another size in its header": Stored(with_word(Z, 5, 0x10), 2, len(GOOD)),
    "lz4 cut": Stored(L[:-9], 1, len(GOOD)),
    "lz4 without its end": Stored(L[:-8], 1, len(GOOD)),
    "lz4 magic": Stored(b"\0" + L[1:], 1, len(GOOD)),
    "lz4 larger than said": Stored(L, 1, len(GOOD) - 1),
    "lz4 smaller than said": Stored(L, 1, len(GOOD) + 1),
    "lz4 bit of the content": Stored(L[:60] + bytes([L[60] ^ 1]) + L[61:], 1, len(GOOD)),
    "lz4 twice": Stored(lz4(GOOD[:400]) + lz4(GOOD[400:]), 1, len(GOOD)),
    "lz4 said to be zstd": Stored(L, 2, len(GOOD)),
    "nothing there": Stored(b"", 2, len(GOOD)),
}


def silent(found: Any) -> bool:
    """Return whether an array is all zeros, which no block here is."""
    return found is not None and np.asarray(found).size > 0 and not np.asarray(found).any()


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[Stored], tuple[Any, Any]]:
    """Return the recording of a fault, opened by our API and by that of pyvrs."""

    def make(damaged: Stored) -> tuple[Any, Any]:
        path = tmp_path / "a.vrs"
        path.write_bytes(recording(damaged))
        return vrs.open(path, nthreads=1), pyvrs.SyncVRSReader(path)

    return make


def check_others(found: Any) -> None:
    for number in range(8):
        if number != BAD:
            assert found[number].payload == payload(number)
            assert found[number].metadata_blocks[0]["count"] == number + 1


def test_sound(opened: Callable[[Stored], tuple[Any, Any]]) -> None:
    for stored in (Stored(Z, 2, len(GOOD)), Stored(L, 1, len(GOOD)), Stored(GOOD, 0, 0)):
        found, reader = opened(stored)
        assert found[BAD].payload == GOOD
        assert not any(silent(block.array()) for block in found[BAD].blocks[1:])
        assert reader[BAD].metadata_blocks[0] == found[BAD].metadata_blocks[0]
        assert np.array_equal(reader[BAD].image_blocks[0], found[BAD].image_blocks[0])


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_record_that_cannot_be_read(
    name: str, opened: Callable[[Stored], tuple[Any, Any]]
) -> None:
    found, reader = opened(UNREADABLE[name])
    assert len(found) == len(reader) == 8
    stream = found.streams["241-1"]
    for read in (
        lambda: found[BAD],
        lambda: found.read_payload(BAD),
        lambda: list(found),
        found.checksum,
        lambda: stream.field("count"),
        lambda: stream.field("numbers"),
        lambda: stream.field("names"),
        lambda: stream.frames[BAD],
        lambda: stream.frames[:],
        lambda: reader[BAD].metadata_blocks[0],
        lambda: reader[BAD].image_blocks[0],
    ):
        with pytest.raises(ERRORS, match=f"record {BAD} of stream 241-1"):
            read()
    check_others(found)
    assert stream.frames[BAD + 1].shape == (HEIGHT, WIDTH)


SHORT = {
    "nothing at all": (0, ["metadata"]),
    "in the fixed values": (20, ["metadata"]),
    "in the index of the others": (50, ["metadata"]),
    "in a vector": (META_NBYTES - 3, ["metadata"]),
    "no image": (META_NBYTES, ["image"]),
    "in the image": (META_NBYTES + 300, ["image"]),
    "in the custom block": (META_NBYTES + 603, ["custom"]),
    "in a sample": (len(GOOD) - 1, ["audio"]),
}


@pytest.mark.parametrize("compression", [0, 1, 2])
@pytest.mark.parametrize("name", SHORT)
def test_a_record_that_is_too_short(
    name: str, compression: int, opened: Callable[[Stored], tuple[Any, Any]]
) -> None:
    """Whole blocks are returned, a truncated one raises, and no block is filled with zeros."""
    nbytes, kinds = SHORT[name]
    data = GOOD[:nbytes]
    stored = (data, lz4(data), zstd(data))[compression]
    found, reader = opened(Stored(stored, compression, nbytes if compression else 0))
    record = found[BAD]
    assert record.payload == data
    for block in record.blocks:
        read = block.values if block.kind == "metadata" else block.array
        if block.is_whole and block.kind != "unsupported":
            assert not silent(None if block.kind == "metadata" else read())
            continue
        with pytest.raises(ERRORS):
            read()
    # The last one is truncated.
    last = record.blocks[-1]
    assert last.kind in (*kinds, "unsupported")
    assert not last.is_whole or last.kind == "unsupported"
    assert record.note is not None
    assert len(record.blocks) == 1 + ["metadata", "image", "custom", "audio"].index(kinds[0])
    for name_ in ("image", "custom", "audio"):
        blocks = getattr(reader[BAD], f"{name_}_blocks")
        for k in range(len(blocks)):
            with suppress(*ERRORS):
                assert not silent(blocks[k]), name_
    stream = found.streams["241-1"]
    if kinds == ["metadata"]:
        with pytest.raises(ERRORS, match=f"record {BAD} of stream 241-1"):
            stream.field("names")
    if kinds in (["metadata"], ["image"]):
        with pytest.raises(ERRORS, match=f"record {BAD}"):
            stream.frames[:]
    check_others(found)


@pytest.mark.parametrize(
    ("at", "value"),
    [(44, 1 << 20), (48, 1 << 20), (44, 0xFFFFFFFF), (48, 0xFFFFFFFF), (60, 0xFFFFFFFF)],
)
def test_an_index_of_metadata_that_leads_out_of_it(
    at: int, value: int, opened: Callable[[Stored], tuple[Any, Any]]
) -> None:
    """Offset or length of an entry, and a count; the remaining values are those of the record."""
    damaged = with_word(GOOD, at, value)
    found, reader = opened(Stored(zstd(damaged), 2, len(damaged)))
    record = found[BAD]
    for values in (
        lambda: record.metadata_blocks[0],
        lambda: record.blocks[0].values(),
        lambda: reader[BAD].metadata_blocks[0],
    ):
        try:
            read = values()
        except ERRORS:
            continue
        assert read["count"] == BAD + 1
        assert read.get("names") in (None, ["a", "bc"])
    check_others(found)


def test_an_unknown_piece_shifts_no_value(tmp_path: Path) -> None:
    """The reference drops the piece, and reads the next one from its place."""
    text = META.replace('"DataPieceValue<uint32_t>"', '"DataPieceValue<uint128_t>"')
    streams = {IMU: {"user": {}, "vrs": {"RF:Data:1": "data_layout", "DL:Data:1:0": text}}}
    built = build([Rec(0.0, GOOD)], streams=streams)
    with vrs.open(bytes(built.data)) as found:
        assert found[0].metadata_blocks == ({},)
        assert "size unknown" in found[0].note
        with pytest.raises(UnsupportedError, match="numbers"):
            found.streams["241-1"].field("numbers")


def test_of_records_that_are_lost_nothing_is_said(tmp_path: Path) -> None:
    """An index with too small a count, and one with too large a size."""
    records = [Rec(float(k), b"payload %d" % k) for k in range(25)]
    built = build(records)
    for count in (0, 20):
        data = bytearray(built.data)
        struct.pack_into("<I", data, built.index_offset + 32 + 10, count)
        with vrs.open(bytes(data)) as found:
            assert len(found) == 25
            assert found.report.index_fault is not None
    data = bytearray(built.data)
    struct.pack_into("<I", data, built.index_offset + 32 + 14 + 19 * 7 + 8, 5000)
    with vrs.open(bytes(data)) as found:
        assert [record.payload for record in found] == [rec.payload for rec in records]


def test_a_short_image_in_a_file_that_ends(opened: Callable[[Stored], tuple[Any, Any]]) -> None:
    """The last record is truncated with the file: it is lost, and reported."""
    data = recording(Stored(GOOD, 0, 0))
    with vrs.open(data[:-40]) as found:
        assert len(found) == 7
        assert found.report.gaps[0].nbytes > 0
    with pytest.raises(TruncatedError):
        vrs.open(data[:70])
