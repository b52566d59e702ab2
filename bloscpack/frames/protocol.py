"""What a source of frames is: clips by id, each a lazy array of frames.

The frame store, Gulp directories and every other kind of dataset with frames look like this, so
that converters, loaders and commands are written once. A source implements `FrameSource` and its
clips `StoredClip`: where its frames lie and how each is decoded. Reading them, one clip or many in
one batch, is done here by `read_batch`.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

# np.unique imports it at its first call. A process that is forked while another thread does would
# wait for the end of that import for ever; so it is done before there can be a source to read.
import numpy.ma

from ..storage.batch import Piece, fetch
from ..types import AnyArray, IntArray

# What picks frames of a clip: an int, a slice, a list or an array of ints, a mask; None for all.
FrameSelection: TypeAlias = Any
Request: TypeAlias = tuple[str, FrameSelection]


class Clip(Protocol):
    """Frames that belong together, read when they are indexed."""

    @property
    def id(self) -> str:
        """Its name in the source."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """``(T, *frame shape)``, usually (T, H, W) or (T, H, W, C).

        Of verbatim images, which may differ, the frame shape is the first one's; ``(0,)`` if there
        is none.
        """
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the pixels."""
        ...

    @property
    def meta(self) -> dict[str, Any]:
        """What was stored with the clip; parsed at each access, so that it is the caller's own."""
        ...

    def __len__(self) -> int:
        """Return the number of frames."""
        ...

    def __getitem__(self, selection: FrameSelection) -> AnyArray:
        """Return `read` of a selection."""
        ...

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return frames in one array: of shape ``(n, *frame shape)``, for an int ``frame shape``.

        Parameters
        ----------
        selection : int, slice, sequence of int, ndarray of int or bool, optional
            Which frames, in this order; all by default.
        out : ndarray, optional
            Of just that shape and dtype; filled and returned.

        Raises
        ------
        IndexError, TypeError
            There is no such frame; the selection is none.
        ValueError
            `out` does not fit, or frames were selected that differ in shape.
        FormatError, CodecError
            A frame is damaged; the message names it.
        """
        ...

    def read_images(self, selection: FrameSelection = None) -> list[bytes] | None:
        """Return frames as the JPEG or PNG files they are kept as; None if they are not."""
        ...


class FrameSource(Protocol):
    """Clips by id.

    Attributes
    ----------
    name : str or None
        Where they are, for messages.
    """

    name: str | None

    def keys(self) -> Sequence[str]:
        """Return the ids, in order."""
        ...

    def __len__(self) -> int:
        """Return the number of clips."""
        ...

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, in order."""
        ...

    def __contains__(self, key: object) -> bool:
        """Return whether there is a clip of this id."""
        ...

    def __getitem__(self, key: str) -> Clip:
        """Return a clip, of which nothing is decoded yet.

        Raises
        ------
        NotFoundError
            There is none of this id.
        """
        ...

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read frames of many clips at once; see `read_batch`."""
        ...

    def close(self) -> None:
        """Release the source; idempotent."""
        ...

    def __enter__(self) -> Self:
        """Return the source, to be closed at the end of the block."""
        ...

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        ...


class KeyedSource(ABC):
    """What sources have in common that know all their ids: see `FrameSource`."""

    @abstractmethod
    def keys(self) -> Sequence[str]:
        """Return the ids, in order."""

    @abstractmethod
    def __getitem__(self, key: str) -> "StoredClip":
        """Return a clip, of which nothing is read yet."""

    @abstractmethod
    def close(self) -> None:
        """Release the source; idempotent."""

    def __len__(self) -> int:
        """Return the number of clips."""
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, in order."""
        return iter(self.keys())

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read frames of many clips at once; see `read_batch`."""
        planned = [(self[id_], selection) for id_, selection in requests]
        return read_batch(planned, out=out, nthreads=nthreads)

    def __enter__(self) -> Self:
        """Return the source, to be closed at the end of the block."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()


class StoredClip(Clip, Protocol):
    """A clip of which is known where its frames lie: what `read_batch` reads.

    Attributes
    ----------
    decode_cost : int
        How long a decoded byte takes, next to one of a Blosc chunk.
    """

    decode_cost: int

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the frames at `indices`, as far as known that of the first one."""
        ...

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return what to fetch so that ``frames[k]`` becomes the frame ``indices[k]``.

        `frames` is C-contiguous and has the clip's dtype; indices are in range, and may repeat.
        """
        ...


class FrameIndices(NamedTuple):
    """A selection, applied to a clip.

    Attributes
    ----------
    indices : ndarray of int64
        Ordinals of the frames, not negative.
    is_single : bool
        Whether one frame was asked for, so that the result has no axis of frames.
    """

    indices: IntArray
    is_single: bool


