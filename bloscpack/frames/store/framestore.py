"""A frame store: clips by id, read frame by frame, and appended to.

Opening a store reads the index at the end of the file; reading frames fetches only their chunks.
Only the file is kept open, and all reads are positional, so threads and forked children can share
a store.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO, Self, Unpack

from xxhash import xxh3_128_digest

from ...array.attrs import read_only
from ...exceptions import (
    FileChangedError,
    FormatError,
    NotFoundError,
    UnsupportedError,
)
from ...keywords import explain_keywords
from ...notice import notice, warn_unclosed
from ...storage.file import open_source
from ...storage.protocol import ByteSource, ErrorsAt, closed_on_error, errors_at
from ...storage.sink import upload_for
from ...storage.url import refuse_flush, refuse_url
from ...types import (
    FRAME_DEFAULTS,
    BytesLike,
    FrameOptions,
    FramePreset,
    IntArray,
    Mode,
    Path,
    VideoEncoder,
)
from ..protocol import Batch, Clip, ClipMapping, Wanted, read_batch
from .clip import StoreClip
from .frameencoding import ALL_KEPT, DEFAULT, EncodedClip, EncodedVideo, Kept, Options, recoded
from .front import FRONT_NBYTES, Front
from .index import Finder, Index
from .openclip import as_video, frames_of, is_clip, meta_of, open_clip
from .summary import Summary, VideoSummary, summarize, summarize_video
from .writer import StoreWriter

if TYPE_CHECKING:
    from ...storage.remote.upload import Upload

ATTRS_ADVICE = (
    "attrs of a frame store are set in bloscpack.frames.create; copy.deepcopy(attrs) returns "
    "a copy that can be changed"
)
# Number of clips in the cache; reading a cached clip again does not look up its chunks.
_MAX_KEPT_CLIPS = 1024
# Codec that each option of `append` belongs to.
_CODEC_OF = {
    "quality": "jpeg",
    "subsampling": "jpeg",
    "crf": "video",
    "gop": "video",
    "encoder": "video",
}


class Ids(Sequence[str]):
    """Ids of a store, in order; each is decoded on access."""

    __slots__ = ("_index", "_ordinals", "_total")

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ordinals, self._total = index.ordinals, index.total

    def __len__(self) -> int:
        return len(self._ordinals)

    def __getitem__(self, index: Any) -> Any:
        """Return an id, or a list of ids."""
        if isinstance(index, slice):
            return [self._index.id(ordinal) for ordinal in self._ordinals[index]]
        return self._index.id(self._ordinals[index])

    def __iter__(self) -> Iterator[str]:
        for ordinal in self._ordinals:
            yield self._index.id(ordinal)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and 0 <= self._index.find(key) < self._total


class FrameStore(ClipMapping[StoreClip]):
    """Clips of frames in one file, by id.

    Returned by `bloscpack.frames.open` and `bloscpack.frames.create`.

    Attributes
    ----------
    name : str or None
        The path as it was given; None for bytes.
    mode : {"r", "a"}
        Whether clips can be appended, replaced and removed.
    attrs : dict
        JSON values stored with the store.
    verify : bool
        Whether the checksum of each chunk is compared when it is read.
    nthreads : int or None
        Default number of threads for encoding and decoding.
    exact : bool
        Whether JPEG images are decoded by the exact transform, not by the fast one.

    Notes
    -----
    Reading is positional and stateless, so threads and forked children may share a store. A store
    open for reading pickles as the path of its file and an identity, to detect a replaced file.
    """

    @explain_keywords()
    def __init__(
        self,
        path: Any,
        mode: Mode = "r",
        *,
        verify: bool = True,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
        exact: bool = False,
    ) -> None:
        if mode not in ("r", "a"):
            raise ValueError(
                f"mode must be 'r' or 'a', not {mode!r}: 'a' appends clips; "
                "bloscpack.frames.create makes a new store"
            )
        if mode == "a":
            refuse_url(path, "appended to", storage_options)
            if not isinstance(path, str | os.PathLike):
                raise TypeError(f"mode 'a' needs a path, not {type(path).__name__!r}")
            self._attach(StoreWriter.open(path, locking=locking), verify, nthreads)
        else:
            self._read_index(open_source(path, storage_options), None, verify, nthreads)
        self.exact = exact

    @classmethod
    @explain_keywords(FRAME_DEFAULTS)
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        attrs: Mapping[str, Any] | None = None,
        nthreads: int | None = None,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
        **options: Unpack[FrameOptions],
    ) -> Self:
        """Create a store and open it for appending; see `bloscpack.frames.create`."""
        encoding = Options(**{**FRAME_DEFAULTS, **options}).check()
        upload = upload_for(path, storage_options, overwrite=overwrite)
        self = cls.__new__(cls)
        try:
            if upload is not None:
                upload.check_absent()
                path = upload.path
            writer = StoreWriter.create(path, encoding, attrs, overwrite=overwrite, locking=locking)
        except BaseException:
            if upload is not None:
                upload.discard()
            raise
        self._attach(writer, True, nthreads)
        if upload is not None:
            self._upload, self.name = upload, upload.name
        return self

    def _attach(self, writer: StoreWriter, verify: bool, nthreads: int | None) -> None:
        self._start(writer.source, writer, verify, nthreads)
        self._index, self._front = writer.index, writer.front

    def _start(
        self, source: ByteSource, writer: StoreWriter | None, verify: bool, nthreads: int | None
    ) -> None:
        self.name = source.name
        self._source = source
        self._writer = writer
        self.verify = verify
        self.nthreads = nthreads
        self.exact = False
        self._is_open = True
        self._upload: Upload | None = None
        self._clips: dict[str, StoreClip] = {}

    @classmethod
    def _of(cls, writer: StoreWriter) -> Self:
        """Return a store that is appended to by a writer."""
        self = cls.__new__(cls)
        self._attach(writer, True, None)
        return self

    @classmethod
    def _over(
        cls,
        source: ByteSource,
        state: tuple[int, bytes] | None = None,
        *,
        verify: bool = True,
        nthreads: int | None = None,
        exact: bool = False,
    ) -> Self:
        """Return a store that reads from `source` and takes ownership of it.

        The source is closed if it is not a frame store. `state` is the `_state` of another handle;
        clips appended after it are not visible, and FileChangedError is raised if it is of another
        file.
        """
        self = cls.__new__(cls)
        self._read_index(source, state, verify, nthreads)
        self.exact = exact
        return self

    def _read_index(
        self,
        source: ByteSource,
        state: tuple[int, bytes] | None,
        verify: bool,
        nthreads: int | None,
    ) -> None:
        self._start(source, None, verify, nthreads)
        with closed_on_error(source, self.name):
            if state is not None:
                self._front, self._index = _as_of(source, *state)
                if source.size() > self._index.end:
                    self._check_kept()
                return
            finder = Finder(source, source.size())
            self._front = Front(source, finder.read_at(0, FRONT_NBYTES))
            self._index = finder.find()

    def _check_kept(self) -> None:
        """Raise FileChangedError if the file may have lost clips that this state of it has."""
        if Finder(self._source, self._source.size()).find().dead > self._index.dead:
            raise FileChangedError(
                "clips were removed since the file was opened; call refresh, or open it again"
            ).at(path=self.name)

    @property
    def _state(self) -> tuple[int, bytes]:
        """Identity of this state of the file: the end of its index, and a digest."""
        return self._index.end, _identity_of(self._source, self._front, self._index)

    @property
    def mode(self) -> str:
        """Mode of the store: "r" for reading, "a" for appending."""
        return "r" if self._writer is None else "a"

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return not self._is_open

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values stored by `create`; read-only.

        Raises
        ------
        FormatError
            The metadata of the file are damaged.
        """
        attrs = self._metadata().get("attrs")
        return read_only(attrs if isinstance(attrs, dict) else {}, ATTRS_ADVICE)

    @property
    def codec(self) -> str:
        """Codec of arrays, unless `append` is called with another."""
        return self._options().codec

    @property
    def preset(self) -> str:
        """Preset of lossless encoding, unless `append` is called with another."""
        return self._options().preset

    @property
    def quality(self) -> int:
        """JPEG quality, unless `append` is called with another."""
        return self._options().quality

    @property
    def subsampling(self) -> str:
        """Chroma of JPEG, "444", "422" or "420", unless `append` is called with another."""
        return self._options().subsampling

    @property
    def crf(self) -> float:
        """Quality of video, the best is 0, unless `append` is called with another."""
        return self._options().crf

    @property
    def gop(self) -> int:
        """Frames per group of video, unless `append` is called with another number."""
        return self._options().gop

    @property
    def encoder(self) -> str:
        """Encoder of video, unless `append` is called with another."""
        return self._options().encoder

    @property
    def nframes(self) -> int:
        """Number of frames in all clips."""
        return self._index.nframes

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes."""
        self._check_open()
        return self._source.size()

    def _id_hashes(self) -> IntArray:
        """Return the hash of each id, as uint64, unordered."""
        return self._index.hashes()

    def _ids_with(self, hash_: int) -> list[str]:
        """Return the ids with this hash, nearly always one."""
        return self._index.ids_with(hash_)

    def summary(self) -> Summary:
        """Count clips, frames and chunks, by frame format."""
        return summarize(self._index)

    def _video_summary(self) -> VideoSummary | None:
        """Return what the first clips of video have in common, for ``blpk info``."""
        with errors_at(self.name):
            return summarize_video(self._index)

    def _metadata(self) -> dict[str, Any]:
        with errors_at(self.name):
            return self._front.metadata

    def _options(self) -> Options:
        metadata = self._metadata()
        try:
            return DEFAULT.replace(**{name: metadata.get(name) for name in Options._fields})
        except (TypeError, ValueError) as err:
            raise FormatError(f"metadata: {err}").at(path=self.name) from err

    def _ids(self) -> "Ids":
        return Ids(self._index)

    def __len__(self) -> int:
        return self._index.nclips

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._index.find(key) >= 0

    def __getitem__(self, key: str) -> StoreClip:
        """Return a clip, without decoding any frame.

        Raises
        ------
        NotFoundError
            No clip has this id.
        FormatError
            The index is damaged.
        """
        clip = self._clips.get(key)
        if clip is not None:
            return clip
        self._check_open()
        if not isinstance(key, str):
            raise TypeError(f"an id must be a str, not {type(key).__name__}")
        with ErrorsAt(lambda: ("", self.name)):
            ordinal = self._index.find(key)
            if ordinal < 0:
                raise NotFoundError(f"no clip {key!r:.80} among {len(self)}")
            clip = open_clip(self, self._source, self._index, key, ordinal)
        if len(self._clips) >= _MAX_KEPT_CLIPS:
            self._clips = {}
        self._clips[key] = clip
        return clip

    def _read(self, clips: Sequence[Wanted], out: Any, nthreads: int | None) -> Batch:
        self._check_open()
        nthreads = self.nthreads if nthreads is None else nthreads
        return read_batch(clips, out=out, nthreads=nthreads)

    @explain_keywords()
    def append(
        self,
        id: str,  # noqa: A002 - the natural name
        frames: Any,
        meta: Mapping[str, Any] | None = None,
        **options: Unpack[FrameOptions],
    ) -> None:
        """Append a clip.

        Parameters
        ----------
        id : str
            Name of the clip: any text that no other clip has.
        frames : array_like or iterable
            An array of shape ``(T, *frame shape)`` and any dtype without fields and Python objects;
            an iterable of frames of one shape and dtype, of which only some are in memory at a
            time; or an iterable of JPEG or PNG images (bytes), which are stored unchanged. Or a
            clip of any source: its metadata are copied, and its JPEG and PNG images or packets of
            video are stored unchanged, unless an option of their encoding is given.
        meta : mapping, optional
            JSON values to store with the clip; numpy numbers and arrays become plain values. They
            replace entries of the same name of a clip that is copied.
        codec, preset, quality, subsampling, crf, gop, encoder : optional
            As in `create`, for this clip only. Video takes its rate from ``meta["fps"]``, or 25.

        Raises
        ------
        TypeError, ValueError
            The id is taken, or an argument is invalid; nothing was changed.
        FormatError, UnsupportedError
            An image is invalid; nothing was changed.
        OSError
            Writing failed; the store is unchanged.
        LockedError
            The store was opened by another process, before a fork.

        Notes
        -----
        When this returns, every process that opens the file sees the clip, and it survives a crash
        of this process. It is durable, safe from power loss, after `flush` or `close`.
        """
        self._put(id, frames, meta, options, replaces=False)

    @explain_keywords()
    def replace(
        self,
        id: str,  # noqa: A002
        frames: Any,
        meta: Mapping[str, Any] | None = None,
        **options: Unpack[FrameOptions],
    ) -> None:
        """Replace a clip by another with the same id, in the same place.

        Parameters
        ----------
        id : str
            Name of the clip.
        frames : array_like, iterable or clip
            As for `append`.
        meta : mapping, optional
            JSON values to store with the clip; those of the old one are not kept.
        codec, preset, quality, subsampling, crf, gop, encoder : optional
            As in `create`, for this clip only.

        Raises
        ------
        NotFoundError
            No clip has this id.
        TypeError, ValueError, FormatError, UnsupportedError, OSError, LockedError
            As for `append`.

        Notes
        -----
        Changes, and clips that are appended after one, are written by `flush` and `close`, all of
        them at once. If a ``with`` block ends by an exception, the changes since the last `flush`
        are forgotten. Readers see the old clips until they `refresh`.
        """
        self._put(id, frames, meta, options, replaces=True)
        self._clips.pop(id, None)

    def __delitem__(self, key: str) -> None:
        """Remove a clip; see the notes of `replace`. The others keep their order.

        `close` gives its bytes back to the file system, if no other handle has the file open;
        `bloscpack.compact` does so in any case.

        Raises
        ------
        NotFoundError
            No clip has this id.
        """
        self._open_writer().remove(key)
        self._clips.pop(key, None)

    def rename(self, old: str, new: str) -> None:
        """Give a clip another id; it keeps its place. See the notes of `replace`.

        Raises
        ------
        NotFoundError
            No clip has the id `old`.
        ValueError
            A clip has the id `new`.
        """
        self._open_writer().change(old, rename=new)
        self._clips.pop(old, None)

    def _set_meta(self, id: str, ordinal: int, meta: Mapping[str, Any]) -> int:  # noqa: A002
        """Replace the metadata of a clip, and return its new ordinal."""
        return self._open_writer().change(id, ordinal, meta=meta)

    def _put(
        self,
        id: str,  # noqa: A002
        frames: Any,
        meta: Mapping[str, Any] | None,
        options: FrameOptions,
        *,
        replaces: bool,
    ) -> None:
        writer = self._open_writer()
        encoding = self._options().replace(**options)
        for name, needed in _CODEC_OF.items():
            if options.get(name) is not None and encoding.codec != needed:
                raise ValueError(f"{name} needs codec={needed!r}")
        if brought := meta_of(frames):
            meta = {**brought, **(meta or {})}
        if is_clip(frames):
            kept = Kept.of(**options)
            self._append_clip(id, frames, meta, encoding, kept, replaces=replaces)
        else:
            writer.append(id, frames, meta, encoding, self.nthreads, replaces=replaces)

    def _append_clip(
        self,
        id: str,  # noqa: A002
        clip: Clip,
        meta: Mapping[str, Any] | None,
        options: Options | None = None,
        kept: Kept = ALL_KEPT,
        *,
        replaces: bool = False,
    ) -> None:
        """Append a clip of any source, encoded as it is where that is `kept`."""
        writer = self._open_writer()
        video = as_video(clip) if kept.video else None
        if video is not None:
            writer.append_encoded(id, video._stored(meta or {}), replaces=replaces)
            return
        frames = frames_of(clip, keep=kept.images)
        options = options or self._options()
        writer.append(id, frames, meta, options, self.nthreads, replaces=replaces)

    def append_video(
        self,
        id: str,  # noqa: A002 - the natural name
        source: Path | BytesLike | BinaryIO,
        meta: Mapping[str, Any] | None = None,
        *,
        max_gop: int = 32,
        recode: bool = False,
        crf: float | None = None,
        gop: int | None = None,
        encoder: VideoEncoder | None = None,
        preset: FramePreset | None = None,
    ) -> None:
        """Append a video, with its coded packets as they are.

        Each chunk is a closed group of pictures: a key frame and the frames up to the next one. So
        reading a frame decodes a part of its group, and no other.

        Parameters
        ----------
        id : str
            Name of the clip: any text that no other clip has.
        source : str, PathLike, bytes or binary file
            A video in H.264, H.265, VP9 or AV1, in any file that FFmpeg reads. Other tracks, such
            as sound, are left out.
        meta : mapping, optional
            As for `append`; without ``"fps"`` the average rate of the file is added.
        max_gop : int, default 32
            Largest number of frames of a group, at most 255.
        recode : bool, default False
            Encode the frames again, if the packets cannot be kept: with `crf`, `gop`, `encoder`
            and `preset`, as in `create`. The times of the frames are kept.

        Raises
        ------
        UnsupportedError
            The packets cannot be kept: a group is open or too long, frames have no times, the size
            changes. The message says why, and nothing was changed.
        FormatError
            The file is not a video, or it is damaged; nothing was changed.
        ImportError
            PyAV is missing, which ``bloscpack[video]`` installs.
        TypeError, ValueError, OSError, LockedError
            As for `append`.

        Notes
        -----
        The video is decoded twice: group by group, as readers do, and from its start. Every frame
        of both is compared.
        """
        writer = self._open_writer()
        options = self._options().replace(
            codec="video", crf=crf, gop=gop, encoder=encoder, preset=preset
        )
        if not recode and (crf, gop, encoder, preset) != (None, None, None, None):
            raise ValueError(
                "crf, gop, encoder and preset are for recode=True, which encodes frames"
            )
        made = recoded(source, meta, options) if recode else None
        with made or nullcontext(EncodedVideo(source, meta, max_gop)) as video:
            writer.append_encoded(id, video)
            for note in video.notes:
                notice("%s: clip %.80r: %s", self.name, id, note)

    def _append_encoded(self, id: str, clip: EncodedClip) -> None:  # noqa: A002
        """Append a clip that was encoded elsewhere by an `Encoder` of the same release."""
        self._open_writer().append_encoded(id, clip)

    def flush(self) -> None:
        """Write all changes, make them and all appended clips durable, and merge the index.

        Raises
        ------
        UnsupportedError
            The store is being written to a URL, where it appears when it is closed.
        """
        writer = self._open_writer()
        if self._upload is not None:
            refuse_flush(self._upload.name)
        writer.flush()

    def refresh(self) -> None:
        """Read the current state of the file: clips appended, replaced and removed since.

        Clips that were obtained before read the state of the store that they are of.

        Raises
        ------
        FileChangedError
            The file was replaced: open it again.
        OSError
            The file is missing.
        """
        self._check_open()
        if self._writer is not None:
            return
        source = self._source.replacement()
        if source is None:
            source = self._source
            if not source.is_live or source.size() == self._index.size:
                return
        with errors_at(self.name):
            front, index = _continued(self._source, source, self._front, self._index)
        # Clips returned earlier keep reading the old file and index.
        self._source, self._front, self._index, self._clips = source, front, index, {}

    def close(self) -> None:
        """Close the store and make all appended clips durable; idempotent.

        For a URL this uploads the store; if the upload fails, no object is created.
        """
        is_open, self._is_open = self._is_open, False
        try:
            if self._writer is not None and is_open:
                self._writer.close()
                if self._upload is not None:
                    self._upload.commit()
        finally:
            self._source.close()
            if self._upload is not None:
                self._upload.discard()

    def __exit__(self, *exc: object) -> None:
        if self._upload is not None and any(exc):
            self._upload.discard()  # an upload appears whole or not at all
            self._upload = None
        if self._writer is not None and self._writer.is_late and any(exc):
            self._writer.abandon()  # the store that was to be replaced stays
        if self._writer is not None and any(exc):
            self._writer.rollback()
        # A clip is appended whole or not at all, so the clips in the file stay.
        self.close()

    def __del__(self) -> None:
        # After a failed __init__ there may be no attributes.
        writer = getattr(self, "_writer", None)
        # A forked child has a copy of the store; the parent will close it.
        if writer is None or not self._is_open or not writer.is_mine:
            return
        outcome = "its clips are in the file, but were not synced"
        if writer.has_changes:
            outcome = "its changes are lost"
        if self._upload is not None or writer.is_late:
            outcome = "nothing was sent" if self._upload is not None else "nothing was replaced"
        try:
            warn_unclosed("frame store", str(self.name), outcome, self)
        finally:
            self._is_open = False
            writer.abandon()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the place and the identity of the file, not as its content."""
        return _reopen, (self._place(), self._state, self.verify, self.nthreads, self.exact)

    def _place(self) -> Any:
        """Return the place that opens the file in another process (`ByteSource.place`).

        TypeError if it is a file object, which belongs to its process, or is open for appending.
        """
        self._check_open()
        if self._writer is not None:
            raise TypeError(
                "a store open for appending cannot be pickled or copied: open it by its path"
            )
        place = self._source.place(FRONT_NBYTES)
        if place is None:
            raise TypeError(
                "a store read from a file object cannot be pickled or copied: open it by its path, "
                "or from its bytes"
            )
        return place

    def __repr__(self) -> str:
        state = "" if self._is_open else " (closed)"
        return f"<bloscpack.frames.FrameStore {self.name!r} of {len(self)} clips{state}>"

    def _check_open(self) -> None:
        """Raise if the store is closed."""
        if not self._is_open:
            raise ValueError("I/O operation on a closed frame store: open the file again")

    def _open_writer(self) -> StoreWriter:
        self._check_open()
        if self._writer is None:
            raise ValueError("the store is open for reading; open it with mode 'a' to append")
        return self._writer


