"""Protocol of frame sources: clips by id, each a lazy array of frames.

The frame store and all other files and folders of frames follow it, so that converters,
loaders and commands are written once. A source implements `FrameSource`, and its clips implement
`StoredClip`: where the frames are stored and how each is decoded. `read_batch` does the reading,
from one clip or from many in one batch.
"""

import operator
from abc import abstractmethod
from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, overload

import numpy as np

# np.unique imports numpy.ma on its first call. A process forked during that import would hang, so
# it is imported here, before there is a source to read.
import numpy.ma

from ..array.attrs import Values, read_only
from ..exceptions import FormatError
from ..media import image
from ..parallel.imports import importing
from ..storage.batch import Piece, fetch
from ..storage.protocol import ByteSource
from ..types import AnyArray, ClosedOnExit, IntArray

# Selects frames of a clip: an int, a slice, a list or array of ints, or a mask; None selects all.
FrameSelection: TypeAlias = Any
Request: TypeAlias = tuple[str, FrameSelection]
Wanted: TypeAlias = tuple[Any, FrameSelection]  # a request with the clip, of a source's own class
Batch: TypeAlias = AnyArray | list[AnyArray]  # one array if all agree in shape and dtype

Default = TypeVar("Default")

LABELS_KEY = "label2idx"
"""Attribute of a store with the numbers of its labels: ``{"cat": 0}``."""


def read_only_meta(values: Values) -> Values:
    """Return JSON values, the metadata of a clip, as a copy that refuses to be changed."""
    return read_only(
        values,
        "metadata are given with the frames of a clip, as in append(id, frames, meta), or assigned "
        "as a whole, as in clip.meta = {...} in a store opened with mode 'a'; copy.deepcopy(meta) "
        "returns a copy that can be changed",
    )


class Clip(Protocol):
    """A sequence of frames, read when it is indexed."""

    @property
    def id(self) -> str:
        """Name of the clip in its source."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(T, *frame shape)``, usually (T, H, W) or (T, H, W, C).

        Images that are stored verbatim may differ in shape; then it is the shape of the first, or
        ``(0,)`` without frames.
        """

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the pixels."""

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata of the clip, read-only; parsed at each access."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents beside `meta` and frames as they are read, as short texts.

        Some are known only when the frames have been read. Bytes of images have more, see
        `media.pictureitems.lost_by_decoding`.
        """

    @property
    def is_raw(self) -> bool:
        """Whether all frames that were read have the values that are stored."""

    @property
    def is_upright(self) -> bool:
        """Whether images are turned by their EXIF data when they are read."""

    @property
    def ndim(self) -> int:
        """Number of dimensions, including those of the frames."""

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes; images that differ in shape are counted as if like the first."""

    def __len__(self) -> int:
        """Return the number of frames."""

    def __getitem__(self, selection: FrameSelection) -> AnyArray:
        """Return a selection along any axes, as numpy would: ``clip[3, 10:20, ..., 0]``."""

    def __iter__(self) -> Iterator[AnyArray]:
        """Yield the frames one by one."""

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Read frames into one array of shape ``(n, *frame shape)``; an int gives ``frame shape``.

        Parameters
        ----------
        selection : int, slice, sequence of int, ndarray of int or bool, optional
            Frames to read, in this order; all by default.
        out : ndarray, optional
            Array of exactly the resulting shape and dtype; filled and returned.

        Raises
        ------
        IndexError, TypeError
            A frame is out of range, or the selection is invalid.
        ValueError
            `out` does not fit, or frames were selected that differ in shape.
        FormatError, CodecError
            A frame is damaged; the message names it.
        """

    def read_images(self, selection: FrameSelection = None) -> list[bytes] | None:
        """Return frames as JPEG or PNG files, if that is how they are stored; otherwise None."""