def frame_indices(selection: FrameSelection, nframes: int) -> FrameIndices:
    """Return which of `nframes` frames a selection picks.

    Raises
    ------
    IndexError
        One is out of range, or a mask has another length.
    TypeError
        It is neither an int, a slice, a sequence of ints nor a mask.
    """
    if selection is None or selection is Ellipsis:
        selection = slice(None)
    if isinstance(selection, slice):
        return FrameIndices(np.arange(*selection.indices(nframes), dtype=np.int64), False)
    if isinstance(selection, list | range | np.ndarray):
        picked = np.asarray(selection)
        if picked.ndim == 1:
            return FrameIndices(_picked(picked, nframes), False)
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


def _picked(picked: AnyArray, nframes: int) -> IntArray:
    """Return the ordinals that a list or a mask picks."""
    if picked.dtype == np.bool_ and len(picked):
        if len(picked) != nframes:
            raise IndexError(f"a mask of {len(picked)} for {nframes} frames")
        return np.flatnonzero(picked).astype(np.int64)
    if picked.dtype.kind in "iu" or not len(picked):
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
    """Return what `Clip.read` does."""
    outs = None if out is None else [out]
    return _read_each([(clip, selection)], outs, nthreads)[0]


def read_batch(
    requests: Iterable[tuple[StoredClip, FrameSelection]],
    *,
    out: AnyArray | Sequence[AnyArray] | None,
    nthreads: int | None,
) -> AnyArray | list[AnyArray]:
    """Read frames of many clips at once: sorted by place, coalesced, decoded on all cores.

    Parameters
    ----------
    requests : iterable of (clip, selection)
        Selections as for `Clip.read`.
    out : ndarray or sequence of ndarray, optional
        What would be returned; filled.
    nthreads : int, optional
        Threads that decode; by default as many as there are processors, at most 8.

    Returns
    -------
    ndarray or list of ndarray
        What ``clip.read(selection)`` gives for each request: one array of shape
        ``(len(requests), ...)`` if they agree in shape and dtype, else one for each.
    """
    planned = list(requests)
    if out is not None:
        parts = list(out)
        if len(parts) != len(planned):
            raise ValueError(f"out holds {len(parts)} arrays for {len(planned)} requests")
        _read_each(planned, parts, nthreads)
        return out if isinstance(out, np.ndarray) else parts
    forms = [_form(*request) for request in planned]
    if len(set(forms)) != 1:
        return _read_each(planned, None, nthreads)
    whole: AnyArray = np.empty((len(planned), *forms[0][0]), forms[0][1])
    _read_each(planned, [whole[k, ...] for k in range(len(planned))], nthreads)
    return whole


def _form(clip: StoredClip, selection: FrameSelection) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of what is read."""
    indices, is_single = frame_indices(selection, len(clip))
    lead = () if is_single else (len(indices),)
    return (*lead, *clip.frame_shape(indices)), clip.dtype


def _read_each(
    requests: Sequence[tuple[StoredClip, FrameSelection]],
    outs: Sequence[AnyArray] | None,
    nthreads: int | None,
) -> list[AnyArray]:
    """Read every request into its array of `outs`, new ones by default."""
    results: list[AnyArray] = []
    spread: list[tuple[AnyArray, AnyArray]] = []
    pieces: list[Piece] = []
    work = 0
    for number, (clip, selection) in enumerate(requests):
        indices, is_single = frame_indices(selection, len(clip))
        shape = clip.frame_shape(indices)
        wanted = shape if is_single else (len(indices), *shape)
        if outs is None:
            result: AnyArray = np.empty(wanted, clip.dtype)
        else:
            result = _checked(outs[number], wanted, clip)
        results.append(result)
        target = result
        if not result.flags.carray:  # decoders want aligned memory without gaps
            target = np.empty(wanted, clip.dtype)
            spread.append((result, target))
        pieces += clip.pieces(indices, target.reshape(len(indices), *shape))
        work += clip.decode_cost * target.nbytes
    fetch(pieces, nthreads=nthreads, nbytes=work)
    for result, target in spread:
        result[...] = target
    return results


def _checked(out: AnyArray, shape: tuple[int, ...], clip: StoredClip) -> AnyArray:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an ndarray, not {type(out).__name__}")
    if out.shape != shape or out.dtype != clip.dtype:
        raise ValueError(
            f"clip {clip.id!r:.80}: out is {out.dtype} {out.shape}, {clip.dtype} {shape} is needed"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    return out
