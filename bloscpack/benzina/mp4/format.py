"""Names and content of the tracks of a Benzina file, at both levels. Stored on disk.

A dataset is an mp4 whose tracks are the pictures, targets, names and thumbnails; each picture is an
mp4 of its own with the same four tracks. Layout: docs/formats/benzina.md.
"""

from typing import Literal

from ...plugin import BytesLike
from .bmff import pack_box, pack_full_box
from .boxes import Handler, MediaHeader, TrackHeader, pack_hdlr, pack_mdhd, pack_tkhd

INPUT = "bzna_input"
TARGET = "bzna_target"
NAME = "bzna_fname"
THUMB = "bzna_thumb"
PREFIX = "bzna_"
"""Prefix of the names of Benzina's tracks; other tracks are ignored."""

VIDEO_HANDLER = b"vide"
METADATA_HANDLER = b"meta"

CONFIG_KINDS = {b"hvcC": b"hvc1", b"avcC": b"avc1", b"av1C": b"av01"}
"""Decoder configuration boxes, and the type of sample entry written with each."""

PROTECTED_KINDS = frozenset((b"enca", b"enct", b"encm", b"encs", b"encu", b"encv", b"resv"))
"""Sample entries of encrypted or restricted samples (ISO/IEC 14496-12, 8.12)."""

TARGET_NBYTES = 8
TARGET_MIME = b"application/octet-stream"
NAME_MIME = b"text/plain"

TIMESCALE = 20
"""Units of time per second in tracks other than pictures, and in all files that we write."""
DURATION = 20
"""Duration of each sample in these units: a dataset plays its thumbnails as one per second."""

SHOWN = 1 | 2
"""Flags of a track that is enabled and in the movie; other tracks have 0."""

Profile = Literal["default", "reference"]
"""Form of the files that are written: ours, without waste and with correct times, or that of
Benzina's own tools (pybenzinaconcat 0.4.10), byte for byte."""

_DINF = pack_box(
    b"dinf",
    # One reference, to the file itself.
    pack_full_box(b"dref", 0, 0, (1).to_bytes(4, "big"), pack_full_box(b"url ", 0, 1)),
)
_MEDIA_INFO = {
    VIDEO_HANDLER: pack_full_box(b"vmhd", 0, 1, bytes(2 + 3 * 2)),
    METADATA_HANDLER: pack_full_box(b"nmhd", 0, 0),
}


def is_reference(profile: Profile) -> bool:
    """Return whether a profile is "reference", and not "default"."""
    if profile not in ("default", "reference"):
        raise ValueError(f"profile must be 'default' or 'reference', not {profile!r:.80}")
    return profile == "reference"


def pack_track(
    name: str,
    handler: bytes,
    header: TrackHeader,
    media: MediaHeader,
    tables: tuple[bytes, ...],
    *,
    version: int,
) -> bytes:
    """Return a track of type `handler` with the boxes of its sample table.

    `version` is that of both headers: 0, or 1 for 64-bit times.
    """
    info = pack_box(b"minf", _MEDIA_INFO[handler], _DINF, pack_box(b"stbl", *tables))
    named = pack_hdlr(Handler(handler, name.encode()))
    inner = pack_box(b"mdia", pack_mdhd(media, version=version), named, info)
    return pack_box(b"trak", pack_tkhd(header, version=version), inner)


def unpack_text(stored: BytesLike) -> str:
    """Return bytes as printable text; bytes that are not UTF-8 are escaped."""
    return bytes(stored).decode("utf-8", "backslashreplace")


def is_text(stored: BytesLike) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        bytes(stored).decode()
    except UnicodeDecodeError:
        return False
    return True


def pack_name(name: str | bytes) -> bytes:
    """Return a name as stored, with a NUL appended.

    Names that come from a file system keep their bytes, even those that are not UTF-8.
    """
    stored = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else bytes(name)
    return stored + b"\0"


def unpack_name(stored: BytesLike) -> str:
    """Return a stored name as text, without one final NUL."""
    return unpack_text(bytes(stored).removesuffix(b"\0"))