class FrameSource(Protocol):
    """A collection of clips by id.

    Attributes
    ----------
    name : str or None
        Where the clips are stored, for messages.
    """

    name: str | None

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values of a frame store; empty for other kinds of sources."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents beside `attrs` and the clips, as short texts; some are known after reading."""

    def keys(self) -> Sequence[str]:
        """Return the ids, in order."""

    def values(self) -> ValuesView[Clip]:
        """Return a view of the clips, in order; each is read when it is indexed."""

    def items(self) -> ItemsView[str, Clip]:
        """Return a view of ids and clips, in order; each is read when it is indexed."""

    @overload
    def get(self, key: str) -> Clip | None: ...
    @overload
    def get(self, key: str, default: Default) -> Clip | Default: ...
    def get(self, key: str, default: Any = None) -> Any:
        """Return a clip, or `default` if no clip has this id."""

    def __len__(self) -> int:
        """Return the number of clips."""

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, in order."""

    def __contains__(self, key: object) -> bool:
        """Return whether there is a clip with this id."""

    def __getitem__(self, key: str) -> Clip:
        """Return a clip, without decoding any frame.

        Raises
        ------
        NotFoundError
            No clip has this id.
        """

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read frames of many clips at once; see `read_batch`."""

    def close(self) -> None:
        """Release the source; idempotent."""

    def __enter__(self) -> Self:
        """Return the source, to be closed at the end of the block."""

    def __exit__(self, *exc: object) -> None:
        """Close the source."""


ClipT = TypeVar("ClipT", covariant=True)


