"""Units of an AV1 stream, and the form of the pictures from its sequence header.

AV1 Bitstream & Decoding Process Specification (2019): 5.3 (units), 5.5 (sequence header).
"""

from typing import NamedTuple

from ...exceptions import FormatError, TruncatedError
from .bitreader import BitReader
from .videosequence import AV1, MATRIX_RGB, MATRIX_UNSPECIFIED, PictureInfo

# Types of units: section 6.2.2.
OBU_SEQUENCE_HEADER, OBU_TEMPORAL_DELIMITER, OBU_FRAME_HEADER, OBU_FRAME = 1, 2, 3, 6
_MAX_NBYTES = 8192
# Sizes are LEB128 numbers of at most 8 bytes: section 4.10.5.
_MAX_SIZE_NBYTES = 8
# Code points of ITU-T H.273; the two together with MATRIX_RGB mean sRGB.
_BT709_PRIMARIES, _SRGB_TRANSFER = 1, 13


class Av1Sequence(NamedTuple):
    """Fields of an AV1 sequence header that the decoder configuration repeats.

    Attributes
    ----------
    picture : PictureInfo
        The form of the pictures.
    profile, level, tier : int
        seq_profile, and level and tier of the first operating point.
    sample_position : int
        chroma_sample_position.
    subsampling : int
        subsampling_x and subsampling_y, bits 1 and 0.
    """

    picture: PictureInfo
    profile: int
    level: int
    tier: int
    sample_position: int
    subsampling: int


class Obu(NamedTuple):
    """A unit of an AV1 stream.

    Attributes
    ----------
    kind : int
        obu_type.
    data : bytes
        The whole unit: header, size if present, payload.
    payload_offset : int
        Offset of the payload in `data`.
    """

    kind: int
    data: bytes
    payload_offset: int


def split_obus(stream: bytes) -> list[Obu]:
    """Return the units of a stream.

    Parameters
    ----------
    stream : bytes
        Units in the low-overhead format; each has its size, which the last one may omit.

    Returns
    -------
    list of Obu

    Raises
    ------
    FormatError, TruncatedError
        A unit extends beyond the stream.
    """
    found, at = [], 0
    while at < len(stream):
        start, header = at, stream[at]
        if header & 0x80:
            raise FormatError(f"AV1 stream: byte {at} does not start a unit", offset=at)
        at += 2 if header & 0x04 else 1
        end = len(stream)
        if header & 0x02:
            size, at = _size(stream, at)
            end = at + size
        if end > len(stream) or at > len(stream):
            raise TruncatedError(
                f"AV1 stream: the unit at byte {start} ends at {end}, beyond {len(stream)} bytes",
                offset=start,
            )
        found.append(Obu(header >> 3 & 0x0F, stream[start:end], at - start))
        at = end
    return found


def _size(stream: bytes, at: int) -> tuple[int, int]:
    """Read a LEB128 number; return it and its end."""
    value = 0
    for index, byte in enumerate(stream[at : at + _MAX_SIZE_NBYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, at + index + 1
    raise FormatError(f"AV1 stream: invalid size at byte {at}", offset=at)


def unpack_av1_sequence(unit: Obu) -> Av1Sequence:
    """Parse an AV1 sequence header.

    Parameters
    ----------
    unit : Obu
        Of type OBU_SEQUENCE_HEADER.

    Returns
    -------
    Av1Sequence
        Its picture has the largest size that the sequence allows; frames may be smaller.

    Raises
    ------
    FormatError, TruncatedError
        The header is malformed.
    """
    what = "sequence header of AV1"
    if unit.kind != OBU_SEQUENCE_HEADER:
        raise FormatError(f"{what}: the unit has type {unit.kind}", field="obu_type")
    if len(unit.data) > _MAX_NBYTES:
        raise FormatError(f"{what}: {len(unit.data)} bytes, at most {_MAX_NBYTES} are allowed")
    reader = BitReader(unit.data[unit.payload_offset :], what)
    profile = reader.bits(3)
    if profile > 2:
        raise FormatError(f"{what}: profile {profile} does not exist", field="seq_profile")
    reader.skip(1)
    is_reduced = reader.flag()
    level, tier = (reader.bits(5), 0) if is_reduced else _operating_point(reader)
    width_bits, height_bits = 1 + reader.bits(4), 1 + reader.bits(4)
    width, height = 1 + reader.bits(width_bits), 1 + reader.bits(height_bits)
    _skip_av1_tools(reader, is_reduced)
    depth, chroma, full_range, matrix, position = _av1_colours(reader, profile)
    picture = PictureInfo(AV1, width, height, width, height, depth, chroma, full_range, matrix)
    subsampling = (3, 3, 2, 0)[chroma]
    return Av1Sequence(picture, profile, level, tier, position, subsampling)


def _operating_point(reader: BitReader) -> tuple[int, int]:
    """Read timing and operating points; return level and tier of the first operating point."""
    delay_bits, has_model = 0, False
    if reader.flag():
        reader.skip(64)
        if reader.flag():
            reader.unsigned((1 << 32) - 1, "num_ticks_per_picture_minus_1")
        has_model = reader.flag()
        if has_model:
            delay_bits = 1 + reader.bits(5)
            reader.skip(32 + 5 + 5)
    has_delays = reader.flag()
    first = None
    for _ in range(1 + reader.bits(5)):
        reader.skip(12)
        level = reader.bits(5)
        tier = reader.bits(1) if level > 7 else 0
        if has_model and reader.flag():
            reader.skip(2 * delay_bits + 1)
        if has_delays and reader.flag():
            reader.skip(4)
        first = first or (level, tier)
    return first or (0, 0)


def _skip_av1_tools(reader: BitReader, is_reduced: bool) -> None:
    """Skip the fields between size and colours."""
    if not is_reduced and reader.flag():
        reader.skip(4 + 3)
    reader.skip(3)
    if not is_reduced:
        reader.skip(4)
        has_order = reader.flag()
        if has_order:
            reader.skip(2)
        # seq_choose_screen_content_tools, or the choice; then the same for integer motion vectors.
        tools = 2 if reader.flag() else reader.bits(1)
        if tools and not reader.flag():
            reader.skip(1)
        if has_order:
            reader.skip(3)
    reader.skip(3)


def _av1_colours(reader: BitReader, profile: int) -> tuple[int, int, bool, int, int]:
    """Read color_config; return (depth, chroma, full range, matrix, position of chroma)."""
    depth = 8
    if reader.flag():
        depth = 12 if profile == 2 and reader.flag() else 10
    is_grey = profile != 1 and reader.flag()
    primaries, transfer, matrix = 2, 2, MATRIX_UNSPECIFIED
    if reader.flag():
        primaries, transfer, matrix = reader.bits(8), reader.bits(8), reader.bits(8)
    if is_grey:
        return depth, 0, reader.flag(), matrix, 0
    if (primaries, transfer, matrix) == (_BT709_PRIMARIES, _SRGB_TRANSFER, MATRIX_RGB):
        return depth, 3, True, matrix, 0
    full_range = reader.flag()
    chroma = (1, 3, 2)[profile]
    if profile == 2 and depth == 12:
        chroma = 3
        if reader.flag():
            chroma = 1 if reader.flag() else 2
    position = reader.bits(2) if chroma == 1 else 0
    return depth, chroma, full_range, matrix, position
