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
from itertools import chain
from typing import Any, BinaryIO, Self

import numpy as np

from ..exceptions import FormatError, UnsupportedError
from ..parallel.imports import import_av
from ..storage.protocol import closed_on_error, errors_at
from ..types import ClosedOnExit
from .image import turn
from .pyav import (
    IVF,
    MATROSKA,
    MOV,
    MXF,
    Y4M,
    best_stream,
    display_matrix,
    exact,
    ffmpeg_message,
    frame_rate_of,
    has_times,
    open_container,
)
from .videocontent import VideoContent, beside
from .videoextent import read_extent

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


class VideoStream(ClosedOnExit):
    """The best video stream of an open file: its packets, and the frames that they give.

    All readers of videos use this class, so that each finds the same damage. A context manager,
    which leaves the file open.

    Attributes
    ----------
    report : VideoReport
        Rotation, counts and damage so far.
    stream : Any
        PyAV's stream.
    others : tuple of str
        Short texts for everything in the file beside the stream.
    content : VideoContent
        Contents besides the pixels of the frames of `frames`.

    Raises
    ------
    FormatError
        The file is not a video, or has no video stream that can be decoded.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._av = import_av()
        self.report = VideoReport(name)
        nbytes = file.seek(0, os.SEEK_END)
        end, parts = read_extent(file)
        self._nbytes = nbytes if end is None else min(end, nbytes)
        if end is not None and end > nbytes:
            self._note_cut(f"it has {nbytes} bytes, and its container needs at least {end}")
        try:
            self._container = open_container(file, name, self._nbytes)
        except FormatError:
            self.check()  # that it is cut is the better reason
            raise
        self.stream = best_stream(self._container, name)
        self.report.rate = float(frame_rate_of(self.stream))
        behind = nbytes - self._nbytes
        self.others = (
            *beside(self._container, self.stream),
            *parts,
            *[f"{behind} bytes behind the video"] * (behind > 0),
        )
        self.content = VideoContent(self._container, self.stream, self.others)
        self._is_turn_known = False

    def close(self) -> None:
        """Close PyAV's container."""
        self._container.close()

    @property
    def start(self) -> Fraction:
        """Time at which the first stream of the file starts, in seconds."""
        return Fraction(self._container.start_time or 0, self._av.time_base)

    def check(self) -> None:
        """Raise FormatError if damage has been found so far."""
        if not self.report.ok:
            raise FormatError(self.report.describe())

    def time_of(self, frame: Any) -> int | None:
        """Return the time of a PyAV frame in units of the time base, if the file has one."""
        time: int | None = frame.pts
        return time if has_times(self.stream) else None

    def packets(self) -> Iterator[Any]:
        """Yield the packets of the stream; then compare their end with the declared one."""
        own = self.stream.index
        ends: dict[int, float] = {own: 0.0}
        npackets = position = 0
        # Of all streams: Matroska declares the end of the longest one only.
        packets = self._container.demux()
        while True:
            try:
                packet = next(packets, None)
            except self._av.error.FFmpegError as err:
                self.report.damaged(f"the rest of the file cannot be read: {ffmpeg_message(err)}")
                return
            if packet is None:
                break
            index = packet.stream.index
            time = packet.dts if packet.pts is None else packet.pts
            if time is not None:
                end = float((time + (packet.duration or 0)) * exact(packet.time_base))
                ends[index] = max(ends.get(index, 0.0), end)
            if index == own and packet.size:
                npackets, position = npackets + 1, (packet.pos or 0) + packet.size
                if packet.is_corrupt:
                    self.report.damaged(
                        f"after {self.report.ndecoded} frames: a packet is truncated"
                    )
                yield packet
        self._check_end(ends[own], max(ends.values()), npackets, position)

    def _check_end(self, own_end: float, end: float, npackets: int, position: int) -> None:
        """Report a video whose packets end before the end that its container declares.

        In these containers, truncation may go unnoticed otherwise: by FFmpeg, which reports it in
        others, and by `read_extent`.
        """
        name = self._container.format.name
        frame = 1 / self.report.rate if self.report.rate else 0.0
        start, duration = self.stream.start_time or 0, self.stream.duration or 0
        seconds = float((start + duration) * exact(self.stream.time_base))
        if name == MATROSKA:
            seconds = float(Fraction(self._container.duration or 0, self._av.time_base))
            is_cut = end < seconds - max(_MAX_MISSING_SECONDS, 2 * frame)
        elif name in (MOV, MXF):
            # The last packet of a whole file may have no duration.
            is_whole = npackets >= (self.stream.frames or math.inf)
            is_cut = bool(duration) and not is_whole and own_end < seconds - frame / 2
        elif name == IVF:  # some programs store the number of frames, others the duration
            is_cut = npackets < duration and own_end < seconds - frame / 2
        else:  # FFmpeg ignores the last frame of Y4M if it is not whole
            is_cut, seconds = name == Y4M and position < self._nbytes, own_end + frame
        if is_cut:
            self._note_cut(f"it ends after {own_end:.2f} of {seconds:.2f} seconds")

    def _note_cut(self, message: str) -> None:
        self.report.is_cut = True
        self.report.note(message)

    def decode(self, packet: Any) -> list[Any]:
        """Return PyAV's frames of a packet, or with None the last ones; note damage."""
        report, is_truncated = self.report, packet is not None and packet.is_corrupt
        try:
            frames: list[Any] = self.stream.codec_context.decode(packet)
        except self._av.error.FFmpegError as err:
            if not is_truncated:
                report.damaged(f"after {report.ndecoded} frames: {ffmpeg_message(err)}")
            return []
        for frame in frames:
            if frame.is_corrupt and not is_truncated:
                report.damaged(f"frame {report.ndecoded} is damaged")
            report.ndecoded += 1
        return frames

    def frames(self) -> Iterator[Any]:
        """Yield all PyAV frames."""
        for packet in chain(self.packets(), [None]):
            for frame in self.decode(packet):
                self.content.add(frame)
                yield frame
        if self.report.ok:
            self.content.end()

    def pixels(self, frame: Any, *, raw: bool = False) -> Frame:
        """Return the upright pixels of a PyAV frame as a new C-contiguous array."""
        if not self._is_turn_known:
            matrix = display_matrix(frame)
            self.report.rotation, self.report.flipped = turn_of(matrix, self.report.path)
            self._is_turn_known = True
        rgb: Frame
        with errors_at(self.report.path):
            rgb = self.content.pixels(frame) if raw else self.content.rgb(frame)
        rgb = turn(rgb, self.report.rotation, flipped=self.report.flipped)
        # Copy a view of the decoder's own memory, which later frames overwrite.
        return rgb if rgb.flags.owndata and rgb.flags.c_contiguous else rgb.copy(order="C")


