"""Videos of every kind that PyAV writes, with one of each thing that they hold beside pixels."""

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import UnsupportedError
from bloscpack.frames.ingest.items import OtherFile
from bloscpack.media import videocontent

from ..videofiles import describe_pixels, moving, set_matrix, write_hidden, write_video
from .conversions import assert_same

av = pytest.importorskip("av")

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")


def values(pixel_format: str, count: int = 3) -> Any:
    """Return frames with every bit of a format."""
    components = av.VideoFormat(pixel_format).components
    bits = components[0].bits
    shape = (count, 16, 18, *((len(components),) * (len(components) > 1)))
    kind = "u1" if bits <= 8 else "u2"
    return np.random.default_rng(1).integers(0, 1 << bits, shape).astype(kind)


def write(path: Path, pixels: Any, pixel_format: str, codec: str = "ffv1", **options: Any) -> None:
    with av.open(str(path), "w", **options) as container:
        stream = container.add_stream(codec, rate=10)
        stream.height, stream.width = pixels.shape[1:3]
        stream.pix_fmt = pixel_format
        for each in pixels:
            container.mux(stream.encode(framed(each, pixel_format)))
        container.mux(stream.encode())


def framed(pixels: Any, pixel_format: str) -> Any:
    """Return a frame, filled plane by plane, as not all formats are known as arrays."""
    frame = av.VideoFrame(pixels.shape[1], pixels.shape[0], pixel_format)
    if len(frame.planes) == 1 and pixels.ndim == 2:
        plane = frame.planes[0]
        rows = np.zeros((frame.height, plane.line_size // pixels.dtype.itemsize), pixels.dtype)
        rows[:, : frame.width] = pixels
        order = ">" if pixel_format.endswith("be") else "<"
        plane.update(rows.astype(rows.dtype.newbyteorder(order)).tobytes())
        return frame
    return av.VideoFrame.from_ndarray(pixels, format=pixel_format)


GRAY = ["gray", "gray9le", "gray10le", "gray12le", "gray14le", "gray16le"]
COLOUR = ["gbrp10le", "gbrp12le", "gbrp14le", "gbrp16le", "gbrap10le", "gbrap12le", "gbrap16le"]


@pytest.mark.parametrize("pixel_format", [*GRAY, *COLOUR])
def test_values_of_any_depth_are_kept(pixel_format: str, tmp_path: Path) -> None:
    pixels = values(pixel_format)
    write(tmp_path / "a.mkv", pixels, pixel_format)
    done = bp.convert(tmp_path / "a.mkv", tmp_path / "a.blp", strict=True)
    assert (done.lossless, done.left_out) == (True, ())
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert_same(store["a"][...], pixels)
    bp.convert(tmp_path / "a.mkv", tmp_path / "b.blp", to="array", strict=True)
    assert_same(bp.load(tmp_path / "b.blp"), pixels)


def test_big_endian_gray(tmp_path: Path) -> None:
    pixels = values("gray16be")
    write(tmp_path / "a.mov", pixels, "gray16be", "png")
    assert bp.convert(tmp_path / "a.mov", tmp_path / "a.blp", strict=True).lossless
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert_same(store["a"][...], pixels)


@pytest.mark.parametrize(
    ("pixel_format", "listed"),
    [
        ("yuv420p", ()),
        ("yuv444p", ()),
        ("yuv420p10le", ("depth of 10 bits (yuv420p10le), of which 8 are kept",)),
        ("yuv444p16le", ("depth of 16 bits (yuv444p16le), of which 8 are kept",)),
    ],
)
def test_converted_values_are_not_lossless(pixel_format: str, listed: Any, tmp_path: Path) -> None:
    write_pixels = moving(3, 16, 18)
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.height, stream.width, stream.pix_fmt = 16, 18, pixel_format
        for each in write_pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(each, format="rgb24")))
        container.mux(stream.encode())
    for to in ("frames", "array"):
        done = bp.convert(tmp_path / "a.mkv", tmp_path / f"{to}.blp", to=to)
        assert (done.lossless, done.left_out) == (False, listed)
    if listed:
        with pytest.raises(UnsupportedError, match=r"strict: .*depth of 1"):
            bp.convert(tmp_path / "a.mkv", tmp_path / "b.blp", strict=True)


