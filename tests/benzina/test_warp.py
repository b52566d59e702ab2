"""The kernel from planes to pixels: bit-exact with its Python twin, and close to the model."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bloscpack._ext import warp as kernel
from bloscpack.benzina.codec.colour import PLANES, benzina_coefficients, coefficients
from bloscpack.benzina.codec.planes import Planes, decode_rgb, warp_planes
from tests.reference import planes_warp as twin

HALVED = {0: (0, 0), 1: (1, 1), 2: (1, 0), 3: (0, 0)}
FULL = coefficients(5, True)
IDENTITY = (1, 0, 0, 0, 1, 0, 0, 0, 1)
HUGE = 1e300
HOMOGRAPHIES = {
    "identity": IDENTITY,
    "crop": (1.7, 0, 3.3, 0, 0.6, 1.9, 0, 0, 1),
    "flips": (-1, 0, 36, 0, -1, 28, 0, 0, 1),
    "larger": (0.23, 0, -0.4, 0, 0.31, -0.4, 0, 0, 1),
    "far": (9.1, 0, -70, 0, 8.3, -40, 0, 0, 1),
    "divided": (3, 0, 12, 0, -3, 80, 0, 0, 2.5),
    "turned": (1.1, 0.4, -3, -0.3, 1.2, 9, 0, 0, 1),
    "sheared": (1, 0.5, 0, 0, 1, 0, 0, 0, 1),
    "quarter": (0, -1, 36, 1, 0, 0, 0, 0, 1),
    "perspective": (1, 0.2, 0, 0.1, 1, 0, 0.01, 0.02, 1),
    "behind": (1, 0, 0, 0, 1, 0, -0.1, 0.05, 1),
    "singular": (0, 0, 7.5, 0, 0, 3.25, 0, 0, 1),
    "zeros": (0,) * 9,
    "no w": (1, 0, 0, 0, 1, 0, 0, 0, 0),
    "w of a column": (1, 0, 0, 0, 1, 0, 1, 0, 0),
    "nan": (math.nan, 0, 0, 0, 1, 0, 0, 0, 1),
    "nan at the end": (1, 0, 0, 0, 1, 0, 0, 0, math.nan),
    "nan turned": (1, math.nan, 0, 0, 1, 0, 0, 0, 1),
    "inf": (math.inf, 0, 0, 0, 1, 0, 0, 0, 1),
    "inf offset": (1, 0, -math.inf, 0, 1, math.inf, 0, 0, 1),
    "inf w": (1, 0.1, 3, 0, 1, 3, 0, 0, math.inf),
    "huge": (HUGE, 0, 0, 0, HUGE, 0, 0, 0, 1),
    "huge both": (HUGE, HUGE, -HUGE, -HUGE, HUGE, HUGE, HUGE, HUGE, -HUGE),
    "tiny": (1e-300, 0, 0, 0, 1e-300, 0, 0, 0, 1e-300),
    "minus zero": (1, -0.0, 0, -0.0, 1, 0, -0.0, -0.0, 1),
    "beyond int": (3e9, 1, 0, 1, 3e9, 0, 0, 0, 1),
}


@pytest.fixture(params=[0, 1], ids=["general", "avx2"])
def vectors(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run with the general code, and with vector instructions if available."""
    if kernel.limit_vectors(request.param) < request.param:
        pytest.skip("the processor has no AVX2")
    yield request.param
    kernel.limit_vectors(1)


def planes_of(
    width: int, height: int, chroma: int = 1, clean: Any = None, seed: int = 0, gap: int = 5
) -> Planes:
    """Return noise; the rows of the planes have gaps between them."""
    rng = np.random.default_rng([seed, width, height, chroma])
    across, down = HALVED[chroma]

    def plane(columns: int, rows: int) -> Any:
        return rng.integers(0, 256, (rows, columns + gap), dtype=np.uint8)[:, :columns]

    size = (width + across) >> across, (height + down) >> down
    u, v = (plane(*size), plane(*size)) if chroma else (None, None)
    clean = clean or (0, 0, width, height)
    return Planes(plane(width, height), u, v, clean, chroma, 5, True)


def both(
    planes: Planes, homography: Any, shape: tuple[int, int], matrix: Any = FULL, **options: Any
) -> tuple[Any, Any]:
    """Return the outputs of the kernel and of its twin."""
    out = np.full((3, *shape), np.nan, np.float32)
    warp_planes(planes, out, homography, matrix=matrix, **options)
    options["rounded"] = matrix is not PLANES
    halved = HALVED[planes.chroma]
    wanted = twin.warp(planes[:3], halved, planes.clean, homography, shape, matrix, **options)
    return out, wanted


