"""An array as a source of one clip, and a clip as an array, so that either is copied to either."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import PurePath
from typing import Any, Self

import numpy as np

from ..array.axislabels import stored_attrs
from ..exceptions import NotFoundError
from ..frames.indexing import DecodedClip
from ..frames.protocol import (
    Clip,
    ClipMapping,
    FrameSource,
    Request,
)
from ..frames.store.openclip import data_of, meta_of
from ..media.pictureitems import lost_by_decoding
from ..types import AnyArray, IntArray
from .arraysource import ArraySource, Region, Rows, SeveralArrays
from .clipcopy import attrs_of
from .inventory import Inventory


class ArrayClip(DecodedClip):
    """Array of frames as a clip; see `frames.protocol.Clip`."""

    is_upright = True

    def __init__(self, id_: str, array: ArraySource) -> None:
        self.id = id_
        self.shape: tuple[int, ...] = array.rows.shape
        self.dtype: np.dtype[Any] = array.rows.dtype
        self.meta = stored_attrs(array.attrs, self.shape)
        self.left_out, self.is_raw = array.left_out, array.is_raw
        self._rows = array.rows

    def _frames_at(self, indices: IntArray) -> AnyArray:
        # `Rows` reads ranges only.
        first, last = (int(indices.min()), int(indices.max()) + 1) if len(indices) else (0, 0)
        return np.ascontiguousarray(self._rows.read((slice(first, last),))[indices - first])


class Clips(ClipMapping[Clip]):
    """Source of clips that are known; see `frames.protocol.FrameSource`."""

    def __init__(
        self,
        clips: Mapping[str, Clip],
        name: str | None,
        contents: Clip | Inventory | None = None,
        *,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._attrs = dict(attrs or {})
        # Of the file, with what it has beside them, and whether their values are those it stores.
        self._contents = contents
        self._clips = clips

    @classmethod
    def of(cls, array: ArraySource, name: str | None) -> Self:
        """Return an array of frames as a source; its clip has the name of the file, or "array"."""
        clip = ArrayClip(clip_id(name) or "array", _checked(array, "an array"))
        return cls({clip.id: clip}, name)

    @classmethod
    def of_several(cls, arrays: SeveralArrays, name: str | None) -> Self:
        """Return named arrays of frames as a source; one at a time is open."""
        return cls(_OpenedInTurn(arrays), name, attrs=arrays.attrs)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of the file beside the clips, as far as they are found; see `inventory`."""
        return () if self._contents is None else self._contents.left_out

    @property
    def is_raw(self) -> bool:
        """Whether frames have the values that the file stores."""
        contents = self._contents
        return contents is None or isinstance(contents, Inventory) or contents.is_raw

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of all clips."""
        return dict(self._attrs)

    def _ids(self) -> Sequence[str]:
        return tuple(self._clips)

    def __contains__(self, key: object) -> bool:
        """Return whether a clip has this id."""
        return key in self._clips

    def __getitem__(self, key: str) -> Clip:
        """Return the clip."""
        if key not in self._clips:
            raise NotFoundError(f"no clip {key!r:.80}").at(path=self.name)
        return self._clips[key]

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> list[AnyArray]:
        """Read frames, one request after the other."""
        found = [self[id_].read(selection) for id_, selection in requests]
        for target, frames in zip(out if out is not None else (), found, strict=False):
            target[...] = frames
        return found

    def close(self) -> None:
        """Close the array that is open; the opener closes the file."""
        if isinstance(self._clips, _OpenedInTurn):
            self._clips.close()


class _OpenedInTurn(Mapping[str, Clip]):
    """Clips of named arrays; opening one closes the one before, so that few files are open."""

    def __init__(self, arrays: SeveralArrays) -> None:
        self._arrays = arrays
        self._open = ExitStack()

    def __getitem__(self, name: str) -> Clip:
        self._open.close()
        array = self._open.enter_context(self._arrays.open(name))
        return ArrayClip(name, _checked(array, f"array {name!r:.80}"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays.names)

    def __len__(self) -> int:
        return len(self._arrays.names)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays.names

    def close(self) -> None:
        self._open.close()


def _checked(array: ArraySource, what: str) -> ArraySource:
    if not 3 <= len(array.rows.shape) <= 4:
        raise ValueError(
            f"{what} of shape {array.rows.shape} is not a clip of frames, which has shape "
            "(T, H, W) or (T, H, W, C); to='array' copies it as an array"
        )
    return array


def clip_id(name: str | None) -> str:
    """Return the id of the only clip of a file: its name without the suffix."""
    return PurePath(name or "").stem


def arrays_of_clips(source: FrameSource) -> SeveralArrays:
    """Return all clips of a source as named arrays."""

    def read(name: str) -> AbstractContextManager[ArraySource]:
        return nullcontext(array_of_clip(source, name))

    return SeveralArrays(tuple(source.keys()), read, attrs_of(source))


def array_of_clip(source: FrameSource, inner: str) -> ArraySource:
    """Return the frames of a clip as an array; without `inner` those of the only clip.

    Raises
    ------
    NotFoundError
        No clip has the id `inner`.
    ValueError
        `inner` is empty, and there is not exactly one clip.
    """
    if not inner and len(source) != 1:
        raise ValueError(
            f"{source.name}: {len(source)} clips, and an array is made of one: name it, such as "
            f"'{source.name}::/{next(iter(source), 'ID')}'"
        )
    clip = source[inner or next(iter(source))]

    def read(place: Region) -> AnyArray:
        return clip.read(place[0])[(slice(None), *place[1:])]

    lost = [text for data in data_of(clip) for text in lost_by_decoding(data)]
    lost += clip.left_out
    rows = Rows(clip.shape, clip.dtype, read)
    left_out = tuple(dict.fromkeys(lost))
    return ArraySource(rows, attrs=meta_of(clip), left_out=left_out, is_raw=clip.is_raw)
