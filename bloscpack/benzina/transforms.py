"""Transforms of a loader: the crop of each picture (warp), its colours, bias and norm.

For each sample a transform is called as ``(index, in_shape, out_shape, rng)`` and returns a tuple
of floats. Shapes are (height, width) everywhere; coordinates and pairs of directions are (x, y), as
a warp uses them. A warp maps a pixel of the output to a place in the picture.

The classes are those of Benzina (src/benzina/torch/operations.py of 0.0.5). With
``compat="benzina"`` the similarity transforms return exactly its numbers: they draw in its order,
take `in_shape` as (width, height), and use `out_shape` with its first number as the width. Without
it, the reference's mistakes are corrected: see `SimilarityTransform`. Pure: numbers only.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from .load.affine import IDENTITY, Compat, Shape, Warp, affine, check_compat
from .load.affine import compute_affine_matrix as compute_affine_matrix  # Benzina has it here

Rng: TypeAlias = np.random.Generator | np.random.RandomState
# Any function with this signature can serve as a transform.
Transform: TypeAlias = Callable[[int, Shape, Shape, Any], Sequence[float]]

# Attempts to draw an area and ratio that fit the picture, as in the reference.
_NTRIES = 10


class _Transform:
    """Base of all transforms."""

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Any) -> Sequence[float]:
        """Return the numbers for a sample; how many they are, the class says."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class WarpTransform(_Transform):
    """Base of ``warp=`` transforms: where the pixels of a sample come from.

    They return the 9 numbers of the matrix, row by row, that maps output to picture (x, y, 1).
    """


class OOBTransform(_Transform):
    """Base of ``oob=`` transforms: the colour of pixels outside the picture.

    They return red, green and blue, which get neither bias nor norm.
    """


class ColorTransform(_Transform):
    """Base of ``color=`` transforms: how Y, Cb and Cr become red, green and blue.

    They return a tuple of one number.

    ======  =========================
    0       BT.601, full range
    1       BT.601, limited range
    2       BT.709, limited range
    3       BT.2020, limited range
    others  not converted: Y, Cb, Cr
    ======  =========================
    """


class NormTransform(_Transform):
    """Base of ``norm=`` transforms, which return three factors, of red, green and blue."""


class BiasTransform(_Transform):
    """Base of ``bias=`` transforms.

    They return three numbers, subtracted from red, green and blue before the norm.
    """


class ConstantWarpTransform(WarpTransform):
    """One warp for all samples.

    Parameters
    ----------
    warp : sequence of 9 float, optional
        Row by row; the identity by default, which shows the picture's top left corner.
    """

    def __init__(self, warp: Sequence[float] | None = IDENTITY) -> None:
        self.warp = _numbers("warp", IDENTITY if warp is None else warp, 9)

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Any) -> Sequence[float]:
        """Return the warp."""
        return self.warp


class ConstantOOBTransform(OOBTransform):
    """One colour outside of all pictures.

    Parameters
    ----------
    oob : float or sequence of 3 float, optional
        Red, green, blue; black by default.
    """

    def __init__(self, oob: float | Sequence[float] | None = (0.0, 0.0, 0.0)) -> None:
        self.oob = _channels("oob", oob, 0.0)

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Any) -> Sequence[float]:
        """Return the colour."""
        return self.oob


class ConstantColorTransform(ColorTransform):
    """One colour conversion for all pictures.

    Parameters
    ----------
    index : int or sequence of 1 int, optional
        Number of the conversion, see `ColorTransform`; 0 by default.
    """

    def __init__(self, index: int | Sequence[int] | None = 0) -> None:
        (number,) = _numbers("index", 0 if index is None else index, 1)
        self.index = (int(number),)

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Any) -> Sequence[float]:
        """Return the number in a tuple."""
        return self.index