@pytest.mark.sampled(7)
@pytest.mark.parametrize("chroma", HALVED)
@pytest.mark.parametrize("name", HOMOGRAPHIES)
def test_warps_as_its_twin(vectors: int, name: str, chroma: int) -> None:
    planes = planes_of(37, 29, chroma, (2, 3, 31, 24))
    for padding, nearest in itertools.product(("clean", "smear", "edge"), (False, True)):
        out, wanted = both(
            planes,
            HOMOGRAPHIES[name],
            (23, 41),
            padding=padding,
            nearest=nearest,
            bias=(123.5, 116.25, 103),
            scale=(0.017, -2, 1),
            outside=(-1000, 1e30, math.inf),
        )
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["identity", "crop", "turned", "larger"])
@pytest.mark.parametrize(
    "size", [(1, 1), (1, 9), (9, 1), (2, 2), (3, 3), (4, 5), (5, 4), (16, 16), (65, 3)], ids=str
)
def test_sizes(vectors: int, size: tuple[int, int], name: str) -> None:
    for chroma, gap in itertools.product(HALVED, (0, 3)):
        planes = planes_of(*size, chroma, gap=gap)
        for shape in ((1, 1), (7, 8), (3, 33), (2, 70)):
            out, wanted = both(planes, HOMOGRAPHIES[name], shape, padding="edge")
            np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("seed", range(20))