def open_parts(path: Path) -> FrameStore:
    """Open a store to remove and rename its clips."""
    return FrameStore(path, "a")


# Stored bytes compared at the start of the first and last clip; the full digests are in the index.
_LOOK_NBYTES = 64


def _identity_of(source: ByteSource, front: Front, index: Index) -> bytes:
    """Return a digest that identifies a state of a store.

    It covers the header, the end of the index, and the version that the storage reports; without
    one, the beginning of the first and the last clip.
    """
    parts = [front.head[: front.header.size], index.segments[-1].tail.pack()]
    if version := source.identity():
        parts.append(version.encode())  # more reliable, and needs no request
    elif index.nclips:
        places = (index.offset_of(index.ordinals[number]) for number in (0, -1))
        parts += [bytes(source.read_at(place, _LOOK_NBYTES)) for place in places]
    return xxh3_128_digest(b"".join(parts))


def _as_of(source: ByteSource, end: int, identity: bytes) -> tuple[Front, Index]:
    """Return front and index of a store as of the time when its index ended at `end`.

    FileChangedError if the file was replaced or truncated.
    """
    try:
        front = Front(source)
        index = Finder(source, end).find_at(end) if end <= source.size() else None
        if index is not None and _identity_of(source, front, index) == identity:
            return front, index
    except (FormatError, UnsupportedError):
        pass  # it was a valid store when the handle was made
    raise FileChangedError("the file was replaced or truncated since it was opened; open it again")


def _continued(
    opened: ByteSource, source: ByteSource, front: Front, index: Index
) -> tuple[Front, Index]:
    """Return front and index of the current store, which must be a continuation of `index`."""
    front, before = _as_of(source, index.end, _identity_of(opened, front, index))
    later = Finder(source, source.size()).find()
    # If a later index is damaged, the last intact one may be older than that of the open store.
    return front, later if later.total >= before.total else before


def _reopen(
    place: Any,
    state: tuple[int, bytes],
    verify: bool,
    nthreads: int | None,
    exact: bool,
) -> FrameStore:
    """Return the pickled store, reopened in the same state, without clips appended since."""
    source = open_source(place)
    return FrameStore._over(source, state, verify=verify, nthreads=nthreads, exact=exact)
