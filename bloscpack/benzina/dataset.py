"""Read a Benzina dataset: its samples, targets, names and splits.

Opening reads box headers only. Tables, targets and names are read on first use. Reads are
positional and take no lock. Views of part of a dataset share the open file and everything read.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

import numpy as np

from ..plugin import (
    LOCAL,
    AnyArray,
    ClipMapping,
    FileChangedError,
    IntArray,
    NotFoundError,
    Policy,
    Request,
    at_hand,
    closed_on_error,
    importing,
    open_source,
    plan_runs,
    read_batch,
)
from .codec.codecconfig import DEFAULT_MAX_PIXELS
from .datasetfile import Content
from .mp4.format import INPUT, is_text
from .mp4.movie import Movie
from .mp4.track import DatasetTrack
from .names import TableView
from .sample import Sample, name_text
from .splits import Span, resolve_splits

# Samples that follow each other in the file are read together, at most this many bytes at once.
READ_AHEAD_NBYTES = 1 << 20
# Number of samples whose places are looked up together.
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
        The file, or its URL.
    splits : mapping of str to (start, stop), range or slice; or "imagenet"; optional
        Sample ranges of the splits. By default those stored in the file, if any.
        "imagenet" uses the positions of Benzina's ImageNet class: the last 100 000 samples are
        "test", the 50 000 before them "val", the rest "train".
    max_pixels : int, default 2 ** 26
        Largest coded frame that is decoded, in pixels; bounds the memory a small file can demand.
    nthreads : int, optional
        Number of decoding threads for calls that do not set it.
    storage_options : mapping, optional
        For a URL: options for its fsspec file system (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    Dataset
        Close it, or use it as a context manager.

    Raises
    ------
    WrongKindError
        The file is of another type; the message names the call that reads it.
    FormatError, UnsupportedError
        A box is damaged, or uses a feature that is not supported.
    OSError
        The file cannot be read.
    TypeError, ValueError
        `splits` is malformed or out of the dataset's range; `max_pixels` is less than 1.

    Notes
    -----
    Opening takes about a dozen small reads, for any number of samples. Behind a URL it takes
    one request for the first 64 KiB and one or two for the boxes at the end.

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
    with closed_on_error(source, source.name):
        content = Content(source)
        content.declared = None if splits is None else resolve_splits(splits, len(content))
    content.nthreads = nthreads
    content.max_pixels = max_pixels
    place = source.place()
    if place is not None:
        options = {"splits": content.declared, "max_pixels": max_pixels, "nthreads": nthreads}
        content.origin = _reopen, (place, options, content.identity)
    return Dataset(content, range(len(content)))


def _reopen(place: Any, options: dict[str, Any], identity: tuple[int, ...]) -> Content:
    """Reopen the content of a pickled dataset."""
    content = open(place, **options)._content
    if content.identity != identity:
        content.source.close()
        raise FileChangedError("the file has changed since it was opened; reopen it").at(
            path=content.source.name
        )
    return content


class Dataset(ClipMapping[Sample]):
    """The samples of a file, or of part of it; also a source of clips, see `frames.protocol`.

    Created by `open`. As a source, each sample is a clip of one frame; iteration yields the ids.

    Attributes
    ----------
    name : str or None
        The path as passed to `open`; None for bytes.

    Notes
    -----
    Threads and forked children may share a dataset. It is pickled as its path and options.
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
        restore = partial(Dataset, is_view=self._is_view)
        return restore, (self._content, self._indices, self._shown)

    def __repr__(self) -> str:
        return f"<bloscpack.benzina.Dataset {self.name!r} of {len(self)} samples>"

    def _repr_html_(self) -> str:
        """Return a table of samples and thumbnails for notebooks."""
        with importing:
            from .notebook import dataset_card
        return dataset_card(self)

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
        """Return a sample by position or id, or a view for a slice; nothing is read yet.

        Raises
        ------
        IndexError
            The position is out of range.
        NotFoundError
            No sample has this id.
        """
        if isinstance(key, str):
            return self._sample(self._find(key))
        if isinstance(key, slice):
            return self._view(self._indices[key])
        return self._sample(self._ordinal(key))

    def _ordinal(self, position: int) -> int:
        try:
            return self._indices[operator.index(position)]
        except IndexError:
            raise IndexError(f"sample {position} of a dataset of {len(self)}") from None

    def _sample(self, index: int) -> Sample:
        return Sample(self._content, index, self._shown)

    def _find(self, id_: str) -> int:
        index = self._content.ids.find(id_)
        if index is None or index not in self._indices:
            raise NotFoundError(f"no sample {id_!r:.80}, or several of this name").at(
                path=self.name
            )
        return index

    def _ids(self) -> Sequence[str]:
        # A unique name as it is, others with ``#`` and the ordinal appended.
        return TableView(self._content.ids, self._indices)

    def __contains__(self, key: object) -> bool:
        """Return whether the key is an id, or a name that exactly one sample has."""
        index = self._content.ids.find(key)
        return index is not None and index in self._indices

    @property
    def targets(self) -> IntArray:
        """The target of each sample, int64 (n,), -1 where it is missing; read-only.

        Raises
        ------
        FormatError
            There are more targets than samples, or a target is not 8 bytes long.
        """
        return self._content.targets[_as_slice(self._indices)]

    @property
    def names(self) -> Sequence[str | None]:
        """The name of each sample, None where it is missing; bytes that are not UTF-8 are escaped.

        Raises
        ------
        FormatError
            There are more names than samples.
        """
        return TableView(self._content.names, self._indices)

    @property
    def tracks(self) -> Mapping[str, DatasetTrack]:
        """The tracks of the file by name; for a view, too, they cover all samples of the file."""
        return self._content.tracks

    @property
    def movie(self) -> Movie:
        """The box structure of the file."""
        return self._content.movie

    @property
    def nbytes(self) -> int:
        """Size of the file in bytes when it was opened."""
        return self._content.nbytes

    @property
    def indices(self) -> range:
        """Ordinals in the file of the samples of this dataset or view."""
        return self._indices

    @property
    def splits(self) -> Mapping[str, range]:
        """The declared splits, else the stored ones: file ordinals by split name; a copy.

        Raises
        ------
        FormatError
            The stored splits are damaged.
        """
        return dict(self._content.splits)

    @property
    def attrs(self) -> dict[str, Any]:
        """The splits of a whole dataset, as an attribute for a frame store."""
        splits = self.splits
        if not splits or self._is_view:
            return {}
        spans = {name: [of.start, of.stop] for name, of in splits.items()}
        return {"benzina": {"nsamples": len(self), "splits": spans}}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents beside pictures, targets, and names that are text, as short texts."""
        names = self._content.names
        stored = ((index, names.stored(index)) for index in self._indices)
        bad = (index for index, name in stored if name and not is_text(name))
        return *self._content.other_tracks, *map(name_text, bad)

    @property
    def is_raw(self) -> bool:
        """Whether all pictures that were read are stored as RGB, and were not converted to it."""
        return not self._content.has_converted

    def split(self, name: str) -> "Dataset":
        """Return the samples of a split as a view of the file.

        Raises
        ------
        NotFoundError
            No split has this name.
        FormatError
            The stored splits are damaged.
        """
        splits = self._content.splits
        if name not in splits:
            declared = f"splits: {', '.join(splits)}" if splits else "no splits"
            raise NotFoundError(
                f"no split {name!r:.80}, {declared}: declare it when opening the file, such as "
                f"splits={{{name!r:.80}: (0, {len(self._content)})}} or splits='imagenet'"
            ).at(path=self.name)
        return self._view(splits[name])

    def frames(self, track: str = INPUT) -> "Dataset":
        """Return a view whose clips show another track, such as ``"bzna_thumb"``."""
        return self._view(self._indices, track)

    def samples(
        self, positions: Iterable[int] | None = None, *, read_ahead: int = READ_AHEAD_NBYTES
    ) -> Iterator[Sample]:
        """Iterate over samples; adjacent ones are read with a single call.

        Parameters
        ----------
        positions : iterable of int, optional
            Samples to read, in this order; all by default.
        read_ahead : int
            Largest number of bytes to read and hold at once, unless a single sample is larger.

        Raises
        ------
        IndexError
            A position is out of range.

        Notes
        -----
        A truncated sample raises an error when its bytes are requested; iteration goes on.
        """
        picked: Sequence[int] = self._indices
        if positions is not None:
            picked = [*map(self._ordinal, positions)]
        for first in range(0, len(picked), _BLOCK):
            yield from self._read_block(np.array(picked[first : first + _BLOCK]), read_ahead)

    def _read_block(self, indices: IntArray, read_ahead: int) -> Iterator[Sample]:
        source = self._content.source
        starts, sizes = self._content.input.extents(indices)
        offsets, ends, numbers = starts.tolist(), (starts + sizes).tolist(), indices.tolist()
        for low, high, start, stop in plan_runs(offsets, ends, Policy(LOCAL.max_gap, read_ahead)):
            nbytes = min(stop, self._content.nbytes) - start
            held = memoryview(source.read_at(start, nbytes)) if nbytes > 0 else memoryview(b"")
            for number, offset, end in zip(
                numbers[low:high], offsets[low:high], ends[low:high], strict=True
            ):
                is_whole = end - start <= len(held)
                data = bytes(held[offset - start : end - start]) if is_whole else None
                yield Sample(self._content, number, self._shown, data)

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read the pictures of many samples at once; see `frames.protocol.read_batch`.

        Pictures of equal size are returned as one array, others as a list.
        """
        planned = [(self._sample(self._find(id_)), selection) for id_, selection in requests]
        nthreads = self._content.nthreads if nthreads is None else nthreads
        source = self._content.source
        places = (
            [(source, sample.location, sample.size) for sample, _ in planned]
            if source.has_latency
            else []
        )
        with at_hand(places):
            return read_batch(planned, out=out, nthreads=nthreads)

    def close(self) -> None:
        """Close the file for this dataset and its views; idempotent. On a view, do nothing."""
        if not self._is_view:
            self._content.source.close()


def _as_slice(indices: range) -> slice:
    if not indices:
        return slice(0)
    stop = indices.stop
    return slice(indices.start, stop if stop >= 0 else None, indices.step)
