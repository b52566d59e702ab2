"""A Benzina dataset, open for reading: samples, targets, names and splits.

Opening reads the headers of boxes; tables, targets and names are read when they are asked for.
Reads are positional and hold no lock. A part of a dataset is a view, which shares all of that.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np

from ..exceptions import FileChangedError, NotFoundError, closed_on_error
from ..frames.protocol import Request, read_batch
from ..storage.file import open_source
from ..storage.remote.prefetch import at_hand, is_remote
from ..types import AnyArray, IntArray
from .codec.codecconfig import DEFAULT_MAX_PIXELS
from .datasetfile import Content, open_content, place_of
from .mp4.format import INPUT
from .mp4.movie import Movie
from .mp4.track import DatasetTrack
from .names import Picked
from .sample import Sample
from .splits import Span, resolve_splits

# What is read at once when samples are read in a row, and bytes between them that are read rather
# than skipped.
READ_AHEAD_NBYTES = 1 << 20
_MAX_GAP_NBYTES = 1 << 15
# Samples whose places are looked up together.
_BLOCK = 4096


def open(  # noqa: A001
    path: Any,
    *,
    splits: Mapping[str, Span] | str | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> "Dataset":
    """Open a Benzina dataset.

    Parameters
    ----------
    path : str, PathLike, buffer or binary file
        The file, or a URL of it.
    splits : mapping of str to (start, stop), range or slice; or "imagenet"; optional
        Which samples the splits have. By default those that are stored in the file, if any are.
        "imagenet" is what Benzina's class goes by: the last 100 000 samples are "test", the 50 000
        before "val", the rest "train".
    max_pixels : int, default 2 ** 26
        Pictures whose coded frame has more are not decoded: what a small file may claim is bounded.
    nthreads : int, optional
        Threads that decode, unless a call says it.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    Dataset
        To be closed, or used as a context manager.

    Raises
    ------
    WrongKindError
        The file is of another kind; the message names the call that reads it.
    FormatError, UnsupportedError
        Its boxes are damaged, or have a feature that is not known.
    OSError
        The file cannot be read.
    TypeError, ValueError
        `splits` are none, or not within the dataset; `max_pixels` is less than 1.

    Notes
    -----
    A dozen small reads, however many samples there are; behind a URL a request for the first
    64 KiB and one or two for the boxes at the end.

    Examples
    --------
    >>> import bloscpack as bp
    >>> with bp.benzina.open("pictures.bzna") as dataset:  # doctest: +SKIP
    ...     sample = dataset[0]
    ...     sample.name, sample.target, sample.decode().shape
    """
    if max_pixels < 1:
        raise ValueError(f"max_pixels must be 1 or more, not {max_pixels}")
    source = open_source(path, storage_options)
    content = open_content(source)
    content.nthreads = nthreads
    content.max_pixels = max_pixels
    with closed_on_error(source):
        content.declared = None if splits is None else resolve_splits(splits, len(content))
    place = place_of(source)
    if place is not None:
        options = {"splits": content.declared, "max_pixels": max_pixels, "nthreads": nthreads}
        content.origin = _reopen, (place, options, content.identity)
    return Dataset(content, range(len(content)))


def _reopen(place: Any, options: dict[str, Any], identity: tuple[int, ...]) -> Content:
    """Return the content of a dataset that was pickled, opened anew."""
    content = open(place, **options)._content
    if content.identity != identity:
        content.source.close()
        error = FileChangedError("the file is not the one that was opened; open it anew")
        error.path = content.source.name
        raise error
    return content


class Dataset:
    """The samples of a file, or of a part of it; a source of clips: see `frames.protocol`.

    Made by `open`. As a source it has each sample as a clip of one frame; iterating gives the ids.

    Attributes
    ----------
    name : str or None
        The path, as it was given; None for bytes.

    Notes
    -----
    Threads and forked children may share a dataset. It pickles as its path and options.
    """

    def __init__(
        self, content: Content, indices: range, shown: str = INPUT, *, is_view: bool = False
    ) -> None:
        self._content = content
        self._indices = indices
        self._shown = shown
        self._is_view = is_view
        self.name: str | None = content.source.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._content, self._indices, self._shown, self._is_view)

    def __repr__(self) -> str:
        return f"<bloscpack.benzina.Dataset {self.name!r} of {len(self)} samples>"

    def _view(self, indices: range, shown: str | None = None) -> "Dataset":
        return Dataset(self._content, indices, shown or self._shown, is_view=True)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._indices)

    @overload
    def __getitem__(self, key: int | str) -> Sample: ...
    @overload
    def __getitem__(self, key: slice) -> "Dataset": ...
    def __getitem__(self, key: int | str | slice) -> "Sample | Dataset":
        """Return a sample by its position or its id, for a slice a view; nothing is read yet.

        Raises
        ------
        IndexError
            There is no such position.
        NotFoundError
            There is no sample of this id.
        """
        if isinstance(key, str):
            return self._sample(self._find(key))
        if isinstance(key, slice):
            return self._view(self._indices[key])
        try:
            return self._sample(self._indices[key])
        except IndexError:
            raise IndexError(f"sample {key} of a dataset of {len(self)}") from None

    def _sample(self, index: int) -> Sample:
        return Sample(self._content, index, self._shown)

    def _find(self, id_: str) -> int:
        index = self._content.ids.find(id_)
        if index is None or index not in self._indices:
            error = NotFoundError(f"no sample {id_!r:.80}, or several of this name")
            error.path = self.name
            raise error
        return index

    def keys(self) -> Sequence[str]:
        """Return the ids: names that one sample alone has, others with ``#`` and an ordinal."""
        return Picked(self._content.ids, self._indices)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, in order."""
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        """Return whether there is a sample of this id, or a single one of this name."""
        index = self._content.ids.find(key)
        return index is not None and index in self._indices

    @property
    def targets(self) -> IntArray:
        """The target of each sample, int64 (n,), -1 where it has none; read-only.

        Raises
        ------
        FormatError
            There are more targets than samples, or one is not of 8 bytes.
        """
        return self._content.targets[_as_slice(self._indices)]

    @property
    def names(self) -> Sequence[str | None]:
        """The name of each sample, None where it has none; bytes that are no UTF-8 are escaped.

        Raises
        ------
        FormatError
            There are more names than samples.
        """
        return Picked(self._content.names, self._indices)

    @property
    def tracks(self) -> Mapping[str, DatasetTrack]:
        """The tracks of the file, by name: always of all its samples."""
        return self._content.tracks

    @property
    def movie(self) -> Movie:
        """The outline of the file."""
        return self._content.movie

    @property
    def nbytes(self) -> int:
        """Size of the file, in bytes, when it was opened."""
        return self._content.nbytes

    @property
    def indices(self) -> range:
        """The ordinals of the samples in the file."""
        return self._indices

    @property
    def splits(self) -> Mapping[str, range]:
        """The declared splits, or those that are stored: ordinals of the file by name; a copy.

        Raises
        ------
        FormatError
            What is stored is damaged.
        """
        return dict(self._content.splits)

    def split(self, name: str) -> "Dataset":
        """Return the samples of a split, as a view of the file.

        Raises
        ------
        NotFoundError
            There is no such split.
        FormatError
            The stored splits are damaged.
        """
        splits = self._content.splits
        if name not in splits:
            declared = f"there are {', '.join(splits)}" if splits else "none is declared"
            error = NotFoundError(
                f"no split {name!r:.80}, {declared}: declare it when the file is opened, as by "
                f"splits={{{name!r:.80}: (0, {len(self._content)})}} or splits='imagenet'"
            )
            error.path = self.name
            raise error
        return self._view(splits[name])

    def frames(self, track: str = INPUT) -> "Dataset":
        """Return a view with another track as the frame of each clip, as ``"bzna_thumb"``."""
        return self._view(self._indices, track)

    def samples(
        self, positions: Iterable[int] | None = None, *, read_ahead: int = READ_AHEAD_NBYTES
    ) -> Iterator[Sample]:
        """Iterate over samples, their bytes read in few calls where they lie in a row.

        Parameters
        ----------
        positions : iterable of int, optional
            Which samples, in this order; all by default.
        read_ahead : int
            Bytes that are read at once, and held, at most; more only for a sample that is larger.

        Raises
        ------
        IndexError
            There is no such position.

        Notes
        -----
        A sample that is cut off raises when its bytes are asked for; the others read on.
        """
        picked: Sequence[int] = self._indices
        if positions is not None:
            picked = [self._indices[operator.index(position)] for position in positions]
        for first in range(0, len(picked), _BLOCK):
            yield from self._read_block(np.array(picked[first : first + _BLOCK]), read_ahead)

    def _read_block(self, indices: IntArray, read_ahead: int) -> Iterator[Sample]:
        source = self._content.source
        starts, sizes = self._content.input.extents(indices)
        offsets, ends, numbers = starts.tolist(), (starts + sizes).tolist(), indices.tolist()
        first = 0
        while first < len(numbers):
            start, last = offsets[first], first + 1
            while (
                last < len(numbers)
                and 0 <= offsets[last] - ends[last - 1] <= _MAX_GAP_NBYTES
                and ends[last] - start <= read_ahead
            ):
                last += 1
            nbytes = min(ends[last - 1], self._content.nbytes) - start
            held = memoryview(source.read_at(start, nbytes)) if nbytes > 0 else memoryview(b"")
            for number, offset, end in zip(
                numbers[first:last], offsets[first:last], ends[first:last], strict=True
            ):
                is_whole = end - start <= len(held)
                data = bytes(held[offset - start : end - start]) if is_whole else None
                yield Sample(self._content, number, self._shown, data)
            first = last

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read the pictures of many samples at once; see `frames.protocol.read_batch`.

        Pictures of one size come as one array, others as a list.
        """
        planned = [(self._sample(self._find(id_)), selection) for id_, selection in requests]
        nthreads = self._content.nthreads if nthreads is None else nthreads
        source = self._content.source
        places = (
            [(source, sample.location, sample.size) for sample, _ in planned]
            if is_remote(source)
            else []
        )
        with at_hand(places):
            return read_batch(planned, out=out, nthreads=nthreads)

    def close(self) -> None:
        """Close the file, for its views as well; idempotent. Closing a view leaves it open."""
        if not self._is_view:
            self._content.source.close()

    def __enter__(self) -> Self:
        """Return the dataset, to be closed at the end of the block."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()


def _restored(content: Content, indices: range, shown: str, is_view: bool) -> Dataset:
    return Dataset(content, indices, shown, is_view=is_view)


def _as_slice(indices: range) -> slice:
    stop = indices.stop
    return slice(indices.start, stop if stop >= 0 else None, indices.step)
