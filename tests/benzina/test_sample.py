"""Samples: decoded directly, and as clips of one frame."""

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4 import samplelayout
from bloscpack.benzina.mp4.samplewriter import pack_sample
from bloscpack.exceptions import CodecError, FormatError, NotFoundError, UnsupportedError
from bloscpack.frames.protocol import Clip

from . import making, vectors
from .datasetfiles import dataset_bytes, patched

pytest.importorskip("av")

PICTURES = (
    [
        (name, index, track)
        for name in ("mini12.bzna", "tail8.bzna")
        for index in range(vectors.facts(name)["logical"]["count"])
        for track in ("bzna_input", "bzna_thumb")
    ]
    if vectors.names("dataset")
    else []
)


@pytest.fixture(scope="module")
def mini() -> benzina.Dataset:
    return benzina.open(vectors.FOLDER / "mini12.bzna")


@pytest.mark.parametrize(("name", "index", "track"), PICTURES)
def test_pictures(name: str, index: int, track: str) -> None:
    said = vectors.facts(name)["samples"][index]["pixels"][track]
    with benzina.open(vectors.FOLDER / name) as dataset:
        sample = dataset[index]
        width, height = said["clean"]
        planes = sample.frame(track)
        digest = hashlib.sha256(b"".join(plane.tobytes() for plane in planes[:3])).hexdigest()
        assert digest == said["sha256_i420_full"]
        assert planes.shape == (height, width)
        pixels = sample.decode(track)
        assert (pixels.shape, pixels.dtype) == ((height, width, 3), np.uint8)
        for x, y, *rgb in said["rgb_points_xyrgb"]:
            assert np.abs(pixels[y, x].astype(int) - rgb).max() <= 1
        out = np.zeros_like(pixels)
        assert sample.decode(track, out=out) is out
        assert np.array_equal(out, pixels)


def test_each_with_its_own_configuration() -> None:
    # An H.264 sample and one of another quality, besides those of the file.
    samples = [vectors.data(f"samples/{name}.mp4") for name in ("avc", "coffee_crf10", "dot")]
    with benzina.open(dataset_bytes(samples)) as dataset:
        for sample, name in zip(dataset.samples(), ("avc", "coffee_crf10", "dot"), strict=True):
            said = vectors.facts(f"samples/{name}.mp4")["pixels"]
            for track in ("bzna_input", "bzna_thumb"):
                planes = sample.frame(track)
                digest = hashlib.sha256(b"".join(plane.tobytes() for plane in planes[:3]))
                assert digest.hexdigest() == said[track]["sha256_i420_full"]


def test_the_thumbnail_is_the_default(mini: benzina.Dataset) -> None:
    assert mini[1].decode().shape == (341, 512, 3)
    assert mini[1].frame().shape == (341, 512)


class TestClip:
    def test_what_it_is(self, mini: benzina.Dataset) -> None:
        clip: Clip = mini["coffee.png"]
        assert (clip.id, len(clip)) == ("coffee.png", 1)
        assert (clip.shape, clip.dtype) == ((1, 400, 600, 3), np.dtype("u1"))
        assert clip.meta == {"name": "coffee.png", "target": 1}
        with pytest.raises(TypeError, match="the file would not change"):
            clip.meta["name"] = "changed"
        assert clip.read_images() is None
        with pytest.raises(IndexError):
            clip.read_images(1)
        assert mini.frames("bzna_thumb")["coffee.png"].shape == (1, 341, 512, 3)

    @pytest.mark.parametrize(
        "selection",
        [
            None, slice(None), slice(None, None, -1), slice(1, 1), 0, -1, np.int64(0), [0, 0, -1],
            [], np.array([True]), np.array([False]), ...,
        ],
    )  # fmt: skip
    def test_selections(self, mini: benzina.Dataset, selection: Any) -> None:
        expected = mini[7].decode("bzna_input")[None]
        clip = mini[7]
        if isinstance(selection, list) and not selection:
            wanted = expected[:0]
        else:
            wanted = expected[slice(None) if selection is None else selection]
        for found in (clip.read(selection), clip[selection]):
            assert (found.shape, found.dtype) == (wanted.shape, np.uint8)
            assert np.array_equal(found, wanted)
        out = np.zeros_like(wanted)
        assert clip.read(selection, out=out) is out
        assert np.array_equal(out, wanted)
        spread = np.zeros((*wanted.shape[:-1], 6), "u1")[..., ::2]
        assert clip.read(selection, out=spread) is spread
        assert np.array_equal(spread, wanted)

    @pytest.mark.parametrize(
        ("selection", "kind"), [(1, IndexError), ([0, 1], IndexError), ("a", TypeError)]
    )
    def test_what_is_not_there(
        self, mini: benzina.Dataset, selection: Any, kind: type[Exception]
    ) -> None:
        with pytest.raises(kind):
            mini[7][selection]

    def test_out_must_fit(self, mini: benzina.Dataset) -> None:
        with pytest.raises(ValueError, match="out is"):
            mini[7].read(out=np.zeros((1, 5, 5, 3), "u1"))
        with pytest.raises(ValueError, match="out"):
            mini[7].decode(out=np.zeros((5, 5, 3), "u1"))

    def test_pickled(self, mini: benzina.Dataset) -> None:
        copy = pickle.loads(pickle.dumps(mini.frames("bzna_thumb")[1]))
        assert copy.shape == (1, 341, 512, 3)
        assert np.array_equal(copy[0], mini[1].decode("bzna_thumb"))


