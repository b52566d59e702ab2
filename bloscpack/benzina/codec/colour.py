"""From luma and chroma to red, green and blue: the coefficients.

Each standard of colours is two weights, of red and of blue in luma (ITU-T H.273 (07/2021), table
4: "MatrixCoefficients"); all else follows. A conversion is twelve numbers: for red, green and blue
what luma, the first and the second chroma and 1 contribute, all of samples of 8 bits.
"""

import functools

from ...exceptions import UnsupportedError
from .videosequence import MATRIX_BT601, MATRIX_BT709, MATRIX_BT2020, MATRIX_RGB

Coefficients = tuple[float, ...]

# Weights of red and blue by code point. A picture that says nothing (2) is BT.601, as those of
# Benzina's tools are; 10 has the weights of 9, which for constant luminance are an approximation.
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
# Planes of lossless pictures: green, blue, red.
_RGB = (0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
# No conversion: planes as they are.
PLANES: Coefficients = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
# Full range of BT.601 with the numbers of Benzina's kernel (0.0.8).
BENZINA: Coefficients = (
    *(1.0, 0.0, 1.402, -1.402 * 128),
    *(1.0, -0.344136, -0.714136, (0.344136 + 0.714136) * 128),
    *(1.0, 1.772, 0.0, -1.772 * 128),
)


@functools.cache
def coefficients(matrix: int, full_range: bool) -> Coefficients:
    """Return the conversion of a standard.

    Parameters
    ----------
    matrix : int
        Code point of ITU-T H.273: see `PictureInfo`.
    full_range : bool
        Samples use all values.

    Returns
    -------
    tuple of float
        12 numbers: rows of red, green and blue for (luma, first chroma, second chroma, 1).

    Raises
    ------
    UnsupportedError
        The standard is not a matrix of three weights, or not known.
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
            f"colours of code point {matrix}: there is no conversion to RGB for these"
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
    """Return the conversion that Benzina's colour transforms name by a number.

    Parameters
    ----------
    selector : int
        0 is BT.601 of full range; 1, 2 and 3 are BT.601, BT.709 and BT.2020 of limited range; any
        other converts nothing.

    Returns
    -------
    tuple of float
        As by `coefficients`; `PLANES` itself where nothing is converted, and nothing is rounded.
    """
    if selector == 0:
        return BENZINA
    standards = {1: MATRIX_BT601, 2: MATRIX_BT709, 3: MATRIX_BT2020}
    return coefficients(standards[selector], False) if selector in standards else PLANES
