"""A Gulp directory as a source of clips: see `frames.protocol`.

Memory holds the index text of each chunk, and where each item is in it; triplets and metadata are
parsed when a clip is used. Data files are opened on first use and read by position, and a limited
number stays open. Threads and forked children may share a source. It pickles as its path.
"""

import math
import operator
import os
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ..plugin import (
    AnyArray,
    Batch,
    BloscpackError,
    BytesLike,
    ByteSource,
    ClipMapping,
    ErrorsAt,
    FormatError,
    FrameSelection,
    IntArray,
    ListedFolder,
    NotFoundError,
    Piece,
    ShownClip,
    TruncatedError,
    Wanted,
    at_hand,
    check_memory,
    errors_at,
    fetch,
    frame_indices,
    image,
    map_ordered,
    not_gulp,
    read_batch,
    read_clip,
    read_only_meta,
)
from .chunk.format import LABELS_NAME, ChunkNames, check_jpeg, check_meta_nbytes
from .chunk.textindex import (
    ItemPlace,
    Triplets,
    parse_entries,
    parse_meta_data,
    parse_triplets,
    scan_index,
    unread_keys,
)
from .clipmetadata import load_labels, pack_entries
from .directory import listing_of
from .gulperrors import DirectoryError

MAX_OPEN_FILES = 64
# Number of indices of a remote directory that are fetched at once.
_REQUESTS = 8

# Enough for the header of a JPEG without large comments; if not, the whole record is read.
_HEADER_NBYTES = 1 << 12
_UINT8 = np.dtype("u1")
_CLOSED = "the Gulp directory is closed"


