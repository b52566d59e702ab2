"""What the tracks of a Benzina file are called and hold, at both of its levels. Stored on disk.

A dataset is an mp4 whose tracks are the pictures, targets, names and thumbnails; each picture is an
mp4 of its own with the same four tracks. Layout: docs/formats/benzina.md.
"""

from ..wire import BytesLike

INPUT = "bzna_input"
TARGET = "bzna_target"
NAME = "bzna_fname"
THUMB = "bzna_thumb"
PREFIX = "bzna_"
"""Of the names of all tracks that are ours; others are left alone."""

VIDEO_HANDLER = b"vide"
METADATA_HANDLER = b"meta"

CONFIG_KINDS = {b"hvcC": b"hvc1", b"avcC": b"avc1", b"av1C": b"av01"}
"""Boxes that configure the decoder of a picture, and the kind of sample entry written with each."""

TARGET_NBYTES = 8


def unpack_text(stored: BytesLike) -> str:
    """Return bytes as text that can be printed anywhere: what is no UTF-8 is escaped."""
    return bytes(stored).decode("utf-8", "backslashreplace")


def pack_name(name: str | bytes) -> bytes:
    """Return a name as it is stored, with a NUL behind it.

    Names that came from a file system keep their bytes, also those that are no UTF-8.
    """
    stored = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else bytes(name)
    return stored + b"\0"


def unpack_name(stored: BytesLike) -> str:
    """Return a stored name as text, without one NUL behind it."""
    return unpack_text(bytes(stored).removesuffix(b"\0"))
