"""A frame store: clips by id, read frame by frame, and appended to.

Opening reads the end of the file, where the index is; a read of frames fetches just their chunks.
Nothing is held open but the file, and reads are positional: threads and forked children share a
store.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, overload

import numpy as np
from xxhash import xxh3_64_digest

from ..exceptions import (
    BloscpackError,
    ChecksumMismatch,
    FormatError,
    NotFoundError,
)
from ..fetch import Piece
from ..storage.file import FileSource, open_source
from ..storage.protocol import ByteSource
from . import lossless
from .encoding import EncodedClip, Options
from .format import CHECKSUM, DIGEST_SIZE
from .front import FRONT_NBYTES, Front
from .index import Finder, Index
from .protocol import (
    AnyArray,
    FrameSelection,
    IntArray,
    Request,
    read_batch,
    read_clip,
)
from .writer import StoreWriter

# Clips that are kept, so that reading one again finds its chunks at once.
_MAX_KEPT_CLIPS = 1024


class StoreClip:
    """A clip of a frame store: frames are read when it is indexed.

    Attributes
    ----------
    id : str
        Its name.
    dtype : numpy.dtype
        Of the pixels.
    shape : tuple of int
        ``(T, *frame shape)``; of images that differ in shape, that of the first.
    codec : {"lossless", "image"}
        How the frames are kept.
    decode_cost : int
        How long a decoded byte takes, next to one of a Blosc chunk.
    """

    __slots__ = (
        "_cbytes", "_filters", "_format", "_nframes", "_offsets", "_ordinal", "_source", "_store",
        "codec", "decode_cost", "dtype", "id", "shape",
    )  # fmt: skip

    def __init__(self, store: "FrameStore", id_: str, ordinal: int) -> None:
        row = store._index.row(ordinal)
        self.id = id_
        self._store = store
        self._source = store._source
        self._ordinal = ordinal
        self._nframes = row.nframes
        self._format = row.format
        self.dtype = row.format.dtype
        self.shape = (row.nframes, *row.format.shape)
        self.codec = row.format.codec.name.lower()
        self.decode_cost = 1
        offsets, cbytes, self._filters = store._index.chunks_of(ordinal)
        self._offsets, self._cbytes = offsets.tolist(), cbytes.tolist()

    def __len__(self) -> int:
        return self._nframes

    def __repr__(self) -> str:
        return f"<clip {self.id!r:.80} shape={self.shape} dtype={self.dtype} codec={self.codec}>"

    @property
    def ndim(self) -> int:
        """Number of dimensions, that of the frames included."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes; of images that differ in shape, as if all were as the first."""
        return self._nframes * self._format.nbytes

    @property
    def cbytes(self) -> int:
        """Stored size of the frames in bytes."""
        return sum(self._cbytes)

    @property
    def meta(self) -> dict[str, Any]:
        """What was stored with the clip; parsed at each access, so that it is the caller's own.

        Raises
        ------
        FormatError
            It is damaged.
        """
        try:
            value = json.loads(self._store._index.meta(self._ordinal))
            if not isinstance(value, dict):
                raise FormatError("its metadata are no JSON object")
        except (ValueError, RecursionError) as err:
            raise self._located(err, "metadata") from err
        return value

    def __getitem__(self, selection: FrameSelection) -> AnyArray:
        """Return `read` of a selection."""
        return self.read(selection)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return all frames for numpy, new."""
        if copy is False:
            raise ValueError("a clip in a file cannot be had without a copy")
        whole = self.read()
        return whole if dtype is None else whole.astype(dtype, copy=False)

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
            `out` does not fit, the store is closed, or frames were selected that differ in shape.
        FormatError, CodecError
            A frame is damaged; the message names it.
        """
        self._store._check_open()
        return read_clip(self, selection, out=out, nthreads=self._store._nthreads)

    def read_images(self, selection: FrameSelection = None) -> list[bytes] | None:
        """Return frames as the JPEG or PNG files they are kept as; None if they are not."""
        return None

    def chunk_extents(self) -> list[tuple[int, int]]:
        """Return where each chunk is in the file: offset and size in bytes, without the digest."""
        return list(zip(self._offsets, self._cbytes, strict=True))

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the frames at `indices`, as far as known that of the first one."""
        return self.shape[1:]

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return what to fetch so that ``frames[k]`` becomes the frame ``indices[k]``."""
        if self._format.group > 1:
            return self._group_pieces(indices, frames)
        source, offsets, cbytes, decode = self._source, self._offsets, self._cbytes, self._decode
        return [
            Piece(
                source,
                offsets[index],
                cbytes[index] + DIGEST_SIZE,
                partial(decode, index, frames[place, ...]),
            )
            for place, index in enumerate(indices.tolist())
        ]

    def _group_pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Yield a piece for each chunk of several frames."""
        group = self._format.group
        chunks = indices // group
        order = np.argsort(chunks, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(chunks[order])) + 1):
            if not len(places):
                continue
            chunk = int(chunks[places[0]])
            yield Piece(
                self._source,
                self._offsets[chunk],
                self._cbytes[chunk] + DIGEST_SIZE,
                partial(self._decode_group, chunk, indices[places] - chunk * group, places, frames),
            )

    def _decode_group(
        self, chunk: int, inside: IntArray, places: IntArray, frames: AnyArray, view: memoryview
    ) -> None:
        first = chunk * self._format.group
        count = min(self._format.group, self._nframes - first)
        whole = np.empty((count, *self._format.shape), self.dtype)
        self._decode(chunk, whole, view)
        frames[places] = whole[inside]

    def _decode(self, chunk: int, out: AnyArray, view: memoryview) -> None:
        """Decode a chunk with its digest behind it into `out`."""
        stored = view[:-DIGEST_SIZE]
        try:
            if self._store._verify:
                actual = xxh3_64_digest(stored)
                if actual != view[-DIGEST_SIZE:]:
                    raise ChecksumMismatch(
                        f"{CHECKSUM} is {actual.hex()}, {view[-DIGEST_SIZE:].hex()} is stored",
                        name=CHECKSUM,
                        expected=bytes(view[-DIGEST_SIZE:]),
                        actual=actual,
                        index=chunk * self._format.group,
                        offset=self._offsets[chunk],
                    )
            if out.nbytes:
                lossless.decode(stored, self._filters[chunk], self._format, out, None)
        except BloscpackError as err:
            raise self._located(err, self._name_of(chunk)) from None

    def _name_of(self, chunk: int) -> str:
        """Return how to call a chunk in messages: by its frames, and where they are."""
        start = self._offsets[chunk]
        first = chunk * self._format.group
        last = min(first + self._format.group, self._nframes) - 1
        frames = f"frame {first}" if first == last else f"frames {first} to {last}"
        return f"{frames} (bytes {start} to {start + self._cbytes[chunk]})"

    def _located(self, err: Exception, what: str) -> BloscpackError:
        """Return an error with the clip and the file in its message."""
        if not isinstance(err, BloscpackError):
            err = FormatError(str(err))
        err.args = (f"clip {self.id!r:.80}: {what}: {err.args[0]}",)
        err.path = self._store.name
        return err


class Ids(Sequence[str]):
    """The ids of a store, in order; each is decoded when it is asked for."""

    __slots__ = ("_index", "_nclips")

    def __init__(self, index: Index) -> None:
        self._index = index
        self._nclips = index.nclips

    def __len__(self) -> int:
        return self._nclips

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return an id, or a list of some."""
        if isinstance(index, slice):
            return [self._index.id(number) for number in range(*index.indices(self._nclips))]
        number = range(self._nclips)[index]
        return self._index.id(number)

    def __iter__(self) -> Iterator[str]:
        for number in range(self._nclips):
            yield self._index.id(number)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and 0 <= self._index.find(key) < self._nclips

    def __repr__(self) -> str:
        return f"<{self._nclips} ids>"