class VideoFrames(Iterator[Frame], ClosedOnExit):
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
        if frame_rate is not None and not (frame_rate > 0 and math.isfinite(frame_rate)):
            raise ValueError(f"frame_rate must be a positive number, not {frame_rate!r}")
        import_av()  # before the file is opened
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        with closed_on_error(self._file):
            self._video = VideoStream(self._file, os.fspath(path))
        self.report, self.content = self._video.report, self._video.content
        self._is_raw = raw
        self._frames = self._all_frames() if frame_rate is None else self._at_rate(frame_rate)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        try:
            return next(self._frames)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; no more frames are returned."""
        self._frames.close()
        self._video.close()
        self._file.close()

    def _all_frames(self) -> Generator[Frame, None, None]:
        for frame in self._video.frames():
            self.content.add_time(self._video.time_of(frame))
            yield self._video.pixels(frame, raw=self._is_raw)

    def _at_rate(self, rate: float) -> Generator[Frame, None, None]:
        """Yield the frames that ``ffmpeg -r rate`` returns, including repeated ones."""
        time_base = exact(self._video.stream.time_base)
        clock = _Clock(rate, self._video.start, self.report.rate)
        last: Any = None
        for frame in self._video.frames():
            duration = (frame.duration or 0) * time_base
            pts = self._video.time_of(frame)
            time = None if pts is None else pts * time_base
            before, count = clock.copies(time, duration)
            for number in range(count):
                # Fill a gap before the first frame with that frame.
                chosen = last if number < before and last is not None else frame
                yield self._video.pixels(chosen, raw=self._is_raw)
            last = frame
        for _ in range(clock.copies_at_end()):
            yield self._video.pixels(last, raw=self._is_raw)


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
