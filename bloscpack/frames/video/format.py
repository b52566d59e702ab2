"""Layout of video in a frame store: the packets of a group, and the header of a clip.

A chunk holds one closed group of pictures::

    chunk  = table packets
    table  = width(1) sizes ranks disposable dts durations

The text of a clip in the index is its JSON, a NUL and a `VideoHeader`. Pure: converts bytes to
values and back, and bounds every count by the bytes that are there. docs/formats/frames.md
describes every field.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from struct import Struct
from typing import NamedTuple, Self

import numpy as np

from ...exceptions import FormatError, TruncatedError, UnsupportedError
from ...format.bytefield import unpack_fields
from ...types import BytesLike, IntArray

MAX_GROUP = 255
"""Frames of a group, whose number is one byte of the index."""
IDENTITY_MATRIX = (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
"""Display matrix of a video that is not turned: 16.16 fixed point, the last column 2.30."""
MAX_PIXELS = 1 << 26
"""Pixels of a frame."""
MAX_TIME = 1 << 62
"""Times and durations, in units of the time base, are smaller than this."""
COST_UNIT = 256
"""Parts of a frame in which the cost of a random frame is stored."""

_VERSION = 1
_HAS_MATRIX = 0x01
# version, codec, flags, nbytes of pixel format; size; time base; sample aspect ratio; cost;
# colours; tag; matrix; nbytes of extradata
_HEADER = Struct("<4B2I2I2II4B4s9iI")
_MATRIX_ITEMS = 9
_CONSTANT = 0x10
_WIDTHS = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}
_RULE = Struct("<2q")  # unit and first number of an uneven column
_MAX_SIZE_WIDTH = 4


class VideoCodec(IntEnum):
    """Codec of the packets of a clip, by FFmpeg's names; stored on disk."""

    H264 = 1
    HEVC = 2
    VP9 = 3
    AV1 = 4

    @property
    def label(self) -> str:
        """Name in lower case."""
        return self.name.lower()


def pack_numbers(numbers: IntArray) -> bytes:
    """Return a column of at least one int64: one byte that says how, then the numbers.

    Numbers at equal distances, as most times are, take the first and the distance. Others take the
    unit of their distances, the first number, and the distances in that unit.
    """
    first = int(numbers[0])
    steps = np.diff(numbers)
    step = int(steps[0]) if len(steps) else 0
    if (steps == step).all():
        width = _width_of(np.array([first, step]))
        return bytes((_CONSTANT | width,)) + np.array([first, step], _WIDTHS[width]).tobytes()
    unit = int(np.gcd.reduce(np.abs(steps)))
    steps //= unit
    width = _width_of(steps)
    return bytes((width,)) + _RULE.pack(unit, first) + steps.astype(_WIDTHS[width]).tobytes()


def _width_of(numbers: IntArray) -> int:
    """Return the width in bytes of the narrowest signed integers that hold all numbers."""
    low, high = int(numbers.min()), int(numbers.max())
    return next(w for w in _WIDTHS if -(1 << 8 * w - 1) <= low and high < 1 << 8 * w - 1)


def unpack_numbers(view: BytesLike, at: int, count: int, what: str) -> tuple[IntArray, int]:
    """Return `count` numbers of a column that starts at `at`, as int64, and where it ends.

    Raises
    ------
    TruncatedError
        The column is longer than the view.
    FormatError
        The column is of an unknown kind, or a number exceeds `MAX_TIME`.
    """
    if at >= len(view):
        raise TruncatedError(f"{what}: it is missing")
    how, at = view[at], at + 1
    width = how & ~_CONSTANT
    if width not in _WIDTHS:
        raise FormatError(f"{what}: unknown kind of column {how:#x}")
    if how & _CONSTANT:
        first, step = (int(each) for each in _items(view, at, 2, width, what))
        if abs(first) + abs(step) * count >= MAX_TIME:
            raise FormatError(f"{what}: a number is out of its range")
        return first + step * np.arange(count, dtype=np.int64), at + 2 * width
    unit, first = unpack_fields(_RULE, view, at, what)
    at += _RULE.size
    steps = _items(view, at, count - 1, width, what).astype(np.int64)
    # The sums of floats have no overflow, and are exact enough for a limit.
    if abs(first) + abs(float(unit)) * float(np.abs(steps.astype(float)).sum()) >= MAX_TIME:
        raise FormatError(f"{what}: a number is out of its range")
    numbers = np.concatenate(([first], first + unit * np.cumsum(steps)))
    return numbers.astype(np.int64), at + (count - 1) * width