class GulpSource(ClipMapping["GulpClip"]):
    """The clips of a Gulp directory, in GulpIO2's order of chunks.

    Parameters
    ----------
    path : str or PathLike
        The folder, or its URL.
    storage_options : mapping, optional
        For URLs: options of fsspec's file system.

    Attributes
    ----------
    name : str
        The folder as it was given.

    Raises
    ------
    NotBloscpackError
        The folder has no pair of .gulp and .gmeta files.
    DirectoryError
        The files do not match each other, or two chunks have an item with the same id.
    FormatError, UnsupportedError
        An index is damaged or far too large.
    OSError
        The folder or a file in it cannot be read.

    Notes
    -----
    Opening a URL costs one request for the list of files and one per index. Each clip costs one
    more, as its records are contiguous. Web servers list no sizes, so there the first use of
    each data file costs another request.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | ListedFolder,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(path, ListedFolder):
            path = ListedFolder(path, storage_options)
        self._folder: ListedFolder = path
        self.name: str | None = self._folder.name
        self._chunks: list[ChunkNames] = []
        self._texts: list[str] = []
        self._first = array("q")  # ordinal of the first clip of each chunk
        self._places = array("q")  # four offsets into the text per clip
        self._ordinals: dict[str, int] = {}
        # Texts about keys of the indices that no clip has, by the id of the clip.
        self._unread: defaultdict[str, list[str]] = defaultdict(list)
        self._files: dict[int, ByteSource] = {}
        self._closed = False
        chunks = listing_of(self._folder.names, self._folder.name).chunks
        if not chunks:
            raise not_gulp(self._folder.names).at(path=self._folder.name)
        for chunk, data in zip(chunks, self._read_indices(chunks), strict=True):
            self._add(chunk, data)
        self._keys = tuple(self._ordinals)

    def _read_indices(self, chunks: Sequence[ChunkNames]) -> Iterator[bytes]:
        """Yield the indices of chunks; remote ones are fetched by several threads."""
        nthreads = _REQUESTS if self._folder.has_latency else 1
        return map_ordered(self._read_index, chunks, nthreads)

    def _read_index(self, chunk: ChunkNames) -> bytes:
        source = self._folder.open(chunk.meta)
        with closing(source), errors_at(self._folder.path(chunk.meta), self.name):
            size = source.size()
            check_meta_nbytes(size)
            return bytes(source.read_at(0, size))

    def _add(self, chunk: ChunkNames, data: bytes) -> None:
        path = self._folder.path(chunk.meta)
        with errors_at(path, self.name):
            text, places = self._scan(data, chunk.meta)
            for id_, unread in unread_keys(text, data):
                self._unread[id_].append(unread)
            self._first.append(len(self._ordinals))
            for id_, frames, meta_data in places:
                if id_ in self._ordinals:
                    # It may be this chunk, of a damaged index.
                    other = [*self._chunks, chunk][self._chunk_of(self._ordinals[id_])].meta
                    self._refuse(id_, chunk.meta, other)
                    continue
                self._ordinals[id_] = len(self._ordinals)
                self._places.extend((*frames, *meta_data))
        self._chunks.append(chunk)
        self._texts.append(text)

    def _scan(self, data: bytes, meta: str) -> tuple[str, list[ItemPlace]]:
        """Return the text of the index `meta`, and the location of its items."""
        return scan_index(data)

    def _refuse(self, id_: str, meta: str, other: str) -> None:
        """Refuse an item of the index `meta` whose id the index `other` has."""
        raise DirectoryError(f"Duplicate id detected {id_!r:.80}: {other} has it too")

    def _chunk_of(self, ordinal: int) -> int:
        return bisect_right(self._first, ordinal) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._folder.__reduce__()[1]

    @property
    def has_latency(self) -> bool:
        """Whether the folder is behind a URL."""
        return self._folder.has_latency

    @property
    def attrs(self) -> dict[str, Any]:
        """Label numbers beside the chunks, as an attribute; empty if there are none."""
        return load_labels(self._folder)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of the folder beside clips and label numbers, as short texts."""
        read = {LABELS_NAME} if self.attrs else set()
        read.update(name for chunk in self._chunks for name in (chunk.data, chunk.meta))
        others = [f"file {name!r:.80}" for name in sorted(set(self._folder.names) - read)]
        return *others, *chain.from_iterable(self._unread.values())

    def unread(self, id_: str) -> tuple[str, ...]:
        """Return short texts for what the index has about a clip, and the clip has not."""
        return tuple(self._unread.get(id_, ()))

    def _ids(self) -> Sequence[str]:
        return self._keys

    def __contains__(self, key: object) -> bool:
        """Return whether there is a clip with this id."""
        return isinstance(key, str) and key in self._ordinals

    def __getitem__(self, key: str) -> "GulpClip":
        """Return a clip, without reading any frame.

        Raises
        ------
        NotFoundError
            No clip has this id.
        """
        ordinal = self._ordinals.get(key) if isinstance(key, str) else None
        if ordinal is None:
            raise NotFoundError(f"no clip {key!r:.80}").at(path=self.name)
        return GulpClip(self, key, ordinal)

    def _read(self, clips: Sequence[Wanted], out: Any, nthreads: int | None) -> Batch:
        with at_hand(place for clip, selection in clips for place in clip.places(selection)):
            return read_batch(clips, out=out, nthreads=nthreads)

    def close(self) -> None:
        """Release the files; idempotent."""
        self._closed = True
        self._files = {}

    def texts(self, ordinal: int) -> tuple[str, str]:
        """Return the text of the triplets and the text of the metadata of a clip."""
        text = self._texts[self._chunk_of(ordinal)]
        start, end, meta_start, meta_end = self._places[4 * ordinal : 4 * ordinal + 4]
        return text[start:end], text[meta_start:meta_end]

    def meta_path(self, ordinal: int) -> str:
        """Return the path of the index that lists a clip."""
        return self._folder.path(self._chunks[self._chunk_of(ordinal)].meta)

    def data_file(self, ordinal: int) -> ByteSource:
        """Return the file that holds the frames of a clip.

        A file evicted from the cache is closed when its last reader is done.
        """
        if self._closed:
            raise ValueError(_CLOSED)
        number = self._chunk_of(ordinal)
        file = self._files.get(number)
        if file is None:
            while len(self._files) >= MAX_OPEN_FILES:
                # If another thread is evicting a file, that makes the room.
                with suppress(RuntimeError, StopIteration):
                    self._files.pop(next(iter(self._files)), None)
            file = self._folder.open(self._chunks[number].data)
            self._files[number] = file
        return file


