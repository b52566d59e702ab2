"""A frame store to each type of clips and back: what is carried is equal, the rest is listed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.media import image

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

PIXELS = np.random.default_rng(1).integers(0, 255, (3, 16, 24, 3), "u1")
JPEGS = [image.encode_jpeg(each) for each in PIXELS]
PNGS = [image.encode_png(each) for each in PIXELS]


def store_of(path: Path, clips: dict[str, Any], meta: dict[str, Any], **attrs: Any) -> Path:
    with bp.frames.create(path, attrs=attrs) as store:
        for id_, frames in clips.items():
            store.append(id_, frames, meta)
    return path


def assert_listed(source: Path, target: Path, left: set[str], **options: Any) -> None:
    """Compare what a copy leaves out; with strict it is refused, and nothing remains."""
    done = bp.convert(source, target, **options)
    assert set(done.left_out) == left
    if left:
        strict = target.with_name(f"strict-{target.name}")
        with pytest.raises(UnsupportedError, match=r"strict: the copy would leave out"):
            bp.convert(source, strict, strict=True, **options)
        assert not strict.exists()


def assert_equal(one: Path, two: Path, ids: list[str]) -> None:
    with bp.frames.open(one) as first, bp.frames.open(two) as second:
        assert list(second) == ids
        for id_ in ids:
            a, b = first[id_], second[id_]
            assert (a.dtype, a.shape, dict(a.meta)) == (b.dtype, b.shape, dict(b.meta))
            assert a[...].tobytes() == b[...].tobytes()


def test_gulp(tmp_path: Path) -> None:
    clips = {"b": JPEGS, "a": JPEGS[:1], "empty": np.empty((0, 4, 5), "u2")}
    source = store_of(
        tmp_path / "a.blp", clips, {"label": "cat", "x": [1, None]}, label2idx={"cat": 3}, unit="m"
    )
    left = {"attribute 'unit' of the file", "shape (4, 5) of the frames of clip 'empty'"}
    assert_listed(source, tmp_path / "gulped", left)
    bp.convert(tmp_path / "gulped", tmp_path / "b.blp", strict=True)
    with bp.frames.open(tmp_path / "b.blp") as store:
        assert store.attrs == {"label2idx": {"cat": 3}}
        assert list(store) == list(clips)
        assert store["b"].read_images() == JPEGS
        assert dict(store["a"].meta) == {"label": "cat", "x": [1, None]}


def test_dataset(tmp_path: Path) -> None:
    source = store_of(
        tmp_path / "a.blp",
        {"b": PIXELS[:1], "empty": np.empty((0, 4, 5), "u1")},
        {"name": "nice", "target": 3, "label": 4, "x": 1},
        unit="m",
    )
    left = {
        "attribute 'unit' of the file",
        "clip 'empty', which has no frames",
        "id of clip 'b', which is named 'nice'",
        *(f"attribute {key!r} of clip {id_!r}" for key in ("label", "x") for id_ in ("b", "empty")),
    }
    assert_listed(source, tmp_path / "a.bzna", left)
    with bp.benzina.open(tmp_path / "a.bzna") as dataset:
        (sample,) = dataset.samples()
        assert (sample.name, sample.target) == ("nice", 3)
        assert np.array_equal(sample.decode("bzna_input"), PIXELS[0])
    bp.convert(tmp_path / "a.bzna", tmp_path / "b.blp", strict=True)
    bp.convert(tmp_path / "b.blp", tmp_path / "b.bzna", strict=True)


def test_pictures_and_tar(tmp_path: Path) -> None:
    clips = {"png": PNGS, "jpeg": JPEGS[:1], "deep": np.arange(60, dtype="<u2").reshape(3, 4, 5)}
    source = store_of(tmp_path / "a.blp", clips, {"x": [1.5]}, unit="m")
    assert_listed(source, tmp_path / "folder", {"attribute 'unit' of the file"}, to="images")
    assert_listed(source, tmp_path / "a.tar", {"attribute 'unit' of the file"})
    bp.convert(tmp_path / "a.tar", tmp_path / "b.blp", strict=True)
    assert_equal(source, tmp_path / "b.blp", list(clips))
    listed = bp.convert(tmp_path / "folder", tmp_path / "c.blp").left_out
    assert listed == ("file 'samples.json'",)
    empty = store_of(tmp_path / "d.blp", {"a": PNGS, "none": np.empty((0, 4, 5), "u1")}, {})
    left = {"clip 'none', which has no frames"}
    assert_listed(empty, tmp_path / "folder2", left, to="images")
    assert_listed(empty, tmp_path / "d.tar", set())


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_video(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("av")
    meta = {"fps": 10, "label": 1}
    source = store_of(tmp_path / "a.blp", {"a": PIXELS}, meta, unit="m")
    left = {"attribute 'unit' of the file", "attribute 'label' of clip 'a'"}
    assert_listed(source, tmp_path / f"a.{suffix}", left)
    done = bp.convert(tmp_path / f"a.{suffix}", tmp_path / "b.blp")
    assert done.left_out == ()
    with bp.frames.open(tmp_path / "b.blp") as store:
        assert (store["a"].shape, dict(store["a"].meta)) == (PIXELS.shape, {"fps": 10.0})


def test_depth_that_an_ingest_does_not_keep_is_reported(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 24, 16, "gray16le"
        frame = np.arange(384, dtype="u2").reshape(16, 24) * 100
        container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="gray16le")))
        container.mux(stream.encode())
    report = bp.frames.ingest(bp.frames.listing.videos(tmp_path), tmp_path / "a.blp")
    assert "depth of 16 bits (gray16le), of which 8 are kept" in str(report)


def test_damaged_images_are_named_by_their_clip(tmp_path: Path) -> None:
    source = store_of(tmp_path / "a.blp", {"walk": JPEGS}, {})
    bp.convert(source, tmp_path / "gulped")
    [data] = (tmp_path / "gulped").glob("*.gulp")
    data.write_bytes(b"1234" + data.read_bytes()[4:])
    with pytest.raises(FormatError, match=r"gulped: clip 'walk': neither a JPEG nor a PNG"):
        bp.convert(tmp_path / "gulped", tmp_path / "a.tar", to="webdataset")
