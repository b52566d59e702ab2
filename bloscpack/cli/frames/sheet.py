"""Frames of a clip, or one of each of several, for ``blpk sheet``."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...display.colormap import shares_of
from ...display.contactsheet import is_cmyk, pictured, spread, width_of
from ...exceptions import BloscpackError
from ...filetypes.open import frames_of
from ...filetypes.table import FileType
from ...frames.protocol import Clip, FrameSource, frame_indices
from ...types import AnyArray
from ..sheet import Tiles
from .clips import only_clip, parse_frames


@contextmanager
def open_clip_tiles(
    args: argparse.Namespace, filetype: FileType, source: Any, inner: str
) -> Iterator[Tiles]:
    """Open the frames of a clip for ``blpk sheet``; without a name, one frame of each clip."""
    with frames_of(filetype, source, nthreads=args.nthreads) as opened:
        clips = pictured(opened)
        if inner or len(clips) == 1:
            clip = only_clip(clips, inner)
            with _named(clip):
                yield _tiles(args, clip)
        else:
            yield _overview(args, clips)


@contextmanager
def _named(clip: Clip) -> Iterator[None]:
    """Add the name of a clip to errors about its frames."""
    try:
        yield
    except BloscpackError:
        raise
    except (ValueError, IndexError) as err:
        raise ValueError(f"clip {clip.id!r:.80}: {err}") from err


def _tiles(args: argparse.Namespace, clip: Clip) -> Tiles:
    if args.select is None:
        numbers = spread(len(clip))
    else:
        numbers = frame_indices(parse_frames(args.select), len(clip)).indices.tolist()
    frames = (clip.read(number) for number in numbers)  # one by one: images may differ in shape
    return Tiles(frames, numbers, "frames", width_of(clip.shape[1:]), is_cmyk(clip))


def _overview(args: argparse.Namespace, clips: FrameSource) -> Tiles:
    """Return the middle frame of each clip that has frames, or of those that are selected."""
    ids = [id_ for id_ in clips.keys() if len(clips[id_])]  # noqa: SIM118 - in their order
    if not ids:
        raise ValueError(f"{clips.name}: no clip has frames, so there is nothing to show")
    if args.select is None:
        chosen = spread(len(ids))
    else:
        try:
            chosen = frame_indices(parse_frames(args.select), len(ids)).indices.tolist()
        except IndexError as err:
            raise ValueError(f"clip: {err}") from None
    names = [ids[number] for number in chosen]
    # A sheet has one scale: values of bytes and of floats would not be seen side by side on it.
    is_alike = len({clips[name].dtype for name in names}) == 1

    def middle() -> Iterator[AnyArray]:
        for name in names:
            clip = clips[name]
            frame = clip.read(len(clip) // 2)
            yield frame if is_alike else _to_bytes(frame)

    note = "clips differ in dtype: each frame is shown from its smallest to its largest value"
    width = max(width_of(clips[name].shape[1:]) for name in names)
    return Tiles(middle(), names, "clips", width, notes=() if is_alike else (note,))


def _to_bytes(frame: AnyArray) -> AnyArray:
    """Return a frame in 8 bits, scaled from its smallest value to its largest."""
    if frame.dtype == np.uint8:
        return frame
    values = np.abs(frame).astype("f8") if frame.dtype.kind == "c" else frame.astype("f8")
    is_finite = np.isfinite(values)
    finite = values[is_finite]
    if not finite.size:
        return np.zeros(frame.shape, np.uint8)
    low = finite.min()
    shares = shares_of(np.where(is_finite, values, low), low, finite.max())
    scaled: AnyArray = np.rint(shares * 255).astype(np.uint8)
    return scaled
