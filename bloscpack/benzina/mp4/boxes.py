"""Fields of single box types: unpacked from their payloads, and packed as whole boxes.

Section numbers are those of ISO/IEC 14496-12. Creation times are 0 in all Benzina files; they are
written as 0 and never read.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...plugin import BytesLike, FormatError, TruncatedError, unpack_fields
from .bmff import CHUNK_RUN, FULL_NBYTES, pack_box, pack_full_box, unpack_full

MOVIE_HEADER_NBYTES = FULL_NBYTES + 3 * 8 + 4 + 4 + 2 + 10 + 36 + 24 + 4
TRACK_HEADER_NBYTES = FULL_NBYTES + 3 * 8 + 2 * 4 + 8 + 4 * 2 + 36 + 2 * 4
MEDIA_HEADER_NBYTES = FULL_NBYTES + 3 * 8 + 4 + 2 * 2
HANDLER_NBYTES = FULL_NBYTES + 4 + 4 + 12
VISUAL_ENTRY_NBYTES = 6 + 2 + 16 + 2 + 2 + 4 + 4 + 4 + 2 + 32 + 2 + 2
"""Size of the fixed part of a visual sample entry; boxes follow it."""

# By version. Creation and modification times come first and are skipped.
_MEDIA_TIMES = {0: Struct(">8xII"), 1: Struct(">16xIQ")}
_TRACK_TIMES = {0: Struct(">8xI4xI"), 1: Struct(">16xI4xQ")}
_MOVIE_REST = Struct(">IH10x36s24xI")
_TRACK_REST = Struct(">16x36sII")
_MEDIA_REST = Struct(">H2x")
_HANDLER = Struct(">4x4x4s12x")
_CLAP = Struct(">IIIIiIiI")
_VISUAL = Struct(">6xH16xHHII4xH32sHH")
_PAIR = Struct(">II")
_COLOUR = Struct(">4sHHHB")

_UNITY_MATRIX = Struct(">9I").pack(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_ONE = (1).to_bytes(4, "big")
_NORMAL_RATE = 0x10000
_UNDETERMINED = 0x55C4  # "und", five bits a letter
_72_DPI = 72 << 16
_DEPTH = 24
_PRE_DEFINED = 0xFFFF
_MAX_COMPRESSOR_NBYTES = 31
_SELF_CONTAINED = 1


class MovieHeader(NamedTuple):
    """``mvhd`` (8.2.2): times of the whole movie."""

    timescale: int
    """Units per second."""
    duration: int
    next_track_id: int


class TrackHeader(NamedTuple):
    """``tkhd`` (8.3.2): a track as presented in the movie."""

    flags: int
    """1 enabled, 2 in the movie."""
    track_id: int
    duration: int
    """In units of the movie's time scale."""
    width: int
    """16.16 fixed point, like `height`."""
    height: int


class MediaHeader(NamedTuple):
    """``mdhd`` (8.4.2): times of a track's samples."""

    timescale: int
    duration: int


class Handler(NamedTuple):
    """``hdlr`` (8.4.3): type and name of a track."""

    kind: bytes
    name: bytes
    """Up to the first NUL, or to the end if an old version of Benzina's tools wrote no NUL."""


class VisualEntry(NamedTuple):
    """Fixed part of a visual sample entry (12.1.3)."""

    width: int
    """Width of the coded frame in pixels."""
    height: int
    compressor: bytes
    """Name of the encoder, at most 31 bytes."""


def _unpack_times(
    layouts: dict[int, Struct], payload: BytesLike, what: str
) -> tuple[int, int, int, int]:
    """Return flags, the two numbers of `layouts`, and the offset after them."""
    version, flags = unpack_full(payload, what)
    if version not in layouts:
        raise FormatError(f"{what}: version {version}, expected 0 or 1", field=what)
    first, second = unpack_fields(layouts[version], payload, FULL_NBYTES, what)
    return flags, first, second, FULL_NBYTES + layouts[version].size


def unpack_mvhd(payload: BytesLike) -> MovieHeader:
    """Unpack a movie header."""
    _, timescale, duration, at = _unpack_times(_MEDIA_TIMES, payload, "mvhd")
    *_, next_track_id = unpack_fields(_MOVIE_REST, payload, at, "mvhd")
    return MovieHeader(timescale, duration, next_track_id)


