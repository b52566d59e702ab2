"""Ingest carries attributes of sources, and remarks everything that a store lacks."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.media import image

from ..conftest import SMALL_FORMATS
from ..videofiles import moving

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

PIXELS = np.random.default_rng(5).integers(0, 256, (3, 8, 10, 3)).astype("u1")


def turned() -> bytes:
    pillow = pytest.importorskip("PIL.Image")
    exif, stream = pillow.Exif(), io.BytesIO()
    exif[0x0112] = 6
    pillow.fromarray(PIXELS[0]).save(stream, "JPEG", exif=exif)
    return stream.getvalue()


def ingested(items: Any, path: Path, **options: Any) -> list[str]:
    return [each.text for each in bp.frames.ingest(items, path, workers=1, **options).remarks]


def test_a_gulp_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bp.frames.create(tmp_path / "a.blp", attrs={"label2idx": {"cat": 1}}) as store:
        store.append("x", [turned()])
    bp.convert(tmp_path / "a.blp", tmp_path / "gulped", to="gulp")
    (tmp_path / "gulped" / "notes.txt").write_text("")
    with bp.frames.open(tmp_path / "gulped") as gulp:
        texts = ingested(gulp, tmp_path / "b.blp")
        assert texts == [
            "images are turned upright by their EXIF data, not as in the source",
            "left out: file 'notes.txt'",
        ]
        texts = ingested(gulp, tmp_path / "c.blp", codec="lossless")
        assert "left out: EXIF data of a picture" in texts
        bp.frames.ingest({"y": PIXELS}, tmp_path / "d.blp", workers=1)
        assert "left out: attribute 'label2idx'" in ingested(gulp, tmp_path / "d.blp")
        texts = ingested(gulp, tmp_path / "other.blp", attrs={"label2idx": {"cat": 2}})
        assert "left out: attribute 'label2idx'" in texts
    out = str(tmp_path / "e.blp")
    assert main(["frames", "create", str(tmp_path / "gulped"), out]) == 0
    assert "left out: file 'notes.txt'" in capsys.readouterr().err
    for name in ("b", "c", "e"):
        with bp.frames.open(tmp_path / f"{name}.blp") as store:
            assert store.attrs == {"label2idx": {"cat": 1}}


def test_files_beside_and_behind(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    (tmp_path / "walk").mkdir()
    (tmp_path / "walk" / "0.png").write_bytes(image.encode_png(PIXELS[0]))
    (tmp_path / "walk" / "notes.txt").write_text("")
    folders = list(bp.frames.listing.folders(tmp_path / "walk"))
    assert ingested(folders, tmp_path / "a.blp") == ["left out: file 'notes.txt'"]
    assert "1 remarks, the first is walk" in str(recwarn.pop().message)
    np.save(tmp_path / "b.npy", PIXELS)
    with open(tmp_path / "b.npy", "ab") as file:
        file.write(b"more")
    arrays = list(bp.frames.listing.arrays(tmp_path / "b.npy"))
    assert ingested(arrays, tmp_path / "b.blp") == ["left out: 4 bytes after the array"]


def test_what_pictures_lose_that_are_decoded(tmp_path: Path) -> None:
    """Each loss is remarked once for a clip, also if only a later picture has it."""
    pillow = pytest.importorskip("PIL.Image")
    png, info = io.BytesIO(), pytest.importorskip("PIL.PngImagePlugin").PngInfo()
    info.add_text("Title", "a walk")
    pillow.fromarray(PIXELS[0].transpose(1, 0, 2)).save(png, "PNG", pnginfo=info)
    (tmp_path / "walk").mkdir()
    for number, data in enumerate((turned(), turned(), png.getvalue())):
        (tmp_path / "walk" / f"{number}.{'png' if number == 2 else 'jpg'}").write_bytes(data)
    exif, title = (f"left out: {what} of a picture" for what in ("EXIF data", "metadata 'Title'"))
    listing, walk = bp.frames.listing, tmp_path / "walk"
    memory = {"a": [turned(), png.getvalue(), turned()]}
    for number, (items, expected) in enumerate(
        ((listing.folders(walk), 1), (listing.images(walk), 2), (memory, 1))
    ):
        texts = ingested(items, tmp_path / f"{number}.blp", codec="lossless")
        assert (texts.count(exif), texts.count(title)) == (expected, 1), texts


def test_a_recording(tmp_path: Path) -> None:
    with bp.frames.open(SMALL_FORMATS / "recording.vrs") as recording:
        texts = ingested(recording, tmp_path / "a.blp")
    assert "left out: times of the frames of stream 214-1" in texts
    assert "left out: tag 'made' of the file" in texts


def test_videos(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "a walk"
        streams = [container.add_stream("libx264", rate=25) for _ in range(2)]
        for stream in streams:
            stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for pixels in moving(4):
            for stream in streams:
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                container.mux(stream.encode(frame))
        for stream in streams:
            container.mux(stream.encode())
    listed = ["left out: video stream 1 (h264)", "left out: metadata 'title' of the file"]
    for video in (None, "copy", "recode"):
        items = bp.frames.listing.videos(path)
        assert ingested(items, tmp_path / f"{video}.blp", video=video) == listed
    recwarn.clear()
    with bp.frames.create(tmp_path / "b.blp") as store:
        store.append_video("a", path)
    assert [os.path.basename(str(each.message)) for each in recwarn.list] == [
        f"b.blp: clip 'a': {text}" for text in listed
    ]
