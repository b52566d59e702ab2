"""Contents of a video: pixels as they are stored, and everything that a file has beside them."""

import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from ..display.framerate import DEFAULT_RATE
from .pyav import MOV, chapters_of, converted, exact, frame_rate_of, side_data_names

Pixels = np.ndarray[Any, np.dtype[Any]]

# Metadata that a muxer writes by itself.
_TECHNICAL = {
    *("bps", "compatible_brands", "duration", "encoder", "handler_name", "major_brand"),
    *("minor_version", "number_of_bytes", "number_of_frames", "vendor_id"),
}
# Colour properties in the tables of ITU-T H.273, the same number in all.
_UNSPECIFIED = 2
# Matrices that the conversion to RGB applies: RGB itself, BT.709, FCC, BT.601 (twice), SMPTE 240M
# and BT.2020.
_APPLIED_MATRICES = {0, 1, 4, 5, 6, 7, 9}
_LIMITED_RANGE = 1  # of PyAV's `ColorRange`: 16 is black, and 235 white
# Side data of a frame that describe its coding, or that its pixels are turned by.
_CODING = {"DISPLAYMATRIX", "SEI_UNREGISTERED"}
UNEVEN_TIMES = "times of the frames, which are not even"
# Part by which the times of frames may differ from those by their rate, which is rounded, too.
_MAX_DRIFT = 1e-4


