"""Videos as RGB frames, decoded by PyAV in this process: no programs, no shell, no network.

Every decoded frame comes once and upright, rotated as ``ffmpeg`` does by default. With a frame
rate, the frames are those that ``ffmpeg -r`` chooses (its rule for constant rates, as of FFmpeg 7:
fftools/ffmpeg_filter.c, video_sync_process). A `VideoReport` counts damage that the codec detects
and packets that cannot be decoded, and notes a truncated video; the caller decides what to do.
A flipped bit that the codec cannot detect is not reported.
"""

import math
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np

from ..exceptions import UnsupportedError
from ..parallel.imports import import_av
from ..storage.protocol import closed_on_error, errors_at
from .image import turn
from .pyav import (
    MATROSKA,
    MOV,
    best_stream,
    display_matrix,
    exact,
    ffmpeg_message,
    frame_rate_of,
    open_container,
)
from .videocontent import VideoContent

Path = str | os.PathLike[str]
Frame = np.ndarray[Any, np.dtype[np.uint8]]

_MAX_MESSAGES = 16
_MAX_MISSING_SECONDS = 0.1
# Gaps in the timestamps are filled with copies, as in ffmpeg, which allows many more of them.
_MAX_COPIES = 100_000


@dataclass(slots=True)
class VideoReport:
    """Findings about a video so far; complete once all frames have been read."""

    path: str  # the file
    rotation: int = 0  # clockwise rotation applied to the frames in degrees: 0, 90, 180 or 270
    flipped: bool = False  # whether the frames were also mirrored
    rate: float = 0.0  # average frames per second declared by the file, or 0
    ndecoded: int = 0  # number of frames decoded (with a frame rate, not the number returned)
    # Number of packets that could not be decoded, and of frames that the codec marked as damaged.
    ndamaged: int = 0
    is_cut: bool = False  # whether the video ends before its declared end
    # Descriptions of the damage, at most 16 lines.
    messages: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no damage was found and nothing is missing."""
        return not self.ndamaged and not self.is_cut

    def describe(self) -> str:
        """Describe the damage in one line; return an empty string if the video is OK."""
        if self.ok:
            return ""
        found = []
        if self.ndamaged:
            found.append(f"{self.ndamaged} damaged frames or packets")
        if self.is_cut:
            found.append("cut short")
        return f"{self.path}: {' and '.join(found)} ({self.messages[0]})"

    def damaged(self, message: str) -> None:
        """Count a damaged frame or packet."""
        self.ndamaged += 1
        self.note(message)

    def note(self, message: str) -> None:
        """Add a message about the video."""
        if len(self.messages) < _MAX_MESSAGES:
            self.messages.append(message)


class VideoFrames(Iterator[Frame]):
    """The frames of a video, decoded as they are read; created by `read_video`.

    A context manager; reading the last frame also closes it. Not safe for concurrent use.

    Attributes
    ----------
    report : VideoReport
        Rotation, counts and damage.
    content : VideoContent
        Contents besides the pixels; whether these are raw is known with `raw` alone.
    """

    def __init__(self, path: Path, *, frame_rate: float | None = None, raw: bool = False) -> None:
        self.report = VideoReport(os.fspath(path))
        if frame_rate is not None and not (frame_rate > 0 and math.isfinite(frame_rate)):
            raise ValueError(f"frame_rate must be a positive number, not {frame_rate!r}")
        self._av = import_av()
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        with closed_on_error(self._file):
            self._container = open_container(self._file, self.report.path)
            self._stream = best_stream(self._container, self.report.path)
        self.report.rate = float(frame_rate_of(self._stream))
        self.content = VideoContent(self._container, self._stream)
        self._is_raw = raw
        self._is_turn_known = False
        self._frames = self._all_frames() if frame_rate is None else self._at_rate(frame_rate)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        try:
            return next(self._frames)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; no more frames are returned."""
        self._frames.close()
        self._container.close()
        self._file.close()

    def _packets(self) -> Iterator[Any]:
        """Yield the packets of the video, and None at its end."""
        own = self._stream.index
        ends: dict[int, float] = {own: 0.0}
        # Of all streams: Matroska declares the end of the longest one only.
        packets = self._container.demux()
        while True:
            try:
                packet = next(packets, None)
            except self._av.error.FFmpegError as err:
                self.report.damaged(f"the rest of the file cannot be read: {ffmpeg_message(err)}")
                break
            if packet is None:
                break
            index = packet.stream.index
            time = packet.dts if packet.pts is None else packet.pts
            if time is not None:
                end = float((time + (packet.duration or 0)) * exact(packet.time_base))
                ends[index] = max(ends.get(index, 0.0), end)
            if index == own and packet.size:
                yield packet
        self._check_end(ends[own], max(ends.values()))
        yield None

    def _check_end(self, video_end: float, end: float) -> None:
        """Report a video whose packets end before the declared end.

        In these containers, truncation may go unnoticed otherwise. Other containers either declare
        no reliable end, or report truncation as an error.
        """
        name = self._container.format.name
        frame = 1 / self.report.rate if self.report.rate else 0.0
        if name == MATROSKA:
            if not self._container.duration:
                return
            seconds = float(Fraction(self._container.duration, self._av.time_base))
            tolerance = max(_MAX_MISSING_SECONDS, 2 * frame)
        elif name == MOV:
            if not self._stream.duration:
                return
            start = self._stream.start_time or 0
            seconds = float((start + self._stream.duration) * exact(self._stream.time_base))
            end, tolerance = video_end, frame / 2
        else:
            return
        if end < seconds - tolerance:
            self.report.is_cut = True
            self.report.note(f"it ends after {end:.2f} of {seconds:.2f} seconds")

    def _decode(self) -> Iterator[Any]:
        """Yield PyAV's frames; count packets that cannot be decoded."""
        codec = self._stream.codec_context
        for packet in self._packets():
            is_cut_off = packet is not None and packet.is_corrupt
            if is_cut_off:
                self.report.damaged(f"after {self.report.ndecoded} frames: a packet is truncated")
            try:
                frames = codec.decode(packet)
            except self._av.error.FFmpegError as err:
                if not is_cut_off:
                    text = ffmpeg_message(err)
                    self.report.damaged(f"after {self.report.ndecoded} frames: {text}")
                continue
            for frame in frames:
                if frame.is_corrupt and not is_cut_off:
                    self.report.damaged(f"frame {self.report.ndecoded} is damaged")
                self.report.ndecoded += 1
                self.content.add(frame)
                yield frame
        if self.report.ok:
            self.content.end()

    def _array(self, frame: Any) -> Frame:
        """Return the upright pixels of a PyAV frame as a new C-contiguous array."""
        if not self._is_turn_known:
            matrix = display_matrix(frame)
            self.report.rotation, self.report.flipped = turn_of(matrix, self.report.path)
            self._is_turn_known = True
        rgb: Frame
        with errors_at(self.report.path):
            rgb = self.content.pixels(frame) if self._is_raw else self.content.rgb(frame)
        rgb = turn(rgb, self.report.rotation, flipped=self.report.flipped)
        # Copy a view of the decoder's own memory, which later frames overwrite.
        return rgb if rgb.flags.owndata and rgb.flags.c_contiguous else rgb.copy(order="C")

    def _all_frames(self) -> Generator[Frame, None, None]:
        for frame in self._decode():
            self.content.add_time(frame.pts)
            yield self._array(frame)

    def _at_rate(self, rate: float) -> Generator[Frame, None, None]:
        """Yield the frames that ``ffmpeg -r rate`` returns, including repeated ones."""
        time_base = exact(self._stream.time_base)
        start = Fraction(self._container.start_time or 0, self._av.time_base)
        clock = _Clock(rate, start, self.report.rate)
        last: Any = None
        for frame in self._decode():
            duration = (frame.duration or 0) * time_base
            time = None if frame.pts is None else frame.pts * time_base
            before, count = clock.copies(time, duration)
            for number in range(count):
                # Fill a gap before the first frame with that frame.
                yield self._array(last if number < before and last is not None else frame)
            last = frame
        for _ in range(clock.copies_at_end()):
            yield self._array(last)


