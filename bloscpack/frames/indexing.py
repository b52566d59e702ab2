"""Indexing of clips along all axes, as numpy indexes the array of all frames.

The first entry of an index selects frames, which are decoded; the others cut them afterwards. Where
they cut something off, frames are read in bands, so that a small part of many frames takes little
memory.
"""

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..types import AnyArray, IntArray
from .protocol import Clip, FrameSelection, frame_indices

# Decoded size of the frames that are held at a time where only a part of them is wanted.
_BAND_NBYTES = 64 << 20


class IndexedClip:
    """Base class of clips: implements the members of `Clip` that follow from the others."""

    __slots__ = ()

    def __getitem__(self: Clip, selection: FrameSelection) -> AnyArray:
        """Return a selection of the clip, as numpy would of the array of its frames.

        Parameters
        ----------
        selection : int, slice, sequence of int, ndarray of int or bool, or tuple
            Frames, as for `read`; or a tuple of these and of ints, slices and Ellipsis for the axes
            of the frames: ``clip[3, 10:20, ..., 0]``. Only the selected frames are decoded.

        Raises
        ------
        IndexError, TypeError
            An index is out of range, or of another kind.
        ValueError, FormatError, CodecError
            As for `read`.
        """
        if type(selection) is tuple:
            return _read_axes(self, selection)
        return self.read(selection)

    def __iter__(self: Clip) -> Iterator[AnyArray]:
        """Yield the frames one by one."""
        for index in range(len(self)):
            yield self.read(index)

    @property
    def ndim(self: Clip) -> int:
        """Number of dimensions, including those of the frames."""
        return len(self.shape)

    @property
    def nbytes(self: Clip) -> int:
        """Decoded size in bytes; images that differ in shape are counted as if like the first."""
        return math.prod(self.shape) * self.dtype.itemsize


class DecodedClip(IndexedClip):
    """Base class of clips whose frames are arrays of one shape that are read one clip at a time."""

    __slots__ = ()
    shape: tuple[int, ...]

    def __len__(self) -> int:
        """Return the number of frames."""
        return self.shape[0]

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return frames in one array; see `frames.protocol.Clip`."""
        indices, is_single = frame_indices(selection, len(self))
        frames = self._frames_at(indices)
        found: AnyArray = frames[0] if is_single else frames
        if out is None:
            return found
        out[...] = found
        return out

    def _frames_at(self, indices: IntArray) -> AnyArray:
        """Return frames by their numbers."""
        raise NotImplementedError

    def read_images(self, selection: FrameSelection = None) -> None:
        """Return None: frames are arrays."""


def _read_axes(clip: Clip, selection: tuple[Any, ...]) -> AnyArray:
    """Return the part of a clip that a tuple selects."""
    frames, inside = _split(clip, selection)
    indices, is_single = frame_indices(frames, len(clip))
    if is_single:
        # With an axis of length 1 in front, numpy names the axes of the clip in its errors.
        return _cut(clip.read(frames)[np.newaxis], (0, *inside))
    whole = (slice(None), *inside)
    frame_nbytes = math.prod(clip.shape[1:]) * clip.dtype.itemsize
    band = max(1, _BAND_NBYTES // max(1, frame_nbytes))
    if len(indices) <= band or all(each is Ellipsis or each == slice(None) for each in inside):
        return _cut(clip.read(frames), whole)
    first = _cut(clip.read(indices[:band]), whole)
    found: AnyArray = np.empty((len(indices), *first.shape[1:]), first.dtype)
    found[:band] = first
    for start in range(band, len(indices), band):
        part = _cut(clip.read(indices[start : start + band]), whole)
        if part.shape[1:] != first.shape[1:] or part.dtype != first.dtype:
            raise ValueError(
                f"clip {clip.id!r:.80}: frame {indices[start]} gives {part.dtype} {part.shape[1:]},"
                f" earlier ones {first.dtype} {first.shape[1:]}: read frames that differ one by one"
            )
        found[start : start + band] = part
    return found


def _split(clip: Clip, selection: tuple[Any, ...]) -> tuple[FrameSelection, tuple[Any, ...]]:
    """Return the entry for the axis of the frames, and those for the axes inside a frame.

    Raises
    ------
    IndexError, TypeError
        There are too many entries, or one is of an invalid kind.
    """
    count = len(selection) - sum(each is Ellipsis for each in selection)
    if count < len(selection) - 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    frames, inside = (selection[0], selection[1:]) if selection else (slice(None), ())
    if frames is Ellipsis:
        ndim = len(clip.shape)
        if count > ndim:
            raise IndexError(f"too many indices: {count} for a clip of {ndim} dimensions")
        if count == ndim:  # it stands for no axis
            frames, inside = inside[0], (Ellipsis, *inside[1:])
        else:
            frames, inside = slice(None), selection
    if frames is None or not all(map(_is_plain, inside)):
        raise TypeError(
            "the axes of frames take ints, slices and Ellipsis, and a clip takes no new axis: "
            "index the array that is read"
        )
    return frames, inside


def _is_plain(entry: Any) -> bool:
    if entry is Ellipsis or isinstance(entry, slice):
        return True
    # operator.index takes a bool, which numpy reads as a mask.
    if isinstance(entry, bool | np.ndarray):
        return False
    try:
        operator.index(entry)
    except TypeError:
        return False
    return True


def _cut(frames: AnyArray, index: tuple[Any, ...]) -> AnyArray:
    """Return a part of frames, which does not keep the rest of them in memory."""
    part: AnyArray = frames[index]
    if not isinstance(part, np.ndarray):
        return part
    return part if part.nbytes == frames.nbytes and part.flags.c_contiguous else part.copy()
