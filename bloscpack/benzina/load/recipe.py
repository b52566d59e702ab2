"""The transforms of a loader, and the numbers they return for a sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any, NamedTuple, TypeAlias

from ..codec.colour import MATRIX_RGB, Coefficients, benzina_coefficients, coefficients
from ..codec.planes import Floats, Planes, check_padding, warp_planes
from ..transforms import (
    ConstantBiasTransform,
    ConstantColorTransform,
    ConstantNormTransform,
    ConstantOOBTransform,
    ConstantWarpTransform,
    SimilarityTransform,
    Transform,
)
from .affine import Compat, Shape, check_compat

# A transform, or the numbers of a constant one.
TransformLike: TypeAlias = Transform | float | Sequence[float] | None

_CONSTANTS = (
    ConstantBiasTransform,
    ConstantColorTransform,
    ConstantNormTransform,
    ConstantOOBTransform,
    ConstantWarpTransform,
)
INTERPOLATIONS = ("bilinear", "nearest")


class Numbers(NamedTuple):
    """Results of the transforms for one sample."""

    warp: Sequence[float]
    color: int | None
    bias: Sequence[float]
    norm: Sequence[float]
    oob: Sequence[float]

    def conversion(self, matrix: int, full_range: bool) -> Coefficients:
        """Return the colour conversion: that of the transform, else that of the picture.

        Pictures stored as RGB are not converted.
        """
        if self.color is None or matrix == MATRIX_RGB:
            return coefficients(matrix, full_range)
        return benzina_coefficients(self.color)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The transforms of a loader; created by `make_recipe`."""

    shape: Shape  # height and width of the output
    warp: Transform
    color: Transform | None  # None for the conversion that each picture specifies
    bias: Transform
    norm: Transform
    oob: Transform
    padding: str
    interpolation: str
    compat: Compat | None  # call the transforms as the reference does

    @property
    def is_random(self) -> bool:
        """Whether the transforms may draw random numbers."""
        given = (self.warp, self.color, self.bias, self.norm, self.oob)
        return not all(one is None or isinstance(one, _CONSTANTS) for one in given)

    @property
    def is_in_order(self) -> bool:
        """Whether all samples of a pass share one random stream."""
        return self.compat is not None and self.is_random

    def settings(self) -> dict[str, str]:
        """Return the fields as text, for the state of a loader; of functions, their names."""
        return {field.name: _text_of(getattr(self, field.name)) for field in fields(self)}

    def numbers(self, index: int, in_shape: Shape, rng: Any) -> Numbers:
        """Call the transforms for a sample, in the order of the reference.

        `index` is the position of the sample in the dataset, `in_shape` the height and width of its
        picture. Constant transforms ignore `rng`.
        """
        shapes = (in_shape[::-1] if self.compat else in_shape), self.shape
        warp = _check_count("warp", self.warp(index, *shapes, rng), 9)
        color = None
        if self.color is not None:
            color = int(_check_count("color", self.color(index, *shapes, rng), 1)[0])
        bias = _check_count("bias", self.bias(index, *shapes, rng), 3)
        norm = _check_count("norm", self.norm(index, *shapes, rng), 3)
        return Numbers(
            warp, color, bias, norm, _check_count("oob", self.oob(index, *shapes, rng), 3)
        )

    def fill(self, planes: Planes, numbers: Numbers, out: Floats) -> None:
        """Write a picture into its place in a batch, float32 of (3, height, width)."""
        warp_planes(
            planes,
            out,
            numbers.warp,
            bias=numbers.bias,
            scale=numbers.norm,
            outside=numbers.oob,
            matrix=numbers.conversion(planes.matrix, planes.full_range),
            padding=self.padding,
            nearest=self.interpolation == "nearest",
        )


def make_recipe(
    shape: int | Sequence[int],
    *,
    warp: TransformLike,
    color: TransformLike,
    bias: TransformLike,
    norm: TransformLike,
    oob: TransformLike,
    padding: str = "edge",
    interpolation: str = "bilinear",
    compat: Compat | None = None,
) -> Recipe:
    """Return a recipe of transforms, other callables, or constants."""
    check_padding(padding)
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"interpolation must be one of {', '.join(INTERPOLATIONS)}, not {interpolation!r:.80}"
        )
    compat = check_compat(compat)
    made = as_transform(warp, ConstantWarpTransform)
    if isinstance(made, SimilarityTransform):
        compat = compat or made.compat
        if compat and not made.compat:
            made = made.with_compat(compat)
    return Recipe(
        _pair(shape),
        made,
        None if color is None else as_transform(color, ConstantColorTransform),
        as_transform(bias, ConstantBiasTransform),
        as_transform(norm, ConstantNormTransform),
        as_transform(oob, ConstantOOBTransform),
        padding,
        interpolation,
        compat,
    )


def as_transform(given: TransformLike, constant: Callable[[Any], Transform]) -> Transform:
    """Return a transform unchanged, or the constant one of numbers."""
    return given if callable(given) else constant(given)


def _text_of(value: Any) -> str:
    if not callable(value):
        return str(value)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    # The attributes of other classes may print as addresses, which differ between processes.
    return (
        f"{name} {vars(value)}"
        if type(value).__module__ == SimilarityTransform.__module__
        else str(name)
    )


def _check_count(name: str, numbers: Sequence[float], count: int) -> Sequence[float]:
    if len(numbers) != count:
        raise ValueError(f"the {name} transform returned {len(numbers)} numbers, not {count}")
    return numbers


def _pair(shape: int | Sequence[int]) -> Shape:
    """Return (height, width); one number means both."""
    try:
        height = width = index(shape)  # type: ignore[arg-type]
    except TypeError:  # not one number
        pair = tuple(shape)  # type: ignore[arg-type]
        try:
            height, width = map(index, pair)
        except (TypeError, ValueError):
            height = width = 0
    if height < 1 or width < 1:
        raise ValueError(f"shape must be a positive int, or (height, width), not {shape!r:.80}")
    return height, width