class GulpClip(ShownClip):
    """An item of a Gulp directory; see `frames.protocol.Clip`."""

    dtype = _UINT8
    is_raw = True
    is_upright = False  # images are not turned by their EXIF data, as by GulpIO2
    decode_cost = 8.0  # of JPEG, as in `frames/store/clip.py`

    __slots__ = ("_known", "_ordinal", "_source", "id")

    def __init__(self, source: GulpSource, id_: str, ordinal: int) -> None:
        self.id = id_
        self._source = source
        self._ordinal = ordinal
        self._known: Triplets | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the directory and the id, because ordinals change with the directory."""
        return operator.getitem, (self._source, self.id)

    def _triplets(self) -> Triplets:
        if self._known is None:
            self._known = self._parse(parse_triplets, 0)
        return self._known

    def _parse(self, parse: Callable[[str], Any], which: int) -> Any:
        with ErrorsAt(self._in_index, f"clip {self.id!r:.80}"):
            return parse(self._source.texts(self._ordinal)[which])

    @property
    def meta(self) -> dict[str, Any]:
        """First entry of its metadata, as GulpIO2 returns it; read-only, parsed at each access.

        Raises
        ------
        FormatError
            The item has no metadata.
        """
        return read_only_meta(self._parse(parse_meta_data, 1))

    @property
    def meta_data(self) -> list[Any] | None:
        """All entries of its metadata, as in the file, read-only; None if that is not a list."""
        entries: list[Any] | None = self._parse(parse_entries, 1)
        return entries and read_only_meta(entries)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of its entry in the index beside frames and metadata, as short texts."""
        return self._source.unread(self.id)

    def _packed_meta(self) -> dict[str, Any]:
        """Return all entries of its metadata, as an object for a frame store."""
        return pack_entries(self.meta_data)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(T, H, W)`` or ``(T, H, W, C)``, by the first frame; ``(0,)`` without frames."""
        return len(self), *(self._probe(0).shape if len(self) else ())

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._triplets())

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Read frames into one array; see `frames.protocol.Clip`."""
        with at_hand(self.places(selection)):
            return read_clip(self, selection, out=out, nthreads=None)

    def places(self, selection: FrameSelection) -> Iterator[tuple[ByteSource, int, int]]:
        """Yield the location of each frame's record in a remote directory; nothing if local."""
        if not self._source.has_latency:
            return
        file = self._source.data_file(self._ordinal)
        for index in frame_indices(selection, len(self)).indices.tolist():
            loc, _, length = self._place(index, file.size())
            yield file, loc, length

    def read_images(self, selection: FrameSelection = None) -> list[bytes]:
        """Return frames as stored: JPEG files, without padding."""
        indices = frame_indices(selection, len(self)).indices
        images: list[bytes] = [b""] * len(indices)

        def keep(k: int, data: memoryview) -> None:
            images[k] = bytes(data)

        fetch(list(self._pieces(indices, keep)), nthreads=1, nbytes=0)
        return images

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the first of the frames, or of the first frame of the clip."""
        if not len(indices):
            return self.shape[1:]
        shape = self._probe(int(indices[0])).shape
        file = self._source.data_file(self._ordinal)
        what = f"clip {self.id!r:.80}"
        check_memory(what, indices, math.prod(shape), file, image.MAX_EXPANSION)
        return shape

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return the pieces to fetch so that ``frames[k]`` becomes the frame ``indices[k]``."""

        def decode(k: int, data: memoryview) -> None:
            self._decode(data, frames[k, ...], indices, k)

        return self._pieces(indices, decode)

    def _pieces(
        self, indices: IntArray, take: Callable[[int, memoryview], None]
    ) -> Iterator[Piece]:
        """Yield the pieces to fetch so that ``take(k, image)`` gets the frame ``indices[k]``."""
        file = self._source.data_file(self._ordinal)
        size = file.size()
        for k, index in enumerate(indices.tolist()):
            loc, pad, length = self._place(index, size)
            yield Piece(file, loc, length, partial(_without_padding, take, k, pad))

    def _place(self, index: int, size: int) -> tuple[int, int, int]:
        """Return the triplet of a frame, checked against a file of `size` bytes."""
        loc, pad, length = self._triplets()[index].tolist()
        if loc < 0:
            raise FormatError("its place is not three such integers").at(
                *self._in_index(self._label(index))
            )
        if loc + length > size:
            raise TruncatedError(
                f"its record ends at byte {loc + length}, the file has {size}", offset=loc
            ).at(*self._in_data(index))
        return loc, pad, length

    def _label(self, index: int) -> str:
        return f"clip {self.id!r:.80}, frame {index}"

    def _in_index(self, label: str) -> tuple[str, str, str | None]:
        return label, self._source.meta_path(self._ordinal), self._source.name

    def _in_data(self, index: int) -> tuple[str, str | None, str | None]:
        """Return the place of a frame, the arguments of ``err.at``."""
        return self._label(index), self._source.data_file(self._ordinal).name, self._source.name

    def _probe(self, index: int) -> image.ImageInfo:
        """Return the content of a frame's JPEG header."""
        file = self._source.data_file(self._ordinal)
        loc, pad, length = self._place(index, file.size())
        nbytes = length - pad
        with ErrorsAt(self._in_data, index):
            try:
                return _probe_jpeg(file.read_at(loc, min(nbytes, _HEADER_NBYTES)))
            except FormatError:
                if nbytes <= _HEADER_NBYTES:
                    raise
            return _probe_jpeg(file.read_at(loc, nbytes))

    def _decode(self, data: memoryview, frame: AnyArray, indices: IntArray, k: int) -> None:
        index = int(indices[k])
        try:
            check_jpeg(data)
            image.decode_into(data, frame)
        except BloscpackError as err:
            err.at(*self._in_data(index))
            raise
        except ValueError:
            raise ValueError(
                f"{self._label(index)} has shape {image.probe(data).shape}, frame "
                f"{indices[0]} has {frame.shape}: read frames that differ one by one"
            ) from None


def _probe_jpeg(data: BytesLike) -> image.ImageInfo:
    check_jpeg(data)
    return image.probe(data)


def _without_padding(
    take: Callable[[int, memoryview], None], k: int, pad: int, record: memoryview
) -> None:
    with record[: len(record) - pad] as data:
        take(k, data)
