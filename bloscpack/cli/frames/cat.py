"""Frames of a clip, for ``blpk cat``."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...filetypes.open import frames_of, open_frames
from ...filetypes.table import FileType
from ...frames.protocol import Clip, FrameSource, frame_indices
from ...types import AnyArray
from ..console.arrayout import Part
from ..console.selection import Index, parse_selection_text
from .clips import only_clip, parse_frames

# Larger selections are read and written in pieces of about this size, in bytes.
_PIECE_NBYTES = 32 << 20


class _Frames:
    def __init__(self, clip: Clip, selection: Any, rest: Index = ()) -> None:
        try:
            indices, is_single = frame_indices(selection, len(clip))
        except IndexError as err:
            raise ValueError(f"clip {clip.id!r:.80}: {err}") from None
        self._clip = clip
        self._indices = indices
        self.is_frame = is_single
        self._rest = rest
        self.dtype = clip.dtype

    @cached_property
    def _frame_shape(self) -> tuple[int, ...]:
        """Shape of the first selected frame, as images may differ in shape."""
        if not len(self._indices):
            return self._clip.shape[1:]
        shape: tuple[int, ...] = self._clip.read(int(self._indices[0])).shape
        return shape

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection by that of its first frame."""
        first = self._frame_shape
        whole = first if self.is_frame else (len(self._indices), *first)
        like: AnyArray = np.broadcast_to(np.empty((), self.dtype), whole)
        shape: tuple[int, ...] = self._rest_of(like).shape
        return shape

    @property
    def nbytes(self) -> int:
        """Decoded bytes of the selection."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def _read_nbytes(self) -> int:
        """Decoded bytes of the frames, which are read whole even if a part of each is selected."""
        return len(self._indices) * prod(self._frame_shape) * self.dtype.itemsize

    @property
    def is_large(self) -> bool:
        """Whether the frames are read in pieces."""
        return self._read_nbytes > _PIECE_NBYTES and len(self._indices) > 1

    @cached_property
    def stored_image(self) -> bytes | None:
        """JPEG or PNG file of a single frame, or None if there is none; it is not decoded."""
        if not self.is_frame or self._rest:
            return None
        images = self._clip.read_images(int(self._indices[0]))
        return None if images is None else images[0]

    def read(self) -> AnyArray:
        """Return all selected frames."""
        return self._rest_of(
            self._clip.read(int(self._indices[0]) if self.is_frame else self._indices)
        )

    def pieces(self) -> Iterator[AnyArray]:
        """Yield pieces of the selection, in order."""
        step = max(1, _PIECE_NBYTES * len(self._indices) // self._read_nbytes)
        for start in range(0, len(self._indices), step):
            frames = self._clip.read(self._indices[start : start + step])
            if frames.shape[1:] != self._frame_shape:
                raise ValueError(
                    f"clip {self._clip.id!r:.80}: frame {self._indices[0]} is of shape "
                    f"{self._frame_shape}, frame {self._indices[start]} of {frames.shape[1:]}: "
                    "read frames that differ one by one"
                )
            yield self._rest_of(frames)

    def _rest_of(self, frames: AnyArray) -> AnyArray:
        """Return what the entries behind the first select of a frame, or of each of several."""
        if not self._rest:
            return frames
        try:
            return np.asarray(frames[self._rest if self.is_frame else (slice(None), *self._rest)])
        except IndexError as err:
            raise ValueError(f"selection: {err}; the shape is {self._clip.shape}") from None


@contextmanager
def open_part(
    args: argparse.Namespace, filetype: FileType, source: Any, inner: str
) -> Iterator[Part]:
    """Open the frames of a clip that ``blpk cat`` selects."""
    with frames_of(filetype, source, nthreads=args.nthreads) as clips:
        yield part_of(args, clips, inner)


@contextmanager
def open_parts(args: argparse.Namespace, paths: list[str], inner: str) -> Iterator[Part]:
    """Open the frames of a clip in one of several stores."""
    with open_frames(paths, nthreads=args.nthreads) as clips:
        yield part_of(args, clips, inner)


def part_of(args: argparse.Namespace, clips: FrameSource, inner: str) -> Part:
    """Return the selected part of a clip."""
    clip = only_clip(clips, inner)
    index = parse_selection_text(args.selection)
    if ... in index:
        # Written out, as the first entry is of the clip and the others are of each frame.
        at = index.index(...)
        missing = max(0, len(clip.shape) - len(index) + 1)
        index = (*index[:at], *(slice(None),) * missing, *index[at + 1 :])
    if args.select is not None:
        return _Frames(clip, parse_frames(args.select))
    return _Frames(clip, index[0] if index else slice(None), index[1:])
