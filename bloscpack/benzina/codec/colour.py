"""Coefficients for converting luma and chroma to red, green and blue.

A colour standard is defined by two weights, of red and of blue in luma (ITU-T H.273 (07/2021),
table 4: "MatrixCoefficients"). A conversion is twelve numbers: for each of red, green and blue, the
factors of luma, first chroma, second chroma and 1, all for 8-bit samples. Pure: numbers only.
"""

import functools

from ...plugin import UnsupportedError

Coefficients = tuple[float, ...]

# Code points of ITU-T H.273, "MatrixCoefficients".
MATRIX_RGB, MATRIX_BT709, MATRIX_UNSPECIFIED = 0, 1, 2
MATRIX_RESERVED = 3  # that FFmpeg 8 takes for unspecified
MATRIX_BT601, MATRIX_BT2020 = 6, 9

# Weights of red and blue by code point. Unspecified colours (2) are BT.601, as in Benzina's tools.
# 10 uses the weights of 9, which is an approximation for constant luminance.
_WEIGHTS = {
    1: (0.2126, 0.0722),
    2: (0.299, 0.114),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
    10: (0.2627, 0.0593),
}
# Lossless pictures, with planes of green, blue and red.
_RGB = (0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
# No conversion: the planes themselves.
PLANES: Coefficients = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
# BT.601 in full range with the numbers of Benzina's kernel (0.0.8).
BENZINA: Coefficients = (
    *(1.0, 0.0, 1.402, -1.402 * 128),
    *(1.0, -0.344136, -0.714136, (0.344136 + 0.714136) * 128),
    *(1.0, 1.772, 0.0, -1.772 * 128),
)


@functools.cache
def coefficients(matrix: int, full_range: bool) -> Coefficients:
    """Return the conversion of a standard, a code point of ITU-T H.273: see `Planes`.

    12 numbers: rows of red, green and blue for (luma, first chroma, second chroma, 1).
    UnsupportedError if the standard is not a matrix of three weights, or is unknown.
    """
    if matrix == MATRIX_RGB:
        if full_range:
            return _RGB
        gain = 255 / 219
        return (
            *(0.0, 0.0, gain, -16 * gain),
            *(gain, 0.0, 0.0, -16 * gain),
            *(0.0, gain, 0.0, -16 * gain),
        )
    if matrix not in _WEIGHTS:
        raise UnsupportedError(
            f"colours of code point {matrix}: conversion to RGB is not supported"
        )
    red, blue = _WEIGHTS[matrix]
    green = 1 - red - blue
    luma, chroma, black = (1.0, 1.0, 0.0) if full_range else (255 / 219, 255 / 224, 16.0)
    to_red, to_blue = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
    green_first, green_second = -to_blue * blue / green, -to_red * red / green
    offset = -luma * black
    return (
        *(luma, 0.0, to_red, offset - 128 * to_red),
        *(luma, green_first, green_second, offset - 128 * (green_first + green_second)),
        *(luma, to_blue, 0.0, offset - 128 * to_blue),
    )


@functools.cache
def benzina_coefficients(selector: int) -> Coefficients:
    """Return the conversion that Benzina's colour transforms select by number.

    0 is BT.601 in full range; 1, 2 and 3 are BT.601, BT.709 and BT.2020 in limited range; any other
    number gives `PLANES`: nothing is converted, and so nothing rounded.
    """
    if selector == 0:
        return BENZINA
    standards = {1: MATRIX_BT601, 2: MATRIX_BT709, 3: MATRIX_BT2020}
    return coefficients(standards[selector], False) if selector in standards else PLANES
