"""Transforms: the reference's own matrices, and the corrected ones where it is wrong."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from bloscpack.benzina import transforms
from bloscpack.benzina.load.affine import compute_affine_matrix
from bloscpack.benzina.load.samplestream import SampleStreams

from .vectors import FOLDER


def golden_cases() -> list[Any]:
    if not FOLDER:
        return []
    cases = json.loads((FOLDER / "transforms.json").read_text("utf-8"))["warp_matrices"]["cases"]
    return [pytest.param(case, id=f"{case['class']}-{case['seed']}") for case in cases]


def transform_of(case: dict[str, Any], **options: Any) -> Any:
    kind = getattr(transforms, case["class"])
    if issubclass(kind, transforms.SimilarityTransform):
        options["compat"] = "benzina"
    return kind(**case["args"], **options)


def test_all_golden_cases_are_there() -> None:
    if not golden_cases():
        pytest.skip(FOLDER.missing)
    assert len(golden_cases()) == 39


@pytest.mark.parametrize("case", golden_cases())
def test_matrices_and_draws_of_the_reference(case: dict[str, Any]) -> None:
    transform, rng = transform_of(case), np.random.RandomState(case["seed"])
    shapes = tuple(case["in_shape_wh"]), tuple(case["out_shape"])
    found = [transform(0, *shapes, rng) for _ in range(3)]
    np.testing.assert_allclose(found, case["three_calls"], rtol=1e-12, atol=1e-10)
    assert rng.uniform() == case["draws_left_check"]
    # The generator of the vectors only checked whether random_crop was passed.
    turned_off = case["args"].get("random_crop", False) and not transform.random_crop
    assert turned_off is case["fallback_turned_random_crop_off"]


def center_of(warp: Any, shape: tuple[int, int]) -> tuple[float, float]:
    """Return the place in the picture of the centre of an output of (height, width), as (x, y)."""
    point = np.array(warp).reshape(3, 3) @ [(shape[1] - 1) / 2, (shape[0] - 1) / 2, 1]
    return point[0], point[1]


def corners(warp: Any, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Return the outer edges of an output in the picture: ((left, right), (top, bottom))."""
    matrix = np.array(warp).reshape(3, 3)
    first = matrix @ [-0.5, -0.5, 1]
    last = matrix @ [shape[1] - 0.5, shape[0] - 0.5, 1]
    return np.array([[first[0], last[0]], [first[1], last[1]]]) + 0.5


def test_shapes_are_height_and_width() -> None:
    # A picture 300 high and 100 wide, shown whole in an output 30 high and 20 wide.
    warp = transforms.SimilarityTransform(resize=True)(0, (300, 100), (30, 20), Fixed(0.5))
    np.testing.assert_allclose(corners(warp, (30, 20)), [[0, 100], [0, 300]], atol=1e-9)


def test_the_crop_of_one_ratio_fills_the_output() -> None:
    warp = transforms.CenterResizedCrop()(0, (300, 100), (40, 20), Fixed(0.5))
    # 100 columns in 20: 5 for each, in both directions, and 200 of the 300 rows.
    np.testing.assert_allclose(corners(warp, (40, 20)), [[0, 100], [50, 250]], atol=1e-9)


class Fixed:
    """A stand-in for a generator that draws the same fraction of each range."""

    def __init__(self, part: float) -> None:
        self.part = part

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * self.part


@pytest.mark.parametrize("shape", [(341, 512), (500, 100), (1, 1), (1, 4000)])
def test_random_crops_stay_inside_the_picture(shape: tuple[int, int]) -> None:
    crop = transforms.RandomResizedCrop(flip_h=0.5, flip_v=0.5)
    streams = SampleStreams(3)
    for index in range(50):
        (left, right), (top, bottom) = corners(
            crop(index, shape, (48, 64), streams.at(0, index)), (48, 64)
        )
        assert -1e-6 <= min(left, right) < max(left, right) <= shape[1] + 1e-6
        assert -1e-6 <= min(top, bottom) < max(top, bottom) <= shape[0] + 1e-6


def test_a_crop_that_does_not_fit_is_central_for_that_sample_only() -> None:
    crop = transforms.SimilarityTransform((0.01, 0.01), (5.0, 6.0), random_crop=True)
    streams = SampleStreams(0)
    warp = crop(0, (400, 7), (32, 48), streams.at(0, 0))
    assert center_of(warp, (32, 48)) == pytest.approx((3.0, 199.5))
    assert crop.random_crop
    warp = crop(1, (100, 6000), (32, 48), streams.at(0, 1))
    assert center_of(warp, (32, 48))[0] != pytest.approx(2999.5)


def test_a_turned_crop_keeps_its_size() -> None:
    # 45 degrees would make the reference's matrix singular.
    matrix = compute_affine_matrix((100, 100), (50, 50), degrees=45, resize=True)
    np.testing.assert_allclose(np.linalg.norm(matrix[:2, :2], axis=0), [2, 2])
    assert compute_affine_matrix((100, 100), (50, 50), degrees=45, resize=True, compat="benzina")[
        0, 0
    ] == pytest.approx(0)


