"""Decoder configurations of a sample entry, and the units they consist of.

An mp4 stores the parameters of a stream apart from its pictures: ``hvcC`` for H.265 and ``avcC``
for H.264 (ISO/IEC 14496-15: 8.3.3.1 and 5.3.3.1) hold NAL units, ``av1C`` (AV1 Codec ISO Media
File Format Binding, 2.3) holds a sequence header. The payload of a picture is then units, each
preceded by its size. This module neither reads files nor decodes; it checks every size against the
available bytes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from ...exceptions import FormatError, TruncatedError, UnsupportedError
from .av1sequence import (
    OBU_SEQUENCE_HEADER,
    OBU_TEMPORAL_DELIMITER,
    Obu,
    split_obus,
    unpack_av1_sequence,
)
from .videosequence import AV1, H264, HEVC, PictureInfo, unpack_h264_sps, unpack_hevc_sps

HVCC, AVCC, AV1C = b"hvcC", b"avcC", b"av1C"
CODECS = {HVCC: HEVC, AVCC: H264, AV1C: AV1}
# Types of NAL units: H.265 table 7-1, H.264 table 7-1.
HEVC_VPS, HEVC_SPS, HEVC_PPS, HEVC_SEI, HEVC_SEI_SUFFIX = 32, 33, 34, 39, 40
H264_SEI, H264_SPS, H264_PPS = 6, 7, 8
BytesView = TypeVar("BytesView", bytes, memoryview)
_START_CODE = b"\0\0\1"
_NAL_SIZE_NBYTES = 4
DEFAULT_MAX_PIXELS = 1 << 26
# Bytes of hvcC up to numOfArrays, avcC up to numOfSequenceParameterSets, av1C up to configOBUs.
_HVCC_NBYTES, _AVCC_NBYTES, _AV1C_NBYTES = 23, 6, 4
_MAX_UNIT_NBYTES = (1 << 16) - 1


class ParameterSets(NamedTuple):
    """Content of a decoder configuration.

    Attributes
    ----------
    codec : str
        "hevc", "h264" or "av1".
    size_nbytes : int
        Width in bytes of the size before each NAL unit of a payload; 0 for AV1.
    units : tuple of bytes
        NAL units, or OBUs for AV1, in order.
    """

    codec: str
    size_nbytes: int
    units: tuple[bytes, ...]


def split_annexb(stream: bytes) -> list[bytes]:
    """Return the NAL units of a byte stream (H.265 and H.264, annex B).

    Parameters
    ----------
    stream : bytes
        Units preceded by start codes, as encoders return them.

    Returns
    -------
    list of bytes
        The units, without start codes and surrounding zero bytes.
    """
    units = []
    at = stream.find(_START_CODE)
    while at >= 0:
        following = stream.find(_START_CODE, at + 3)
        # A unit never ends with a zero byte.
        unit = stream[at + 3 : following if following >= 0 else len(stream)].rstrip(b"\0")
        if unit:
            units.append(unit)
        at = following
    return units


def join_units(units: Iterable[bytes]) -> bytes:
    """Return NAL units as a payload, each preceded by its size in 4 bytes."""
    return b"".join(len(unit).to_bytes(_NAL_SIZE_NBYTES, "big") + unit for unit in units)


def split_units(payload: BytesView, size_nbytes: int = _NAL_SIZE_NBYTES) -> list[BytesView]:
    """Return the NAL units of a payload; the inverse of `join_units`.

    Parameters
    ----------
    payload : bytes or memoryview
        Units, each preceded by its size.
    size_nbytes : int
        Width of a size in bytes.

    Returns
    -------
    list of bytes or memoryview
        Slices of the payload.

    Raises
    ------
    FormatError
        A size exceeds the bytes left, or a unit is empty.
    """
    units: list[BytesView] = []
    at = 0
    while at < len(payload):
        size = int.from_bytes(payload[at : at + size_nbytes], "big")
        start, at = at, at + size_nbytes + size
        if at > len(payload) or not size:
            raise FormatError(
                f"picture: the NAL unit at byte {start} has {size} bytes, "
                f"{max(0, len(payload) - start - size_nbytes)} are left",
                offset=start,
                field="NAL size",
            )
        units.append(payload[start + size_nbytes : at])
    return units


def unit_kind(codec: str, unit: bytes | memoryview) -> int:
    """Return the type of a non-empty NAL unit of H.265 or H.264."""
    return unit[0] >> 1 & 0x3F if codec == HEVC else unit[0] & 0x1F


def unpack_config(kind: bytes, config: bytes) -> ParameterSets:
    """Parse a decoder configuration.

    Parameters
    ----------
    kind : bytes
        Type of its box: b"hvcC", b"avcC" or b"av1C".
    config : bytes
        Payload of the box.

    Returns
    -------
    ParameterSets

    Raises
    ------
    FormatError, TruncatedError
        The configuration is malformed.
    UnsupportedError
        The type or version is not supported.
    """
    if kind == HVCC:
        return _unpack_hvcc(config)
    if kind == AVCC:
        return _unpack_avcc(config)
    if kind == AV1C:
        return _unpack_av1c(config)
    raise UnsupportedError(
        f"decoder configuration of type {kind!r}: only hvcC, avcC and av1C are supported"
    )


def _check_start(config: bytes, nbytes: int, version: int, name: str) -> None:
    if len(config) < nbytes:
        raise TruncatedError(f"{name}: {len(config)} bytes, at least {nbytes} are needed")
    if config[0] != version:
        raise UnsupportedError(f"{name}: its first byte is {config[0]}, expected {version}")


def _take_units(config: bytes, at: int, count: int, name: str) -> tuple[list[bytes], int]:
    """Read units, each preceded by its size in 2 bytes; return them and their end."""
    units = []
    for _ in range(count):
        size = int.from_bytes(config[at : at + 2], "big")
        end = at + 2 + size
        if end > len(config) or not size:
            raise TruncatedError(
                f"{name}: the unit at byte {at} has {size} bytes, "
                f"{max(0, len(config) - at - 2)} are left",
                offset=at,
            )
        units.append(config[at + 2 : end])
        at = end
    return units, at


def _unpack_hvcc(config: bytes) -> ParameterSets:
    _check_start(config, _HVCC_NBYTES, 1, "hvcC")
    units: list[bytes] = []
    at = _HVCC_NBYTES
    for _ in range(config[22]):
        if at + 3 > len(config):
            raise TruncatedError(f"hvcC: the array of units at byte {at} is truncated", offset=at)
        count = int.from_bytes(config[at + 1 : at + 3], "big")
        found, at = _take_units(config, at + 3, count, "hvcC")
        units += found
    return ParameterSets(HEVC, _size_nbytes(config[21], "hvcC"), tuple(units))


def _unpack_avcc(config: bytes) -> ParameterSets:
    _check_start(config, _AVCC_NBYTES, 1, "avcC")
    units, at = _take_units(config, _AVCC_NBYTES, config[5] & 0x1F, "avcC")
    if at >= len(config):
        raise TruncatedError("avcC: the number of picture parameter sets is missing", offset=at)
    found, _ = _take_units(config, at + 1, config[at], "avcC")
    return ParameterSets(H264, _size_nbytes(config[4], "avcC"), (*units, *found))


def _unpack_av1c(config: bytes) -> ParameterSets:
    # Marker bit and version 1.
    _check_start(config, _AV1C_NBYTES, 0x81, "av1C")
    return ParameterSets(AV1, 0, tuple(obu.data for obu in split_obus(config[_AV1C_NBYTES:])))


def _size_nbytes(byte: int, name: str) -> int:
    nbytes = (byte & 3) + 1
    if nbytes == 3:
        raise FormatError(f"{name}: sizes of 3 bytes are not allowed", field="lengthSizeMinusOne")
    return nbytes


def picture_info(sets: ParameterSets) -> PictureInfo:
    """Return the form of the pictures that a configuration describes.

    Parameters
    ----------
    sets : ParameterSets
        From `unpack_config`.

    Returns
    -------
    PictureInfo

    Raises
    ------
    FormatError
            The sequence header is missing or malformed, or several contradict each other.
    """
    found = {info for unit in sets.units if (info := unit_info(sets.codec, unit)) is not None}
    if len(found) != 1:
        raise FormatError(
            f"decoder configuration of {sets.codec}: {len(found)} different sequence headers, "
            "expected one"
        )
    return found.pop()


def unit_info(codec: str, unit: bytes) -> PictureInfo | None:
    """Return the form of the pictures from a sequence header, or None for another unit.

    Raises
    ------
    FormatError
        The sequence header is malformed.
    """
    if codec == HEVC:
        return unpack_hevc_sps(unit).picture if unit_kind(HEVC, unit) == HEVC_SPS else None
    if codec == H264:
        return unpack_h264_sps(unit).picture if unit_kind(H264, unit) == H264_SPS else None
    for obu in split_obus(unit):
        if obu.kind == OBU_SEQUENCE_HEADER:
            return unpack_av1_sequence(obu).picture
    return None


def check_size(info: PictureInfo, max_pixels: int = DEFAULT_MAX_PIXELS) -> None:
    """Refuse pictures that are too large to decode.

    Raises
    ------
    UnsupportedError
        The coded frame has more than `max_pixels`.
    """
    if info.coded_width * info.coded_height > max_pixels:
        raise UnsupportedError(
            f"picture of {info.coded_width} x {info.coded_height} pixels exceeds the limit of "
            f"{max_pixels}; raise max_pixels of benzina.open if the file can be "
            "trusted"
        )


def pack_hvcc(units: Sequence[bytes]) -> bytes:
    """Return the decoder configuration of an H.265 stream.

    Parameters
    ----------
    units : sequence of bytes
        NAL units: VPS, SPS and PPS, and SEI to include; others are ignored.

    Returns
    -------
    bytes
        Payload of an ``hvcC`` box, for payloads with 4-byte sizes.

    Raises
    ------
    FormatError
        The SPS is missing or malformed, or a unit is longer than 65535 bytes.
    """
    kept = [
        (kind, [unit for unit in units if unit and unit_kind(HEVC, unit) == kind])
        for kind in (HEVC_VPS, HEVC_SPS, HEVC_PPS, HEVC_SEI, HEVC_SEI_SUFFIX)
    ]
    if not kept[1][1]:
        raise FormatError("hvcC: the units have no SPS")
    sps = unpack_hevc_sps(kept[1][1][0])
    info = sps.picture
    # Spatial segmentation and parallelism are set to 0, which means unknown.
    start = b"\x01" + sps.profile + b"\xf0\x00\xfc"
    start += bytes((0xFC | info.chroma, 0xF8 | info.bit_depth - 8, 0xF8 | sps.chroma_depth - 8))
    layers = sps.nlayers << 3 | sps.is_nested << 2 | _NAL_SIZE_NBYTES - 1
    arrays = [(kind, found) for kind, found in kept if found]
    parts = [start, b"\0\0", bytes((layers, len(arrays)))]
    for kind, found in arrays:
        # All parameter sets are here; the pictures may have more SEI.
        is_complete = kind in (HEVC_VPS, HEVC_SPS, HEVC_PPS)
        parts += [bytes((is_complete << 7 | kind,)), len(found).to_bytes(2, "big")]
        parts += [_with_length(unit, "hvcC") for unit in found]
    return b"".join(parts)


def _with_length(unit: bytes, name: str) -> bytes:
    if len(unit) > _MAX_UNIT_NBYTES:
        raise FormatError(f"{name}: a unit of {len(unit)} bytes exceeds {_MAX_UNIT_NBYTES} bytes")
    return len(unit).to_bytes(2, "big") + unit


def pack_avcc(units: Sequence[bytes]) -> bytes:
    """Return the decoder configuration of an H.264 stream.

    Parameters
    ----------
    units : sequence of bytes
        NAL units: SPS and PPS; others are ignored.

    Returns
    -------
    bytes
        Payload of an ``avcC`` box, for payloads with 4-byte sizes.

    Raises
    ------
    FormatError
        The SPS is missing or malformed, or units are too many or too long.
    """
    sets = [unit for unit in units if unit and unit_kind(H264, unit) == H264_SPS]
    pictures = [unit for unit in units if unit and unit_kind(H264, unit) == H264_PPS]
    if not 0 < len(sets) < 32 or len(pictures) > 255:
        raise FormatError(
            f"avcC: {len(sets)} SPS and {len(pictures)} PPS; 1 to 31 and at most 255 are allowed"
        )
    sps = unpack_h264_sps(sets[0])
    parts = [b"\x01", sets[0][1:4], bytes((0xFC | _NAL_SIZE_NBYTES - 1, 0xE0 | len(sets)))]
    parts += [_with_length(unit, "avcC") for unit in sets]
    parts.append(bytes((len(pictures),)))
    parts += [_with_length(unit, "avcC") for unit in pictures]
    # Only these four profiles have these fields: 5.3.3.1.2.
    if sets[0][1] in (100, 110, 122, 144):
        info = sps.picture
        depths = (0xF8 | info.bit_depth - 8, 0xF8 | sps.chroma_depth - 8)
        parts.append(bytes((0xFC | info.chroma, *depths, 0)))
    return b"".join(parts)


def pack_av1c(stream: bytes) -> bytes:
    """Return the decoder configuration of an AV1 stream.

    Parameters
    ----------
    stream : bytes
        Units from an encoder, with a sequence header among them.

    Returns
    -------
    bytes
        Payload of an ``av1C`` box, with the sequence header.

    Raises
    ------
    FormatError
        The sequence header is missing or malformed.
    """
    headers = [obu for obu in split_obus(stream) if obu.kind == OBU_SEQUENCE_HEADER]
    if not headers:
        raise FormatError("av1C: the units have no sequence header")
    found = unpack_av1_sequence(headers[0])
    info = found.picture
    depth = (info.bit_depth > 8) << 6 | (info.bit_depth == 12) << 5 | (info.chroma == 0) << 4
    third = found.tier << 7 | depth | found.subsampling << 2 | found.sample_position
    start = bytes((0x81, found.profile << 5 | found.level, third, 0))
    return start + _with_size(headers[0])


def _with_size(obu: Obu) -> bytes:
    """Return a unit with its size, which a configuration requires."""
    if obu.data[0] & 0x02:
        return obu.data
    payload = obu.data[obu.payload_offset :]
    size, left = b"", len(payload)
    while left >= 0x80:
        size, left = size + bytes((left & 0x7F | 0x80,)), left >> 7
    header = bytes((obu.data[0] | 0x02,)) + obu.data[1 : obu.payload_offset]
    return header + size + bytes((left,)) + payload


def strip_delimiters(stream: bytes) -> bytes:
    """Return an AV1 stream as the payload of a sample: without temporal delimiters.

    AV1 Codec ISO Media File Format Binding, 2.4, requires this.

    Raises
    ------
    FormatError
        A unit is malformed.
    """
    obus = split_obus(stream)
    return b"".join(obu.data for obu in obus if obu.kind != OBU_TEMPORAL_DELIMITER)
