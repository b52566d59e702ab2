"""Encode frames as video with short closed groups of pictures, into an mp4 file in memory.

The file is then copied into a store as any other video, by `groupcopy`, which also proves that its
groups are closed. Up to 64 MiB of packets are in memory, more are in a temporary file. Encoders
have one thread, as clips are encoded in several processes at once. Two runs give the same packets,
as far as was tried; nothing relies on it.
"""

import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...display.framerate import DEFAULT_RATE
from ...exceptions import FormatError, UnsupportedError
from ...media.pyav import exact, ffmpeg_message, frame_rate_of, restore_scheduling
from ...media.video import VideoStream
from ...media.videocontent import VideoContent
from ...parallel.imports import import_av
from ...storage.disk import temporary_folder
from ...types import AnyArray, BytesLike

_SPOOL_NBYTES = 64 << 20
_MAX_BFRAMES = 3


class _Library(NamedTuple):
    """An encoder of FFmpeg."""

    name: str
    max_crf: int
    has_full_chroma: bool


# By the name of the encoder, in order of preference.
_LIBRARIES = {
    "h264": (_Library("libx264", 51, True),),
    "h265": (_Library("libx265", 51, True),),
    "vp9": (_Library("libvpx-vp9", 63, True),),
    "av1": (_Library("libsvtav1", 63, False), _Library("libaom-av1", 63, True)),
}


class TimedFrame(NamedTuple):
    """An RGB frame and when it is shown, in units of the time base."""

    pixels: AnyArray
    pts: int


def library_of(encoder: str) -> _Library:
    """Return the library for an encoder.

    Raises
    ------
    UnsupportedError
        PyAV has none.
    """
    av = import_av()
    for library in _LIBRARIES[encoder]:
        try:
            av.Codec(library.name, "w")
        except (av.error.FFmpegError, ValueError):
            continue
        return library
    names = " or ".join(each.name for each in _LIBRARIES[encoder])
    raise UnsupportedError(
        f"encoder={encoder!r} needs {names}, which the FFmpeg of this PyAV ({av.__version__}) "
        "lacks: pip install --force-reinstall av, or choose another encoder"
    )


@contextmanager
def encoded(
    frames: Iterator[TimedFrame],
    time_base: Fraction,
    *,
    rate: Fraction | None = None,
    crf: float,
    gop: int,
    encoder: str,
    preset: str = "fast",
) -> Iterator[BinaryIO]:
    """Yield an mp4 file of RGB frames of one size, at least one, in groups of `gop` frames.

    `rate` is their average rate, by default one frame for each unit of the time base.

    Raises
    ------
    ValueError
        The frames are not RGB of 8 bits and one size, or `crf` is out of range.
    """
    av = import_av()
    library = library_of(encoder)
    if library.name == "libsvtav1":
        # It logs on standard error, unless the environment disables that.
        os.environ.setdefault("SVT_LOG", "1")
    if crf > library.max_crf:
        raise ValueError(f"crf must be 0 to {library.max_crf} for {encoder}, not {crf!r}")
    with tempfile.SpooledTemporaryFile(_SPOOL_NBYTES, dir=temporary_folder()) as spool:
        first = next(frames)
        _check_frame(first.pixels, first.pixels, 0)
        height, width, _ = first.pixels.shape
        try:
            with (
                restore_scheduling(),
                av.open(spool, "w", format="mp4", options=exact_times(time_base)) as container,
            ):
                stream = container.add_stream(library.name, rate=rate or 1 / time_base)
                codec = stream.codec_context
                codec.time_base = time_base
                stream.width, stream.height = width, height
                # Chroma of half size needs even sides.
                is_odd = library.has_full_chroma and (width % 2 or height % 2)
                stream.pix_fmt = "yuv444p" if is_odd else "yuv420p"
                codec.gop_size, codec.thread_count = gop, 1
                stream.options = _options(library.name, crf, gop, preset)
                for number, (pixels, pts) in enumerate(_chain(first, frames)):
                    _check_frame(pixels, first.pixels, number)
                    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
                    frame.pts, frame.time_base = pts, time_base
                    container.mux(stream.encode(frame))
                container.mux(stream.encode())
        except av.error.FFmpegError as err:
            raise UnsupportedError(
                f"{library.name} cannot encode frames of {width} x {height} pixels: "
                f"{ffmpeg_message(err)}"
            ) from err
        spool.seek(0)
        yield spool  # type: ignore[misc]


def exact_times(time_base: Fraction) -> dict[str, str]:
    """Return options of an mp4 file that keep times exact.

    FFmpeg stores the time of the first frame in milliseconds otherwise.
    """
    return {
        "movie_timescale": str(time_base.denominator),
        "video_track_timescale": str(time_base.denominator),
    }


