"""Every door takes the same videos, and says the same about them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, FormatError, UnsupportedError
from bloscpack.frames.video.videoencoder import opened_video

from ..videofiles import moving, write_video

av = pytest.importorskip("av")

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

Door = Callable[[Path, Path], tuple[int, set[str]]]


def convert(path: Path, target: Path) -> tuple[int, set[str]]:
    done = bp.convert(path, target, overwrite=True)
    return done.frames, set(done.left_out)


def ingest(path: Path, target: Path, **options: Any) -> tuple[int, set[str]]:
    items = bp.frames.listing.videos(path)
    report = bp.frames.ingest(items, target, workers=1, overwrite=True, **options)
    return report.nframes, {each.text.removeprefix("left out: ") for each in report.remarks}


def append(path: Path, target: Path, **options: Any) -> tuple[int, set[str]]:
    with bp.frames.create(target, overwrite=True) as store:
        store.append_video("a", path, **options)
        return len(store["a"]), set()


DOORS: dict[str, Door] = {
    "convert": convert,
    "ingest": ingest,
    "copy": lambda path, target: ingest(path, target, video="copy"),
    "recode": lambda path, target: ingest(path, target, video="recode"),
    "append": append,
    "append recoded": lambda path, target: append(path, target, recode=True),
}
# FFmpeg 7 shows the last frame of x264 for one unit of time.
is_exact = av.library_versions["libavcodec"][0] >= 62
CODECS = {"mp4": "libx264", "mkv": "libx264", "webm": "libvpx-vp9", "ivf": "libvpx-vp9"}
CODECS |= {"ts": "libx264"}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("suffix", CODECS)
def test_a_cut_video_is_refused(suffix: str, door: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    write_video(path, moving(12), codec=CODECS[suffix], options={"g": "4"}, faststart=True)
    assert DOORS[door](path, tmp_path / "a.blp")[0] == 12
    data = path.read_bytes()
    # Within a packet of a transport stream, as one that ends behind a packet may seem whole.
    for size in (len(data) - 200, len(data) // 2 // 188 * 188 + 100):
        path.write_bytes(data[:size])
        with pytest.raises((FormatError, ValueError), match=r"cut short|damaged frames"):
            DOORS[door](path, tmp_path / "b.blp")


def test_a_cut_video_is_refused_before_it_is_encoded(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.webm", moving(12), codec="libvpx-vp9")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FormatError, match="cut short"), opened_video(path, "a"):
        pass


@pytest.mark.parametrize("door", ["convert", "ingest", "recode", "append recoded"])
@pytest.mark.parametrize("suffix", ["y4m", "mxf", "avi", "ogg", "gif"])
def test_a_cut_video_of_other_codecs_is_refused(suffix: str, door: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    codecs = {"y4m": "wrapped_avframe", "mxf": "mpeg2video", "avi": "mpeg4"}
    codecs |= {"ogg": "libvpx", "gif": "gif"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codecs[suffix], rate=25)
        stream.height, stream.width = 48, 64
        stream.pix_fmt = "rgb8" if suffix == "gif" else "yuv420p"
        for pixels in moving(6):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            container.mux(stream.encode(frame.reformat(format=stream.pix_fmt)))
        container.mux(stream.encode())
    assert DOORS[door](path, tmp_path / "a.blp")[0] == 6
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 5])
    with pytest.raises((FormatError, ValueError), match=r"cut short|damaged frames"):
        DOORS[door](path, tmp_path / "b.blp")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
def test_what_is_behind_a_video_is_listed(suffix: str, door: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    write_video(path, moving(8), codec=CODECS[suffix], options={"g": "4"})
    data = path.read_bytes()
    for more in (b"SECRET payload", data):  # a second movie is one thing in all containers
        path.write_bytes(data + more)
        nframes, listed = DOORS[door](path, tmp_path / "a.blp")
        assert nframes == 8
        assert door.startswith("append") or listed == {f"{len(more)} bytes behind the video"}
    with pytest.raises(UnsupportedError, match="bytes behind the video"):
        bp.convert(path, tmp_path / "b.blp", strict=True)


@pytest.mark.parametrize("door", DOORS)
def test_joined_transport_streams_are_refused(door: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.ts", moving(8), codec="libx264", options={"g": "4"})
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises((BloscpackError, ValueError), match="a packet is truncated"):
        DOORS[door](path, tmp_path / "a.blp")


@pytest.mark.parametrize("door", DOORS)
def test_all_store_one_rate_by_one_name(door: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", moving(8), codec="libx264", rate=50)
    DOORS[door](path, tmp_path / "a.blp")
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["a"].meta == {"fps": 50.0}
    bp.convert(tmp_path / "a.blp", tmp_path / "out.mp4")
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert container.streams.video[0].average_rate == 50 or not is_exact


@pytest.mark.parametrize("encoder", ["h264", "h265", "vp9", "av1"])
def test_the_last_frame_is_shown_as_long_as_the_others(encoder: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", moving(8), codec="libx264", rate=50)
    with bp.frames.create(tmp_path / "a.blp", codec="video", encoder=encoder) as store:
        store.append_video("a", path, recode=True)
    bp.convert(tmp_path / "a.blp", tmp_path / "out.mp4")
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert container.streams.video[0].average_rate == 50 or not is_exact


def test_the_rate_of_older_stores_is_used(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append("a", moving(8), {"frame_rate": 50.0})
    done = bp.convert(tmp_path / "a.blp", tmp_path / "out.mp4")
    assert done.left_out == ()
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert container.streams.video[0].average_rate == 50
    with bp.frames.create(tmp_path / "b.blp", codec="video") as store:
        store.append("a", moving(8), {"frame_rate": 50.0})
        np.testing.assert_allclose(store["a"].times, np.arange(8) / 50)


@pytest.mark.parametrize("door", ["convert", "ingest"])
@pytest.mark.parametrize(
    ("times", "listed"),
    [
        ([0, 400, 800, 1200], "times of the frames, one each 0.4 s, not 0.04 s"),
        ([0, 40, 80, 120, 1000], "times of the frames, which are not even"),
        ([2000, 2040, 2080], "time of the first frame, 2 s"),
        ([0, 40, 80], None),
    ],
)
def test_times_that_the_rate_does_not_give_are_listed(
    times: list[int], listed: str | None, door: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.mkv"
    write_video(path, moving(len(times)), codec="ffv1", rate=25, times=times)
    expected = {listed} if listed else set()
    found = DOORS[door](path, tmp_path / "a.blp")[1]
    assert {each for each in found if each.startswith("time")} == expected
    with bp.frames.create(tmp_path / "b.blp") as store:
        store.append_video("a", path, recode=True)
    # The store has the times, and an array of its frames does not.
    done = bp.convert(tmp_path / "b.blp", tmp_path / "c.blp", to="array")
    assert {each for each in done.left_out if " time" in each} == {
        f"clip 'a': {each}" for each in expected
    }


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("suffix", "codec"), [("h264", "libx264"), ("hevc", "libx265")])
def test_a_stream_without_a_container(suffix: str, codec: str, door: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / f"a.{suffix}", moving(8), codec=codec, rate=50)
    if door in ("copy", "append"):
        with pytest.raises((UnsupportedError, ValueError), match="packets have no times"):
            DOORS[door](path, tmp_path / "a.blp")
        return
    assert DOORS[door](path, tmp_path / "a.blp") == (8, set())
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["a"].meta == {"fps": 50.0}
        if "recode" in door:
            np.testing.assert_allclose(store["a"].times, np.arange(8) / 50)


def test_a_stream_without_a_rate_gets_none(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mjpeg", moving(3), codec="mjpeg", rate=50)
    assert ingest(path, tmp_path / "a.blp") == (3, set())
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["a"].meta == {}
