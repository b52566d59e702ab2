"""Write packets to an mp4 file with the times, colours and rotation that they had.

The boxes are those of ISO/IEC 14496-12, one track with one chunk of samples. FFmpeg's muxer is not
used, because it rounds the time of the first frame to milliseconds and encodes frames to open a
stream.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from struct import error as StructError  # noqa: N812 - as it is used
from struct import pack
from typing import BinaryIO, NamedTuple

from ...exceptions import UnsupportedError
from ...storage.sink import open_path
from .format import IDENTITY_MATRIX, Packet, VideoCodec, VideoHeader

# Sample entry and configuration box by codec.
_ENTRIES = {
    VideoCodec.H264: (b"avc1", b"avcC", {b"avc1", b"avc3"}),
    VideoCodec.HEVC: (b"hev1", b"hvcC", {b"hev1", b"hvc1"}),
    VideoCodec.VP9: (b"vp09", b"vpcC", {b"vp09"}),
    VideoCodec.AV1: (b"av01", b"av1C", {b"av01"}),
}
_BRANDS = (b"isom", b"iso4", b"mp41")  # iso4: signed composition offsets
_MAX_U32 = (1 << 32) - 1
_NONE_LANGUAGE = 0x55C4  # "und"
_FULL_RANGE = 2
_DEPTHS = (("16", 16), ("14", 14), ("12", 12), ("10", 10), ("9", 9))
_CHROMAS = {"420": 1, "422": 2, "444": 3}


class _Sample(NamedTuple):
    nbytes: int
    pts: int
    dts: int
    duration: int
    is_key: bool


def write_mp4(
    path: str | os.PathLike[str],
    header: VideoHeader,
    packets: Iterable[Packet],
    *,
    overwrite: bool = False,
) -> None:
    """Write a new file, which exists as a whole or not at all.

    Raises
    ------
    FileExistsError
        The file exists, and is not to be replaced.
    UnsupportedError
        The times do not fit into an mp4 file.
    OSError
        The file cannot be written.
    """
    with open_path(path, overwrite=overwrite) as temporary, open(temporary, "xb") as file:
        write_file(file, header, packets)


def write_file(file: BinaryIO, header: VideoHeader, packets: Iterable[Packet]) -> None:
    """Write the file to a file object; see `write_mp4`.

    Raises
    ------
    UnsupportedError
        The times or the size do not fit into an mp4 file.
    """
    front = _box(b"ftyp", _BRANDS[0], pack(">I", 0x200), *_BRANDS)
    file.write(front)
    start = len(front) + 16
    # Size 1: the size is in the 8 bytes after the type, and written when it is known.
    file.write(pack(">I4sQ", 1, b"mdat", 0))
    samples = []
    for data, pts, dts, duration, is_key in packets:
        file.write(data)
        samples.append(_Sample(len(data), pts, dts, duration, is_key))
    nbytes = sum(sample.nbytes for sample in samples)
    try:
        moov = _moov(header, samples, start)
    except StructError as err:  # out of the range of a field
        raise UnsupportedError("a time or the size does not fit into an mp4 file") from err
    file.write(moov)
    file.seek(len(front))
    file.write(pack(">I4sQ", 1, b"mdat", 16 + nbytes))


def _box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return pack(">I4s", 8 + len(content), kind) + content


def _full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return _box(kind, pack(">I", version << 24 | flags), *parts)


def _moov(header: VideoHeader, samples: list[_Sample], start: int) -> bytes:
    # Times are multiples of 1 / timescale seconds.
    unit, timescale = header.time_base.as_integer_ratio()
    # Without a duration the last frame would be shown from the end of the edit on: never.
    scaled = [
        _Sample(
            each.nbytes, each.pts * unit, each.dts * unit, max(each.duration, 1) * unit, each.is_key
        )
        for each in samples
    ]
    steps = [b.dts - a.dts for a, b in pairwise(scaled)]
    steps.append(scaled[-1].duration)
    if min(steps) < 0 or max(steps) > _MAX_U32:
        raise UnsupportedError("decoding times do not ascend, which an mp4 file needs")
    shown = min(each.pts for each in scaled)
    end = max(each.pts + each.duration for each in scaled)
    # The media starts at the first decoding time. The edit list moves it to its place.
    first = scaled[0].dts
    edits = []
    if shown > 0:
        edits.append((shown, -1))  # an empty edit
    edits.append((end - shown, shown - first))
    if shown < 0:
        raise UnsupportedError("the first frame is shown before time 0, which mp4 files cannot do")
    duration = end
    size = _display_size(header)
    matrix = pack(">9i", *(header.matrix or IDENTITY_MATRIX))
    tkhd = _full_box(
        b"tkhd", 1, 3,
        pack(">QQIIQ", 0, 0, 1, 0, duration), bytes(8 + 2 + 2 + 2 + 2), matrix,
        pack(">II", *size),
    )  # fmt: skip
    elst = _full_box(
        b"elst", 1, 0, pack(">I", len(edits)), *(pack(">QqI", *each, 1 << 16) for each in edits)
    )
    mdhd = _full_box(b"mdhd", 1, 0, pack(">QQIQHH", 0, 0, timescale, sum(steps), _NONE_LANGUAGE, 0))
    hdlr = _full_box(b"hdlr", 0, 0, pack(">I4s12x", 0, b"vide"), b"VideoHandler\0")
    dref = _full_box(b"dref", 0, 0, pack(">I", 1), _full_box(b"url ", 0, 1))
    stbl = _box(
        b"stbl",
        _full_box(b"stsd", 0, 0, pack(">I", 1), _entry(header)),
        _full_box(b"stts", 0, 0, *_runs(">II", steps)),
        _full_box(b"ctts", 1, 0, *_runs(">Ii", [each.pts - each.dts for each in scaled])),
        _full_box(b"stss", 0, 0, *_numbers(k for k, each in enumerate(scaled, 1) if each.is_key)),
        _full_box(b"stsc", 0, 0, pack(">4I", 1, 1, len(scaled), 1)),
        _full_box(b"stsz", 0, 0, pack(">I", 0), *_numbers(each.nbytes for each in scaled)),
        _full_box(b"co64", 0, 0, pack(">IQ", 1, start)),
    )
    vmhd = _full_box(b"vmhd", 0, 1, bytes(8))
    minf = _box(b"minf", vmhd, _box(b"dinf", dref), stbl)
    mdia = _box(b"mdia", mdhd, hdlr, minf)
    mvhd = _full_box(
        b"mvhd", 1, 0,
        pack(">QQIQ", 0, 0, timescale, duration), pack(">IH10x", 1 << 16, 1 << 8),
        pack(">9i", *IDENTITY_MATRIX), bytes(24), pack(">I", 2),
    )  # fmt: skip
    return _box(b"moov", mvhd, _box(b"trak", tkhd, _box(b"edts", elst), mdia))


def _runs(layout: str, numbers: list[int]) -> Iterator[bytes]:
    """Yield the table of how often each number follows in a row."""
    runs = [(len(list(group)), number) for number, group in groupby(numbers)]
    yield pack(">I", len(runs))
    for run in runs:
        yield pack(layout, *run)


def _numbers(numbers: Iterable[int]) -> Iterator[bytes]:
    found = list(numbers)
    yield pack(f">{1 + len(found)}I", len(found), *found)


def _display_size(header: VideoHeader) -> tuple[int, int]:
    """Return width and height on a screen, in 16.16 fixed point."""
    width = header.width * (header.pixel_aspect or 1)
    return min(_MAX_U32, round(width * 65536)), min(_MAX_U32, header.height << 16)


def _entry(header: VideoHeader) -> bytes:
    usual, kind, allowed = _ENTRIES[header.codec]
    name = header.tag if header.tag in allowed else usual
    configuration = header.extradata
    if header.codec == VideoCodec.VP9:
        configuration = _vp9_configuration(header)
    parts = [_box(kind, configuration)]
    colour = header.colour
    if colour.primaries != 2 or colour.transfer != 2 or colour.matrix != 2 or colour.range:
        is_full = (colour.range == _FULL_RANGE) << 7
        codes = pack(">3HB", colour.primaries, colour.transfer, colour.matrix, is_full)
        parts.append(_box(b"colr", b"nclx", codes))
    if header.pixel_aspect:
        parts.append(_box(b"pasp", pack(">II", *header.pixel_aspect.as_integer_ratio())))
    return _box(
        name,
        pack(">6xH16xHHIII", 1, header.width, header.height, 0x480000, 0x480000, 0),
        pack(">H32sHh", 1, b"", 24, -1),
        *parts,
    )


def _vp9_configuration(header: VideoHeader) -> bytes:
    """Return vpcC: the profile follows from depth and chroma; the level is not limited."""
    name = header.pixel_format
    depth = next((depth for text, depth in _DEPTHS if f"p{text}" in name), 8)
    chroma = next((chroma for text, chroma in _CHROMAS.items() if text in name), 1)
    profile = (depth > 8) * 2 + (chroma > 1)
    is_full = header.colour.range == _FULL_RANGE
    codes = (header.colour.primaries, header.colour.transfer, header.colour.matrix)
    fields = pack(">BBB3BH", profile, 62, depth << 4 | chroma << 1 | is_full, *codes, 0)
    return pack(">I", 1 << 24) + fields