class ConstantNormTransform(NormTransform):
    """One norm for all samples.

    Parameters
    ----------
    norm : float or sequence of 3 float, optional
        Factors of red, green and blue: the inverse of a standard deviation. 1 by default.
    """

    def __init__(self, norm: float | Sequence[float] | None = (1.0, 1.0, 1.0)) -> None:
        self.norm = _channels("norm", norm, 1.0)

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Any) -> Sequence[float]:
        """Return the factors."""
        return self.norm


class ConstantBiasTransform(BiasTransform):
    """One bias for all samples.

    Parameters
    ----------
    bias : float or sequence of 3 float, optional
        Numbers to subtract from red, green and blue, on the scale of 0 to 255. 0 by default.
    """

    def __init__(self, bias: float | Sequence[float] | None = (0.0, 0.0, 0.0)) -> None:
        self.bias = _channels("bias", bias, 0.0)

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Any) -> Sequence[float]:
        """Return the bias."""
        return self.bias


def _numbers(name: str, values: float | Sequence[float], count: int) -> tuple[float, ...]:
    """Return `values`, a sequence or an array of any shape, as a tuple of `count` numbers."""
    numbers: list[float] = np.asarray(values, np.float64).ravel().tolist()
    if len(numbers) != count:
        raise ValueError(f"{name} must be {count} numbers, not {len(numbers)}")
    return tuple(numbers)


def _channels(
    name: str, value: float | Sequence[float] | None, default: float
) -> tuple[float, ...]:
    if value is None:
        return (default,) * 3
    if np.ndim(value) == 0:
        return _numbers(name, value, 1) * 3
    return _numbers(name, value, 3)


def _alias(name: str) -> Any:
    """Return a property that accesses another attribute under the reference's name."""

    def get(transform: Any) -> Any:
        return getattr(transform, name)

    def put(transform: Any, value: Any) -> None:
        setattr(transform, name, value)

    return property(get, put, doc=f"`{name}`, as Benzina calls it.")


