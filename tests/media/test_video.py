"""Videos: frames, their rotation, frames selected by a rate, and damage."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.media.video import _Clock, read_video

pytest.importorskip("av", reason="videos take PyAV")

from ..videofiles import MATRICES, moving, set_matrix, set_matrix_values, write_video

TURNED = {
    "none": (0, False, lambda frame: frame),
    "clockwise": (90, False, lambda frame: np.rot90(frame, -1)),
    "half": (180, False, lambda frame: np.rot90(frame, 2)),
    "counterclockwise": (270, False, lambda frame: np.rot90(frame)),
    "upside_down": (0, True, np.flipud),
    "mirror": (180, True, np.fliplr),
    "transpose": (90, True, lambda frame: frame.transpose(1, 0, 2)),
    "antitranspose": (270, True, lambda frame: np.rot90(frame, 2).transpose(1, 0, 2)),
}


def chosen(path: Path, frame_rate: float) -> list[int]:
    """Return the numbers of the frames, which are drawn into a corner."""
    return [int(frame[-1, -1, 0]) for frame in read_video(path, frame_rate=frame_rate)]


def test_every_frame_is_returned_once(tmp_path: Path) -> None:
    frames = moving(7)
    path = write_video(tmp_path / "clip.mov", frames)
    video = read_video(path)
    got = list(video)
    assert np.array_equal(got, frames)
    assert all(frame.flags.c_contiguous and frame.flags.writeable for frame in got)
    assert video.report.ok
    assert video.report.ndecoded == 7
    assert video.report.rate == 30
    assert (video.report.rotation, video.report.flipped) == (0, False)
    assert video.report.describe() == ""
    assert next(video, None) is None


@pytest.mark.parametrize("name", MATRICES)
def test_frames_are_turned_upright(tmp_path: Path, name: str) -> None:
    frames = moving(2, 16, 24)
    path = write_video(tmp_path / "clip.mov", frames)
    set_matrix(path, name)
    rotation, flipped, turn = TURNED[name]
    video = read_video(path)
    got = list(video)
    assert np.array_equal(got, [turn(frame) for frame in frames])
    assert got[0].flags.c_contiguous
    assert (video.report.rotation, video.report.flipped) == (rotation, flipped)


def test_other_angles_are_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mov", moving(2))
    set_matrix_values(path, (0.8, 0.6, -0.6, 0.8))
    with pytest.raises(UnsupportedError, match=r"clip\.mov.*90 degrees"):
        next(read_video(path))


@pytest.mark.parametrize(
    ("nframes", "rate", "frame_rate", "count"),
    [
        # GulpIO2's own tests: 39 frames of 140 at 30 frames/s.
        (140, 30, 8, 39),
        # The first two frames both count, since a frame may come up to 1.1 early.
        (30, 30, 8, 10),
        (30, 30, 30, 30),
        (30, 30, 60, 60),
        (10, 10, 25, 25),
    ],
)
def test_a_rate_keeps_as_many_frames_as_ffmpeg(
    nframes: int, rate: int, frame_rate: float, count: int
) -> None:
    clock = _Clock(frame_rate, Fraction(0), rate)
    copies = [
        clock.copies(Fraction(number, rate), Fraction(1, rate))[1] for number in range(nframes)
    ]
    assert sum(copies) + clock.copies_at_end() == count


def test_a_rate_drops_and_repeats_frames(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mov", moving(30))
    # Frame n ends at 8(n + 1)/30 and is dropped if that is more than 1.1 before its place.
    assert chosen(path, 8) == [0, 1, 3, 7, 10, 14, 18, 22, 25, 29]
    assert chosen(path, 60) == [number for number in range(30) for _ in range(2)]


def test_a_gap_in_time_is_filled_with_the_frame_before(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mov", moving(4), rate=10, times=[0, 100, 700, 800])
    # Frame 1 lasts until frame 2 comes.
    assert chosen(path, 10) == [0, 1, 1, 1, 1, 1, 1, 2, 3]
    assert len(list(read_video(path))) == 4


def test_repeated_frames_are_arrays_of_their_own(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mov", moving(3))
    frames = list(read_video(path, frame_rate=60))
    frames[0][:] = 7
    assert not np.array_equal(frames[0], frames[1])


@pytest.mark.parametrize("frame_rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_must_be_positive(tmp_path: Path, frame_rate: float) -> None:
    with pytest.raises(ValueError, match="frame_rate"):
        read_video(tmp_path / "absent.mp4", frame_rate=frame_rate)


def test_damaged_frames_are_counted(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", moving(40), codec="libx264")
    assert sum(1 for _ in read_video(path)) == 40
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 200] = bytes(200)
    path.write_bytes(data)
    video = read_video(path)
    count = sum(1 for _ in video)
    assert count < 40
    assert video.report.ndamaged >= 40 - count
    assert not video.report.ok
    assert str(path) in video.report.describe()
    assert f"{video.report.ndamaged} damaged" in video.report.describe()


@pytest.mark.parametrize(
    ("name", "codec", "faststart"),
    [
        ("clip.mkv", "libx264", False),
        ("clip.webm", "libvpx", False),
        ("clip.mp4", "libx264", True),
        ("clip.avi", "mjpeg", False),
    ],
)
def test_a_truncated_video_is_reported(
    tmp_path: Path, name: str, codec: str, faststart: bool
) -> None:
    path = write_video(tmp_path / name, moving(40), codec=codec, faststart=faststart)
    whole = read_video(path)
    assert sum(1 for _ in whole) == 40
    assert whole.report.ok
    data = path.read_bytes()
    # An AVI file cut between two frames looks like one with fewer frames.
    count = 1 if codec == "mjpeg" else 20
    for size in range(len(data) * 2 // 3, len(data) * 3 // 4)[:: len(data) // 12 // count]:
        path.write_bytes(data[:size])
        video = read_video(path)
        assert sum(1 for _ in video) < 40
        assert not video.report.ok
        assert str(path) in video.report.describe()


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    for data in (b"", b"n", b"no video at all" * 100):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=r"clip\.mp4"):
            read_video(path)
    with pytest.raises(FileNotFoundError):
        read_video(tmp_path / "absent.mp4")


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{inner}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {inner.name}\n",
    ],
)
def test_a_playlist_opens_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    inner = write_video(tmp_path / "inner.mp4", moving(2), codec="libx264")
    assert sum(1 for _ in read_video("inner.mp4")) == 2
    Path("list.m3u8").write_text(text.format(inner=inner))
    with pytest.raises(FormatError, match=r"list\.m3u8"):
        read_video("list.m3u8")


def test_a_name_is_never_a_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "inner.mov", moving(2))
    with pytest.raises(FileNotFoundError):
        read_video("file:inner.mov")


def test_close_ends_it(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mov", moving(3))
    with read_video(path) as video:
        next(video)
    assert next(video, None) is None


def test_missing_pyav_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r"bloscpack\[video\]"):
        read_video(tmp_path / "clip.mov")