def pack_mvhd(header: MovieHeader, *, version: int = 0, volume: int = 0) -> bytes:
    """Return a movie header; `volume` is 8.8 fixed point."""
    times = _pack_times(_MEDIA_TIMES, version, header.timescale, header.duration)
    rest = _MOVIE_REST.pack(_NORMAL_RATE, volume, _UNITY_MATRIX, header.next_track_id)
    return pack_full_box(b"mvhd", version, 0, times, rest)


def _pack_times(layouts: dict[int, Struct], version: int, first: int, second: int) -> bytes:
    try:
        return layouts[version].pack(first, second)
    except error as err:
        raise ValueError(f"a duration of {second} exceeds a header of version {version}") from err


def unpack_tkhd(payload: BytesLike) -> TrackHeader:
    """Unpack a track header."""
    flags, track_id, duration, at = _unpack_times(_TRACK_TIMES, payload, "tkhd")
    _, width, height = unpack_fields(_TRACK_REST, payload, at, "tkhd")
    return TrackHeader(flags, track_id, duration, width, height)


def pack_tkhd(header: TrackHeader, *, version: int = 0) -> bytes:
    """Return a track header."""
    times = _pack_times(_TRACK_TIMES, version, header.track_id, header.duration)
    rest = _TRACK_REST.pack(_UNITY_MATRIX, header.width, header.height)
    return pack_full_box(b"tkhd", version, header.flags, times, rest)


def unpack_mdhd(payload: BytesLike) -> MediaHeader:
    """Unpack a media header."""
    _, timescale, duration, at = _unpack_times(_MEDIA_TIMES, payload, "mdhd")
    unpack_fields(_MEDIA_REST, payload, at, "mdhd")
    return MediaHeader(timescale, duration)


def pack_mdhd(header: MediaHeader, *, version: int = 0) -> bytes:
    """Return a media header."""
    times = _pack_times(_MEDIA_TIMES, version, *header)
    return pack_full_box(b"mdhd", version, 0, times, _MEDIA_REST.pack(_UNDETERMINED))


def unpack_hdlr(payload: BytesLike) -> Handler:
    """Unpack a handler."""
    (kind,) = unpack_fields(_HANDLER, payload, 0, "hdlr")
    return Handler(kind, bytes(payload[HANDLER_NBYTES:]).split(b"\0", 1)[0])


def pack_hdlr(handler: Handler) -> bytes:
    """Return a handler; its name gets a final NUL."""
    return pack_box(b"hdlr", _HANDLER.pack(handler.kind), handler.name, b"\0")


def unpack_mett(payload: BytesLike) -> tuple[bytes, bytes]:
    """Unpack a text metadata entry (12.3.3.2): (content encoding, mime type)."""
    if len(payload) < 6 + 2:
        raise TruncatedError(f"mett: {len(payload)} bytes, at least 8 are needed")
    encoding, _, rest = bytes(payload[8:]).partition(b"\0")
    return encoding, rest.split(b"\0", 1)[0]


def pack_mett(mime: bytes) -> bytes:
    """Return a text metadata entry without a content encoding."""
    return pack_box(b"mett", bytes(6), _SELF_CONTAINED.to_bytes(2, "big"), b"\0", mime, b"\0")


def unpack_visual(payload: BytesLike) -> VisualEntry:
    """Unpack the fixed part of a visual sample entry."""
    _, width, height, _, _, _, name, _, _ = unpack_fields(_VISUAL, payload, 0, "visual entry")
    return VisualEntry(width, height, name[1 : 1 + name[0]])


def pack_visual(kind: bytes, entry: VisualEntry, *boxes: bytes) -> bytes:
    """Return a visual sample entry that contains `boxes`.

    ValueError if a side exceeds 65535, or the name 31 bytes.
    """
    name = entry.compressor
    if len(name) > _MAX_COMPRESSOR_NBYTES or max(entry.width, entry.height) > 0xFFFF:
        raise ValueError(
            f"frame of {entry.width} x {entry.height}, encoder {name!r}: sides may be at most "
            f"65535 and the name {_MAX_COMPRESSOR_NBYTES} bytes"
        )
    fixed = _VISUAL.pack(
        1,
        entry.width,
        entry.height,
        _72_DPI,
        _72_DPI,
        1,
        bytes((len(name),)) + name,
        _DEPTH,
        _PRE_DEFINED,
    )
    return pack_box(kind, fixed, *boxes)