def with_config(data: bytes, at: int, new: bytes) -> bytes:
    """Return a sample with other decoder configurations."""
    for track in samplelayout.parse_sample(data).tracks.values():
        if track.config:
            data = data.replace(track.config, patched(track.config, at, new))
    return data


class TestDamage:
    """Errors name the file and the sample; other samples can be read."""

    @pytest.fixture
    def sample(self) -> bytes:
        return vectors.data("samples/dot.mp4")

    def opened(self, tmp_path: Path, damaged: bytes) -> benzina.Dataset:
        path = tmp_path / "damaged.bzna"
        sound = vectors.data("samples/dot.mp4")
        path.write_bytes(dataset_bytes([sound, damaged, sound]))
        return benzina.open(path)

    @pytest.mark.parametrize(
        ("kind", "damage", "error"),
        [
            ("a slice", lambda data: patched(data, 40, b"\0" * 30), CodecError),
            ("a size of a unit", lambda data: patched(data, 28, b"\xff"), FormatError),
            ("units of hvcC", lambda data: with_config(data, 22, b"\xff"), FormatError),
            ("a version of hvcC", lambda data: with_config(data, 0, b"\7"), UnsupportedError),
        ],
    )
    def test_that_decoding_finds(
        self, tmp_path: Path, sample: bytes, kind: str, damage: Any, error: type[Exception]
    ) -> None:
        with self.opened(tmp_path, damage(sample)) as dataset:
            assert dataset[1].layout.tracks.keys() == dataset[0].layout.tracks.keys()
            for read in (
                lambda: dataset[1].decode(),
                lambda: dataset[1].frame("bzna_input"),
                lambda: dataset[1][0],
                lambda: dataset.read([("#0", 0), ("#1", 0)]),
            ):
                with pytest.raises(error, match=r"damaged\.bzna: sample 1: "):
                    read()
            assert dataset[2].decode().shape == (1, 1, 3)

    @pytest.mark.parametrize("damaged", [b"", b"\0" * 8, b"\0\0\0\x08moov"])
    def test_that_parsing_finds(self, tmp_path: Path, damaged: bytes) -> None:
        with self.opened(tmp_path, damaged) as dataset:
            assert dataset[1].data == damaged
            if damaged[4:] == b"moov":
                assert dataset[1].layout.tracks == {}
            else:
                with pytest.raises(FormatError, match=r"damaged\.bzna: sample 1: "):
                    dataset[1].layout  # noqa: B018 - parsed here
            for read in (
                lambda: dataset[1].read_track("bzna_input"),
                lambda: dataset[1].shape,
                lambda: dataset[1].decode(),
            ):
                with pytest.raises((FormatError, NotFoundError), match=r"damaged\.bzna: sample 1"):
                    read()
            assert len(list(dataset.samples())) == 3
            assert dataset[2].decode().shape == (1, 1, 3)

    def test_another_size_than_the_entry_says(self, tmp_path: Path, sample: bytes) -> None:
        # Width and height are 24 bytes after the header of the sample entry.
        at = sample.index(b"hvc1") + 4 + 24
        damaged = patched(sample, at, b"\4\0\4\0")
        with (
            self.opened(tmp_path, damaged) as dataset,
            pytest.raises((CodecError, FormatError), match=r"sample 1: "),
        ):
            dataset[1].decode("bzna_input")

    def test_far_too_large(self, tmp_path: Path) -> None:
        large = making.picture(frame=(65535, 65535), clean=(0, 0, 65535, 65535))
        damaged = pack_sample(large, None, name=b"large\0", target=None)
        with self.opened(tmp_path, damaged) as dataset:
            assert dataset[1].layout.tracks["bzna_input"].frame == (65535, 65535)
            # Raised before an array of 12 GiB is allocated.
            for read in (lambda: dataset[1].shape, lambda: dataset.read([("#1", 0)])):
                with pytest.raises(UnsupportedError, match="sample 1: a frame of 65535 x 65535"):
                    read()

    def test_tracks_without_pictures(self, mini: benzina.Dataset) -> None:
        with pytest.raises(UnsupportedError, match=r"sample 1: track 'bzna_target' holds no pict"):
            mini[1].decode("bzna_target")
        with pytest.raises(NotFoundError, match="sample 1 has no track 'x'; it has bzna_input"):
            mini[1].frame("x")
        with pytest.raises(NotFoundError, match="no track 'x'"):
            mini.frames("x")[1].shape  # noqa: B018 - looked up here


def test_the_largest_picture_that_is_decoded(tmp_path: Path) -> None:
    pixels = np.zeros((40, 60, 3), "u1")
    benzina.pack([pixels], tmp_path / "a.bzna", tile=32, codec="h264")
    for max_pixels, is_decoded in ((64 * 64, True), (64 * 64 - 1, False)):
        opened = benzina.open(tmp_path / "a.bzna", max_pixels=max_pixels)
        with opened, pickle.loads(pickle.dumps(opened)) as dataset:
            for read in (lambda sample: sample.decode("bzna_input"), lambda sample: sample.shape):
                if is_decoded:
                    read(dataset[0])
                else:
                    with pytest.raises(UnsupportedError, match="raise max_pixels of benzina"):
                        read(dataset[0])
    with pytest.raises(ValueError, match="max_pixels must be 1 or more"):
        benzina.open(tmp_path / "a.bzna", max_pixels=0)
