"""Writing frames as a video: H.264 in MP4, by PyAV, or an animated GIF, by Pillow."""

import os
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from ..display.colormap import Pixels, colour, colour_range
from ..display.contactsheet import is_cmyk, pictured
from ..display.framerate import MAX_RATE, MIN_RATE, RATE_KEY, is_rate, rate_of
from ..parallel.imports import import_av, import_pillow
from ..storage.sink import open_path
from ..types import AnyArray

_MAX_CRF = 51
# Decoded bytes of the frames that are read at once.
_BATCH_NBYTES = 16 << 20


def save_video(
    clip: Any,
    path: str | os.PathLike[str],
    kind: str,
    *,
    fps: float | None = None,
    crf: float = 18,
    overwrite: bool = False,
) -> None:
    """Write a clip to a new video file, "mp4" or "gif"; see `ShownClip.to_mp4`."""
    if fps is not None and not is_rate(fps):
        raise ValueError(f"fps must be {MIN_RATE} to {MAX_RATE}, not {fps!r}")
    check_crf(crf)
    if not len(clip):
        raise ValueError(f"clip {clip.id!r:.80} has no frames")
    rate = rate_of(clip.meta if fps is None else {RATE_KEY: fps})
    with open_path(path, overwrite=overwrite) as temporary:
        _WRITERS[kind](temporary, shown_frames(clip), rate, crf)


def check_crf(crf: float) -> None:
    """Raise ValueError for a quality that H.264 does not have."""
    if not (isinstance(crf, int | float) and 0 <= crf <= _MAX_CRF):
        raise ValueError(f"crf must be 0 to {_MAX_CRF}, not {crf!r}")


def batches_of(clip: Any) -> Iterator[AnyArray]:
    """Yield the frames of a clip, some at once; images one by one, as they may differ in shape."""
    nbytes = int(np.prod(clip.shape[1:])) * clip.dtype.itemsize
    step = max(1, _BATCH_NBYTES // max(1, nbytes))
    if clip.read_images([]) is not None:
        step = 1
    for start in range(0, len(clip), step):
        yield clip.read(slice(start, start + step))


def rgb_frames(clip: Any) -> Iterator[Pixels]:
    """Yield the frames of a clip of uint8, gray or RGB, as RGB without an alpha channel."""
    for frames in batches_of(clip):
        for frame in frames:
            colours = frame.reshape(*frame.shape[:2], -1)[..., :3]
            yield np.ascontiguousarray(np.broadcast_to(colours, (*frame.shape[:2], 3)))


def shown_frames(clip: Any) -> Iterator[Pixels]:
    """Yield the frames of any clip as RGB; values are scaled to the range of all frames."""
    clip = pictured(clip)
    cmyk = is_cmyk(clip)
    limits = None
    if clip.dtype not in (np.uint8, np.bool_):
        limits = colour_range(chain.from_iterable(batches_of(clip)))
    for frames in batches_of(clip):
        for frame in frames:
            if frame.ndim not in (2, 3) or not frame.size:
                raise ValueError(f"frames of shape {frame.shape} are not pictures")
            yield colour(frame, *frame.shape[:2], is_cmyk=cmyk, limits=limits).pixels


def write_mp4(path: str, frames: Iterator[Pixels], rate: Fraction, crf: float) -> None:
    """Write RGB frames of one size as H.264; at least one."""
    av = import_av()
    first = next(frames)
    height, width, _ = first.shape
    with av.open(path, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height = width, height
        # Chroma of half size needs even sides.
        stream.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
        stream.options = {"crf": str(crf)}
        for pixels in chain([first], frames):
            _check_size(pixels, first)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def write_gif(path: str, frames: Iterator[Pixels], rate: Fraction, crf: float) -> None:
    """Write RGB frames of one size as a GIF that repeats; at least one. `crf` is ignored."""
    pillow = import_pillow()
    first = next(frames)

    def images() -> Iterator[Any]:
        for pixels in frames:
            _check_size(pixels, first)
            yield pillow.fromarray(pixels)

    try:
        pillow.fromarray(first).save(
            path,
            "GIF",
            save_all=True,
            append_images=images(),
            duration=_gif_duration(rate),
            loop=0,
            optimize=False,
        )
    except (struct.error, OverflowError) as err:  # the time of a picture has 16 bits
        raise ValueError("a GIF shows equal frames for at most 655 seconds; write mp4") from err


def gif_length(path: str, rate: Fraction) -> int:
    """Return how many frames of this rate a GIF shows; Pillow stores equal ones in a row as one."""
    total = 0
    with import_pillow().open(path) as image:
        for number in range(image.n_frames):
            image.seek(number)
            total += image.info["duration"]
    return total // _gif_duration(rate)


def gif_rate(rate: Fraction) -> Fraction:
    """Return the frames per second that a GIF stores for a rate."""
    return Fraction(1000, _gif_duration(rate))


def _gif_duration(rate: Fraction) -> int:
    """Return the milliseconds of a frame."""
    # GIF counts in hundredths of a second, and browsers slow down frames of less than two.
    return max(20, 10 * round(100 / rate))


def _check_size(pixels: Pixels, first: Pixels) -> None:
    if pixels.shape != first.shape:
        raise ValueError(
            f"frames of {pixels.shape[:2]} and {first.shape[:2]} pixels cannot be one video"
        )


_WRITERS: dict[str, Callable[[str, Iterator[Pixels], Fraction, float], None]] = {
    "mp4": write_mp4,
    "gif": write_gif,
}
