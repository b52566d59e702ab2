"""Functions of ``gulpio2.utils``."""

from typing import Any

import numpy as np

from .. import image
from ..exceptions import CodecError, FormatError, UnsupportedError
from ..wire import BytesLike
from .errors import DuplicateIdException, FrameError
from .format import check_jpeg

__all__ = ["DuplicateIdException", "img_to_jpeg_bytes", "jpeg_bytes_to_img"]

# Read at each call: programs set it to write with another quality.
_JPEG_WRITE_QUALITY = 90

Frame = np.ndarray[Any, np.dtype[Any]]


def img_to_jpeg_bytes(img: Any) -> bytes:
    """Encode a frame as GulpIO2 does: quality 90, colour at full size.

    Parameters
    ----------
    img : ndarray
        uint8 or bool, ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)``.

    Raises
    ------
    ValueError
        JPEG does not hold such an array.
    """
    pixels = np.asarray(img)
    if pixels.ndim not in (2, 3):
        raise ValueError(f"Unsupported img shape: {pixels.shape}")
    return image.encode_jpeg(pixels, quality=_JPEG_WRITE_QUALITY)


def jpeg_bytes_to_img(jpeg_bytes: BytesLike) -> Frame:
    """Decode a JPEG to the pixels that GulpIO2 returns.

    Returns
    -------
    ndarray
        uint8: ``(H, W)`` for gray, ``(H, W, 3)`` for colour, ``(H, W, 4)`` for CMYK; new memory.

    Raises
    ------
    FrameError
        The bytes are no JPEG, or a damaged one.
    """
    try:
        check_jpeg(jpeg_bytes)
        return image.decode(jpeg_bytes)
    except (FormatError, CodecError, UnsupportedError) as err:
        raise FrameError(str(err.args[0]), codec="jpeg") from err