def read_video(path: Path, *, frame_rate: float | None = None, raw: bool = False) -> VideoFrames:
    """Open a video for reading frame by frame.

    Parameters
    ----------
    path : str or PathLike
        A file in any format that PyAV's FFmpeg libraries read.
    frame_rate : float, optional
        Frames per second: frames are dropped or repeated as by ``ffmpeg -r``. By default every
        frame is returned once.
    raw : bool, default False
        Return gray and RGB with the values that are stored, of any depth, and an alpha channel.

    Returns
    -------
    VideoFrames
        An iterator of new uint8 arrays of shape (height, width, 3), RGB. Its `report` has the
        rotation and the damage; with `raw`, its `content` lists what they lack.

    Raises
    ------
    FormatError
        The file is not a video, or has no video stream that can be decoded.
    UnsupportedError
        While reading the first frame: it must be rotated by an angle other than a multiple of 90
        degrees.
    OSError
        The file cannot be opened.
    ImportError
        PyAV is missing.

    Examples
    --------
    >>> with read_video("clip.mp4", frame_rate=8) as frames:  # doctest: +SKIP
    ...     clip = np.stack(list(frames))
    ...     print(frames.report.rotation, frames.report.ndamaged)
    """
    return VideoFrames(path, frame_rate=frame_rate, raw=raw)


