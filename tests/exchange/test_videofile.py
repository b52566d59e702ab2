"""Clips copied from video files that PyAV wrote, and to MP4 files and animated GIFs."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning, FormatError, UnsupportedError

from .conversions import assert_same

av = pytest.importorskip("av")
Image = pytest.importorskip("PIL.Image")


def frames(count: int = 12, height: int = 32, width: int = 48) -> Any:
    """Return a gradient that moves."""
    y, x, t = np.ogrid[:height, :width, :count]
    gray = ((x * 4 + y * 2 + t * 9) % 256).astype("u1").transpose(2, 0, 1)
    return np.ascontiguousarray(np.stack([gray, gray // 2, 255 - gray], axis=3))


def write_video(path: Path, pixels: Any, codec: str = "ffv1") -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(10))
        stream.height, stream.width = pixels.shape[1:3]
        stream.pix_fmt = "bgr0" if codec == "ffv1" else "yuv420p"
        for each in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(each, format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with bp.frames.create(tmp_path / "a.blp") as made:
        made.append("walk", frames(), {"fps": 10})
    return tmp_path / "a.blp"


def test_a_video_becomes_a_clip(tmp_path: Path) -> None:
    write_video(tmp_path / "walk.mkv", frames())
    done = bp.convert(tmp_path / "walk.mkv", tmp_path / "walk.blp")
    assert (done.kind, done.clips, done.frames) == ("frames", 1, 12)
    with bp.frames.open(tmp_path / "walk.blp") as clips:
        assert clips["walk"].meta == {"fps": 10.0}
        assert_same(clips["walk"][:], frames())
    bp.convert(tmp_path / "walk.mkv", tmp_path / "walk.npy")
    assert_same(np.load(tmp_path / "walk.npy"), frames())
    bp.convert(tmp_path / "walk.mkv", tmp_path / "pictures", to="images")
    assert len(list((tmp_path / "pictures").rglob("*.png"))) == 12


@pytest.mark.parametrize("size", [(32, 48), (31, 47)])
@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_a_clip_becomes_a_video(suffix: str, size: tuple[int, int], tmp_path: Path) -> None:
    pixels = frames(12, *size)
    np.save(tmp_path / "walk.npy", pixels)
    done = bp.convert(tmp_path / "walk.npy", tmp_path / f"walk.{suffix}")
    assert (done.kind, done.frames, done.lossless) == (suffix, 12, False)
    with av.open(str(tmp_path / f"walk.{suffix}")) as container:
        found = [each.to_ndarray(format="rgb24") for each in container.decode(video=0)]
    assert np.abs(np.stack(found).astype(int) - pixels).mean() < 12
    again = bp.convert(tmp_path / f"walk.{suffix}", tmp_path / "again.blp")
    assert (again.clips, again.frames) == (1, 12)


def test_a_gif_of_a_clip_that_stands_still(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp") as made:
        made.append("still", frames(3).repeat(4, axis=0), {"fps": 20})
    assert bp.convert(tmp_path / "a.blp", tmp_path / "a.gif").frames == 12
    with Image.open(tmp_path / "a.gif") as image:
        assert (image.n_frames, image.info["duration"]) == (3, 200)


def test_a_gif_of_pillow_becomes_a_clip(tmp_path: Path) -> None:
    pixels = frames(5, 8, 12) // 64 * 80  # few colours: a palette has all of them
    first, *others = map(Image.fromarray, pixels)
    first.save(tmp_path / "a.gif", save_all=True, append_images=others, duration=100, loop=0)
    bp.convert(tmp_path / "a.gif", tmp_path / "a.blp")
    with bp.frames.open(tmp_path / "a.blp") as clips:
        assert clips["a"].meta == {"fps": 10.0}
        assert_same(clips["a"][:, :, :, :3], pixels)


@pytest.mark.parametrize(
    ("options", "change", "lost"),
    [
        ({"loop": 0}, lambda data: data, ()),
        ({"loop": 3}, lambda data: data, ("loop count of the animation: 3",)),
        ({}, lambda data: data, ("loop count of the animation: 1",)),
        ({"loop": 0}, lambda data: data + b"junk", ("4 bytes behind the video",)),
    ],
)
def test_the_rest_of_a_gif_is_listed(
    options: dict[str, int], change: Any, lost: Any, tmp_path: Path
) -> None:
    first, *others = map(Image.fromarray, frames(3, 8, 12))
    path = tmp_path / "a.gif"
    first.save(path, save_all=True, append_images=others, duration=100, **options)
    path.write_bytes(change(path.read_bytes()))
    for target in ("a.blp", "a.tar", "a.mp4"):
        assert bp.convert(path, tmp_path / target).left_out == lost
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(bp.exceptions.FormatError, match="cut short"):
        bp.convert(path, tmp_path / "b.blp")


def test_rate_quality_and_gray(store: Path) -> None:
    folder = store.parent
    bp.convert(store, folder / "good.mp4", crf=10)
    bp.convert(store, folder / "bad.mp4", crf=45)
    assert (folder / "good.mp4").stat().st_size > 1.3 * (folder / "bad.mp4").stat().st_size
    with av.open(str(folder / "good.mp4")) as container:
        assert container.streams.video[0].average_rate == 10
    with bp.frames.create(folder / "gray.blp") as made:
        made.append("gray", frames()[..., 0], {"label": 3})
    with pytest.warns(BloscpackWarning, match="left out: attribute 'label' of clip 'gray'"):
        bp.convert(folder / "gray.blp", folder / "gray.mp4")


def test_what_a_video_cannot_hold(store: Path) -> None:
    folder = store.parent
    with bp.frames.create(folder / "two.blp") as made:
        made.append("a", frames())
        made.append("b", frames().astype("u2"))
    with pytest.raises(ValueError, match=r"2 clips, and a video is made of one.*two\.blp::/a'"):
        bp.convert(folder / "two.blp", folder / "b.mp4")
    with pytest.raises(ValueError, match=r"frames of uint8.*not uint16 of \(32, 48, 3\)"):
        bp.convert(f"{folder}/two.blp::/b", folder / "b.mp4")
    with pytest.raises(ValueError, match=r"codec is for a copy .*, not of type 'mp4'"):
        bp.convert(store, folder / "b.mp4", crf=3, codec="h264")
    for crf in (-1, 52, float("nan")):
        with pytest.raises(ValueError, match="crf must be 0 to 51"):
            bp.convert(store, folder / "b.mp4", crf=crf)
    bp.convert(f"{folder}/two.blp::/a", folder / "a.mp4")
    with pytest.raises(UnsupportedError, match="from a local file"):
        bp.convert((folder / "a.mp4").read_bytes(), folder / "c.blp")


@pytest.mark.parametrize("mode", ["RGBA", "LA", "CMYK"])
def test_a_later_image_that_a_video_cannot_hold(mode: str, tmp_path: Path) -> None:
    images = [io.BytesIO(), io.BytesIO()]
    for image, each in zip(images, ("RGB", mode), strict=True):
        Image.new(each, (16, 16)).save(image, "JPEG" if mode == "CMYK" else "PNG")
    with bp.frames.create(tmp_path / "a.blp") as made:
        made.append("a", [image.getvalue() for image in images])
    with pytest.raises(ValueError, match="frame 1 is an image of"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.mp4")
    assert not (tmp_path / "a.mp4").exists()


def test_no_trace_of_a_copy_that_fails(store: Path, monkeypatch: Any) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for name in ("b.mp4", "b.gif"):
        with pytest.raises(KeyboardInterrupt):
            bp.convert(store, store.parent / name, progress=stop)
        assert list(store.parent.iterdir()) == [store]
    from bloscpack.exchange import videofile

    monkeypatch.setattr(videofile, "rgb_frames", lambda clip: iter(frames(11)))
    with pytest.raises(FormatError, match=r"\(11, 32, 48\) instead of \(12, 32, 48\)"):
        bp.convert(store, store.parent / "b.mp4")
    assert list(store.parent.iterdir()) == [store]


def test_truncated(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mkv", frames())
    content = (tmp_path / "a.mkv").read_bytes()
    for nbytes in (10, 300, len(content) // 2):
        (tmp_path / "b.mkv").write_bytes(content[:nbytes])
        with pytest.raises(FormatError):
            bp.convert(tmp_path / "b.mkv", tmp_path / "b.blp")
    assert not (tmp_path / "b.blp").exists()
