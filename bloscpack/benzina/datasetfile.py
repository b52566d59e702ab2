"""State shared by a dataset and its views: the open file, its box structure and cached tables.

Targets and names are read on first use, all at once and usually in one read. If two threads ask at
the same time, both read and one result is stored.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import numpy as np

from ..plugin import (
    DATASET,
    HEAD_NBYTES,
    VIDEO,
    BytesLike,
    ByteSource,
    FormatError,
    IntArray,
    NotBloscpackError,
    UnsupportedError,
    errors_at,
    is_mp4,
    kind_of,
    wrong_kind,
)
from .codec.codecconfig import DEFAULT_MAX_PIXELS
from .mp4.bmff import BoxHeader, Read, Window, children, read_box
from .mp4.boxes import unpack_brands
from .mp4.format import INPUT, NAME, TARGET, TARGET_NBYTES, THUMB
from .mp4.movie import Movie, unpack_movie
from .mp4.track import DatasetTrack, memory_errors
from .names import IdTable, NameTable
from .splits import KIND as SPLITS_KIND
from .splits import MAX_NBYTES as MAX_SPLITS_NBYTES
from .splits import unpack_splits

# Compatible brand of a dataset; stored on disk.
BRAND = b"bzna"
_BRANDS_NBYTES = 4096
# Tracks of other programs that are listed by their names.
_MAX_LISTED = 64


class Content:
    """An open dataset file, `nbytes` large when it was opened.

    `tracks` are Benzina's by name; `input` is the track of samples, ``bzna_input``. `nthreads` is
    for calls that do not set it. `max_pixels` is the largest coded frame that is decoded. `origin`
    is how to pickle it: a function that reopens the file, and its arguments.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.nbytes = source.size()
        read = Window(source.read_at)
        head = read(0, min(self.nbytes, HEAD_NBYTES))
        kind = kind_of(head, source.name)
        # Without a name, it may be a dataset with a damaged beginning.
        is_possible = kind is None and (source.name is None or not head)
        if kind not in (DATASET, VIDEO) and not is_possible:
            raise wrong_kind(head, DATASET.name, source.name)
        self.movie: Movie = unpack_movie(read, self.nbytes)
        if INPUT not in self.movie.tracks:
            if kind is VIDEO:
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
        self.has_converted = False  # whether colours of a picture were not stored as RGB
        self.declared: dict[str, range] | None = None
        self.max_pixels = DEFAULT_MAX_PIXELS
        self._targets: IntArray | None = None
        self._names: NameTable | None = None
        self._ids: IdTable | None = None
        self._splits: dict[str, range] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise TypeError("cannot pickle a dataset opened from a file object: open it by path")
        return self.origin

    def __len__(self) -> int:
        return len(self.input)

    @property
    def identity(self) -> tuple[int, int, int]:
        """Values that change when the file is replaced by another."""
        return self.nbytes, self.movie.moov.offset, len(self)

    @property
    def other_tracks(self) -> tuple[str, ...]:
        """Short texts for the tracks beside pictures, targets and names."""
        own = {INPUT, NAME, TARGET, THUMB}
        names = [*(name for name in self.tracks if name not in own), *self.movie.others]
        texts = [f"track {name!r:.80}" for name in names[:_MAX_LISTED]]
        nmore = len(names) - len(texts)
        return (*texts, f"{nmore} more tracks") if nmore else tuple(texts)

    def _entries(self, name: str) -> DatasetTrack | None:
        """Return the track with an entry per sample (or for the first samples only), or None."""
        track = self.tracks.get(name)
        if track is not None:
            with errors_at(self.source.name):
                _check_entries(track, len(self))
        return track

    @property
    def targets(self) -> IntArray:
        """The target of each sample, -1 where it is missing; read-only."""
        if self._targets is None:
            with memory_errors("the targets", self.source.name):
                targets = read_targets(self._entries(TARGET), len(self))
            targets.flags.writeable = False
            self._targets = targets
        return self._targets

    def target(self, index: int) -> int:
        """Return the target of one sample without reading the others."""
        if self._targets is not None:
            return self._targets.item(index)
        track = self._entries(TARGET)
        if track is None or index >= len(track):
            return -1
        if (nbytes := track.sizes.item(index)) != TARGET_NBYTES:
            raise _target_error(index, nbytes).at(path=self.source.name)
        return int.from_bytes(track.read(index), "little", signed=True)

    @property
    def names(self) -> NameTable:
        """The names of all samples."""
        if self._names is None:
            track = self._entries(NAME)
            with memory_errors("the names", self.source.name):
                data, sizes = (b"", np.zeros(0, np.int64)) if track is None else track.read_all()
                self._names = NameTable(data, sizes, len(self))
        return self._names

    def name_bytes(self, index: int) -> bytes | None:
        """Return the stored name of one sample without reading the others."""
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
            with memory_errors("the ids", self.source.name):
                self._ids = IdTable(names)
        return self._ids

    @property
    def splits(self) -> Mapping[str, range]:
        """The declared splits, or those stored in the file."""
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
        with errors_at(self.source.name):
            nbytes = min(box.end - box.payload_offset, MAX_SPLITS_NBYTES + 1)
            payload = bytes(read(box.payload_offset, nbytes))
            return unpack_splits(payload, len(self))


def _find_splits(read: Read, moov: BoxHeader) -> BoxHeader | None:
    """Return the box with the splits, or None.

    Other software may store anything in ``udta``, not only boxes, so errors in it are ignored.
    """
    for udta in children(read, moov.payload_offset, moov.end, {b"udta"}):
        with suppress(FormatError):
            for box in children(read, udta.payload_offset, udta.end, {SPLITS_KIND}):
                return box
    return None


def read_targets(track: DatasetTrack | None, count: int) -> IntArray:
    """Return the targets of `count` samples (stored as little-endian int64), -1 where missing."""
    if track is None:
        return np.broadcast_to(np.int64(-1), count)
    _check_entries(track, count)
    for index in np.flatnonzero(track.sizes != TARGET_NBYTES)[:1].tolist():
        raise _target_error(index, track.sizes.item(index))
    data, _ = track.read_all()
    targets = np.full(count, -1, np.int64)
    targets[: len(track)] = np.frombuffer(data, "<i8")
    return targets


def _target_error(index: int, nbytes: int) -> FormatError:
    return FormatError(
        f"sample {index}: target has {nbytes} bytes, expected {TARGET_NBYTES}", field=TARGET
    )


def _check_entries(track: DatasetTrack, count: int) -> None:
    if len(track) > count:
        raise FormatError(
            f"track {track.name!r}: {len(track)} entries, but only {count} samples",
            field=track.name,
        )


def is_dataset(source: ByteSource, head: BytesLike) -> bool:
    """Return whether a file has the brand of a dataset, or a track of samples.

    `head` are its first bytes. A file with the name of a dataset and a damaged beginning counts as
    one, too.
    """
    if not is_mp4(head):
        return kind_of(head, source.name) is DATASET
    try:
        return _is_dataset(Window(source.read_at), source.size())
    except (FormatError, UnsupportedError):
        return False


def _is_dataset(read: Read, nbytes: int) -> bool:
    first = next(children(read, 0, nbytes, to_end=True), None)
    if first is not None and first.kind == b"ftyp":
        brands = read_box(read, first, unpack_brands, _BRANDS_NBYTES)
        if BRAND in brands:
            return True
    track = unpack_movie(read, nbytes).tracks.get(INPUT)
    return track is not None and not track.config_kind
