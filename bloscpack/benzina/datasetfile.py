"""What a dataset and its views share: the open file, its outline, and what was read of it so far.

Targets and names are read when they are first asked for, all at once, usually in one read; where
two threads ask at the same time, both read, and one result stays.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import numpy as np

from ..exceptions import (
    BloscpackError,
    FormatError,
    NotBloscpackError,
    UnsupportedError,
    closed_on_error,
)
from ..format.filekind import DATASET, HEAD_NBYTES, VIDEO, check_dataset, identify, wrong_kind
from ..storage.file import open_source
from ..storage.memory import MemorySource
from ..storage.protocol import ByteSource
from ..storage.remote.prefetch import is_remote
from ..types import IntArray
from .codec.codecconfig import DEFAULT_MAX_PIXELS
from .mp4.bmff import BoxHeader, Read, Window, children, read_box
from .mp4.boxes import unpack_brands
from .mp4.format import INPUT, NAME, TARGET, TARGET_NBYTES
from .mp4.movie import Movie, unpack_movie
from .mp4.track import DatasetTrack, sized
from .names import IdTable, NameTable
from .splits import KIND as SPLITS_KIND
from .splits import MAX_NBYTES as MAX_SPLITS_NBYTES
from .splits import unpack_splits

# Of the compatible brands of a dataset: stored on disk.
BRAND = b"bzna"
_BRANDS_NBYTES = 4096


class Content:
    """An open dataset.

    Parameters
    ----------
    source : ByteSource
        The file.

    Attributes
    ----------
    source : ByteSource
        It.
    nbytes : int
        Its size when it was opened.
    movie : Movie
        Its outline.
    tracks : mapping of str to DatasetTrack
        Those of Benzina.
    input : DatasetTrack
        The one with the samples.
    nthreads : int or None
        Threads that decode, unless a call says it.
    max_pixels : int
        Of the largest coded frame that is decoded.
    origin : tuple or None
        What pickles instead: a function and its arguments.

    Raises
    ------
    NotBloscpackError
        The file is of another kind.
    FormatError, UnsupportedError
        Its boxes are damaged, or have a feature that is not known.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.nbytes = source.size()
        read = Window(source.read_at)
        head = read(0, min(self.nbytes, HEAD_NBYTES))
        check_dataset(head, source.name)
        self.movie: Movie = unpack_movie(read, self.nbytes)
        if INPUT not in self.movie.tracks:
            if identify(head, source.name) is VIDEO:
                raise wrong_kind(head, DATASET.name)
            found = ", ".join(self.movie.tracks) or "none of Benzina's"
            raise FormatError(f"no track {INPUT!r}; its tracks: {found}")
        self.tracks: Mapping[str, DatasetTrack] = MappingProxyType(
            {
                name: DatasetTrack(source, self.nbytes, table)
                for name, table in self.movie.tracks.items()
            }
        )
        self.input = self.tracks[INPUT]
        if self.input.table.config_kind:
            raise NotBloscpackError(
                f"a sample of a Benzina dataset (track {INPUT!r} holds pictures), not a dataset: "
                "bloscpack.benzina.parse_sample reads it"
            )
        self.nthreads: int | None = None
        self.origin: tuple[Callable[..., Content], tuple[Any, ...]] | None = None
        self.declared: dict[str, range] | None = None
        self.max_pixels = DEFAULT_MAX_PIXELS
        self._targets: IntArray | None = None
        self._names: NameTable | None = None
        self._ids: IdTable | None = None
        self._splits: dict[str, range] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise TypeError("a dataset of a file object does not pickle: open it by its path")
        return self.origin

    def __len__(self) -> int:
        return len(self.input)

    @property
    def identity(self) -> tuple[int, int, int]:
        """What tells the file from one that takes its place."""
        return self.nbytes, self.movie.moov.offset, len(self)

    def _entries(self, name: str) -> DatasetTrack | None:
        """Return the track that has an entry for each sample, or the first of them, if any.

        Raises
        ------
        FormatError
            It has more entries than there are samples.
        """
        track = self.tracks.get(name)
        if track is not None:
            try:
                _check_entries(track, len(self))
            except FormatError as err:
                raise self.blamed(err) from None
        return track

    def blamed(self, err: BloscpackError, index: int | None = None) -> BloscpackError:
        """Return an error that says which file, and which sample, it is about."""
        if err.path is None:
            if index is not None:
                err.args = (f"sample {index}: {err.args[0] if err.args else ''}",)
            err.path = self.source.name
        return err

    @property
    def targets(self) -> IntArray:
        """The target of each sample, -1 where it has none; read-only.

        Raises
        ------
        FormatError
            There are more than samples, or one is not of 8 bytes.
        """
        if self._targets is None:
            try:
                with sized("the targets", self.source.name):
                    targets = read_targets(self._entries(TARGET), len(self))
            except FormatError as err:
                raise self.blamed(err) from None
            targets.flags.writeable = False
            self._targets = targets
        return self._targets

    def target(self, index: int) -> int:
        """Return the target of a sample, without reading the others."""
        if self._targets is not None:
            return self._targets.item(index)
        track = self._entries(TARGET)
        if track is None or index >= len(track):
            return -1
        if (nbytes := track.sizes.item(index)) != TARGET_NBYTES:
            raise self.blamed(_wrong_target(index, nbytes))
        return int.from_bytes(track.read(index), "little", signed=True)

    @property
    def names(self) -> NameTable:
        """The names of all samples.

        Raises
        ------
        FormatError
            There are more than samples.
        """
        if self._names is None:
            track = self._entries(NAME)
            with sized("the names", self.source.name):
                data, sizes = (b"", np.zeros(0, np.int64)) if track is None else track.read_all()
                self._names = NameTable(data, sizes, len(self))
        return self._names

    def name_bytes(self, index: int) -> bytes | None:
        """Return the name of a sample as it is stored, without reading the others."""
        if self._names is not None:
            return self._names.stored(index)
        track = self._entries(NAME)
        if track is None or index >= len(track):
            return None
        return track.read(index).removesuffix(b"\0")

    @property
    def ids(self) -> IdTable:
        """The ids of all samples."""
        if self._ids is None:
            names = self.names
            with sized("the ids", self.source.name):
                self._ids = IdTable(names)
        return self._ids

    @property
    def splits(self) -> Mapping[str, range]:
        """The declared splits, or those that the file keeps.

        Raises
        ------
        FormatError
            The box of the splits is damaged.
        """
        if self.declared is not None:
            return self.declared
        if self._splits is None:
            self._splits = self._stored_splits()
        return self._splits

    def _stored_splits(self) -> dict[str, range]:
        read = Window(self.source.read_at)
        box = _find_splits(read, self.movie.moov)
        if box is None:
            return {}
        try:
            nbytes = min(box.end - box.payload_offset, MAX_SPLITS_NBYTES + 1)
            payload = bytes(read(box.payload_offset, nbytes))
            return unpack_splits(payload, len(self))
        except FormatError as err:
            raise self.blamed(err) from None