class SimilarityTransform(WarpTransform):
    """A crop of random size, ratio and place, flipped, rotated, resized to the output and moved.

    Parameters
    ----------
    scale : float or (float, float), default (1.0, 1.0)
        Area of the crop relative to the picture's. Its logarithm is drawn uniformly between the
        two; a number ``s`` means ``(1/s, s)``.
    ratio : float or (float, float), optional
        Width of the crop divided by its height, drawn like the scale. By default the picture's.
    degrees : float or (float, float), default (0.0, 0.0)
        Range of the angle; a number ``d`` means ``(-d, d)``.
    translate : float or (float, float), default (0.0, 0.0)
        Largest shift of the output, relative to its width and height; one number applies to both.
    flip_h, flip_v : float, default 0.0
        Probability of a horizontal and of a vertical flip.
    resize : bool, default False
        Whether the crop, by default the whole picture, is resized to the output; else the crop has
        the output's size. A scale or a ratio implies it.
    keep_ratio : bool, default False
        Resize by one factor, so that the crop fills the output and its longer side is cut.
    random_crop : bool, default False
        Whether to place the crop at random; else it is centred.
    uniform_area : bool, default False
        Draw the area itself uniformly, as torchvision does, and not its logarithm; crops are then
        larger on average.
    compat : "benzina", optional
        Return the numbers of the reference, see the module.

    Notes
    -----
    Differences from the reference, unless `compat` is given: shapes are (height, width). If no crop
    fits within 10 draws, the crop is centred for that one sample, not for all later ones too. A
    rotated crop keeps its size, and is not squeezed to the extent of its diagonal. The attributes
    `s`, `ar`, `r`, `t`, `fh` and `fv` are the reference's names for `scale`, `ratio`, `degrees`,
    `translate`, `flip_h` and `flip_v`.
    """

    # Names of the reference, used by existing programs.
    s = _alias("scale")
    ar = _alias("ratio")
    r = _alias("degrees")
    t = _alias("translate")
    fh = _alias("flip_h")
    fv = _alias("flip_v")

    def __init__(
        self,
        scale: float | Sequence[float] = (1.0, 1.0),
        ratio: float | Sequence[float] | None = None,
        degrees: float | Sequence[float] = (-0.0, 0.0),
        translate: float | Sequence[float] = (0.0, 0.0),
        flip_h: float = 0.0,
        flip_v: float = 0.0,
        resize: bool = False,
        keep_ratio: bool = False,
        random_crop: bool = False,
        *,
        uniform_area: bool = False,
        compat: Compat | None = None,
    ) -> None:
        self.scale = _interval("scale", scale, _inverses)
        self.ratio = None if ratio is None else _sorted(_interval("ratio", ratio, _inverses))
        self.degrees = _interval("degrees", degrees, _opposites)
        self.translate = _interval("translate", translate, lambda value: (value, value))
        for name, numbers in (("scale", self.scale), ("ratio", self.ratio or (1.0,))):
            if min(numbers) <= 0:
                raise ValueError(f"{name} must be positive, not {min(numbers)}")
        if not 0 <= min(self.translate) <= max(self.translate) <= 1:
            raise ValueError(f"translate must be between 0 and 1, not {translate}")
        self.flip_h, self.flip_v = _probability("flip_h", flip_h), _probability("flip_v", flip_v)
        self.resize = resize or self.scale != (1.0, 1.0) or ratio is not None
        self.keep_ratio = keep_ratio and self.resize
        self.random_crop = random_crop
        self.uniform_area = uniform_area
        self.compat = check_compat(compat)
        if uniform_area and compat:
            raise ValueError("compat='benzina' draws the logarithm of the area, not uniform_area")

    def with_compat(self, compat: Compat) -> Self:
        """Return a copy that returns the numbers of the reference."""
        if self.uniform_area:
            raise ValueError("compat='benzina' draws the logarithm of the area, not uniform_area")
        other = copy.copy(self)
        other.compat = check_compat(compat)
        return other

    def __call__(self, index: int, in_shape: Shape, out_shape: Shape, rng: Rng) -> Warp:
        """Draw a warp.

        Parameters
        ----------
        index : int
            Index of the sample; not used.
        in_shape, out_shape : (int, int)
            Height and width, in pixels, of the picture and of the output; with `compat` see the
            module.
        rng : Generator or RandomState
            Source of random numbers.

        Returns
        -------
        tuple of 9 float
            The matrix, row by row.
        """
        width, height = in_shape if self.compat else in_shape[::-1]
        out_width, out_height = out_shape if self.compat else out_shape[::-1]
        crop_width, crop_height, is_random = self._crop(width, height, out_width, out_height, rng)
        x = y = 0.0
        if is_random:
            free_x = max(0.0, (width - crop_width) / 2)
            free_y = max(0.0, (height - crop_height) / 2)
            x, y = rng.uniform(-free_x, free_x), rng.uniform(-free_y, free_y)
        degrees = rng.uniform(*self.degrees)
        move_x, move_y = self.translate[0] * out_width, self.translate[1] * out_height
        # Always draw all of them, so that later numbers do not depend on the options.
        moved = rng.uniform(-move_x, move_x), rng.uniform(-move_y, move_y)
        flip_h, flip_v = rng.uniform() < self.flip_h, rng.uniform() < self.flip_v
        return affine(
            (width, height),
            (out_width, out_height),
            (x, y, crop_width, crop_height),
            degrees,
            moved,
            flip_h,
            flip_v,
            self.resize,
            self.keep_ratio,
            self.compat,
        )

    def _crop(
        self, width: int, height: int, out_width: int, out_height: int, rng: Rng
    ) -> tuple[float, float, bool]:
        """Draw the size of the crop; return also whether to draw its place."""
        if self.uniform_area:
            scale = rng.uniform(*self.scale)
        else:
            scale = math.exp(rng.uniform(*_logarithms(self.scale)))
        if self.ratio is not None:
            return self._crop_of_ratio(scale * width * height, width, height, self.ratio, rng)
        if self.resize:
            side = math.sqrt(scale)
            return width * side, height * side, self.random_crop
        return out_width, out_height, self.random_crop

    def _crop_of_ratio(
        self, area: float, width: int, height: int, ratios: tuple[float, float], rng: Rng
    ) -> tuple[float, float, bool]:
        low, high = _logarithms(ratios)
        for _ in range(_NTRIES):
            ratio = math.exp(rng.uniform(low, high))
            crop_width, crop_height = math.sqrt(area * ratio), math.sqrt(area / ratio)
            if 0 < crop_width <= width and 0 < crop_height <= height:
                return crop_width, crop_height, self.random_crop
        if self.compat:
            self.random_crop = False  # for all later samples, as the reference does
        return *self._largest(width, height, ratios), False

    def _largest(self, width: int, height: int, ratios: tuple[float, float]) -> tuple[float, float]:
        """Return the size of the largest crop with a ratio in the given range."""
        if width / height < ratios[0]:
            across = width / ratios[0]
            return width, round(across) if self.compat else across
        if width / height > ratios[1]:
            along = height * ratios[1]
            return round(along) if self.compat else along, height
        return width, height