@pytest.mark.parametrize("is_opaque", [True, False])
def test_an_alpha_channel_that_is_used_is_kept(is_opaque: bool, tmp_path: Path) -> None:
    pixels = np.full((3, 16, 18, 4), 255, "u1")
    pixels[..., :3] = moving(3, 16, 18)
    if not is_opaque:
        pixels[2, 3, 4, 3] = 7
    write(tmp_path / "a.mkv", pixels, "bgra")
    with av.open(str(tmp_path / "a.mkv")) as container:
        expected = np.stack([each.to_ndarray(format="rgba") for each in container.decode(video=0)])
    assert bp.convert(tmp_path / "a.mkv", tmp_path / "a.blp", strict=True).lossless
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert_same(store["a"][...], expected[..., :3] if is_opaque else expected)
    done = bp.convert(tmp_path / "a.blp", tmp_path / "b.mp4")
    assert done.left_out == (() if is_opaque else ("shape (16, 18, 4) of the frames of clip 'a'",))


def torture(path: Path, video: str, audio: str) -> None:
    """Write a video with two streams of pixels, one of audio, chapters and metadata."""
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "a walk"
        streams = []
        for codec in (video, video):
            stream = container.add_stream(codec, rate=25)
            stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
            streams.append(stream)
        streams[0].metadata["language"] = "deu"
        sound = container.add_stream(audio, rate=48000)
        for number, pixels in enumerate(moving(6)):
            for stream in streams:
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 25)
                container.mux(stream.encode(frame))
        samples = av.AudioFrame.from_ndarray(
            np.zeros((1, 48000 // 4 * 2), "i2"), format="s16", layout="stereo"
        )
        samples.sample_rate = 48000
        resampler = av.AudioResampler(sound.format.name, sound.layout.name, sound.rate)
        fifo = av.AudioFifo()
        for each in resampler.resample(samples):
            fifo.write(each)
        while (each := fifo.read(sound.frame_size or 1024)) is not None:
            container.mux(sound.encode(each))
        container.mux(sound.encode())
        for stream in streams:
            container.mux(stream.encode())


KINDS = [
    ("mkv", "ffv1", "aac"),
    ("mp4", "libx264", "aac"),
    ("mov", "mpeg4", "aac"),
    ("avi", "mpeg4", "mp3"),
    ("ts", "mpeg2video", "mp2"),
    ("mpg", "mpeg2video", "mp2"),
    ("wmv", "wmv2", "mp3"),
    ("nut", "ffv1", "pcm_s16le"),
    ("webm", "libvpx-vp9", "libopus"),
]


@pytest.mark.parametrize(("suffix", "video", "audio"), KINDS)
def test_one_of_each(suffix: str, video: str, audio: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    torture(path, video, audio)
    with av.open(str(path)) as container:
        expected = np.stack([e.to_ndarray(format="rgb24") for e in container.decode(video=0)])
        decoder = container.streams.audio[0].codec_context.name
        second = container.streams.video[1]
        texts = [
            f"video stream {second.index} ({second.codec_context.name})",
            f"audio track {container.streams.audio[0].index} ({decoder})",
        ]
        if "title" in {key.lower() for key in container.metadata}:
            texts.append("metadata 'title' of the file")
        if container.streams.video[0].metadata.get("language") == "deu":
            texts.append("metadata 'language' of the video")
    done = bp.convert(path, tmp_path / "a.blp")
    assert not done.lossless
    assert set(texts) <= {each.replace("TITLE", "title") for each in done.left_out}
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["a"].meta == {"fps": 25.0}
        assert_same(store["a"][...], expected)
    with pytest.raises(UnsupportedError, match=r"strict: .*audio track"):
        bp.convert(path, tmp_path / "b.blp", strict=True)
    assert not (tmp_path / "b.blp").exists()


@pytest.mark.parametrize(
    ("suffix", "codec"),
    [
        *(("flv", "flv1"), ("ivf", "libvpx"), ("m2ts", "mpeg2video"), ("mxf", "mpeg2video")),
        *(("m2v", "mpeg2video"), ("y4m", "")),
    ],
)
def test_kinds_of_one_stream(suffix: str, codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    with av.open(str(path), "w", format="yuv4mpegpipe" if not codec else None) as container:
        stream = container.add_stream(codec or "wrapped_avframe", rate=25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for pixels in moving(6):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode())
    with av.open(str(path)) as container:
        expected = np.stack([e.to_ndarray(format="rgb24") for e in container.decode(video=0)])
    assert bp.convert(path, tmp_path / "a.blp").frames == 6
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert_same(store["a"][...], expected)
    (tmp_path / "folder").mkdir()
    path.rename(tmp_path / "folder" / path.name)
    (item,) = bp.frames.listing.videos(tmp_path / "folder")
    assert isinstance(item, OtherFile) == (suffix == "m2v")


def test_rotation_is_applied(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mov", moving(3))
    set_matrix(tmp_path / "a.mov", "clockwise")
    done = bp.convert(tmp_path / "a.mov", tmp_path / "a.blp", strict=True)
    assert done.lossless
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert_same(store["a"][...], np.ascontiguousarray(np.rot90(moving(3), -1, axes=(1, 2))))


def test_times_that_are_not_even_are_listed(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mkv", moving(4), codec="ffv1", times=[0, 33, 67, 100])
    assert bp.convert(tmp_path / "a.mkv", tmp_path / "a.blp").left_out == ()
    write_video(tmp_path / "b.mkv", moving(4), codec="ffv1", times=[0, 33, 500, 533])
    done = bp.convert(tmp_path / "b.mkv", tmp_path / "b.blp")
    assert done.left_out == ("times of the frames, which are not even",)


def test_what_a_clip_of_video_loses_when_it_is_decoded(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mkv", moving(4), codec="libx264", times=[0, 33, 500, 533])
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append_video("a", tmp_path / "a.mkv", recode=True)
    for name in ("b.blp", "b.mp4"):
        assert bp.convert(tmp_path / "a.blp", tmp_path / name).left_out == ()
    for name in ("b.npy", "b.tar", "b.gif"):
        listed = bp.convert(tmp_path / "a.blp", tmp_path / name).left_out
        assert "clip 'a': times of the frames, which are not even" in listed
    write_video(tmp_path / "c.mp4", moving(4), codec="libx264", aspect=Fraction(4, 3))
    with bp.frames.create(tmp_path / "c.blp") as store:
        store.append_video("c", tmp_path / "c.mp4")
    listed = bp.convert(tmp_path / "c.blp", tmp_path / "c.npy").left_out
    assert "clip 'c': shape of the pixels, 4:3" in listed


@pytest.mark.skipif(int(av.__version__.split(".")[0]) < 16, reason="PyAV 15 writes no chapters")
def test_chapters_and_colours(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        container.set_chapters(
            [{"id": 1, "start": 0, "end": 1000, "time_base": Fraction(1, 1000),
              "metadata": {"title": "the walk"}}]
        )  # fmt: skip
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.color_primaries, stream.codec_context.color_trc = 9, 16
        stream.codec_context.sample_aspect_ratio = Fraction(4, 3)
        for pixels in moving(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    done = bp.convert(tmp_path / "a.mkv", tmp_path / "a.blp")
    assert done.left_out == (
        "chapter 'the walk'",
        "colour primaries 9",
        "transfer characteristics 16",
        "shape of the pixels, 4:3",
    )
    items = bp.frames.listing.videos(tmp_path / "a.mkv")
    report = bp.frames.ingest(items, tmp_path / "b.blp", video="recode", workers=1)
    assert {f"left out: {text}" for text in done.left_out} <= {each.text for each in report.remarks}


def ingested(path: Path, target: Path, **options: Any) -> set[str]:
    """Return what an ingest of a video leaves out."""
    items = bp.frames.listing.videos(path)
    report = bp.frames.ingest(items, target, workers=1, overwrite=True, **options)
    return {each.text.removeprefix("left out: ") for each in report.remarks}


@pytest.mark.parametrize(("hidden", "group"), [(3, 12), (5, 4), (4, 4)])
def test_frames_that_an_edit_list_hides(hidden: int, group: int, tmp_path: Path) -> None:
    path = write_hidden(tmp_path / "a.mp4", moving(12), hidden, group)
    listed = f"frames that the edit list hides: {hidden}"
    done = bp.convert(path, tmp_path / "a.blp")
    assert (done.frames, done.left_out) == (12 - hidden, (listed,))
    with pytest.raises(UnsupportedError, match=f"strict: .*{listed}"):
        bp.convert(path, tmp_path / "b.blp", strict=True)
    for video in (None, "recode"):
        assert ingested(path, tmp_path / "b.blp", video=video) == {listed}
    if hidden % group:  # some of a group that is stored
        with pytest.raises(ValueError, match="frames that its edit list hides"):
            ingested(path, tmp_path / "b.blp", video="copy")
    else:
        assert ingested(path, tmp_path / "b.blp", video="copy") == {listed}


def test_side_data_that_is_not_in_the_packets(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", moving(3), codec="libx264")
    describe_pixels(path, struct.pack(">I4sHH", 12, b"clli", 1000, 400))
    listed = "side data CONTENT_LIGHT_LEVEL"
    for video in (None, "recode", "copy"):
        assert ingested(path, tmp_path / "a.blp", video=video) == {listed}
    assert bp.convert(path, tmp_path / "b.blp").left_out == (listed,)
    write_video(path, moving(3), codec="libx264", options={"x264-params": "cll=1000,400"})
    assert ingested(path, tmp_path / "a.blp", video="recode") == {listed}
    assert ingested(path, tmp_path / "a.blp", video="copy") == set()


@pytest.mark.parametrize(
    ("codec", "options"),
    [("libx264", {"x264-params": "tff=1"}), ("mpeg2video", {"flags": "+ildct+ilme"})],
)
def test_interlaced_frames(codec: str, options: dict[str, str], tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", moving(3), codec=codec, options=options)
    listed = "order of the fields of interlaced frames"
    assert listed in bp.convert(path, tmp_path / "a.blp").left_out
    for video in (None, "recode"):
        assert listed in ingested(path, tmp_path / "a.blp", video=video)


@pytest.mark.parametrize(
    ("pixel_format", "primaries", "matrix", "listed"),
    [
        ("gray", 2, 2, {"limited range of the values"}),
        ("yuv444p", 9, 9, {"colour primaries 9"}),
        ("yuv444p", 2, 8, {"colour matrix 8"}),
    ],
)
def test_colours_that_are_not_applied(
    pixel_format: str, primaries: int, matrix: int, listed: set[str], tmp_path: Path
) -> None:
    """Range and matrix are used where frames become RGB; other matrices are listed or refused."""
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.height, stream.width, stream.pix_fmt = 48, 64, pixel_format
        codec = stream.codec_context
        codec.color_range, codec.colorspace, codec.color_primaries = 1, matrix, primaries
        for pixels in moving(2):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame = frame.reformat(format=pixel_format)
            frame.color_range = 1
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    try:
        found = bp.convert(tmp_path / "a.mkv", tmp_path / "a.blp").left_out
    except UnsupportedError as err:  # by FFmpeg since version 8
        is_named = "a.mkv" in str(err) and "colour matrix 8" in str(err)
        found = ("colour matrix 8",) if is_named else ()
    assert set(found) == listed


def test_what_rgb_of_8_bits_loses_in_an_ingest(tmp_path: Path) -> None:
    pixels = np.full((3, 48, 64, 4), 255, "u1")
    pixels[..., :3] = moving(3)
    write(tmp_path / "a.mkv", pixels, "bgra")
    assert ingested(tmp_path / "a.mkv", tmp_path / "a.blp") == set()
    pixels[2, 3, 4, 3] = 7
    write(tmp_path / "b.mkv", pixels, "bgra")
    write(tmp_path / "c.mkv", values("gray16le"), "gray16le")
    write_video(tmp_path / "d.mkv", moving(4), codec="ffv1", times=[0, 33, 500, 533])
    depth = "depth of 16 bits (gray16le), of which 8 are kept"
    times = "times of the frames, which are not even"
    for name, listed in (("b", "transparency"), ("c", depth), ("d", times)):
        path = tmp_path / f"{name}.mkv"
        assert ingested(path, tmp_path / "a.blp") == {listed}
        kept = {listed} - {times}  # packets have times
        assert ingested(path, tmp_path / "a.blp", video="recode") == kept
    at_rate = bp.frames.listing.videos(tmp_path / "d.mkv", frame_rate=10)
    assert not bp.frames.ingest(at_rate, tmp_path / "e.blp", workers=1).remarks


def test_pixels_of_a_clip_of_video_are_converted(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p10le"
        stream.codec_context.color_primaries = 9
        for pixels in moving(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append_video("a", tmp_path / "a.mp4")
    done = bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", strict=True)
    assert (done.lossless, done.left_out) == (True, ())
    done = bp.convert(tmp_path / "a.blp", tmp_path / "a.npy")
    listed = ("colour primaries 9", "depth of 10 bits (yuv420p10le), of which 8 are kept")
    assert not done.lossless
    assert {f"clip 'a': {each}" for each in listed} <= set(done.left_out)
    for target, options in (("a.gif", {}), ("b.mp4", {"crf": 20}), ("out", {"to": "images"})):
        done = bp.convert(tmp_path / "a.blp", tmp_path / target, **options)
        assert not done.lossless
        assert {f"clip 'a': {each}" for each in listed} <= set(done.left_out)


def test_a_reader_that_forgets_a_stream_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torture(tmp_path / "a.mkv", "ffv1", "aac")
    monkeypatch.setattr(videocontent, "_text", lambda stream: "")
    assert "audio track 2 (aac)" not in bp.convert(tmp_path / "a.mkv", tmp_path / "a.blp").left_out
