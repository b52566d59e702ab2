"""The layout of one picture's mp4: per track where its bytes lie and what decodes them.

A dataset has one such mp4 per picture, so that this is done for every picture that is read.
Contract: any bytes give a `SampleLayout`, whose extents all lie in those bytes, a `FormatError`
or an `UnsupportedError`.
"""

from typing import NamedTuple

from ..._ext import bmff as kernel
from ...exceptions import FormatError, UnsupportedError
from ...types import BytesLike
from .format import PROTECTED_KINDS


class CleanAperture(NamedTuple):
    """The part of the coded frame that is the picture, in pixels; empty for metadata."""

    left: int
    top: int
    width: int
    height: int


class InnerTrack(NamedTuple):
    """One track of a sample."""

    name: str
    handler: bytes
    """``vide`` or ``meta``."""
    entry_kind: bytes
    """``hvc1``, ``avc1``, ``av01``, ``mett``, ..."""
    offset: int
    """Of the track's bytes, from the first byte of the sample."""
    nbytes: int
    config_kind: bytes
    """``hvcC``, ``avcC``, ``av1C``; empty for metadata."""
    config: bytes
    """Payload of that box: what the decoder is configured with."""
    frame: tuple[int, int]
    """(width, height) of the coded frame; (0, 0) for metadata."""
    clean: CleanAperture
    """The whole frame where the file has no ``clap``."""
    mime: str
    """Of metadata; empty for pictures."""


class SampleLayout(NamedTuple):
    """What the mp4 of one picture holds."""

    brands: tuple[bytes, ...]
    """The major brand and the compatible ones."""
    tracks: dict[str, InnerTrack]
    """The tracks whose names begin with ``bzna_``, in the order of the file."""


_FAULTS = {
    kernel.BOX_CUT: "the bytes end within the header of a box",
    kernel.BOX_SMALL: "the size of a box is less than its header's",
    kernel.BOX_LONG: "a box exceeds the one it lies in",
    kernel.NO_MOOV: "there is no box 'moov'",
    kernel.NO_TABLE: "a track has no sample entry, or lacks stsd, stsz, stsc or stco",
    kernel.TABLE_LONG: "a table has more entries than its box has room for",
    kernel.NOT_ONE: "a track is not of one sample in one chunk",
    kernel.OUTSIDE: "a track's bytes lie outside the sample",
    kernel.SAME_NAME: "two tracks have one name",
    kernel.SHORT: "a box is too short for its fields",
    kernel.BAD_APERTURE: "the clean aperture is not of whole pixels within the frame",
    kernel.NO_REFERENCE: "a sample entry names a data reference that is missing or of unknown kind",
}


def parse_sample(data: BytesLike) -> SampleLayout:
    """Parse the mp4 of one picture.

    Parameters
    ----------
    data : bytes-like
        All of it, as `Sample.data` gives it.

    Returns
    -------
    SampleLayout
        Offsets count from the first byte of `data`; configurations are copies.

    Raises
    ------
    FormatError
        A box or a table exceeds what holds it, a track is not of exactly one sample, its bytes lie
        outside of `data`, its data reference is missing, or the clean aperture is not of whole
        pixels within the frame.
    UnsupportedError
        A track is encrypted or restricted, or its bytes are in another file.

    Notes
    -----
    Boxes may come in any order; those that are not on the way to a track's tables, and tracks whose
    name does not begin with ``bzna_``, are skipped. Layout: docs/formats/benzina.md,
    "A picture's mp4".
    """
    code, offset, brands, tracks = kernel.parse_sample(data)
    if code == kernel.ELSEWHERE:
        raise UnsupportedError(
            f"sample: the bytes of a track are in another file (data reference at offset {offset} "
            "of it), which is not read: copy them into the sample"
        )
    if code:
        raise FormatError(f"sample: {_FAULTS[code]} (at offset {offset} of it)", offset=offset)
    for name, track in tracks.items():
        if track[2] in PROTECTED_KINDS:
            raise UnsupportedError(
                f"sample: track {name!r}: its sample entry {track[2].decode()!r} says that it is "
                "encrypted or restricted, which is not supported"
            )
    return SampleLayout(
        brands,
        {
            name: InnerTrack._make((*track[:8], CleanAperture._make(track[8]), track[9]))
            for name, track in tracks.items()
        },
    )