def test_random_warps(vectors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height = (int(edge) for edge in rng.integers(1, 90, 2))
    left, top = int(rng.integers(width)), int(rng.integers(height))
    clean = (
        left,
        top,
        1 + int(rng.integers(width - left)),
        1 + int(rng.integers(height - top)),
    )
    planes = planes_of(width, height, seed % 4, clean, seed)
    homography = np.eye(3) + rng.normal(0, 0.4, (3, 3)) * (rng.random((3, 3)) < 0.6)
    homography[2] = (0, 0, 1) if seed % 2 else homography[2] * (0.02, 0.02, 1)
    homography[:2, 2] *= 20
    shape = (int(rng.integers(1, 60)), int(rng.integers(1, 60)))
    padding = ("clean", "smear", "edge")[seed % 3]
    nearest = bool(rng.integers(2))
    out, wanted = both(planes, homography.ravel().tolist(), shape, padding=padding, nearest=nearest)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("name", ["identity", "crop", "turned", "larger", "perspective"])
@pytest.mark.parametrize("chroma", [1, 2, 3])
def test_is_near_to_interpolation_in_floats(chroma: int, name: str) -> None:
    planes = planes_of(37, 29, chroma, (2, 3, 31, 24))
    homography = HOMOGRAPHIES[name]
    out, _ = both(planes, homography, (23, 41), PLANES, outside=(-1, -1, -1))
    values, inside = twin.model(
        planes[:3], HALVED[chroma], planes.clean, homography, (23, 41), PLANES
    )
    np.testing.assert_array_equal(out[0] != -1, inside)
    assert inside.any()
    assert np.abs(out - values)[:, inside].max() < 0.05


def test_wide_sources_take_little_room(vectors: int) -> None:
    planes = planes_of(30_000, 3)
    for homography in ((9_000, 0, 3, 0, 1, 0.5, 0, 0, 1), (-7_000, 0, 29_000, 0, 0.1, 0, 0, 0, 1)):
        out, wanted = both(planes, homography, (2, 4))
        np.testing.assert_array_equal(out, wanted)
        assert len(np.unique(out)) > 4


def test_longest_edge(vectors: int) -> None:
    edge = kernel.MAX_EDGE
    for width, height in ((edge, 1), (1, edge)):
        planes = planes_of(width, height, 1)
        at = (edge - 5.25, 0) if width > 1 else (0, edge - 5.25)
        for homography in (
            (1, 0, at[0], 0, 1, at[1], 0, 0, 1),
            (1, 0.1, at[0], 0.1, 1, at[1], 0, 0, 1),
        ):
            out, wanted = both(planes, homography, (9, 9), outside=(7, 7, 7))
            np.testing.assert_array_equal(out, wanted)
            assert (out != 7).any()


def test_outside_is_relative_to_the_clean_aperture() -> None:
    y = np.full((8, 8), 50, np.uint8)
    y[:, 5:] = y[4:] = 200
    planes = Planes(y, None, None, (0, 0, 5, 4), 0, 5, True)
    homography = (1, 0, -1, 0, 1, -1, 0, 0, 1)
    for padding, kept in (("clean", (5, 4)), ("smear", (8, 8)), ("edge", (5, 4))):
        out, _ = both(planes, homography, (12, 12), padding=padding, outside=(-3, -3, -3))
        inside = np.zeros((12, 12), bool)
        inside[1 : 1 + kept[1], 1 : 1 + kept[0]] = True
        assert (out[:, ~inside] == -3).all()
        assert (out[:, inside] != -3).all()
        assert (out.max() == 200) == (padding == "smear")


def test_edge_pixels_reach_half_a_pixel_further() -> None:
    planes = planes_of(3, 3, 0)
    larger = (0.25, 0, -0.375, 0, 0.25, -0.375, 0, 0, 1)
    out, _ = both(planes, larger, (12, 12), padding="edge", outside=(-1, -1, -1))
    assert out.min() >= 0
    assert out[0, 0, 0] == planes.y[0, 0]
    assert out[0, -1, -1] == planes.y[2, 2]
    out, _ = both(planes, larger, (12, 12), outside=(-1, -1, -1))
    assert (out[0, :2] == -1).all()
    assert (out[0, 2:10, 2:10] >= 0).all()


def test_nearest_takes_whole_pixels(vectors: int) -> None:
    planes = planes_of(40, 40, 3)
    out, _ = both(planes, (0.5, 0, 0.2, 0, 0.5, 0.2, 0, 0, 1), (70, 70), PLANES, nearest=True)
    at = np.floor(np.arange(70) * 0.5 + 0.2 + 0.5).astype(int)
    for channel, plane in enumerate(planes[:3]):
        np.testing.assert_array_equal(out[channel], plane[np.ix_(at, at)])


@pytest.mark.parametrize("chroma", HALVED)
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 7), (10, 4), (33, 35), (64, 64)], ids=str)
def test_picture_is_the_warp_by_nothing(vectors: int, size: tuple[int, int], chroma: int) -> None:
    width, height = size
    clean = (width // 4, height // 3, width - width // 4, height - height // 3)
    planes = planes_of(width, height, chroma, clean)
    _, wanted = both(planes, IDENTITY, planes.shape)
    rgb = decode_rgb(planes)
    np.testing.assert_array_equal(rgb.transpose(2, 0, 1), wanted)
    # Nothing is written outside it.
    room = np.full(rgb.size + 64, 77, np.uint8)
    out = room[: rgb.size].reshape(rgb.shape)
    assert decode_rgb(planes, out=out) is out
    np.testing.assert_array_equal(out, rgb)
    assert (room[rgb.size :] == 77).all()


def test_output_strides(vectors: int) -> None:
    planes = planes_of(20, 20)
    batch = np.full((2, 3, 12, 19), -5, np.float32)
    warp_planes(planes, batch[1, :, ::2, 3:16], (1.3, 0.1, 0, 0, 1, 0, 0, 0, 1))
    wanted = twin.warp(
        planes[:3], (1, 1), planes.clean, (1.3, 0.1, 0, 0, 1, 0, 0, 0, 1), (6, 13), FULL
    )
    np.testing.assert_array_equal(batch[1, :, ::2, 3:16], wanted)
    assert (batch[0] == -5).all()
    assert (batch[1, :, 1::2] == -5).all()
    assert (batch[1, :, ::2, :3] == -5).all()
    assert (batch[1, :, ::2, 16:] == -5).all()
    flipped = np.zeros((3, 6, 13), np.float32)
    warp_planes(planes, flipped[::-1, ::-1], (1.3, 0.1, 0, 0, 1, 0, 0, 0, 1))
    np.testing.assert_array_equal(flipped[::-1, ::-1], wanted)


def test_planes_may_be_turned_upside_down(vectors: int) -> None:
    planes = planes_of(20, 21)
    planes = planes._replace(y=planes.y[::-1], u=planes.u[::-1], v=planes.v[::-1])
    for name in ("crop", "turned"):
        out, wanted = both(planes, HOMOGRAPHIES[name], (17, 18))
        np.testing.assert_array_equal(out, wanted)


def test_empty_outputs() -> None:
    for shape in ((3, 0, 5), (3, 5, 0)):
        warp_planes(planes_of(4, 4), np.empty(shape, np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": None}, "two planes"),
        ({"v": np.zeros((2, 3), np.uint8)}, "must have 4 x 3"),
        ({"y": np.zeros((0, 7), np.uint8)}, "edges have"),
        ({"y": np.zeros((1, 65536), np.uint8)}, "edges have"),
        ({"y": np.zeros((6, 14), np.uint8)[:, ::2]}, "next to each other"),
        ({"clean": (0, 0, 8, 6)}, "not inside"),
        ({"clean": (5, 0, 3, 6)}, "not inside"),
        ({"clean": (0, -1, 7, 6)}, "not inside"),
        ({"clean": (0, 0, 0, 6)}, "not inside"),
        ({"clean": (2**62, 0, 2**62, 6)}, "not inside"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_planes_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    planes = planes_of(7, 6)._replace(**change)
    with pytest.raises(ValueError, match=message):
        warp_planes(planes, np.zeros((3, 4, 4), np.float32))
    with pytest.raises(ValueError, match=message):
        decode_rgb(planes, out=np.zeros((6, 7, 3), np.uint8))


def test_outputs_that_do_not_fit() -> None:
    planes = planes_of(7, 6)
    for out in (np.zeros((4, 4, 4), np.float32), np.zeros((3, 4, 8), np.float32)[:, :, ::2]):
        with pytest.raises(ValueError, match="output"):
            warp_planes(planes, out)
    with pytest.raises(ValueError, match="float"):
        warp_planes(planes, np.zeros((3, 4, 4), np.float64))
    for shape in ((7, 6, 3), (6, 7, 4), (6, 8, 3)):
        with pytest.raises(ValueError, match="output"):
            decode_rgb(planes, out=np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="padding"):
        warp_planes(planes, np.zeros((3, 4, 4), np.float32), padding="mirror")
    out = np.zeros((3, 4, 4), np.float32)
    with pytest.raises(ValueError, match="homography: 3 numbers, 9"):
        warp_planes(planes, out, [1, 0, 0])
    for name in ("bias", "scale", "outside", "matrix"):
        with pytest.raises(ValueError, match=f"{name}: 2 numbers"):
            warp_planes(planes, out, **{name: (1, 2)})


GOLDEN = {
    # White, black and the three primaries of each standard in 8 bits: luma, chroma, RGB. From the
    # definitions of the standards (BT.601, BT.709 and BT.2020, limited-range quantization).
    (1, False): [(235, 128, 128), (16, 128, 128), (63, 102, 240), (173, 42, 26), (32, 240, 118)],
    (6, False): [(235, 128, 128), (16, 128, 128), (81, 90, 240), (145, 54, 34), (41, 240, 110)],
    (9, False): [(235, 128, 128), (16, 128, 128), (74, 97, 240), (164, 47, 25), (29, 240, 119)],
    (1, True): [(255, 128, 128), (0, 128, 128), (54, 99, 255), (182, 30, 12), (18, 255, 116)],
    (5, True): [(255, 128, 128), (0, 128, 128), (76, 85, 255), (150, 44, 21), (29, 255, 107)],
}


@pytest.mark.parametrize(("matrix", "full_range"), GOLDEN)
def test_colours_of_the_standards(matrix: int, full_range: bool) -> None:
    wanted = [(255, 255, 255), (0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)]
    samples = np.array(GOLDEN[matrix, full_range], np.uint8)
    y, u, v = (samples[:, i].copy()[None] for i in range(3))
    rgb = decode_rgb(Planes(y, u, v, (0, 0, 5, 1), 3, matrix, full_range))
    # Samples are rounded by up to half a step, which changes a channel by up to 1.2.
    assert np.abs(rgb[0].astype(int) - wanted).max() <= 2


def test_colours_that_are_not_numbers(vectors: int) -> None:
    matrix = (math.nan, 0, 0, 0, math.inf, 0, 0, -1, -math.inf, 0, 0, -1)
    out = np.empty((3, 5, 20), np.float32)
    warp_planes(planes_of(20, 5, 0)._replace(y=np.ones((5, 20), np.uint8)), out, matrix=matrix)
    assert (out[0] == 0).all()
    assert (out[1] == 255).all()
    assert (out[2] == 0).all()


def test_planes_of_rgb_are_permuted() -> None:
    planes = planes_of(33, 5, 3)._replace(matrix=0)
    assert planes.subsampling == "rgb"
    g, b, r = planes[:3]
    np.testing.assert_array_equal(decode_rgb(planes), np.stack([r, g, b], axis=2))


def test_grey_has_no_colour() -> None:
    planes = planes_of(33, 5, 0)
    np.testing.assert_array_equal(decode_rgb(planes), np.repeat(planes.y[:, :, None], 3, axis=2))


def test_benzinas_selectors() -> None:
    full = benzina_coefficients(0)
    assert np.abs(np.subtract(full, coefficients(5, True))).max() < 2e-4
    assert benzina_coefficients(2) == coefficients(1, False)
    assert benzina_coefficients(9) is PLANES
    assert benzina_coefficients(-1) is PLANES