class RandomResizedCrop(SimilarityTransform):
    """A crop of random size, ratio and place, resized to the output, as in training Inception.

    Parameters
    ----------
    scale, ratio, flip_h, flip_v, uniform_area, compat
        As for `SimilarityTransform`.

    Notes
    -----
    torchvision draws the area itself: ``uniform_area=True``.
    """

    def __init__(
        self,
        scale: float | Sequence[float] = (0.08, 1.0),
        ratio: float | Sequence[float] | None = (3 / 4, 4 / 3),
        *,
        flip_h: float = 0.0,
        flip_v: float = 0.0,
        uniform_area: bool = False,
        compat: Compat | None = None,
    ) -> None:
        super().__init__(
            scale,
            ratio,
            flip_h=flip_h,
            flip_v=flip_v,
            resize=True,
            random_crop=True,
            uniform_area=uniform_area,
            compat=compat,
        )


class CenterResizedCrop(SimilarityTransform):
    """The middle of the picture, resized to the output.

    Parameters
    ----------
    scale : float, default 1.0
        Side lengths of the crop relative to the picture's.
    keep_ratio : bool, default True
        Resize by one factor, so that the crop fills the output and its longer side is cut.
    compat : "benzina", optional
        As for `SimilarityTransform`.
    """

    def __init__(
        self, scale: float = 1.0, keep_ratio: bool = True, *, compat: Compat | None = None
    ) -> None:
        super().__init__((scale**2, scale**2), resize=True, keep_ratio=keep_ratio, compat=compat)


def _interval(
    name: str, value: float | Sequence[float], spread: Callable[[float], tuple[float, float]]
) -> tuple[float, float]:
    """Return the two numbers of `value`; `spread` makes two of a single one."""
    if np.ndim(value) == 0:
        return spread(*_numbers(name, value, 1))
    low, high = _numbers(name, value, 2)
    return low, high


def _inverses(value: float) -> tuple[float, float]:
    if value <= 0:
        raise ValueError(f"scale and ratio must be positive, not {value}")
    return min(value, 1 / value), max(value, 1 / value)


def _opposites(value: float) -> tuple[float, float]:
    if value < 0:
        raise ValueError(f"degrees given as one number must not be negative, not {value}")
    return -value, value


def _sorted(interval: tuple[float, float]) -> tuple[float, float]:
    return min(interval), max(interval)


def _logarithms(interval: tuple[float, float]) -> tuple[float, float]:
    return math.log(interval[0]), math.log(interval[1])


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be a probability, 0 to 1, not {value}")
    return float(value)