def _chain(first: TimedFrame, rest: Iterable[TimedFrame]) -> Iterator[TimedFrame]:
    yield first
    yield from rest


def _options(library: str, crf: float, gop: int, preset: str) -> dict[str, str]:
    """Return options for closed groups of exactly `gop` frames.

    Frames between two references are never references themselves, so that readers may skip them.
    In the preset "small", H.264 codes coefficients arithmetically. Without that, frames take 6 %
    more bytes. Strides are read in 0.54 of the time, and random frames in 0.49
    (clips and frames of bench/frames).

    Quality is not spread by what later frames refer to (mbtree, cutree). x265 4.2 in PyAV 18 writes
    beyond its memory there in some small pictures, such as 32 x 40, and x264 gives other
    packets in each run. In groups of 8 it saves 1 % of the bytes at equal PSNR.

    Frames are for programs: pixels near to those that were given matter, not a sharp look. So the
    psychovisual decisions of x264 are off, and it moves quality to flat areas at half its usual
    strength. At equal PSNR that saves 1, 10 and 20 % of the bytes of the clips of bench/frames.
    """
    bframes = max(0, min(_MAX_BFRAMES, gop - 2))
    common = f"keyint={gop}:min-keyint={gop}:scenecut=0:open-gop=0:bframes={bframes}:b-adapt=0"
    options = {"crf": str(crf)}
    if library == "libx264":
        cabac = int(preset == "small")
        options["x264-params"] = (
            f"{common}:b-pyramid=none:mbtree=0:cabac={cabac}:psy=0:aq-strength=0.5"
        )
    elif library == "libx265":
        options["x265-params"] = (
            f"{common}:b-pyramid=0:cutree=0:info=0:pools=none:frame-threads=1:log-level=none"
        )
    elif library == "libvpx-vp9":
        options |= {"b": "0", "keyint_min": str(gop), "auto-alt-ref": "0", "lag-in-frames": "0"}
        options |= {"deadline": "good", "cpu-used": "2"}
    elif library == "libsvtav1":
        options["svtav1-params"] = f"keyint={gop}:scd=0:irefresh-type=2:lp=1"
    else:
        options |= {"keyint_min": str(gop), "lag-in-frames": "0", "cpu-used": "6"}
    return options


def _check_frame(pixels: AnyArray, first: AnyArray, number: int) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise ValueError(
            f"frame {number} is {pixels.dtype} {pixels.shape}: codec 'video' encodes RGB frames, "
            "uint8 of shape (H, W, 3)"
        )
    if pixels.shape != first.shape:
        raise ValueError(
            f"frame {number} is of shape {pixels.shape}, those before {first.shape}: a clip has "
            "frames of one kind"
        )


class TimedVideo(NamedTuple):
    """Upright frames of a video file."""

    frames: Iterator[TimedFrame]
    time_base: Fraction
    rate: Fraction  # average frames per second, or 0 where they are not known
    content: VideoContent  # of the file beside the pixels and times of the video


def numbered(frames: Iterable[Any]) -> Iterator[TimedFrame]:
    """Yield arrays with their numbers as times."""
    for number, frame in enumerate(frames):
        yield TimedFrame(np.asarray(frame), number)


@contextmanager
def opened_video(
    source: str | os.PathLike[str] | BytesLike | BinaryIO, name: str
) -> Iterator[TimedVideo]:
    """Yield the frames of a video file, decoded as they are read; at least one.

    Raises
    ------
    FormatError
        The file is not a video; while iterating, it is damaged.
    """
    with opened_file(source) as file, VideoStream(file, name) as video:
        rate, time_base = frame_rate_of(video.stream), exact(video.stream.time_base)
        frames = _frames_of(video, max(1, round(1 / ((rate or DEFAULT_RATE) * time_base))))
        first = next(frames, None)
        if first is None:
            raise FormatError(f"{name}: the video has no frame")
        yield TimedVideo(_chain(first, frames), time_base, rate, video.content)


@contextmanager
def opened_file(source: str | os.PathLike[str] | BytesLike | BinaryIO) -> Iterator[BinaryIO]:
    """Yield a file object of a path or of bytes; another file object stays open."""
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            yield file
    elif isinstance(source, bytes | bytearray | memoryview):
        yield io.BytesIO(source)
    else:
        yield source


def _frames_of(video: VideoStream, step: int) -> Iterator[TimedFrame]:
    last: int | None = None
    for frame in video.frames():
        video.check()
        pts = video.time_of(frame)
        if pts is None or (last is not None and pts <= last):
            pts = 0 if last is None else last + step
        last = pts
        yield TimedFrame(video.pixels(frame), pts)
    video.check()