def _items(view: BytesLike, at: int, count: int, width: int, what: str) -> IntArray:
    if len(view) - at < count * width:
        raise TruncatedError(f"{what}: {len(view) - at} of {count * width} bytes")
    return np.frombuffer(view, _WIDTHS[width], count, at)


class Packet(NamedTuple):
    """A coded picture, with times in units of the time base."""

    data: BytesLike
    pts: int  # when its frame is shown
    dts: int  # when it is decoded
    duration: int
    is_key: bool  # whether decoding can start with it


@dataclass(frozen=True, slots=True)
class PacketTable:
    """Packets of a group, in the order in which they are decoded."""

    sizes: list[int]  # bytes of each packet
    ranks: list[int]  # place of each packet's frame in the order in which frames are shown
    disposable: list[bool]  # whether no other frame depends on it
    dts: IntArray  # relative to the time of the first frame shown
    durations: IntArray

    def pack(self) -> bytes:
        """Return the bytes."""
        width = max(1, -(-max(self.sizes).bit_length() // 8))
        sizes = np.array(self.sizes, "<u4").view("u1").reshape(-1, 4)[:, :width]
        return b"".join(
            (
                bytes((width,)),
                sizes.T.tobytes(),
                bytes(self.ranks),
                np.packbits(self.disposable, bitorder="little").tobytes(),
                pack_numbers(self.dts),
                pack_numbers(self.durations),
            )
        )

    @classmethod
    def unpack(cls, view: BytesLike, count: int) -> tuple[Self, int]:
        """Return the table of `count` packets at the start of a chunk, and where packets start.

        Raises
        ------
        FormatError
            A field is out of its range, or the sizes are not those of the bytes that follow.
        """
        width = view[0] if len(view) else 0
        at = 1 + count * (width + 1) + -(-count // 8)
        if not 1 <= width <= _MAX_SIZE_WIDTH or not 1 <= count <= MAX_GROUP:
            raise FormatError(f"packets: a table of {count} sizes of {width} bytes", field="width")
        if len(view) < at:
            raise TruncatedError(f"packets: the table has {len(view)} of at least {at} bytes")
        planes = np.frombuffer(view, "u1", count * width, 1).reshape(width, count)
        sizes = sum(planes[k].astype(np.int64) << 8 * k for k in range(width))
        start = 1 + count * width
        ranks = list(view[start : start + count])
        flags = np.frombuffer(view, "u1", -(-count // 8), start + count)
        if sorted(ranks) != list(range(count)):
            raise FormatError("packets: each frame must have one packet", field="ranks")
        disposable = np.unpackbits(flags, count=count, bitorder="little").astype(bool).tolist()
        dts, at = unpack_numbers(view, at, count, "packets: decoding times")
        durations, at = unpack_numbers(view, at, count, "packets: durations")
        nbytes = int(sizes.sum())
        if nbytes != len(view) - at or not sizes.all():
            raise FormatError(
                f"packets: sizes add up to {nbytes} bytes, and {len(view) - at} follow",
                field="sizes",
            )
        return cls(sizes.tolist(), ranks, disposable, dts, durations), at


class Colour(NamedTuple):
    """Code points of ITU-T H.273, and FFmpeg's number of the range."""

    range: int = 0  # 0 unspecified, 1 limited, 2 full
    primaries: int = 2
    transfer: int = 2
    matrix: int = 2


@dataclass(frozen=True, slots=True)
class VideoHeader:
    """Everything that decoding a clip, or writing it to a file, takes."""

    codec: VideoCodec
    # Size of a decoded frame before it is turned, in pixels.
    width: int
    height: int
    time_base: Fraction  # seconds per unit of the times
    pixel_aspect: Fraction  # width of a pixel by its height; 0 if unknown
    cost: int  # mean number of frames decoded for a random frame, in 1/256
    colour: Colour
    tag: bytes  # four characters that a file has for the codec
    matrix: tuple[int, ...]  # display matrix (ISO/IEC 14496-12, tkhd), or empty
    pixel_format: str  # FFmpeg's name
    extradata: bytes  # configuration of the decoder
    times: IntArray  # when each frame is shown, ascending, in units of the time base

    def pack(self) -> bytes:
        """Return the bytes."""
        name = self.pixel_format.encode("ascii")
        return b"".join(
            (
                _HEADER.pack(
                    *(_VERSION, self.codec, _HAS_MATRIX if self.matrix else 0, len(name)),
                    *(self.width, self.height),
                    *self.time_base.as_integer_ratio(),
                    *self.pixel_aspect.as_integer_ratio(),
                    self.cost,
                    *self.colour,
                    self.tag,
                    *(self.matrix or (0,) * _MATRIX_ITEMS),
                    len(self.extradata),
                ),
                name,
                self.extradata,
                pack_numbers(self.times),
            )
        )

    @classmethod
    def unpack(cls, view: BytesLike, nframes: int) -> Self:
        """Unpack the header of a clip of `nframes` frames.

        Raises
        ------
        FormatError
            A field is out of its range.
        UnsupportedError
            The version, the codec or a flag is unknown.
        """
        fields = unpack_fields(_HEADER, view, 0, "video")
        version, codec, flags, name_nbytes, width, height, *numbers = fields[:10]
        cost, *colour, tag = fields[10:16]
        matrix, extradata_nbytes = fields[16:25], fields[25]
        if version != _VERSION or flags & ~_HAS_MATRIX or codec not in list(VideoCodec):
            raise UnsupportedError(
                f"video: version {version}, codec {codec} and flags {flags:#x} are not supported "
                "here"
            )
        # Every second number is a denominator.
        if not 0 < width * height <= MAX_PIXELS or not numbers[0] or not all(numbers[1::2]):
            raise FormatError(
                f"video: {width} x {height} pixels, time base {numbers[0]}/{numbers[1]}",
                field="size",
            )
        at = _HEADER.size
        name, at = bytes(view[at : at + name_nbytes]), at + name_nbytes
        extradata, at = bytes(view[at : at + extradata_nbytes]), at + extradata_nbytes
        if at > len(view) or not name.isascii():
            raise TruncatedError(f"video: the configuration ends at byte {at} of {len(view)}")
        times, at = unpack_numbers(view, at, nframes, "video: times")
        if at != len(view) or (np.diff(times) <= 0).any():
            raise FormatError("video: the times do not ascend, or bytes follow", field="times")
        return cls(
            VideoCodec(codec),
            width,
            height,
            Fraction(numbers[0], numbers[1]),
            Fraction(numbers[2], numbers[3]),
            cost,
            Colour(*colour),
            tag,
            matrix if flags & _HAS_MATRIX else (),
            name.decode("ascii"),
            extradata,
            times,
        )


def pack_group(packets: Sequence[Packet], ranks: list[int], disposable: list[bool]) -> bytes:
    """Return the stored bytes of a group."""
    first = min(packet.pts for packet in packets)
    table = PacketTable(
        [len(packet.data) for packet in packets],
        ranks,
        disposable,
        np.array([packet.dts - first for packet in packets], np.int64),
        np.array([packet.duration for packet in packets], np.int64),
    )
    return table.pack() + b"".join(bytes(packet.data) for packet in packets)


def unpack_group(view: BytesLike, count: int) -> tuple[PacketTable, list[BytesLike]]:
    """Return the table and the packets of a chunk of `count` frames, as parts of `view`."""
    table, at = PacketTable.unpack(view, count)
    packets: list[BytesLike] = []
    for size in table.sizes:
        packets.append(view[at : at + size])
        at += size
    return table, packets


def needed_packets(table: PacketTable, wanted: set[int] | None) -> list[int]:
    """Return the packets to decode, in order, so that the frames of these ranks come out."""
    if wanted is None:
        return list(range(len(table.ranks)))
    last = max(at for at, rank in enumerate(table.ranks) if rank in wanted)
    return [at for at in range(last + 1) if not table.disposable[at] or table.ranks[at] in wanted]


def decoded_for_each(ranks: list[int], disposable: list[bool]) -> int:
    """Return the number of frames decoded for each frame of a group alone, added up."""
    total = references = 0
    for at in range(len(ranks)):
        total += references + 1
        references += not disposable[at]
    return total


def join_text(json: bytes, header: bytes) -> bytes:
    """Return the text of a clip in the index."""
    return json + b"\0" + header


def split_text(text: bytes) -> tuple[bytes, bytes]:
    """Return the JSON and the packed header of a text."""
    json, _, header = text.partition(b"\0")
    return json, header
