"""Verification of any source of clips: read every frame, to find those that cannot be read."""

from collections.abc import Iterator

from ..damage.report import Damage, Report, message_of
from ..exceptions import BloscpackError
from ..types import Progress
from .protocol import Clip, FrameSource

# Frames per read; if one of them is damaged, they are read again one by one.
_BATCH = 32


def verify(source: FrameSource, *, progress: Progress | None = None) -> Report:
    """Read the metadata and every frame of every clip; `progress` counts clips.

    In the report, `nchunks` counts clips. Damage names the clip and the frame, or only the clip if
    its metadata or all of it cannot be read.
    """
    damage: list[Damage] = []
    for done, id_ in enumerate(source, 1):
        damage.extend(_verify_clip(source, id_))
        if progress is not None:
            progress(done, len(source))
    return Report(source.name, len(source), 0, damage)


def _verify_clip(source: FrameSource, id_: str) -> Iterator[Damage]:
    try:
        clip = source[id_]
        nframes = len(clip)
    except BloscpackError as err:
        yield Damage(message_of(err), clip=id_)
        return
    try:
        clip.meta  # noqa: B018 - parsed on access
    except BloscpackError as err:
        yield Damage(message_of(err), clip=id_)
    for start in range(0, nframes, _BATCH):
        stop = min(start + _BATCH, nframes)
        try:
            clip.read(slice(start, stop))
        except (BloscpackError, ValueError):
            # One of them is damaged, or they are images of different shapes.
            yield from _verify_frames(clip, range(start, stop))


def _verify_frames(clip: Clip, indices: range) -> Iterator[Damage]:
    for index in indices:
        try:
            clip.read(index)
        except (BloscpackError, ValueError) as err:
            yield Damage(message_of(err), clip=clip.id, frames=(index, index + 1))