def pack_clap(frame: tuple[int, int], clean: Sequence[int]) -> bytes:
    """Return a clean aperture (12.1.4): `clean` is (left, top, width, height) in the frame."""
    left, top, width, height = clean
    # Offset of the aperture's centre from that of the frame, in half pixels.
    horizontal, vertical = 2 * left + width - frame[0], 2 * top + height - frame[1]
    return pack_box(b"clap", _CLAP.pack(width, 1, height, 1, horizontal, 2, vertical, 2))


def pack_nclx(primaries: int, transfer: int, matrix: int, *, full_range: bool) -> bytes:
    """Return a colour description (12.1.5) with the numbers of ISO/IEC 23091-2."""
    return pack_box(b"colr", _COLOUR.pack(b"nclx", primaries, transfer, matrix, full_range << 7))


def pack_pasp(width: int, height: int) -> bytes:
    """Return the aspect ratio of a pixel (12.1.4)."""
    return pack_box(b"pasp", _PAIR.pack(width, height))


def pack_btrt(bits: int) -> bytes:
    """Return a bit rate per second (8.5.2), as both maximum and average."""
    rate = min(bits, 0xFFFFFFFF)
    return pack_box(b"btrt", bytes(4), _PAIR.pack(rate, rate))


def unpack_brands(payload: BytesLike) -> tuple[bytes, ...]:
    """Unpack ``ftyp`` (4.3): the major and the compatible brands; a cut last one is ignored."""
    brands = bytes(payload)
    return brands[:4], *(brands[at : at + 4] for at in range(8, len(brands) - 3, 4))


def pack_ftyp(*brands: bytes) -> bytes:
    """Return ``ftyp``: the major brand, then the compatible brands."""
    return pack_box(b"ftyp", brands[0], bytes(4), *brands[1:])


# Tables of a track (8.6.1, 8.7). `bmff.unpack_table` reads their counts.


def pack_stsd(entry: bytes) -> bytes:
    """Return the table of one sample entry."""
    return pack_full_box(b"stsd", 0, 0, _ONE, entry)


def pack_stts(count: int, duration: int) -> bytes:
    """Return the table of times of samples of equal duration, as one run."""
    return pack_full_box(b"stts", 0, 0, _ONE, _PAIR.pack(count, duration))


def pack_no_runs(kind: bytes) -> bytes:
    """Return the table of times (``stts``) or chunks (``stsc``) of a track without samples."""
    return pack_full_box(kind, 0, 0, (0).to_bytes(4, "big"))


def pack_stsz(sizes: NDArray[np.uint64], *, constant: bool) -> bytes:
    """Return the table of sizes; with `constant`, equal sizes are stored as one number.

    ValueError if a size exceeds 32 bits.
    """
    largest = int(sizes.max(initial=0))
    if largest >= 2**32:
        raise ValueError(f"a sample of {largest} bytes exceeds the limit of 4 GiB")
    if constant and largest and int(sizes.min()) == largest:
        return pack_full_box(b"stsz", 0, 0, _PAIR.pack(largest, len(sizes)))
    table = sizes.astype(">u4").tobytes()
    return pack_full_box(b"stsz", 0, 0, _PAIR.pack(0, len(sizes)), table)


def pack_stsc() -> bytes:
    """Return the table of chunks of one sample each, for any number of chunks."""
    return pack_full_box(b"stsc", 0, 0, _ONE, np.array((1, 1, 1), CHUNK_RUN).tobytes())


def pack_stco(offsets: NDArray[np.uint64]) -> bytes:
    """Return the table of offsets: ``co64`` if any of them exceeds 32 bits."""
    wide = int(offsets.max(initial=0)) >= 2**32
    table = offsets.astype(">u8" if wide else ">u4").tobytes()
    kind = b"co64" if wide else b"stco"
    return pack_full_box(kind, 0, 0, len(offsets).to_bytes(4, "big"), table)