class ClipIds(KeysView[str], Sequence[str]):
    """Ids of a source, in order: a sequence and a set, pickled as the source.

    `ids` holds them as they were when `keys` was called.
    """

    __slots__ = ("_ids", "_source")

    def __init__(self, source: Mapping[str, Any], ids: Sequence[str]) -> None:
        super().__init__(source)
        self._source = source
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """Return an id, or several."""
        return self._ids[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __contains__(self, key: object) -> bool:
        return key in self._ids

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | tuple):  # as a sequence, in this order
            return list(self) == list(other)
        return KeysView.__eq__(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.methodcaller("keys"), (self._source,)

    def __repr__(self) -> str:
        return f"<{len(self)} ids of {self._source!r}>"


class ClipMapping(Mapping[str, ClipT], ClosedOnExit):
    """Base class of sources: a mapping of ids to clips. Two are equal if they are the same object.

    Comparing the content would read all frames.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values of a frame store; empty for other kinds of sources."""
        return {}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents beside `attrs` and the clips, as short texts; some are known after reading."""
        return ()

    @abstractmethod
    def _ids(self) -> Sequence[str]:
        """Return the ids, in order."""

    def __len__(self) -> int:
        """Return the number of clips."""
        return len(self._ids())

    def keys(self) -> ClipIds:
        """Return the ids, in order: a sequence, and a set as the keys of a dict are."""
        return ClipIds(self, self._ids())

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, in order."""
        return iter(self._ids())

    @overload
    def get(self, key: str) -> ClipT | None: ...
    @overload
    def get(self, key: str, default: Default) -> ClipT | Default: ...
    def get(self, key: str, default: Any = None) -> Any:
        """Return a clip, or `default` if no clip has this id; no frame is read."""
        return super().get(key, default)

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read frames of many clips at once, sorted by offset and decoded on all cores.

        Parameters
        ----------
        requests : iterable of (id, selection)
            Selections as for `Clip.read`.
        out : ndarray or sequence of ndarray, optional
            Arrays for the result, of the same form; filled and returned.
        nthreads : int, optional
            Decoding threads; by default the number given when the source was opened.

        Returns
        -------
        ndarray or list of ndarray
            The result of ``source[id].read(selection)`` for each request: one array of shape
            ``(len(requests), ...)`` if all agree in shape and dtype, else one array each.

        Raises
        ------
        NotFoundError
            No clip has a requested id.
        IndexError, TypeError, ValueError, FormatError, CodecError
            As for `Clip.read`.
        """
        return self._read([(self[id_], selection) for id_, selection in requests], out, nthreads)

    def _read(self, clips: Sequence[Wanted], out: Any, nthreads: int | None) -> Batch:
        """Read frames of clips at once, as the source needs it; see `read`."""
        return read_batch(clips, out=out, nthreads=nthreads)

    @abstractmethod
    def close(self) -> None:
        """Release the source; idempotent."""

    def _repr_html_(self) -> str:
        """Return a table of clips and a picture for notebooks."""
        with importing:
            from ..display.notebook import store_card
        return store_card(self)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the ids, for completion of ``source["`` in IPython and notebooks."""
        return list(self)


class StoredClip(Clip, Protocol):
    """A clip that knows where its frames are stored, which `read_batch` needs."""

    decode_cost: float  # cost of a decoded byte relative to Blosc; scales the number of threads

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the frames at `indices`; some sources know that of the first only."""

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return the pieces to fetch so that ``frames[k]`` becomes the frame ``indices[k]``.

        `frames` is C-contiguous and has the clip's dtype; indices are in range, and may repeat.
        """


class FrameIndices(NamedTuple):
    """Result of applying a selection to a clip."""

    indices: IntArray  # int64: ordinals of the frames, none negative
    is_single: bool  # whether a single frame was selected, so that the result has no frame axis


def frame_indices(selection: FrameSelection, nframes: int) -> FrameIndices:
    """Return the frames that a selection picks out of `nframes`.

    Raises
    ------
    IndexError
        An index is out of range, or a mask has the wrong length.
    TypeError
        The selection is not an int, a slice, a sequence of ints or a mask.
    """
    if selection is None or selection is Ellipsis:
        selection = slice(None)
    if isinstance(selection, slice):
        return FrameIndices(np.arange(*selection.indices(nframes), dtype=np.int64), False)
    if isinstance(selection, list | range | np.ndarray):
        picked = np.asarray(selection)
        if picked.ndim == 1:
            return FrameIndices(_selected_indices(picked, nframes), False)
    if not isinstance(selection, str | bytes | tuple | bool | np.bool_):
        try:
            single = operator.index(selection)
        except TypeError:
            raise _not_a_selection(selection) from None
        if not -nframes <= single < nframes:
            raise IndexError(f"frame {single} of a clip of {nframes}")
        return FrameIndices(np.array([single % nframes], np.int64), True)
    raise _not_a_selection(selection)


def _not_a_selection(selection: FrameSelection) -> TypeError:
    return TypeError(
        "frames are selected by an int, a slice, a list or array of ints or a mask, "
        f"not {selection!r:.80}"
    )


def _selected_indices(picked: AnyArray, nframes: int) -> IntArray:
    """Return the ordinals that a list or a mask selects."""
    if picked.dtype == np.bool_ and len(picked):
        if len(picked) != nframes:
            raise IndexError(f"a mask of {len(picked)} for {nframes} frames")
        return np.flatnonzero(picked).astype(np.int64)
    if picked.dtype.kind == "u" and len(picked) and picked.max() >= nframes:  # may exceed int64
        raise IndexError(f"frame {picked.max()} of a clip of {nframes}")
    if picked.dtype.kind in "iu" or not len(picked):  # numpy makes floats of an empty list
        return _in_range(picked.astype(np.int64), nframes)
    raise _not_a_selection(picked)


def _in_range(indices: IntArray, nframes: int) -> IntArray:
    if not len(indices) or (indices.min() >= 0 and indices.max() < nframes):
        return indices
    wrong = indices[(indices < -nframes) | (indices >= nframes)]
    if len(wrong):
        raise IndexError(f"frame {wrong[0]} of a clip of {nframes}")
    return np.where(indices < 0, indices + nframes, indices)


def read_clip(
    clip: StoredClip, selection: FrameSelection, *, out: AnyArray | None, nthreads: int | None
) -> AnyArray:
    """Implement `Clip.read` for a stored clip."""
    outs = None if out is None else [out]
    return _read_each([_plan(clip, selection)], outs, nthreads)[0]


def read_batch(
    requests: Iterable[tuple[StoredClip, FrameSelection]],
    *,
    out: AnyArray | Sequence[AnyArray] | None,
    nthreads: int | None,
) -> AnyArray | list[AnyArray]:
    """Read frames of many clips at once: sorted by offset, coalesced, decoded on all cores.

    Parameters
    ----------
    requests : iterable of (clip, selection)
        Selections as for `Clip.read`.
    out : ndarray or sequence of ndarray, optional
        Arrays for the result, of the same form; filled and returned.
    nthreads : int, optional
        Decoding threads; by default one per processor, at most 8.

    Returns
    -------
    ndarray or list of ndarray
        The result of ``clip.read(selection)`` for each request: one array of shape
        ``(len(requests), ...)`` if all agree in shape and dtype, else one array each.
    """
    wanted = list(requests)
    if out is not None:
        parts = list(out)
        if len(parts) != len(wanted):
            raise ValueError(f"out holds {len(parts)} arrays for {len(wanted)} requests")
        _read_each([_plan(*each) for each in wanted], parts, nthreads)
        return out if isinstance(out, np.ndarray) else parts
    planned = [_plan(*each) for each in wanted]
    forms = {(each.shape, each.clip.dtype) for each in planned}
    if len(forms) != 1:
        return _read_each(planned, None, nthreads)
    ((shape, dtype),) = forms
    whole: AnyArray = np.empty((len(planned), *shape), dtype)
    # The Ellipsis keeps a frame without axes an array that can be filled.
    _read_each(planned, [whole[k, ...] for k in range(len(planned))], nthreads)
    return whole


def result_form(
    clip: StoredClip, selection: FrameSelection
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of ``clip.read(selection)``."""
    return _plan(clip, selection).shape, clip.dtype


class _Planned(NamedTuple):
    """Frames of a clip to read."""

    clip: StoredClip
    indices: IntArray
    is_single: bool
    shape: tuple[int, ...]  # of the result


def _plan(clip: StoredClip, selection: FrameSelection) -> _Planned:
    indices, is_single = frame_indices(selection, len(clip))
    shape = clip.frame_shape(indices)
    return _Planned(clip, indices, is_single, shape if is_single else (len(indices), *shape))


def _read_each(
    requests: Sequence[_Planned],
    outs: Sequence[AnyArray] | None,
    nthreads: int | None,
) -> list[AnyArray]:
    """Read every request into its array of `outs`, or into a new one."""
    results: list[AnyArray] = []
    spread: list[tuple[AnyArray, AnyArray]] = []
    pieces: list[Piece] = []
    work = 0.0
    for number, (clip, indices, is_single, shape) in enumerate(requests):
        if outs is None:
            result: AnyArray = np.empty(shape, clip.dtype)
        else:
            result = check_out(outs[number], shape, clip)
        results.append(result)
        target = result
        if not result.flags.carray:  # decoders need aligned, contiguous memory
            target = np.empty(shape, clip.dtype)
            spread.append((result, target))
        pieces += clip.pieces(indices, target[np.newaxis] if is_single else target)
        work += clip.decode_cost * target.nbytes
    fetch(pieces, nthreads=nthreads, nbytes=work)
    for result, target in spread:
        result[...] = target
    return results


def check_memory(
    what: str, indices: IntArray, frame_nbytes: int, source: ByteSource, expansion: int
) -> None:
    """Refuse frames that need far more memory than their file can hold: they share its bytes.

    A frame that is selected several times counts once. `expansion` is the most decoded bytes per
    stored byte.
    """
    limit = image.MAX_NBYTES + expansion * source.size()
    if len(indices) * frame_nbytes > limit and len(np.unique(indices)) * frame_nbytes > limit:
        raise FormatError(
            f"{what}: {len(indices)} frames of {frame_nbytes} bytes are far more than "
            f"{source.size()} stored bytes can hold"
        ).at(path=source.name)


def check_out(out: AnyArray, shape: tuple[int, ...], clip: StoredClip) -> AnyArray:
    """Return `out` if it can take frames of this shape, or raise TypeError or ValueError."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an ndarray, not {type(out).__name__}")
    if out.shape != shape or out.dtype != clip.dtype:
        raise ValueError(
            f"clip {clip.id!r:.80}: out is {out.dtype} {out.shape}, {clip.dtype} {shape} is needed"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    return out
