"""Clips that are looked at: contact sheets and videos."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch
from bloscpack.media.video import read_video
from bloscpack.media.videowriter import shown_frames
from bloscpack.storage import disk

from ..conftest import REPOSITORY, small_vectors

FORMATS = REPOSITORY / "tests" / "vectors" / "formats"
SIDE = np.arange(48)
# A ramp that moves, which H.264 keeps nearly as it is.
FRAMES = ((SIDE[None, :] * 3 + SIDE[:32, None] * 2 + 4 * SIDE[:12, None, None]) % 250).astype("u1")


def clip_of(frames: Any, folder: Path, meta: dict[str, Any] | None = None, **options: Any) -> Any:
    with bp.frames.create(folder / "s.blp", **options) as store:
        store.append("walk", frames, meta)
    return bp.frames.open(folder / "s.blp")["walk"]


def test_a_sheet_has_evenly_spread_frames(tmp_path: Path) -> None:
    clip = clip_of(np.repeat(FRAMES, 9, axis=0), tmp_path)
    sheet = clip.sheet()
    assert sheet.shape == (6, 8)
    assert sheet.frames == [number * 108 // 48 for number in range(48)]
    assert np.array_equal(sheet.pixels[4:36, 4:52, 0], FRAMES[0])
    some = clip.sheet([5, 17], columns=1, width=56)
    assert (some.shape, some.frames, some.pixels.shape) == ((2, 1), [5, 17], (76, 56, 3))
    assert np.array_equal(some.pixels[40:72, 4:52, 1], FRAMES[1])
    with pytest.raises(IndexError, match="frame 200 of a clip of 108"):
        clip.sheet([200])


def test_a_sheet_is_saved_and_shown(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    sheet = clip_of(FRAMES.astype("f4") / 7, tmp_path).sheet()
    sheet.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == sheet._repr_png_()
    assert np.array_equal(np.asarray(pil.open(tmp_path / "a.png")), sheet.pixels)
    assert sheet.notes == ["float32 is shown from 0 (black) to 35.2857 (white)"]


@pytest.mark.parametrize("meta", [None, {"fps": 10}])
def test_mp4(meta: Any, tmp_path: Path) -> None:
    pytest.importorskip("av")
    clip = clip_of(np.stack([FRAMES] * 3, axis=-1), tmp_path, meta)
    clip.to_mp4(tmp_path / "a.mp4", crf=1)
    with read_video(tmp_path / "a.mp4") as video:
        assert video.report.rate == (10 if meta else 25)
        found = np.stack(list(video))
    assert found.shape == (12, 32, 48, 3)
    assert abs(found[..., 1].astype(int) - FRAMES).mean() < 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "s.blp"]
    with pytest.raises(FileExistsError, match="overwrite=True"):
        clip.to_mp4(tmp_path / "a.mp4")
    clip.to_mp4(tmp_path / "a.mp4", fps=50, overwrite=True)
    with read_video(tmp_path / "a.mp4") as video:
        assert video.report.rate == 50


def test_gif(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    clip_of(FRAMES, tmp_path, {"fps": 20}).to_gif(tmp_path / "a.gif")
    with pil.open(tmp_path / "a.gif") as image:
        assert (image.n_frames, image.size, image.info["duration"]) == (12, (48, 32), 50)
        assert np.array_equal(np.asarray(image.convert("L")), FRAMES[0])


def test_a_gif_that_stands_still_for_too_long(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    clip = clip_of(np.zeros((70, 8, 8), "u1"), tmp_path)
    with pytest.raises(ValueError, match="at most 655 seconds; write mp4"):
        clip.to_gif(tmp_path / "a.gif", fps=0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["s.blp"]


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_a_video_that_appears_while_it_is_written_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clip = clip_of(FRAMES, tmp_path)
    real = disk.sync

    def appear(fd: int) -> None:
        real(fd)
        (tmp_path / name).write_text("precious")

    monkeypatch.setattr(disk, "sync", appear)
    with pytest.raises(FileExistsError):
        (clip.to_mp4 if name == "a.mp4" else clip.to_gif)(tmp_path / name)
    assert (tmp_path / name).read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "s.blp"]


def test_frames_of_other_types_are_scaled_over_the_whole_clip(tmp_path: Path) -> None:
    depth = (FRAMES * 9.0 + 500).astype("u2")
    depth[7, 3, 4] = 65535
    shown = list(shown_frames(clip_of(depth, tmp_path)))
    assert len(shown) == 12
    assert shown[7][3, 4].tolist() == [0xFD, 0xE7, 0x25]
    assert shown[0].max() < 0xFD, "the brightest colour is that of frame 7"
    (tmp_path / "s.blp").unlink()
    masks = list(shown_frames(clip_of(FRAMES > 100, tmp_path)))
    assert np.array_equal(masks[3][..., 2], (FRAMES[3] > 100) * 255)


@pytest.mark.parametrize("name", small_vectors("gulp", "recording.vrs", "h264.bzna"))
def test_clips_of_every_source_become_videos(name: str, tmp_path: Path) -> None:
    pytest.importorskip("av")
    with bp.frames.open(FORMATS / name) as source:
        clip = source[source.keys()[0]]
        clip.to_mp4(tmp_path / "a.mp4")
        sheet = clip.sheet()
        assert sheet.frames == list(range(len(clip)))
        with read_video(tmp_path / "a.mp4") as video:
            assert len(list(video)) == len(clip)


def test_no_video_of_frames_that_cannot_be_shown(tmp_path: Path) -> None:
    pytest.importorskip("av")
    clip = clip_of(FRAMES, tmp_path)
    for options in ({"crf": 60}, {"fps": 0}, {"fps": "fast"}):
        with pytest.raises(ValueError, match=r"crf must be|fps must be"):
            clip.to_mp4(tmp_path / "a.mp4", **options)
    with pytest.raises(FileNotFoundError):
        clip.to_mp4(tmp_path / "none" / "a.mp4")
    (tmp_path / "s.blp").unlink()
    with pytest.raises(ValueError, match="are not pictures"):
        clip_of(np.zeros((3, 4)), tmp_path).to_mp4(tmp_path / "a.mp4")
    (tmp_path / "s.blp").unlink()
    with pytest.raises(ValueError, match="no frames"):
        clip_of(np.zeros((0, 4, 4), "u1"), tmp_path).to_mp4(tmp_path / "a.mp4")
    assert not (tmp_path / "a.mp4").exists()


def test_no_video_of_a_damaged_clip(tmp_path: Path) -> None:
    pytest.importorskip("av")
    noise = np.random.default_rng(1).integers(0, 256, (4, 32, 32)).astype("u1")
    offset, nbytes = clip_of(noise, tmp_path).chunk_extents()[2]
    data = bytearray((tmp_path / "s.blp").read_bytes())
    data[offset + nbytes // 2] ^= 1
    (tmp_path / "s.blp").write_bytes(data)
    with bp.frames.open(tmp_path / "s.blp") as store:
        with pytest.raises(ChecksumMismatch, match="frame 2"):
            store["walk"].to_mp4(tmp_path / "a.mp4")
        with pytest.raises(ChecksumMismatch, match="frame 2"):
            store["walk"].sheet()
    assert [path.name for path in tmp_path.iterdir()] == ["s.blp"]