def _find_splits(read: Read, moov: BoxHeader) -> BoxHeader | None:
    """Return the box of the splits, if there is one where it belongs.

    What others keep in ``udta`` need not be boxes, and is not ours to judge.
    """
    for udta in children(read, moov.payload_offset, moov.end, {b"udta"}):
        with suppress(FormatError):
            for box in children(read, udta.payload_offset, udta.end, {SPLITS_KIND}):
                return box
    return None


def read_targets(track: DatasetTrack | None, count: int) -> IntArray:
    """Return the targets of `count` samples, int64 little-endian as they are stored, else -1.

    Raises
    ------
    FormatError
        There are more targets than samples, or one is not of 8 bytes.
    """
    if track is None:
        return np.broadcast_to(np.int64(-1), count)
    _check_entries(track, count)
    for index in np.flatnonzero(track.sizes != TARGET_NBYTES)[:1].tolist():
        raise _wrong_target(index, track.sizes.item(index))
    data, _ = track.read_all()
    targets = np.full(count, -1, np.int64)
    targets[: len(track)] = np.frombuffer(data, "<i8")
    return targets


def _wrong_target(index: int, nbytes: int) -> FormatError:
    return FormatError(
        f"sample {index}: its target has {nbytes} bytes, {TARGET_NBYTES} are needed", field=TARGET
    )


def _check_entries(track: DatasetTrack, count: int) -> None:
    if len(track) > count:
        raise FormatError(
            f"track {track.name!r}: {len(track)} entries for {count} samples", field=track.name
        )


def open_content(source: ByteSource) -> Content:
    """Return the content of a source, which is closed if there is none.

    Raises
    ------
    FormatError, UnsupportedError
        As by `Content`; the error has the path.
    """
    with closed_on_error(source, source.name):
        return Content(source)


def is_dataset(where: Any) -> bool:
    """Return whether a file says that it is a dataset, or has the track of samples.

    Raises
    ------
    OSError
        It cannot be read.
    """
    source = open_source(where)
    try:
        return _is_dataset(Window(source.read_at), source.size())
    except (FormatError, UnsupportedError):
        return False
    finally:
        source.close()


def _is_dataset(read: Read, nbytes: int) -> bool:
    first = next(children(read, 0, nbytes, to_end=True), None)
    if first is not None and first.kind == b"ftyp":
        brands = read_box(read, first, unpack_brands, _BRANDS_NBYTES)
        if BRAND in brands:
            return True
    track = unpack_movie(read, nbytes).tracks.get(INPUT)
    return track is not None and not track.config_kind


def place_of(source: ByteSource) -> Any:
    """Return what opens the same in another process; None for a file object."""
    if isinstance(source, MemorySource):
        return source.content()
    if is_remote(source):
        return source.place(0)
    return getattr(source, "path", None)