class FrameTimes:
    """Times of frames, compared with those that a rate alone says."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last: int | None = None
        self._nsteps = self._total = 0
        self._shortest, self._longest = math.inf, -math.inf

    def add(self, time: int | None) -> None:
        """Add the time of the next frame, or None if it is not known."""
        if self._first is None:
            self._first = time
        elif self._last is not None and time is not None:
            step = time - self._last
            self._nsteps, self._total = self._nsteps + 1, self._total + step
            self._shortest, self._longest = min(self._shortest, step), max(self._longest, step)
        self._last = time

    def lost(self, rate: Fraction, time_base: Fraction) -> Iterator[str]:
        """Yield short texts for times that frames of this rate, from 0 on, do not have."""
        if self._first:
            yield f"time of the first frame, {float(self._first * time_base):.6g} s"
        if not self._nsteps:
            return
        expected = self._nsteps / (rate * time_base)
        if self._longest - self._shortest > 1:
            yield UNEVEN_TIMES
        elif abs(self._total - expected) > max(1, expected * _MAX_DRIFT):
            seconds = float(self._total * time_base / self._nsteps)
            yield f"times of the frames, one each {seconds:.6g} s, not {float(1 / rate):.6g} s"


class VideoContent:
    """Reads the pixels of a PyAV stream, and collects everything that they do not have.

    It is created with short texts for everything in the file beside the stream.

    Attributes
    ----------
    is_raw : bool
        Whether all pixels so far have the values that are stored.
    is_opaque : bool
        Whether all pixels so far are opaque, so that their alpha channel is not needed.
    left_out : tuple of str
        Contents of the file beside the pixels, as short texts; complete after the last frame.
    """

    def __init__(self, container: Any, stream: Any, others: tuple[str, ...]) -> None:
        self.is_raw = self.is_opaque = True
        self._left_out = dict.fromkeys((*others, *properties(stream)))
        self._nstored, self._nshown = stored_frames(container, stream), 0
        self._times = FrameTimes()
        self._rate = frame_rate_of(stream) or Fraction(DEFAULT_RATE)
        self._time_base = exact(stream.time_base)

    @property
    def left_out(self) -> tuple[str, ...]:
        """See the class."""
        return (*self._left_out, *self._times.lost(self._rate, self._time_base))

    def add(self, frame: Any) -> None:
        """Note what a frame has beside its pixels; called once for each frame."""
        self._nshown += 1
        self._left_out |= dict.fromkeys(side_data_texts(side_data_of(frame)))
        if frame.interlaced_frame:
            self._left_out["order of the fields of interlaced frames"] = None

    def end(self) -> None:
        """Note frames that were not added; called after the last frame of a whole file."""
        self._left_out |= dict.fromkeys(hidden_frames(self._nstored, self._nshown))

    def add_time(self, time: int | None) -> None:
        """Note the time of the next frame, if it is not kept."""
        self._times.add(time)

    def pixels(self, frame: Any) -> Pixels:
        """Return the pixels of a frame.

        Gray of any depth has shape (H, W), RGB (H, W, 3), with an alpha channel (H, W, 4). All
        other formats become RGB of 8 bits.
        """
        form = frame.format
        found, is_raw = _pixels(frame)
        self.is_raw &= is_raw
        self.is_opaque &= found.shape[2:] != (4,) or bool(
            np.all(found[..., 3] == _full(found, form))
        )
        if not is_raw:
            self._left_out |= dict.fromkeys(lost_depth(form))
        elif frame.color_range == _LIMITED_RANGE:
            self._left_out["limited range of the values"] = None
        return found

    def rgb(self, frame: Any) -> Pixels:
        """Return the pixels of a frame as RGB of 8 bits."""
        self._left_out |= dict.fromkeys(lost_depth(frame.format))
        is_unknown = "transparency" not in self._left_out and has_alpha(frame.format)
        if is_unknown and converted(frame, "rgba")[..., 3].min() < 255:
            self._left_out["transparency"] = None
        return converted(frame, "rgb24")


def has_alpha(form: Any) -> bool:
    """Return whether pixels of a PyAV format may be transparent."""
    return form.has_palette or any(each.is_alpha for each in form.components)


def lost_depth(form: Any) -> Iterator[str]:
    """Yield a short text if 8 bits do not have the values of a PyAV format."""
    bits = max(int(each.bits) for each in form.components)
    if bits > 8:
        yield f"depth of {bits} bits ({form.name}), of which 8 are kept"


def side_data_of(frame: Any) -> set[str]:
    """Return the names of what a PyAV frame has beside its pixels, apart from their coding."""
    return side_data_names(frame) - _CODING


def side_data_texts(kinds: set[str]) -> list[str]:
    """Return short texts for side data."""
    return [f"side data {kind}" for kind in sorted(kinds)]


def stored_frames(container: Any, stream: Any) -> int:
    """Return the number of frames of a file that may hide some of them by an edit list, or 0."""
    return int(stream.frames) if container.format.name == MOV else 0


def hidden_frames(nstored: int, nshown: int) -> Iterator[str]:
    """Yield a short text if a file stores more frames than it shows."""
    if nstored > nshown:
        yield f"frames that the edit list hides: {nstored - nshown}"


def _pixels(frame: Any) -> tuple[Pixels, bool]:
    """Return the pixels of a frame, and whether they are the values that are stored."""
    form = frame.format
    bits = {int(each.bits) for each in form.components}
    if len(form.components) == 1 and not form.has_palette and not form.is_bayer and min(bits) >= 8:
        return _gray(frame, *bits), True
    if form.is_rgb and min(bits) > 8 and form.name.startswith(("gbr", "rgb")):
        with suppress(ValueError):  # this version of PyAV does not have it as an array
            return frame.to_ndarray(), True
    found: Pixels = converted(frame, "rgba" if has_alpha(form) else "rgb24")
    return found, form.is_rgb and not form.has_palette and bits == {8}


def _gray(frame: Any, bits: int) -> Pixels:
    name, plane = frame.format.name, frame.planes[0]
    dtype = np.dtype(f"{'>' if name.endswith('be') else '<'}{'uf'['f' in name]}{-(-bits // 8)}")
    rows = np.frombuffer(plane, dtype).reshape(-1, plane.line_size // dtype.itemsize)
    return rows[: frame.height, : frame.width].astype(dtype.newbyteorder("="))


def _full(pixels: Pixels, form: Any) -> float:
    """Return the alpha of an opaque pixel."""
    if pixels.dtype.kind == "f":
        return 1.0
    return 255 if pixels.dtype == np.uint8 else (1 << form.components[3].bits) - 1


def beside(container: Any, stream: Any) -> Iterator[str]:
    """Yield short texts for everything in a PyAV container but one stream of video."""
    for each in container.streams:
        if each.index != stream.index:
            yield _text(each)
    for chapter in chapters_of(container):
        yield f"chapter {chapter['metadata'].get('title', chapter['id'])!r:.80}"
    yield from _metadata(container.metadata, "the file")
    yield from _metadata(stream.metadata, "the video")


def properties(stream: Any) -> Iterator[str]:
    """Yield short texts for what a PyAV stream says about its pixels, and RGB does not have."""
    codec = stream.codec_context
    aspect = exact(stream.sample_aspect_ratio)
    yield from lost_properties(codec.color_primaries, codec.color_trc, codec.colorspace, aspect)


def lost_properties(primaries: int, transfer: int, matrix: int, aspect: Fraction) -> Iterator[str]:
    """Yield short texts for what RGB does not have: colours, as in ITU-T H.273, and aspect."""
    for what, value in (
        ("colour primaries", primaries),
        ("transfer characteristics", transfer),
    ):
        if value not in (0, _UNSPECIFIED):
            yield f"{what} {value}"
    if matrix not in {*_APPLIED_MATRICES, _UNSPECIFIED}:
        yield f"colour matrix {int(matrix)}"
    if aspect not in (0, 1):
        yield f"shape of the pixels, {aspect.numerator}:{aspect.denominator}"


def _text(stream: Any) -> str:
    kinds = {"audio": "audio track", "subtitle": "subtitles", "video": "video stream"}
    codec = stream.codec_context and stream.codec_context.name
    is_picture = "attached_pic" in str(getattr(stream, "disposition", ""))
    what = "attached picture" if is_picture else kinds.get(stream.type, f"{stream.type} stream")
    return f"{what} {stream.index} ({codec or 'unknown codec'})"


def _metadata(found: dict[str, str], of: str) -> Iterator[str]:
    for key, value in found.items():
        name = key.lower()
        is_technical = name in _TECHNICAL or name.startswith("_statistics")
        if not is_technical and (name, value) != ("language", "und"):
            yield f"metadata {key!r:.80} of {of}"
