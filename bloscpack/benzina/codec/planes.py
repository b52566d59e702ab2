"""A decoded picture: planes of luma and chroma, and how they become pixels.

Conversion is the kernel's (`_ext.warp`): a picture as bytes, or a warp of it as floats.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._ext import warp as kernel
from .colour import PLANES, Coefficients, coefficients
from .videosequence import MATRIX_RGB

Plane = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
# (left, top, width, height) in pixels of the frame.
Aperture = tuple[int, int, int, int]

PADDINGS = {"clean": kernel.CLEAN, "smear": kernel.SMEAR, "edge": kernel.EDGE}
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
_ZEROS, _ONES = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
# By chroma_format_idc: whether chroma is halved across and down, and what it is called.
HALVED = ((0, 0), (1, 1), (1, 0), (0, 0))
_SUBSAMPLINGS = ("grey", "4:2:0", "4:2:2", "4:4:4")


class Planes(NamedTuple):
    """The planes of a picture, 8 bits a sample.

    Attributes
    ----------
    y : ndarray
        uint8, (height, width) of the frame; of RGB the plane of green.
    u, v : ndarray or None
        uint8, the planes of chroma, smaller where it is subsampled; of RGB the planes of blue and
        red. None for a grey picture.
    clean : tuple of int
        The picture in the frame: (left, top, width, height).
    chroma : int
        0 is grey, 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    matrix : int
        Standard of the colours, a code point of ITU-T H.273; 0 is RGB, 2 is not said.
    full_range : bool
        Samples use all values, not only 16 to 235 (luma) and 16 to 240 (chroma).

    Notes
    -----
    The arrays are views of the decoder's memory, which they keep alive, and not to be written to.
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
        """What the planes are: "4:2:0", "4:2:2", "4:4:4", "grey" or "rgb"."""
        return "rgb" if self.matrix == MATRIX_RGB else _SUBSAMPLINGS[self.chroma]

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the clean aperture."""
        return self.clean[3], self.clean[2]


def decode_rgb(planes: Planes, *, out: Plane | None = None) -> Plane:
    """Return the picture of the clean aperture in RGB.

    Parameters
    ----------
    planes : Planes
        The decoded picture.
    out : ndarray, optional
        Receives the pixels: uint8, C-contiguous, (height, width, 3) of the clean aperture.

    Returns
    -------
    ndarray
        uint8, (height, width, 3): `out`, or an own array.

    Raises
    ------
    UnsupportedError
        There is no conversion for the colours of the picture.
    ValueError
        `out` is of another shape, or the planes do not fit each other.

    Notes
    -----
    By the standard and range that the stream names, BT.601 where it names none; chroma is
    interpolated as by `warp_planes`. Runs without the GIL.
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
    """Write a warped picture in RGB into its slot of a batch.

    Parameters
    ----------
    planes : Planes
        The decoded picture.
    out : ndarray
        float32, (3, height, width), the pixels of a row next to each other; receives
        ``(channel - bias) * scale``, where a channel is a whole number of 0 to 255.
    homography : sequence of float
        9 numbers, row by row: (X, Y, W) = H (x, y, 1) maps the output pixel (x, y) to the pixel
        (X / W, Y / W) of the clean aperture. Pixels are at whole numbers.
    bias, scale : sequence of float
        3 numbers each, for red, green and blue.
    outside : sequence of float
        The values, as they are, of output pixels that come from outside or from nowhere (NaN).
    matrix : tuple of float, optional
        Conversion of colours, see `colour.coefficients`; by default the one of the picture. With
        `colour.PLANES` nothing is converted, and nothing rounded.
    padding : {"clean", "smear", "edge"}
        What is not outside: coordinates from the first to the last pixel of the clean aperture;
        of the frame, with what fills it up; or of the clean aperture and half a pixel further,
        where the pixels at the edge reach to.
    nearest : bool
        Take the nearest pixel instead of interpolating between four.

    Raises
    ------
    UnsupportedError
        There is no conversion for the colours of the picture.
    ValueError
        `out` has another form, the planes do not fit each other, or there is no such padding.

    Notes
    -----
    Samples are interpolated with weights of 15 bits; subsampled chroma lies centred between
    those of luma, and is clamped to its plane. Runs without the GIL.
    """
    if matrix is None:
        matrix = coefficients(planes.matrix, planes.full_range)
    if padding not in PADDINGS:
        raise ValueError(f"padding must be one of {', '.join(PADDINGS)}, not {padding!r}")
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
