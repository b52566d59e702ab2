"""Decoder configurations of a sample entry, and the units they consist of.

An mp4 stores the parameters of a stream apart from its pictures: ``hvcC`` for H.265 and ``avcC``
for H.264 (ISO/IEC 14496-15: 8.3.3.1 and 5.3.3.1) hold NAL units, ``av1C`` (AV1 Codec ISO Media
File Format Binding, 2.3) holds OBUs. The payload of a picture is then units, each preceded by its
size. This module only separates units, and checks every size against the available bytes; FFmpeg
interprets them, and writes the configurations of encoded pictures. Pure: bytes in, values out.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from ...plugin import FormatError, TruncatedError, UnsupportedError

HEVC, H264, AV1 = "hevc", "h264", "av1"
HVCC, AVCC, AV1C = b"hvcC", b"avcC", b"av1C"
# Types of NAL units: H.265 table 7-1, H.264 table 7-1. Of AV1 units: section 6.2.2.
HEVC_VPS, HEVC_SPS, HEVC_PPS = 32, 33, 34
H264_SPS, H264_PPS = 7, 8
OBU_SEQUENCE_HEADER = 1
_SEQUENCE_HEADERS = {HEVC: HEVC_SPS, H264: H264_SPS, AV1: OBU_SEQUENCE_HEADER}
BytesView = TypeVar("BytesView", bytes, memoryview)
# Sizes of AV1 units are LEB128 numbers of at most 8 bytes: section 4.10.5.
_MAX_SIZE_NBYTES = 8
_NAL_SIZE_NBYTES = 4
DEFAULT_MAX_PIXELS = 1 << 26
# Bytes of hvcC up to numOfArrays, avcC up to numOfSequenceParameterSets, av1C up to configOBUs.
_HVCC_NBYTES, _AVCC_NBYTES, _AV1C_NBYTES = 23, 6, 4
_MAX_UNIT_NBYTES = (1 << 16) - 1


class ParameterSets(NamedTuple):
    """Content of a decoder configuration."""

    codec: str  # "hevc", "h264" or "av1"
    size_nbytes: int  # width in bytes of the size before each NAL unit of a payload; 0 for AV1
    units: tuple[bytes, ...]  # NAL units, or OBUs for AV1, in order


def split_units(payload: BytesView, size_nbytes: int = _NAL_SIZE_NBYTES) -> list[BytesView]:
    """Return the NAL units of a payload, each preceded by its size, as slices of it."""
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
    """Return the type of a non-empty unit."""
    if codec == AV1:
        return unit[0] >> 3 & 0x0F
    return unit[0] >> 1 & 0x3F if codec == HEVC else unit[0] & 0x1F


def pack_config(config: bytes, codec: str, units: Sequence[bytes]) -> bytes:
    """Return a configuration of H.265 or AV1 with the fixed fields of another, and these units."""
    if codec == AV1:
        return config[:_AV1C_NBYTES] + b"".join(units)
    if len(units) > 255 or max(map(len, units)) > _MAX_UNIT_NBYTES:
        raise FormatError(f"{codec}: too many parameter sets, or too long ones")
    arrays = [
        bytes((unit_kind(codec, unit), 0, 1)) + len(unit).to_bytes(2, "big") + unit
        for unit in units
    ]
    return config[: _HVCC_NBYTES - 1] + bytes((len(arrays),)) + b"".join(arrays)


def sequence_header(codec: str, units: Iterable[bytes]) -> bytes | None:
    """Return the only sequence header among units.

    None if there is none, FormatError if they differ.
    """
    found = {unit for unit in units if unit_kind(codec, unit) == _SEQUENCE_HEADERS[codec]}
    if len(found) > 1:
        raise FormatError(f"{codec}: {len(found)} different sequence headers, expected one")
    return found.pop() if found else None


def unpack_config(kind: bytes, config: bytes) -> ParameterSets:
    """Parse the payload of a box b"hvcC", b"avcC" or b"av1C", a decoder configuration."""
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
    return ParameterSets(AV1, 0, tuple(split_obus(config[_AV1C_NBYTES:])))


def _size_nbytes(byte: int, name: str) -> int:
    nbytes = (byte & 3) + 1
    if nbytes == 3:
        raise FormatError(f"{name}: sizes of 3 bytes are not allowed", field="lengthSizeMinusOne")
    return nbytes


def split_obus(stream: bytes) -> list[bytes]:
    """Return the units of an AV1 stream: header, size if present, payload.

    The stream is in the low-overhead format: each unit has its size, which the last one may omit.
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
        found.append(stream[start:end])
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
