"""Pack the mp4 of one picture: the picture, its thumbnail, its target and its name."""

from typing import NamedTuple

import numpy as np

from .bmff import HEADER_NBYTES, pack_box
from .boxes import (
    MediaHeader,
    MovieHeader,
    TrackHeader,
    VisualEntry,
    pack_btrt,
    pack_clap,
    pack_ftyp,
    pack_mett,
    pack_mvhd,
    pack_nclx,
    pack_pasp,
    pack_stco,
    pack_stsc,
    pack_stsd,
    pack_stsz,
    pack_stts,
    pack_visual,
)
from .format import (
    CONFIG_KINDS,
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

_FTYP = pack_ftyp(b"isom", b"isom")
_FULL_VOLUME = 1 << 8
# FFmpeg's muxer gives a still picture a duration of one second, in a time scale of its own. In the
# track header it writes 1000, which is 50 seconds in the movie's 20 units per second.
_REFERENCE_TRACK_DURATION = 1000
_REFERENCE_TIMESCALE = 16384
_PROGRESSIVE = pack_box(b"fiel", b"\x01\x00")


class StoredPicture(NamedTuple):
    """A coded picture and the description in its track."""

    config_kind: bytes
    """``hvcC``, ``avcC`` or ``av1C``."""
    config: bytes
    """Payload of that box."""
    payload: bytes
    """The coded picture."""
    frame: tuple[int, int]
    """(width, height) of the coded frame."""
    clean: tuple[int, int, int, int]
    """(left, top, width, height) of the picture in the frame."""
    colour: tuple[int, int, int, bool] | None = None
    """Primaries, transfer and matrix by ISO/IEC 23091-2, and whether the range is full. Written in
    the default profile only."""
    compressor: bytes = b""
    """Name of the encoder, at most 31 bytes."""
    aspect: tuple[int, int] | None = None
    """Aspect ratio of a pixel, (width, height), if it is not square."""


def pack_sample(
    picture: StoredPicture,
    thumb: StoredPicture | None = None,
    *,
    name: bytes,
    target: bytes | None = None,
    profile: Profile = "default",
) -> bytes:
    """Return the mp4 of one picture, track ``bzna_input``, and its thumbnail, ``bzna_thumb``.

    The thumbnail is by default the same as `picture`; equal bytes are stored once. `name` and
    `target` are as stored, see `format.pack_name`. The default profile has correct durations, and
    no boxes that only repeat the description of the stream. ValueError if the sample takes 4 GiB or
    more, or a side of a frame exceeds 65535.
    """
    reference = is_reference(profile)
    thumb = picture if thumb is None else thumb
    parts, offset = [], len(_FTYP) + HEADER_NBYTES

    def place(data: bytes) -> int:
        nonlocal offset
        parts.append(data)
        offset += len(data)
        if offset >= 2**32:
            raise ValueError(f"sample of at least {offset} bytes: it must be under 4 GiB")
        return offset - len(data)

    def pack_video(stored: StoredPicture, at: int, track: str, flags: int) -> None:
        boxes.append(_pack_video(stored, at, track, flags, len(boxes) + 1, reference))

    def pack_metadata(data: bytes, at: int, track: str, mime: bytes, flags: int) -> None:
        boxes.append(_pack_metadata(len(data), at, track, mime, flags, len(boxes) + 1, reference))

    boxes: list[bytes] = []
    picture_at = place(picture.payload)
    thumb_at = picture_at if thumb.payload == picture.payload else place(thumb.payload)
    target_at = 0 if target is None else place(target)
    name_at = place(name)
    pack_video(picture, picture_at, INPUT, 0)
    pack_metadata(name, name_at, NAME, NAME_MIME, SHOWN)
    if target is not None:
        pack_metadata(target, target_at, TARGET, TARGET_MIME, 0)
    pack_video(thumb, thumb_at, THUMB, SHOWN)
    header = MovieHeader(TIMESCALE, DURATION, len(boxes) + 1)
    moov = pack_box(b"moov", pack_mvhd(header, volume=_FULL_VOLUME), *boxes)
    return b"".join((_FTYP, pack_box(b"mdat", *parts), moov))


def _pack_video(
    stored: StoredPicture, offset: int, name: str, flags: int, track_id: int, reference: bool
) -> bytes:
    timescale = _REFERENCE_TIMESCALE if reference else TIMESCALE
    duration = _REFERENCE_TIMESCALE if reference else DURATION
    _, _, width, height = stored.clean
    header = TrackHeader(
        flags,
        track_id,
        _REFERENCE_TRACK_DURATION if reference else DURATION,
        width << 16,
        height << 16,
    )
    tables = (
        pack_stsd(_pack_entry(stored, reference)),
        pack_stts(1, duration),
        pack_stsc(),
        pack_stsz(_one(len(stored.payload)), constant=True),
        pack_stco(_one(offset)),
    )
    media = MediaHeader(timescale, duration)
    return pack_track(name, VIDEO_HANDLER, header, media, tables, version=0)


def _pack_metadata(
    nbytes: int,
    offset: int,
    name: str,
    mime: bytes,
    flags: int,
    track_id: int,
    reference: bool,
) -> bytes:
    tables = (
        pack_stsd(pack_mett(mime)),
        pack_stts(1, DURATION),
        pack_stsz(_one(nbytes), constant=not reference),
        pack_stsc(),
        pack_stco(_one(offset)),
    )
    header = TrackHeader(flags, track_id, DURATION, 0, 0)
    media = MediaHeader(TIMESCALE, DURATION)
    return pack_track(name, METADATA_HANDLER, header, media, tables, version=1 if reference else 0)


def _pack_entry(stored: StoredPicture, reference: bool) -> bytes:
    """Return the sample entry of a picture, with boxes in the order of FFmpeg's muxer."""
    boxes = [pack_box(stored.config_kind, stored.config)]
    if reference and stored.config_kind == b"hvcC":
        boxes.append(_PROGRESSIVE)
    elif stored.colour is not None and not reference:
        *numbers, full_range = stored.colour
        boxes.append(pack_nclx(*numbers, full_range=full_range))
    if stored.aspect is not None:
        boxes.append(pack_pasp(*stored.aspect))
    boxes.append(pack_clap(stored.frame, stored.clean))
    if reference:
        boxes.append(pack_btrt(8 * len(stored.payload)))
    entry = VisualEntry(*stored.frame, stored.compressor)
    return pack_visual(CONFIG_KINDS[stored.config_kind], entry, *boxes)


def _one(number: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([number], np.uint64)