def test_a_matrix_flips_and_moves() -> None:
    matrix = compute_affine_matrix((4, 6), (4, 6), flip_h=True, translate=(1, 0))
    # Output column 0 is column -1 of the mirrored picture: one right of its last column.
    np.testing.assert_allclose(matrix @ [0, 0, 1], [6 - 1 - 1, 0, 1])
    assert compute_affine_matrix((4, 6), (2, 2), (0, 0, 2, 2), resize=True)[0, 2] == 2.0


def test_uniform_area_is_that_of_torchvision() -> None:
    crop = transforms.RandomResizedCrop((0.1, 1.0), (1.0, 1.0), uniform_area=True)
    warp = crop(0, (100, 100), (10, 10), Fixed(0.5))
    assert warp[0] == pytest.approx(math.sqrt(0.55) * 10)
    logarithmic = transforms.RandomResizedCrop((0.1, 1.0), (1.0, 1.0))
    warp = logarithmic(0, (100, 100), (10, 10), Fixed(0.5))
    assert warp[0] == pytest.approx(math.sqrt(math.sqrt(0.1)) * 10)


def test_numbers_stand_for_intervals() -> None:
    both = transforms.SimilarityTransform(scale=2, ratio=0.5, degrees=10, translate=0.25)
    assert both.scale == (0.5, 2.0)
    assert both.ratio == (0.5, 2.0)
    assert both.degrees == (-10.0, 10.0)
    assert both.translate == (0.25, 0.25)
    assert transforms.SimilarityTransform(ratio=(2.0, 0.5)).ratio == (0.5, 2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": (0, 1)}, "scale must be positive"),
        ({"scale": 0}, "scale and ratio must be positive"),
        ({"ratio": (-1, 1)}, "ratio must be positive"),
        ({"degrees": -3}, "degrees given as one number"),
        ({"translate": 1.5}, "translate must be between 0 and 1"),
        ({"translate": (0, 0, 0)}, "translate must be 2 numbers, not 3"),
        ({"flip_h": 1.5}, "flip_h must be a probability"),
        ({"compat": "Benzina"}, "compat must be None or 'benzina'"),
        ({"compat": "benzina", "uniform_area": True}, "not uniform_area"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value),
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transforms.SimilarityTransform(**options)


def test_constants() -> None:
    call = (0, (1, 1), (1, 1), None)
    assert transforms.ConstantNormTransform(2)(*call) == (2.0, 2.0, 2.0)
    assert transforms.ConstantBiasTransform(np.array([1, 2, 3]))(*call) == (1.0, 2.0, 3.0)
    assert transforms.ConstantOOBTransform(None)(*call) == (0.0, 0.0, 0.0)
    assert transforms.ConstantNormTransform(None)(*call) == (1.0, 1.0, 1.0)
    assert transforms.ConstantColorTransform((2,))(*call) == (2,)
    assert transforms.ConstantColorTransform(None)(*call) == (0,)
    assert transforms.ConstantWarpTransform(np.eye(3))(*call) == transforms.IDENTITY
    with pytest.raises(ValueError, match="norm must be 3 numbers, not 2"):
        transforms.ConstantNormTransform([1, 2])


@pytest.mark.parametrize("name", ["Warp", "OOB", "Color", "Norm", "Bias"])
def test_a_base_must_be_completed(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{name}Transform must define __call__"):
        getattr(transforms, f"{name}Transform")()(0, (1, 1), (1, 1), None)


def test_a_transform_of_another_order_is_another_one() -> None:
    crop = transforms.RandomResizedCrop()
    other = pickle.loads(pickle.dumps(crop.with_compat("benzina")))
    assert (crop.compat, other.compat) == (None, "benzina")
    assert isinstance(other, transforms.RandomResizedCrop)
    with pytest.raises(ValueError, match="not uniform_area"):
        transforms.RandomResizedCrop(uniform_area=True).with_compat("benzina")


def test_streams_depend_on_all_of_their_key_and_on_nothing_else() -> None:
    streams, other = SampleStreams(7), SampleStreams(7)
    keys = [(epoch, index, repeat) for epoch in (0, 1) for index in (0, 1, 5) for repeat in (0, 1)]
    first = {key: streams.at(*key).random(3).tolist() for key in keys}
    assert len({tuple(values) for values in first.values()}) == len(keys)
    for key in reversed(keys):
        rng = other.at(*key)
        rng.integers(10, dtype=np.int32)  # leaves half a word in the buffer
        assert other.at(*key).random(3).tolist() == first[key]
    assert SampleStreams(8).at(0, 0).random() != first[0, 0, 0][0]
    # The stream is numpy's Philox with that key.
    for draw in (lambda rng: rng.random(3), lambda rng: rng.integers(1 << 30, size=3, dtype="i4")):
        same = np.random.Generator(np.random.Philox(key=[7, 1], counter=[0, 0, 1, 5]))
        np.testing.assert_array_equal(draw(other.at(1, 5, 1)), draw(same))


def test_attributes_have_the_names_of_the_reference() -> None:
    transform = transforms.SimilarityTransform(
        scale=(0.5, 1.0), ratio=2.0, degrees=10, translate=(0.1, 0.2), flip_h=0.25, flip_v=0.75
    )
    names = [transform.s, transform.ar, transform.r, transform.t, transform.fh, transform.fv]
    assert names == [(0.5, 1.0), (0.5, 2.0), (-10.0, 10.0), (0.1, 0.2), 0.25, 0.75]
    transform.fh = 1.0
    assert transform.flip_h == 1.0
