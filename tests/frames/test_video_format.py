"""Packets of a group and the header of a clip: every value comes back, any bytes are refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import BloscpackError, FormatError, TruncatedError, UnsupportedError
from bloscpack.frames.video.format import (
    Colour,
    Packet,
    PacketTable,
    VideoCodec,
    VideoHeader,
    decoded_for_each,
    join_text,
    needed_packets,
    pack_group,
    pack_numbers,
    split_text,
    unpack_group,
    unpack_numbers,
)

NUMBERS = st.lists(st.integers(-(1 << 50), 1 << 50), min_size=1, max_size=40)


def header(nframes: int = 4, **changes: object) -> VideoHeader:
    fields: dict[str, object] = {
        "codec": VideoCodec.H264,
        "width": 64,
        "height": 48,
        "time_base": Fraction(1, 12800),
        "pixel_aspect": Fraction(4, 3),
        "cost": 736,
        "colour": Colour(1, 1, 13, 6),
        "tag": b"avc1",
        "matrix": (0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30),
        "pixel_format": "yuv420p",
        "extradata": b"\1\2\3\xff\xe1",
        "times": np.arange(nframes) * 512 - 1024,
    }
    return VideoHeader(**(fields | changes))  # type: ignore[arg-type]


def group() -> bytes:
    packets = [
        Packet(b"key", 1000, -512, 512, is_key=True),
        Packet(b"P" * 300, 2536, 0, 512, is_key=False),
        Packet(b"b", 1512, 512, 512, is_key=False),
        Packet(b"bb", 2024, 1030, 518, is_key=False),
    ]
    return pack_group(packets, [0, 3, 1, 2], [False, False, True, True])


class TestNumbers:
    @given(NUMBERS)
    def test_a_column_comes_back(self, numbers: list[int]) -> None:
        packed = pack_numbers(np.array(numbers))
        found, end = unpack_numbers(b"xx" + packed + b"y", 2, len(numbers), "column")
        assert found.tolist() == numbers
        assert end == 2 + len(packed)

    @given(NUMBERS)
    def test_a_prefix_is_refused(self, numbers: list[int]) -> None:
        packed = pack_numbers(np.array(numbers))
        for size in range(len(packed)):
            with pytest.raises(TruncatedError):
                unpack_numbers(packed[:size], 0, len(numbers), "column")

    def test_equal_distances_take_few_bytes(self) -> None:
        assert len(pack_numbers(np.arange(10**6) * 512)) == 5
        assert len(pack_numbers(np.array([5]))) == 3

    @pytest.mark.parametrize("unit", [1 << 62, -(1 << 63)])
    def test_sums_do_not_overflow(self, unit: int) -> None:
        packed = b"\1" + unit.to_bytes(8, "little", signed=True) + bytes(8) + b"\x7f\x7f"
        with pytest.raises(FormatError, match="out of its range"):
            unpack_numbers(packed, 0, 3, "column")


class TestGroup:
    def test_packets_come_back(self) -> None:
        table, packets = unpack_group(memoryview(group()), 4)
        assert [bytes(each) for each in packets] == [b"key", b"P" * 300, b"b", b"bb"]
        assert table.ranks == [0, 3, 1, 2]
        assert table.disposable == [False, False, True, True]
        assert table.dts.tolist() == [-1512, -1000, -488, 30]
        assert table.durations.tolist() == [512, 512, 512, 518]

    def test_every_prefix_and_every_other_count_is_refused(self) -> None:
        stored = group()
        for size in range(len(stored)):
            with pytest.raises(FormatError):
                unpack_group(stored[:size], 4)
        for count in (0, 1, 3, 5, 255):
            with pytest.raises(FormatError):
                unpack_group(stored, count)

    @given(st.integers(0, len(group()) - 1), st.integers(1, 255))
    def test_a_change_gives_a_table_or_an_error(self, at: int, change: int) -> None:
        stored = bytearray(group())
        stored[at] ^= change
        try:
            table, packets = unpack_group(bytes(stored), 4)
        except FormatError:
            return
        assert sorted(table.ranks) == [0, 1, 2, 3]
        assert sum(map(len, packets)) <= len(stored)

    def test_needed_packets_leave_out_what_nothing_depends_on(self) -> None:
        table, _ = unpack_group(group(), 4)
        assert needed_packets(table, {0}) == [0]
        assert needed_packets(table, {3}) == [0, 1]
        assert needed_packets(table, {1}) == [0, 1, 2]
        assert needed_packets(table, {2}) == [0, 1, 3]
        assert needed_packets(table, None) == [0, 1, 2, 3]
        assert decoded_for_each(table.ranks, table.disposable) == 1 + 2 + 3 + 3


class TestHeader:
    @pytest.mark.parametrize(
        "made",
        [
            header(),
            header(matrix=(), pixel_aspect=Fraction(0), extradata=b"", pixel_format=""),
            header(times=np.array([0, 33, 67, 100]), codec=VideoCodec.AV1),
            header(1, times=np.array([7])),
        ],
    )
    def test_a_header_comes_back(self, made: VideoHeader) -> None:
        found = VideoHeader.unpack(made.pack(), len(made.times))
        assert found.times.tolist() == made.times.tolist()
        names = [name for name in VideoHeader.__slots__ if name != "times"]
        assert [getattr(found, n) for n in names] == [getattr(made, n) for n in names]

    def test_every_prefix_and_trailing_byte_is_refused(self) -> None:
        packed = header().pack()
        for size in range(len(packed)):
            with pytest.raises(FormatError):
                VideoHeader.unpack(packed[:size], 4)
        with pytest.raises(FormatError, match="bytes follow"):
            VideoHeader.unpack(packed + b"\0", 4)

    @pytest.mark.parametrize(
        ("at", "value", "error"),
        [
            (0, 2, UnsupportedError),  # version
            (1, 9, UnsupportedError),  # codec
            (2, 2, UnsupportedError),  # flags
            (7, 255, FormatError),  # width
            (4, 0, FormatError),
            (12, 0, FormatError),  # time base
        ],
    )
    def test_fields_are_checked(self, at: int, value: int, error: type[Exception]) -> None:
        packed = bytearray(header().pack())
        packed[at] = value
        with pytest.raises(error):
            VideoHeader.unpack(packed, 4)

    def test_times_that_do_not_ascend_are_refused(self) -> None:
        with pytest.raises(FormatError, match="ascend"):
            VideoHeader.unpack(header(times=np.array([0, 5, 5, 6])).pack(), 4)

    @given(st.integers(0, len(header().pack()) - 1), st.integers(1, 255))
    def test_a_change_gives_a_header_or_an_error(self, at: int, change: int) -> None:
        packed = bytearray(header().pack())
        packed[at] ^= change
        try:
            found = VideoHeader.unpack(bytes(packed), 4)
        except BloscpackError:
            return
        assert len(found.times) == 4

    def test_json_ends_at_a_nul(self) -> None:
        assert split_text(join_text(b"{}", b"a\0b")) == (b"{}", b"a\0b")


def test_a_table_needs_as_many_ranks_as_frames() -> None:
    with pytest.raises(FormatError, match="one packet"):
        PacketTable.unpack(
            PacketTable([1, 1], [0, 0], [False, False], np.zeros(2, int), np.zeros(2, int)).pack()
            + b"xx",
            2,
        )
