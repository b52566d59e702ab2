"""Read every frame of a source, to find the ones that cannot be read."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..exceptions import BloscpackError
from .protocol import Clip, FrameSource

# Frames per read; if one of them is damaged, they are read again one by one.
_BATCH = 32


class Fault(NamedTuple):
    """A clip or frame that cannot be read.

    Attributes
    ----------
    clip : str
        Id of the clip.
    frame : int or None
        Index of the frame; None for the metadata or for the whole clip.
    error : Exception
        Error raised by reading it.
    """

    clip: str
    frame: int | None
    error: Exception


def scan(
    source: FrameSource, *, progress: Callable[[int, int], None] | None = None
) -> Iterator[Fault]:
    """Read the metadata and every frame of every clip, and yield a fault for each failure.

    Parameters
    ----------
    source : FrameSource
        Source to read.
    progress : callable, optional
        Called with (clips done, clips in total).
    """
    for done, id_ in enumerate(source, 1):
        yield from _scan_clip(source, id_)
        if progress is not None:
            progress(done, len(source))


def _scan_clip(source: FrameSource, id_: str) -> Iterator[Fault]:
    try:
        clip = source[id_]
        nframes = len(clip)
    except BloscpackError as err:
        yield Fault(id_, None, err)
        return
    try:
        clip.meta  # noqa: B018 - parsed on access
    except BloscpackError as err:
        yield Fault(id_, None, err)
    for start in range(0, nframes, _BATCH):
        stop = min(start + _BATCH, nframes)
        try:
            clip.read(slice(start, stop))
        except (BloscpackError, ValueError):
            # One of them is damaged, or they are images of different shapes.
            yield from _scan_frames(clip, range(start, stop))


def _scan_frames(clip: Clip, indices: range) -> Iterator[Fault]:
    for index in indices:
        try:
            clip.read(index)
        except (BloscpackError, ValueError) as err:
            yield Fault(clip.id, index, err)