class _Clock:
    """Selects frames for a constant rate by ffmpeg's rule, in units of one output frame."""

    def __init__(self, rate: float, start: Fraction, rate_of_source: float) -> None:
        self._rate = Fraction(rate).limit_denominator(1_000_000)
        self._start = start
        self._usual = float(self._rate) / rate_of_source if rate_of_source else 1.0
        self._next = 0
        self._expected = 0.0  # position of a frame without a timestamp
        self._before = [0, 0, 0]

    def copies(self, time: Fraction | None, duration: Fraction) -> tuple[int, int]:
        """Return how often to output the last frame, and the number of outputs in total.

        `time` and `duration` of the current frame are in seconds.
        """
        length = float(duration * self._rate) or self._usual
        position = self._expected
        if time is not None:
            position = float((time - self._start) * self._rate)
            # As in ffmpeg, avoid exact halves, whose rounding is unpredictable.
            position += math.copysign(1 / (1 << 17), position) if position else 0.0
        self._expected = position + length
        drift = position - self._next
        end = drift + length
        if drift < 0 < end:
            drift = 0.0
        before, count = 0, 1
        if end < -1.1:  # this number and the others are ffmpeg's
            count = 0
        elif end > 1.1:
            count = min(round(end), _MAX_COPIES)
            if drift > 1.1:
                before = min(round(drift - 0.6), count)
        self._next += count
        self._before = [before, *self._before[:2]]
        return before, count

    def copies_at_end(self) -> int:
        """Return how often to repeat the last frame at the end."""
        return sorted(self._before)[1]


def turn_of(matrix: tuple[int, ...], name: str) -> tuple[int, bool]:
    """Return the turn of a display matrix, which may be empty, as arguments of `image.turn`.

    The cases and their order are those of ffmpeg (fftools/ffmpeg_filter.c, autorotate).

    Raises
    ------
    UnsupportedError
        The angle is not a multiple of 90 degrees.
    """
    if not matrix:
        return 0, False
    a, b, _, c, d = map(float, matrix[:5])
    across, down = math.hypot(a, c), math.hypot(b, d)
    if not across or not down:
        return 0, False
    angle = round(math.degrees(math.atan2(b / down, a / across))) % 360
    if abs(angle - 90) <= 1:
        return 90, bool(c > 0)
    if abs(angle - 270) <= 1:
        return 270, bool(c < 0)
    if abs(angle - 180) <= 1:
        return 180, bool(d >= 0)
    if min(angle, 360 - angle) > 1:
        raise UnsupportedError(f"{name}: rotation by an angle that is not a multiple of 90 degrees")
    return 0, bool(d < 0)
