"""Boxes stay within their parents and tables within their boxes; nesting and sizes are bounded."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.mp4 import boxes
from bloscpack.benzina.mp4.bmff import (
    CHUNK_RUN,
    MAX_DEPTH,
    UINT32,
    UINT64,
    BoxHeader,
    Table,
    Window,
    children,
    find_boxes,
    pack_box,
    pack_full_box,
    pack_large_header,
    reader_of,
    unpack_header,
    unpack_table,
    walk,
)
from bloscpack.exceptions import BloscpackError, FormatError, TruncatedError
from bloscpack.types import BytesLike

from .making import nested


def listed(data: bytes, *, to_end: bool = False) -> list[BoxHeader]:
    return list(children(reader_of(data), 0, len(data), to_end=to_end))


def test_headers_of_both_widths() -> None:
    small, large = pack_box(b"free", b"abc"), pack_large_header(b"mdat", 19) + b"abc"
    assert small == bytes.fromhex("0000000b 66726565") + b"abc"
    assert large == bytes.fromhex("00000001 6d646174 0000000000000013") + b"abc"
    assert listed(small + large) == [(b"free", 0, 8, 11), (b"mdat", 11, 16, 19)]
    assert [(box.payload_offset, box.end) for box in listed(small + large)] == [(8, 11), (27, 30)]


def test_a_size_of_0_is_for_the_last_outermost_box() -> None:
    data = pack_box(b"free") + bytes(4) + b"mdat" + bytes(5)
    assert listed(data, to_end=True)[-1] == (b"mdat", 8, 8, 13)
    with pytest.raises(FormatError, match=r"'mdat' at offset 8: size 0 is less than the 8"):
        listed(data)
    inside = pack_box(b"moov", data)
    with pytest.raises(FormatError, match="'mdat' at offset 16"):
        list(walk(reader_of(inside), 0, len(inside), to_end=True))


@pytest.mark.parametrize(
    ("data", "offset", "message"),
    [
        (b"\0\0\0\x07free", 0, "size 7 is less than the 8 bytes of its header"),
        (b"\0\0\0\x09free", 0, "size 9 exceeds the 8 bytes left"),
        (b"\xff\xff\xff\xfffree", 0, "4294967295 exceeds the 8 bytes"),
        (pack_box(b"free") + b"\0\0\0\x08fre", 8, "found 7 of 8 bytes"),
        (b"\0\0\0\x01free" + bytes(7), 0, "found 15 of 16 bytes"),
        (b"\0\0\0\x01free" + bytes(8), 0, "size 0 is less than the 16 bytes"),
        (b"\0\0\0\x01free" + b"\0\0\0\0\0\0\0\x0f", 0, "size 15 is less than the 16"),
        (b"\0\0\0\x01free" + b"\xff" * 8, 0, "18446744073709551615 exceeds the 16 bytes"),
        (b"\0\0\0\x01free" + b"\x7f" + b"\xff" * 7, 0, "9223372036854775807 exceeds"),
    ],
)
def test_wrong_sizes(data: bytes, offset: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        listed(data)
    assert caught.value.offset == offset


def test_every_cut_of_a_header() -> None:
    data = pack_large_header(b"mdat", 16)
    for end in range(1, 16):
        with pytest.raises(TruncatedError):
            unpack_header(data[:end], 0, 0, 16)
    assert unpack_header(b"xx" + data, 2, 100, 116) == (b"mdat", 100, 16, 16)


def test_boxes_that_overlap_or_go_round() -> None:
    """A child never extends beyond its parent, not even by a byte; offsets never go back."""
    inner = b"\0\0\0\x0afree" + b"x"
    data = pack_box(b"moov", inner) + b"x"
    with pytest.raises(FormatError, match="10 exceeds the 9 bytes"):
        list(walk(reader_of(data), 0, len(data)))
    # 2**64 - 8 after the box is the byte before it.
    back = pack_box(b"free") + b"\0\0\0\x01free" + (2**64 - 8).to_bytes(8, "big")
    with pytest.raises(FormatError, match="exceeds"):
        listed(back)


def test_walk_gives_paths() -> None:
    data = pack_box(b"moov", pack_box(b"trak", pack_box(b"udta", b"no box")), pack_box(b"free"))
    data = pack_box(b"ftyp", b"isom") + data + pack_box(b"moov")
    found = [(path, box.kind, box.offset) for path, box in walk(reader_of(data), 0, len(data))]
    assert found == [
        ((), b"ftyp", 0),
        ((), b"moov", 12),
        ((b"moov",), b"trak", 20),
        ((b"moov", b"trak"), b"udta", 28),
        ((b"moov",), b"free", 42),
        ((), b"moov", 50),
    ]


@pytest.mark.parametrize("kind", [b"moov", b"trak", b"stbl"])
def test_depth_is_bounded(kind: bytes) -> None:
    data = nested(kind, MAX_DEPTH)
    assert len(list(walk(reader_of(data), 0, len(data)))) == MAX_DEPTH
    deep = nested(kind, 20_000)
    with pytest.raises(FormatError, match="more than 32 containers") as caught:
        list(walk(reader_of(deep), 0, len(deep)))
    assert caught.value.offset == 8 * MAX_DEPTH


def test_find_boxes_checks_all() -> None:
    data = pack_box(b"stco", b"1") + pack_box(b"free") + pack_box(b"stco", b"2")
    found = find_boxes(reader_of(data), 0, len(data), b"stco", b"co64")
    assert found == {b"stco": (b"stco", 0, 8, 9)}
    with pytest.raises(FormatError):
        find_boxes(reader_of(data + b"x"), 0, len(data) + 1, b"stco")


def reads_of(data: bytes, kinds: frozenset[bytes] | None = None) -> tuple[list[BoxHeader], list]:
    """Return the boxes of `data`, and the reads that were used to find them."""
    reads, read = [], reader_of(data)

    def counting(offset: int, nbytes: int) -> BytesLike:
        reads.append((offset, nbytes))
        return read(offset, nbytes)

    return list(children(counting, 0, len(data), kinds)), reads


def test_many_boxes_are_read_in_blocks() -> None:
    data = pack_box(b"free") * 20_000
    found, reads = reads_of(data)
    assert [box.offset for box in found] == list(range(0, 160_000, 8))
    # One by one at first, then 64 KiB at a time.
    assert reads[:17] == [(8 * k, 16) for k in range(16)] + [(128, 65_536)]
    assert len(reads) == 16 + 3
    apart = b"".join(pack_box(b"mdat", bytes(1 << 18)) for _ in range(40))
    assert {nbytes for _, nbytes in reads_of(apart)[1]} == {16}


def test_boxes_of_any_size_in_blocks() -> None:
    rng = Random(1)
    sizes = [0, 0, 1, 7, 8, 9, 100, 5000, 65_520, 65_536]
    parts, expected, at = [], [], 0
    for k in range(600):
        kind, payload = b"%04d" % (k % 7), bytes(rng.choice(sizes))
        large = rng.random() < 0.3
        head = pack_large_header(kind, 16 + len(payload)) if large else pack_box(kind)
        part = head + payload if large else pack_box(kind, payload)
        parts.append(part)
        expected.append(BoxHeader(kind, at, 16 if large else 8, len(part)))
        at += len(part)
    data = b"".join(parts)
    assert listed(data) == expected
    some = frozenset((b"0002", b"0005"))
    assert reads_of(data, some)[0] == [box for box in expected if box.kind in some]
    # A damaged box raises an error even if its type is not requested.
    for box in (expected[300], expected[-1]):
        damaged = bytearray(data)
        damaged[box.offset : box.offset + 4] = b"\0\0\0\7"
        with pytest.raises(FormatError, match="7 is less than") as caught:
            list(children(reader_of(damaged), 0, len(damaged), {b"0000"}))
        assert caught.value.offset == box.offset
    ends = {box.end for box in expected}
    for nbytes in range(len(data) - 300, len(data)):
        if nbytes not in ends:
            with pytest.raises(FormatError):
                listed(data[:nbytes])


def test_a_window_reads_in_runs() -> None:
    data = bytes(range(256)) * 8
    calls: list[tuple[int, int]] = []

    def read_at(offset: int, nbytes: int) -> bytes:
        calls.append((offset, nbytes))
        return data[offset : offset + nbytes]

    read = Window(read_at, 256)
    assert bytes(read(3, 4)) == data[3:7]
    assert bytes(read(250, 9)) == data[250:259]
    assert calls == [(3, 256)]
    assert bytes(read(0, 2)) == data[:2]
    assert bytes(read(1000, 700)) == data[1000:1700]
    assert calls == [(3, 256), (0, 256), (1000, 700)]
    assert bytes(read(2040, 8)) == data[2040:]
    with pytest.raises(TruncatedError, match="9 bytes needed at offset 2040, found 8") as caught:
        read(2040, 9)
    assert caught.value.offset == 2040
    with pytest.raises(TruncatedError, match="found 0"):
        reader_of(data)(5000, 1)


def test_tables_are_bounded_by_their_box() -> None:
    def table(count: int, nbytes: int, dtype: np.dtype[Any] = UINT32) -> Table:
        data = pack_full_box(b"stco", 0, 0, count.to_bytes(4, "big"), bytes(nbytes))
        return unpack_table(reader_of(data), listed(data)[0], dtype)

    assert table(2, 8) == Table(16, 2, UINT32)
    assert table(2, 11) == Table(16, 2, UINT32)
    assert table(0, 0).nbytes == 0
    assert table(1, 8, UINT64).nbytes == 8
    assert table(1, 12, CHUNK_RUN).nbytes == 12
    for count, nbytes in ((3, 11), (2**32 - 1, 100), (1, 0)):
        with pytest.raises(FormatError, match=rf"{count} entries of 4 bytes exceed the {nbytes}"):
            table(count, nbytes)
    for end in range(8, 16):
        data = pack_box(b"stco", bytes(end - 8))
        with pytest.raises(TruncatedError):
            unpack_table(reader_of(data), listed(data)[0], UINT32)


numbers = st.integers(0, 2**32 - 1)
PAIRS: list[tuple[Callable[..., Any], Callable[..., Any], Any]] = [
    (
        boxes.pack_mvhd,
        boxes.unpack_mvhd,
        st.builds(boxes.MovieHeader, numbers, numbers, numbers),
    ),
    (
        boxes.pack_tkhd,
        boxes.unpack_tkhd,
        st.builds(boxes.TrackHeader, st.integers(0, 2**24 - 1), *[numbers] * 4),
    ),
    (boxes.pack_mdhd, boxes.unpack_mdhd, st.builds(boxes.MediaHeader, numbers, numbers)),
]


@pytest.mark.parametrize(("pack", "unpack", "values"), PAIRS, ids=["mvhd", "tkhd", "mdhd"])
def test_headers_of_movies_and_tracks(
    pack: Callable[..., bytes], unpack: Callable[[bytes], Any], values: Any
) -> None:
    @given(values, st.integers(0, 2**32))
    def check(value: Any, more: int) -> None:
        assert unpack(pack(value)[8:]) == value
        long = value._replace(duration=value.duration + (more << 31))
        assert unpack(pack(long, version=1)[8:]) == long

    check()
    value = unpack(bytes(120))
    for version in (0, 1):
        stored = pack(value, version=version)
        assert stored[8] == version
        for end in range(8, len(stored)):
            with pytest.raises(TruncatedError):
                unpack(stored[8:end])
    with pytest.raises(FormatError, match="version 2, expected 0 or 1"):
        unpack(b"\2" + bytes(119))
    with pytest.raises(ValueError, match="a duration of 4294967296 exceeds"):
        pack(value._replace(duration=2**32))


def test_known_headers() -> None:
    """Written by hand according to ISO/IEC 14496-12."""
    unity = "00010000" + "00" * 12 + "00010000" + "00" * 12 + "40000000"
    assert boxes.pack_mvhd(boxes.MovieHeader(20, 60, 5), volume=0x100) == bytes.fromhex(
        "0000006c6d766864 00000000 00000000 00000000 00000014 0000003c 00010000 0100"
        + "00" * 10
        + unity
        + "00" * 24
        + "00000005"
    )
    assert boxes.pack_tkhd(boxes.TrackHeader(3, 4, 20, 512 << 16, 1), version=1) == bytes.fromhex(
        "00000068746b6864 01000003"
        + "00" * 16
        + "00000004 00000000 0000000000000014"
        + "00" * 16
        + unity
        + "02000000 00000001"
    )


@given(st.binary(min_size=4, max_size=4), st.binary(max_size=40))
def test_handlers(kind: bytes, name: bytes) -> None:
    name = name.replace(b"\0", b"")
    stored = boxes.pack_hdlr(boxes.Handler(kind, name))
    assert boxes.unpack_hdlr(stored[8:]) == (kind, name)
    assert boxes.unpack_hdlr(stored[8:-1]) == (kind, name)
    assert boxes.unpack_hdlr(stored[8:] + b"rest") == (kind, name)


def test_cut_handlers_and_entries() -> None:
    for end in range(24):
        with pytest.raises(TruncatedError):
            boxes.unpack_hdlr(bytes(end))
    for end in range(78):
        with pytest.raises(TruncatedError):
            boxes.unpack_visual(bytes(end))
    for end in range(8):
        with pytest.raises(TruncatedError):
            boxes.unpack_mett(bytes(end))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (b"", (b"", b"")),
        (b"\0", (b"", b"")),
        (b"gzip", (b"gzip", b"")),
        (b"\0text/plain\0", (b"", b"text/plain")),
        (b"gzip\0text/plain", (b"gzip", b"text/plain")),
        (b"\0text/plain\0\0\0\0\x08free", (b"", b"text/plain")),
    ],
)
def test_texts_of_metadata_entries(stored: bytes, expected: tuple[bytes, bytes]) -> None:
    assert boxes.unpack_mett(bytes(8) + stored) == expected


@given(st.integers(0, 65535), st.integers(0, 65535), st.binary(max_size=31))
def test_visual_entries(width: int, height: int, compressor: bytes) -> None:
    entry = boxes.VisualEntry(width, height, compressor)
    stored = boxes.pack_visual(b"hvc1", entry, pack_box(b"free"))
    assert len(stored) == 8 + 78 + 8
    assert boxes.unpack_visual(stored[8:]) == entry


def test_visual_entries_refuse_large_values() -> None:
    for entry in (boxes.VisualEntry(65536, 1, b""), boxes.VisualEntry(1, 1, b"x" * 32)):
        with pytest.raises(ValueError, match="sides may be at most 65535"):
            boxes.pack_visual(b"hvc1", entry)
    # A wrong length is limited to the end of the field.
    stored = bytearray(boxes.pack_visual(b"hvc1", boxes.VisualEntry(1, 1, b"x" * 31)))
    stored[8 + 42] = 255
    assert boxes.unpack_visual(bytes(stored[8:])).compressor == b"x" * 31


@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    unpackers = (
        boxes.unpack_mvhd,
        boxes.unpack_tkhd,
        boxes.unpack_mdhd,
        boxes.unpack_hdlr,
        boxes.unpack_mett,
        boxes.unpack_visual,
        boxes.unpack_brands,
        lambda data: list(walk(reader_of(data), 0, len(data), to_end=True)),
        lambda data: list(walk(reader_of(pack_box(b"moov", data)), 0, len(data) + 8)),
    )
    for unpack in unpackers:
        try:
            unpack(data)
        except FormatError:
            continue
        except BloscpackError as err:  # pragma: no cover
            pytest.fail(repr(err))


def test_brands() -> None:
    assert boxes.unpack_brands(boxes.pack_ftyp(b"isom", b"bzna", b"isom")[8:]) == (
        b"isom",
        b"bzna",
        b"isom",
    )
    assert boxes.unpack_brands(b"") == (b"",)
    assert boxes.unpack_brands(b"isom\0\0\0\0bznais") == (b"isom", b"bzna")
