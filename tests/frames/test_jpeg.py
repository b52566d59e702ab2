"""JPEG clips: subsampled chroma, and decoding by the exact transform."""

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.types import AnyArray

from ..test_layers import FILE_TYPES

pytest.importorskip("simplejpeg")
Image = pytest.importorskip("PIL.Image")

# Coloured edges between pixels, so that the resolution of chroma is visible.
_Y, _X = np.mgrid[:48, :64]
FRAMES = np.stack(
    [
        np.stack([_X * 3 + t, _Y * 5, (_X // 3 + _Y // 5 + t) % 2 * 200], axis=-1).astype("u1")
        for t in range(4)
    ]
)
# Horizontal and vertical sampling factors of the three components, as in the file.
FACTORS = {"444": (1, 1), "422": (2, 1), "420": (2, 2)}


def luma_factors(jpeg: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(jpeg)) as opened:
        factors = {layer[1:3] for layer in opened.layer[1:]}
        assert factors == {(1, 1)}
        horizontal, vertical = opened.layer[0][1:3]
    return horizontal, vertical


@pytest.mark.parametrize("subsampling", FACTORS)
def test_chroma_has_the_chosen_resolution(subsampling: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with bp.frames.create(path, codec="jpeg", subsampling=subsampling) as store:
        store.append("a", FRAMES)
        store.append("full", FRAMES, subsampling="444")
    with bp.frames.open(path, "a") as store:
        assert store.subsampling == subsampling
        store.append("later", FRAMES)
    with bp.frames.open(path) as store:
        images = store["a"].read_images()
        assert {luma_factors(each) for each in images} == {FACTORS[subsampling]}
        assert store["later"].read_images() == images
        assert luma_factors(store["full"].read_images()[0]) == (1, 1)
        assert store["a"].cbytes <= store["full"].cbytes
        assert np.abs(store["a"][:].astype(int) - FRAMES).mean() < 25


def test_default_stores_have_no_field_for_it(tmp_path: Path) -> None:
    bp.frames.create(tmp_path / "a.blp", codec="jpeg").close()
    assert b"subsampling" not in (tmp_path / "a.blp").read_bytes()


@pytest.mark.parametrize("subsampling", ["411", "", 420, None])
def test_other_values_are_refused(subsampling: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="subsampling must be one of 444, 422, 420"):
        bp.frames.create(tmp_path / "a.blp", codec="jpeg", subsampling=subsampling)
    assert not (tmp_path / "a.blp").exists()


def test_ingest_encodes_again(tmp_path: Path) -> None:
    path, items = tmp_path / "a.blp", {"a": FRAMES}
    bp.frames.ingest(items, path, codec="jpeg", subsampling="420")
    with bp.frames.open(path) as store:
        assert luma_factors(store["a"].read_images()[0]) == (2, 2)
        again = tmp_path / "b.blp"
        bp.frames.ingest(store, again, codec="jpeg", subsampling="422")
    with bp.frames.open(again) as store:
        assert luma_factors(store["a"].read_images()[0]) == (2, 1)
    with pytest.raises(ValueError, match="subsampling='420'"):
        bp.frames.ingest({"b": FRAMES}, path, codec="jpeg", subsampling="444")
    with pytest.raises(ValueError, match="subsampling needs codec='jpeg'"):
        bp.frames.ingest({"b": FRAMES}, path, subsampling="420")


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("jpeg") / "a.blp"
    with bp.frames.create(path, codec="jpeg", subsampling="420") as store:
        store.append("a", FRAMES)
        store.append("raw", FRAMES, codec="lossless")
    return path


@pytest.fixture(scope="module")
def pixels(store_path: Path) -> AnyArray:
    """Frames decoded by Pillow, which takes the exact transform and smooth chroma."""
    with bp.frames.open(store_path) as store:
        images = store["a"].read_images()
    return np.stack([np.asarray(Image.open(io.BytesIO(each))) for each in images])


def test_exact_pixels_are_those_of_pillow(store_path: Path, pixels: AnyArray) -> None:
    with bp.frames.open(store_path, exact=True) as store:
        clip = store["a"]
        assert np.array_equal(clip[:], pixels)
        assert np.array_equal(clip[2], pixels[2])
        assert np.array_equal(store.read([("a", [3, 0])])[0], pixels[[3, 0]])
        assert np.array_equal(store["raw"][:], FRAMES)
        for other in (pickle.loads(pickle.dumps(store)), copy.copy(store)):
            assert np.array_equal(other["a"][:], pixels)
        reduced = clip.read([1], reduce=2)
    with bp.frames.open(store_path) as store:
        assert not np.array_equal(store["a"][:], pixels)
        assert not np.array_equal(store["a"].read([1], reduce=2), reduced)
        assert np.array_equal(pickle.loads(pickle.dumps(store))["a"][:], store["a"][:])


def test_reduced_frames_are_upright(tmp_path: Path) -> None:
    turned, stream = Image.Exif(), io.BytesIO()
    turned[0x0112] = 6  # orientation: shown turned clockwise
    Image.fromarray(FRAMES[0]).save(stream, "JPEG", quality=95, exif=turned)
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append("a", [stream.getvalue()], codec="jpeg")
        clip = store["a"]
        assert clip.shape == (1, 64, 48, 3)
        reduced, whole = clip.read(reduce=2).astype("i2"), clip.read().astype("i2")
    means = whole.reshape(1, 32, 2, 24, 2, 3).mean(axis=(2, 4))
    assert np.abs(reduced - means).mean() < 8


def test_exact_for_several_stores_and_appending(store_path: Path, pixels: AnyArray) -> None:
    with bp.frames.open([store_path], exact=True) as many:
        assert np.array_equal(many["a"][:], pixels)
        assert np.array_equal(pickle.loads(pickle.dumps(many))["a"][1], pixels[1])
    with bp.frames.open(store_path, "a", exact=True) as store:
        assert np.array_equal(store["a"][:], pixels)


@pytest.mark.skipif("gulp" not in FILE_TYPES, reason="Gulp directories are not read")
def test_exact_is_for_frame_stores_only(store_path: Path, tmp_path: Path) -> None:
    bp.convert(store_path, tmp_path / "gulped", to="gulp", quality=90)
    with pytest.raises(ValueError, match="exact=True is for frame stores"):
        bp.frames.open(tmp_path / "gulped", exact=True)


def test_exact_is_a_bool(store_path: Path) -> None:
    for path in (store_path, [store_path]):
        with pytest.raises(TypeError, match="exact must be True or False"):
            bp.frames.open(path, exact=1)
