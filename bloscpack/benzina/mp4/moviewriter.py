"""Pack the start of a dataset file, and the moov at its end.

A file is its head (`pack_head`), the samples, targets and names back to back, and `pack_movie`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...plugin import BytesLike, FormatError
from ..splits import KIND as SPLITS_KIND
from ..splits import pack_splits
from .bmff import HEADER_NBYTES, children, pack_box, pack_large_header, reader_of
from .boxes import (
    VISUAL_ENTRY_NBYTES,
    MediaHeader,
    MovieHeader,
    TrackHeader,
    pack_ftyp,
    pack_mett,
    pack_mvhd,
    pack_no_runs,
    pack_stco,
    pack_stsc,
    pack_stsd,
    pack_stsz,
    pack_stts,
    unpack_visual,
)
from .format import (
    DURATION,
    INPUT,
    METADATA_HANDLER,
    NAME,
    NAME_MIME,
    SHOWN,
    TARGET,
    TARGET_MIME,
    THUMB,
    TIMESCALE,
    VIDEO_HANDLER,
    Profile,
    is_reference,
    pack_track,
)
from .movie import unpack_movie

HEAD_NBYTES = 24 + 16
"""Size of the head in bytes; the first sample follows it."""

_FTYP = pack_ftyp(b"isom", b"bzna", b"isom")
_SAMPLE_MIME = b"video/mp4"
_MIMES = {INPUT: _SAMPLE_MIME, TARGET: TARGET_MIME, NAME: NAME_MIME}
# Boxes that describe one thumbnail: its size in the frame, and its bit rate.
_NOT_IN_FILM = frozenset((b"clap", b"btrt"))
# 512.0078125, as written by Benzina's tools, which put 512 into the fraction, too.
_REFERENCE_SIDE = 512 << 16 | 512


class Extents(NamedTuple):
    """Offsets and sizes of the samples of a track, shape (n,) each."""

    offsets: NDArray[np.uint64]
    """Absolute."""
    sizes: NDArray[np.uint64]


def pack_head(nbytes: int) -> bytes:
    """Return the head of a dataset file with `nbytes` of samples, targets and names."""
    header_nbytes = HEAD_NBYTES - len(_FTYP)
    return _FTYP + pack_large_header(b"mdat", header_nbytes + nbytes)


def film_entry(sample: BytesLike) -> bytes:
    """Return the sample entry of the thumbnail track, derived from a sample's thumbnail.

    Players use one configuration for the whole film, that of the first sample, and show its frame
    uncropped.
    """
    tracks = unpack_movie(reader_of(sample), len(sample)).tracks
    found = tracks.get(THUMB) or tracks.get(INPUT)
    if found is None or found.handler != VIDEO_HANDLER or found.entry == (0, 0):
        raise FormatError(f"the sample has no pictures in track {THUMB!r}")
    view, read = memoryview(sample), reader_of(sample)
    entry = next(children(read, found.entry.offset, sum(found.entry)))
    start = entry.payload_offset + VISUAL_ENTRY_NBYTES
    kept = [
        bytes(view[box.offset : box.end])
        for box in children(read, start, entry.end)
        if box.kind not in _NOT_IN_FILM
    ]
    return pack_box(entry.kind, bytes(view[entry.payload_offset : start]), *kept)


def pack_movie(
    tracks: Mapping[str, Extents],
    entry: bytes = b"",
    *,
    profile: Profile = "default",
    splits: Mapping[str, range] | None = None,
) -> bytes:
    """Return the moov of a dataset.

    `tracks` are samples, and targets, names and thumbnails where present. There may be fewer
    targets than samples. An empty track of thumbnails is left out; others need the `entry` of
    `film_entry`. `splits` are stored in a box of our own, which other readers skip. The default
    profile stores the size of the film, uses 32-bit times while they fit, and one number for equal
    sizes.
    """
    reference = is_reference(profile)
    duration = DURATION * len(tracks[INPUT].sizes)
    version = 1 if reference or duration >= 2**32 else 0
    boxes: list[bytes] = []
    for name in (INPUT, TARGET, NAME, THUMB):
        if name in tracks and (name != THUMB or len(tracks[name].sizes)):
            boxes.append(_pack_track(name, len(boxes) + 1, tracks[name], entry, version, reference))
    header = MovieHeader(TIMESCALE, duration, len(boxes) + 1)
    if splits:
        boxes.append(pack_box(b"udta", pack_box(SPLITS_KIND, pack_splits(splits))))
    return pack_box(b"moov", pack_mvhd(header, version=version), *boxes)


def _pack_track(
    name: str, track_id: int, extents: Extents, entry: bytes, version: int, reference: bool
) -> bytes:
    count = len(extents.sizes)
    flags = width = height = 0
    handler = METADATA_HANDLER
    if name == THUMB:
        if not entry:
            raise ValueError("a track of thumbnails needs a sample entry")
        flags, handler = SHOWN, VIDEO_HANDLER
        visual = unpack_visual(entry[HEADER_NBYTES:])
        width, height = visual.width << 16, visual.height << 16
        if reference:
            width = height = _REFERENCE_SIDE
    else:
        entry = pack_mett(_MIMES[name])
    # Benzina's tools also write runs for an empty track. FFmpeg refuses files with empty chunks.
    has_runs = count > 0 or reference
    tables = (
        pack_stsd(entry),
        pack_stts(count, DURATION) if has_runs else pack_no_runs(b"stts"),
        pack_stsz(extents.sizes, constant=not reference),
        pack_stsc() if has_runs else pack_no_runs(b"stsc"),
        pack_stco(extents.offsets),
    )
    return pack_track(
        name,
        handler,
        TrackHeader(flags, track_id, DURATION * count, width, height),
        MediaHeader(TIMESCALE, DURATION * count),
        tables,
        version=version,
    )
