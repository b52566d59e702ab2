"""Matrices that map output to picture, for crops, flips, rotations, resizing and shifts.

Pure: numbers only.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

Shape: TypeAlias = tuple[int, int]
Compat: TypeAlias = Literal["benzina"]
# Row by row, applied to a column (x, y, 1).
Warp: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]

IDENTITY: Warp = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def compute_affine_matrix(
    in_shape: Sequence[int],
    out_shape: Sequence[int],
    crop: Sequence[float] | None = None,
    degrees: float = 0.0,
    translate: Sequence[float] = (0.0, 0.0),
    flip_h: bool = False,
    flip_v: bool = False,
    resize: bool = False,
    keep_ratio: bool = False,
    *,
    compat: Compat | None = None,
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the warp that shows a crop of a picture, flipped, rotated, resized and moved.

    Parameters
    ----------
    in_shape, out_shape : (int, int)
        Height and width, in pixels, of the picture and of the output; with `compat`, width and
        height.
    crop : (float, float, float, float), optional
        Offset of its centre from that of the picture (x and y), its width and its height, in
        pixels. By default the whole picture.
    degrees : float, default 0.0
        Clockwise rotation of the crop.
    translate : (float, float), default (0.0, 0.0)
        Shift of the output in its pixels, x and y.
    flip_h, flip_v, resize, keep_ratio, compat
        As for `SimilarityTransform`; the flips as bool.

    Returns
    -------
    ndarray
        float64, shape (3, 3), from output to picture.
    """
    check_compat(compat)
    width, height = in_shape if compat else in_shape[::-1]
    out_width, out_height = out_shape if compat else out_shape[::-1]
    x, y, crop_width, crop_height = (0, 0, width, height) if crop is None else crop
    warp = affine(
        (width, height),
        (out_width, out_height),
        (x, y, crop_width, crop_height),
        degrees,
        (translate[0], translate[1]),
        bool(flip_h),
        bool(flip_v),
        resize,
        keep_ratio,
        compat,
    )
    return np.array(warp).reshape(3, 3)


def affine(
    size: tuple[int, int],
    out_size: tuple[int, int],
    crop: tuple[float, float, float, float],
    degrees: float,
    moved: tuple[float, float],
    flip_h: bool,
    flip_v: bool,
    resize: bool,
    keep_ratio: bool,
    compat: Compat | None,
) -> Warp:
    """Return ``In Flip Crop Turn Resize Out``, with sizes as (width, height).

    `Out` moves the (shifted) centre of the output to 0, `In` moves 0 to the centre of the picture.
    """
    x, y, width, height = crop
    angle = math.radians(degrees)
    cosine, sine = math.cos(angle), math.sin(angle)
    scale_x = scale_y = 1.0
    if resize:
        if compat:
            # The extent of the rotated crop's diagonal.
            width, height = abs(cosine * width - sine * height), abs(sine * width + cosine * height)
        scale_x, scale_y = width / out_size[0], height / out_size[1]
        if keep_ratio:
            scale_x = scale_y = min(scale_x, scale_y)
    mirror_x, mirror_y = 1.0 - 2.0 * flip_h, 1.0 - 2.0 * flip_v
    xx, xy = mirror_x * cosine * scale_x, mirror_x * -sine * scale_y
    yx, yy = mirror_y * sine * scale_x, mirror_y * cosine * scale_y
    from_x, from_y = moved[0] - (out_size[0] - 1) / 2, moved[1] - (out_size[1] - 1) / 2
    to_x = xx * from_x + xy * from_y + mirror_x * x + (size[0] - 1) / 2
    to_y = yx * from_x + yy * from_y + mirror_y * y + (size[1] - 1) / 2
    return xx, xy, to_x, yx, yy, to_y, 0.0, 0.0, 1.0


def check_compat(compat: Any) -> Compat | None:
    """Return the value of ``compat=``, checked."""
    if compat not in (None, "benzina"):
        raise ValueError(f"compat must be None or 'benzina', not {compat!r:.80}")
    result: Compat | None = compat
    return result