class FrameStore:
    """Clips of frames in one file, by id.

    Made by `bloscpack.frames.open` and `bloscpack.frames.create`.

    Attributes
    ----------
    name : str or None
        The path, as it was given; None for bytes.
    mode : {"r", "a"}
        Whether clips can be appended.
    attrs : dict
        The JSON values kept with the store.

    Notes
    -----
    Reading is positional and stateless, so threads and forked children may share a store. A store
    open for reading pickles as the path of its file and what tells whether that is still the same.
    """

    def __init__(
        self,
        path: Any,
        mode: str = "r",
        *,
        verify: bool = True,
        nthreads: int | None = None,
    ) -> None:
        if mode not in ("r", "a"):
            raise ValueError(f"mode must be 'r' or 'a', not {mode!r}")
        if verify not in (True, False):
            raise ValueError(f"verify must be True or False, not {verify!r}")
        if mode == "a":
            if not isinstance(path, str | os.PathLike):
                raise TypeError(f"mode 'a' needs a path, not {type(path).__name__!r}")
            self._attach(StoreWriter.open(path), verify, nthreads)
            return
        self._start(open_source(path), None, verify, nthreads)
        try:
            self._read_index()
        except BaseException as err:
            if isinstance(err, BloscpackError):
                err.path = self.name
            self._source.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        codec: str = "lossless",
        preset: str = "fast",
        quality: int = 90,
        attrs: Mapping[str, Any] | None = None,
        nthreads: int | None = None,
        overwrite: bool = False,
    ) -> Self:
        """Make a new store, open for appending; see `bloscpack.frames.create`."""
        options = Options(codec, preset, quality).check()
        self = cls.__new__(cls)
        writer = StoreWriter.create(path, options, attrs, overwrite=overwrite)
        self._attach(writer, True, nthreads)
        return self

    def _attach(self, writer: StoreWriter, verify: bool, nthreads: int | None) -> None:
        try:
            source = FileSource(writer.path)
        except BaseException:
            writer.close()
            raise
        source.name = writer.name
        self._start(source, writer, verify, nthreads)
        self._index = writer.index
        self._front = writer.front

    def _start(
        self, source: ByteSource, writer: StoreWriter | None, verify: bool, nthreads: int | None
    ) -> None:
        self.name = source.name
        self._source = source
        self._writer = writer
        self._verify = verify
        self._nthreads = nthreads
        self._is_open = True
        self._clips: dict[str, StoreClip] = {}

    def _read_index(self, end: int | None = None) -> None:
        size = self._source.size()
        finder = Finder(self._source, size if end is None else end)
        head = finder.read_at(0, FRONT_NBYTES)
        self._front = Front(self._source, head)
        index = finder.find() if end is None else finder.find_at(end)
        if index is None:
            raise FormatError(f"index: no whole segment ends at byte {end}", offset=end)
        self._index = index

    @property
    def mode(self) -> str:
        """Whether clips can be appended: "r" or "a"."""
        return "r" if self._writer is None else "a"

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return not self._is_open

    @property
    def attrs(self) -> dict[str, Any]:
        """The JSON values kept with the store; a dict of its own.

        Raises
        ------
        FormatError
            They are damaged.
        """
        attrs = self._metadata().get("attrs")
        return json.loads(json.dumps(attrs)) if isinstance(attrs, dict) else {}

    @property
    def codec(self) -> str:
        """How arrays are kept unless `append` is told otherwise."""
        return self._options().codec

    @property
    def preset(self) -> str:
        """The preset of lossless that is used unless `append` is told otherwise."""
        return self._options().preset

    @property
    def quality(self) -> int:
        """The quality of JPEG that is used unless `append` is told otherwise."""
        return self._options().quality

    @property
    def nframes(self) -> int:
        """Number of frames of all clips."""
        return self._index.nframes

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes."""
        self._check_open()
        return self._source.size()

    def _metadata(self) -> dict[str, Any]:
        try:
            return self._front.metadata
        except BloscpackError as err:
            err.path = self.name
            raise

    def _options(self) -> Options:
        metadata = self._metadata()
        options = Options()
        try:
            return options.replace(**{name: metadata.get(name) for name in Options._fields})
        except (TypeError, ValueError) as err:
            error = FormatError(f"metadata: {err}")
            error.path = self.name
            raise error from err

    def keys(self) -> Sequence[str]:
        """Return the ids, in order: a view, which decodes each when it is asked for."""
        return Ids(self._index)

    def __len__(self) -> int:
        return self._index.nclips

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._index.find(key) >= 0

    def __getitem__(self, key: str) -> StoreClip:
        """Return a clip, of which nothing is decoded yet.

        Raises
        ------
        NotFoundError
            There is none of this id.
        FormatError
            The index is damaged.
        """
        clip = self._clips.get(key)
        if clip is not None:
            return clip
        self._check_open()
        if not isinstance(key, str):
            raise TypeError(f"an id is a str, not {type(key).__name__}")
        try:
            ordinal = self._index.find(key)
            if ordinal < 0:
                raise NotFoundError(f"there is no clip {key!r:.80} among {len(self)}")
            clip = StoreClip(self, key, ordinal)
        except BloscpackError as err:
            err.path = self.name
            raise
        if len(self._clips) >= _MAX_KEPT_CLIPS:
            self._clips = {}
        self._clips[key] = clip
        return clip

    def read(
        self,
        requests: Iterable[Request],
        *,
        out: AnyArray | Sequence[AnyArray] | None = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        """Read frames of many clips at once, sorted by place and decoded on all cores.

        Parameters
        ----------
        requests : iterable of (id, selection)
            Selections as for `StoreClip.read`.
        out : ndarray or sequence of ndarray, optional
            What would be returned; filled.
        nthreads : int, optional
            Threads that decode; as given to `open` by default.

        Returns
        -------
        ndarray or list of ndarray
            What ``store[id].read(selection)`` gives for each request: one array of shape
            ``(len(requests), ...)`` if they agree in shape and dtype, else one for each.

        Raises
        ------
        NotFoundError
            There is no clip of an id.
        IndexError, TypeError, ValueError, FormatError, CodecError
            As for `StoreClip.read`.
        """
        self._check_open()
        planned = [(self[id_], selection) for id_, selection in requests]
        return read_batch(planned, out=out, nthreads=nthreads or self._nthreads)

    def append(
        self,
        id: str,  # noqa: A002 - what it is
        frames: Any,
        meta: Mapping[str, Any] | None = None,
        *,
        codec: str | None = None,
        preset: str | None = None,
        quality: int | None = None,
    ) -> None:
        """Append a clip.

        Parameters
        ----------
        id : str
            Its name: any text that no other clip has.
        frames : array_like or iterable
            An array of shape ``(T, *frame shape)`` and any dtype without fields and Python
            objects; an iterable of frames, all of one shape and dtype, of which only some are held
            at a time; or an iterable of JPEG or PNG images (bytes), which are kept as they are.
        meta : mapping, optional
            JSON values to keep with the clip; numpy's numbers and arrays become plain ones.
        codec, preset, quality : optional
            As for `create`, for this clip.

        Raises
        ------
        TypeError, ValueError
            There is such a clip, or something does not fit; nothing was changed.
        FormatError, UnsupportedError
            An image is none; nothing was changed.
        OSError
            Writing failed; the store is as it was.
        LockedError
            The store was opened before a fork, in another process.

        Notes
        -----
        When this returns, the clip is there for everyone who opens the file, and outlives the
        process; it is durable after `flush` or `close`.
        """
        writer = self._open_writer()
        options = self._options().replace(codec=codec, preset=preset, quality=quality)
        writer.append(id, frames, meta, options, self._nthreads)

    def append_encoded(self, id: str, clip: EncodedClip) -> None:  # noqa: A002
        """Append a clip that was encoded elsewhere, by an `Encoder` of the same release.

        Raises
        ------
        TypeError, ValueError, LockedError, OSError
            As by `append`.
        """
        self._open_writer().append_encoded(id, clip)

    def flush(self) -> None:
        """Make everything durable that was appended, and the index short."""
        self._open_writer().flush()

    def refresh(self) -> None:
        """See the clips that were appended since the store was opened.

        Raises
        ------
        FileChangedError
            The file is another one: open it anew.
        OSError
            It is gone.
        """
        self._check_open()

    def close(self) -> None:
        """Close the store, with all that was appended made durable; idempotent."""
        is_open, self._is_open = self._is_open, False
        try:
            if self._writer is not None and is_open:
                self._writer.close()
        finally:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        # A clip is appended as a whole or not at all: those that are there stay.
        self.close()

    def __repr__(self) -> str:
        state = "" if self._is_open else " (closed)"
        return f"<bloscpack.frames.FrameStore {self.name!r} of {len(self)} clips{state}>"

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("I/O operation on a closed frame store")

    def _open_writer(self) -> StoreWriter:
        self._check_open()
        if self._writer is None:
            raise ValueError("the store is open for reading; open it with mode 'a' to append")
        return self._writer
