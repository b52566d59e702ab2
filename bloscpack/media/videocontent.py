"""Contents of a video: pixels as they are stored, and everything that a file has beside them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from .pyav import chapters_of, exact, side_data_names

Pixels = np.ndarray[Any, np.dtype[Any]]

# Metadata that a muxer writes by itself.
_TECHNICAL = {
    *("bps", "compatible_brands", "duration", "encoder", "handler_name", "major_brand"),
    *("minor_version", "number_of_bytes", "number_of_frames", "vendor_id"),
}
_UNSPECIFIED = 2  # a colour property, in all tables of ITU-T H.273
# Side data of a frame that describe its coding, or that its pixels are turned by.
_CODING = {"DISPLAYMATRIX", "SEI_UNREGISTERED"}
# Different times between frames that are kept to compare them.
_MAX_STEPS = 1000


class VideoContent:
    """Reads the pixels of a PyAV stream, and collects everything that they do not have.

    Attributes
    ----------
    is_raw : bool
        Whether all pixels so far have the values that are stored.
    is_opaque : bool
        Whether all pixels so far are opaque, so that their alpha channel is not needed.
    depth : str
        Note on bits that are not kept; empty if all are.
    left_out : tuple of str
        Contents of the file beside the pixels, as short texts.
    """

    def __init__(self, container: Any, stream: Any) -> None:
        self.is_raw = self.is_opaque = True
        self.depth = ""
        self._left_out = dict.fromkeys((*beside(container, stream), *properties(stream)))
        self._time: int | None = None
        self._steps: set[int] = set()

    @property
    def left_out(self) -> tuple[str, ...]:
        """See the class."""
        is_even = not self._steps or max(self._steps) - min(self._steps) <= 1
        depth = [self.depth] * bool(self.depth)
        return (
            *self._left_out,
            *depth,
            *["times of the frames, which are not even"] * (not is_even),
        )

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
        kinds = side_data_names(frame) - _CODING
        self._left_out |= dict.fromkeys(f"side data {kind}" for kind in sorted(kinds))
        if not is_raw:
            self._note_depth(form)
        if None not in (self._time, frame.pts) and len(self._steps) < _MAX_STEPS:
            self._steps.add(frame.pts - self._time)
        self._time = frame.pts
        return found

    def rgb(self, frame: Any) -> Pixels:
        """Return the pixels of a frame as RGB of 8 bits."""
        self._note_depth(frame.format)
        found: Pixels = frame.to_ndarray(format="rgb24")
        return found

    def _note_depth(self, form: Any) -> None:
        bits = max(int(each.bits) for each in form.components)
        if bits > 8:
            self.depth = f"depth of {bits} bits ({form.name}), of which 8 are kept"


def _pixels(frame: Any) -> tuple[Pixels, bool]:
    """Return the pixels of a frame, and whether they are the values that are stored."""
    form = frame.format
    bits = {int(each.bits) for each in form.components}
    if len(form.components) == 1 and not form.has_palette and not form.is_bayer and min(bits) >= 8:
        return _gray(frame, *bits), True
    if form.is_rgb and min(bits) > 8 and form.name.startswith(("gbr", "rgb")):
        with suppress(ValueError):  # this version of PyAV does not have it as an array
            return frame.to_ndarray(), True
    has_alpha = form.has_palette or any(each.is_alpha for each in form.components)
    found: Pixels = frame.to_ndarray(format="rgba" if has_alpha else "rgb24")
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
    """Yield short texts for what a stream says about its pixels."""
    codec = stream.codec_context
    for what, value in (
        ("colour primaries", codec.color_primaries),
        ("transfer characteristics", codec.color_trc),
    ):
        if value not in (0, _UNSPECIFIED):
            yield f"{what} {value}"
    ratio = exact(stream.sample_aspect_ratio)
    if ratio not in (0, 1):
        yield f"shape of the pixels, {ratio.numerator}:{ratio.denominator}"


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
