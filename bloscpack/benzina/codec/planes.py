"""Planes of luma and chroma of a decoded picture, and their conversion to pixels.

The kernel (`_ext.warp`) converts: to a picture of bytes, or to a warped picture of floats.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._ext import warp as kernel
from .colour import MATRIX_RGB, PLANES, Coefficients, coefficients

Plane = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
# (left, top, width, height) in pixels of the frame.
Aperture = tuple[int, int, int, int]

PADDINGS = {"clean": kernel.CLEAN, "smear": kernel.SMEAR, "edge": kernel.EDGE}
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
_ZEROS, _ONES = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
# By chroma_format_idc: whether chroma has half the width and half the height; and the names.
HALVED = ((0, 0), (1, 1), (1, 0), (0, 0))
_SUBSAMPLINGS = ("grey", "4:2:0", "4:2:2", "4:4:4")


class Planes(NamedTuple):
    """The planes of a picture, with 8-bit samples.

    Attributes
    ----------
    y : ndarray
        uint8, (height, width) of the frame; the green plane if the picture is RGB.
    u, v : ndarray or None
        uint8, the chroma planes, smaller if subsampled; the blue and red planes if the picture is
        RGB. None for a grey picture.
    clean : tuple of int
        Place of the picture in the frame: (left, top, width, height).
    chroma : int
        0 is grey, 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    matrix : int
        Standard of the colours, a code point of ITU-T H.273: 0 is RGB in planes G, B, R; 1 is
        BT.709, 2 is unspecified, 5 and 6 are BT.601, 9 is BT.2020.
    full_range : bool
        Whether samples use all values, not only 16 to 235 (luma) and 16 to 240 (chroma).

    Notes
    -----
    The arrays are views of the decoder's memory, which they keep alive. Do not write to them.
    """

    y: Plane
    u: Plane | None
    v: Plane | None
    clean: Aperture
    chroma: int
    matrix: int
    full_range: bool

    @property
    def subsampling(self) -> str:
        """Subsampling of the chroma: "4:2:0", "4:2:2" or "4:4:4"; else "grey" or "rgb"."""
        return "rgb" if self.matrix == MATRIX_RGB else _SUBSAMPLINGS[self.chroma]

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the clean aperture."""
        return self.clean[3], self.clean[2]


def check_padding(padding: str) -> None:
    """Raise ValueError for an unknown name of a padding."""
    if padding not in PADDINGS:
        raise ValueError(f"padding must be one of {', '.join(PADDINGS)}, not {padding!r:.80}")


def decode_rgb(planes: Planes, *, out: Plane | None = None) -> Plane:
    """Return the picture inside the clean aperture as RGB, in `out` or a new array.

    Uses the standard and range that the stream specifies, else BT.601. Chroma is interpolated as in
    `warp_planes`. Releases the GIL.
    """
    if out is None:
        out = np.empty((*planes.shape, 3), np.uint8)
    across, down = HALVED[planes.chroma]
    matrix = coefficients(planes.matrix, planes.full_range)
    y, u, v = planes.y, planes.u, planes.v
    kernel.picture(y, u, v, across, down, planes.clean, matrix, out)
    return out


def warp_planes(
    planes: Planes,
    out: Floats,
    homography: Sequence[float] = IDENTITY,
    *,
    bias: Sequence[float] = _ZEROS,
    scale: Sequence[float] = _ONES,
    outside: Sequence[float] = _ZEROS,
    matrix: Coefficients | None = None,
    padding: str = "clean",
    nearest: bool = False,
) -> None:
    """Write a warped RGB picture into its place in a batch.

    Parameters
    ----------
    planes : Planes
        The decoded picture.
    out : ndarray
        float32, (3, height, width), with contiguous rows; receives ``(channel - bias) * scale``,
        where a channel is a whole number of 0 to 255.
    homography : sequence of float
        9 numbers, row by row: (X, Y, W) = H (x, y, 1) maps the output pixel (x, y) to the pixel
        (X / W, Y / W) of the clean aperture. Pixel centres are at whole numbers.
    bias, scale : sequence of float
        3 numbers each, for red, green and blue.
    outside : sequence of float
        Values for output pixels from outside the picture or from nowhere (NaN); used unchanged.
    matrix : tuple of float, optional
        Colour conversion, see `colour.coefficients`; by default that of the picture. With
        `colour.PLANES` nothing is converted or rounded.
    padding : {"clean", "smear", "edge"}
        Extent of the picture: "clean" from the first to the last pixel centre of the clean
        aperture; "smear" the same of the frame, with its padding; "edge" half a pixel beyond
        "clean", to the outer edges of the pixels.
    nearest : bool
        Take the nearest pixel instead of interpolating between four.

    Raises
    ------
    UnsupportedError
        The colours of the picture cannot be converted.
    ValueError
        `out` has another shape, the sizes of the planes do not match, or `padding` is unknown.

    Notes
    -----
    Samples are interpolated with 15-bit weights; subsampled chroma is centred between luma samples
    and clamped to its plane. Releases the GIL.
    """
    if matrix is None:
        matrix = coefficients(planes.matrix, planes.full_range)
    check_padding(padding)
    across, down = HALVED[planes.chroma]
    kernel.warp(
        planes.y,
        planes.u,
        planes.v,
        across,
        down,
        planes.clean,
        PADDINGS[padding],
        nearest,
        homography,
        matrix,
        matrix is not PLANES,
        bias,
        scale,
        outside,
        out,
    )
