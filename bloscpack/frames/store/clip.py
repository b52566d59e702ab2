"""A clip of a frame store: finds the stored bytes of its frames and decodes them.

Each frame is fetched by itself, except in two cases. Small frames share a chunk. Where frames refer
to earlier ones, the referenced frames are fetched and decoded, too, once per group of eight.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from xxhash import xxh3_64_digest

from ...exceptions import BloscpackError, ChecksumMismatch, FormatError
from ...format.codec import CHUNK_HEADER_SIZE, ChunkHeader
from ...media import image
from ...parallel.scratch import Scratch
from ...storage.batch import Piece, fetch
from ...storage.protocol import ByteSource, ErrorsAt
from ...types import AnyArray, BytesLike, IntArray
from ..protocol import FrameSelection, frame_indices, read_clip, read_only_meta
from ..shownclip import ShownClip
from .format import CHECKSUM, DIGEST_SIZE, Codec
from .index import Index
from .lossless import (
    GROUP_FRAMES,
    PACKED_EXPANSION,
    TIME,
    Filter,
    Geometry,
    decode_chunk,
    is_aligned,
    is_packed,
    reference_of,
)

# Cost of a decoded byte relative to LZ4 with image filters, which takes 0.25 to 0.28 ns; scales the
# number of threads. Measured by bench/threads.py on 320 x 240 RGB frames: Zstandard with image
# filters 0.8 ns, JPEG 1.8 to 2.1, a copy of raw frames 0.05, array chunks 0.33. Video takes 3 to
# 15, depending on how many frames of a group are read.
_COSTS = {Codec.LOSSLESS: 1.0, Codec.IMAGE: 8.0, Codec.RAW: 0.2, Codec.VIDEO: 16.0}
_ZSTD_COST = 3.0
_PREDICTORS, _BITS = int(Filter.UP | Filter.LEFT | Filter.TIME), int(Filter.BITS)
# Reads up to this size, or up to this multiple of the stored size, are always allowed. For larger
# ones the chunk headers must confirm the size in the index before memory is allocated.
_FREE_NBYTES = 64 << 20
_FREE_EXPANSION = 16

Take = Callable[[int, memoryview], None]


class Store(Protocol):
    """The parts of a store that a clip needs."""

    name: str | None
    verify: bool
    nthreads: int | None
    exact: bool

    def _check_open(self) -> None:
        """Raise if the store is closed."""

    def _set_meta(self, id: str, ordinal: int, meta: Mapping[str, Any]) -> int:  # noqa: A002
        """Replace the metadata of a clip, and return its new ordinal."""


class StoreClip(ShownClip):
    """A clip of a frame store: frames are read when it is indexed.

    Attributes
    ----------
    id : str
        Name of the clip.
    dtype : numpy.dtype
        Data type of the pixels.
    shape : tuple of int
        ``(T, *frame shape)``; if images differ in shape, the shape of the first.
    codec : {"lossless", "image", "raw", "video"}
        How the frames are stored.
    decode_cost : float
        Cost of a decoded byte relative to Blosc; scales the number of threads.
    """

    __slots__ = (
        "_cbytes", "_filters", "_format", "_frame_nbytes", "_geometry", "_has_time", "_index",
        "_is_simple", "_nframes", "_offsets", "_ordinal", "_shapes", "_source", "_store", "codec",
        "decode_cost", "dtype", "id", "shape",
    )  # fmt: skip

    def __init__(
        self, store: Store, source: ByteSource, index: Index, id_: str, ordinal: int
    ) -> None:
        row = index.row(ordinal)
        self.id = id_
        self._store = store
        self._source = source
        self._index = index
        self._ordinal = ordinal
        self._nframes = row.nframes
        self._format = row.format
        self._frame_nbytes = row.format.nbytes
        self.dtype = row.format.dtype
        self.shape: tuple[int, ...] = (row.nframes, *row.format.shape)
        self.codec = row.format.codec.name.lower()
        chunks = index.chunks_of(ordinal)
        self._offsets, self._cbytes = chunks.offsets.tolist(), chunks.cbytes.tolist()
        self._filters = chunks.filters
        self.decode_cost = _cost_of(row.format.codec, chunks.filters)
        is_lossless = row.format.codec == Codec.LOSSLESS
        self._has_time = is_lossless and any(map(TIME.__and__, self._filters))
        self._geometry: Geometry | None = None
        if is_lossless and self._frame_nbytes:
            self._geometry = Geometry.of(row.format.shape, self.dtype.itemsize)
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._is_simple = (
            (self._geometry is not None or row.format.codec == Codec.IMAGE)
            and not row.format.varies
            and row.format.group == 1
            and not self._has_time
            and 0 < self._frame_nbytes <= _FREE_NBYTES
        )

    def __len__(self) -> int:
        return self._nframes

    def __repr__(self) -> str:
        return f"<clip {self.id!r:.80} shape={self.shape} dtype={self.dtype} codec={self.codec}>"

    @property
    def cbytes(self) -> int:
        """Stored size of the frames in bytes."""
        return sum(self._cbytes)

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata of the clip, parsed at each access.

        Assign a mapping to replace them, if the store is open for appending; see the notes of
        `FrameStore.replace`. The value itself is read-only.

        Raises
        ------
        FormatError
            The metadata are damaged.
        """
        where = f"clip {self.id!r:.80}: metadata", self._store.name
        try:
            value = json.loads(self._meta_text())
        except BloscpackError as err:
            err.at(*where)
            raise
        except (ValueError, RecursionError) as err:
            raise FormatError(f"not JSON: {err}").at(*where) from err
        if not isinstance(value, dict):
            raise FormatError("it is not a JSON object").at(*where)
        return read_only_meta(value)

    @meta.setter
    def meta(self, value: Mapping[str, Any]) -> None:
        self._ordinal = self._store._set_meta(self.id, self._ordinal, value)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return (): frames have no more than their pixels, apart from images as bytes."""
        return ()

    @property
    def is_raw(self) -> bool:
        """Return True: frames have the values that are stored."""
        return True

    @property
    def is_upright(self) -> bool:
        """Return True: images are turned by their EXIF data."""
        return True

    def _meta_text(self) -> bytes:
        return self._index.meta(self._ordinal)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return all frames in a new numpy array; with ``copy=False``, a view as of `read`.

        Raises
        ------
        ValueError
            `copy` is False, but the frames cannot be returned without copying them.
        """
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(
                f"cannot return frames of {self.dtype} as {np.dtype(dtype)} without copying them "
                "(copy=False)"
            )
        whole = self.read(copy=copy is not False)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def read(
        self,
        selection: FrameSelection = None,
        *,
        out: AnyArray | None = None,
        reduce: int = 1,
        copy: bool = True,
    ) -> AnyArray:
        """Read frames into one array of shape ``(n, *frame shape)``; an int gives ``frame shape``.

        Parameters
        ----------
        selection : int, slice, sequence of int, ndarray of int or bool, optional
            Frames to read, in this order; all by default.
        out : ndarray, optional
            Array of exactly the resulting shape and dtype; filled and returned.
        reduce : {1, 2, 4, 8}, default 1
            Divide height and width by this, rounding up, while decoding, which is faster than
            resizing afterwards. For clips of JPEG only, and not together with `out`.
        copy : bool, default True
            If False, return a read-only view of the stored frames. They must be raw, adjacent and
            in order, in a local file or in memory. Their digests are compared first, unless the
            store was opened with ``verify=False``.

        Raises
        ------
        IndexError, TypeError
            A frame is out of range, or the selection is invalid.
        ValueError
            `out` does not fit, the store is closed, the frames differ in shape, or `reduce` or
            ``copy=False`` is not possible for this clip.
        FormatError, CodecError
            A frame is damaged; the message names it.

        Notes
        -----
        Raw frames are compared with their digests when they are first read, not at each read. A
        view (``copy=False``) is a memory map of the file: it stays valid when the store is closed,
        appended to or replaced by another file. Our writers never cut a file inside a clip. If
        another program does so, access to a view of bytes that are gone ends the process (SIGBUS);
        reads that copy raise TruncatedError.
        """
        self._store._check_open()
        if not copy:
            return self._view(selection, out, reduce)
        if reduce != 1:
            return self._read_reduced(selection, out, reduce)
        if type(selection) is int and out is None and self._is_simple:
            frame = self._read_one(selection)
            if frame is not None:
                return frame
        return read_clip(self, selection, out=out, nthreads=self._store.nthreads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the place and state of the store, and the id."""
        return operator.getitem, (self._store, self.id)

    def _read_one(self, index: int) -> AnyArray | None:
        """Read a frame that has a chunk to itself; return None in any other case.

        Single small reads are the common case and must not pay for what batches need.
        """
        if index < 0:
            index += self._nframes
        source = self._source
        if not 0 <= index < self._nframes or source.has_latency:
            return None
        nbytes = self._cbytes[index] + DIGEST_SIZE
        frame: AnyArray = np.empty(self._format.shape, self.dtype)
        with Scratch(nbytes) as view:
            if source.read_into(self._offsets[index], view) < nbytes:
                return None  # `fetch` raises the error, with its place
            stored = self._checked(index, view)
            if self._geometry is None:
                self._decode_image(index, frame, stored)
            else:
                self._decode(index, stored, None, frame.reshape(-1).view("u1").data)
        return frame

    def _view(self, selection: FrameSelection, out: AnyArray | None, reduce: int) -> AnyArray:
        """Return frames without copying them."""
        raise ValueError(
            f"clip {self.id!r:.80}: copy=False needs raw frames; these are {self.codec} and must "
            "be decoded"
        )

    def _read_reduced(
        self, selection: FrameSelection, out: AnyArray | None, reduce: int
    ) -> AnyArray:
        if reduce not in (2, 4, 8):
            raise ValueError(f"reduce must be 1, 2, 4 or 8, not {reduce!r}")
        if self._format.codec != Codec.IMAGE or out is not None:
            raise ValueError("reduce needs frames stored as JPEG, and cannot be used with out")
        indices, is_single = frame_indices(selection, self._nframes)
        height, width, *rest = (*self.frame_shape(indices), 0, 0)[: max(2, len(self.shape) - 1)]
        shape = (-(-height // reduce), -(-width // reduce), *rest)
        frames = np.empty((len(indices), *shape), self.dtype)
        is_fast = not self._store.exact

        def decode(place: int, stored: memoryview) -> None:
            with ErrorsAt(self._where, int(indices[place])):
                frames[place] = image.decode(stored, fast=is_fast, reduce=reduce, upright=True)

        work = self.decode_cost * frames.nbytes
        fetch(self._chunks(indices, decode), nthreads=self._store.nthreads, nbytes=work)
        return frames[0] if is_single else frames

    def read_images(self, selection: FrameSelection = None) -> list[bytes] | None:
        """Return frames as JPEG or PNG files, if that is how they are stored; otherwise None.

        Raises
        ------
        IndexError, TypeError
            A frame is out of range, or the selection is invalid.
        FormatError
            A frame is damaged; the message names it.
        """
        self._store._check_open()
        if self._format.codec != Codec.IMAGE:
            return None
        indices = frame_indices(selection, self._nframes).indices
        images: list[bytes] = [b""] * len(indices)

        def keep(place: int, stored: memoryview) -> None:
            images[place] = bytes(stored)

        fetch(self._chunks(indices, keep), nthreads=1, nbytes=0)
        return images

    def chunk_extents(self) -> list[tuple[int, int]]:
        """Return the offset and size in bytes of each chunk in the file, without its digest."""
        return list(zip(self._offsets, self._cbytes, strict=True))

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the frames at `indices`; of no frames, the shape of the first.

        Raises
        ------
        ValueError
            They differ.
        FormatError
            The size is more than the stored bytes can decode to.
        """
        if self._format.varies and len(indices):
            return self._common_shape(indices.tolist())
        nbytes = len(indices) * self._frame_nbytes
        if nbytes > _FREE_NBYTES:
            self._check_size(indices, nbytes)
        return self.shape[1:]

    def _check_size(self, indices: IntArray, nbytes: int) -> None:
        """Refuse to decode more than the chunks can hold, before memory is allocated for it."""
        chunks = np.unique(indices // self._format.group).tolist()
        stored = sum(self._cbytes[chunk] for chunk in chunks)
        repeats = max(1, len(indices) // (len(chunks) * self._format.group))
        if self._format.codec == Codec.IMAGE:
            fits = nbytes <= _FREE_NBYTES + repeats * image.MAX_EXPANSION * stored
        else:
            fits = nbytes <= repeats * _FREE_EXPANSION * stored or all(
                self._promised_nbytes(chunk) == self._chunk_nbytes(chunk) for chunk in chunks
            )
        if not fits:
            message = f"its frames: {stored} stored bytes cannot hold {nbytes}"
            raise FormatError(message).at(f"clip {self.id!r:.80}", self._store.name)

    def _promised_nbytes(self, chunk: int) -> int:
        """Return the decoded size that the chunk header allows, limited by the stored size."""
        head = self._source.read_at(self._offsets[chunk], CHUNK_HEADER_SIZE)
        with ErrorsAt(self._where, chunk * self._format.group):
            header = ChunkHeader.unpack(head)
        if header.cbytes != self._cbytes[chunk]:
            return -1
        nbytes = self._chunk_nbytes(chunk)
        if is_packed(self._filters[chunk]) and nbytes <= PACKED_EXPANSION * header.nbytes:
            return nbytes
        return header.nbytes

    def _chunk_nbytes(self, chunk: int) -> int:
        first = chunk * self._format.group
        return min(self._format.group, self._nframes - first) * self._frame_nbytes

    def _common_shape(self, indices: list[int]) -> tuple[int, ...]:
        """Return the shape of the images, which must all be equal."""
        missing = [index for index in dict.fromkeys(indices) if index not in self._shapes]

        def note(place: int, stored: memoryview) -> None:
            with ErrorsAt(self._where, missing[place]):
                self._shapes[missing[place]] = image.probe(stored, upright=True).shape

        fetch(self._chunks(np.array(missing, np.int64), note), nthreads=1, nbytes=0)
        shape = self._shapes[indices[0]]
        for index in indices:
            if self._shapes[index] != shape:
                raise ValueError(
                    f"clip {self.id!r:.80}: frame {indices[0]} is of shape {shape}, frame {index} "
                    f"of {self._shapes[index]}: read frames that differ one by one"
                )
        return shape

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return the pieces to fetch so that ``frames[k]`` becomes the frame ``indices[k]``."""
        if not frames.nbytes:
            return ()
        if self._format.codec == Codec.IMAGE:
            return self._chunks(indices, partial(self._decode_images, indices.tolist(), frames))
        if not is_aligned(frames):
            return self._unaligned_pieces(indices, frames)
        if self._format.group > 1:
            return self._shared_pieces(indices, frames)
        out = frames.reshape(-1).view(np.uint8).data
        if self._has_time:
            return self._timed_pieces(indices.tolist(), out)
        return self._chunks(indices, partial(self._decode_frame, indices.tolist(), out))

    def _chunks(self, indices: IntArray, take: Take) -> list[Piece]:
        """Return the pieces to fetch so that ``take(k, stored)`` gets the chunk ``indices[k]``."""
        source, offsets, cbytes, check = self._source, self._offsets, self._cbytes, self._check
        return [
            Piece(
                source,
                offsets[index],
                cbytes[index] + DIGEST_SIZE,
                partial(check, index, partial(take, place)),
            )
            for place, index in enumerate(indices.tolist())
        ]

    def _mismatch(self, chunk: int, digest: bytes, actual: bytes) -> ChecksumMismatch:
        """Return the error of a chunk that differs from its digest."""
        first = self._first_frame(chunk)
        return ChecksumMismatch(
            f"{CHECKSUM} is {actual.hex()}, {digest.hex()} is stored",
            name=CHECKSUM,
            expected=digest,
            actual=actual,
            index=first,
            offset=self._offsets[chunk],
        ).at(*self._where(first))

    def _check(self, chunk: int, take: Callable[[memoryview], None], view: memoryview) -> None:
        """Compare the digest of a chunk, and pass the chunk to `take`."""
        take(self._checked(chunk, view))

    def _checked(self, chunk: int, view: memoryview) -> memoryview:
        """Return a chunk without the digest that follows it, after comparing that."""
        stored = view[:-DIGEST_SIZE]
        if self._store.verify:
            digest = view[-DIGEST_SIZE:]
            actual = xxh3_64_digest(stored)
            if actual != digest:
                raise self._mismatch(chunk, bytes(digest), actual)
        return stored

    def _decode_frame(
        self, indices: list[int], out: memoryview, place: int, stored: memoryview
    ) -> None:
        start = place * self._frame_nbytes
        self._decode(indices[place], stored, None, out[start : start + self._frame_nbytes])

    def _decode(
        self, chunk: int, stored: BytesLike, reference: BytesLike | None, out: memoryview
    ) -> None:
        if self._geometry is None:
            raise ValueError("frames of zero bytes are not decoded")
        try:
            decode_chunk(stored, self._filters[chunk], self._geometry, reference, out)
        except BloscpackError as err:
            err.at(*self._where(chunk))
            raise

    def _decode_images(
        self, indices: list[int], frames: AnyArray, place: int, stored: memoryview
    ) -> None:
        self._decode_image(indices[place], frames[place, ...], stored)

    def _decode_image(self, index: int, frame: AnyArray, stored: memoryview) -> None:
        try:
            image.decode_into(stored, frame, fast=not self._store.exact, upright=True)
        except BloscpackError as err:
            err.at(*self._where(index))
            raise
        except ValueError as err:  # the shape is not the one in the index
            raise FormatError(str(err)).at(*self._where(index)) from None

    def _unaligned_pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Yield pieces for an array with unaligned items, by decoding to memory that is aligned."""
        for place in range(len(indices)):
            frame = np.empty((1, *frames.shape[1:]), frames.dtype)
            for piece in self.pieces(indices[place : place + 1], frame):
                yield piece._replace(
                    decode=partial(_copy_after, piece.decode, frame, frames, place)
                )

    def _shared_pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Yield one piece per chunk of several small frames."""
        group = self._format.group
        for chunk, places in by_chunk(indices // group):
            take = partial(self._decode_shared, chunk, indices[places] % group, places, frames)
            yield self._piece(chunk, take)

    def _piece(self, chunk: int, take: Callable[..., None]) -> Piece:
        """Return the piece to fetch so that ``take(stored)`` gets the checked bytes of a chunk."""
        return Piece(
            self._source,
            self._offsets[chunk],
            self._cbytes[chunk] + DIGEST_SIZE,
            partial(self._check, chunk, take),
        )

    def _decode_shared(
        self, chunk: int, inside: IntArray, places: IntArray, frames: AnyArray, stored: memoryview
    ) -> None:
        nbytes = self._chunk_nbytes(chunk)
        whole = np.empty((nbytes // self._frame_nbytes, *self._format.shape), self.dtype)
        geometry = Geometry.of(whole.shape, self.dtype.itemsize)
        out = whole.reshape(-1).view(np.uint8).data
        with ErrorsAt(self._where, chunk * self._format.group):
            decode_chunk(stored, self._filters[chunk], geometry, None, out)
        frames[places] = whole[inside]

    def _timed_pieces(self, indices: list[int], out: memoryview) -> Iterator[Piece]:
        """Yield one piece per group of frames that refer to each other."""
        groups: dict[int, dict[int, list[int]]] = {}
        for place, index in enumerate(indices):
            groups.setdefault(index // GROUP_FRAMES, {}).setdefault(index, []).append(place)
        for wanted in groups.values():
            needed = sorted({each for index in wanted for each in self._references(index)})
            first, last = needed[0], needed[-1]
            start = self._offsets[first]
            stop = self._offsets[last] + self._cbytes[last] + DIGEST_SIZE
            decode = partial(self._decode_timed, needed, wanted, out)
            yield Piece(self._source, start, stop - start, decode)

    def _references(self, index: int) -> Iterator[int]:
        """Yield a frame and the frames it refers to."""
        yield index
        while self._filters[index] & TIME:
            inside = index % GROUP_FRAMES
            if not inside:
                message = "it refers to an earlier frame, which its group does not allow"
                raise FormatError(message).at(*self._where(index))
            index += reference_of(inside, self._filters[index]) - inside
            yield index

    def _decode_timed(
        self, needed: list[int], wanted: dict[int, list[int]], out: memoryview, view: memoryview
    ) -> None:
        start, nbytes = self._offsets[needed[0]], self._frame_nbytes
        done: dict[int, memoryview] = {}
        for index in needed:
            places = wanted.get(index, ())
            target = out[places[0] * nbytes :][:nbytes] if places else memoryview(bytearray(nbytes))
            inside = index % GROUP_FRAMES
            reference = None
            filters = self._filters[index]
            if filters & TIME:
                reference = done[index + reference_of(inside, filters) - inside]
            at = self._offsets[index] - start
            part = view[at : at + self._cbytes[index] + DIGEST_SIZE]
            decode = partial(self._decode, index, reference=reference, out=target)
            self._check(index, decode, part)
            done[index] = target
            for place in places[1:]:
                out[place * nbytes : (place + 1) * nbytes] = target

    def _first_frame(self, chunk: int) -> int:
        return chunk * self._format.group

    def _chunk_of(self, index: int) -> tuple[int, int, int]:
        """Return the chunk of a frame, and the first and last frame in it."""
        group = self._format.group
        chunk = index // group
        return chunk, chunk * group, min(chunk * group + group, self._nframes) - 1

    def _where(self, index: int) -> tuple[str, str | None]:
        """Return the place of a frame, the arguments of ``err.at``."""
        return self._label(index), self._store.name

    def _label(self, index: int) -> str:
        """Return a label for messages: the clip, the frames in the chunk and its location."""
        chunk, first, last = self._chunk_of(index)
        frames = f"frame {first}" if first == last else f"frames {first} to {last}"
        start = self._offsets[chunk]
        place = f"{frames} (bytes {start} to {start + self._cbytes[chunk]})"
        return f"clip {self.id!r:.80}: {place}"


def by_chunk(chunks: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each chunk in `chunks`, which has one per frame, and the places where it stands."""
    order = np.argsort(chunks, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(chunks[order])) + 1):
        yield int(chunks[places[0]]), places


def _cost_of(codec: Codec, filters: bytes) -> float:
    """Return the cost of a decoded byte of a clip, by its codec and the filters of its chunks."""
    cost = _COSTS[codec]
    if codec != Codec.LOSSLESS or not filters:
        return cost
    # Chunks of a clip are mostly alike. Residuals are compressed by LZ4 as bit planes, otherwise by
    # Zstandard; without a predictor, either may be used.
    middle = filters[len(filters) // 2]
    return _ZSTD_COST if middle & _PREDICTORS and not middle & _BITS else cost


def _copy_after(
    decode: Callable[[memoryview], None],
    frame: AnyArray,
    frames: AnyArray,
    place: int,
    view: memoryview,
) -> None:
    decode(view)
    frames[place, ...] = frame[0, ...]
