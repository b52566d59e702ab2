"""Layout of one picture's mp4: place and decoder configuration of each track.

A dataset has one such mp4 per picture, so this runs for every picture read. Contract: any bytes
yield a `SampleLayout` with all extents inside these bytes, a `FormatError` or an
`UnsupportedError`.
"""

from typing import NamedTuple

from ..._ext import bmff as kernel
from ...plugin import BytesLike, FormatError, UnsupportedError
from .format import PROTECTED_KINDS


class CleanAperture(NamedTuple):
    """The part of the coded frame to show, in pixels; empty for metadata."""

    left: int
    """Columns to the left of it."""
    top: int
    """Rows above it."""
    width: int
    """Number of columns."""
    height: int
    """Number of rows."""


class InnerTrack(NamedTuple):
    """One track of a sample."""

    name: str
    """Such as ``"bzna_input"``."""
    handler: bytes
    """``vide`` or ``meta``."""
    entry_kind: bytes
    """``hvc1``, ``avc1``, ``av01``, ``mett``, ..."""
    offset: int
    """Offset of the track's bytes, relative to the first byte of the sample."""
    nbytes: int
    """Size of the track's bytes."""
    config_kind: bytes
    """``hvcC``, ``avcC``, ``av1C``; empty for metadata."""
    config: bytes
    """Payload of that box: the decoder configuration."""
    frame: tuple[int, int]
    """(width, height) of the coded frame; (0, 0) for metadata."""
    clean: CleanAperture
    """The whole frame if the file has no ``clap``."""
    mime: str
    """MIME type of metadata; empty for pictures."""


class SampleLayout(NamedTuple):
    """Layout of the mp4 of one picture."""

    brands: tuple[bytes, ...]
    """The major and the compatible brands."""
    tracks: dict[str, InnerTrack]
    """The tracks with names that begin with ``bzna_``, in file order."""


_FAULTS = {
    kernel.BOX_CUT: "the bytes end within the header of a box",
    kernel.BOX_SMALL: "the size of a box is less than its header's",
    kernel.BOX_LONG: "a box exceeds its parent",
    kernel.NO_MOOV: "no box 'moov'",
    kernel.NO_TABLE: "a track has no sample entry, or lacks stsd, stsz, stsc or stco",
    kernel.TABLE_LONG: "a table has more entries than fit its box",
    kernel.NOT_ONE: "a track does not have exactly one sample in one chunk",
    kernel.OUTSIDE: "a track's bytes lie outside the sample",
    kernel.SAME_NAME: "two tracks have the same name",
    kernel.SHORT: "a box is too short for its fields",
    kernel.BAD_APERTURE: "the clean aperture is not whole pixels inside the frame",
    kernel.NO_REFERENCE: "the data reference of a sample entry is missing or of unknown type",
}


def parse_sample(data: BytesLike) -> SampleLayout:
    """Parse the mp4 of one picture.

    Parameters
    ----------
    data : bytes-like
        The whole sample, such as `Sample.data`.

    Returns
    -------
    SampleLayout
        Offsets are relative to the first byte of `data`; configurations are copies.

    Raises
    ------
    FormatError
        A box or table exceeds its parent, a track does not have exactly one sample, its bytes lie
        outside `data`, its data reference is missing, or the clean aperture is not whole pixels
        inside the frame.
    UnsupportedError
        A track is encrypted or restricted, or its bytes are in another file.

    Notes
    -----
    Boxes may come in any order. Boxes that are not needed to locate a track, and tracks with names
    that do not begin with ``bzna_``, are skipped. Layout: docs/formats/benzina.md, "A picture's
    mp4".
    """
    code, offset, brands, tracks = kernel.parse_sample(data)
    if code == kernel.ELSEWHERE:
        raise UnsupportedError(
            "sample: the bytes of a track are in another file (data reference at offset "
            f"{offset} of the sample), which is not supported: copy them into the sample"
        )
    if code:
        raise FormatError(
            f"sample: {_FAULTS[code]} (at offset {offset} of the sample)", offset=offset
        )
    found = {}
    # Tuples with names are made of whole tuples: passing ten arguments takes three times as long.
    make = tuple.__new__
    for name, track in tracks.items():
        title, handler, kind, at, nbytes, config_kind, config, frame, clean, mime = track
        if kind in PROTECTED_KINDS:
            raise UnsupportedError(
                f"sample: track {name!r}: sample entry {kind.decode()!r} marks it as "
                "encrypted or restricted, which is not supported"
            )
        shown = make(CleanAperture, clean)
        fields = title, handler, kind, at, nbytes, config_kind, config, frame, shown, mime
        found[name] = make(InnerTrack, fields)
    return SampleLayout(brands, found)
